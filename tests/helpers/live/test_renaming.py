"""Functions renamed to share their text: nothing but names may change."""

import gzip
import re

import jax.numpy as jnp
import pytest

from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.stages import renamed

WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")


def price(more: int):
    def f(a, b, c, d):
        x = a * b + c if more else a
        some = [jnp.where(x > k, x * k + b, jnp.maximum(c / (k + d), x - b)) for k in range(2, 20)]
        y = sum(some) + (more > 1) * jnp.round(b * d)
        return (y, *(s / y for s in some), x)

    return javascript(f, 1.0, 1.0, 1.0, 1.0)


def numbered(source: str) -> list[str]:
    """The words of a source, each variable as the number of its first place."""
    inside = set(re.findall(r"(?:const |,\n)([a-z]+)=", source)) | set(source[1 : source.index(")")].split(","))
    seen: dict[str, str] = {}
    return [seen.setdefault(w, f"#{len(seen)}") if w in inside else w for w in WORD.findall(source)]


def test_only_names_change_and_what_is_alike_reads_alike():
    before = [price(n) for n in range(3)]
    after = renamed(before)
    assert [numbered(s) for s in after] == [numbered(s) for s in before] and after != before
    lines = [set(s.splitlines()) for s in after]
    assert len(lines[0] & lines[1]) > 0.8 * len(lines[0])
    weigh = [len(gzip.compress("".join(some).encode())) for some in (before, after)]
    assert weigh[1] < 0.8 * weigh[0]


def test_an_object_is_refused():
    with pytest.raises(ValueError, match="return a tuple"):
        renamed([javascript(lambda a: {"a": a + 1, "b": a}, 1.0)])
