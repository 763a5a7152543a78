"""The code of ours that verdicts depend on, file by file: what checks and answers of an assignment import, and the engine.

What draws figures decides no verdict: cells of the course import it, and no check asks it anything.
"""

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from autograder.engine.bundle import Bundle
from autograder.engine.importable_helpers import HELPERS, modules
from autograder.places import COURSE

from .whole_files import digest_of

DRAWS = "helpers.plot"
SHORT = 12  # digits of a digest: there are a hundred in each record, and nobody gains by two files that have the same


def deciding_files(bundle: Bundle, helpers: Path = HELPERS) -> dict[str, str]:
    """File -> digest of what it holds."""
    files = [modules(helpers)[name] for name in sorted(imported(bundle, helpers))]
    ours = {p.relative_to(helpers.parent).as_posix(): digest_of(p)[:SHORT] for p in files}
    engine = sorted(COURSE.joinpath("engine").glob("*.py"))
    return ours | {p.relative_to(COURSE.parent).as_posix(): digest_of(p)[:SHORT] for p in engine}


@lru_cache(8)
def imported(bundle: Bundle, helpers: Path = HELPERS) -> frozenset[str]:
    """Modules of `helpers` that an assignment's cells and its answers can come to, one by way of the other."""
    cells = [name for *_, source, _ in bundle.cells for name in _imports(source)]
    waiting, found = ["helpers.check", *bundle.helpers, *cells], set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in modules(helpers) or f"{name}.".startswith(f"{DRAWS}."):
            continue
        found.add(name)
        waiting += [name.rpartition(".")[0], *_imports_of(name, helpers)]
    return frozenset(found)


@cache
def _imports_of(name: str, helpers: Path) -> tuple[str, ...]:
    path = modules(helpers)[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return tuple(_imports(path.read_text(encoding="utf-8"), package))


def _imports(source: str, package: str = "") -> Iterator[str]:
    """What a module of this package imports, wherever in it; some of the names are no modules.

    >>> sorted(_imports("from . import a\\ndef f():\\n    from ..b import c\\n    import d.e", "x.y"))
    ['d.e', 'x.b', 'x.b.c', 'x.y', 'x.y.a']
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
