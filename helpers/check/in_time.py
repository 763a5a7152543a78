"""A check under way where somebody waits for it: after two seconds it says so, after a minute it ends.

It runs in a thread of its own: while that is in compiled code, only another one can speak, and give up.
"""

import contextvars
import ctypes
import sys
import threading
import time
from collections.abc import Callable

from . import compare
from .progress import attended
from .raised import Late, Unclear, line_at_work, own_line

SPEAKS, ENDS = 2, 60  # seconds
STACK = 1 << 26  # bytes: a thread's own is too small for deep programs, on macOS by far


def in_time(check: Callable):
    """What check() gives; Unclear if it does not end, KeyboardInterrupt if somebody stops it, both with the line that was at work."""
    return _Watched(check).result() if attended() else check()


class _Watched:
    """A check in its thread."""

    def __init__(self, check: Callable):
        self.gave, self.raised, self.said, self.seconds = None, None, None, 0
        self.ended = threading.Event()  # an interrupted `join` takes a thread for ended (Python 3.11)
        before = threading.stack_size(STACK)
        self.thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run, check), daemon=True)
        self.begun, self.used = time.monotonic(), time.process_time()
        self.thread.start()
        threading.stack_size(before)

    def _run(self, check: Callable) -> None:
        try:
            self.gave = check()
        except BaseException as e:
            self.raised = e
        finally:
            self.ended.set()

    def result(self):
        try:
            self._wait()
        except KeyboardInterrupt:
            self._stop(KeyboardInterrupt)
        finally:
            if self.said:
                self.said.update({"text/plain": ""}, raw=True)
        if isinstance(self.raised, Late):
            line = own_line(self.raised)
            raise Unclear(
                f"{'Your function' if line else 'The check'} has not ended after a minute{line}: does a loop never end?"
            )
        if self.raised is not None:
            raise self.raised
        return self.gave

    def _wait(self) -> None:
        while not self.ended.wait(0.2):
            wall, busy = time.monotonic() - self.begun, time.process_time() - self.used
            # A busy machine is no fault, so the minute is one of the processor, but for those who sleep.
            if wall >= ENDS and not 1 < busy < ENDS or wall >= 10 * ENDS:
                return self._stop(Late)
            if wall >= max(SPEAKS, self.seconds + 1):
                self.seconds = int(wall)
                self._say()

    def _say(self) -> None:
        """One line below the check, written anew every second."""
        from IPython.display import display

        line = self._line()
        text = {"text/plain": f"{'running your function' if line else 'checking'}, {self.seconds} s{line} …"}
        if self.said is None:
            self.said = display(text, raw=True, display_id=True)
        else:
            self.said.update(text, raw=True)

    def _line(self) -> str:
        return line_at_work(sys._current_frames().get(self.thread.ident))

    def _stop(self, kind: type[BaseException]) -> None:
        """End the thread by an exception, which meets it between two steps of Python; what never comes to one is left behind."""
        line = self._line()
        for _ in range(3):  # an answer may hold one back
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident), ctypes.py_object(kind))
            if self.ended.wait(1):
                return
        compare.reopen()
        raise Unclear(f"Your function cannot be stopped{line}: restart the kernel, which ends it; what you wrote stays")
