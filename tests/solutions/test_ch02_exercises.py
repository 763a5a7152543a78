"""Exercises 2.1 to 2.14: the solved functions against `helpers.costs`."""

import pytest

from autograder.making.exercises import meta
from helpers.costs.sharding import collectives, sharded_array
from helpers.costs.sharding.sharded_array import Axis, Mesh, Sharding
from tests.solutions import course
from tests.solutions.course import agree

TOPIC = "ch02_sharding"
COSTS = [f"ch02-q{n:02}" for n in range(1, 15) if n != 13]
W5E, W5P, V4P = 4.5e10, 9e10, {"X": 4, "Y": 4, "Z": 4}


@pytest.fixture(scope="module")
def solved():
    """Every answer of these exercises, by name."""
    return course.solved(
        TOPIC, lambda cell: meta(cell).get("grade_id", "") in COSTS or "from helpers import check, plot" in cell.source
    )


def test_a_link_s_bandwidth_is_one_way_and_what_it_assumes_says_so():
    for text in course.exercises(TOPIC):
        assert "bytes/s of a link" not in text or "W one way" in course.assumed(text), text[:80]


CUTS = [("XY", ""), ("YX", ""), ("X", "Y"), ("", "X"), ("", "")]


@pytest.mark.parametrize("cuts", CUTS)
def test_blocks_and_bytes_as_the_notation_says(solved, cuts):
    sizes, mesh = {"I": 24, "J": 16}, Mesh({"X": 4, "Y": 2})
    array = Sharding("A", ("I", "J"), tuple(tuple(c) for c in cuts))
    for where in mesh.coordinates():
        assert solved["block_of"](where, (24, 16), cuts, mesh.sizes) == array.slices(where, sizes, mesh)
    told = solved["sharded_bytes"]((24, 16), cuts, mesh.sizes, 2, 1.0)
    assert told["each"] == array.bytes(sizes, mesh) and told["total"] == 8 * array.bytes(sizes, mesh)
    assert solved["spread"](cuts, mesh.sizes) == (array.copies(mesh), 8, array.copies(mesh))


@pytest.mark.parametrize("subscripts, sizes", [
    ("I_X, J_X", (8, 8)), ("I_XX, J", (8, 8)), ("I_Z, J", (8, 8)), ("I_XY, J", (12, 8)), ("I_XY, J", (16, 8)), ("I, J", (3, 5)),
])  # fmt: skip
def test_what_is_illegal_raises(solved, subscripts, sizes):
    cuts = tuple(part.partition("_")[2] for part in subscripts.split(", "))
    word = solved["verdict"](sizes, cuts, {"X": 4, "Y": 2})
    faults = {"twice": "twice", "unknown": "names axis", "uneven": "does not divide"}
    if word == "ok":
        sharded_array.parse(f"A[{subscripts}]").check(Mesh({"X": 4, "Y": 2}), dict(zip("IJ", sizes)))
    else:
        with pytest.raises(ValueError, match=faults[word]):
            sharded_array.parse(f"A[{subscripts}]").check(Mesh({"X": 4, "Y": 2}), dict(zip("IJ", sizes)))


@pytest.mark.parametrize("V", [1e3, 1e5, 1e9])
def test_times_are_those_of_the_cost_functions(solved, V):
    for axis in (Axis(4), Axis(7), Axis(16), Axis(4, False), Axis(5, False)):
        move = collectives.all_gather(V, axis)
        agree(solved["gather_time"](V, axis.n, axis.wraps, W5E)[0], collectives.seconds(move, W5E))
        if axis.n > 2:
            exchange = collectives.all_to_all(V, (axis, Axis(4)))
            agree(solved["torus_all_to_all"](V, (axis.n, 4), (axis.wraps, True), W5E), exchange.bytes / W5E)
    for axes in ((8,), (4, 4), (4, 8, 4)):
        rings = tuple(Axis(n) for n in axes)
        expected = [
            f(V, rings, W5E)
            for f in (lambda v, r, w: collectives.seconds(collectives.all_gather(v, r), w), collectives.bandwidth)
        ]
        agree(solved["small_gather"](V, axes, W5E), (expected[0], collectives.crossover(rings, W5E), expected[1]))
