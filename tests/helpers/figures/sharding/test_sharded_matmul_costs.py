"""The planner on the page against the planner in Python."""

import math
import random

from helpers.figures.sharding.sharded_matmul_costs.plans import step_time
from tests.helpers.figures.standalone import SET
from tests.tiers import repeats

NAME = "sharded-matmul"
NUMBERS = """cases => cases.map(chosen => {
    const [data, compute] = window.liveFigures[0], box = document.getElementById(data.id), said = {}, args = {};
    for (const c of data.controls)
        if (c.options) Object.assign(args, c.options[chosen[c.name]]);
        else args[c.name] = chosen[c.name];
    const best = window.livePlans(data, compute, box, { ...window.liveWords, text: String })(args, said);
    const { math, memory, links, lower, upper, bound, peak, fits, steps } = best;
    return { math, memory, links, lower, upper, bound, peak, fits, steps, count: said.count };
})"""


def draw(figure, seed: int) -> dict:
    """Some setting of all controls."""
    r = random.Random(seed)
    return {c.name: r.choice(list(c.options)) if hasattr(c, "options") else r.choice(c.grid) for c in figure.controls}


def shown(page) -> tuple[dict, list]:
    """What the page says: results, and the lines of its plans."""
    results = page.eval_on_selector_all(
        "[data-result]", "cells => Object.fromEntries(cells.map(c => [c.dataset.result, c.textContent]))"
    )
    lines = page.eval_on_selector_all(
        "[data-plan]:not([hidden])",
        "bodies => bodies.map(b => [...b.rows].slice(1).map(r => [...r.cells].map(c => c.textContent)))",
    )
    return results, [[tuple(row) for row in plan] for plan in lines]


def expected(figure, chosen=None) -> tuple[dict, list]:
    said = figure.said(chosen)
    return {r.name: said[r.name] for r in figure.results}, figure.lines(chosen)


def test_sixty_settings_read_as_the_planner_says(page, figure):
    for seed in range(repeats(15, 60)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        assert shown(page) == expected(figure, chosen), chosen
        assert page.locator("[role=status]").inner_text() == figure.sentence(chosen)


def test_four_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(1000, 1000 + repeats(100, 400))]
    for chosen, got in zip(cases, page.evaluate(NUMBERS, cases), strict=True):
        values, ((best, chip), *_) = figure.found(chosen)
        parts = best.time(chip).parts
        want = {"math": parts["math"], "memory": parts["hbm"], "links": parts["ici"], **values}
        assert int(got["count"]) == want.pop("count")
        assert (got["bound"], got["fits"]) == (want.pop("bound"), want.pop("fits")), chosen
        for name, value in want.items():
            assert math.isclose(got[name], value, rel_tol=1e-12), (chosen, name)
        steps = [step_time(h, a, best, chip) for a, hops in zip(best.operands, best.hops) for h in hops]
        assert math.isclose(sum(got["steps"]), sum(s or 0 for s in steps), rel_tol=1e-12)


def test_every_mesh_and_sharding_can_be_chosen(figure):
    menus = {c.name: list(c.options) for c in figure.controls if hasattr(c, "options")}
    assert len(menus["x"]) == len(menus["y"]) == 6
    assert [len(menus[n]) for n in "abc"] == [11, 11, 11] and "C[I_YX, K]" in menus["c"]
    assert "v5p" in menus["chip"] and "H100" not in menus["chip"]
