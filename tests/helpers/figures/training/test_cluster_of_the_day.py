"""The cluster of the day: every day is a riddle, and the page's numbers are those of the search in Python."""

import itertools
import math
import random
from collections import Counter
from datetime import date, timedelta

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.machines import machines
from helpers.costs.training.layout import AXES, Layout
from helpers.costs.training.layout_search import EQUAL, ranking
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from helpers.figures.training.cluster_of_the_day.draw import FIRST, ROWS, cluster
from helpers.figures.training.cluster_of_the_day.figure import START, STILL, placed, ranked
from helpers.figures.training.layout_search.candidates import NAMES_OF_STEP, PARTS, TIMES, row
from tests.helpers.figures.standalone import SET, follow, status
from tests.tiers import repeats

NAME = "day"
NUMBERS = """async cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id), form = box.querySelector("form");
    const own = window.liveLayouts(data, functions, box, { ...window.liveWords, text: String }), out = [];
    for (const { day, chip, ...placed } of cases) {
        let said = {}, values;
        const find = () => values = own.find(placed, said = {});
        form.elements.day.value = day;
        find();
        form.dispatchEvent(new Event("submit", { cancelable: true }));
        while (find(), said.best === "none") await new Promise(done => setTimeout(done, 5));
        out.push([values, said]);
    }
    return out;
}"""


def draw(figure, seed: int) -> dict:
    """Some day, and chips shared among axes: more than there are, one time in eight."""
    r = random.Random(seed)
    n, sizes = r.randrange(400), dict.fromkeys(START, 1)
    for _ in range(cluster(n).n.bit_length() - r.randrange(8)):
        sizes[r.choice(["tp", "tp", "fsdp", "fsdp", "pp", "cp", "ep"])] *= 2
    sizes["microbatches"] = 2 ** r.randrange(4)
    return {"day": f"{FIRST + timedelta(n)}", "chip": figure.chips[cluster(n).chip], **sizes}


@pytest.mark.slow("a search for each cluster")
def test_four_hundred_days_are_riddles():
    days = [cluster(day) for day in range(400)]
    assert len(ROWS) == len(set(days)) > 183 and all(
        (a.model, a.chip) != (b.model, b.chip) for a, b in zip(days, days[1:])
    )
    for there in set(days):
        found = ranked(there)
        seconds, best = found.seconds[: found.fits], found.layout(0)
        assert found.fits >= 20 and np.median(seconds) >= 1.3 * seconds[0], there
        assert seconds[0] <= EQUAL * seconds.min() and sum(getattr(best, axis) > 1 for axis in AXES) > 1, there
        assert placed(there, START).estimate.mid > EQUAL * seconds[0], there


def test_its_rows_are_all_that_a_step_takes():
    """The seconds of layouts that rank add up, and each kind of part occurs."""
    seen = set()
    for name, of, n in itertools.product(("llama-3-70b", "mixtral-8x7b"), ("v5p", "H100"), (3, 6)):
        machine = [*machines(chip(of))][n]
        found = ranking(model(name), 2**20, 4096, machine.slice, Layout(pods=machine.pods))
        for k in range(0, len(found), 7):
            at = step(model(name), found.layout(k), 2**20, 4096, machine.slice)
            parts = row(at, at.estimate)[len(TIMES) : len(TIMES) + len(PARTS)]
            assert sum(parts) == pytest.approx(at.estimate.mid), at.layout
            seen |= {part for part, s in zip(PARTS, parts) if s}
    assert seen == set(PARTS)


