"""The search of layouts on the page against `helpers.costs`."""

import itertools
import math
import random

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.machines import machines
from helpers.costs.training import layout_search, training_step
from helpers.costs.training.layout import Layout
from helpers.costs.training.layout_search import KEPT
from helpers.costs.transformers.public_models import model
from helpers.figures.training.layout_search.candidates import PARTS, TIMES, row
from helpers.figures.training.layout_search.figure import ANY, NAMES, TEXTS
from tests.helpers.figures.standalone import SET, check, shown, status
from tests.tiers import repeats

NAME = "layout"

NUMBERS = """cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id);
    const own = window.liveLayouts(data, functions, box, { ...window.liveWords, text: String });
    return cases.map(({ model, chip, keep, ...args }) => {
        const said = { model, chip, keep }, values = own.find(args, said);
        return [data.layouts.names.map(n => Number.isNaN(values[n]) ? null : values[n]), said];
    });
}"""


def draw(figure, seed: int) -> dict:
    """Some setting of all controls; few of a thousand chips and more, which take Python long."""
    r = random.Random(seed)
    return {
        "model": r.choice(figure.models),
        "chip": r.choice(list(figure.chips.values())),
        "n": 2 ** min(r.randint(0, 12), r.randint(2, 12)),
        "tokens": 2 ** r.randint(*figure.tokens),
        "T": 2 ** r.randint(*figure.T),
        "keep": r.choice([ANY, *KEPT]),
    }


def test_its_rows_are_all_that_a_step_takes():
    """The seconds of every layout that is listed add up, and each kind of part occurs."""
    seen = set()
    for name, of, n in itertools.product(("llama-3-70b", "mixtral-8x7b"), ("v5p", "H100"), (3, 6)):
        machine = [*machines(chip(of))][n]
        found = layout_search.ranking(model(name), 2**20, 4096, machine.slice, Layout(pods=machine.pods))
        for k in range(0, len(found), 7):
            at = training_step.step(model(name), found.layout(k), 2**20, 4096, machine.slice)
            parts = row(at, at.estimate)[len(TIMES) : len(TIMES) + len(PARTS)]
            assert sum(parts) == pytest.approx(at.estimate.mid), at.layout
            seen |= {part for part, s in zip(PARTS, parts) if s}
    assert seen == set(PARTS)


def test_thirty_settings_read_as_python_says(page, figure):
    for seed in range(repeats(8, 30)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        check(page, figure, chosen)


def test_four_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(1000, 1000 + repeats(100, 400))]
    kinds = {"fits": 0, "lacks": 0, "none": 0}
    for chosen, (numbers, said) in zip(cases, page.evaluate(NUMBERS, cases), strict=True):
        found = figure.found(chosen)
        want = figure.values(found)
        for name, value in zip(NAMES, numbers, strict=True):
            if value is None:
                assert math.isnan(want[name]), (chosen, name)
            else:
                assert math.isclose(value, want[name], rel_tol=1e-12, abs_tol=1e-300), (chosen, name)
        told = figure.said(found)
        assert {n: said[n] for n in TEXTS} == {n: told[n] for n in TEXTS}, chosen
        kinds["fits" if found.fitting else "lacks" if found.step else "none"] += 1
    assert min(kinds.values()) > repeats(7, 30), kinds


def test_a_wrong_setting_says_what_would_be_right(page, figure):
    page.evaluate(SET, {"chip": "v5e", "n": 8})
    assert "nothing fits" in status(page) and "would do." in status(page) and "unknown" in shown(page)["mid"]
    page.evaluate(SET, {"n": 1024})
    assert status(page) == "v5e ends at 256 chips (16x16) here: take 256 or fewer, or another chip."
    page.evaluate(SET, {"chip": "v5p", "T": 2**17, "tokens": 2**16})
    assert status(page).startswith("A step of 65,536 tokens has no whole sequence of 131,072")
    page.evaluate(SET, {"model": "llama-3.1-405b", "tokens": 2**17, "n": 4096, "T": 2**17, "chip": "v5p"})
    check(page, figure, {"model": "llama-3.1-405b", "tokens": 2**17, "n": 4096, "T": 2**17})
    page.evaluate(SET, {"model": "llama-3.1-405b", "n": 1, "chip": "v5e", "tokens": 2**14, "T": 1024})
    assert "choose another chip" in status(page)


def test_what_would_do_does(figure):
    chosen = {"chip": "v5e", "n": 8}
    assert not figure.found(chosen).fitting
    said = figure.sentence(figure.found(chosen), chosen)
    least = int(said.removesuffix(" would do.").rsplit(". ", 1)[1].split()[0].replace(",", ""))
    assert figure.found(chosen | {"n": least}).fitting and not figure.found(chosen | {"n": least // 2}).fitting
    assert least <= chip("v5e").pod[0] ** 2
