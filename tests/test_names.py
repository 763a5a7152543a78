"""Names of parameters say what they hold: nouns of the field, no pronoun, particle or number."""

import ast
from collections.abc import Iterator

import pytest

from tests.scratch import ROOT

SAY_NOTHING = frozenset(
    "at of one some each here there found said like own what who first rest place thing item it".split()
)
OF_FIVE = SAY_NOTHING | set(  # in the rooms of the five floors that answers call
    "how which where why these both ours mine every given seen got kept around wanted taken real".split()
)
FIVE = tuple(f"helpers/{floor}/" for floor in ("check", "costs", "kernels", "plan", "trace"))
CLEANED = (  # a room goes here once its names are cleaned, and stays
    "helpers/*.py",
    *(
        f"helpers/{floor}/**/*.py"
        for floor in ("check", "costs", "figures", "kernels", "live", "plan", "plot", "trace")
    ),
    "book/_ext/*.py",
    "tools/**/*.py",
)
KEPT = {  # (file, function, parameter): learners and pages write these by name
    ("helpers/trace/two_level_memory.py", "store", "like"),
    ("helpers/plot/attention/flash_and_memory.py", "flash_tiles", "at"),
    ("helpers/plot/racks/wiring.py", "wiring", "first"),
    ("helpers/plot/training/meshes_on_chips.py", "cube", "at"),
    ("helpers/plot/transformers/attention_parts.py", "softmax_chunks", "at"),
}


def parameters(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(function, parameter) of everything that is defined in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            a = node.args
            for p in filter(None, (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg)):
                yield getattr(node, "name", "lambda"), p.arg


@pytest.mark.parametrize("room", CLEANED)
def test_parameters_are_nouns(room):
    files = sorted(ROOT.glob(room))
    assert files, f"nothing lies in {room}"
    names = {
        (file.relative_to(ROOT).as_posix(), *pair)
        for file in files
        for pair in parameters(ast.parse(file.read_text(encoding="utf-8")))
    }
    nothing = OF_FIVE if room.startswith(FIVE) else SAY_NOTHING
    assert not {name for name in names if name[2] in nothing} - KEPT
