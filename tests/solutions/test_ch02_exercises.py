"""Exercises 2.1 to 2.14: the sources' numbers from the solved functions, and the functions against `helpers.costs`.

Numbers are those of the exercises and quizzes of Austin et al. 2025, Section 3, errata corrected, and of the table of systems.
"""

import math

import pytest

from autograder.making.exercises import meta
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
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


# (row of the sources, answer, arguments, expected)
NUMBERS = [
    (
        "B1, quiz 1: fp32[1024, 4096], I_XY, X8 Y2, 3.4e12 bytes/s",
        "sharded_bytes",
        ((1024, 4096), ("XY", ""), {"X": 8, "Y": 2}, 4, 3.4e12),
        {"each": 2**20, "total": 2**24, "load": 308.4e-9},
    ),
    (
        "B1, quiz 2: int8[128, 2048], I_XY, X2 Y8 Z2",
        "sharded_bytes",
        ((128, 2048), ("XY", ""), {"X": 2, "Y": 8, "Z": 2}, 1, 8.1e11),
        {"each": 16_384, "total": 512 * 2**10, "load": 16_384 / 8.1e11},
    ),
    ("Q1, E002-7: 16 over a copy, 64 over a chip", "spread", (("X", "", ""), {"X": 4, "Y": 8, "Z": 2}), (16, 64, 16)),
    ("B2: I_X, J_X is forbidden", "verdict", ((64, 64), ("X", "X"), {"X": 4}), "twice"),
    ("B12, quiz 3: line", "gather_time", (2 * 2048 * 8192, 4, False, W5E), (559.2e-6, "bandwidth")),
    ("B12, quiz 3: if it wrapped", "gather_time", (2 * 2048 * 8192, 4, True, W5E), (372.8e-6, "bandwidth")),
    ("B13, quiz 3: small", "gather_time", (2 * 256 * 256, 4, False, W5E), (3e-6, "latency")),
    ("B11: T = V/W both ways, any even ring", "gather_time", (9e9, 12, True, W5E), (0.1, "bandwidth")),
    ("Q2: AllGather_X", "collective_time", ("AllGather", "X", (1024, 4096), ("X", "Y"), V4P, W5E), 23.3e-6),
    ("Q2: AllGather_XY", "collective_time", ("AllGather", "XY", (1024, 4096), ("X", "Y"), V4P, W5E), 46.6e-6),
    ("Q2: AllReduce_Z", "collective_time", ("AllReduce", "Z", (1024, 4096), ("X", "Y"), V4P, W5E), 11.65e-6),
    (
        "E002-4: a ReduceScatter takes V/(2W)",
        "collective_time",
        ("ReduceScatter", "Y", (64, 64), ("X", ""), V4P, W5E),
        2 * 64 * 64 / 4 / 9e10,
    ),
    ("Q3: two hops", "small_gather", (2 * 128, (4,), W5E), (2e-6, 180e3, 128e6)),
    ("B13: 45 kB a shard, 360 kB in eight", "small_gather", (360e3, (8,), W5E), (4e-6, 8 * 45e3, 9e10)),
    ("B14: four hops on two axes", "small_gather", (1, (4, 4), W5E), (4e-6, 720e3, 250e3)),
    ("Q10 (1) to (3), E002-9: exact, one way", "link_load", (64, 4, 1), (64**2 * 3 / 4, 64**2 * 3 / 8, 2)),
    ("Q10 (5), E002-11: D²/8 blocks", "link_load", (8 * 8, 8, 2), (64**2 / 2, 512, 4)),
    ("Q10 (6): 4 in hops of whole shards", "link_load", (64, 4, 2), (64**2 / 2, 64**2 / 8, 4)),
    ("Q10 (6): 4 in the limit", "link_load", (10**4, 10**4, 2), (10**8 / 2, 10**8 / 8, 4)),
    ("B17: V/(8W), W one way", "torus_all_to_all", (1e9, (16,), (True,), W5E), 1e9 / 8 / W5E),
    (
        "B18: V max/(4NW), both ways",
        "torus_all_to_all",
        (1e9, (4, 8, 4), (True,) * 3, W5E),
        1e9 * 8 / (4 * 128 * 2 * W5E),
    ),
    ("B5, E002-1: C[I, K_Y]", "name_case", ({"I": "", "J": ""}, {"J": "", "K": "Y"}), (1, {"nothing": ("", "Y")})),
    ("B6", "name_case", ({"I": "", "J": "X"}, {"J": "", "K": ""}), (2, {"AllGather_X A": ("", "")})),
    ("B7, E002-6", "name_case", ({"I": "", "J": "X"}, {"J": "X", "K": ""}), (3, {"AllReduce_X C": ("", "")})),
    (
        "B8",
        "name_case",
        ({"I": "X", "J": ""}, {"J": "", "K": "X"}),
        (4, {"AllGather_X A": ("", "X"), "AllGather_X B": ("X", "")}),
    ),
    (
        "Q4: small batch, D > 2B",
        "gather_or_reduce",
        (1000, 8192, 32768, 4, True, 4.59e14, W5P),
        {"gather": 2.983e-3, "reduce": 0.7282e-3, "better": "reduce", "crossover": 2000},
    ),
    (
        "Q4: large batch, D > 5100",
        "gather_or_reduce",
        (5000, 5000, 32768, 4, True, 4.59e14, W5P),
        {"gather": 3.5694e-3, "reduce": 3.6409e-3, "better": "gather", "crossover": 5100},
    ),
    (
        "Q9: J/K between AllGather and ReduceScatter",
        "slice_or_gather",
        (1000, 3 * 512, 512, 8, 1e9, False),
        {"gather": (1.536e-3, 1.96608e8), "slice": (1.536e-3 / 3, 1.96608e8)},
    ),
    (
        "Q6: v5e 4x4, C[I_X, K] {U_Y} of 1024 rows",
        "gather_or_reduce",
        (1024, 8192, 8192, 4, False, 1.97e14, W5E),
        {"gather": 2.237e-3, "reduce": 559.2e-6, "better": "reduce", "crossover": 2048},
    ),
    (
        "Q5, B23: v5p 4x4x4",
        "lowest_latency",
        (8192, 8192, 8192, (4, 4, 4), 4.59e14, W5P),
        ("rows", {"rows": 286e-6, "columns": 286e-6, "contraction": 534.5e-6, "replicated": 2395e-6}),
    ),
]


