"""The live figure of chapter 1: what it says of links and of rates that nobody publishes."""

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import matmul, on_chip
from tests.helpers.figures.standalone import follow, link, shown, status

NAME = "matmul-roofline"


def test_its_times_are_those_of_the_chip(figure):
    t = on_chip(matmul(512, 8192, 4096), chip("v5p"))
    values = figure.values({"B": 512, "F": 4096, "chip": "v5p"})
    assert (values["math"], values["comms"], values["lower"], values["upper"]) == (t.math, t.comms, t.lower, t.upper)


def test_a_link_has_the_value_itself_even_one_between_two_places(page, address):
    follow(page, f"{address}#live-matmul-roofline?B=100")
    assert status(page).startswith("B = 100, D = 8,192")
    page.get_by_label("D, numbers in a row", exact=True).press("ArrowRight")
    page.keyboard.press("Tab")
    assert "?B=100&D=10240&" in link(page)
    page.get_by_label("B, rows (tokens)", exact=True).press("ArrowRight")
    assert status(page).startswith("B = 112, ")


@pytest.mark.parametrize("B", ["200000", "-4"])
def test_a_value_out_of_range_is_refused_in_a_sentence(page, address, B):
    follow(page, f"{address}#live-matmul-roofline?B={B}&chip=v5E")
    assert status(page).startswith(
        f"Not among this figure's settings, and so ignored: B = {B}, chip = v5E. B takes whole numbers from 1 to 65,536. B = 256, "
    )
    assert page.get_by_label("Chip", exact=True).input_value() == "H100"


def test_a_rate_that_nobody_publishes_is_unknown(page):
    page.get_by_label("Chip", exact=True).select_option("v5e")
    page.get_by_label("Types", exact=True).select_option("f32 × f32")
    said = shown(page)
    assert said["lower"] == said["bound"] == said["critical"] == "unknown" != said["intensity"]
    page.get_by_label("Types", exact=True).select_option("fp8 × fp8")
    said = status(page)
    assert "v5e has no published FLOPs/s" in said and "unknown" not in said
    page.get_by_label("Chip", exact=True).select_option("H100")
    assert "bound by" in status(page)
