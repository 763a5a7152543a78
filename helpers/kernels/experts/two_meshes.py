"""One layer on two meshes: attention on (dp, tp), experts on (edp, ep), over the same chips in one program (chapter 8).

The mesh has axes X and Y. Attention cuts the batch over X and heads over Y; between the halves of a layer each token is by itself,
and tokens lie over both. Experts lie over `ep`, axes of the same mesh, of which nobody asks what they are for attention:

    ep = ("X", "Y")    as many as chips, edp 1        ep = ("Y",)   within an X, edp = |X|        ep = ("X",)   edp = |Y|

A second mesh object is not needed: a collective names its axes, two of them if it runs over both. A layer sends one AllGather and one
ReduceScatter for attention, two AllToAlls for experts, and nothing in between. In the backward pass gradients of experts are added up
along the axes that are not in `ep`, those of attention's matrices along X, and those of what lies alike everywhere along both.

Source: Liu et al., "MoE Parallel Folding" (2025); Megatron-Bridge, `docs/training/moe-optimization.md`.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import P, lax

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.inference import tiny_language_model
from helpers.kernels.training.transformer_over_mesh import alike
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import attention, layer_norm
from helpers.kernels.transformers.mixture_of_experts import combine, dispatch, experts, route, shared, there_and_back

Axes = tuple[str, ...]
TOKENS = P("X", "Y")  # x[B_X, T_Y, D]
HEADS = {"W_Q": P(None, "Y"), "W_K": P(None, "Y"), "W_V": P(None, "Y"), "W_O": P("Y")}


def specs(params: dict, ep: Axes) -> dict:
    """How the arrays of a layer lie: attention's matrices by heads over Y, experts over `ep`, norms and the router whole everywhere."""
    if "shared experts" in params:
        raise ValueError("this layer has routed experts alone: leave shared ones out of the Config")
    return jax.tree.map_with_path(lambda path, _: _spec(path, ep), params)


def _spec(path, ep: Axes) -> P:
    return P(ep) if path[0].key == "experts" else HEADS.get(path[0].key, P())


def layer(params: dict, x, c: Config, ep: Axes, places: int, pieces: int = 1):
    """One layer on x[B_X, T_Y, D], for use inside `shard_map` over X and Y.

    places  that each device has for each expert; who finds none is dropped
    pieces  of `exchanged`
    """
    y = lax.all_gather(layer_norm(params, 0, x, c), "Y", axis=1, tiled=True)  # [B_X, T, D]
    y, _ = attention(params, y, jnp.arange(y.shape[1]), c)  # [B_X, T, D] {U_Y}
    x = x + lax.psum_scatter(y, "Y", scatter_dimension=1, tiled=True)  # [B_X, T_Y, D]
    rows = layer_norm(params, 1, x, c).reshape(-1, c.D)
    r = route(rows @ params["W_R"], c.moe.k)
    queues = dispatch(rows, r, c.moe.E, places)  # [E, places, D], from the tokens here
    return x + combine(exchanged(queues, lambda q: experts(params["experts"], q, c), ep, pieces), r).reshape(x.shape)


def exchanged(queues, work: Callable, ep: Axes, pieces: int = 1):
    """Queues[E, C, D] to where their experts are, [E_ep, n·C, D], worked on, and back to [E, C, D]: two AllToAlls.

    pieces   that C is cut into, each with its own two AllToAlls: as many bytes, and while experts work on one the next is sent
    """
    if queues.shape[1] % pieces:
        raise ValueError(f"{pieces} pieces do not share {queues.shape[1]} places evenly: take a multiple")
    done = []
    for piece in jnp.split(queues, pieces, axis=1):
        there = lax.all_to_all(piece, ep, split_axis=0, concat_axis=1, tiled=True)
        done.append(lax.all_to_all(work(there), ep, split_axis=1, concat_axis=0, tiled=True))
    return jnp.concatenate(done, axis=1)


def forward(c: Config, mesh: jax.sharding.Mesh, ep: Axes, places: int, pieces: int = 1) -> Callable:
    """The program (p, x[B, T, D]) -> x[B, T, D] of one layer."""

    def run(params, x):
        f = lambda p, x: layer(p, x, c, ep, places, pieces)  # noqa: E731
        return jax.shard_map(f, mesh=mesh, in_specs=(specs(params, ep), TOKENS), out_specs=TOKENS, check_vma=False)(
            params, x
        )

    return jax.jit(run)


