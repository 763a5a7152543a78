"""A decode step of one layer under tensor parallelism, and the two ways not to do it: FSDP and data parallelism (chapter 5).

Decode reads all weights for few tokens. Tensor parallelism leaves weights where they are and sends B·D numbers twice in a
layer; FSDP sends the weights; data parallelism sends nothing, and every device reads all weights.

Source: Austin et al. 2025, Section 7.
"""

from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.transformers.decoder_layers import mlp, product

from .sharded_decode_step import MIX_Y, Way, look, remember, turned


def attend_tensor(p, cache, y, at, c: Config):
    """Each device has some of the heads, with their cache: one AllReduce."""
    q = turned(p, "W_Q", y, at)  # Q[B, N_Y, H]
    k = turned(p, "W_K", y, at)  # new[B, K_Y, H]
    v = product(p, "W_V", "bd,dkh->bkh", y)  # new[B, K_Y, H]
    cache = remember(cache, k, v, at)  # K[B, S, K_Y, H], V[B, S, K_Y, H]
    O = look(q, cache, at)  # O[B, N_Y, H]
    y = product(p, "W_O", "bnh,nhd->bd", O)  # y[B, D] {U_Y}
    return lax.psum(y, "Y"), cache  # y[B, D]


def attend_data(p, cache, y, at, c: Config):
    """Each device has some of the sequences, and all heads."""
    at = lax.dynamic_slice_in_dim(at, lax.axis_index("X") * len(y), len(y))  # at[B_X]
    k = turned(p, "W_K", y, at)  # new[B_X, K, H]
    v = product(p, "W_V", "bd,dkh->bkh", y)  # new[B_X, K, H]
    cache = remember(cache, k, v, at)  # K[B_X, S, K, H], V[B_X, S, K, H]
    O = look(turned(p, "W_Q", y, at), cache, at)  # O[B_X, N, H]
    return product(p, "W_O", "bnh,nhd->bd", O), cache  # y[B_X, D]


def mix_data(p, y, c: Config):
    return mlp(p, y, c, rows="b")  # y[B_X, D]


def attend_fsdp(p, cache, y, at, c: Config):
    """The same with a part of D of every matrix on each device: weights are sent, for one token of each sequence."""
    whole = dict(
        W_Q=_whole(p["W_Q"], 0),  # [D, N, H]
        W_K=_whole(p["W_K"], 0),  # [D, K, H]
        W_V=_whole(p["W_V"], 0),  # [D, K, H]
        W_O=_whole(p["W_O"], 2),  # [N, H, D]
    )
    return attend_data(whole, cache, y, at, c)


def mix_fsdp(p, y, c: Config):
    into = {n: _whole(p[n], 0) for n in ("W_in", "W_gate") if n in p}  # [D, F] each
    return mix_data(into | {"W_out": _whole(p["W_out"], 1)}, y, c)  # [F, D]


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

TENSOR = Way("TP", "x[B, D]", OVER_Y, "K[B, S, K_Y, H]", attend_tensor, MIX_Y)
FSDP = Way("FSDP", "x[B_X, D]", OVER_X, "K[B_X, S, K, H]", attend_fsdp, mix_fsdp)
DATA = Way("DP", "x[B_X, D]", WHOLE, "K[B_X, S, K, H]", attend_data, mix_data)
