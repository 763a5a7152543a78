"""JavaScript written by helpers.live.jaxpr_to_javascript against the Python that it was traced from."""

import gzip
import json
import math
import random
import re
import shutil
import subprocess
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import numeric
from helpers.costs.rooflines.roofline import attainable, critical_batch, matmul, time
from helpers.live.jaxpr_to_javascript import LOGIC, REDUCE, RULES, javascript
from helpers.live.stages import renamed
from tests.browser import chromium

SETTINGS = 2000
RUN = """(f, cases) => cases.map(c => {
  const r = f(...c);
  return (Array.isArray(r) ? r.flat() : typeof r === "object" ? Object.values(r) : [r]).map(String);
})"""


@pytest.fixture(scope="module")
def run():
    """A function (source, cases) -> results as text, in node or in Chromium."""
    if node := shutil.which("node"):

        def in_node(source, cases):
            program = f"console.log(JSON.stringify(({RUN})({source}, {json.dumps(cases)})))"
            return json.loads(
                subprocess.run([node, "-"], input=program, capture_output=True, text=True, check=True).stdout
            )

        yield in_node
    else:
        with chromium.browser() as browser:
            page = browser.new_page()
            yield lambda source, cases: page.evaluate(f"cases => ({RUN})({source}, cases)", cases)


def number(text: str) -> float:
    return float(text == "true") if text in ("true", "false") else float(text.replace("Infinity", "inf"))


def agree(run, f, cases):
    """Every result within 1e-12 of what Python computes from the same numbers, NaN and infinity included."""
    got = run(javascript(f, *cases[0]), cases)
    assert len(got) == len(cases)
    for case, texts in zip(cases, got):
        result = f(*case)
        parts = [result[k] for k in sorted(result)] if isinstance(result, dict) else result
        expected = [float(v) for part in parts for v in np.ravel(np.asarray(part, dtype=np.float64))]
        for text, want in zip(texts, expected, strict=True):
            assert math.isclose(number(text), want, rel_tol=1e-12) or (math.isnan(want) and text == "NaN"), (
                case,
                text,
                want,
            )


def product(B, D, F, x, w, C, W):
    t = time(matmul(B, D, F, x, w), C, W)
    return {
        "lower": t.lower, "upper": t.upper, "comms": t.comms, "critical": critical_batch(D, F, C, W, x, w), "hit": attainable(B, C, W),
        "between": numeric.sqrt(t.math**2 + t.comms**2),
        "tiles": numeric.ceil(B / 128.0) * numeric.floor(F / 8.0), "side": numeric.sqrt(D * F),
    }  # fmt: skip


def test_two_thousand_settings_of_the_cost_functions(run):
    draw = random.Random(0)
    cases = [
        [float(draw.randint(1, 70000)), float(draw.randint(1, 70000)), float(draw.randint(1, 70000)), draw.choice([1.0, 2.0, 4.0]),
         draw.choice([0.5, 1.0, 2.0]), 10 ** draw.uniform(12, 16), 10 ** draw.uniform(9, 13)]
        for _ in range(SETTINGS)
    ]  # fmt: skip
    agree(run, product, cases)


