"""Context parallelism: a sequence cut over devices; keys and values go round the ring, past every device's queries (chapter 4).

Norms, products with weights and the MLP look at one token at a time: they send nothing. Attention looks at all earlier ones.
Each device keeps its queries and the running softmax of what they have seen (`kernels.flash`), and n - 1 times passes on the
keys and values that it has just looked at, while it may already work on them. The backward pass sends keys and values round
once more, and their slopes with them, which need one hop more to be back home.

With a causal mask half of the work of this plain ring is masked, and the last device has more of the rest than any other.

Source: Liu et al., "Ring Attention with Blockwise Transformers" (2023); Austin et al. 2025, Section 5.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from ...costs.config import Config
from ..collectives import RIGHT, hop
from ..flash import NEVER, chunk, result, together
from ..layers import product, rotate, visible

KEPT = "ring"
"""The name of what the backward pass needs from the forward pass: the result, and log of the softmax's sum."""


def attention(p: dict, x, at, c: Config, window: int | None, axis: str):
    """`layers.attention` of x[B, T_X, D] at positions at[T_X]: [B, T_X, D]."""
    B, T, _ = x.shape
    q = rotate(product(p, "W_Q", "btd,dnh->btnh", x), at)
    k = rotate(product(p, "W_K", "btd,dkh->btkh", x), at)
    v = product(p, "W_V", "btd,dkh->btkh", x)
    y = ring(q, k, v, axis, window).reshape(B, T, c.N, c.H)
    return product(p, "W_O", "btnh,nhd->btd", y)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def ring(q, k, v, axis: str, window: int | None = None):
    """Causal attention of a sequence cut over `axis`: q[B, T_X, N, H], k and v[B, T_X, K, H] -> [B, T_X, N, H]."""
    return _forward(q, k, v, axis, window)[0]


def _forward(q, k, v, axis, window):
    Q, kv, tau = _queries(q, k.shape[2]), _keys(k, v), q.shape[-1] ** -0.5
    seen = chunk(Q, *kv, _mask(0, q.shape[1], axis, window), tau)  # its own keys first

    def look(carry, r):
        kv, seen = carry
        kv = hop(kv, axis, RIGHT)  # [2, B, K, 1, T_X, H], those of the device r places to the left
        return (kv, together(seen, chunk(Q, *kv, _mask(r, q.shape[1], axis, window), tau))), None

    (_, seen), _ = lax.scan(look, (kv, seen), jnp.arange(1, lax.axis_size(axis)))
    out = checkpoint_name(result(seen), KEPT)
    logsum = checkpoint_name(seen.M + jnp.log(seen.L), KEPT)  # every query sees itself: L > 0
    return _tokens(out), (q, k, v, out, logsum)


def _backward(axis, window, kept, dout):
    q, k, v, out, logsum = kept
    Q, dO, kv, tau = _queries(q, k.shape[2]), _queries(dout, k.shape[2]), _keys(k, v), q.shape[-1] ** -0.5
    identity = jnp.sum(dO * out, -1, keepdims=True)  # sum_j P_ij dP_ij = dO_i · O_i

    def slopes(kv, r):
        scores = jnp.where(_mask(r, q.shape[1], axis, window), tau * jnp.einsum("...th,...ch->...tc", Q, kv[0]), NEVER)
        P = jnp.exp(scores - logsum[..., None])
        ds = tau * P * (jnp.einsum("...th,...ch->...tc", dO, kv[1]) - identity)
        dk, dv = (jnp.einsum("...tc,...th->...ch", s, x).sum(2, keepdims=True) for s, x in ((ds, Q), (P, dO)))
        return jnp.einsum("...tc,...ch->...th", ds, kv[0]), jnp.stack([dk, dv])

    def look(carry, r):
        dQ, both = carry
        kv, dkv = hop(both, axis, RIGHT)  # keys and values, and what the devices so far added to their slopes
        dq, more = slopes(kv, r)
        return (dQ + dq, jnp.stack([kv, dkv + more])), None

    dQ, dkv = slopes(kv, 0)
    (dQ, (_, dkv)), _ = lax.scan(look, (dQ, jnp.stack([kv, dkv])), jnp.arange(1, lax.axis_size(axis)))
    dkv = hop(dkv, axis, RIGHT)  # home
    dk, dv = (d[:, :, 0].transpose(0, 2, 1, 3) for d in dkv)
    return _tokens(dQ), dk, dv


ring.defvjp(_forward, _backward)


def _mask(r, T: int, axis: str, window: int | None):
    """[T_X, T_X]: which keys of the device r places to the left the queries here see."""
    n, i = lax.axis_size(axis), lax.axis_index(axis)
    return visible(i * T + jnp.arange(T), (i - r) % n * T + jnp.arange(T), window)


def _queries(q, K: int):
    """[B, T, N, H] -> [B, K, G, T, H]."""
    B, T, N, H = q.shape
    return q.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)


def _keys(k, v):
    """[B, T, K, H] each -> [2, B, K, 1, T, H]."""
    return jnp.stack([k, v]).transpose(0, 1, 3, 2, 4)[:, :, :, None]


def _tokens(x):
    """[B, K, G, T, H] -> [B, T, N, H]."""
    B, K, G, T, H = x.shape
    return x.transpose(0, 3, 1, 2, 4).reshape(B, T, K * G, H)
