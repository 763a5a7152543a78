"""The small Transformer of `transformers.decoder`, trained over a mesh: data, FSDP, tensor, context, expert parallelism (chapter 4).

One program for all, and for all of them together: `Axes` says which mesh axis does what.

    data      cuts the batch; weights are the same along it
    fsdp      cuts the batch, and D of every weight: gathered just before the layer uses it
    tensor    cuts heads and F; between the blocks, where each token is by itself, it cuts the tokens (sequence parallelism)
    context   cuts the tokens of a sequence: ring attention
    experts   cuts the batch, and the experts: two AllToAlls

Each device takes the gradient of its own share of the loss. Gradients of gathered weights are scattered by JAX, since that is what
the transpose of an AllGather does; those of a weight that several devices hold alike are added up as the layer's backward
pass ends. A layer keeps the outputs of its products and what others sent it; what was gathered is gathered again.

What it sends is what `costs.training.training_step.step` says under the policy "matmuls", byte for byte, but for
    context   a hop more backward: gradients of keys and values come home as the last step of their ring
    tensor    gradients of norms, which every device along Y has of its own tokens, are added up over Y
    the vocabulary's tables, which are whole along Y and gathered once in a step

Source: Austin et al. 2025, Section 5; Korthikanti et al., "Reducing Activation Recomputation" (2022) for the tokens over Y.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import P, lax

from helpers.costs.transformers.config import Config
from helpers.kernels.attention.ring_attention import KEPT, ring
from helpers.kernels.transformers import backward_pass, decoder, mixture_of_experts
from helpers.kernels.transformers.adam import Adam, Moments
from helpers.kernels.transformers.decoder_layers import attention, layer_norm, mlp

from .mlp_training_step import lay

DIMS = {
    "embedding": "VD", "unembedding": "DV", "final norm": ".D", "norms": "..D",
    "W_Q": "DNH", "W_K": "DKH", "W_V": "DKH", "W_O": "NHD",
    "W_in": "DF", "W_gate": "DF", "W_out": "FD", "W_R": "D.",
}  # fmt: skip
"""Dimensions of each array of parameters; those of `experts` have E in front."""

WAYS = ("data", "fsdp", "tensor", "context", "experts")
CUTS = {"D": "fsdp", "N": "tensor", "K": "tensor", "F": "tensor", "E": "experts"}


@dataclass(frozen=True)
class Axes:
    """The mesh axis for each way to train; "" for those that are not used.

    capacity   places of an expert, over an even share of the tokens; None: room for all
    """

    data: str = ""
    fsdp: str = ""
    tensor: str = ""
    context: str = ""
    experts: str = ""
    capacity: float | None = None

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(getattr(self, way) for way in WAYS if getattr(self, way))

    @property
    def tokens(self) -> P:
        """How tokens[B, T] lie: the batch over data, fsdp and experts, the sequence over context and tensor."""
        batch = tuple(filter(None, (self.data, self.fsdp, self.experts)))
        return P(batch or None, tuple(filter(None, (self.context, self.tensor))) or None)

    def spec(self, path) -> P:
        """How the array at this place of the tree of parameters lies."""
        return P(*(getattr(self, CUTS.get(d, ""), "") or None for d in _dims(path)))

    def check(self, c: Config, mesh: jax.sharding.Mesh, B: int = 0, T: int = 0) -> None:
        """ValueError, with what would be right, if this decoder or this batch (0: none yet) does not lie over this mesh."""
        if bool(c.moe) != bool(self.experts) or (c.moe and (c.moe.shared or self.tensor or self.context)):
            raise ValueError("a decoder of experts, none of them shared, is cut over `experts`, `data` and `fsdp` only")
        if sorted(self.used) != sorted(mesh.axis_names):
            names, used = (", ".join(axes) or "none" for axes in (mesh.axis_names, self.used))
            raise ValueError(f"each axis of the mesh, {names}, has one way to train, and these have: {used}")
        n = {way: mesh.shape.get(getattr(self, way), 1) for way in WAYS}
        for what, size, by in (
            ("sequences", B, n["data"] * n["fsdp"] * n["experts"]),
            ("tokens of a sequence", T, n["context"] * n["tensor"]),
            ("numbers of D", c.D, n["fsdp"]),
            ("KV heads", c.K, n["tensor"]),
            ("numbers of F", c.F, n["tensor"]),
            ("experts", c.moe.E if c.moe else 0, n["experts"]),
        ):
            if size % by:
                raise ValueError(f"{by} devices do not divide {size} {what}: take a multiple of {by}, or fewer devices")


def _dims(path) -> str:
    names = [k.key for k in path if hasattr(k, "key")]
    inside = ("L" if "layers" in names else "") + ("E" if "experts" in names else "")
    return inside + DIMS[names[-1]]


def specs(c: Config, axes: Axes) -> dict:
    """The sharding of every array of parameters; ValueError if these strategies do not know this decoder's layers."""
    c.check_usual("a strategy over a mesh")
    if c.norms != 2 or any((c.parallel, c.biases, c.positions, c.qk_norm, c.sinks, c.mla, c.embed_norm)):
        raise ValueError("these strategies train layers with two norms and rotations, without biases, sinks or MLA")
    leaf = lambda x: isinstance(x, tuple)  # noqa: E731
    return jax.tree.map_with_path(lambda path, _: axes.spec(path), decoder.shapes(c), is_leaf=leaf)


