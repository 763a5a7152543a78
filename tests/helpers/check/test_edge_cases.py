"""Draws are made of draws, at random; whatever they are, their edges are found, and no seed decides which."""

import random

import pytest

from helpers.check.edge_cases import edges

FAULTS = {  # mistakes as they were seen: where each of them shows
    "the third axis of one subscript is forgotten": lambda shape, cuts, sizes: any(len(cut) > 2 for cut in cuts),
    "a third dimension is not looked at": lambda shape, cuts, sizes: len(shape) > 2,
    "a single dimension is": lambda shape, cuts, sizes: len(shape) == 1,
    "sizes that are equal": lambda shape, cuts, sizes: len(set(sizes.values())) < len(sizes),
    "a ring of one": lambda shape, cuts, sizes: 1 in sizes.values(),
    "nothing is cut": lambda shape, cuts, sizes: not "".join(cuts),
    "rows fewer than the axis": lambda shape, cuts, sizes: shape[0] < sizes["X"],
}


def nested(r: random.Random, deep: int = 3):
    """A draw, and what has to be tried of it: (what it is called, whether a value has it)."""
    kind = r.choice(["menu", "size", "row", "record"][: 4 if deep else 2])
    if kind == "menu":
        menu = r.sample([None, True, "", "X", "XY", "XYZ", 0.5, 4, 1024], r.randint(2, 5))
        return lambda s: s.choice(menu), [(f"the choice {x!r}", lambda got, x=x: got is x or got == x) for x in menu]
    if kind == "size":
        low, high = r.randint(1, 4), r.randint(8, 4000)
        return lambda s: s.randint(low, high), [
            ("the lowest", lambda got: got == low),
            ("the highest", lambda got: got == high),
        ]
    part, wanted = nested(r, deep - 1)
    if kind == "row":
        most = r.randint(2, 4)
        lengths = [(f"length {n}", lambda got, n=n: len(got) == n) for n in range(1, most + 1)]
        inside = [(f"in a row, {text}", lambda got, has=has: any(map(has, got))) for text, has in wanted]
        return lambda s: tuple(part(s) for _ in range(s.randint(1, most))), lengths + inside
    other, more = nested(r, deep - 1)
    both = [
        (f"{k}: {text}", lambda got, k=k, has=has: has(got[k]))
        for k, all_ in (("a", wanted), ("b", more))
        for text, has in all_
    ]
    return lambda s: {"a": part(s), "b": other(s)}, both


@pytest.mark.parametrize("seed", range(40))
def test_each_choice_and_each_end_of_nested_draws_is_tried(seed):
    draw, wanted = nested(random.Random(seed))
    tried = list(edges(f"nested {seed}", {"value": draw, "beside": lambda r: r.random()}))
    missing = [text for text, has in wanted if not any(has(case["value"]) for case in tried)]
    assert not missing and len(tried) < 120


def a_setting():
    case = {}  # drawn together, as in many checks

    def shape(r):
        case["shape"] = tuple(r.choice([2, 20, 64, 64]) for _ in range(r.randint(1, 3)))
        return case["shape"]

    def cuts(r):
        found = [""] * len(case["shape"])
        for a in r.sample("XYZ", 3):
            if r.random() < 0.7:
                found[r.randrange(len(found))] += a
        return tuple(found)

    return dict(shape=shape, cuts=cuts, sizes=lambda r: {a: r.randint(1, 4) for a in "XYZ"})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_shows_whatever_the_seed(fault, monkeypatch):
    asked = []
    for values in ("", "spring-ada", "autumn-bob"):
        monkeypatch.setenv("COURSE_VALUES", values)
        asked.append(list(edges("0.1", a_setting())))
        assert sum(FAULTS[fault](**case) for case in asked[-1]) > 1
    assert asked[0] == asked[1] == asked[2]


def test_a_reference_may_read_what_the_draws_of_its_case_have_left():
    left = {}
    for case in edges("0.2", {"x": lambda r: left.update(x=r.random()) or left["x"]}):
        assert case["x"] == left["x"]
