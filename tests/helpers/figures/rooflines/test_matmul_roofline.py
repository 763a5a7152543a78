"""The live figure of chapter 1 in Chromium, against the Python it was traced from."""

import math
import random

import pytest

from helpers import figures
from tests.tiers import repeats

PAGE = "book/ch01_rooflines.html"
LIMIT = 20_000  # bytes of script for one figure


@pytest.fixture(scope="module")
def figure():
    return figures.figure("matmul-roofline")


def settings(figure, chosen: dict) -> dict[str, float]:
    """Arguments of the figure's function when the controls show `chosen` (log2 of sizes, names of options)."""
    args = {}
    for control in figure.controls:
        value = chosen[control.name]
        args |= (
            control.options[value] if hasattr(control, "options") else {control.name: float(math.floor(2**value + 0.5))}
        )
    return {k: float(v) for k, v in args.items()}


def table(page) -> dict[str, str]:
    return page.eval_on_selector_all(
        "[data-result]", "cells => Object.fromEntries(cells.map(c => [c.dataset.result, c.textContent]))"
    )


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


def test_without_javascript_the_page_has_figure_and_table(visit, figure):
    page = visit(PAGE, javascript=False)
    box = page.locator("#live-matmul-roofline")
    box.scroll_into_view_if_needed()
    assert not box.locator("form").is_visible()
    assert box.locator("svg").is_visible() and box.locator("table").is_visible()
    # Of a part that is not drawn yet, `inner_text` is empty.
    cells = {r.name: box.locator(f'[data-result="{r.name}"]').text_content() for r in figure.results}
    values = figure.values()
    assert cells == {r.name: r.text(values[r.name]) for r in figure.results}


def test_with_javascript_nothing_changes_before_the_first_move(visit, figure):
    still = visit(PAGE, javascript=False).locator("#live-matmul-roofline [role=status]").text_content()
    page = visit(PAGE)
    assert page.locator("#live-matmul-roofline form").is_visible()
    values = figure.values()
    assert table(page) == {r.name: r.text(values[r.name]) for r in figure.results}
    assert page.locator("#live-matmul-roofline [role=status]").text_content() == still
    assert visit.errors == [] and visit.asked == []


def test_the_keyboard_moves_it(visit, figure):
    page = visit(PAGE)
    chosen = {c.name: c.value if hasattr(c, "options") else math.log2(c.value) for c in figure.controls}
    slider = page.get_by_label(next(c.label for c in figure.controls if c.name == "B"), exact=True)
    slider.focus()
    point = page.locator("#live-matmul-roofline svg circle[data-mark]").first
    before = point.get_attribute("cx")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    chosen["B"] += 1
    assert table(page) == expected(figure, chosen)
    assert float(point.get_attribute("cx")) > float(before)
    assert slider.get_attribute("aria-valuetext") == "256"
    page.get_by_label("Chip", exact=True).focus()
    page.keyboard.type("H100")
    chosen["chip"] = "H100"
    assert table(page) == expected(figure, chosen)
    status = page.locator("#live-matmul-roofline [role=status]")
    assert status.get_attribute("aria-live") == "polite" and "H100" in status.text_content()
    assert visit.errors == []


def test_a_setting_can_be_linked_to(visit, figure):
    page = visit(f"{PAGE}#live-matmul-roofline?B=128&chip=A100&dtype=nonsense")
    assert page.get_by_label("Chip", exact=True).input_value() == "A100"
    chosen = {c.name: c.value if hasattr(c, "options") else math.log2(c.value) for c in figure.controls}
    assert table(page) == expected(figure, chosen | {"B": 7.0, "chip": "A100"})
    said = page.locator("#live-matmul-roofline [role=status]").text_content()
    assert (
        said.startswith("Not among this figure's settings, and so ignored: dtype = nonsense. ") and "B = 128," in said
    )


def test_a_link_has_the_value_itself_even_one_between_two_places(visit, figure):
    page = visit(f"{PAGE}#live-matmul-roofline?B=100")
    said = page.locator("#live-matmul-roofline [role=status]")
    assert said.text_content().startswith("B = 100, D = 8,192")
    page.get_by_label("D, contracted size", exact=True).press("ArrowRight")
    page.keyboard.press("Tab")
    assert page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('B')") == "100"
    page.get_by_label("B, rows (tokens)", exact=True).press("ArrowRight")
    assert said.text_content().startswith("B = 128, ")


@pytest.mark.parametrize("B", ["200000", "-4"])
def test_a_value_out_of_range_is_refused_in_a_sentence(visit, B):
    page = visit(f"{PAGE}#live-matmul-roofline?B={B}&chip=h100")
    said = page.locator("#live-matmul-roofline [role=status]").text_content()
    assert said.startswith(f"B takes whole numbers from 1 to 65,536, and so B = {B}, chip = h100 is ignored. B = 128, ")
    assert page.get_by_label("Chip", exact=True).input_value() == "v5e"


def test_forty_settings_read_as_python_prints_them(visit, figure):
    page = visit(PAGE)
    for seed in range(repeats(10, 40)):
        chosen = draw(figure, seed)
        page.evaluate(
            """chosen => {
                const form = document.querySelector("#live-matmul-roofline form");
                for (const [name, value] of Object.entries(chosen)) form.elements[name].value = value;
                form.dispatchEvent(new Event("input"));
            }""",
            chosen,
        )
        assert table(page) == expected(figure, chosen), chosen


def test_a_rate_that_nobody_publishes_is_unknown(visit, figure):
    page = visit(PAGE)
    page.get_by_label("Types", exact=True).select_option("f32 × f32")
    assert (
        table(page)["lower"] == "unknown" and table(page)["bound"] == "unknown" and table(page)["critical"] == "unknown"
    )
    assert table(page)["intensity"] != "unknown"
    page.get_by_label("Types", exact=True).select_option("fp8 × fp8")
    said = page.locator("#live-matmul-roofline [role=status]").text_content()
    assert "v5e has no published FLOPs/s" in said and "unknown" not in said
    page.get_by_label("Chip", exact=True).select_option("H100")
    assert "bound by" in page.locator("#live-matmul-roofline [role=status]").text_content()


def test_two_thousand_settings_in_chromium(visit, figure):
    """The traced function in the page, number for number."""
    cases = [settings(figure, draw(figure, seed)) for seed in range(repeats(400, 2000))]
    names = list(figure.settings())
    page = visit(PAGE)
    got = page.evaluate(
        """cases => cases.map(c => Object.entries(window.liveFigures[0][1](...c.map(Number))).map(([k, v]) => [k, String(v)]))""",
        [[str(case[n]).replace("nan", "NaN") for n in names] for case in cases],
    )
    for case, found in zip(cases, got, strict=True):
        want = figure.function(**case)
        assert dict(found).keys() == want.keys()
        for name, text in found:
            value = float(text.replace("Infinity", "inf"))
            assert math.isclose(value, want[name], rel_tol=1e-12) or (math.isnan(value) and math.isnan(want[name])), (
                case,
                name,
            )
