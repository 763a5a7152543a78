"""Latent attention (MLA) in a decode step over a mesh, absorbed: heads are cut, and one latent vector serves them all (chapter 5).

The cache has a latent vector c[B, S, R] and a rotated key of P numbers for each token, and no heads by which it could be cut:

    LATENT           heads over Y, and the whole cache on each of Y
    LATENT_BATCH     heads over Y and Z, the cache's sequences over Z: c[B_Z, S, R], two AllToAlls
    LATENT_SEQUENCE  heads over Y and Z, the cache's places over Z: c[B, S_Z, R], partial softmaxes put together

Each device makes keys of no token. It brings the queries of its heads into the latent space, q · (c W_UK) = (q W_UK^T) · c, and
takes what attention gives out of it: (shares c) W_UV = shares (c W_UV). W_UK and W_UV are cut by heads like W_UQ and W_O.
The down-projections are cut by their columns; a norm needs all of a short vector, so one AllGather brings all three.

Source: DeepSeek-AI, "DeepSeek-V2" (2024), Section 2.1; Pope et al., "Efficiently Scaling Transformer Inference" (2022) for cuts.
"""

from functools import partial

import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.attention.online_softmax import Running, chunk
from helpers.kernels.sharding.collectives import block
from helpers.kernels.transformers.decoder_layers import normalise, product, rotate, weigh

from .kv_cache_by_sequence import exchanged, reduced
from .sharded_decode_step import MIX_Y, MIX_YZ, Way, put

BOTH = ("Y", "Z")


def absorbed(p: dict, X, at, c: Config, axes):
    """Queries of the heads here in the latent space, Q[B, N_YZ, R + P], and what the cache gets of each token, latent[B, R], rope[B, P]."""
    turn = lambda a: rotate(a[None], at)[0]  # noqa: E731
    q, latent, rope = short_vectors(p, X, turn, c, axes)
    nope = jnp.einsum("bnh,rnh->bnr", q[..., : c.mla.nope], p["W_UK"])  # [B, N_YZ, R]
    return jnp.concatenate([nope, q[..., c.mla.nope :]], -1), dict(latent=latent, rope=rope)


def short_vectors(p: dict, x, turn, c: Config, axes):
    """Of tokens x[..., D]: queries of the heads here q[..., N_YZ, H], and whole latent[..., R] and rope[..., P].

    turn  rotates by the tokens' positions
    """
    names = [name for name in ("W_DQ", "W_DKV", "W_KR") if name in p]
    *short, latent, rope = _whole([product(p, name, "...d,dr->...r", x) for name in names], axes)
    if short:
        short = normalise(short[0], p.get("norm of W_DQ"), c)  # [..., Q]
        q = product(p, "W_UQ", "...r,rnh->...nh", short)  # [..., N_YZ, H]
    else:
        q = product(p, "W_Q", "...d,dnh->...nh", x)  # [..., N_YZ, H]
    q = jnp.concatenate([q[..., : c.mla.nope], turn(q[..., c.mla.nope :])], -1)
    return q, normalise(latent, p.get("norm of W_DKV"), c), turn(rope)


def _whole(parts: list, axes):
    """Arrays that are cut by columns, all of them by one AllGather: [..., r_YZ] each -> [..., r] each."""
    packed = jnp.concatenate(parts, -1)
    n, rows = lax.axis_size(axes), packed.shape[:-1]
    packed = lax.all_gather(packed, axes, axis=packed.ndim - 1, tiled=True).reshape(
        *rows, n, -1
    )  # each device's columns
    ends = [sum(a.shape[-1] for a in parts[: i + 1]) for i in range(len(parts) - 1)]
    return [a.reshape(*rows, -1) for a in jnp.split(packed, ends, axis=-1)]


def out_of_latent(p: dict, O, axes):
    """O[B, N_YZ, R] -> y[B, D]: values of the heads here, W_O, and the sum over all heads."""
    values = jnp.einsum("bnr,rnh->bnh", O.astype(p["W_UV"].dtype), p["W_UV"])  # [B, N_YZ, V]
    return lax.psum(product(p, "W_O", "bnh,nhd->bd", values), axes)  # y[B, D] {U_YZ} -> [B, D]


def look(Q, cache: dict, at, c: Config):
    """Softmax-weighted latent vectors: Q[B, N, R + P] at the places up to at[B] -> O[B, N, R]."""
    seen = jnp.arange(cache["latent"].shape[1]) <= at[:, None]  # [B, S]
    latent, rope = (operands.blank(cache[name], seen) for name in ("latent", "rope"))
    keys = jnp.concatenate([latent, rope], -1)  # [B, S, R + P]
    scores = jnp.einsum("bnr,bsr->bns", Q, keys) / c.qk**0.5
    return jnp.einsum("bns,bsr->bnr", weigh(scores, seen[:, None]), latent)


