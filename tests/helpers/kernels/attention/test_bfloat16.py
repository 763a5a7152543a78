"""In bfloat16: sums are float32, so results are within one rounding (2^-8) of what the rounded inputs give exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.attention import (
    dense_attention,
    flash_work_partitioning,
    masks,
    pallas_flash_attention_tpu,
    softmax,
    striped_attention,
)
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
        out, total = flash_work_partitioning.forward(q, k, v, plan, [1, 0])
        return out, *flash_work_partitioning.backward(q, k, v, out, total, do, plan, [2, 0, 1])

    near(run(*g), reference.dense(*g, CAUSAL.array(7, 9)))


@pytest.mark.slow
def test_stripes():
    """Gradients of keys and values are rounded at each hop; keys that two devices do not divide."""
    g = given(5, 5, 2, 1, 4)
    f = striped_attention.striped_program(meshes.mesh((2,), ("X",)), "X")
    near(jax.jit(reference.pulled(f))(*g), reference.dense(*g, CAUSAL.array(5, 5)), gradients=3)


@pytest.mark.slow
def test_the_kernels_gradients():
    """Weights are rounded as well, before they meet V and dO."""
    g = given(5, 7, 2, 1, 4, B=1)
    f = reference.pulled(lambda *x: pallas_flash_attention_tpu.flash(*x, SINKS, np.array([6]), 4, 4))
    reference.close(jax.jit(f)(*g), reference.dense(*g, SINKS.array(5, 7) & (np.arange(7) < 6)), 0.03)


def test_the_k_largest():
    """Which ones they are is exact; masked numbers, and a chunk that does not divide."""
    x = np.random.default_rng(0).normal(size=(3, 13))
    x[1, 4:9] = -np.inf
    x = jnp.asarray(x, jnp.bfloat16)
    values, at = jax.jit(lambda x: softmax.top_k(x, 3, 4))(x)
    e = np.exp(np.asarray(x, float))
    assert values.dtype == jnp.bfloat16
    np.testing.assert_array_equal(at, jax.lax.top_k(x, 3)[1])
    np.testing.assert_allclose(
        np.asarray(values, float), np.take_along_axis(e / e.sum(-1, keepdims=True), np.asarray(at), -1), rtol=ONE
    )


def test_gradients_of_the_k_largest():
    """By hand, float32: those of p_j are p_j (1[i = j] - p_i), of every number of the row and not of the k alone."""
    rng = np.random.default_rng(1)
    x, dy = rng.normal(size=(2, 11)).astype("float32"), rng.normal(size=(2, 3)).astype("float32")
    x[1, :6] = -np.inf
    at = jax.lax.top_k(x, 3)[1]
    got = jax.jit(jax.grad(lambda x: (dy * softmax.top_k(x, 3, 4)[0]).sum()))(x)
    p = np.exp(x.astype(float))
    p /= p.sum(-1, keepdims=True)
    whole = np.zeros(x.shape)
    np.put_along_axis(whole, np.asarray(at), dy, -1)
    np.testing.assert_allclose(got, p * (whole - (p * whole).sum(-1, keepdims=True)), rtol=1e-5, atol=1e-6)
