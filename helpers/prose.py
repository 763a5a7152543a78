"""Numbers in prose, computed: `{{ expression | format }}` in a source becomes the figure.

The expression is Python over `helpers.costs`, `helpers.study_time`, `math` and `results("name")`, a file of book/results.
A line `% let name = expression` names something for the rest of the file.
The format is one of `helpers.show` (seconds, bytes, ibytes, flops, flops_rate, rate, sci), with a number of digits if three are
too many (`seconds 2`), `number`, which has exponents of three (989e12), or a Python format spec such as `.1f`.
A unit is given as a person would say it: 45 GB/s, not 45.0 GB/s.
`worked` in front of a format prints the arithmetic as well, from the same expression: `{{ 2 * 8192 / 4 | worked ,.0f }}`.
Code between fences is left alone.

>>> render("% let v5e = chip('v5e')\\nA v5e does {{ v5e.rate() | flops_rate }}; C/W is {{ v5e.alpha_hbm() | .0f }}.\\n")
'A v5e does 197 TFLOPs/s; C/W is 243.\\n'
"""

import ast
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
from .costs import attention, experts, inference, racks, rooflines, sharding, training, transformers

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_LET = re.compile(r"^% let (\w+) = (.+)$")
_NUMBER = re.compile(r"\{\{(.+?)\}\}")
_UNIT = re.compile(r"^(seconds|bytes|ibytes|flops|flops_rate|rate|sci)(?: (\d))?$")
_WORKED = "worked "
NBSP = "\u00a0"  # a result stays on one line with its sign and its unit
BYTES = {"f32": 4, "bf16": 2, "int8": 1, "fp8": 1}
"""Bytes of a number, by its type: names that expressions may use."""
SIGNS = {ast.Add: (1, " + "), ast.Sub: (1, " − "), ast.Mult: (2, " · "), ast.Div: (2, " / "), ast.Pow: (3, "^")}
UNITS = {"_bandwidth": "B/s", "_bytes": "B", ".rate": "FLOPs/s", "_rate": "FLOPs/s"}  # by the end of a name
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
    rooms = experts, racks, inference, training, transformers, sharding, rooflines
    found = {name: m for room in (attention, *rooms) for name, m in modules_of(room).items()}
    for room in rooms:
        for module in modules_of(room).values():
            found |= {k: v for k, v in vars(module).items() if not k.startswith("_") and not isinstance(v, ModuleType)}
    return found | {
        "math": math,
        **BYTES,
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
    >>> figure("2 * 2048 * 8192 / (2 * W) | worked seconds", {"W": 45e9})
    '<span class="worked">2 · 2048 · 8192 / (2 · 45e9) =</span>\xa0373\xa0µs'
    """
    expression, bar, spec = (part.strip() for part in text.rpartition("|"))
    if not bar:
        expression, spec = spec, ""
    if spec.startswith(_WORKED):
        result = figure(f"{expression} | {spec.removeprefix(_WORKED)}", scope)
        return f'<span class="worked">{worked(expression, scope)} =</span>{NBSP}{result.replace(" ", NBSP)}'
    value = eval(expression, scope)  # sources are the course's own text
    if spec == "number":
        return number(value)
    if (unit := _UNIT.match(spec)) is None:
        return format(value, spec)
    text = getattr(show, unit[1])(value, int(unit[2] or 3))
    return _ZEROS.sub(lambda m: m[1].rstrip("."), text)


def worked(expression: str, scope: dict) -> str:
    """An expression with its numbers put in, as one would write it down: products and quotients stay, all else becomes its value.

    What is a byte count or a rate is known by its name: `bf16` and its like (bytes of a number), `.hbm_bandwidth`, `.rate()`.

    >>> worked("bf16 * 2048 * D / (2 * W)", {"D": 8192, "W": 45e9})
    '2 B · 2048 · 8192 / (2 · 45e9)'
    """
    return _text(ast.parse(expression, mode="eval").body, scope)[0]


def number(x: float) -> str:
    """A number as it stands in a calculation.

    >>> [number(x) for x in (8192, 45e9, 3.35e12, 134217728, 0.5, 1e-6)]
    ['8192', '45e9', '3.35e12', '134.2e6', '0.5', '1e-6']
    """
    if x == int(x) and abs(x) < 1e5:
        return str(int(x))
    if 1e-2 <= abs(x) < 1e5:
        return f"{x:.4g}"
    power = 3 * math.floor(math.log10(abs(x)) / 3)
    return f"{x / 10.0**power:.4g}e{power}"


def _text(node: ast.expr, scope: dict) -> tuple[str, int]:
    """Text of a part, and how strongly it binds."""
    if isinstance(node, ast.BinOp):
        strength, sign = SIGNS[type(node.op)]
        left, binds = _text(node.left, scope)
        right, holds = _text(node.right, scope)
        left = left if binds >= strength else f"({left})"
        loose = holds < strength or holds == strength and isinstance(node.op, ast.Div | ast.Sub)
        return f"{left}{sign}{f'({right})' if loose else right}", strength
    # Sources are the course's own text.
    value = eval(compile(ast.Expression(node), "template", "eval"), {**BYTES, **scope})
    name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    unit = "B" if name in BYTES else next((u for end, u in UNITS.items() if name.endswith(end)), "")
    return f"{number(value)} {unit}".rstrip(), 2 if "/" in unit else 4  # 1 / (2 B/s)


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
