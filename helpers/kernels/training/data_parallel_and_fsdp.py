"""Strategies for the two-matmul layer: data parallelism, ZeRO, FSDP, HSDP, tensor parallelism, and FSDP with it (chapters 4 and 7).

Data parallelism: every device has its part of the batch; weights and Adam's state whole, or cut over the same axis.

                weights      gradients       Adam's state   sent for a matrix, forward + backward + update
    DATA        whole        whole        whole          0 + AllReduce + 0
    ZERO1       whole        whole        cut            0 + 0 + ReduceScatter, AllGather
    ZERO2       whole        cut          cut            0 + ReduceScatter + AllGather
    FSDP        cut          cut          cut            AllGather + AllGather, ReduceScatter + 0

An AllReduce is a ReduceScatter and an AllGather, so of one microbatch ZeRO-1 and ZeRO-2 send what data parallelism
sends; FSDP, also called ZeRO-3, 1.5 times as much.

Of several microbatches (`mlp_training_step.step`) what stands under forward and backward is sent for each, what belongs to the update
once. So two more strategies keep the whole gradients of all microbatches together, 1/X of which would do, and send them once:

    DATA_ONCE   whole        whole        whole          0 + 0 + AllReduce
    FSDP_ONCE   cut          whole        cut            AllGather + AllGather + ReduceScatter

Source: Austin et al. 2025, Section 5; Rajbhandari et al., "ZeRO" (2020); Zhao et al., "PyTorch FSDP" (2023).
"""

from dataclasses import replace
from functools import partial

from jax import lax

from helpers.kernels.sharding.collectives import block
from helpers.kernels.transformers.adam import Adam, Moments

from .mlp_training_step import Strategy, Weights, backward, step

WHOLE = dict(In="In[B_X, D]", W_in="W_in[D, F]", W_out="W_out[F, D]", kept=("In[B_X, D]", "Tmp[B_X, F]"))
CUT = ("W_in[D_X, F]", "W_out[F, D_X]")


def gather(w: Weights) -> Weights:
    """Each matrix whole, from its shards along D; of one layer, or of all."""
    return Weights(_gathered(w.W_in, "X", w.W_in.ndim - 2), _gathered(w.W_out, "X", w.W_out.ndim - 1))


def scatter(dw: Weights) -> Weights:
    """The device's shard along D of the sum over devices."""
    return Weights(_scattered(dw.W_in, "X", dw.W_in.ndim - 2), _scattered(dw.W_out, "X", dw.W_out.ndim - 1))


# Data parallelism. Its forward pass is that of one device: In[B_X, D] · W_in[D, F] · W_out[F, D] -> Out[B_X, D].


def data_backward(dOut, residuals, w: Weights):
    dIn, dw = backward(dOut, residuals, w)  # dW_in[D, F] {U_X}, dW_out[F, D] {U_X}
    dW_out, dW_in = lax.psum((dw.W_out, dw.W_in), "X")  # [F, D], [D, F]: nobody waits for them before the update
    return dIn, Weights(dW_in, dW_out)


DATA = Strategy("DP", **WHOLE, backward=data_backward)


UNREDUCED = ("dW_in[D, F] {U_X}", "dW_out[F, D] {U_X}")


def rounded(dw: Weights, w: Weights) -> Weights:
    """Gradients, whose sum over microbatches is in float32, in the type of the weights: that is what is sent."""
    return Weights(*(d.astype(a.dtype) for d, a in zip(dw, w)))


def data_once_update(adam: Adam, w: Weights, dw: Weights, moments: Moments):
    return adam.update(w, lax.psum(rounded(dw, w), "X"), moments)  # dW[D, F] {U_X} of all microbatches


DATA_ONCE = Strategy("DP, summed once", **WHOLE, gradients=UNREDUCED, update=data_once_update)


# ZeRO-1 and ZeRO-2: each device updates its shard of the weights, then all gather them.


def zero1_update(adam: Adam, w: Weights, dw: Weights, moments: Moments):
    """The gradients of all layers lie there unreduced until now: dW[D, F] {U_X}."""
    return zero2_update(adam, w, scatter(rounded(dw, w)), moments)


def zero2_update(adam: Adam, w: Weights, dw: Weights, moments: Moments):
    """The gradients are cut already: dW[D_X, F]."""
    n, i = lax.axis_size("X"), lax.axis_index("X")
    mine = Weights(block(w.W_in, i, n, axis=1), block(w.W_out, i, n, axis=2))  # [L, D_X, F], [L, F, D_X]
    mine, moments = adam.update(mine, dw, moments)
    return gather(mine), moments


def zero2_backward(dOut, residuals, w: Weights):
    dIn, dw = backward(dOut, residuals, w)  # dW_in[D, F] {U_X}, dW_out[F, D] {U_X}
    return dIn, scatter(dw)  # dW_in[D_X, F], dW_out[F, D_X]


ZERO1 = Strategy("ZeRO-1", **WHOLE, gradients=UNREDUCED, update=zero1_update, moments=CUT)
ZERO2 = Strategy("ZeRO-2", **WHOLE, backward=zero2_backward, gradients=CUT, update=zero2_update, moments=CUT)


# FSDP over X, tensor parallelism over Y, and both: seven steps forward, twelve backward.
#
# FSDP gathers weights just before they are used, and lets them go. Under tensor parallelism every device has its part of F, and of D
# of what enters and leaves: activations are gathered before the first product and scattered after the second one; the backward pass
# is the transpose, and gathers In again: five times B·D numbers in all, or four for whoever keeps it, for |Y| times the memory of that
# activation. Unlike what FSDP sends all of it is waited for, but for In again.
#
# Together each makes the other cheaper: the activations that Y sends are B_X tokens only, the weights that X sends F_Y columns only.
# Where one of the two axes is None its steps are not there.
#
# Source: Austin et al. 2025, Section 5; Shoeybi et al., "Megatron-LM" (2019).