def attend(p, cache, X, at, c: Config):
    """Every device has the latent vectors of all sequences, and attends with its heads."""
    Q, new = absorbed(p, X, at, c, "Y")  # Q[B, N_Y, R + P]
    cache = put(cache, new, at)  # c[B, S, R]
    return out_of_latent(p, look(Q, cache, at, c), "Y"), cache


def attend_batch(p, cache, X, at, c: Config):
    """Every device has the latent vectors of its own sequences, and attends for all heads of its Y."""
    z, Z = lax.axis_index("Z"), lax.axis_size("Z")
    Q, new = absorbed(p, X, at, c, BOTH)  # Q[B, N_YZ, R + P]
    own, at_own = {name: block(a, z, Z, 0) for name, a in new.items()}, block(at, z, Z, 0)
    cache = put(cache, own, at_own)  # c[B_Z, S, R]
    Q = lax.all_to_all(Q, "Z", split_axis=0, concat_axis=1, tiled=True)  # Q[B_Z, N_Y, R + P]
    O = look(Q, cache, at_own, c)  # O[B_Z, N_Y, R]
    O = lax.all_to_all(O, "Z", split_axis=1, concat_axis=0, tiled=True)  # O[B, N_YZ, R]
    return out_of_latent(p, O, BOTH), cache


def attend_sequence(p, cache, X, at, c: Config, combine):
    """Every device has some places of every sequence, and attends to them for all heads of its Y.

    combine  the devices' partial results into O[B, N_YZ, R]: `exchanged` or `reduced` of `kv_cache_by_sequence`
    """
    first = lax.axis_index("Z") * cache["latent"].shape[1]  # the place in its sequence of the first vector here
    Q, new = absorbed(p, X, at, c, BOTH)  # Q[B, N_YZ, R + P]
    cache = put(cache, new, at - first)  # c[B, S_Z, R]: only one of Z has that place
    Q = lax.all_gather(Q, "Z", axis=1, tiled=True)  # Q[B, N_Y, R + P]
    O = combine(partial_attention(Q, cache, at - first, c))  # O[B, N_YZ, R]
    return out_of_latent(p, O, BOTH), cache


def partial_attention(Q, cache: dict, at, c: Config) -> Running:
    """What Q[B, N, R + P] sees of the places here, up to at[B] of them: M[B, N], L[B, N], O[B, N, R], in float32."""
    seen = jnp.arange(cache["latent"].shape[1]) <= at[:, None]  # [B, S_Z]
    latent, rope = (operands.blank(cache[name], seen).astype(jnp.float32) for name in ("latent", "rope"))
    return chunk(Q.astype(jnp.float32), jnp.concatenate([latent, rope], -1), latent, seen[:, None], c.qk**-0.5)


def _weights(over: str) -> tuple[str, ...]:
    return tuple(
        how.replace("_YZ", f"_{over}")
        for how in (
            "W_DQ[D, Q_YZ]", "W_UQ[Q, N_YZ, H]", "W_Q[D, N_YZ, H]", "W_DKV[D, R_YZ]", "W_KR[D, P_YZ]",
            "W_UK[R, N_YZ, H]", "W_UV[R, N_YZ, H]", "W_O[N_YZ, H, D]",
            "W_in[D, F_YZ]", "W_gate[D, F_YZ]", "W_out[F_YZ, D]",
        )
    )  # fmt: skip


KEPT, OVER_Y = ("latent", "rope"), _weights("Y")
LATENT = Way("latent", "x[B, D]", OVER_Y, "c[B, S, R]", attend, MIX_Y, keeps=KEPT)
LATENT_BATCH = Way("latent, sequences", "x[B, D]", _weights("YZ"), "c[B_Z, S, R]", attend_batch, MIX_YZ, keeps=KEPT)
LATENT_SEQUENCE = Way(
    "latent, places", "x[B, D]", _weights("YZ"), "c[B, S_Z, R]", partial(attend_sequence, combine=exchanged), MIX_YZ,
    keeps=KEPT,
)  # fmt: skip
LATENT_REDUCED = Way(
    "latent, places, reduced", "x[B, D]", _weights("YZ"), "c[B, S_Z, R]", partial(attend_sequence, combine=reduced), MIX_YZ,
    keeps=KEPT,
)  # fmt: skip
