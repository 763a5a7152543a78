"""The backward pass by hand is that of `jax.grad`, and costs twice the forward pass."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers import trace
from helpers.kernels.transformers import backward_pass as hand


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [jax.device_put(rng.standard_normal(s).astype("float32")) for s in shapes]


def close(a, b, tol=2e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tol, atol=tol), a, b)


def test_a_product():
    """DA = dC Bᵀ and dB = Aᵀ dC, 2NPM FLOPs each."""
    N, P, M = 3, 5, 4
    A, W, dC = draw((N, P), (P, M), (N, M))
    close(hand.matmul_backward(A, W, dC), jax.vjp(jnp.matmul, A, W)[1](dC))
    assert trace.count(hand.matmul_backward, A, W, dC).matmul_flops == 4 * N * P * M


def test_a_softmax():
    x, dy = draw((2, 7, 12), (2, 7, 12))
    close(hand.softmax_backward(dy, jax.nn.softmax(x)), jax.vjp(jax.nn.softmax, x)[1](dy)[0])
