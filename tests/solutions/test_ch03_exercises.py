"""Exercises 3.1 to 3.22: the solved functions against programs, and against counts that the models' authors published."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from helpers import trace
from helpers.kernels import mesh
from tests.solutions import course

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer

TOPIC = "ch03_transformers"


@pytest.fixture(scope="module")
def solved():
    """Every answer, by name."""
    return course.solved(TOPIC)


def dense(D, L, N, K, H, F, V, gated=True, tied=False, moe=None):
    return dict(D=D, L=L, N=N, K=K, H=H, F=F, V=V, gated=gated, tied=tied, moe=moe)


@pytest.mark.parametrize("config, total", [
    (dense(4096, 32, 32, 32, 128, 11008, 32000), 6738415616),                   # LLaMA 7B
    (dense(5120, 40, 40, 40, 128, 13824, 32000), 13015864320),                  # Llama 2 13B, C4
    (dense(8192, 80, 64, 8, 128, 28672, 32000), 68976648192),                   # Llama 2 70B
    (dense(4096, 32, 32, 8, 128, 14336, 128256), 8030261248),                   # Llama 3 8B
    (dense(2048, 16, 32, 8, 64, 8192, 128256, tied=True), 1235814400),          # Llama 3.2 1B
    (dense(4096, 32, 32, 8, 128, 14336, 32000), 7241732096),                    # Mistral 7B
    (dense(3072, 28, 16, 16, 256, 24576, 256000, tied=True), 8537680896),       # Gemma 7B
    (dense(4096, 32, 32, 8, 128, 14336, 32000, moe=dict(E=8, k=2, F=14336, shared=0, first_dense=0)), 46702792704),  # Mixtral
    (dense(8192, 64, 64, 8, 128, 22016, 32768), 64 * (3 * 8192 * 22016 + 2 * 8192 * 72 * 128) + 2 * 8192 * 32768 + 129 * 8192),
])  # fmt: skip
def test_c4_published_counts_exactly(solved, config, total):
    assert solved["count_parameters"](config)["total"] == total


SIZES = dict(B=2, T=8, D=12, N=4, K=2, H=6, F=20)


def layer_of(solved, sizes):
    """The solved layer's arguments, as shapes."""
    B, T, D, N, K, H, F = sizes.values()
    shapes = [(B, T, D), (D, N, H), (D, K, H), (D, K, H), (N, H, D), (D, F), (D, F), (F, D)]
    return solved["decoder_layer"], [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]


def test_c4_and_q6_the_layer_does_the_flops_that_3_6_says(solved):
    """Forward exactly; with the backward pass three times that."""
    layer, args = layer_of(solved, SIZES)
    said = solved["layer_flops"](*SIZES.values(), False)
    assert trace.count(layer, *args).matmul_flops == said["weights"] + said["attention"]

    def step(*a):
        out, back = jax.vjp(layer, *a)
        return out, back(out)

    assert trace.count(step, *args).matmul_flops == said["training"]


def test_c11_and_c12_what_is_done_again_is_what_jax_does_again(solved):
    """A layer whose seven outputs have names, under policies that save them."""
    layer, args = layer_of(solved, SIZES)

    def named(x, q, k, v, o, gate, up, down):
        name, norm = checkpoint_name, lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        z, G = norm(x), q.shape[1] // k.shape[1]
        Q, K, V = (name(jnp.einsum("btd,dnh->btnh", z, w), n) for w, n in ((q, "q"), (k, "k"), (v, "v")))
        s = jnp.einsum("btnh,bsnh->bnts", Q, jnp.repeat(K, G, 2))
        mixed = jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(s), jnp.repeat(V, G, 2))
        y = x + name(jnp.einsum("btnh,nhd->btd", mixed, o), "o")
        z = norm(y)
        return y + name((jax.nn.silu(name(z @ gate, "gate")) * name(z @ up, "up")) @ down, "down")

    def flops(policy):
        def step(*a):
            out, back = jax.vjp(jax.checkpoint(named, policy=policy) if policy else named, *a)
            return out, back(out)

        return trace.count(step, *args).matmul_flops

    policies = jax.checkpoint_policies
    B, T, D, N, K, H, F = SIZES.values()
    seven = policies.save_only_these_names("q", "k", "v", "o", "gate", "up", "down")
    assert flops(seven) - flops(None) == solved["rematerialised"]("matmuls", *SIZES.values(), 1)[1]
    unused = 2 * B * T * F * D  # JAX leaves out the last product, whose result nothing needs
    assert (
        flops(policies.nothing_saveable) - flops(None)
        == solved["rematerialised"]("inputs", *SIZES.values(), 1)[1] - unused
    )
    assert (
        flops(policies.everything_saveable) - flops(None)
        == solved["rematerialised"]("products", *SIZES.values(), 1)[1]
        == 0
    )


