"""What is said of an exception that came out of a learner's code: its type, its text, and the learner's own line."""

import linecache
import signal
import sysconfig
import textwrap
import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from .compare import OffLimits
from .random_inputs import secret

NOT_JUDGED = "Nothing is judged."
"""How a message ends that is about no mistake of the learner's: it counts no try."""
check_cell = ""
"""The file of the check that runs: a cell as well, but none of the learner's."""
LIBRARIES = (sysconfig.get_path("stdlib"), str(Path(__file__).resolve().parents[1]), "<frozen")


class Unclear(Exception):
    """A sentence for the learner."""


class Changed(Unclear):
    """An answer changes, in place, what it is given, and gives this value."""

    def __init__(self, value):
        self.value = value
        super().__init__("the answer changes what it is given, which whoever calls it still needs: work on a copy")


def raised(called: str, e: Exception) -> str:
    """A sentence without its full stop.

    called  the call that raised it, as the learner would write it, or the answer's name
    """
    if getattr(e, "ours", False):  # of the process that answers run in, and no exception of the learner's
        return f"{called}: {e}"
    said = f"{called} raised {kind(e)}: {text(e)}".rstrip(": ").rstrip(".") + own_line(e)
    return f"{said}. If a cell above defines {e.name}, run that one first. {NOT_JUDGED[:-1]}" if unnamed(e) else said


def kind(e: BaseException) -> str:
    """The type of an exception; one that Python or JAX has where numbers are secret: others may be named after them."""
    known = ("builtins", "jax") if _sealed(e) else ("",)
    return next((c.__name__ for c in type(e).__mro__ if c.__module__.startswith(known)), "Exception")


def text(e: BaseException) -> str:
    """What an exception says; nothing if an answer says it where numbers are secret: it may tell those of another check."""
    return "" if _sealed(e) else first_line(e)


def _sealed(e: BaseException) -> bool:
    return getattr(e, "by_graded_answer", False) and secret() != ""


def unnamed(e: BaseException) -> bool:
    """Whether an answer reads a name that this kernel does not know: a slip, or an earlier answer whose cell has not run yet."""
    return type(e) is NameError and bool(e.name)


def own_line(e: BaseException) -> str:
    """ ", at line 3: `…`": the last line of the learner's own cells that was at work; "" if there is none."""
    return _at(*last_own_line(e, inside=False))


def line_at_work(frame) -> str:
    """The same, of a thread whose innermost frame this is."""
    found = 0, ""
    while frame and frame.f_code is not called.__code__:
        if not found[0] and _is_cell(frame.f_code.co_filename):
            found = frame.f_lineno, linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        frame = frame.f_back
    return _at(*found) if frame else ""


def _at(number: int, text: str) -> str:
    return f", at line {number}: `{textwrap.shorten(text, 120, placeholder=' …')}`" if text else ""


def last_own_line(e: BaseException, inside: bool = True) -> tuple[int, str]:
    """(its number, its text) of the last line of a learner's cell that was at work; an exception from elsewhere brings them along.

    inside  look from the start of the traceback; otherwise under `called` only, since a check is a cell as well
    """
    if known := getattr(e, "own_line", None):
        return known
    found, tb = (0, ""), e.__traceback__
    while tb:
        code = tb.tb_frame.f_code
        inside = inside or code is called.__code__
        if (
            inside
            and _is_cell(code.co_filename)
            and (text := linecache.getline(code.co_filename, tb.tb_lineno).strip())
        ):
            found = tb.tb_lineno, text
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


def by_answer(e: BaseException) -> bool:
    """Whether an exception is the answer's: a line of its own was at work, or the call itself failed.

    What a library raises under an answer without one, or in a rule that looks at a result, is not.
    """
    if hasattr(e, "own_line") or getattr(e, "ours", False):  # of the process that answers run in
        return True
    frames = [frame for frame, _ in traceback.walk_tb(e.__traceback__)]
    at = next((i for i, frame in enumerate(frames) if frame.f_code is called.__code__), None)
    if at is None:  # a check may call it by itself
        return any(_is_cell(f.f_code.co_filename) and f.f_code.co_filename != check_cell for f in frames)
    return at == len(frames) - 1 or any(not _in_library(f) for f in frames[at + 1 :])


def _in_library(frame) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(LIBRARIES) or "site-packages" in file or "dist-packages" in file


def undone(e: BaseException) -> bool:
    """Whether an answer says itself that it is not done; a library that has something not yet says what."""
    if not isinstance(e, NotImplementedError):
        return False
    *_, (last, _) = traceback.walk_tb(e.__traceback__)
    return not str(e) or hasattr(e, "own_line") or not _in_library(last)


def of_machine(e: BaseException) -> bool:
    """Whether no value of an answer can lead to this: the check or the machine lacks something."""
    kinds = NameError, ImportError, OSError, MemoryError
    return (
        isinstance(e, kinds) or isinstance(getattr(e, "obj", None), ModuleType) or type(e).__name__ == "JaxRuntimeError"
    )


def unjudged(e: BaseException) -> str:
    """What is said of an exception that is not the answer's."""
    what = f"{type(e).__name__}: {first_line(e)}".rstrip(": ").rstrip(".")
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
        return None, f"{raised(name, e)}." if by_answer(e) else unjudged(e)


def first_line(e: BaseException) -> str:
    return textwrap.shorten((str(e).splitlines() or [""])[0], 200, placeholder=" …")
