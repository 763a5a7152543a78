"""The planner's deployments: what it answers to a target, on its page and in Python."""

import math

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server, loaded
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import kv_cache, parameters
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.planner import deployments, serving
from tests.helpers.figures.inference.test_planner import SET, check
from tests.helpers.figures.standalone import follow, link, strays

NAME = "planner"
SERVE = {"task": "serve", "chip": "H100", "weights": "fp8"}
DRAWN = """() => {
    const svg = document.querySelector("[data-frontier]"), at = c => [c.cx.baseVal.value, c.cy.baseVal.value];
    return { points: [...svg.querySelectorAll("circle:not([data-at])")].map(at), filled: svg.querySelectorAll(".live-dot").length,
             bar: svg.querySelector("path.live-line").getBBox().width,
             at: at(svg.querySelector("[data-at]")), said: svg.getAttribute("aria-label") };
}"""


def ask(figure, **changes):
    return figure.plan(SERVE | changes)


def test_a_target_that_can_be_kept_is_kept_by_the_fewest_chips_and_others_are_said(figure):
    found = ask(figure)
    n = found.rows[0].plan.deployment.chips
    assert found.rows[0].fits and f"{n} H100, the fewest that will do" in found.sentence
    fewer = [ask(figure, chips=x) for x in serving.SIZES if x < n]
    assert not any(x.rows and x.rows[0].fits for x in fewer)
    said = fewer[-1].sentence
    assert (
        "Nothing there keeps all that is asked, and this is the nearest:" in said
        and f" {n} H100 would keep all of it." in said
    )
    assert "More of these chips would not help." in ask(figure, speed="5000", chips="8").sentence
    nearest = ask(figure, speed="5000")
    assert (
        not nearest.rows[0].fits
        and "No number of chips keeps all that is asked, and this is the nearest:" in nearest.sentence
    )
    assert "where 5000 are asked" in nearest.sentence
    assert nearest.rows[0].missed == ("speed",)
    free = ask(figure, speed="", wait="", users="", chips="8")
    assert all(r.fits for r in free.rows) and "Nothing is asked of it" in free.sentence
    assert ", on 8 of 12 H100; " in ask(figure, chips="12", pick="8.1.1.1.16").sentence


def test_what_cannot_be_says_what_would(figure):
    said = ask(figure, model="deepseek-v3", chip="H200", weights="bf16", chips="8").sentence
    assert said == "deepseek-v3 in bf16 with one cache of 5,000 tokens does not fit on 8 H200: 16 would do."
    assert ask(figure, model="deepseek-v3", chip="H200", weights="bf16", chips="16").rows
    large = {"model": "kimi-k2", "chip": "A100, 40 GB", "prompt": "1000000", "answer": "1000000"}
    for weights, end in (
        ("bf16", ", weights in fp8, or shorter requests."),
        ("fp8", ", weights in int4, or shorter requests."),
        ("int4", ", or shorter requests."),
    ):
        said = ask(figure, **large | {"weights": weights}).sentence
        assert said.endswith(f" does not fit on 4,096 A100, 40 GB: take chips with more memory{end}")
    said = ask(figure, chip="A100", cache="fp8").sentence
    assert said == "A100 has no arithmetic in fp8: keep caches in bf16, or in int8."


def test_the_numbers_of_a_line_are_those_of_the_server(figure):
    found = ask(figure, price="2.5", chips="8", pick="8.1.1.1.16")
    s = Server(model("llama-3-70b"), chip("H100"), Deployment(tp=8, weights="fp8"), ENGINES["vllm"])
    at, values = loaded(s, 4000, 1000, 16), found.values
    assert values["gap"] == at.gap.mid and values["first_high"] == at.first.high
    assert values["memory"] == pytest.approx(s.held + 16 * kv_cache(model("llama-3-70b"), 5000) / 8 + 8e9)
    assert sum(values[f"g{n}"] for n in range(len(deployments.GAP))) == pytest.approx(at.gap.mid)
    assert sum(values[f"f{n}"] for n in range(len(deployments.FIRST))) == pytest.approx(at.first.mid)
    # weights in a byte each, the unembedding in two and the embedding not at all; caches of 16 requests half through their answers
    read = parameters(s.config).total + 16 * kv_cache(s.config, 4500)
    assert values["floor"] == pytest.approx(read / 8 / 3.35e12, rel=1e-3)
    assert values["floor"] < values["gap_low"]
    spent = values["rate"] * (4000 * values["cost_in"] + 1000 * values["cost_out"]) / 1e6
    assert spent == pytest.approx(8 * 2.5 / 3600, rel=0.05)  # of a second: tokens in and out cost what the chips cost


@pytest.mark.slow("a browser, and the page of all models")
def test_the_point_moves_by_mouse_and_arrow_keys(page, figure):
    page.evaluate(SET, SERVE)
    check(page, figure, SERVE)
    found = ask(figure)
    drawn = page.evaluate(DRAWN)
    assert len(drawn["points"]) == len(found.frontier) and drawn["filled"] == sum(r.fits for r in found.frontier)
    assert drawn["at"] in drawn["points"] and f"{len(found.frontier)} points" in drawn["said"]
    assert drawn["points"] == sorted(drawn["points"])  # faster to the right, and so lower
    (left, right), ends = (drawn["points"][n][0] for n in (0, -1)), [found.frontier[n].plan.speed for n in (0, -1)]
    stretch = (right - left) / math.log(ends[1] / ends[0])
    assert drawn["bar"] == pytest.approx(
        stretch * math.log(found.values["gap_high"] / found.values["gap_low"]), abs=0.3
    )
    slider = page.get_by_label("Along the frontier")
    slider.focus()
    here = next(n for n, r in enumerate(found.frontier) if r.name == found.rows[0].name)
    for key, step in (("ArrowRight", 1), ("ArrowLeft", 0)):
        page.keyboard.press(key)
        to = SERVE | {"pick": found.frontier[here + step].name}
        check(page, figure, to)
        assert found.frontier[here + step].words in slider.get_attribute("aria-valuetext")
    page.keyboard.press("Home")
    check(page, figure, SERVE | {"pick": found.frontier[0].name})
    box, last = page.locator("[data-frontier]").bounding_box(), page.evaluate(DRAWN)["points"][-1]
    page.mouse.click(box["x"] + last[0] * box["width"] / 360, box["y"] + last[1] * box["width"] / 360)
    check(page, figure, SERVE | {"pick": found.frontier[-1].name})
    assert page.evaluate(DRAWN)["at"] == last
    follow(page, link(page))
    assert strays(page) == ""
    check(page, figure, SERVE | {"pick": found.frontier[-1].name})