def cut_forward(In, w: Weights, fsdp, tensor):
    """fsdp, tensor  the mesh axes along which D of the weights, and F with D of the activations, are cut; None: they are not"""
    shard = In
    In = _gathered(In, tensor, 1)  # 1  [B_X, D]: waited for
    W_in = _gathered(w.W_in, fsdp, 0)  # 2  [D, F_Y]: can be done ahead
    Tmp = In @ W_in  # 3  [B_X, F_Y]; W_in can go
    W_out = _gathered(w.W_out, fsdp, 1)  # 4  [F_Y, D]: can be done ahead
    Out = Tmp @ W_out  # 5  [B_X, D] {U_Y}
    Out = _scattered(Out, tensor, 1)  # 6  [B_X, D_Y]: waited for
    return Out, (shard, Tmp)  # 7  the loss, after the last layer


def cut_backward(dOut, residuals, w: Weights, fsdp, tensor):
    In, Tmp = residuals  # 1  dOut[B_X, D_Y] comes from the layer above
    dOut = _gathered(dOut, tensor, 1)  # 2  [B_X, D]: waited for
    dW_out = Tmp.T @ dOut  # 3  [F_Y, D] {U_X}
    dW_out = _scattered(dW_out, fsdp, 1)  # 4  [F_Y, D_X]: nobody waits for it
    W_out = _gathered(w.W_out, fsdp, 1)  # 5  [F_Y, D]: can be done ahead
    dTmp = dOut @ W_out.T  # 6  [B_X, F_Y]; dOut can go
    In = _gathered(In, tensor, 1)  # 7  [B_X, D]: again, and can be done ahead
    dW_in = In.T @ dTmp  # 8  [D, F_Y] {U_X}
    dW_in = _scattered(dW_in, fsdp, 0)  # 9  [D_X, F_Y]: nobody waits
    W_in = _gathered(w.W_in, fsdp, 0)  # 10  [D, F_Y]: can be done ahead
    dIn = dTmp @ W_in.T  # 11  [B_X, D] {U_Y}
    dIn = _scattered(dIn, tensor, 1)  # 12  [B_X, D_Y]: waited for
    return dIn, Weights(dW_in, dW_out)


def _gathered(x, axes, dim: int):
    return lax.all_gather(x, axes, axis=dim, tiled=True) if axes else x


def _scattered(x, axes, dim: int):
    return lax.psum_scatter(x, axes, scatter_dimension=dim, tiled=True) if axes else x


def _cut(name: str, In: str, W_in: str, W_out: str, Tmp: str, fsdp=None, tensor=None, **options) -> Strategy:
    there, back = (partial(f, fsdp=fsdp, tensor=tensor) for f in (cut_forward, cut_backward))
    return Strategy(name, In, W_in, W_out, (In, Tmp), there, back, **options)


FSDP = _cut("FSDP", "In[B_X, D]", *CUT, "Tmp[B_X, F]", "X")
TENSOR = _cut("TP", "In[B, D_Y]", "W_in[D, F_Y]", "W_out[F_Y, D]", "Tmp[B, F_Y]", None, "Y")
MIXED = _cut("FSDP+TP", "In[B_X, D_Y]", "W_in[D_X, F_Y]", "W_out[F_Y, D_X]", "Tmp[B_X, F_Y]", "X", "Y")


# FSDP that scatters gradients once, of all microbatches together: they stay whole until then.


def fsdp_once_backward(dOut, residuals, w: Weights):
    return backward(dOut, residuals, gather(w))  # dW_in[D, F] {U_X}, dW_out[F, D] {U_X}


def fsdp_once_update(adam: Adam, w: Weights, dw: Weights, moments: Moments):
    return adam.update(w, scatter(rounded(dw, w)), moments)


FSDP_ONCE = replace(
    FSDP, name="FSDP, scattered once", backward=fsdp_once_backward, gradients=UNREDUCED, update=fsdp_once_update
)


# HSDP: FSDP over the chips Y of a host, data parallelism over hosts X.
#
#                  weights, Adam      gathered over Y            gradients
#     FSDP         cut over XY        and over X                 ReduceScatter over both
#     HSDP         cut over Y, copied over X   (inside a host)   ReduceScatter over Y, AllReduce of the shard over X
#
# What crosses hosts is a G-th of the gradients, once a step however many microbatches, and no weights; a device holds H times as
# many weights.
#
# Source: Zhao et al., "PyTorch FSDP" (2023), hybrid sharding.


HSDP = _cut(
    "HSDP", "In[B_XY, D]", "W_in[D_Y, F]", "W_out[F, D_Y]", "Tmp[B_XY, F]", "Y",
    gradients=("dW_in[D_Y, F] {U_X}", "dW_out[F, D_Y] {U_X}"), update=data_once_update,
)  # fmt: skip
FSDP_OVER_HOSTS = _cut("FSDP", "In[B_XY, D]", "W_in[D_XY, F]", "W_out[F, D_XY]", "Tmp[B_XY, F]", ("X", "Y"))
"""Beside it: weights cut over all chips of all hosts."""


def hsdp_step(mesh, adam: Adam, micro: int = 1, hybrid: bool = True):
    """The program of a step, as `mlp_training_step.step`, of HSDP or else of FSDP over all chips of all hosts."""
    return step(HSDP if hybrid else FSDP_OVER_HOSTS, mesh, adam, micro)