# np is jax.numpy when traced, NumPy on the other side.
FUNCTIONS = {
    "arithmetic": lambda np, a, b: (a + b, a - b, a * b, a / b, -a, a**2, a**3, a**4, a**-1, abs(a), np.sign(a - b), np.square(b)),
    "powers": lambda np, a, b: (a**b, 2.0**b, np.exp2(b), np.sqrt(a), 1 / np.sqrt(a), np.cbrt(a), np.exp(-a), np.expm1(-a)),
    "logs": lambda np, a, b: (np.log(a), np.log2(a), np.log10(a), np.log1p(a), np.tanh(b)),
    "compare": lambda np, a, b: (a == b, a != b, a < b, a <= b, a > b, a >= b),
    "logic": lambda np, a, b: ((a > 2) & (b > 2), (a > 2) | (b > 2), ~(a > 2), (a > 2) ^ (b > 2)),
    "choose": lambda np, a, b: (np.where(a > b, a, b), np.maximum(a, b), np.minimum(a, 2.0), np.clip(a, 1.0, 2.0), (a > 2) * 3.0),
    "whole": lambda np, a, b: (np.floor(a), np.ceil(a), np.round(a), np.round(a + 0.5), a // b, a % b, np.round(a, 1)),
    "halves": lambda np, a, b: (np.round(0 * a - 2.5), np.round(0 * a - 1.5), np.round(0 * a + 0.5), np.round(a - 3.5)),
    "casts": lambda np, a, b: (a.astype(np.int64), np.float64(3) * (a > 1), np.isfinite(a / (b - b + 1)), a.astype(np.int64) // 2),
    "rows": lambda np, a, b: (
        np.array([1.0, 2.0, 4.0]) * a, np.stack([a, b]), np.concatenate([np.array([1.0]) * b, np.zeros(2)]), np.arange(3) * b,
        np.linspace(a, b, 4)[1:3], np.minimum(np.array([1.0, 5.0, 9.0]), a * np.ones(3)),
    ),
    "reductions": lambda np, a, b: (
        np.sum(np.array([1.0, 2.0]) * a), np.prod(np.array([1.0, 2.0]) + a), np.max(np.array([1.0, 2.0]) * b),
        np.min(np.array([1.0, 2.0]) - b), np.any(np.array([1.0, 2.0]) > a), np.all(np.array([1.0, 2.0]) > a),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.sample(quick=5)
def test_every_kind_of_operation(run, name):
    draw = random.Random(1)
    cases = [[draw.uniform(0.1, 5), draw.uniform(0.1, 5)] for _ in range(200)]
    cases += [[float(k), 2.0] for k in range(1, 6)] + [[k + 0.5, 1.0] for k in range(5)]

    def f(a, b):
        return FUNCTIONS[name](np, np.float64(a), np.float64(b)) if isinstance(a, float) else FUNCTIONS[name](jnp, a, b)

    agree(run, f, cases)


def test_rows_go_in_as_rows(run):
    source = javascript(lambda sizes, W: (sizes / W, numeric.maximum(sizes, 2.0)), [1.0, 2.0, 3.0], 2.0)
    assert run(source, [[[2.0, 4.0, 1.0], 2.0]]) == [["1", "2", "0.5", "2", "4", "2"]]


def test_the_battery_reaches_the_rules():
    """A rule that no test runs is a rule that may be wrong."""
    seen = set()
    for f in FUNCTIONS.values():
        with jax.enable_x64(True):
            seen |= set(re.findall(r"= ([a-z_0-9]+)", str(jax.make_jaxpr(partial(f, jnp))(1.0, 2.0))))
    # other spellings of what the battery has: from gradients, from transfers, and what one JAX version writes for another's
    spare = {*"add_any copy copy_p stop_gradient clamp rsqrt logistic exp2 square log2 abs".split()}
    assert (RULES.keys() | LOGIC.keys() | REDUCE.keys()) - seen <= spare


@pytest.mark.parametrize("f, args, said", [
    (lambda a: jnp.sin(a), (1.0,), "'sin'"),
    (lambda a: jax.lax.fori_loop(0, 3, lambda i, x: x * a, a), (1.0,), "'scan'|'while'"),
    (lambda a: jnp.ones((2, 3)) * a, (1.0,), r"shape \(2, 3\)"),
    (lambda a: a.astype(jnp.float32) * 2, (1.0,), "float32"),
    (lambda a: a.astype(jnp.int64) + (2**53 + 1), (1.0,), "larger than 2\\*\\*53"),
    (lambda a: {"not a name": a}, (1.0,), "flat dict"),
])  # fmt: skip
def test_what_cannot_be_written_is_refused_by_name(f, args, said):
    with pytest.raises((NotImplementedError, ValueError), match=said):
        javascript(f, *args)


def test_float64_does_not_leak():
    before = jax.config.jax_enable_x64
    javascript(lambda a: a * 2, 1.0)
    assert jax.config.jax_enable_x64 == before and jnp.asarray(1.0).dtype == jnp.float32
    with pytest.raises(NotImplementedError):
        javascript(lambda a: jnp.sin(a), 1.0)
    assert jax.config.jax_enable_x64 == before


def test_lines_are_shared_and_dead_ones_left_out():
    source = javascript(lambda a, b: ((a + b) * (a + b) + 0 * a, a * b)[0], 1.0, 2.0)
    assert source.count("a+b") == 1 and "a*b" not in source


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
