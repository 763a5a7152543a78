"""HSDP: FSDP over the chips of a host, data parallelism over hosts (chapter 7).

                 weights, Adam      gathered over Y            gradients
    FSDP         cut over XY        and over X                 ReduceScatter over both
    HSDP         cut over Y, copied over X   (inside a host)   ReduceScatter over Y, AllReduce of the shard over X

What crosses hosts is a G-th of the gradients, once a step, and no weights; a device holds H times as many weights.

Source: Zhao et al., "PyTorch FSDP" (2023), hybrid sharding.
"""

from dataclasses import replace

from jax import lax

from helpers.kernels.training import mlp_training_step
from helpers.kernels.training.mlp_training_step import Strategy, Weights, backward
from helpers.kernels.transformers.adam import Adam, Moments

HELD = "W_in[D_Y, F]", "W_out[F, D_Y]"
LEFT = "dW_in[D_Y, F] {U_X}", "dW_out[F, D_Y] {U_X}"


def _gather(w: Weights, axes) -> Weights:
    """A layer's matrices whole, from shards along D."""
    W_in = lax.all_gather(w.W_in, axes, axis=0, tiled=True)  # [D, F]
    W_out = lax.all_gather(w.W_out, axes, axis=1, tiled=True)  # [F, D]
    return Weights(W_in, W_out)


def _scatter(dw: Weights, axes) -> Weights:
    dW_in = lax.psum_scatter(dw.W_in, axes, scatter_dimension=0, tiled=True)
    dW_out = lax.psum_scatter(dw.W_out, axes, scatter_dimension=1, tiled=True)
    return Weights(dW_in, dW_out)


def _forward(axes):
    def forward(In, w: Weights):
        w = _gather(w, axes)
        Tmp = In @ w.W_in  # [B_XY, F]
        return Tmp @ w.W_out, (In, Tmp)  # [B_XY, D]

    return forward


def _backward(axes):
    def back(dOut, kept, w: Weights):
        dIn, dw = backward(dOut, kept, _gather(w, axes))  # dW_in[D, F] {U_XY}
        return dIn, _scatter(dw, axes)

    return back


def _update(adam: Adam, w: Weights, dw: Weights, moments: Moments):
    return adam.update(w, Weights(*(lax.psum(d.astype(a.dtype), "X") for d, a in zip(dw, w))), moments)


_KEPT = ("In[B_XY, D]", "Tmp[B_XY, F]")
HSDP = Strategy(
    "HSDP",
    "In[B_XY, D]",
    *HELD,
    kept=_KEPT,
    forward=_forward("Y"),
    backward=_backward("Y"),
    gradients=LEFT,
    update=_update,
)
"""Weights cut inside a host; gradients of a step are added between hosts, once however many microbatches."""

FSDP = replace(
    HSDP, name="FSDP", W_in="W_in[D_XY, F]", W_out="W_out[F, D_XY]", gradients=(),
    forward=_forward(("X", "Y")), backward=_backward(("X", "Y")), update=Strategy.update,
)  # fmt: skip
"""Beside it: weights cut over all chips of all hosts."""


def step(mesh, adam: Adam, micro: int = 1, hybrid: bool = True):
    """The program of a step, as `mlp_training_step.step`, of HSDP or else of FSDP over all chips of all hosts."""
    return mlp_training_step.step(HSDP if hybrid else FSDP, mesh, adam, micro)
