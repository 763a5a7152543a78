"""A collective on a cluster: the page against Python, and Python against `cluster_time` and `bottleneck`."""

import math
import random

import pytest

from helpers.costs.racks.cut import bottleneck
from helpers.costs.racks.tiered_collectives import algorithms, cluster_time, fastest
from helpers.costs.racks.training_over_tiers import data_tokens
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import Time
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.figures.racks.collective_times.bars import LEFT, scale
from helpers.figures.racks.collective_times.times import SENT, find, sizes
from tests.helpers.figures.standalone import SET, check, follow, link, same, shown, status, strays
from tests.tiers import repeats

NAME = "cluster"
FIGURE = f"#live-{NAME}"
WEIGHTS, SCATTERED, GRADIENTS, TP, EP = SENT
NUMBERS = """cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id);
    const own = window.liveCluster(data, functions, box, { ...window.liveWords, text: (v, unit) => `${v} ${unit}` });
    const machines = data.controls.find(c => c.name === "machine").options;
    return cases.map(({ model, machine, sent, ...sizes }) => {
        const said = { model, machine, sent }, values = own.find({ ...machines[machine], ...sizes }, said);
        return [values, said.say];
    });
}"""
BARS = """() => [...document.querySelectorAll("[data-slot]")].filter(g => g.style.display !== "none").map(g => [
    ...[...g.querySelectorAll("rect")].map(r => Number(r.getAttribute("width"))),
    Number(/M([\\d.]+)/.exec(g.querySelector("path").getAttribute("d"))[1]), g.querySelector("text").textContent])"""


def draw(figure, seed: int) -> dict:
    """Some setting of all controls; a size of the reader's own in a third of them."""
    r = random.Random(seed)
    at = {m.name: r.choice(list(m.options)) for m in figure.menus} | {s.name: r.choice(s.grid) for s in figure.sliders}
    if r.random() < 0.67:
        del at["V"]
    if at["sent"] == EP and r.random() < 0.7:
        at |= {"m": r.choice((1, 2, 3, 4)), "model": r.choice(("qwen-3-235b-a22b", "deepseek-v3"))}
    return at


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sample(quick=3)
def test_times_and_cuts_are_those_of_costs(figure, seed):
    r = random.Random(seed)
    for machine in figure.machines.values():
        m, V = r.choice((1, 2, 3, 5, 8, 16, 33 * (machine.g > 8) or 64)), 10 ** r.uniform(3, 12)
        c = machine.cluster(m)
        for text, sent in SENT.items():
            found = find("deepseek-v3", machine, m, text, 64, V)
            assert found.n == c.chips and found.names == algorithms(c, sent.kind) and found.own
            for name, row in zip(found.names, found.rows, strict=True):
                t = cluster_time(c, sent.kind, V, name)
                bare = cluster_time(c, sent.kind, V, name, 0.0, 0.0)
                assert (row[0], row[3]) == pytest.approx((bare.parts["ici"], bare.parts["dcn"]), rel=1e-12)
                assert (row[0] + row[1], row[3] + row[4]) == pytest.approx((t.parts["ici"], t.parts["dcn"]), rel=1e-12)
                assert (row[2] - row[0], row[5] - row[3]) == pytest.approx((row[1] + row[4],) * 2, rel=1e-6, abs=1e-15)
                assert row[6] == max(row[2], row[5]) == pytest.approx(t.lower, rel=1e-12)
            assert found.names[found.first] == fastest(c, sent.kind, V)
            tightest = bottleneck(c, sent.kind) if c.chips <= 512 else None
            if tightest:
                assert (found.side, found.bound) == (tightest.name, pytest.approx(V * tightest.seconds))
            assert found.need == found.rows[found.first][-1] * machine.chip.rate()


def test_a_layer_is_a_layer_of_the_model(figure):
    for name in figure.models:
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
        machine, of = figure.machines[text], chip(figure.machines[text].chip_name)
        found = find("llama-3.1-405b", machine, 128, WEIGHTS, 1024, None)
        bare = Time({k: found.rows[1][3 * n] for n, k in enumerate(("ici", "dcn"))}).lower * of.rate()
        least = data_tokens(of.rate(), g, 128, of.link_bandwidth, of.dcn_bandwidth)
        assert 1024 * bare / found.have == pytest.approx(least)


def test_from_the_tokens_that_it_says_on_it_hides(figure):
    hidden = {True: 0, False: 0}
    for seed in range(90):
        chosen = draw(figure, seed) | {"sent": (TP, EP, GRADIENTS)[seed % 3], "model": "deepseek-v3"}
        chosen.pop("V", None)
        if not (found := figure.found(chosen)):
            continue
        hidden[math.isfinite(found.tokens)] += 1
        machine = figure.machines[chosen["machine"]]
        for b in (found.tokens * 0.999, found.tokens * 1.001):
            there = find("deepseek-v3", machine, chosen["m"], chosen["sent"], b, None)
            row = there.rows[found.first]
            if math.isfinite(b):
                assert (there.have / machine.chip.rate() > row[-1]) == (b > found.tokens), chosen
        if math.isinf(found.tokens):
            assert found.have < found.need
    assert min(hidden.values()) > 5, hidden


def test_only_a_switch_that_adds_goes_below_the_cut(figure):
    for seed in range(200):
        found = figure.found(draw(figure, seed))
        if found and found.rows[found.first][-1] < found.bound * (1 - 1e-9):
            assert found.names[found.first] == "nvls"


