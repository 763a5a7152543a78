"""What is said of an exception that came out of a learner's code, its type, its text, and the learner's own line; and of code that
does not end.
"""

import contextvars
import ctypes
import linecache
import signal
import sys
import sysconfig
import textwrap
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

from .compare import OffLimits
from .random_inputs import secret

NOT_JUDGED = "Nothing is judged."
"""How a message ends that is about no mistake of the learner's: it counts no try."""
check_cell = ""
"""The file of the check that runs: a cell as well, but none of the learner's."""
SPEAKS, ENDS = 2, 60  # seconds
STACK = 1 << 26  # bytes: a thread's own is too small for deep programs, on macOS by far
LIBRARIES = (sysconfig.get_path("stdlib"), str(Path(__file__).resolve().parents[1]), "<frozen")


class Unclear(Exception):
    """A sentence for the learner."""


class Changed(Unclear):
    """An answer changes, in place, what it is given, and gives this value."""

    def __init__(self, value):
        self.value = value
        super().__init__("the answer changes an argument in place: work on a copy")


def sentence(name: str, error: Exception) -> str:
    """A sentence without its full stop.

    name  the call that raised it, as the learner would write it, or the answer's name
    """
    if getattr(error, "ours", False):  # of the process that answers run in, and no exception of the learner's
        return f"{name}: {error}"
    said = f"{name} raised {kind(error)}: {text(error)}".rstrip(": ").rstrip(".") + own_line(error)
    if unnamed(error):
        said = f"{said}. If a cell above defines {error.name}, run that one first. {NOT_JUDGED[:-1]}"
    return said


def kind(error: BaseException) -> str:
    """The type of an exception; one that Python or JAX has where numbers are secret: others may be named after them."""
    known = ("builtins", "jax") if _sealed(error) else ("",)
    return next((c.__name__ for c in type(error).__mro__ if c.__module__.startswith(known)), "Exception")


def text(error: BaseException) -> str:
    """What an exception says; nothing if an answer says it where numbers are secret: it may tell those of another check."""
    return "" if _sealed(error) else first_line(error)


def _sealed(error: BaseException) -> bool:
    return getattr(error, "by_graded_answer", False) and secret() != ""


def unnamed(error: BaseException) -> bool:
    """Whether an answer reads a name that this kernel does not know: a slip, or an earlier answer whose cell has not run yet."""
    return type(error) is NameError and bool(error.name)


def own_line(error: BaseException) -> str:
    """ ", at line 3: `…`": the last line of the learner's own cells that was at work; "" if there is none."""
    return at_line(*last_own_line(error, in_call=False))


def line_at_work(frame) -> str:
    """The same, of a thread whose innermost frame this is."""
    found = 0, ""
    while frame and frame.f_code is not called.__code__:
        if not found[0] and _is_cell(frame.f_code.co_filename):
            found = frame.f_lineno, linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        frame = frame.f_back
    return at_line(*found) if frame else ""


def at_line(number: int, text: str) -> str:
    return f", at line {number}: `{textwrap.shorten(text, 120, placeholder=' …')}`" if text else ""


def last_own_line(error: BaseException, in_call: bool = True) -> tuple[int, str]:
    """(its number, its text) of the last line of a learner's cell that was at work; an exception from elsewhere brings them along.

    in_call  look from the start of the traceback; otherwise under `called` only, since a check is a cell as well
    """
    if known := getattr(error, "own_line", None):
        return known
    found, tb = (0, ""), error.__traceback__
    while tb:
        code = tb.tb_frame.f_code
        in_call = in_call or code is called.__code__
        text = in_call and _is_cell(code.co_filename) and linecache.getline(code.co_filename, tb.tb_lineno).strip()
        found = (tb.tb_lineno, text) if text else found
        tb = tb.tb_next
    return found


def _is_cell(file: str) -> bool:
    """Whether code stands in a cell of a notebook: IPython gives each a file of its own, graders call it <…>."""
    return file.startswith("<") and not file.startswith("<frozen") or "ipykernel_" in file or "ipython-input-" in file


def called(answer, args, kwargs):
    """What the answer gives: a call that stands in the traceback, so that what is raised below it is the learner's."""
    try:
        return answer(*args, **kwargs)
    except StopIteration:  # would end a `map` of the check, silently
        raise RuntimeError("StopIteration") from None


class Late(BaseException):
    """An answer has not ended in time, which no `except Exception` of its own keeps."""


