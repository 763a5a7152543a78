"""The explorer's own page against the planner in Python."""

import random

import pytest

from helpers.figures.sharding.explorer.figure import RESULTS
from helpers.figures.sharding.explorer.plans import step_time
from tests.helpers.figures.standalone import SET, follow, link, strays
from tests.tiers import repeats

NAME = "explorer"

SAYS = """() => ({
    results: Object.fromEntries([...document.querySelectorAll("[data-result]")].map(c => [c.dataset.result, c.textContent])),
    lines: [...document.querySelector("[data-lines]").rows].map(r => [...r.cells].map(c => c.textContent)),
    menu: [...document.querySelector("[name=plan]").options].map(o => o.textContent),
    status: document.querySelector("[role=status]").textContent,
})"""
NUMBERS = """cases => {
    const [data, compute] = window.liveFigures[0], box = document.getElementById(data.id);
    const { find } = window.livePlans(data, compute, box, { ...window.liveWords, text: String });
    return cases.map(chosen => {
        const said = {}, args = {};
        for (const c of data.controls)
            if (c.options) Object.assign(args, c.options[chosen[c.name]]);
            else args[c.name] = chosen[c.name];
        const { math, memory, links, network, lower, upper, bound, peak, fits, steps } = find(args, said);
        return { math, memory, links, network, lower, upper, bound, peak, fits, steps, count: +said.count };
    });
}"""


def draw(figure, seed: int) -> dict:
    """Some setting of all controls."""
    r = random.Random(seed)
    return {c.name: r.choice(list(c.options)) if hasattr(c, "options") else r.choice(c.grid) for c in figure.controls}


def expected(figure, chosen=None) -> dict:
    said = figure.said(chosen)
    return {
        "results": {r.name: said[r.name] for r in RESULTS},
        "lines": [list(row) for row in figure.rows(chosen)],
        "menu": [f"{k + 1}. {what}: {time}" for k, (what, time) in enumerate(figure.listed(chosen))],
        "status": figure.sentence(chosen),
    }


def test_forty_settings_read_as_python_says(page, figure):
    for seed in range(repeats(6, 40)):
        chosen, r = draw(figure, seed), random.Random(seed)
        page.evaluate(SET, chosen)
        assert page.evaluate(SAYS) == expected(figure, chosen), chosen
        chosen["plan"] = r.randrange(len(figure.listed(chosen)))
        page.evaluate(SET, chosen)
        assert page.evaluate(SAYS) == expected(figure, chosen), chosen


def test_three_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(2000, 2000 + repeats(75, 300))]
    for chosen, got in zip(cases, page.evaluate(NUMBERS, cases), strict=True):
        (best, *_), chip = figure.ranked(chosen)
        parts, values = best.time(chip).parts, figure.found(chosen)
        want = {"math": parts["math"], "memory": parts["hbm"], "links": parts["ici"], "network": parts.get("dcn", 0.0)}
        steps = [step_time(h, a, best, chip) for a, some in zip(best.operands, best.hops) for h in some]
        want["steps"], got["steps"] = sum(s or 0 for s in steps), sum(got["steps"])
        assert got == pytest.approx(want | values, rel=1e-12), chosen


def test_every_mesh_and_sharding_can_be_chosen(figure):
    menus = {c.name: list(c.options) for c in figure.controls if hasattr(c, "options")}
    assert len(menus["x"]) == len(menus["y"]) == 9
    assert [len(menus[n]) for n in "abc"] == [11, 11, 11] and "C[I_YX, K]" in menus["c"]
    assert "v5p" in menus["chip"] and "H100" not in menus["chip"]


def test_the_keyboard_picks_a_plan_and_it_can_be_linked_to(page, figure):
    page.reload()
    page.get_by_label("Plan, the cheapest first").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.evaluate(SAYS) == expected(figure, {"plan": 1})
    address = link(page)
    assert "plan=1" in address
    follow(page, address)
    assert page.evaluate(SAYS) == expected(figure, {"plan": 1})
    page.get_by_label("Chip", exact=True).focus()
    page.keyboard.press("ArrowDown")  # another setting: its cheapest plan
    assert page.locator("[name=plan]").input_value() == "0"
    for query in ("plan=99&a=nonsense", "plan=-1&a=nonsense"):
        follow(page, f"{address.split('#')[0]}#live-explorer?{query}")
        assert page.evaluate(SAYS) | {"status": ""} == expected(figure) | {"status": ""}
        assert strays(page) == query.replace("=", " = ").replace("&", ", ")
    follow(page, f"{address.split('#')[0]}#live-all-gather?plan=1")  # meant for another figure
    assert page.evaluate(SAYS) == expected(figure)
