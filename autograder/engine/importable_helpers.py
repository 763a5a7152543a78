"""What answers see of `helpers`: the modules that their assignment lists, open data, and stand-ins for the rest.

A stand-in has the names of its module, so that imports work, and neither its formulas nor its text.
The modules travel to the sandbox as data: nothing of the repository is there as a file.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HELPERS = Path(__file__).resolve().parents[2] / "helpers"
BY_HAND = {  # module -> the file of this package that stands for it; "picture" has nothing but style in it
    "helpers.check": "standin_check.py",
    "helpers.check.answer_checks": "standin_check.py",
    "helpers.check.compare": "standin_compare.py",
    "helpers.plot": "standin_plot.py",
}
HARMLESS = ("helpers.plot.picture",)


@cache
def modules(helpers: Path = HELPERS) -> dict[str, Path]:
    """Module -> file, packages too.

    >>> modules()["helpers.costs"].name, modules()["helpers.costs.rooflines.hardware"].name
    ('__init__.py', 'hardware.py')
    """
    found = {}
    for path in sorted(helpers.rglob("*.py")):
        parts = path.relative_to(helpers.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def view(listed: tuple[str, ...]) -> dict[str, str]:
    """Module -> source, for every module of `helpers`.

    >>> shown = view(("helpers.kernels.mesh",))
    >>> "jax.make_mesh" in shown["helpers.kernels.mesh"], "def attainable" in shown["helpers.costs.rooflines.roofline"]
    (True, False)
    """
    files = modules()
    if unknown := sorted(set(listed) - files.keys()):
        raise ValueError(
            f"helpers has no module {unknown[0]}: an assignment lists modules such as helpers.costs.rooflines.hardware."
        )
    sources = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    real = {*listed, *open_data(sources["helpers.check.compare"]), *HARMLESS}
    return {name: source if _within(name, real) else stand_in(name, source) for name, source in sources.items()}


def open_data(compare: str) -> tuple[str, ...]:
    """The modules that every answer may use, as `helpers.check.compare` names them."""
    for node in ast.parse(compare).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "OPEN":
            return ast.literal_eval(node.value)
    raise ValueError("helpers.check.compare has no OPEN.")


def _within(name: str, real: set[str]) -> bool:
    """Whether a module, or a package that it lies in, is shown as it is."""
    return name in real or any(name.startswith(f"{r}.") for r in real)


def stand_in(name: str, source: str) -> str:
    r"""A module with the same public names.

    >>> print(stand_in("helpers.costs.x", "from .y import z\nHOP, W = 1e-6, 2\ndef f(a):\n    return a\n"))
    from helpers.check import compare as _compare
    from .y import z
    HOP = 1e-06
    W = 2
    f = _compare.function('helpers.costs.x.f')
    """
    if name in BY_HAND:
        return Path(__file__).with_name(BY_HAND[name]).read_text(encoding="utf-8")
    lines = [line for node in ast.parse(source).body for line in _replaced(name, node)]
    needed = ["from helpers.check import compare as _compare"] if name != "helpers" and lines else []
    return "\n".join(needed + lines)


def _replaced(module: str, node: ast.stmt) -> Iterator[str]:
    """What stands for one statement of a module."""
    match node:
        case ast.Assign(targets=[ast.Name(id="__version__")]):  # the first cell of a notebook asks for it
            yield ast.unparse(node)
        case ast.ImportFrom() if module == "helpers":  # old names of modules, which an answer's sandbox does without
            return
        case ast.ImportFrom(module=source, level=level) if level or (source or "").split(".")[0] == "helpers":
            yield ast.unparse(node)
        case ast.FunctionDef(name=own) if not own.startswith("_"):
            yield f"{own} = _compare.function({f'{module}.{own}'!r})"
        case ast.ClassDef(name=own) if not own.startswith("_"):
            yield f"{own} = _compare.kind({', '.join(_members(module, node))})"
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):  # A, B = 1, 2
            for one, value in zip(names, values):
                yield from _replaced(module, ast.Assign(targets=[one], value=value))
        case ast.Assign(targets=[ast.Name(id=own)], value=value) | ast.AnnAssign(target=ast.Name(id=own), value=value):
            if not own.startswith("_") and value is not None:
                yield f"{own} = {_constant(module, own, value)}"


def _members(module: str, node: ast.ClassDef) -> Iterator[str]:
    """The arguments of `standin_compare.kind` for a class."""
    own = [n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    marks = {n.name: {ast.unparse(d) for d in n.decorator_list} for n in own}
    properties = tuple(n for n, m in marks.items() if m & {"property", "cached_property"})
    yield repr(f"{module}.{node.name}")
    yield f"methods={tuple(n for n in marks if n not in properties)!r}"
    yield f"properties={properties!r}"
    if any(ast.unparse(d).startswith(("dataclass", "record")) for d in node.decorator_list):
        fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        yield f"fields={tuple(fields)!r}"


def _constant(module: str, own: str, value: ast.expr) -> str:
    """A price list or a latency is data; everything else is off limits."""
    if module.startswith("helpers.costs."):
        try:
            return repr(ast.literal_eval(value))
        except ValueError:
            pass
    return f"_compare.Value({f'{module}.{own}'!r})"
