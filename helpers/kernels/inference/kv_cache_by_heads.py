"""A cache cut over KV heads and over sequences, K[B_Z, S, K_Y, H]: two AllToAlls of small arrays, and nobody holds a copy (chapter 5).

Weights are cut over all of Y and Z, N_YZ. KV heads are too few for that; the cache's other uncut dimension that needs no sum is
the batch. So queries move from "some heads of all sequences" to "more heads of some sequences", and their results back.

The way back, O[B_Z, N_Y, H] -> O[B, N_YZ, H], is an AllToAll that moves Z from the sequences to the heads. Heads are counted
n = k·M + m, so N_YZ is M_Z with K_Y in front only where a device has one KV head: there it may be read as an AllToAll to M and
a reshape that each device does by itself. With more KV heads on a device, M_Z picks other heads than the device's rows of W_O.

Source: Austin et al. 2025, Section 7 (its list of steps, with the shardings of steps 2, 7 and 8 and the condition of step 10
put right); Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.sharding.collectives import block
from helpers.kernels.transformers.decoder_layers import product

from .sharded_decode_step import MIX_YZ, Way, remember, turned


def attend(p, cache, X, at, c: Config, back):
    """The twelve steps; what is sent is in 4, 9 and 12.

    back  steps 9 and 10: `over_heads` or `over_groups`
    """
    z, Z = lax.axis_index("Z"), lax.axis_size("Z")
    rows, at_rows = block(X, z, Z, 0), block(at, z, Z, 0)  # 1. X[B_Z, D]: its rows of X[B, D], which is whole here
    k = turned(p, "W_K", rows, at_rows)  # new[B_Z, K_Y, H]
    v = product(p, "W_V", "bd,dkh->bkh", rows)  # new[B_Z, K_Y, H]
    cache = remember(cache, k, v, at_rows)  # 2. K[B_Z, S, K_Y, H], V[B_Z, S, K_Y, H]
    B, S, heads_here, H = cache["k"].shape
    there = jnp.arange(S) <= at_rows[:, None]  # [B_Z, S]: what lies behind is nobody's
    K, V = (operands.blank(cache[name], there) for name in "kv")

    Q = turned(p, "W_Q", X, at)  # 3. Q[B, N_YZ, H]
    Q = lax.all_to_all(Q, "Z", split_axis=0, concat_axis=1, tiled=True)  # 4. Q[B_Z, N_Y, H]
    Q = Q.reshape(B, heads_here, -1, H)  # 5. Q[B_Z, K_Y, M, H]
    scores = jnp.einsum("bkmh,bskh->bskm", Q, K) / H**0.5  # 6. [B_Z, S, K_Y, M]
    shares = jax.nn.softmax(scores, axis=1, where=there[:, :, None, None])  # 7. [B_Z, S, K_Y, M]
    O = jnp.einsum("bskm,bskh->bkmh", shares, V)  # 8. O[B_Z, K_Y, M, H]
    O = back(O)  # 9, 10. O[B, N_YZ, H]
    X = product(p, "W_O", "bnh,nhd->bd", O)  # 11. X[B, D] {U_YZ}
    return lax.psum(X, ("Y", "Z")), cache  # 12. X[B, D]


def over_heads(O):
    """Steps 9 and 10 wherever |Z| divides N/|Y|: first the reshape, then Z moves to N."""
    B, K, M, H = O.shape
    O = O.reshape(B, K * M, H)  # O[B_Z, N_Y, H]
    return lax.all_to_all(O, "Z", split_axis=1, concat_axis=0, tiled=True)  # O[B, N_YZ, H]


def over_groups(O):
    """Steps 9 and 10 where |Y| = K and |Z| divides M: Z moves to M, then a reshape of what is here."""
    O = lax.all_to_all(O, "Z", split_axis=2, concat_axis=0, tiled=True)  # O[B, K_Y, M_Z, H]
    B, K, M, H = O.shape
    return O.reshape(B, K * M, H)  # O[B, N_YZ, H], for K_Y is one head


def _one_head_each(c: Config, grid) -> str:
    Y, Z, M = grid["Y"], grid["Z"], c.N // c.K
    if Y == c.K and M % Z == 0:
        return ""
    return (
        f"moving Z to M and reshaping needs |Y| = K and |Z| dividing M, and here Y = {Y}, K = {c.K}, Z = {Z}, M = {M}:"
        " use HEADS, which moves Z to N"
    )


WEIGHTS = (
    "W_Q[D, N_YZ, H]", "W_K[D, K_Y, H]", "W_V[D, K_Y, H]", "W_O[N_YZ, H, D]",
    "W_in[D, F_YZ]", "W_gate[D, F_YZ]", "W_out[F_YZ, D]",
)  # fmt: skip
"""W_K and W_V are small: cut over Y only, and the same along Z."""

HEADS = Way("heads and sequences", "x[B, D]", WEIGHTS, "K[B_Z, S, K_Y, H]", partial(attend, back=over_heads), MIX_YZ)
GROUPS = Way(
    "heads and sequences, reshaped",
    "x[B, D]",
    WEIGHTS,
    "K[B_Z, S, K_Y, H]",
    partial(attend, back=over_groups),
    MIX_YZ,
    _one_head_each,
)
