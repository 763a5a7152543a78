"""Floors, rooms and the engine's isolation, as the contracts of pyproject.toml state them; no circles of modules."""

import ast
import sys
from collections.abc import Iterator

import grimp
from importlinter.cli import lint_imports

from tests.scratch import ROOT


def test_every_contract_holds(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert lint_imports(cache_dir=None) == 0, capsys.readouterr().out


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("helpers", "autograder", cache_dir=None)
    assert list(circles({m: graph.find_modules_directly_imported_by(m) for m in graph.modules})) == []


def circles(imports: dict[str, set[str]]) -> Iterator[str]:
    """Modules that are left when those that import nothing left are taken away, again and again.

    >>> list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}))
    ['a', 'b', 'c']
    """
    left = dict(imports)
    while done := [m for m, below in left.items() if not below & left.keys()]:
        for m in done:
            del left[m]
    yield from left


def test_a_few_modules_stand_at_the_top_of_helpers():
    """And old names of modules, as long as there are some, and what examples have without an import."""
    assert len({p.name for p in (ROOT / "helpers").glob("*.py")} - {"__init__.py", "moved.py", "conftest.py"}) <= 6


def test_each_folder_says_what_lives_there():
    folders = {p.parent for top in ("helpers", "autograder") for p in (ROOT / top).rglob("*.py")}
    silent = [f for f in folders if not (f / "__init__.py").read_text(encoding="utf-8").startswith('"""')]
    assert silent == []


def test_no_private_name_is_imported_from_another_module():
    """Answers' sandbox shows public names only, so such a module could not be imported there."""
    taken = [
        f"{path.name}: {alias.name}"
        for path in (ROOT / "helpers").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert taken == []


def test_helpers_can_be_imported_where_only_numpy_jax_and_matplotlib_are():
    """What else is used is asked for where it is used, and done without where it is missing."""
    there = {*sys.stdlib_module_names, "helpers", "numpy", "jax", "matplotlib"}
    for path in {*(ROOT / "helpers").rglob("*.py")} - {ROOT / "helpers/conftest.py"}:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None)]
            if isinstance(node, ast.Import) or isinstance(node, ast.ImportFrom) and not node.level:
                assert {name.split(".")[0] for name in names} <= there, f"{path.name}: {names}"
