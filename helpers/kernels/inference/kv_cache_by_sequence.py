"""A cache cut over its S places, K[B, S_Z, K_Y, H]: for few and long sequences (chapter 5).

Each device looks at the keys that it has and keeps, for each query, the largest score m, the sum l of e^(score - m) and the sum o
of e^(score - m)·v. The devices' (m, l, o) together give what one device with all keys would have found (`attention.online_softmax`).
They are H + 2 numbers for each head, however long the sequences are.

Source: Austin et al. 2025, Section 7; Dao et al., "Flash-Decoding for long-context inference" (2023).
"""

from functools import partial, reduce

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.attention.online_softmax import Running, chunk, result, together
from helpers.kernels.transformers.decoder_layers import product

from .kv_cache_by_heads import WEIGHTS
from .sharded_decode_step import MIX_YZ, Way, remember, turned


def attend(p, cache, X, at, c: Config, combine):
    """Attention with every query on every device along Z, each looking at its part of the places.

    combine  the devices' partial results into O[B, N_YZ, H]: `exchanged` or `reduced`
    """
    first = lax.axis_index("Z") * cache["k"].shape[1]  # the place in its sequence of the first key here
    k = turned(p, "W_K", X, at)  # new[B, K_Y, H]
    v = product(p, "W_V", "bd,dkh->bkh", X)  # new[B, K_Y, H]
    cache = remember(cache, k, v, at - first)  # K[B, S_Z, K_Y, H]: only one of Z has that place

    Q = turned(p, "W_Q", X, at)  # Q[B, N_YZ, H]
    Q = lax.all_gather(Q, "Z", axis=1, tiled=True)  # Q[B, N_Y, H]
    O = combine(partial_attention(Q, cache, at - first))  # O[B, N_YZ, H]
    y = product(p, "W_O", "bnh,nhd->bd", O.astype(X.dtype))  # [B, D] {U_YZ}
    return lax.psum(y, ("Y", "Z")), cache  # [B, D]


def partial_attention(Q, cache: dict, at) -> Running:
    """What Q[B, N, H] sees of the keys here, up to place at[B] of them: M[B, N], L[B, N], O[B, N, H], in float32."""
    there = jnp.arange(cache["k"].shape[1]) <= at[:, None]  # [B, S]: what lies behind is nobody's
    k, v = (operands.blank(cache[name], there).transpose(0, 2, 1, 3).astype(jnp.float32) for name in "kv")
    B, K, _, H = k.shape
    q = Q.reshape(B, K, -1, H).astype(jnp.float32)  # [B, K, M, H]: a group's heads are the queries of `chunk`
    r = chunk(q, k, v, there[:, None, None], H**-0.5)
    return jax.tree.map(lambda a: a.reshape(B, -1, *a.shape[3:]), r)


def exchanged(r: Running):
    """One AllToAll: each device gets everybody's (m, l, o) of its own heads, and puts them together."""
    packed = jnp.concatenate([r.M[..., None], r.L[..., None], r.O], -1)[None]  # [1, B, N_Y, H + 2]
    packed = lax.all_to_all(packed, "Z", split_axis=2, concat_axis=0, tiled=True)  # [Z, B, N_YZ, H + 2]
    return result(reduce(together, (Running(a[..., 0], a[..., 1], a[..., 2:]) for a in packed)))  # O[B, N_YZ, H]


def reduced(r: Running):
    """The largest m by an AllReduce; then (l, o), brought to that m, are sums like any other: a ReduceScatter over heads."""
    M = lax.pmax(r.M, "Z")  # M[B, N_Y]
    scale = jnp.exp(r.M - M)[..., None]  # every query sees its own key: M is finite
    sums = scale * jnp.concatenate([r.L[..., None], r.O], -1)  # [B, N_Y, H + 1] {U_Z}
    sums = lax.psum_scatter(sums, "Z", scatter_dimension=1, tiled=True)  # [B, N_YZ, H + 1]
    return sums[..., 1:] / sums[..., :1]  # O[B, N_YZ, H]


SEQUENCE = Way("sequence", "x[B, D]", WEIGHTS, "K[B, S_Z, K_Y, H]", partial(attend, combine=exchanged), MIX_YZ)
REDUCED = Way("sequence, reduced", "x[B, D]", WEIGHTS, "K[B, S_Z, K_Y, H]", partial(attend, combine=reduced), MIX_YZ)
