"""Numbers in prose, computed: `{{ expression | format }}` in a source becomes the figure.

The expression is Python over `helpers.costs`, `helpers.study_time`, `math` and `results("name")`, a file of book/results.
A line `% let name = expression` names something for the rest of the file.
The format is one of `helpers.show` (seconds, bytes, ibytes, flops, flops_rate, rate, sci), with a number of digits if three are
too many (`seconds 2`), or a Python format spec such as `.1f`.  A unit is given as a person would say it: 45 GB/s, not 45.0 GB/s.
Code between fences is left alone.

>>> render("% let v5e = chip('v5e')\\nA v5e does {{ v5e.rate() | flops_rate }}; C/W is {{ v5e.alpha_hbm() | .0f }}.\\n")
'A v5e does 197 TFLOPs/s; C/W is 243.\\n'
"""

import json
import math
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.time_and_intensity import exp_rate, exp_share

from . import show, study_time
from .costs import attention, inference, racks, rooflines, sharding, training, transformers

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_LET = re.compile(r"^% let (\w+) = (.+)$")
_NUMBER = re.compile(r"\{\{(.+?)\}\}")
_UNIT = re.compile(r"^(seconds|bytes|ibytes|flops|flops_rate|rate|sci)(?: (\d))?$")
_ZEROS = re.compile(r"(\.\d*?)0+(?= )")


def results(name: str) -> dict:
    """What was measured once and stored in book/results, with its command, date, machine and versions."""
    stored = Path(__file__).parents[1] / f"book/results/{name}.json"
    return json.loads(stored.read_text(encoding="utf-8"))


def names() -> dict:
    """What expressions may use: every module of `helpers.costs` by name, and what stands in them, attention's apart.

    Functions of attention are called `naive`, `ring`, `decode`, so their module stands before them.
    Where two things have a name, a function stays before a module, and that of the earlier chapter before the other.
    """
    rooms = racks, inference, training, transformers, sharding, rooflines
    found = {name: m for room in (attention, *rooms) for name, m in modules_of(room).items()}
    for room in rooms:
        for module in modules_of(room).values():
            found |= {k: v for k, v in vars(module).items() if not k.startswith("_") and not isinstance(v, ModuleType)}
    return found | {
        "math": math,
        "results": results,
        "study_time": study_time,
        "Attention": Attention,
        "exp_rate": exp_rate,
        "exp_share": exp_share,
    }


def modules_of(room: ModuleType) -> dict[str, ModuleType]:
    """The modules of a room of `helpers.costs`, by name."""
    return {m.name: import_module(f"{room.__name__}.{m.name}") for m in iter_modules(room.__path__)}


def figure(text: str, scope: dict) -> str:
    """The value of `expression | format`, as printed.

    >>> figure("45e9 | rate", {}), figure("1.0868e-3 | seconds 2", {}), figure("2.5e-6 | seconds", {})
    ('45 GB/s', '1.1 ms', '2.5 µs')
    """
    expression, bar, spec = (part.strip() for part in text.rpartition("|"))
    if not bar:
        expression, spec = spec, ""
    value = eval(expression, scope)  # sources are the course's own text
    if (unit := _UNIT.match(spec)) is None:
        return format(value, spec)
    text = getattr(show, unit[1])(value, int(unit[2] or 3))
    return _ZEROS.sub(lambda m: m[1].rstrip("."), text)


def render(text: str, where: str = "text") -> str:
    """The source with every expression replaced by its figure and let-lines dropped.

    where  the file's name, for messages
    """
    scope, out, fences = names(), [], []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if mark := _FENCE.match(line):
                _fence(mark[1], line.strip()[len(mark[1]) :], fences)
            elif not any(code for _, code in fences):
                if let := _LET.match(line):
                    scope[let[1]] = eval(let[2], scope)
                    continue
                line = _NUMBER.sub(lambda m: figure(m[1], scope), line)
        except Exception as e:
            raise ValueError(
                f"{where}, line {number}: cannot compute {line.strip()!r}: {type(e).__name__}: {e}"
            ) from None
        out.append(line)
    return "\n".join(out)


def _fence(mark: str, info: str, fences: list[tuple[str, bool]]) -> None:
    """Open or close a fence: (its mark, whether it holds code) for each open one; directives of text and maths hold none."""
    if not info and fences and fences[-1][0][0] == mark[0] and len(mark) >= len(fences[-1][0]):
        fences.pop()
    elif not (fences and fences[-1][1]):
        directive = re.match(r"\{([\w-]+)\}", info)
        fences.append(
            (mark, directive is None or directive[1] in ("code-cell", "code", "code-block", "literalinclude"))
        )