def test_c2_gradients_of_a_matmul(solved):
    rng = np.random.default_rng(0)
    A, W, dC = (jax.device_put(rng.standard_normal(s).astype("float32")) for s in ((2, 3, 4), (4, 5), (2, 3, 5)))
    for got, expected in zip(
        solved["matmul_backward"](A, W, dC), jax.grad(lambda A, W: ((A @ W) * dC).sum(), (0, 1))(A, W)
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow("compiles a program for each order")
def test_c16_and_c17_chunks_in_any_order_and_the_way_back(solved):
    rng = np.random.default_rng(1)
    q, k, v, dO = (jax.device_put(rng.standard_normal((n, 8)).astype("float32")) for n in (6, 24, 24, 6))
    whole = lambda q, k, v: jax.nn.softmax(q @ k.T / 8**0.5) @ v  # noqa: E731
    for chunk in (1, 3, 8, 24):
        np.testing.assert_allclose(solved["chunked_attention"](q, k, v, chunk), whole(q, k, v), rtol=1e-4, atol=1e-5)

    def part(keys):
        x = q @ k[keys].T / 8**0.5
        return x.max(1), jnp.exp(x - x.max(1, keepdims=True)).sum(1), jax.nn.softmax(x) @ v[keys]

    a, b, c = (part(slice(*s)) for s in ((0, 5), (5, 20), (20, 24)))
    merge = solved["merge"]
    for order in (merge(merge(a, b), c), merge(a, merge(b, c)), merge(merge(c, a), b)):
        np.testing.assert_allclose(order[2], whole(q, k, v), rtol=1e-4, atol=1e-5)
    expected = jax.vjp(whole, q, k, v)[1](dO)
    for got, e in zip(
        solved["attention_backward"](*(np.asarray(x, np.float64) for x in (q, k, v, dO)), 8**-0.5), expected
    ):
        np.testing.assert_allclose(got, e, rtol=1e-3, atol=1e-5)


def test_c9_no_token_is_dropped_at_sufficient_capacity_and_no_slot_is_taken_twice(solved):
    logits = np.random.default_rng(2).standard_normal((32, 8))
    free = solved["route"](logits, 2, 8.0)
    assert free["slots"].min() >= 0
    tight = solved["route"](logits, 2, 1.0)
    taken = list(zip(tight["experts"][tight["slots"] >= 0], tight["slots"][tight["slots"] >= 0]))
    assert len(taken) == len(set(taken)) and max(s for _, s in taken) < 8
    dropped = sum(max(0, n - 8) for n in np.bincount(tight["experts"].ravel(), minlength=8))
    assert (tight["slots"] < 0).sum() == dropped > 0
    every = solved["route"](logits, 8, 1.0)
    np.testing.assert_allclose(every["weights"].sum(1), 1)
    np.testing.assert_allclose(np.sort(every["experts"]), np.arange(8)[None].repeat(32, 0))


def test_c10_share_of_experts_by_drawing(solved):
    rng, E, k, B = np.random.default_rng(3), 16, 3, 7
    used = [len({int(e) for _ in range(B) for e in rng.permutation(E)[:k]}) / E for _ in range(2000)]
    assert math.isclose(np.mean(used), solved["expert_batch"](E, k, 240, 2, B)[1], rel_tol=0.01)


@pytest.mark.slow("runs a layer operation by operation")
def test_c9_dispatch_and_combine_equal_a_dense_mixture(solved):
    """With slots for everybody; with k = E and equal weights the mixture is the mean of the experts."""
    rng = np.random.default_rng(4)
    x, up, down = (rng.standard_normal(s).astype(np.float32) for s in ((12, 6), (4, 6, 10), (4, 10, 6)))
    each = jnp.einsum("tef,efd->ted", jax.nn.relu(jnp.einsum("td,edf->tef", x, up)), down)
    found = solved["route"](rng.standard_normal((12, 4)), 2, 4.0)
    args = (found["experts"], found["weights"].astype(np.float32), found["slots"])
    dense = (jnp.take_along_axis(each, args[0][..., None], 1) * args[1][..., None]).sum(1)
    np.testing.assert_allclose(solved["expert_layer"](x, *args, up, down, 24), dense, rtol=1e-3, atol=1e-5)
    every = solved["route"](np.tile(np.arange(4.0), (12, 1)), 4, 1.0)
    mean = solved["expert_layer"](x, every["experts"], np.full((12, 4), 0.25, np.float32), every["slots"], up, down, 12)
    np.testing.assert_allclose(mean, each.mean(1), rtol=1e-3, atol=1e-5)
