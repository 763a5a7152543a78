"""The backward pass by hand is that of `jax.grad`, and costs twice the forward pass."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers import trace
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.kernels.transformers import backward_pass as hand, decoder as kernels


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


def test_six_flops_for_each_parameter_and_token():
    """Three products of 2NPM each, where the embedding and attention are small: 6ND."""
    c = Config(D=64, L=2, N=4, K=4, H=16, F=256, V=8)
    params = jax.eval_shape(lambda k: kernels.init(c, k), jax.random.key(0))
    matrices = sum(a.size for a in jax.tree.leaves(params)) - c.V * c.D - (2 * c.L + 1) * c.D
    step = trace.count(jax.grad(lambda p, t: kernels.loss(p, t, c)), params, jax.ShapeDtypeStruct((1, 3), jnp.int32))
    assert step.matmul_flops == 6 * matrices * 2 + 3 * flops(c, 1, 2).attention
