"""In a notebook: which names a check reads, and which of them stand for an older answer, because the
cell that defines them ended badly since, or defines something else now.

The course's names are made anew for each check, whatever a learner's kernel has, and the answers are the learner's:
notebooks/given_cells.json holds what the released notebooks give, by chapter and by exercise, a statement at a time.

IPython tells before and after each cell. A check that uses such a name judges nothing, for it would judge what the cell was before;
nothing that the learner sees there would be about what the learner wrote. A cell is known by the id that JupyterLab sends along.
"""

import builtins
import dis
import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from .raised import NOT_JUDGED, at_line, first_line, last_own_line

DEFINES = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *(?::[^=\n]+)?=(?!=)", re.M)

CELLS = Path(__file__).resolve().parents[2] / "notebooks/given_cells.json"

_broken: dict[str, str] = {}
_makers: dict[str, str] = {}  # name -> id of the cell that defined it last
_gone: dict[str, str] = {}  # name -> what that cell does now that it does not define it any more
_before: dict[str, int] | None = None  # name -> its value's id, before the cell that runs


def names(source: str) -> set[str]:
    """What a cell would define at its top level, even if it is no Python.

    >>> sorted(names("def f(x)\\n    return x\\n\\nspeed = 3\\nif speed == 4: pass"))
    ['f', 'speed']
    """
    return {a or b for a, b in DEFINES.findall(source)}


def notebook():
    """IPython's shell, if this is a notebook, else None."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def watch() -> None:
    """Have IPython tell of each cell, if this is a notebook."""
    shell = notebook()
    if shell is not None and not getattr(shell, "_checks_watch", False):
        shell._checks_watch = True
        shell.events.register("pre_run_cell", begun)
        shell.events.register("post_run_cell", ended)
        if before := getattr(shell, "last_execution_result", None):  # an answer that ran before the first check
            ended(before)


def begun(_) -> None:
    """A cell begins: note what the names mean."""
    global _before
    _before = {name: id(value) for name, value in notebook().user_ns.items()}


def ended(result) -> None:
    """A cell has ended: note what it leaves behind undefined, or defines anew."""
    source, cell = result.info.raw_cell or "", getattr(result.info, "cell_id", None)
    written, error = names(source), result.error_before_exec or result.error_in_exec
    before = {name for name, maker in _makers.items() if cell and maker == cell}
    if error is not None:
        _broken.update(dict.fromkeys(written | before, f"{type(error).__name__}: {_text(error)}"))
        return
    made = _made()
    for name in made | written | before:
        _broken.pop(name, None)
        _gone.pop(name, None)
    _makers.update(dict.fromkeys(made, cell))
    _gone.update(dict.fromkeys(before - made, does(source)))


def _made() -> set[str]:
    """Names that the cell has given a value, by what they mean now: `%%time` runs the text below it, `%%writefile` does not."""
    now = getattr(notebook(), "user_ns", {}) if _before is not None else {}
    return {name for name, value in now.items() if name[0] != "_" and _before.get(name) != id(value)}


def does(source: str) -> str:
    """What a cell does, in place of defining what is asked for.

    >>> does("def my_bounds(x):\\n    return x"), does("%%writefile a.py\\ndef bounds(x): pass"), does("# bounds")
    ('defines my_bounds', 'begins with %%writefile', 'defines nothing')
    """
    if source.lstrip().startswith("%%"):
        return f"begins with {source.split()[0]}"
    functions = [function for function, _ in DEFINES.findall(source) if function]
    return f"defines {' and '.join(functions[:3]) or 'nothing'}"


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.msg}{at_line(error.lineno, (error.text or '').strip())}"
    return first_line(error) + at_line(*last_own_line(error))


def broken(names: Iterable[str]) -> str:
    """A sentence on the first of these names whose cell ended badly, or defines something else now; "" if there is none."""
    for name in names:
        if name in _broken:
            return f"The cell that defines {name} ended with {_broken[name]}. {NOT_JUDGED[:-1]}: mend that cell, run it, then this one."
        if name in _gone:
            return f"The cell that defined {name} {_gone[name]} now; the check calls {name}. {NOT_JUDGED}"
    return ""


def missing(name: str) -> str:
    """A sentence on a name that no cell has defined; what ran before the check may have another."""
    history = getattr(getattr(notebook(), "history_manager", None), "input_hist_raw", [])
    last = history[-2] if len(history) > 2 else ""
    if name not in names(last) and "check.exercise(" not in last and (now := does(last)) != "defines nothing":
        return f"The cell that ran last {now}; the check calls {name}. {NOT_JUDGED}"
    return f"The check calls {name}, which no cell has defined without an error: run the cell above, then this one. {NOT_JUDGED}"


def judged(answers: list[str], cell: str) -> None:
    """A check uses these answers, of which one that was defined before this module watched is of the check's own cell."""
    if len(answers) == 1:
        _makers.setdefault(answers[0], cell)


class Points(float):
    """The value of a check cell, which nbgrader reads as text.

    >>> Points(3), Points(0.25)
    (3, 0.25)
    """

    def __repr__(self) -> str:
        return f"{self:g}"


@cache
def _cells() -> dict[str, list[str]]:
    # Where helpers stand alone, the kernel's names have to do.
    return json.loads(CELLS.read_text(encoding="utf-8")) if CELLS.exists() else {}


def given(check: str) -> tuple[dict[str, object], dict[str, Exception]]:
    """What the course gives to a check, by the name of its function; and of statements that fail here, why, by the names they make.

    >>> sorted(given("ch01_q21_check")[0].keys() & {"A100", "math", "PROGRAMS"}), given("another")
    (['A100', 'math'], ({}, {}))
    """
    found, scope, failed = re.match(r"(ch\d\d)_(q\d\d)_", check), {"__name__": "__main__"}, {}
    for key in (found[1], f"{found[1]}-{found[2]}") if found else ():
        for statement in _cells().get(key, ()):
            try:
                exec(compile(statement, str(CELLS), "exec"), scope)
            except Exception as e:  # JAX has started with too few devices, or a package is not here
                failed |= dict.fromkeys(re.findall(r"\w+", statement), e)
    return {name: value for name, value in scope.items() if not name.startswith("__")}, failed


def read_by(code: CodeType) -> set[str]:
    """Global names that a function reads, those of the functions within it too.

    >>> sorted(read_by((lambda f: [f(x) + a for x in b.c]).__code__))
    ['a', 'b']
    """
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*(read_by(c) for c in code.co_consts if isinstance(c, CodeType)))


def apart(cell: Callable) -> tuple[Callable, list[str]]:
    """A check that reads the course's names and its answers, and nothing else of the learner's; and those answers.

    An exception says why something that the check reads cannot be made here.
    """
    ours, failed = given(cell.__name__)
    answers = sorted(read_by(cell.__code__) - ours.keys() - vars(builtins).keys())
    if why := next((failed[n] for n in answers if n in failed), None):
        raise why
    theirs = cell.__globals__
    bring(ours, theirs)
    scope = ours | {name: theirs[name] for name in (*answers, "__name__", "__builtins__") if name in theirs}
    return FunctionType(cell.__code__, scope, cell.__name__, cell.__defaults__, cell.__closure__), answers


def bring(course_values: dict[str, object], kernel: dict[str, object]) -> None:
    """Put what the course gives into a kernel that lacks it, because answers use it too."""
    for name, value in course_values.items():
        kernel.setdefault(name, value)
