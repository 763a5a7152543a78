"""Tensor parallelism: every device has its part of F, all tokens, and its part of D of what enters and leaves (chapter 4).

Activations are gathered before the first product and scattered after the second one; the backward pass is the transpose,
and gathers In again unless it is kept: five times B·D numbers in all, or four. Unlike the weights' gradients of data
parallelism all of it is waited for, but for In again.

Source: Austin et al. 2025, Section 5; Shoeybi et al., "Megatron-LM" (2019).
"""

from collections.abc import Callable
from functools import partial

from jax import lax

from .mlp_training_step import Strategy, Weights


def tensor_forward(In, w: Weights, keep: bool = False):
    shard = In
    In = lax.all_gather(In, "Y", axis=1, tiled=True)  # [B, D]: waited for
    Tmp = In @ w.W_in  # [B, F_Y]
    Out = Tmp @ w.W_out  # [B, D] {U_Y}
    Out = lax.psum_scatter(Out, "Y", scatter_dimension=1, tiled=True)  # [B, D_Y]: waited for
    return Out, (In if keep else shard, Tmp)


def tensor_backward(dOut, kept, w: Weights, keep: bool = False):
    In, Tmp = kept
    dOut = lax.all_gather(dOut, "Y", axis=1, tiled=True)  # [B, D]: waited for
    dW_out = Tmp.T @ dOut  # [F_Y, D]
    dTmp = dOut @ w.W_out.T  # [B, F_Y]; dOut can go
    if not keep:
        In = lax.all_gather(In, "Y", axis=1, tiled=True)  # [B, D]: again, and can be done ahead
    dW_in = In.T @ dTmp  # [D, F_Y]
    dIn = dTmp @ w.W_in.T  # [B, D] {U_Y}
    dIn = lax.psum_scatter(dIn, "Y", scatter_dimension=1, tiled=True)  # [B, D_Y]: waited for
    return dIn, Weights(dW_in, dW_out)


def regathering_or_keeping(
    name: str, cut, Tmp: str, forward: Callable, backward: Callable
) -> tuple[Strategy, Strategy]:
    """The strategy that keeps the shard of In and gathers it over Y again in its backward pass, and the one that keeps In.

    cut                 the notation of In, W_in and W_out;  Tmp: that of Tmp
    forward, backward   the passes, which take `keep`: one collective less, for |Y| times the memory of that activation
    """
    shard, whole = cut[0], cut[0].replace("D_Y", "D")
    keeping = (partial(f, keep=True) for f in (forward, backward))
    return Strategy(name, *cut, (shard, Tmp), forward, backward), Strategy(
        f"{name}, In kept", *cut, (whole, Tmp), *keeping
    )


TENSOR, TENSOR_KEEPING = regathering_or_keeping(
    "TP", ("In[B, D_Y]", "W_in[D, F_Y]", "W_out[F_Y, D]"), "Tmp[B, F_Y]", tensor_forward, tensor_backward
)
