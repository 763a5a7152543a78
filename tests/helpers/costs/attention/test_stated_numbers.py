"""Numbers of attention that the course's sources state, recomputed; where their text is wrong, what is right."""

import jax
import jax.numpy as jnp

from helpers.costs.attention import (
    time_and_intensity as heads,
)
from helpers.trace import count
from tests.helpers.costs.tables import walks

D, N = 12288, 96  # GPT-3


def layer(T, S, N, K):
    """The products of an attention layer of T new tokens, as plain einsums; the cache holds S - T older ones."""

    def f(x, W_Q, W_K, W_V, W_O, k, v):
        q = jnp.einsum("btd,dnh->btnh", x, W_Q)
        k = jnp.concatenate([k, jnp.einsum("btd,dkh->btkh", x, W_K)], 1)
        v = jnp.concatenate([v, jnp.einsum("btd,dkh->btkh", x, W_V)], 1)
        q = q.reshape(*q.shape[:2], K, N // K, -1)
        p = jax.nn.softmax(jnp.einsum("btkgh,bskh->bkgts", q, k))
        o = jnp.einsum("bkgts,bskh->btkgh", p, v)
        return jnp.einsum("btnh,nhd->btd", o.reshape(*o.shape[:2], N, -1), W_O)

    B, D, H = 2, 24, 4
    shapes = (B, T, D), (D, N, H), (D, K, H), (D, K, H), (N, H, D), (B, S - T, K, H), (B, S - T, K, H)
    return count(f, *(jax.ShapeDtypeStruct(s, "float32") for s in shapes)), dict(B=B, T=T, S=S, D=D, N=N, H=H, K=K)


@walks([(8, 8, 4), (1, 16, 4), (1, 16, 1), (3, 9, 2)])
def test_a_whole_layer(T, S, K):
    """FLOPs of the program; bytes of its arguments and result, and of what a compiler cannot keep on the chip."""
    c, at = layer(T, S, 4, K)
    assert heads.layer_flops(**at) == c.matmul_flops
    inside = 2 * T * (2 * 4 * 4 + 2 * K * 4) * 2  # q, k, v and o: written and read, both sequences
    assert heads.layer_bytes(**at, x=4, scores=False) == c.io_bytes + 4 * inside
    assert heads.layer_bytes(**at, x=4) - heads.layer_bytes(**at, x=4, scores=False) == 4 * 4 * 2 * 4 * T * S
    assert heads.layer_intensity(**at, x=4) == heads.layer_flops(**at) / heads.layer_bytes(**at, x=4)
