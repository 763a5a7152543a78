"""Layouts of a decode step of one layer: TENSOR, FSDP, DATA; HEADS; SEQUENCE; LATENT, LATENT_BATCH, LATENT_SEQUENCE (chapter 5).

Decode reads all weights for few tokens. Tensor parallelism leaves weights where they are and sends B·D numbers twice in a
layer; FSDP sends the weights; data parallelism sends nothing, and every device reads all weights.

Source: Austin et al. 2025, Section 7.
"""

from collections.abc import Callable
from functools import partial, reduce

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.attention.softmax import Running, result, together
from helpers.kernels.attention.tree_attention import packed, seen_of, unpacked
from helpers.kernels.sharding.collectives import block
from helpers.kernels.transformers.decoder_layers import mlp, places, product, rotate, short_vectors

from .sharded_decode_step import MIX_Y, MIX_YZ, Way, entries, keys_and_values, look, put, turned


def attend_whole(kind, params, cache, y, positions, c: Config, axes="Y"):
    """Each device has some of the heads, with all that these look at: one AllReduce.

    kind  `of_heads`, or `absorbed` for a cache of latent vectors
    """
    Q, new = kind(params, y, positions, c, axes)  # Q[B, N_Y, H]
    cache = put(cache, new, positions)  # K[B, S, K_Y, H], V[B, S, K_Y, H]
    return leave(params, look(Q, cache, positions), axes), cache  # of O[B, N_Y, H]


def of_heads(params, y, positions, c: Config, axes, own_rows: Callable = lambda a: a):
    """Queries of the new tokens, and what the cache gets of those that are `own_rows`, this device's."""
    return turned(params, "W_Q", y, positions), entries(params, own_rows(y), own_rows(positions))


def leave(params, O, axes):
    """What heads found, O[B, N_Y, H], as y[B, D]; latent vectors, O[B, N_Y, R], become values first."""
    if "W_UV" in params:
        O = jnp.einsum("bnr,rnh->bnh", O.astype(params["W_UV"].dtype), params["W_UV"])  # [B, N_Y, V]
    y = product(params, "W_O", "bnh,nhd->bd", O)  # y[B, D] {U_Y}
    return lax.psum(y, axes)  # y[B, D]


def attend_data(params, cache, y, positions, c: Config):
    """Each device has some of the sequences, and all heads."""
    positions = lax.dynamic_slice_in_dim(positions, lax.axis_index("X") * len(y), len(y))  # positions[B_X]
    cache = put(cache, entries(params, y, positions), positions)  # K[B_X, S, K, H], V[B_X, S, K, H]
    O = look(turned(params, "W_Q", y, positions), cache, positions)  # O[B_X, N, H]
    return product(params, "W_O", "bnh,nhd->bd", O), cache  # y[B_X, D]


def attend_fsdp(params, cache, y, positions, c: Config):
    """The same with a part of D of every matrix on each device: weights are sent, for one token of each sequence."""
    whole = {
        name: _whole(params[name], 2 if name == "W_O" else 0) for name in ("W_Q", "W_K", "W_V", "W_O")
    }  # D of each
    return attend_data(whole, cache, y, positions, c)


def mix_fsdp(params, y, c: Config):
    into = {n: _whole(params[n], 0) for n in ("W_in", "W_gate") if n in params}  # [D, F] each
    return mlp(into | {"W_out": _whole(params["W_out"], 1)}, y, c, row_letters="b")  # [F, D]


def _whole(w, axis: int):
    return lax.all_gather(w, "X", axis=axis, tiled=True)


OVER_Y = (
    "W_Q[D, N_Y, H]", "W_K[D, K_Y, H]", "W_V[D, K_Y, H]", "W_O[N_Y, H, D]",
    "W_in[D, F_Y]", "W_gate[D, F_Y]", "W_out[F_Y, D]",
)  # fmt: skip
OVER_X = (
    "W_Q[D_X, N, H]", "W_K[D_X, K, H]", "W_V[D_X, K, H]", "W_O[N, H, D_X]",
    "W_in[D_X, F]", "W_gate[D_X, F]", "W_out[F, D_X]",
)  # fmt: skip
WHOLE = tuple(how.replace("_X", "") for how in OVER_X)

