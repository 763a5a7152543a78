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

from .mlp_training_step import Strategy, Weights, backward, forward, step

WHOLE = dict(In="In[B_X, D]", W_in="W_in[D, F]", W_out="W_out[F, D]", kept=("In[B_X, D]", "Tmp[B_X, F]"))
CUT = ("W_in[D_X, F]", "W_out[F, D_X]")


def gather(w: Weights, axes="X") -> Weights:
    """Each matrix whole, from its shards along D; of one layer, or of all."""
    W_in = lax.all_gather(w.W_in, axes, axis=w.W_in.ndim - 2, tiled=True)  # [D, F]
    W_out = lax.all_gather(w.W_out, axes, axis=w.W_out.ndim - 1, tiled=True)  # [F, D]
    return Weights(W_in, W_out)


def scatter(dw: Weights, axes="X") -> Weights:
    """The device's shard along D of the sum over devices."""
    dW_in = lax.psum_scatter(dw.W_in, axes, scatter_dimension=dw.W_in.ndim - 2, tiled=True)  # [D_X, F]
    dW_out = lax.psum_scatter(dw.W_out, axes, scatter_dimension=dw.W_out.ndim - 1, tiled=True)  # [F, D_X]
    return Weights(dW_in, dW_out)


# Data parallelism. Its forward pass is that of one device: In[B_X, D] · W_in[D, F] · W_out[F, D] -> Out[B_X, D].


def data_backward(dOut, kept, w: Weights):
    In, Tmp = kept
    dW_out = Tmp.T @ dOut  # [F, D] {U_X}
    dW_out = lax.psum(dW_out, "X")  # [F, D]: nobody waits for it before the update
    dTmp = dOut @ w.W_out.T  # [B_X, F]
    dW_in = In.T @ dTmp  # [D, F] {U_X}
    dW_in = lax.psum(dW_in, "X")  # [D, F]: nobody waits
    dIn = dTmp @ w.W_in.T  # [B_X, D]
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


def zero2_backward(dOut, kept, w: Weights):
    dIn, dw = backward(dOut, kept, w)  # dW_in[D, F] {U_X}, dW_out[F, D] {U_X}
    return dIn, scatter(dw)  # dW_in[D_X, F], dW_out[F, D_X]


ZERO1 = Strategy("ZeRO-1", **WHOLE, gradients=UNREDUCED, update=zero1_update, moments=CUT)
ZERO2 = Strategy("ZeRO-2", **WHOLE, backward=zero2_backward, gradients=CUT, update=zero2_update, moments=CUT)


# FSDP: weights are gathered just before they are used, and let go.


def fsdp_forward(In, w: Weights):
    W_in = lax.all_gather(w.W_in, "X", axis=0, tiled=True)  # [D, F]: can be done ahead
    Tmp = In @ W_in  # [B_X, F]; W_in can go
    W_out = lax.all_gather(w.W_out, "X", axis=1, tiled=True)  # [F, D]: can be done ahead
    Out = Tmp @ W_out  # [B_X, D]
    return Out, (In, Tmp)


def fsdp_backward(dOut, kept, w: Weights):
    In, Tmp = kept
    dW_out = Tmp.T @ dOut  # [F, D] {U_X}
    dW_out = lax.psum_scatter(dW_out, "X", scatter_dimension=1, tiled=True)  # [F, D_X]: nobody waits for it
    W_out = lax.all_gather(w.W_out, "X", axis=1, tiled=True)  # [F, D]: can be done ahead
    dTmp = dOut @ W_out.T  # [B_X, F]
    dW_in = In.T @ dTmp  # [D, F] {U_X}
    dW_in = lax.psum_scatter(dW_in, "X", scatter_dimension=0, tiled=True)  # [D_X, F]: nobody waits
    W_in = lax.all_gather(w.W_in, "X", axis=0, tiled=True)  # [D, F]: can be done ahead
    dIn = dTmp @ W_in.T  # [B_X, D]
    return dIn, Weights(dW_in, dW_out)


FSDP = Strategy(
    "FSDP", "In[B_X, D]", *CUT, kept=("In[B_X, D]", "Tmp[B_X, F]"), forward=fsdp_forward, backward=fsdp_backward
)


# FSDP that scatters gradients once, of all microbatches together: they stay whole until then.


def fsdp_once_backward(dOut, kept, w: Weights):
    return backward(dOut, kept, gather(w))  # dW_in[D, F] {U_X}, dW_out[F, D] {U_X}


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


def gathering_forward(In, w: Weights, axes):
    return forward(In, gather(w, axes))


def gathering_backward(dOut, kept, w: Weights, axes):
    dIn, dw = backward(dOut, kept, gather(w, axes))  # dW_in[D, F] {U_XY}
    return dIn, scatter(dw, axes)


HSDP = Strategy(
    "HSDP", "In[B_XY, D]", "W_in[D_Y, F]", "W_out[F, D_Y]", ("In[B_XY, D]", "Tmp[B_XY, F]"),
    partial(gathering_forward, axes="Y"), partial(gathering_backward, axes="Y"),
    gradients=("dW_in[D_Y, F] {U_X}", "dW_out[F, D_Y] {U_X}"), update=data_once_update,
)  # fmt: skip

