"""The golden list of what each kernel sends: equal to the programs, and no kernel that sends is left out."""

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from helpers import kernels
from helpers.trace.jaxpr.equation_costs import COLLECTIVES
from helpers.trace.jaxpr.walk import walk
from tests.helpers.kernels.sends import COMMAND, LIST, ROOMS, TABLE, blocks_of, changed, text, traced

FOLDER = Path(kernels.__file__).resolve().parent
SENDS = {"jax.shard_map"} | {
    f"jax.lax.{name}"
    for name in "all_gather all_to_all pbroadcast pmax pmean pmin ppermute pshuffle psum psum_scatter".split()
}
RUN = {  # what cannot be traced, for it runs programs that are in the list
    "helpers.kernels.sharding.collectives.bench": "runs the programs of `primitive`",
    "helpers.kernels.sharding.collectives.matrix": "runs the function that it is given",
}


@pytest.mark.xdist_group("sends")  # a program is traced once in a process
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.sample(quick=2, draw=4)
def test_each_program_sends_what_the_list_says(room):
    listed = LIST.read_text(encoding="utf-8")
    assert {block.partition(".")[0] for block in listed.strip().split("\n\n")} == set(ROOMS)
    said = changed(blocks_of(listed, room), text(room))
    assert not said, f"{said}\n\nIf this is what the kernels are meant to send now: {COMMAND}"


def test_each_name_begins_with_the_function_that_makes_the_program():
    for name in TABLE:
        module, function = name.partition(",")[0].rsplit(".", 1)
        assert callable(getattr(import_module(f"helpers.kernels.{module}"), function)), name


@pytest.mark.slow("traces the programs of all rooms")
@pytest.mark.xdist_group("sends")
def test_every_kernel_that_sends_is_in_the_list():
    missing = [f for f in senders(FOLDER, "helpers.kernels") if f not in RUN and f not in reached()]
    missing = [f for f in missing if not any(f in called_to_make(name) for name in TABLE if _named(name, f))]
    assert not missing, "\n".join(
        f"{f} sends, and no program of the list does so by it: add one that does to PROGRAMS of"
        f" tests/helpers/kernels/{f.split('.')[2]}/sends.py ({', '.join(ROOMS)}), then {COMMAND}"
        for f in missing
    )


def test_a_sender_is_found_by_whatever_it_calls(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room/a.py").write_text(
        "from functools import partial\nfrom jax import lax\nfrom .b import other\n"
        "def direct(x):\n    return lax.psum(x, 'X')\n"
        "def _hidden(x):\n    return lax.ppermute(x, 'X', [(0, 1)])\n"
        "WAYS = {'a': partial(_hidden)}\n"
        "def by_a_table(x):\n    return WAYS['a'](x)\n"
        "def local(direct):\n    return direct(1)\n"
        "def alone(x):\n    return lax.axis_index('X') + other(x)\n"
    )
    (tmp_path / "room/b.py").write_text(
        "from . import a as room\n"
        "def other(x):\n    return x\n"
        "class Kept:\n    def run(self, x):\n        return room.by_a_table(x)\n"
    )
    assert senders(tmp_path, "p") == ["p.room.a.by_a_table", "p.room.a.direct", "p.room.b.Kept"]


# Which functions send: those that name a collective of JAX, or something of this package that does.


def senders(folder: Path, package: str) -> list[str]:
    """Public functions and classes below a folder from which a collective is reached, by their full names."""
    uses = {}
    for path in folder.rglob("*.py"):
        module = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = _imports(tree, module)
        for name, node in _top(tree):
            uses[f"{module}.{name}", isinstance(node, ast.Assign)] = set(_names(node, module, imported))
    found = set(SENDS)
    while more := {name for (name, _), used in uses.items() if used & found} - found:
        found |= more
    public = (name for (name, table) in uses if not table and not name.rpartition(".")[2].startswith("_"))
    return sorted(name for name in public if name in found)


def _top(tree: ast.Module):
    """(name, statement) of what a module defines."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((n.id, node) for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))


def _imports(tree: ast.Module, module: str) -> dict[str, str]:
    """Full names by the names that a module knows them under."""
    out = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {
                a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0]
                for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            base = ".".join(filter(None, (base, node.module)))
            out |= {a.asname or a.name: f"{base}.{a.name}" for a in node.names}
    return out


def _names(node, module: str, imported: dict[str, str]):
    """Full names of all that a statement looks at; of a.b.c also a.b. What it binds itself is not the module's."""
    inside = list(ast.walk(node))
    own = {n.arg for n in inside if isinstance(n, ast.arg)}
    own |= {n.name for n in inside if isinstance(n, ast.FunctionDef) and n is not node}
    own |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for n in inside:
        parts = []
        while isinstance(n, ast.Attribute):
            parts, n = [n.attr, *parts], n.value
        if isinstance(n, ast.Name) and n.id not in own:
            first = imported.get(n.id, f"{module}.{n.id}")
            yield from (".".join([first, *parts[:i]]) for i in range(len(parts) + 1))


# Which functions the programs of the list come by.


@cache
def reached() -> set[str]:
    """Functions that were being called when some program of the list wrote down a collective, or a loop around one."""
    frames = set()
    for name in TABLE:
        around = []
        for v in walk(traced(name), choose=_longest):
            del around[len(v.path) :]
            if v.opens:
                around.append(v)
            elif v.name in COLLECTIVES:
                stacks = (x.eqn.source_info.traceback for x in (*around, v))
                frames |= {(f.file_name, f.line_num) for stack in stacks if stack for f in stack.frames}
    return {f for file, line in frames if (f := _function(file, line))}


def _longest(branches, here):
    return max(branches, key=lambda b: len(b.eqns))


def called_to_make(name: str) -> set[str]:
    """Functions of the kernels that are called until a program and its arguments are there, before it is traced."""
    found = set()

    def look(frame, event, _):
        if event == "call":
            found.add(_function(frame.f_code.co_filename, frame.f_code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        TABLE[name]()
    finally:
        sys.setprofile(before)
    return found


def _named(name: str, function: str) -> bool:
    return f"helpers.kernels.{name}".partition(",")[0] == function


@cache
def _function(file: str, line: int) -> str | None:
    """The function or class of the kernels that a line belongs to."""
    path = Path(file).resolve()
    if not path.is_relative_to(FOLDER):
        return None
    for first, last, name in _lines(path):
        if first <= line <= last:
            return ".".join(["helpers.kernels", *path.relative_to(FOLDER).with_suffix("").parts, name])


@cache
def _lines(path: Path) -> list[tuple[int, int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]), n.end_lineno, name)
        for name, n in _top(tree)
    ]
