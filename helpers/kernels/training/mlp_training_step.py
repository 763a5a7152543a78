"""The two-matmul layer by hand, and a training step of a stack of them under any strategy (chapter 4).

A strategy is how In, W_in, W_out and Out lie over the mesh, and what each device then has to do: a forward and a backward
pass for use inside `jax.shard_map`. Layers are stacked, W_in[L, D, F], and run by `lax.scan`; Out of one is In of the next.
B counts tokens.

Source: Austin et al. 2025, Section 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import P, lax

from helpers.costs.sharding import sharded_array
from helpers.kernels import mesh as meshes, operands
from helpers.kernels.transformers.adam import Adam, Moments


class Weights(NamedTuple):
    """W_in[D, F] and W_out[F, D] of a layer; with the layers in front, [L, D, F] and [L, F, D], of all."""

    W_in: jax.Array
    W_out: jax.Array


def forward(In, w: Weights):
    """In[B, D] -> Out[B, D], and what the backward pass needs: 4BDF FLOPs."""
    Tmp = In @ w.W_in  # [B, F]
    Out = Tmp @ w.W_out  # [B, D]
    return Out, (In, Tmp)


def backward(dOut, residuals, w: Weights):
    """dOut[B, D] -> (dIn[B, D], the gradients of the weights): 8BDF FLOPs, two products for each of the forward pass."""
    dIn, both = input_gradient(dOut, residuals, w)
    return dIn, weight_gradient(dOut, residuals, both)


def input_gradient(dOut, residuals, w: Weights):
    """The half of the backward pass that the layer below waits for: dIn[B, D], and dTmp for the other half. 4BDF FLOPs."""
    dTmp = dOut @ w.W_out.T  # [B, F]
    dIn = dTmp @ w.W_in.T  # [B, D]
    return dIn, dTmp


def weight_gradient(dOut, residuals, dTmp) -> Weights:
    """The half that nobody waits for before the weights are updated: 4BDF FLOPs."""
    In, Tmp = residuals
    dW_out = Tmp.T @ dOut  # [F, D]
    dW_in = In.T @ dTmp  # [D, F]
    return Weights(dW_in, dW_out)


@dataclass(frozen=True)
class Strategy:
    """How the layer lies over a mesh, and what each device does.

    name          as in `costs.training.dp_fsdp_tp`, where it has one there
    In            the notation of In and Out, which are cut alike: "In[B_X, D]"
    W_in, W_out   that of the weights between two steps
    kept          that of In and Tmp between forward and backward pass
    forward       (In, w) -> (Out, kept), of a device's blocks
    backward      (dOut, kept, w) -> (dIn, dw), the gradients cut as `gradients` says
    gradients        the notation of the gradients after the backward pass, if it is not that of the weights
    update        (adam, w, dw, moments) -> (w, moments); by itself each device updates what it holds, and nothing is sent
    moments       the notation of Adam's two averages, if it is not that of the weights
    """

    name: str
    In: str
    W_in: str
    W_out: str
    kept: tuple[str, str]
    forward: Callable = forward
    backward: Callable = backward
    gradients: tuple[str, str] = ()
    update: Callable = Adam.update
    moments: tuple[str, str] = ()

    @property
    def weights(self) -> Weights:
        return _stacked(self.W_in, self.W_out)

    @property
    def state(self) -> Moments:
        cut = _stacked(*self.moments) if self.moments else self.weights
        return Moments(cut, cut, P())

    def check(self, mesh: jax.sharding.Mesh, w: Weights | None = None, In=None) -> None:
        """ValueError, in the words of the notation, if this mesh lacks an axis, or w and In[B, D] cannot lie over it."""
        shapes = {} if w is None else {"W_in[L, D, F]": w.W_in, "W_out[L, F, D]": w.W_out, "In[B, D]": In}
        sizes = {"B": 0} | operands.fit(shapes) if shapes else None
        for how in (self.In, self.W_in, self.W_out, *self.moments):
            sharded_array.parse(how).check(meshes.costs_mesh(mesh), sizes)


ONE = Strategy("one device", "In[B, D]", "W_in[D, F]", "W_out[F, D]", ("In[B, D]", "Tmp[B, F]"))


def _stacked(W_in: str, W_out: str) -> Weights:
    return Weights(*map(_layers, (W_in, W_out)))


def _layers(sharding: str) -> P:
    """The sharding of all layers' arrays: every device has its part of each layer.

    >>> _layers("W_in[D_X, F]") == P(None, "X", None), _layers("dW[D, F] {U_X}") == P("X", None, None, None)
    (True, True)
    """
    spec = meshes.spec(sharding)
    unreduced = len(sharded_array.parse(sharding).unreduced) > 0
    return P(*spec[:unreduced], None, *spec[unreduced:])


# All layers, on one device.


def all_forward(strategy: Strategy, In, w: Weights):
    """(Out of the last layer, what each layer kept)."""
    return lax.scan(strategy.forward, In, w)


def all_backward(strategy: Strategy, dOut, residuals, w: Weights):
    """(dIn of the first layer, the gradients of all weights)."""
    return lax.scan(lambda d, layer: strategy.backward(d, *layer), dOut, (residuals, w), reverse=True)


# Whole programs.


def passes(strategy: Strategy, mesh: jax.sharding.Mesh) -> tuple[Callable, Callable]:
    """The forward pass (In, w) -> (Out, kept) and the backward pass (dOut, kept, w) -> (dIn, dw), of whole arrays.

    Gradients that a strategy leaves unreduced come as the partial sums of the devices, stacked in front.
    """
    strategy.check(mesh)
    kept = tuple(map(_layers, strategy.kept))
    gradients = _stacked(*strategy.gradients) if strategy.gradients else strategy.weights
    unreduced = bool(strategy.gradients and sharded_array.parse(strategy.gradients[0]).unreduced)

    def backward(dOut, residuals, w):
        dIn, dw = all_backward(strategy, dOut, residuals, w)
        return dIn, jax.tree.map(lambda d: d[None], dw) if unreduced else dw

    on, In = partial(jax.shard_map, mesh=mesh, check_vma=False), meshes.spec(strategy.In)
    return (
        on(partial(all_forward, strategy), in_specs=(In, strategy.weights), out_specs=(In, kept)),
        on(backward, in_specs=(In, kept, strategy.weights), out_specs=(In, gradients)),
    )


def step(strategy: Strategy, mesh: jax.sharding.Mesh, adam: Adam, micro: int = 1) -> Callable:
    """The program (w, moments, In, Target) -> (w, moments, loss): one step of Adam on |Out - Target|^2 / 2BD.

    It sends what the passes and the update send, and nothing for the loss: each device returns its own share of that.

    micro  microbatches into which a device's tokens are split: gradients add up in float32, and activations of
           one are kept at a time. The passes send for each of them, the update once
    """
    In, axes, cut = meshes.spec(strategy.In), tuple(mesh.axis_names), sharded_array.parse(strategy.In).axes

    def on_device(size, w, moments, In, Target):
        def gradients(In, Target):
            """(gradients of the weights, loss) of these tokens, as parts of a batch of `size` numbers."""
            Out, kept = all_forward(strategy, In, w)
            off = (Out - Target).astype(jnp.float32)  # a number of tokens is no bfloat16
            _, dw = all_backward(strategy, (off / size).astype(Out.dtype), kept, w)
            return dw, jnp.sum(off**2) / (2 * size)

        dw, loss = accumulated(gradients, micro, In, Target)
        w, moments = strategy.update(adam, w, dw, moments)
        return w, moments, jnp.reshape(loss, [1] * len(axes))

    def program(w, moments, In_, Target):
        strategy.check(mesh, w, In_)
        operands.fit({"In[B, D]": In_, "Target[B, D]": Target})
        operands.real(W_in=w.W_in, W_out=w.W_out, In=In_)
        if (mine := len(In_) // prod(mesh.shape[a] for a in cut[0])) % micro:
            raise ValueError(f"{micro} microbatches do not share {mine} tokens of a device evenly: make B a multiple")
        master = None if moments.master is None else strategy.state.mean
        held = strategy.weights, strategy.state._replace(master=master)
        # Along these everybody has the same tokens.
        same = [a for a in axes if a not in {name for names in cut for name in names}]
        f, ins, outs = partial(on_device, In_.size), (*held, In, In), (*held, P(*axes))
        run = jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
        w, moments, loss = run(w, moments, In_, Target)
        return w, moments, jnp.mean(loss, [axes.index(a) for a in same]).sum()

    return jax.jit(program)


def accumulated(f: Callable, micro: int, *batch):
    """The sum of f(*part) over `micro` equal parts of the batch's rows, one after the other, in float32; f(*batch) if micro is 1.

    >>> float(accumulated(lambda x: (x**2).sum(), 3, jnp.arange(6.0)))
    55.0
    """
    if micro == 1:
        return f(*batch)
    parts = [x.reshape(micro, -1, *x.shape[1:]) for x in batch]
    zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.float32), jax.eval_shape(f, *(x[0] for x in parts)))
    return lax.scan(lambda sums, part: (jax.tree.map(jnp.add, sums, f(*part)), None), zeros, parts)[0]


def start(strategy: Strategy, mesh: jax.sharding.Mesh, w: Weights, master: bool = False) -> tuple[Weights, Moments]:
    """The weights and Adam's zeros, laid over the mesh; with a master copy of the weights, cut like the zeros, if asked for."""
    strategy.check(mesh, w)
    state = strategy.state._replace(master=strategy.state.mean if master else None)
    return lay(w, mesh, strategy.weights), lay(Adam.start(w, master), mesh, state)


def lay(tree, mesh: jax.sharding.Mesh, specs):
    """A tree of arrays, each cut over the mesh as the spec at the same place of `specs` says."""
    return jax.tree.map(lambda a, spec: meshes.put(a, mesh, spec), tree, specs)