FSDP_OVER_HOSTS = Strategy(
    "FSDP", "In[B_XY, D]", "W_in[D_XY, F]", "W_out[F, D_XY]", ("In[B_XY, D]", "Tmp[B_XY, F]"),
    partial(gathering_forward, axes=("X", "Y")), partial(gathering_backward, axes=("X", "Y")),
)  # fmt: skip
"""Beside it: weights cut over all chips of all hosts."""


def hsdp_step(mesh, adam: Adam, micro: int = 1, hybrid: bool = True):
    """The program of a step, as `mlp_training_step.step`, of HSDP or else of FSDP over all chips of all hosts."""
    return step(HSDP if hybrid else FSDP_OVER_HOSTS, mesh, adam, micro)


# Tensor parallelism: every device has its part of F, all tokens, and its part of D of what enters and leaves.
#
# Activations are gathered before the first product and scattered after the second one; the backward pass is the transpose,
# and gathers In again: five times B·D numbers in all, or four for whoever keeps it, for |Y| times the memory of that activation.
# Unlike the weights' gradients of data parallelism all of it is waited for, but for In again.
#
# Source: Austin et al. 2025, Section 5; Shoeybi et al., "Megatron-LM" (2019).


def tensor_forward(In, w: Weights):
    shard = In
    In = lax.all_gather(In, "Y", axis=1, tiled=True)  # [B, D]: waited for
    Tmp = In @ w.W_in  # [B, F_Y]
    Out = Tmp @ w.W_out  # [B, D] {U_Y}
    Out = lax.psum_scatter(Out, "Y", scatter_dimension=1, tiled=True)  # [B, D_Y]: waited for
    return Out, (shard, Tmp)


def tensor_backward(dOut, kept, w: Weights):
    In, Tmp = kept
    dOut = lax.all_gather(dOut, "Y", axis=1, tiled=True)  # [B, D]: waited for
    dW_out = Tmp.T @ dOut  # [F_Y, D]
    dTmp = dOut @ w.W_out.T  # [B, F_Y]; dOut can go
    In = lax.all_gather(In, "Y", axis=1, tiled=True)  # [B, D]: again, and can be done ahead
    dW_in = In.T @ dTmp  # [D, F_Y]
    dIn = dTmp @ w.W_in.T  # [B, D] {U_Y}
    dIn = lax.psum_scatter(dIn, "Y", scatter_dimension=1, tiled=True)  # [B, D_Y]: waited for
    return dIn, Weights(dW_in, dW_out)


TENSOR = Strategy(
    "TP", "In[B, D_Y]", "W_in[D, F_Y]", "W_out[F_Y, D]", ("In[B, D_Y]", "Tmp[B, F_Y]"), tensor_forward, tensor_backward
)


# FSDP over X and tensor parallelism over Y: seven steps forward, twelve backward.
#
# The activations that Y sends are B_X tokens only, the weights that X sends F_Y columns only: each makes the other cheaper.
#
# Source: Austin et al. 2025, Section 5.


def mixed_forward(In, w: Weights):
    shard = In
    In = lax.all_gather(In, "Y", axis=1, tiled=True)  # 1  [B_X, D]: waited for
    W_in = lax.all_gather(w.W_in, "X", axis=0, tiled=True)  # 2  [D, F_Y]: can be done ahead
    Tmp = In @ W_in  # 3  [B_X, F_Y]
    W_out = lax.all_gather(w.W_out, "X", axis=1, tiled=True)  # 4  [F_Y, D]: can be done ahead
    Out = Tmp @ W_out  # 5  [B_X, D] {U_Y}
    Out = lax.psum_scatter(Out, "Y", scatter_dimension=1, tiled=True)  # 6  [B_X, D_Y]: waited for
    return Out, (shard, Tmp)  # 7  the loss, after the last layer


def mixed_backward(dOut, kept, w: Weights):
    In, Tmp = kept  # 1  dOut[B_X, D_Y] comes from the layer above
    dOut = lax.all_gather(dOut, "Y", axis=1, tiled=True)  # 2  [B_X, D]: waited for
    dW_out = Tmp.T @ dOut  # 3  [F_Y, D] {U_X}
    dW_out = lax.psum_scatter(dW_out, "X", scatter_dimension=1, tiled=True)  # 4  [F_Y, D_X]
    W_out = lax.all_gather(w.W_out, "X", axis=1, tiled=True)  # 5  [F_Y, D]: can be done ahead
    dTmp = dOut @ W_out.T  # 6  [B_X, F_Y]
    In = lax.all_gather(In, "Y", axis=1, tiled=True)  # 7  [B_X, D]: again, and can be done ahead
    dW_in = In.T @ dTmp  # 8  [D, F_Y] {U_X}
    dW_in = lax.psum_scatter(dW_in, "X", scatter_dimension=0, tiled=True)  # 9  [D_X, F_Y]
    W_in = lax.all_gather(w.W_in, "X", axis=0, tiled=True)  # 10  [D, F_Y]: can be done ahead
    dIn = dTmp @ W_in.T  # 11  [B_X, D] {U_Y}
    dIn = lax.psum_scatter(dIn, "Y", scatter_dimension=1, tiled=True)  # 12  [B_X, D_Y]: waited for
    return dIn, Weights(dW_in, dW_out)


MIXED = Strategy(
    "FSDP+TP", "In[B_X, D_Y]", "W_in[D_X, F_Y]", "W_out[F_Y, D_X]", ("In[B_X, D_Y]", "Tmp[B_X, F_Y]"), mixed_forward, mixed_backward
)  # fmt: skip
