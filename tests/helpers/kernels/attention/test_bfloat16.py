"""In bfloat16: sums are float32, so results are within one rounding (2^-8) of what the rounded inputs give exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.attention import ring_attention
from helpers.kernels.attention.masks import CAUSAL
from tests.helpers.kernels.attention import reference

ONE = 2**-8


def near(got, want, gradients=2):
    """The result within one rounding, each gradient within `gradients` of its largest."""
    assert {x.dtype for x in got} == {jnp.dtype("bfloat16")}
    got = [np.asarray(x, float) for x in got]
    np.testing.assert_allclose(got[0], want[0], rtol=ONE, atol=1e-6)
    for a, b in zip(got[1:], want[1:]):
        assert np.abs(a - b).max() <= gradients * ONE * np.abs(b).max()


def given(T, S, N, K, H, B=2):
    return reference.draw(B, T, S, N, K, H, dtype="bfloat16")


@pytest.mark.slow
def test_stripes():
    """Gradients of keys and values are rounded at each hop; keys that two devices do not divide."""
    g = given(5, 5, 2, 1, 4)
    f = ring_attention.program(meshes.mesh((2,), ("X",)), "X", places=ring_attention.stripes)
    near(jax.jit(reference.pulled(f))(*g), reference.dense(*g, CAUSAL.array(5, 5)), gradients=3)