def test_forty_settings_read_as_python_says(page, figure):
    for seed in range(repeats(10, 40)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        check(page, figure, chosen)
        found = figure.found(chosen)
        bars = page.evaluate(BARS)
        assert len(bars) == len(found.rows if found else ())
        if not found:
            continue
        px = scale(found.rows, found.bound)
        for n, (row, (*widths, cut, name)) in enumerate(zip(found.rows, bars, strict=True)):
            want = [px * row[0], px * (row[2] - row[0]), px * row[3], px * (row[5] - row[3]), LEFT + px * found.bound]
            assert [*widths, cut] == pytest.approx(want, abs=0.0501), chosen
            assert name.endswith(": fastest") == (n == found.first and found.wins and len(found.rows) > 1)


def test_three_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(1000, 1000 + repeats(240, 600))]
    kinds = {"own": 0, "model's": 0, "none": 0}
    full = [figure.chosen(c) for c in cases]
    for chosen, at, (numbers, say) in zip(cases, full, page.evaluate(NUMBERS, full), strict=True):
        found = figure.found(chosen)
        want = figure.values(found)
        if found:
            want |= {"bound": found.bound, "have": found.have, "need": found.need, "tokens": found.tokens}
        assert set(want) == set(numbers)
        for name, x in want.items():
            assert same(numbers[name], x), (chosen, name)
        if not found:
            assert say == figure.sentence(None, chosen)
        kinds["none" if not found else "own" if found.own else "model's"] += 1
        assert at["V"] < 2**53
    assert min(kinds.values()) > 15, kinds


def test_the_keyboard_moves_it(page, figure):
    slider = page.get_by_label("Hosts, racks or slices", exact=True)
    slider.focus()
    for m in (24, 32):
        page.keyboard.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == str(m)
        check(page, figure, {"m": m})
    page.get_by_label("Machine", exact=True).focus()
    page.keyboard.type("GB200")
    check(page, figure, {"m": 32, "machine": "GB200 NVL72 racks"})
    V = page.get_by_label("V, bytes", exact=True)
    V.focus()
    page.keyboard.press("Home")
    check(page, figure, {"m": 32, "machine": "GB200 NVL72 racks", "V": 1024})
    assert status(page).startswith("1.02 kB of your own by AllReduce over 2,304 GPUs in 32 racks: ")
    assert page.locator("[role=status]").get_attribute("aria-live") == "polite"
    region = page.locator(".live-forms")
    assert region.get_attribute("tabindex") == "0" and region.get_attribute("aria-label")


def test_a_size_of_ones_own_stays_until_what_is_sent_changes(page, figure):
    page.evaluate(SET, {"V": 2**20})
    page.evaluate(SET, {"m": 4, "machine": "TPU v7 slices of 4×4×8"})
    check(page, figure, {"m": 4, "machine": "TPU v7 slices of 4×4×8", "V": 2**20})
    page.evaluate(SET, {"b": 512})
    check(page, figure, {"m": 4, "machine": "TPU v7 slices of 4×4×8", "b": 512})
    page.evaluate(SET, {"sent": TP})
    check(page, figure, {"m": 4, "machine": "TPU v7 slices of 4×4×8", "b": 512, "sent": TP})


def test_an_impossible_setting_says_what_would_do(page, figure):
    page.evaluate(SET, {"sent": EP})
    assert set(shown(page).values()) == {"unknown"} and not page.locator("svg").is_visible()
    assert status(page).startswith("llama-3-70b has no experts to send tokens to: choose mixtral-8x7b, ")
    page.evaluate(SET, {"model": "deepseek-v3", "m": 64})
    assert status(page).startswith(
        "The 256 experts of deepseek-v3 cannot be spread over 512 GPUs. Take at most 32 hosts,"
    )
    page.evaluate(SET, {"model": "mixtral-8x7b", "machine": "GB200 NVL72 racks"})
    assert "Even one rack has more chips than that: take another model" in status(page)
    page.evaluate(SET, {"V": 2**30})
    assert "1.07 GB of your own by AllToAll" in status(page) and page.locator("svg").is_visible()


def test_a_setting_can_be_linked_to(page, figure, address):
    page.get_by_label("Model", exact=True).select_option("deepseek-v3")
    page.get_by_label("Collective", exact=True).select_option(EP)
    page.get_by_label("Hosts, racks or slices", exact=True).press("ArrowLeft")
    page.keyboard.press("Tab")
    linked, said = link(page), status(page)
    assert linked.endswith(
        "#live-cluster?model=deepseek-v3&machine=H100+hosts+of+8&sent=AllToAll+of+tokens+to+experts+%28EP%29&m=12&b=2048"
    )
    follow(page, linked)
    chosen = {"model": "deepseek-v3", "sent": EP, "m": 12}
    assert status(page) == said == figure.sentence(figure.found(chosen), chosen)
    follow(page, f"{address}{FIGURE}?model=toString&m=7&V=1000000&b=100")
    assert strays(page) == "model = toString, m = 7"
    check(page, figure, {"V": 1000000, "b": 100})
    page.get_by_label("V, bytes", exact=True).press("ArrowRight")
    page.keyboard.press("Tab")
    assert link(page).endswith("&V=1048576")