# What a device does.


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def alike(w, axes: tuple[str, ...]):
    """w, which devices along these axes hold alike: nothing is sent, but the gradients of all of them are added up."""
    return w


alike.defvjp(lambda w, axes: (w, None), lambda axes, _, dw: (lax.psum(dw, axes) if axes else dw,))


def whole(params: dict, axes: Axes):
    """These arrays, of one layer or of none, as a device needs them: D whole. Gradients of copies are added up in the backward pass."""

    def one(path, w):
        cut = {getattr(axes, CUTS[d]) for d in _dims(path) if d in CUTS}
        w = alike(w, tuple(a for a in axes.used if a not in cut))
        return lax.all_gather(w, axes.fsdp, axis=_dims(path).index("D"), tiled=True) if axes.fsdp else w

    return jax.tree.map_with_path(one, params)


def _keep(primitive, *_, name="", **__) -> bool:
    """What a layer keeps for its backward pass."""
    return primitive.name in ("all_to_all", "reduce_scatter") or (
        primitive.name == "name" and name in (*backward_pass.NAMES, KEPT)
    )


def block(params: dict, x, c: Config, kind, axes: Axes):
    """One layer on x[B_X, T_Y, D]: gathered over Y before each half, scattered after it."""
    Y = axes.tensor
    params = whole(params, axes)
    enter = lambda x: lax.all_gather(x, Y, axis=1, tiled=True) if Y else x  # [B_X, T, D]  # noqa: E731
    leave = lambda y: lax.psum_scatter(y, Y, scatter_dimension=1, tiled=True) if Y else y  # noqa: E731

    y = enter(layer_norm(params, 0, x, c))
    positions = jnp.arange(y.shape[1])
    if axes.context:
        positions = positions + lax.axis_index(axes.context) * y.shape[1]
        y = context_parallel_attention(params, y, positions, c, kind.window, axes.context)  # [B_X, T, D] {U_Y}
    else:
        y, _ = attention(params, y, positions, c, kind.window)  # [B_X, T, D] {U_Y}
    x = x + leave(y)  # [B_X, T_Y, D]
    y = enter(layer_norm(params, 1, x, c))
    y = expert_parallel_mlp(params, y, c, axes.experts, axes.capacity) if kind.moe else mlp(params, y, c)
    return x + leave(y)


def share_of_loss(params: dict, tokens, targets, c: Config, axes: Axes, size: int):
    """This device's part of the mean over `size` tokens, from its own tokens[B_X, T_Y]."""
    top = whole({name: w for name, w in params.items() if name != "layers"}, axes)
    x = top["embedding"][tokens]  # [B_X, T_Y, D]
    for (kind, _), stack in zip(decoder.runs(c), params["layers"]):

        def one(x, params, kind=kind):
            return block(params, x, c, kind, axes), None

        x, _ = lax.scan(jax.checkpoint(one, policy=_keep, prevent_cse=False), x, stack)
    logits = decoder.unembed(top, x, c)
    said = jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), targets[..., None], axis=-1)
    return -said.sum() / size


# Whole programs.


