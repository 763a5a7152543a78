"""In bfloat16: sums are float32, so results are within one rounding (2^-8) of what the rounded inputs give exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.attention import dense_attention, flash_attention, masks, ring_attention
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask
from tests.helpers.kernels.attention import reference

ONE = 2**-8
SINKS = Mask(True, 4, 2)


def near(got, want, gradients=2):
    """The result within one rounding, each gradient within `gradients` of its largest."""
    assert {x.dtype for x in got} == {jnp.dtype("bfloat16")}
    got = [np.asarray(x, float) for x in got]
    np.testing.assert_allclose(got[0], want[0], rtol=ONE, atol=1e-6)
    for a, b in zip(got[1:], want[1:]):
        assert np.abs(a - b).max() <= gradients * ONE * np.abs(b).max()


def given(T, S, N, K, H, B=2):
    return reference.draw(B, T, S, N, K, H, dtype="bfloat16")


@pytest.mark.parametrize("mask", [FULL, SINKS], ids=str)
def test_dense_attention(mask):
    """What all others are compared with, against NumPy in float64: odd sizes, grouped heads, a text of no keys."""
    g, seen = given(5, 11, 4, 2, 3), mask.array(5, 11) & (np.arange(11) < np.array([11, 0])[:, None, None])
    f = reference.pulled(lambda *x: dense_attention.attention(*x, seen))
    near(jax.jit(f)(*g), reference.dense(*g, seen[:, None]))


@pytest.mark.slow
def test_rows_and_columns_in_any_order():
    g, plan = given(7, 9, 2, 1, 4), masks.plan(7, 9, 4, 3, CAUSAL)

    @jax.jit
    def run(q, k, v, do):
        out, total = flash_attention.forward_by_rows(q, k, v, plan, [1, 0])
        return out, *flash_attention.backward_by_columns(q, k, v, out, total, do, plan, [2, 0, 1])

    near(run(*g), reference.dense(*g, CAUSAL.array(7, 9)))


@pytest.mark.slow
def test_stripes():
    """Gradients of keys and values are rounded at each hop; keys that two devices do not divide."""
    g = given(5, 5, 2, 1, 4)
    f = ring_attention.program(meshes.mesh((2,), ("X",)), "X", places=ring_attention.stripes)
    near(jax.jit(reference.pulled(f))(*g), reference.dense(*g, CAUSAL.array(5, 5)), gradients=3)
