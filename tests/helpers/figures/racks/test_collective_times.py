"""A collective on a cluster: the figure against `cluster_time` and `bottleneck`, and its bars against its numbers."""

import math
import random

import pytest

from helpers.costs.racks.cut import bottleneck
from helpers.costs.racks.tiered_collectives import algorithms, cluster_time
from helpers.costs.racks.training_over_tiers import data_tokens
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.figures.racks.collective_times.figure import LEFT, MACHINES, MODELS, SENT, WIDE
from helpers.figures.racks.collective_times.times import NAMES, SIDES, SLOTS, sizes
from tests.helpers.figures.standalone import SET, shown, status
from tests.helpers.figures.test_as_data import draw
from tests.tiers import repeats

NAME = "cluster"
WEIGHTS, _, GRADIENTS, TP, EP = SENT
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
        for sent, (kind, *_) in SENT.items():
            found = figure.values({"model": "deepseek-v3", "machine": where, "sent": sent, "m": m, "b": 64, "V": V})
            assert found["n"] == c.chips and found["what"] == 1 and names(found) == algorithms(c, kind)
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
            assert found["need"] == found["lower"] * machine.chip.rate()


def test_a_layer_is_a_layer_of_the_model():
    for name in MODELS:
        c, some = model(name), sizes(name)
        dense = c.moe.first_dense if c.moe else 0
        p = parameters(c)
        shallow = parameters(model(name, L=c.L - 1))
        assert some["P"] == p.total - shallow.total - (p.norms - shallow.norms) - (p.biases - shallow.biases)
        assert some["A"] == p.matmul - shallow.matmul
        assert some["E"] == (c.moe.E if c.moe else 0) and dense in (0, 3)
        if not c.moe:
            assert some["M"] == c.matrices * c.D * c.F


def test_tokens_that_hide_are_the_thresholds_of_the_chapter(figure):
    """Without hops: large arrays."""
    for text, g in (("H100 hosts of 8", 8), ("GB200 NVL72 racks", 72)):
        of = chip(MACHINES[text].chip_name)
        found = figure.values({"model": "llama-3.1-405b", "machine": text, "sent": WEIGHTS, "m": 128, "b": 1024})
        bare = max(found["row1_in_bytes"], found["row1_out_bytes"]) * of.rate()
        least = data_tokens(of.rate(), g, 128, of.link_bandwidth, of.dcn_bandwidth)
        assert 1024 * bare / found["have"] == pytest.approx(least)


def test_from_the_tokens_that_it_says_on_it_hides(figure):
    hidden = {True: 0, False: 0}
    for seed in range(90):
        chosen = draw(figure, seed) | {"sent": (TP, EP, GRADIENTS)[seed % 3], "model": "deepseek-v3"}
        chosen.pop("V", None)
        found = figure.values(chosen)
        if found["wrong"]:
            continue
        hidden[math.isfinite(found["tokens"])] += 1
        if math.isinf(found["tokens"]):
            assert found["have"] < found["need"]
            continue
        k = names(found).index(list(NAMES)[int(found["first"])])
        for b in (found["tokens"] - 1.001, found["tokens"] + 0.001):
            if b > 0:
                there = figure.values(chosen | {"b": b})
                C = MACHINES[chosen["machine"]].chip.rate()
                assert (there["have"] > there[f"row{k}_lower"] * C) == (b > found["tokens"]), chosen
    assert min(hidden.values()) > 5, hidden


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


def test_an_impossible_setting_says_what_would_do(page):
    page.evaluate(SET, {"sent": EP})
    assert set(shown(page).values()) == {"unknown"}
    assert status(page).startswith("llama-3-70b has no experts to send tokens to: choose mixtral-8x7b, ")
    page.evaluate(SET, {"model": "deepseek-v3", "m": 64})
    assert status(page).startswith(
        "The 256 experts of deepseek-v3 cannot be spread over 512 GPUs. Take at most 32 hosts,"
    )
    page.evaluate(SET, {"model": "mixtral-8x7b", "machine": "GB200 NVL72 racks"})
    assert "Even one rack has more chips than that: take another model" in status(page)
    page.evaluate(SET, {"V": 2**30})
    assert "1.07 GB of your own by AllToAll" in status(page)
