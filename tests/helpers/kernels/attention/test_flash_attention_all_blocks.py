"""Attention of every block, seen or not: dense attention, FLOPs of the whole rectangle; summaries of chunks go together in any order."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

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