def _over(mesh, c: Config, axes: Axes, f: Callable, ins=(), outs=()):
    """(state…, tokens[B, T + 1]) -> (…, loss): f(state…, tokens, targets, size) on every device, gives its share last."""
    share = P(tuple(mesh.axis_names))

    def program(*args):
        *state, rows = args
        (B, T), tokens, targets = (len(rows), rows.shape[1] - 1), rows[:, :-1], rows[:, 1:]
        axes.check(c, mesh, B, T)
        given, gives = (*ins, axes.tokens, axes.tokens), (*outs, share)
        one = lambda *a: f(*a, B * T)  # noqa: E731
        run = jax.shard_map(one, mesh=mesh, in_specs=given, out_specs=gives, check_vma=False)
        *state, shares = run(*state, tokens, targets)
        return (*state, shares.sum())

    return program


def loss(c: Config, mesh: jax.sharding.Mesh, axes: Axes) -> Callable:
    """The program (params, tokens[B, T + 1]) -> the value of `decoder.loss`: the forward pass alone."""

    def f(params, tokens, targets, size):
        return (share_of_loss(params, tokens, targets, c, axes, size)[None],)

    program = _over(mesh, c, axes, f, (specs(c, axes),))
    return jax.jit(lambda params, tokens: program(params, tokens)[0])


def step(c: Config, mesh: jax.sharding.Mesh, axes: Axes, adam: Adam) -> Callable:
    """The program (params, moments, tokens[B, T + 1]) -> (params, moments, loss): one step of Adam."""
    held = (specs(c, axes), _moments(c, axes))

    def f(params, moments, tokens, targets, size):
        share, gradients = jax.value_and_grad(share_of_loss)(params, tokens, targets, c, axes, size)
        return (*adam.update(params, gradients, moments), share[None])

    return jax.jit(_over(mesh, c, axes, f, held, held))


def _moments(c: Config, axes: Axes) -> Moments:
    return Moments(specs(c, axes), specs(c, axes), P())


def start(c: Config, mesh: jax.sharding.Mesh, axes: Axes, params: dict) -> tuple[dict, Moments]:
    """Parameters and Adam's zeros, laid over the mesh."""
    axes.check(c, mesh)
    return lay(params, mesh, specs(c, axes)), lay(Adam.start(params), mesh, _moments(c, axes))


# Context parallelism: a sequence cut over devices; keys and values go round the ring, past every device's queries.
#
# Norms, products with weights and the MLP look at one token at a time: they send nothing. Attention looks at all earlier ones, in the
# ring of `kernels.attention.ring_attention`: n - 1 times a device passes on keys and values, while it works on them.
# The backward pass sends them round once more, and their gradients with them, which need one hop more to be back home.
#
# With a causal mask half of the work of this plain ring is masked, and the last device has more of the rest than any other.
#
# Source: Liu et al., "Ring Attention with Blockwise Transformers" (2023); Austin et al. 2025, Section 5.


def context_parallel_attention(params: dict, x, positions, c: Config, window: int | None, axis: str):
    """`decoder_layers.attention` of x[B, T_X, D] at positions[T_X]: [B, T_X, D]."""
    look = lambda q, k, v, *_: ring(q, k, v, axis, window=window)  # noqa: E731
    return attention(params, x, positions, c, window, lambda new: (new, new, None), look)[0]


# Expert parallelism: each device has its part of the batch and some of the experts; two AllToAlls take tokens there and back.
#
# The backward pass is the transpose, so it has two more (chapter 4). With a capacity, what is sent does not depend on where the
# tokens want to go: each device sends E·C places, used or not.
#
# Source: Lepikhin et al., "GShard" (2020); Fedus et al., "Switch Transformer" (2021).


def expert_parallel_mlp(params: dict, x, c: Config, axis: str, factor: float | None):
    """The experts in place of the MLP, x[B_X, T, D] -> [B_X, T, D].

    factor  places of an expert, over an even share of the tokens; None: room for every token here, so that none is dropped
    """
    rows = x.reshape(-1, c.D)
    C = len(rows) if factor is None else mixture_of_experts.capacity(len(rows), c.moe.E, c.moe.k, factor)
    return mixture_of_experts.over_devices(params, rows, c, C, axis)[0].reshape(x.shape)
