"""The golden list of what each kernel sends: equal to the programs, and no module that sends is left out."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from helpers import kernels
from tools.sends import COMMAND, LIST, ROOMS, TABLE, blocks_of, changed, text

FOLDER = Path(kernels.__file__).resolve().parent
SENDS = re.compile(r"\b(all_gather|all_to_all|p(?:max|mean|min|permute|sum|sum_scatter)|shard_map)\(")
BY_OTHERS = {"mesh", "inference.decode_layouts"}  # their programs are those of modules that are in the list


@pytest.mark.xdist_group("sends")  # a program is traced once in a process
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.sample(quick=1, draw=4)
def test_each_program_sends_what_the_list_says(room):
    listed = LIST.read_text(encoding="utf-8")
    assert {block.partition(".")[0] for block in listed.strip().split("\n\n")} == set(ROOMS)
    said = changed(blocks_of(listed, room), text(room))
    assert not said, f"{said}\n\nIf this is what the kernels are meant to send now: {COMMAND}"


def test_each_name_begins_with_the_function_that_makes_the_program():
    for name in TABLE:
        module, function = name.partition(",")[0].rsplit(".", 1)
        assert callable(getattr(import_module(f"helpers.kernels.{module}"), function)), name


def test_every_module_that_sends_has_a_program_in_the_list():
    listed = {name.partition(",")[0].rpartition(".")[0] for name in TABLE} | BY_OTHERS
    named = {".".join(path.relative_to(FOLDER).with_suffix("").parts): path for path in FOLDER.rglob("*.py")}
    missing = [m for m, path in named.items() if m not in listed and SENDS.search(path.read_text(encoding="utf-8"))]
    assert not missing, f"{missing}: add programs to PROGRAMS of a sends.py ({', '.join(ROOMS)}), then {COMMAND}"
