"""A copy that is no sound notebook, is damaged or saved while it is brought up to date: nothing typed is lost."""

import json
import os
import random
import time
from copy import deepcopy
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from autograder.own_work import by_cell
from autograder.own_work.copies import Work
from autograder.own_work.damaged import parsed, recovered, sides
from autograder.own_work.start import update
from autograder.places import Tree
from tests.scratch import ROOT
from tests.tiers import repeats

NAME = "ch01_rooflines/exercises.ipynb"
ODD = (None, 5, -1.5, True, "x", "", "\ud800", [], [3], [[]], {}, {"a": 1})
RELEASE = json.loads((ROOT / "notebooks" / NAME).read_text(encoding="utf-8"))
RELEASE["cells"] = RELEASE["cells"][:14]


class Copy:
    """A notebook of two releases, and a copy of the first with a mark of the learner's in each code cell and some others."""

    def __init__(self, folder: Path):
        self.tree, self.path, self.mine = Tree(folder), folder / "work" / NAME, deepcopy(RELEASE)
        self.publish(RELEASE)
        update(Work(self.tree))
        self.marks = {}
        for i, cell in enumerate(self.mine["cells"]):
            if cell["cell_type"] == "code" or i % 3 == 0:
                self.marks[i] = f"mark {i}."
                cell["source"].append(f"\n# {self.marks[i]}")
            if cell["cell_type"] == "code":
                cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["ran"]}]

    def publish(self, nb: dict) -> None:
        source = self.tree.notebooks / NAME
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(json.dumps(nb, indent=1), encoding="utf-8")

    def changes(self) -> None:
        new = deepcopy(RELEASE)
        new["cells"][0]["source"].append("\nNew words.")
        self.publish(new)

    def kept(self) -> list[bytes]:
        return [p.read_bytes() for p in self.path.parents[1].glob("kept/**/*.ipynb")]


def places(node, path=()):
    """Every place of a tree of JSON."""
    yield path
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield from places(node[key], (*path, key))


def spoilt(nb: dict, draw: random.Random) -> set:
    """Put something odd into a few places; the cells that it met, or another key of the notebook."""
    met = set()
    for _ in range(draw.choice([1, 1, 2, 6])):
        deep = draw.choice([1, 3, 4, 5, 9])
        *way, last = draw.choice([p for p in places(nb) if 0 < len(p) <= deep])
        node = nb
        for key in way:
            node = node[key]
        if isinstance(node, dict) and draw.random() < 0.2:
            del node[last]
        else:
            node[last] = draw.choice(ODD)
        met.add([*way, last][1] if len(way) and way[0] == "cells" else last)
    return met


@pytest.mark.parametrize("seed", range(repeats(2, 12)))
@pytest.mark.sample(quick=1)
def test_what_is_odd_in_a_copy_stops_nothing_and_costs_no_other_cell(tmp_path, seed):
    draw = random.Random(seed)
    for n in range(20):
        copy = Copy(tmp_path / str(n))
        met = spoilt(copy.mine, draw)
        data = json.dumps(copy.mine, indent=1).encode()
        copy.path.write_bytes(data)
        copy.changes()
        update(Work(copy.tree))
        now = copy.path.read_text(encoding="utf-8")
        if "cells" not in met:
            assert [mark for i, mark in copy.marks.items() if i not in met and mark not in now] == [], (seed, n)
        assert all(mark in now for mark in copy.marks.values()) or data in copy.kept(), (seed, n)
        again = Work(copy.tree)
        update(again)
        assert again.said == again.updated == [] and copy.path.read_text(encoding="utf-8") == now, (seed, n)


class Saving:
    """JupyterLab, which saves in place: a second file with the bytes before, the file emptied, then written."""

    def __init__(self, copy: Copy, begins: int, ends: int):
        self.copy, self.begins, self.ends, self.clock = copy, begins, ends, 0
        self.file, self.second, self.text = None, copy.path.with_name(f".~{copy.path.name}"), deepcopy(copy.mine)
        self.text["cells"][0]["source"].append("\nSaved at last.")

    def ticks(self) -> None:
        self.clock += 1
        if self.clock == self.begins:
            self.second.write_bytes(self.copy.path.read_bytes())
            self.file = open(self.copy.path, "wb")
        if self.clock == self.ends and self.file:
            self.file.write(json.dumps(self.text, indent=1).encode())
            self.file.close()
            self.second.unlink()

    def during(self, patch, module, name: str) -> None:
        """The save goes on before and after each call of a function."""
        call = getattr(module, name)

        def called(*args, **kwargs):
            self.ticks()
            try:
                return call(*args, **kwargs)
            finally:
                self.ticks()

        patch.setattr(module, name, called)


