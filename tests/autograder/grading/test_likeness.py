"""Pairs that are more alike than usual are found, also with other names and comments; short answers that all share are not."""

import math
import random

import pytest

from autograder import likeness

OPERATIONS = "+-*/"


def own_program(r: random.Random) -> str:
    """What one student may write: statements of its own in an order of its own."""
    names = r.sample(["a", "b", "c", "x", "y", "flops", "seconds", "rate", "total"], 5)
    lines = [f"    {n} = {r.choice(names)} {r.choice(OPERATIONS)} {r.randrange(2, 9)}" for n in r.choices(names, k=8)]
    return f"def answer({', '.join(names)}):\n" + "\n".join(lines) + f"\n    return {r.choice(names)}"


def a_class(r: random.Random, students: int = 30, exercises: int = 6) -> dict:
    """One short answer that all share, and long ones of their own."""
    found = {"1.1": {f"s{i:02d}": "def seconds(V, W):\n    return V / W" for i in range(students)}}
    for e in range(2, exercises):
        found[f"1.{e}"] = {f"s{i:02d}": own_program(r) for i in range(students)}
    return found


@pytest.mark.parametrize("seed", range(3))
def test_independent_answers_list_nobody_and_a_copy_is_first(seed):
    r = random.Random(seed)
    texts = a_class(r)
    assert likeness.listed(likeness.unusual(texts)) == []
    for e in ("1.2", "1.3", "1.4"):  # other names and a comment
        texts[e]["s07"] = texts[e]["s21"].replace("answer", "mine").replace("seconds", "t") + "  # my own"
    found = likeness.listed(likeness.unusual(texts))
    assert [p.students for p in found] == [("s07", "s21")]
    assert {e for _, e in found[0].exercises[:3]} == {"1.2", "1.3", "1.4"}


def test_chance_is_that_of_drawn_surprises():
    """Against 20,000 sums of three exponential draws."""
    r, pair = random.Random(0), likeness.Pair(("a", "b"), 8.0, [(0.0, e) for e in "123"])
    drawn = [sum(-math.log2(1 - r.random()) for _ in range(3)) for _ in range(20_000)]
    assert sum(bits >= 8 for bits in drawn) / len(drawn) == pytest.approx(likeness.chance(pair), rel=0.1)


def test_what_all_share_counts_nothing_and_more_alike_counts_more():
    texts = {"1.1": dict.fromkeys("abcd", "x = 1")}
    assert likeness.unusual(texts) == []
    texts["1.2"] = {"a": "x = 1 + 2", "b": "y = 1 + 2", "c": "z = [1]", "d": "import os"}
    first = likeness.unusual(texts)[0]
    assert first.students == ("a", "b") and first.bits == pytest.approx(2.585, abs=1e-3)  # one pair of six


def test_a_page_shows_both_texts_and_runs_neither():
    texts = {"1.1": {"a": "x = '<script>'", "b": "y = 2"}}
    page = likeness.page(likeness.Pair(("a", "b"), 1.0, [(1.0, "1.1")]), texts)
    assert "&lt;script&gt;" in page and "y = 2" in page and "<script" not in page
