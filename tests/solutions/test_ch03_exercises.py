"""Exercises 3.1 to 3.22: the solved functions against programs, and against counts that the models' authors published."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from helpers import trace

TOPIC = "ch03_transformers"


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


def test_c10_share_of_experts_by_drawing(solved):
    rng, E, k, B = np.random.default_rng(3), 16, 3, 7
    used = [len({int(e) for _ in range(B) for e in rng.permutation(E)[:k]}) / E for _ in range(2000)]
    assert math.isclose(np.mean(used), solved["expert_batch"](E, k, 240, 2, B)[1], rel_tol=0.01)
