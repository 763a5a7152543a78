"""Attention of every block, seen or not: dense attention, FLOPs of the whole rectangle; summaries of chunks go together in any order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers import trace
from helpers.kernels.attention import softmax
from helpers.kernels.attention.flash_attention import flash_all_blocks as flash
from helpers.kernels.attention.masks import Mask
from tests.helpers.kernels.attention import reference


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow("the same without a mask"))])
def test_forward_and_backward_are_those_of_dense_attention(causal):
    """Chunks that divide nothing, and more keys than queries."""
    g = reference.draw(2, 5, 11, 4, 1, 4)
    got = jax.jit(reference.pulled(lambda q, k, v: flash(q, k, v, causal, 2, 3)))(*g)
    reference.close(got, reference.dense(*g, Mask(causal).array(5, 11)), 3e-6)


@given(st.integers(1, 9), st.integers(1, 9), st.randoms())
@settings(max_examples=15, deadline=None)
@pytest.mark.slow("compiles a program for each order")
def test_the_order_of_chunks_does_not_matter(S, C, random):
    """Without a mask, any order and any grouping."""
    q, k, v = (jax.random.normal(key, (n, 4)) for key, n in zip(jax.random.split(jax.random.key(1), 3), (3, S, S)))
    parts = [softmax.chunk(q, k[i : i + C], v[i : i + C]) for i in range(0, S, C)]
    random.shuffle(parts)
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [softmax.together(*parts[i : i + 2])]
    np.testing.assert_allclose(softmax.result(parts[0]), jax.nn.softmax(q @ k.T) @ v, rtol=1e-5, atol=1e-6)


def test_a_chunk_that_nobody_sees_is_empty():
    q, k, v = jnp.ones((3, 2, 4))
    hidden = softmax.chunk(q, k, v, jnp.zeros((2, 2), bool))
    assert not np.any(softmax.result(hidden)) and np.isneginf(hidden.M).all()


@pytest.mark.parametrize(("rows", "columns"), [(4, 16), (16, 2)])
def test_flops_are_those_of_the_whole_rectangle(rows, columns):
    """Forward two products; backward five, for the scores are made again: 2.5 times."""
    B, T, N, H = 1, 16, 2, 4
    q = jax.ShapeDtypeStruct((B, T, N, H), jnp.float32)
    rectangle = 2 * B * N * T * T * H
    assert trace.count(lambda *x: flash(*x, True, rows, columns), q, q, q).matmul_flops == 2 * rectangle
    both = jax.value_and_grad(lambda *x: jnp.sum(flash(*x, True, rows, columns)), (0, 1, 2))
    assert trace.count(both, q, q, q).matmul_flops == (2 + 5) * rectangle
    assert trace.saved(lambda *x: flash(*x, True, rows, columns).sum(), q, q, q).bytes == 4 * B * T * N * (H + 1)
