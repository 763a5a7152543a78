"""Arithmetic that a page shows: what stands in front of the result, taken as Python, gives the result."""

import re

import pytest

from helpers import prose
from helpers.costs.rooflines.chips import chip
from helpers.prose import number

SCOPE = {**prose.names(), "v5e": chip("v5e"), "H100": chip("H100"), "B": 256, "D": 8192}
EXPRESSIONS = [
    ("bf16 * 2048 * 8192 / (2 * v5e.link_bandwidth)", "seconds", "2 B · 2048 · 8192 / (2 · 45e9 B/s)"),
    ("2 * B * D * D / H100.rate()", "seconds", "2 · 256 · 8192 · 8192 / (989e12 FLOPs/s)"),
    ("bf16 * (B * D + D * D + B * D) / H100.hbm_bandwidth", "seconds",
     "2 B · (256 · 8192 + 8192 · 8192 + 256 · 8192) / (3.35e12 B/s)"),
    ("H100.rate() / H100.hbm_bandwidth", ".0f", "989e12 FLOPs/s / (3.35e12 B/s)"),
    ("D - (B - 2)", ",", "8192 − (256 − 2)"),
    ("D / (B / 2) / 3", ".1f", "8192 / (256 / 2) / 3"),
    ("2**34 / v5e.hbm_bytes", ".2f", "2^34 / 16e9 B"),
    ("70e9 * bf16 / (8 * H100.hbm_bandwidth)", "seconds", "70e9 · 2 B / (8 · 3.35e12 B/s)"),
]  # fmt: skip


def plain(text: str) -> float:
    """The arithmetic as Python: signs of a printer and units away."""
    text = re.sub(r" (?:FLOPs/s|B/s|B)(?![\w·])", "", text)
    return eval(text.replace("·", "*").replace("−", "-").replace("^", "**"))


@pytest.mark.parametrize(("expression", "spec", "shown"), EXPRESSIONS)
def test_the_arithmetic_gives_the_result(expression, spec, shown):
    found = prose.figure(f"{expression} | worked {spec}", SCOPE)
    result = prose.figure(f"{expression} | {spec}", SCOPE).replace(" ", "\u00a0")
    assert found == f'<span class="worked">{shown} =</span>\u00a0{result}'
    assert plain(shown) == pytest.approx(eval(expression, SCOPE), rel=1e-3)


@pytest.mark.parametrize("x", [0.0123, 3.35e12, 989e12, 45e9, 1e6, 134217728, 99999, 7, 2.5e-6, 999.9])
def test_a_number_is_what_it_says(x):
    assert float(number(x)) == pytest.approx(x, rel=1e-3)
    assert re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", number(x))
