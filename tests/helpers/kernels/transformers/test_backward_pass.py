"""The backward pass by hand is that of `jax.grad`, and costs twice the forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.kernels.transformers import backward_pass as hand, decoder as kernels
from tests.helpers.kernels.transformers.families import FAMILIES, random_params, toy

LAYERS = {
    "gqa": toy(L=1),
    "mha": toy(L=1, K=4),
    "mqa": toy(L=1, K=1),
    "window": toy(L=1, window=3),
    "odd": toy(L=1, H=5),
}
B, T = 2, 7


def draw(*shapes, seed=0):
    return [jax.random.normal(key, s) for key, s in zip(jax.random.split(jax.random.key(seed), len(shapes)), shapes)]


def close(a, b, tol=2e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tol, atol=tol), a, b)


def test_a_product():
    """DA = dC Bᵀ and dB = Aᵀ dC, 2NPM FLOPs each."""
    N, P, M = 3, 5, 4
    A, W, dC = draw((N, P), (P, M), (N, M))
    close(hand.matmul_backward(A, W, dC), jax.vjp(jnp.matmul, A, W)[1](dC))
    assert trace.count(hand.matmul_backward, A, W, dC).matmul_flops == 4 * N * P * M


@pytest.mark.parametrize(
    "equation", ["btkgh,bskh->bkgts", "btd,dnh->btnh", "bkgts,bskh->btkgh", "btnh,nhd->btd", "i,j->ij"]
)
@pytest.mark.sample(quick=2)
def test_an_einsum(equation):
    size = dict(zip("bdfghijknst", (2, 3, 4, 2, 5, 3, 4, 2, 3, 6, 7)))
    a, b, c = (tuple(size[x] for x in part) for part in equation.replace("->", ",").split(","))
    A, W, dC = draw(a, b, c)
    f = lambda A, W: jnp.einsum(equation, A, W)  # noqa: E731
    close(hand.einsum_backward(equation, A, W, dC), jax.vjp(f, A, W)[1](dC))
    once, twice = trace.count(f, A, W), trace.count(lambda *x: hand.einsum_backward(equation, *x), A, W, dC)
    assert twice.by_primitive["dot_general"].flops == 2 * once.by_primitive["dot_general"].flops


def test_a_letter_that_nobody_else_has():
    with pytest.raises(ValueError, match="k stands in one operand of ij,jk->i only: sum over it first"):
        hand.einsum_backward("ij,jk->i", *draw((2, 3), (3, 4), (2,)))


def test_parts_of_a_layer():
    x, dy, scale = draw((B, T, 12), (B, T, 12), (12,))
    _, kept = hand.norm_forward(x, scale)
    close(hand.norm_backward(dy, kept, scale), jax.vjp(lambda x, s: hand.norm_forward(x, s)[0], x, scale)[1](dy))
    close(hand.silu_backward(dy, x), jax.vjp(jax.nn.silu, x)[1](dy)[0])
    close(hand.softmax_backward(dy, jax.nn.softmax(x)), jax.vjp(jax.nn.softmax, x)[1](dy)[0])
    at = jnp.arange(T)
    close(hand.unrotate(dy, at), jax.vjp(lambda x: hand.rotate(x, at), x)[1](dy)[0])


@pytest.mark.slow
@pytest.mark.parametrize("c", LAYERS.values(), ids=LAYERS)
@pytest.mark.sample(quick=0, slow=2)
def test_a_whole_layer(c):
    """The same layer as the decoder's, the same gradients as jax.grad, and exactly twice the FLOPs."""
    p = jax.tree.map(lambda a: a[0], random_params(c)["layers"][0])
    x, dy = draw((B, T, c.D), (B, T, c.D))
    block = lambda p, x: kernels.block(p, x, jnp.arange(T), c, c.kind(0))[0]  # noqa: E731
    (y, kept), (want, pull) = hand.layer_forward(p, x, c), jax.vjp(block, p, x)
    close(y, want)
    dp, dx = hand.layer_backward(p, dy, kept, c)
    assert dp.keys() == p.keys()
    close((dp, dx), pull(dy), tol=2e-4)
    forward = flops(c, B, T).layers
    assert trace.count(lambda p, x: hand.layer_forward(p, x, c), p, x).matmul_flops == forward
    assert trace.count(lambda p, dy, kept: hand.layer_backward(p, dy, kept, c), p, dy, kept).matmul_flops == 2 * forward


@pytest.mark.parametrize("name", [n for n, c in FAMILIES.items() if c.moe or not c.gated or c.norms != 2 or c.qk_norm])
def test_other_layers_are_refused(name):
    with pytest.raises(ValueError, match="the layer by hand has two RMS norms, rotations and a gated MLP"):
        hand.fits(FAMILIES[name])


def test_six_flops_for_each_parameter_and_token():
    """Three products of 2NPM each, where the embedding and attention are small: 6ND."""
    c = Config(D=64, L=2, N=4, K=4, H=16, F=256, V=8)
    params = jax.eval_shape(lambda k: kernels.init(c, k), jax.random.key(0))
    matrices = sum(a.size for a in jax.tree.leaves(params)) - c.V * c.D - (2 * c.L + 1) * c.D
    step = trace.count(jax.grad(lambda p, t: kernels.loss(p, t, c)), params, jax.ShapeDtypeStruct((1, 3), jnp.int32))
    assert step.matmul_flops == 6 * matrices * 2 + 3 * flops(c, 1, 2).attention
