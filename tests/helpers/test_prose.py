"""Numbers as people read them, and numbers in prose."""

import pytest

from helpers import show
from helpers.prose import render


@pytest.mark.parametrize(
    "f,x,text",
    [
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
    ],
)
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