TENSOR = Way("TP", "x[B, D]", OVER_Y, "K[B, S, K_Y, H]", partial(attend_whole, of_heads), MIX_Y)
FSDP = Way("FSDP", "x[B_X, D]", OVER_X, "K[B_X, S, K, H]", attend_fsdp, mix_fsdp)
DATA = Way("DP", "x[B_X, D]", WHOLE, "K[B_X, S, K, H]", attend_data, partial(mlp, row_letters="b"))


# A cache cut over KV heads and over sequences, K[B_Z, S, K_Y, H]: two AllToAlls of small arrays, and nobody holds a copy.
#
# Weights are cut over all of Y and Z, N_YZ. KV heads are too few for that; the cache's other uncut dimension that needs no sum is
# the batch. So queries move from "some heads of all sequences" to "more heads of some sequences", and their results back.
#
# The way back, O[B_Z, N_Y, H] -> O[B, N_YZ, H], is an AllToAll that moves Z from the sequences to the heads. To move Z to the M
# heads of a group instead, and reshape, is right only where a device has one KV head: with more, M_Z picks other heads than the
# device's rows of W_O.
#
# Source: Austin et al. 2025, Section 7 (its list of steps, with the shardings of steps 2, 7 and 8 and the condition of step 10
# put right); Pope et al., "Efficiently Scaling Transformer Inference" (2022).


def attend_by_batch(kind, params, cache, X, positions, c: Config, axes=("Y", "Z")):
    """The twelve steps; what is sent is in 4, 10 and 12."""
    own = lambda a: block(a, lax.axis_index("Z"), lax.axis_size("Z"), 0)  # noqa: E731
    Q, new = kind(params, X, positions, c, axes, own)  # 1. X[B_Z, D]: its rows of X[B, D], whole here. 3. Q[B, N_YZ, H]
    cache = put(cache, new, own(positions))  # 2. K[B_Z, S, K_Y, H], V[B_Z, S, K_Y, H]
    Q = lax.all_to_all(Q, "Z", split_axis=0, concat_axis=1, tiled=True)  # 4. Q[B_Z, N_Y, H]
    O = look(Q, cache, own(positions))  # 5 to 9. scores, softmax and O[B_Z, K_Y, M, H], which is O[B_Z, N_Y, H]
    O = lax.all_to_all(O, "Z", split_axis=1, concat_axis=0, tiled=True)  # 10. O[B, N_YZ, H]
    return leave(params, O, axes), cache  # 11 and 12. X[B, D] {U_YZ} -> X[B, D]


WEIGHTS = (
    "W_Q[D, N_YZ, H]", "W_K[D, K_Y, H]", "W_V[D, K_Y, H]", "W_O[N_YZ, H, D]",
    "W_in[D, F_YZ]", "W_gate[D, F_YZ]", "W_out[F_YZ, D]",
)  # fmt: skip
"""W_K and W_V are small: cut over Y only, and the same along Z."""

HEADS = Way("heads and sequences", "x[B, D]", WEIGHTS, "K[B_Z, S, K_Y, H]", partial(attend_by_batch, of_heads), MIX_YZ)


# A cache cut over its S places, K[B, S_Z, K_Y, H]: for few and long sequences.
#
# Each device looks at the keys that it has and keeps, for each query, the largest score m, the sum l of e^(score - m) and the sum o
# of e^(score - m)·v. The devices' (m, l, o) together give what one device with all keys would have found (`attention.softmax`).
# They are H + 2 numbers for each head, however long the sequences are.
#
# Source: Austin et al. 2025, Section 7; Dao et al., "Flash-Decoding for long-context inference" (2023).


def attend_by_sequence(kind, params, cache, X, positions, c: Config, axes=("Y", "Z")):
    """Attention with every query on every device along Z, each looking at its part of the places."""
    start = lax.axis_index("Z") * places(cache)  # the place in its sequence of the first key here
    Q, new = kind(params, X, positions, c, axes)  # Q[B, N_YZ, H]
    cache = put(cache, new, positions - start)  # K[B, S_Z, K_Y, H]: only one of Z has that place
    Q = lax.all_gather(Q, "Z", axis=1, tiled=True)  # Q[B, N_Y, H]
    there = jnp.arange(places(cache)) <= (positions - start)[:, None]  # [B, S_Z]: what lies behind is nobody's
    seen = seen_of(Q, *keys_and_values(cache), there)
    O = exchanged(jax.tree.map(lambda a: a.reshape(*Q.shape[:2], *a.shape[3:]), seen))  # O[B, N_YZ, H]
    return leave(params, O.astype(X.dtype), axes), cache


