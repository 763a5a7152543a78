"""Attention of every block, seen or not: dense attention, FLOPs of the whole rectangle; summaries of chunks go together in any order."""

import jax
import pytest

from helpers.kernels.attention.flash_attention import flash_all_blocks as flash
from helpers.kernels.attention.masks import Mask
from tests.helpers.kernels.attention import reference


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow("the same without a mask"))])
def test_forward_and_backward_are_those_of_dense_attention(causal):
    """Chunks that divide nothing, and more keys than queries."""
    g = reference.draw(2, 5, 11, 4, 1, 4)
    got = jax.jit(reference.pulled(lambda q, k, v: flash(q, k, v, causal, 2, 3)))(*g)
    reference.close(got, reference.dense(*g, Mask(causal).array(5, 11)), 3e-6)
