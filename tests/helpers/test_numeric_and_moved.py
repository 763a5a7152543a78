"""Rounding of products of fractions, against the same in exact fractions; and old names, for one release."""

import sys
from fractions import Fraction
from importlib import import_module
from math import ceil, floor

import jax.numpy as jnp
import numpy as np
import pytest

from helpers import numeric
from helpers.costs.inference import serving_log
from helpers.costs.inference.engine_simulation import interleaved
from helpers.costs.transformers.shares_and_thresholds import capacity
from helpers.moved import MOVED, RENAMED
from helpers.numeric import ceil_near, floor_near


def test_capacity_is_that_of_exact_fractions():
    """A factor of two decimals is meant as these decimals: 1.1 · 50 / 5 is 11, which floats make 11.000000000000002."""
    wrong = 0
    for hundredths in range(25, 401, 5):
        for tokens, E, k in ((50, 5, 1), (64, 8, 2), (4096, 256, 8), (1000, 7, 3), (100, 10, 1), (12_000, 16, 4)):
            want = ceil(Fraction(hundredths, 100) * tokens * k / E)
            wrong += ceil(hundredths / 100 * tokens * k / E) != want
            assert capacity(tokens, E, k, hundredths / 100) == want
    assert wrong >= 10  # so often does `ceil` of the floats say one place more


@pytest.mark.parametrize("dtype", [None, np.float64, np.float32, jnp.float32], ids=["float", "f64", "f32", "jax"])
def test_near_rounding_is_that_of_exact_fractions(dtype):
    tenths = list(range(1, 400))
    for share in (3, 7, 10, 100):
        exact = [Fraction(n * share, 100) for n in tenths]
        if dtype is None:
            got = [[f(n / 10 * share / 10) for n in tenths] for f in (ceil_near, floor_near)]
        else:
            x = (jnp if dtype is jnp.float32 else np).asarray([n / 10 for n in tenths], dtype) * share / 10
            got = [f(x).tolist() for f in (ceil_near, floor_near)]
        assert got == [list(map(ceil, exact)), list(map(floor, exact))]


def test_near_rounding_of_arrays_and_of_large_numbers():
    assert ceil_near(np.array([10.999999999999998, 11.000000000000002, 11.01])).tolist() == [11, 11, 12]
    assert (
        ceil_near(jnp.array([3, 2**30 + 1])).tolist() == floor_near(np.array([3, 2**30 + 1])).tolist() == [3, 2**30 + 1]
    )
    for x in (2.0**24 - 1, 2.0**40 + 1, 1e15 + 1):
        assert ceil_near(x) == floor_near(x) == x
    assert ceil_near(np.float32(2**23 - 1)) == 2**23 - 1


@pytest.mark.parametrize("f", [numeric.ceil, numeric.floor, ceil_near, floor_near])
def test_what_is_no_finite_number_is_not_rounded(f):
    """A number that is not known, nan, stays unknown, as in an array."""
    assert np.isnan(f(float("nan"))) and f(float("inf")) == float("inf") and f(float("-inf")) == float("-inf")
    assert np.isnan(f(np.array([np.nan]))).all()


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_and_says_its_new_one(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(FutureWarning, match=f"{old} is {' and '.join(MOVED[old])} now"):
        module = import_module(old)
    new, names = {}, RENAMED.get(old, {})
    for place in MOVED[old]:
        new |= vars(import_module(place))
    assert all(getattr(module, name) is new[names.get(name, name)] for name in (*new, *names) if name[:2] != "__")


def test_an_old_field_or_parameter_works_and_says_its_new_name():
    log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    half = serving_log.percentiles(log, 50)
    with pytest.warns(FutureWarning, match="Percentiles.first is ttft now"):
        assert half.first == half.ttft
    with pytest.warns(FutureWarning, match="first of attainment is ttft now"):
        assert serving_log.attainment(log, first=12, gap=5) == serving_log.attainment(log, ttft=12, gap=5) == 1
    with pytest.raises(TypeError, match="later"):
        serving_log.goodput(log, later=12, gap=5)
