"""Cells out of files that are no JSON any more."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from autograder.own_work.damaged import parsed, recovered, sides

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