@course.of_the_sources(NUMBERS)
def test_numbers_of_the_sources(solved, name, args, expected):
    agree(solved[name](*args), expected)


def test_question_5_in_its_parts(solved):
    """37.4 us of arithmetic; 249 us for the AllGather, 497 us for the AllReduce."""
    _, t = solved["lowest_latency"](8192, 8192, 8192, (4, 4, 4), 4.59e14, W5P)
    agree((t["replicated"] / 64, t["rows"] - 37.43e-6, t["contraction"] - 37.43e-6), (37.43e-6, 248.55e-6, 497.1e-6))


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


def test_ratio_of_exchange_and_gather(solved):
    for D in (4, 6, 8, 16, 64):
        for ways in (1, 2):
            _, exchange, _ = solved["link_load"](D, D, ways)  # D² numbers: blocks of one
            assert math.isclose(exchange, collectives.all_to_all(D * D, Axis(D), ways).bytes)
        assert math.isclose(solved["link_load"](D, D, 2)[2], 4)


def test_question_6_on_the_slice(solved):
    s = Slice(chip("v5e"), (4, 4))
    mesh = Mesh.on(s, "XY")
    V, W = 2 * 1024 * 8192, s.chip.link_bandwidth
    told = solved["gather_or_reduce"](1024, 8192, 8192, 4, s.wraps[1], s.chip.rate(), W)
    agree(told["reduce"], 2 * collectives.seconds(collectives.reduce_scatter(V, mesh.wires("Y")), W))
    chained = collectives.seconds(collectives.all_reduce(V, mesh.wires("Y")), W)  # what is said after a pass
    agree((chained / told["reduce"], chained), (2 / 3, V / W))
