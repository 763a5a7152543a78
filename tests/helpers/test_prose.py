"""Numbers as people read them, and numbers in prose."""

import random
import re

import pytest

from helpers import prose, show
from helpers.costs.rooflines.chips import chip
from helpers.prose import number, render
from helpers.versus import Versus


@pytest.mark.parametrize("f,x,text", [
    (show.seconds, 0, "0 s"),
    (show.seconds, 9.9996e-4, "1.00 ms"),
    (show.seconds, 9.9e-3, "9.90 ms"),
    (show.seconds, 5e-13, "0.0005 ns"),
    (show.seconds, float("inf"), "for ever"),
    (show.bytes, 999, "999 B"),
    (show.bytes, 2**20, "1.05 MB"),
    (show.bytes, 8.6e14, "860 TB"),
    (show.bytes, 999.6e9, "1.00 TB"),
    (show.ibytes, 2**34, "16.0 GiB"),
    (show.ibytes, 512, "512 B"),
    (show.flops, 3.5, "3.50 FLOPs"),
    (show.rate, float("inf"), "infinite"),
    (show.flops_rate, 4.112e18, "4.11 EFLOPs/s"),
    (show.sci, 4.112e18, "4.11e18"),
    (show.sci, 1e14, "1e14"),
    (show.sci, 2.5e-7, "2.5e-7"),
])  # fmt: skip
def test_formats(f, x, text):
    assert f(x) == text


@pytest.mark.parametrize(
    "asked,text",
    [("45e9 | rate", "45 GB/s"), ("1e-6 | seconds", "1 µs"), ("2.1e6 | bytes", "2.1 MB"), ("100e9 | rate", "100 GB/s"),
     ("1.0868e-3 | seconds 2", "1.1 ms"), ("8755.6 | .1f", "8755.6"), ("2.0 | .1f", "2.0"), ("1e14 | sci", "1e14")],
)  # fmt: skip
def test_prose_rounds_as_people_do(asked, text):
    assert render(f"{{{{ {asked} }}}}") == text


def test_expressions_are_computed_and_code_is_left_alone():
    source = """\
% let B = critical_batch_limit(1.97e14, 8.1e11)
B is {{ B | .0f }}, or $B > {{ round(B) }}$, and {{ 2**30 | ,d }}; {{ 'a|b' | s }}.

```{code-cell} ipython3
x = {"{{ B }}": 1}     # % let is no comment here
```

```{math}
:label: eq-b
B = {{ B | .1f }}
```
Then {{ B | sci }}.

:::{dropdown} {{ 1 + 1 }} answers
{{ 3 | .1f }}
:::
"""
    out = render(source)
    assert "B is 243, or $B > 243$, and 1,073,741,824; a|b." in out
    assert '"{{ B }}": 1' in out and "% let B" not in out
    assert "B = 243.2" in out and "Then 2.43e2." in out and "{dropdown} 2 answers\n3.0" in out


@pytest.mark.parametrize(
    "line,message",
    [("{{ 1 / 0 }}", "ZeroDivisionError"), ("{{ chip('v5f') }}", "did you mean"), ("% let a = b", "NameError")],
)
def test_a_broken_expression_names_its_line(line, message):
    with pytest.raises(ValueError, match=rf"book/x.md, line 2: cannot compute .*{message}"):
        render("one\n" + line, "book/x.md")


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


FOOT = re.compile(r"median ratio ([\d.]+), from ([\d.]+) to ([\d.]+)")


def table(ratios):
    t = Versus("t", "row")
    for i, r in enumerate(ratios):
        t.add(i, 1.0, r)
    return t


@pytest.mark.parametrize("ratios", [(0.34, 0.41, 0.5, 1.0), (0.5, 2.0), (3, 1, 2), (0.01, 100.0, 1.0, 7.0)])
def test_the_middle_lies_within_the_range_and_is_that_of_the_column(ratios):
    """A mean of ratios turned to be above 1 gave "2.12, from 0.34 to 1.00" here."""
    shown = str(table(ratios))
    middle, least, most = map(float, FOOT.search(shown).groups())
    column = [float(line.split()[-1]) for line in shown.splitlines()[2:-1]]
    assert column == [float(f"{r:.2f}") for r in ratios]
    assert (least, most) == (min(column), max(column)) and least <= middle <= most
    below, above = (sum(c < middle for c in column), sum(c > middle for c in column))
    assert max(below, above) <= len(column) / 2


def test_the_middle_of_random_ratios_is_found_by_counting():
    draw = random.Random(0)
    for n in range(1, 12):
        t = table([draw.uniform(0.1, 10) for _ in range(n)])
        assert sum(r <= t.median for r in t.ratios) >= n / 2 <= sum(r >= t.median for r in t.ratios)


def test_html_says_the_same_and_equal_rows_say_nothing():
    assert FOOT.search(table((0.5, 0.7))._repr_html_())[1] == "0.60"
    assert "median" not in str(table((1.0, 1.0))) + table((1.0, 1.0))._repr_html_()
    assert str(Versus("empty", "row")).startswith("empty")


def test_a_ratio_needs_two_values():
    with pytest.raises(ValueError, match="two values above 0, got predicted 0"):
        Versus("t", "x").add("a", 0, 1)