def test_fifty_days_number_for_number(page, figure):
    cases, kinds = [draw(figure, seed) for seed in range(1000, 1000 + repeats(50, 200))], Counter()
    for chosen, (numbers, said) in zip(cases, page.evaluate(NUMBERS, cases), strict=True):
        there = cluster((date.fromisoformat(chosen["day"]) - FIRST).days)
        every, sizes = ranked(there), {name: chosen[name] for name in START}
        seconds = every.seconds[: every.fits]
        best, policy = said["best"].rsplit(": ", 1)[1], said["best"].split(", keeping ")[1].split(":")[0]
        assert math.isclose(float(best), seconds[0], rel_tol=1e-12) and policy == every.layout(0).policy, chosen
        bars = np.bincount(np.minimum(4 * np.log2(np.maximum(seconds / seconds[0], 1)), 15).astype(int), minlength=16)
        assert np.allclose([numbers[f"h{n}"] for n in range(16)], bars / bars.max()), chosen
        taken = math.prod(sizes[axis] for axis in AXES if axis in sizes)
        try:
            taken_step = placed(there, sizes | {"dp": there.n / taken})
        except ValueError:
            assert "do not divide" in said["say"] or "does not suit" in said["say"], chosen
            kinds["refused"] += 1
            continue
        fits = bool(taken_step.memory.total <= every.hbm)
        for name, want in zip(NAMES_OF_STEP, row(taken_step, taken_step.estimate)):
            known = fits or name == "memory" or name[0] == "m" and name[1:].isdigit()
            same = math.isclose(numbers[name], want, rel_tol=1e-12) if known else math.isnan(numbers[name])
            assert same, (chosen, name)
        if fits:
            mid = float(taken_step.estimate.mid)
            assert said["times"] == f"{max(1, mid / seconds[0]):.2f}×", chosen
            assert int(said["share"]) == 100 * sum(seconds > mid * (1 + 1e-8)) // len(seconds), chosen
        kinds["fits" if fits else "full"] += 1
    assert min(kinds["fits"], kinds["full"], kinds["refused"]) >= repeats(5, 20), kinds


def line(page) -> str:
    return page.locator("[data-say=line]").inner_text()


def test_keys_alone_play_it_and_a_reload_keeps_the_tries(page, address):
    assert line(page) == "none yet: run a step that fits"
    page.get_by_label("tp", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    assert status(page).endswith("dp=4 tp=4 is not run yet.") and line(page).startswith("none")
    for _ in START:
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert line(page) == "R2R 1 Jan · 1.00× of the best · 1 try" and " takes 402 ms, 1.00× of the best" in status(page)
    page.keyboard.press("Enter")  # the same again is no other try
    page.evaluate(SET, {"tp": 2, "cp": 4})
    button = page.get_by_role("button", name="Run a step")
    button.click()
    follow(page, address)
    assert line(page) == "R2R 1 Jan · 1.00× of the best · 2 tries"
    page.evaluate(SET, {"day": "2026-02-30"})
    assert (
        status(page).startswith("There is no cluster for “2026-02-30”: write a day such as 2026-01-01")
        and button.is_disabled()
    )


def test_what_is_given_stands_first_a_full_layout_has_no_seconds_and_other_formulas_begin_anew(page, address):
    given, form = page.locator("[data-say=given]"), page.locator("form")
    assert (
        given.bounding_box()["y"] < form.bounding_box()["y"]
        and "llama-2-13b on 16 v6e (Trillium)" in given.inner_text()
    )
    page.evaluate(SET, {"tp": 1})
    page.get_by_role("button", name="Run a step").click()
    assert "does not fit" in status(page) and "unknown" not in page.locator("figure").inner_text()
    assert page.locator("tbody").filter(visible=True).count() == 2
    page.evaluate(SET, {"tp": 4})
    page.get_by_role("button", name="Run a step").click()
    assert line(page).startswith("R2R 1 Jan")
    page.evaluate("localStorage['r2r-day'] = localStorage['r2r-day'].replace(/\"of\":-?\\d+/, '\"of\":0')")
    follow(page, address)
    assert line(page).startswith("none yet")


def test_where_no_worker_may_be_the_page_itself_searches(browser, address):
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script("window.Worker = function () { throw new DOMException('forbidden', 'SecurityError'); }")
        page.goto(f"{address}#live-day?day={FIRST + timedelta(2)}")
        page.wait_for_function("document.querySelector('[data-say=best]').textContent !== 'none'")
        best = page.locator("[data-say=best]").text_content()
        assert best.startswith(str(ranked(cluster(2)).layout(0)).split(" policy=")[0])


def test_without_javascript_one_sentence_and_an_example(still, figure):
    assert still.locator("noscript").inner_text() == STILL and status(still) == figure.example[1]["say"]
    assert not still.get_by_role("button").filter(visible=True).count() and still.locator("svg[role=img]").is_visible()