def gradients(c: Config, mesh: jax.sharding.Mesh, ep: Axes, places: int) -> Callable:
    """The program (p, x[B, T, D], target[B, T, D]) -> gradients of half the mean of squares, that of all tokens.

    A device divides by the tokens of all devices. The gradient of an array is added up along the axes over which it lies alike: an
    average over dp, of experts as of all else, would be wrong by edp / dp.
    """

    def run(params, x, target):
        laid = specs(params, ep)

        def loss(params, x, target):
            same = lambda path: tuple(a for a in ("X", "Y") if a not in jax.tree.leaves(tuple(_spec(path, ep))))  # noqa: E731
            params = jax.tree.map_with_path(lambda path, w: alike(w, same(path)) if same(path) else w, params)
            return jnp.sum((layer(params, x, c, ep, places) - target) ** 2) / (2 * x.size * mesh.size)

        on = jax.shard_map(jax.grad(loss), mesh=mesh, in_specs=(laid, TOKENS, TOKENS), out_specs=laid, check_vma=False)
        return on(params, x, target)

    return jax.jit(run)


# Other ways for tokens to reach their experts. Here weights[T, E] are 0 where an expert is not chosen, `work` is a function of
# (rows[R, D], weights[R, E_here]) -> [R, D], the weighted sum of what the experts here make of each row, and experts lie over all
# axes that are named, in their order. All give the same.


def weighted(expert, weight, E: int):
    """[T, E]: the weights of the chosen experts, 0 for the others."""
    return jnp.zeros((len(expert), E), weight.dtype).at[jnp.arange(len(expert))[:, None], expert].set(weight)


def by_copies(x, weights, work: Callable, *tiers: tuple[Axes, int]):
    """Tokens x[T, D] to the devices that have an expert of theirs, one copy to each, and one sum back: [T, D].

    tiers   (axes, capacity): over ("X", "Y") a copy for each device; over X, then Y, a copy for each host that is met, which the chip
            at the same place there hands on to those that need it, and adds up what they give back before one sum crosses again
    """
    if not tiers:
        return work(x, weights)
    (axes, capacity), *inner = tiers
    operands.whole(capacity=capacity)
    n = lax.axis_size(axes)
    parts = weights.reshape(len(x), n, -1)  # by who has the experts
    wanted = (parts != 0).any(-1)  # [T, n]
    first = jnp.argsort(~wanted, axis=0, stable=True)[:capacity].T  # [n, capacity]
    there = jnp.take_along_axis(wanted.T, first, axis=1)[..., None]
    sends = x[first] * there, parts[first, jnp.arange(n)[:, None]] * there
    rows, shares = (lax.all_to_all(a, axes, split_axis=0, concat_axis=0, tiled=True) for a in sends)
    done = by_copies(rows.reshape(-1, x.shape[1]), shares.reshape(rows.shape[0] * rows.shape[1], -1), work, *inner)
    back = lax.all_to_all(done.reshape(rows.shape), axes, split_axis=0, concat_axis=0, tiled=True)
    return jnp.zeros_like(x).at[first].add(back * there)


def by_gather(x, weights, work: Callable, axes: Axes):
    """All tokens to all devices, and their sums scattered: AllGathers of tokens and weights, and one ReduceScatter."""
    rows = lax.all_gather(x, axes, axis=0, tiled=True)  # [n·T, D]
    n = lax.axis_size(axes)
    columns = weights.reshape(len(x), n, -1)  # [T, n, E_here]: a device needs its own experts' columns alone
    shares = lax.all_to_all(columns, axes, split_axis=1, concat_axis=0, tiled=True)  # [n·T, 1, E_here]
    return lax.psum_scatter(work(rows, shares[:, 0]), axes, scatter_dimension=0, tiled=True)


# A decoder that generates with attention data-parallel and experts spread over the same devices.
#
# Each device has some of the sequences, their caches, all of attention's weights, and some of the experts of every layer. Attention
# sends nothing; a layer with experts sends two AllToAlls, of room for all tokens of a device to all experts, so that nobody is dropped.
# With tensor parallelism of attention each device would hold every sequence's latent cache, and a layer would have an AllReduce besides.
#
# Source: DeepSeek-AI, "DeepSeek-V3" (2024), Section 3.4; SGLang, "DeepSeek with data-parallel attention" (2024).


def generate(c: Config, mesh: jax.sharding.Mesh, new: int) -> Callable:
    """The program (params, prompt[B, T]) -> tokens[B, new], the likeliest one each time; B over X, a multiple of the devices there."""
    if not c.moe:
        raise ValueError("this program generates with experts: give it a Config with a moe")

    def spread(params, rows, c):
        y, _ = there_and_back(params, rows, c, len(rows), "X")
        return y + shared(params, rows, c)

    def on_device(params, prompt):
        layer = partial(decoder.block, experts=spread)
        return tiny_language_model.generate(params, prompt, new, c, layer=layer)[0]

    def run(params, prompt):
        # Experts are cut, behind the layers that are stacked in front; all else is whole on every device.
        cut = lambda path, _: P(None, "X") if any(getattr(k, "key", "") == "experts" for k in path) else P()  # noqa: E731
        ins = jax.tree.map_with_path(cut, params), P("X")
        return jax.shard_map(on_device, mesh=mesh, in_specs=ins, out_specs=P("X"), check_vma=False)(params, prompt)

    return jax.jit(run)
