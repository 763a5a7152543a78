"""A collective on a cluster: the figure against `cluster_time` and `bottleneck`, and its bars against its numbers."""

import random

import pytest

from helpers.costs.racks.cut import bottleneck
from helpers.costs.racks.tiered_collectives import algorithms, cluster_time
from helpers.figures.racks.collective_times.figure import COLLECTIVES, LEFT, MACHINES, WIDE
from helpers.figures.racks.collective_times.times import NAMES, SIDES, SLOTS
from tests.helpers.figures.standalone import SET
from tests.helpers.figures.test_as_data import draw
from tests.tiers import repeats

NAME = "cluster"
BARS = """() => [...document.querySelectorAll(".live-fill, [fill]")].slice(2).map(r => r.style.display === "none" ? null
    : ["x", "width"].map(a => parseFloat(r.getAttribute(a))))"""
CUTS = """() => [...document.querySelectorAll(".live-cut")].slice(1)
    .map(r => r.style.display === "none" ? null : parseFloat(r.getAttribute("x")))"""


def names(values: dict) -> tuple[str, ...]:
    """The algorithms of the rows that there are."""
    there = [values[f"row{k}_name"] for k in range(SLOTS)]
    return tuple(list(NAMES)[int(n)] for n in there if n == n)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sample(quick=3)
def test_times_and_cuts_are_those_of_costs(figure, seed):
    r = random.Random(seed)
    for where, machine in MACHINES.items():
        m, V = r.choice((1, 2, 3, 5, 8, 16, 33 * (machine.g > 8) or 64)), 10 ** r.uniform(3, 12)
        c = machine.cluster(m)
        for kind in COLLECTIVES:
            found = figure.values({"machine": where, "collective": kind, "m": m, "V": V})
            assert found["n"] == c.chips and names(found) == algorithms(c, kind)
            for k, name in enumerate(names(found)):
                row = {
                    what: found[f"row{k}_{what}"]
                    for what in ("in_bytes", "in_hops", "in_all", "out_bytes", "out_hops", "out_all")
                }
                t, bare = cluster_time(c, kind, V, name), cluster_time(c, kind, V, name, 0.0, 0.0)
                for tier, link_ in (("in", "ici"), ("out", "dcn")):
                    assert row[f"{tier}_bytes"] == pytest.approx(bare.parts[link_], rel=1e-12)
                    assert row[f"{tier}_bytes"] + row[f"{tier}_hops"] == pytest.approx(t.parts[link_], rel=1e-12)
                    hops = row["in_hops"] + row["out_hops"]
                    assert row[f"{tier}_all"] - row[f"{tier}_bytes"] == pytest.approx(hops, rel=1e-6, abs=1e-15)
                lower = found[f"row{k}_lower"]
                assert lower == max(row["in_all"], row["out_all"]) == pytest.approx(t.lower, rel=1e-12)
            assert list(NAMES)[int(found["first"])] == min(
                algorithms(c, kind), key=lambda a: cluster_time(c, kind, V, a).lower
            )
            if tight := bottleneck(c, kind) if c.chips <= 512 else None:
                assert SIDES[int(found["side"])] == tight.name.split(" of ")[0]
                assert found["bound"] == pytest.approx(V * tight.seconds)


def test_bars_are_as_long_as_what_they_show(page, figure):
    for seed in range(repeats(6, 40)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        values, bars, cuts = figure.values(chosen), iter(page.evaluate(BARS)), page.evaluate(CUTS)
        ends = [values[f"row{k}_{tier}_all"] for k in range(SLOTS) for tier in ("in", "out")]
        longest = max([values["bound"], *(x for x in ends if x == x)]) or 1
        for k in range(SLOTS):
            for tier in ("in", "out"):
                some, both = (values[f"row{k}_{tier}_{what}"] / longest for what in ("bytes", "all"))
                want = (
                    [[LEFT, WIDE * some], [LEFT + WIDE * some, WIDE * (both - some)]] if both == both else [None, None]
                )
                for place in want:
                    assert next(bars) == (place and pytest.approx(place, abs=0.006)), chosen
            there = values[f"row{k}_lower"] == values[f"row{k}_lower"]
            assert cuts[k] == (pytest.approx(LEFT + WIDE * values["bound"] / longest, abs=0.006) if there else None)