@pytest.mark.parametrize("lasts", [0, 1, 3])
@pytest.mark.sample(quick=1)
def test_a_save_at_any_moment_of_an_update_is_in_the_copy_or_kept(tmp_path, lasts):
    seen, begins = set(), 0
    while True:
        begins += 1
        copy = Copy(tmp_path / str(begins))
        copy.path.write_text(json.dumps(copy.mine, indent=1), encoding="utf-8")
        copy.changes()
        saving = Saving(copy, begins, begins + lasts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "sleep", lambda seconds: None)
            for module, name in ((by_cell, "brought"), (os, "link"), (os, "replace"), (time, "sleep")):
                saving.during(patch, module, name)
            update(Work(copy.tree))
        if saving.clock < saving.ends:
            if saving.file:
                saving.file.close()
            break
        there = "Saved at last." in copy.path.read_text(encoding="utf-8")
        seen.add(there)
        assert there or any(b"Saved at last." in data for data in copy.kept()), (begins, lasts)
    assert seen and begins > 5  # it was saved before, while and after the new copy was written


TEXTS = ["# One", "a = 1\nb = 'Δ\\n'", "Two", "c = 3"]


@pytest.fixture
def text():
    return writes(
        new_notebook(cells=[new_markdown_cell(TEXTS[0]), *map(new_code_cell, TEXTS[1::2]), new_markdown_cell(TEXTS[2])])
    )


def found(text):
    return [[c.source for c in nb.cells] for nb in recovered(text.encode())]


def test_both_sides_of_a_conflict_are_whole(text):
    line = next(x for x in text.split("\n") if '"c = 3"' in x)
    for middle in ("", "||||||| 12ab\n" + line.replace("3", "0") + "\n"):
        broken = text.replace(
            line, f"<<<<<<< Updated upstream\n{line}\n{middle}=======\n{line.replace('3', '4')}\n>>>>>>> Stash"
        )
        assert [nb[2] for nb in found(broken)] == ["c = 3", "c = 4"]


def test_two_conflicts_and_windows_line_ends(text):
    for old in ('"c = 3"', '"# One"'):
        broken = f"<<<<<<< HEAD\n    {old}\n=======\n    {old.upper()}\n>>>>>>> x"
        text = text.replace(f"    {old}", broken)
    assert [nb[0] for nb in found(text.replace("\n", "\r\n"))] == ["# One", "# ONE"]


def test_marks_that_the_learner_wrote_are_text():
    assert sides("a\n=======\nb\n>>>>>>> c") == ["a\n=======\nb\n>>>>>>> c"]


def test_a_broken_cell_takes_no_other_with_it(text):
    line = next(x for x in text.split("\n") if '"a = 1' in x)
    [cells] = found(
        text.replace(line, line + "\n" + line.replace("1", "2").rstrip(","))
    )  # a comma is missing further on
    assert cells[0] == "# One" and cells[2:] == ["c = 3", "Two"]
    assert "a = 1\na = 2\nb = 'Δ\\n'" in cells[1].replace("\n\n", "\n")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_file_that_breaks_off_gives_what_is_there(text, share):
    at = int(len(text) * share)
    whole = [t for t in TEXTS if json.dumps(t.split("\n")[-1], ensure_ascii=False) in text[:at]]
    assert all(t in "\n".join(c for nb in found(text[:at]) for c in nb) for t in whole)


NONE = {"empty": "", "list": "[]", "number": '{"cells": 3, "nbformat": 4}', "page": "<html>", "deep": "[" * 100_000,
        "no cell": '{"nbformat": 4, "cells": [3]}', "no text": b"\xff\xfe".decode("latin-1")}  # fmt: skip


@pytest.mark.parametrize("kind", NONE)
def test_what_is_no_notebook_is_none(kind):
    assert parsed(NONE[kind].encode("latin-1")) is None and recovered(NONE[kind].encode("latin-1")) == []