@contextmanager
def limited(seconds: int = 60):
    """End what is called inside after so many seconds, where that is possible: on the main thread of a system with alarms."""
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not alarms or any(signal.getitimer(signal.ITIMER_REAL)):  # somebody waits already
        yield
        return

    def late(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Late as e:
        raise Unclear(f"the answer has not ended after {seconds} s{own_line(e)}: does a loop never end?") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def brief(f: Callable, lines: int = 1_000_000, total_lines: int = 8_000_000) -> Callable:
    """f, which raises after so many lines outside of packages, of a call or in all: over arguments that nobody chose a loop may never end.

    Lines and not seconds, so that a busy machine tells the same; 8 million that do nothing else take 3 s.
    """
    ran = count()

    def counted(**args):
        before, last = sys.gettrace(), min(next(ran) + lines, total_lines)

        def look(frame, event, _):
            if next(ran) > last:
                raise TimeoutError
            return None if "-packages" in frame.f_code.co_filename else look

        sys.settrace(look)
        try:
            return f(**args)
        finally:
            sys.settrace(before)

    return counted


class Watched:
    """A check under way where somebody waits for it: after two seconds it says so, after a minute it ends.

    It runs in a thread of its own: while that is in compiled code, only another one can speak, and give up.
    """

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
        """What check() gives; Unclear if it does not end, KeyboardInterrupt if somebody stops it, both with the line that was at work."""
        try:
            self._wait()
        except KeyboardInterrupt:
            self._stop(KeyboardInterrupt)
        finally:
            if self.said:
                self.said.update({"text/plain": ""}, raw=True)
        if isinstance(self.raised, Late):
            who = "Your function" if (line := own_line(self.raised)) else "The check"
            raise Unclear(f"{who} has not ended after a minute{line}: does a loop never end?")
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
        raise Unclear(f"Your function cannot be stopped{line}: restart the kernel, which ends it; what you wrote stays")


def by_answer(error: BaseException) -> bool:
    """Whether an exception is the answer's: a line of its own was at work, or the call itself failed.

    What a library raises under an answer without one, or in a rule that looks at a result, is not.
    """
    if hasattr(error, "own_line") or getattr(error, "ours", False):  # of the process that answers run in
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    at = next((i for i, frame in enumerate(frames) if frame.f_code is called.__code__), None)
    if at is None:  # a check may call it by itself
        return any(_is_cell(f.f_code.co_filename) and f.f_code.co_filename != check_cell for f in frames)
    return at == len(frames) - 1 or any(not _in_library(f) for f in frames[at + 1 :])


def _in_library(frame) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(LIBRARIES) or "site-packages" in file or "dist-packages" in file


def undone(error: BaseException) -> bool:
    """Whether an answer says itself that it is not done; a library that has something not yet says what."""
    if not isinstance(error, NotImplementedError):
        return False
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return not str(error) or hasattr(error, "own_line") or not _in_library(last)


def is_ours(error: BaseException) -> bool:
    """Whether an exception has a sentence of ours, or says that the answer is not done: it is told as it is."""
    return undone(error) or isinstance(error, (OffLimits, Unclear)) or getattr(error, "ours", False)


def of_machine(error: BaseException) -> bool:
    """Whether no value of an answer can lead to this: the check or the machine lacks something."""
    of_module = isinstance(getattr(error, "obj", None), ModuleType)
    kinds = NameError, ImportError, OSError, MemoryError
    return isinstance(error, kinds) or of_module or type(error).__name__ == "JaxRuntimeError"


def unjudged(error: BaseException) -> str:
    """What is said of an exception that is not the answer's."""
    what = f"{type(error).__name__}: {first_line(error)}".rstrip(": ").rstrip(".")
    return f"This could not be checked, and no line of yours was at work: {what}. {NOT_JUDGED}"


def attempt(run, name: str) -> tuple:
    """(value, "") or (None, a sentence), whatever a learner's code may raise."""
    try:
        return run(), ""
    except (OffLimits, Unclear) as e:
        return None, f"{e}."
    except Exception as e:
        if undone(e):
            return None, f"{name} is not done yet."
        return None, f"{sentence(name, e)}." if by_answer(e) else unjudged(e)


def first_line(error: BaseException) -> str:
    return textwrap.shorten((str(error).splitlines() or [""])[0], 200, placeholder=" …")
