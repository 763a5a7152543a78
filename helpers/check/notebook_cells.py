"""In a notebook: what the number under a check is, and which names stand for an older answer, because the cell that defines
them ended badly since.

IPython tells after each cell how it ended. A check that uses such a name judges nothing, for it would judge what the cell was
before; nothing that the learner sees there would be about what the learner wrote.
"""

import re
import sys
from collections.abc import Iterable

from .raised import first_line, last_own_line

DEFINES = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *(?::[^=\n]+)?=(?!=)", re.M)

_broken: dict[str, str] = {}


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
        shell.events.register("post_run_cell", ended)


def ended(result) -> None:
    """A cell has ended: note what it leaves behind undefined, or defines anew."""
    defined = names(result.info.raw_cell or "")
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        for name in defined:
            _broken.pop(name, None)
        return
    _broken.update(dict.fromkeys(defined, f"{type(error).__name__}: {_text(error)}"))


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        line = f", at line {error.lineno}: `{error.text.strip()}`" if error.text else ""
        return f"{error.msg}{line}"
    number, text = last_own_line(error)
    return first_line(error) + (f", at line {number}: `{text}`" if text else "")


def broken(used: Iterable[str]) -> str:
    """A sentence on the first of these names whose cell ended badly; "" if there is none."""
    name = next((n for n in used if n in _broken), None)
    if name is None:
        return ""
    return f"The cell that defines {name} ended with {_broken[name]}. Nothing is judged: mend that cell, run it, then this one."


class Points(float):
    """The value of a check cell, which nbgrader reads as text; a notebook says what the number is.

    >>> Points(3), Points(0.25), Points(3)._repr_html_()
    (3, 0.25, '<small>3 points: the number that grading reads</small>')
    """

    def __repr__(self) -> str:
        return f"{self:g}"

    def _repr_html_(self) -> str:
        return f"<small>{self:g} {'point' if self == 1 else 'points'}: the number that grading reads</small>"
