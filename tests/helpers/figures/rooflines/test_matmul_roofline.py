"""The live figure of chapter 1 against the Python it was traced from."""

import math
import random

import pytest

from helpers import figures
from tests.helpers.figures.standalone import SET, follow, link, same, shown, status, strays
from tests.tiers import repeats

NAME = "matmul-roofline"
LIMIT = 20_000  # bytes of script for one figure


def settings(figure, chosen: dict) -> dict[str, float]:
    """Arguments of the figure's function when the controls show `chosen` (log2 of sizes, names of options)."""
    args = {}
    for control in figure.controls:
        value = chosen[control.name]
        args |= (
            control.options[value] if hasattr(control, "options") else {control.name: float(math.floor(2**value + 0.5))}
        )
    return {k: float(v) for k, v in args.items()}


def expected(figure, chosen: dict) -> dict[str, str]:
    values = figure.function(**settings(figure, chosen))
    return {r.name: r.text(values[r.name]) for r in figure.results}


def draw(figure, seed: int) -> dict:
    r = random.Random(seed)
    return {
        c.name: r.choice(list(c.options))
        if hasattr(c, "options")
        else r.randint(round(c.low / c.step), round(c.high / c.step)) * c.step
        for c in figure.controls
    }


def test_the_script_is_small(figure):
    assert len(figure.script().encode()) + len(figures.scripts()["figure_controls.js"].encode()) < LIMIT


def test_the_keyboard_moves_it(page, figure):
    chosen = {c.name: c.value if hasattr(c, "options") else math.log2(c.value) for c in figure.controls}
    slider = page.get_by_label(next(c.label for c in figure.controls if c.name == "B"), exact=True)
    slider.focus()
    point = page.locator("svg circle[data-mark]").first
    before = point.get_attribute("cx")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    chosen["B"] += 1
    assert shown(page) == expected(figure, chosen)
    assert float(point.get_attribute("cx")) > float(before)
    assert slider.get_attribute("aria-valuetext") == "512"
    page.get_by_label("Chip", exact=True).focus()
    page.keyboard.type("v5p")
    chosen["chip"] = "v5p"
    assert shown(page) == expected(figure, chosen)
    assert page.locator("[role=status]").get_attribute("aria-live") == "polite" and "v5p" in status(page)


def test_a_setting_can_be_linked_to(page, figure, address):
    follow(page, f"{address}#live-matmul-roofline?B=128&chip=A100&dtype=nonsense")
    assert page.get_by_label("Chip", exact=True).input_value() == "A100"
    chosen = {c.name: c.value if hasattr(c, "options") else math.log2(c.value) for c in figure.controls}
    assert shown(page) == expected(figure, chosen | {"B": 7.0, "chip": "A100"})
    assert "B = 128," in status(page) and strays(page) == "dtype = nonsense"


def test_a_link_has_the_value_itself_even_one_between_two_places(page, address):
    follow(page, f"{address}#live-matmul-roofline?B=100")
    assert status(page).startswith("B = 100, D = 8,192")
    page.get_by_label("D, numbers in a row", exact=True).press("ArrowRight")
    page.keyboard.press("Tab")
    assert "?B=100&" in link(page)
    page.get_by_label("B, rows (tokens)", exact=True).press("ArrowRight")
    assert status(page).startswith("B = 128, ")


@pytest.mark.parametrize("B", ["200000", "-4"])
def test_a_value_out_of_range_is_refused_in_a_sentence(page, address, B):
    follow(page, f"{address}#live-matmul-roofline?B={B}&chip=v5E")
    assert status(page).startswith(
        f"B takes whole numbers from 1 to 65,536, and so B = {B}, chip = v5E is ignored. B = 256, "
    )
    assert page.get_by_label("Chip", exact=True).input_value() == "H100"


def test_forty_settings_read_as_python_prints_them(page, figure):
    for seed in range(repeats(10, 40)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        assert shown(page) == expected(figure, chosen), chosen


def test_a_rate_that_nobody_publishes_is_unknown(page, figure):
    page.get_by_label("Chip", exact=True).select_option("v5e")
    page.get_by_label("Types", exact=True).select_option("f32 × f32")
    said = shown(page)
    assert said["lower"] == said["bound"] == said["critical"] == "unknown" != said["intensity"]
    page.get_by_label("Types", exact=True).select_option("fp8 × fp8")
    said = status(page)
    assert "v5e has no published FLOPs/s" in said and "unknown" not in said
    page.get_by_label("Chip", exact=True).select_option("H100")
    assert "bound by" in status(page)


def test_two_thousand_settings_in_chromium(page, figure):
    """The traced function in the page, number for number."""
    cases = [settings(figure, draw(figure, seed)) for seed in range(repeats(400, 2000))]
    names = list(figure.settings())
    got = page.evaluate(
        "cases => cases.map(c => window.liveFigures[0][1](...c))", [[case[n] for n in names] for case in cases]
    )
    for case, found in zip(cases, got, strict=True):
        want = figure.function(**case)
        assert found.keys() == want.keys()
        assert [n for n in want if not same(found[n], want[n])] == [], case