def exchanged(running: Running):
    """One AllToAll: each device gets everybody's (m, l, o) of its own heads, and puts them together."""
    row = lax.all_to_all(packed(running)[None], "Z", split_axis=2, concat_axis=0, tiled=True)  # [Z, B, N_YZ, H + 2]
    return result(reduce(together, map(unpacked, row)))  # O[B, N_YZ, H]


SEQUENCE = Way("sequence", "x[B, D]", WEIGHTS, "K[B, S_Z, K_Y, H]", partial(attend_by_sequence, of_heads), MIX_YZ)


# Latent attention (MLA), absorbed: heads are cut, and one latent vector serves them all.
#
# The cache has a latent vector c[B, S, R] and a rotated key of P numbers for each token, and no heads by which it could be cut:
#
#     LATENT           heads over Y, and the whole cache on each of Y
#     LATENT_BATCH     heads over Y and Z, the cache's sequences over Z: c[B_Z, S, R], two AllToAlls
#     LATENT_SEQUENCE  heads over Y and Z, the cache's places over Z: c[B, S_Z, R], partial softmaxes put together
#
# Each device makes keys of no token. It brings the queries of its heads into the latent space, q · (c W_UK) = (q W_UK^T) · c, and
# takes what attention gives out of it: (shares c) W_UV = shares (c W_UV). W_UK and W_UV are cut by heads like W_UQ and W_O.
# The down-projections are cut by their columns; a norm needs all of a short vector, so one AllGather brings all three.
#
# Source: DeepSeek-AI, "DeepSeek-V2" (2024), Section 2.1; Pope et al., "Efficiently Scaling Transformer Inference" (2022) for cuts.


def absorbed(params: dict, X, positions, c: Config, axes, own_rows: Callable = lambda a: a):
    """`of_heads` in the latent space: Q[B, N_YZ, R + P], and latent[B, R], rope[B, P] of each token.

    Scores are divided by the root of R + P, as those of any heads, where a head's own width is meant: queries make up for that.
    """
    turn = lambda a: rotate(a[None], positions)[0]  # noqa: E731
    q, latent, rope = short_vectors(params, X, turn, c, partial(columns, axes=axes))
    nope = jnp.einsum("bnh,rnh->bnr", q[..., : c.mla.nope], params["W_UK"])  # [B, N_YZ, R]
    Q = jnp.concatenate([nope, q[..., c.mla.nope :]], -1)
    return Q * (Q.shape[-1] / c.qk) ** 0.5, dict(latent=own_rows(latent), rope=own_rows(rope))


def columns(parts: list, axes) -> list:
    """Arrays that are cut by columns, all of them by one AllGather: [..., r_YZ] each -> [..., r] each."""
    packed = jnp.concatenate(parts, -1)
    n, rows = lax.axis_size(axes), packed.shape[:-1]
    packed = lax.all_gather(packed, axes, axis=packed.ndim - 1, tiled=True)
    packed = packed.reshape(*rows, n, -1)  # each device's columns
    ends = [sum(a.shape[-1] for a in parts[: i + 1]) for i in range(len(parts) - 1)]
    return [a.reshape(*rows, -1) for a in jnp.split(packed, ends, axis=-1)]


LATENT_OVER_Y = (
    "W_DQ[D, Q_Y]", "W_UQ[Q, N_Y, H]", "W_Q[D, N_Y, H]", "W_DKV[D, R_Y]", "W_KR[D, P_Y]", "W_UK[R, N_Y, H]", "W_UV[R, N_Y, H]",
    "W_O[N_Y, H, D]", "W_in[D, F_Y]", "W_gate[D, F_Y]", "W_out[F_Y, D]",
)  # fmt: skip
LATENT_OVER_YZ = tuple(array.replace("_Y", "_YZ") for array in LATENT_OVER_Y)
KEPT = ("latent", "rope")

LATENT = Way("latent", "x[B, D]", LATENT_OVER_Y, "c[B, S, R]", partial(attend_whole, absorbed), MIX_Y, KEPT)
LATENT_BATCH = Way(
    "latent, sequences", "x[B, D]", LATENT_OVER_YZ, "c[B_Z, S, R]", partial(attend_by_batch, absorbed), MIX_YZ, KEPT
)
LATENT_SEQUENCE = Way(
    "latent, places", "x[B, D]", LATENT_OVER_YZ, "c[B, S_Z, R]", partial(attend_by_sequence, absorbed), MIX_YZ, KEPT
)
