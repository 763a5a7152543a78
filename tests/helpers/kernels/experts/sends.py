"""Programs of `helpers.kernels.experts` whose collectives are listed; see tools/sends.py."""

from functools import partial

import jax
import jax.numpy as jnp

from helpers.costs.transformers.config import MoE
from helpers.kernels.experts import balanced_training, routers, two_meshes
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.abstract_arrays import bf16, int32, mesh
from tests.helpers.kernels.transformers.families import toy

C = toy(L=1, N=8, K=4, moe=MoE(E=16, k=2, F=9))
ALL = jax.P(("X", "Y"))


def layer_of(program, ep, *more):
    leaf = lambda a: isinstance(a, tuple)  # noqa: E731
    p = jax.tree.map(lambda a: bf16(*a[1:]), decoder.shapes(C)["layers"][0], is_leaf=leaf)
    x = bf16(4, 8, C.D)
    return program(C, mesh(X=2, Y=4), ep, 4, *more), (p, x) + (x,) * (program is two_meshes.gradients)


def exchange(f, *how):
    """Eight tokens of each device to 16 experts; experts do nothing."""
    work = lambda rows, weights: rows * weights.sum(1, keepdims=True)  # noqa: E731
    run = lambda x, weights: f(x, weights, work, *how)  # noqa: E731
    on = jax.shard_map(run, mesh=mesh(X=2, Y=4), in_specs=(ALL, ALL), out_specs=ALL, check_vma=False)
    return on, (bf16(8 * 8, 6), bf16(8 * 8, 16))


def balance():
    on = jax.shard_map(
        lambda scores, expert: routers.balance_loss(scores, expert, "X"),
        mesh=mesh(X=8), in_specs=(jax.P("X"), jax.P("X")), out_specs=jax.P(), check_vma=False,
    )  # fmt: skip
    return on, (jax.ShapeDtypeStruct((64, 16), jnp.float32), int32(64, 2))


def generation():
    leaf = lambda a: isinstance(a, tuple)  # noqa: E731
    params = jax.tree.map(lambda a: bf16(*a), decoder.shapes(C), is_leaf=leaf)
    return two_meshes.generate(C, mesh(X=8), new=3), (params, int32(8, 5))


def balanced_step():
    """Both ways to balance at once."""
    params = {name: jnp.asarray(a) for name, a in balanced_training.start().items()}
    state = params, Adam.start(params), jnp.zeros(balanced_training.E)
    on = jax.shard_map(
        lambda *given: balanced_training.step(*given, 0.01, 1.0, "X"),
        mesh=mesh(X=8), in_specs=(jax.P(), jax.P("X"), jax.P("X")), out_specs=jax.P(), check_vma=False,
    )  # fmt: skip
    x = jax.ShapeDtypeStruct((64, balanced_training.D), jnp.float32)
    return on, (state, x, x)


PROGRAMS = {
    "two_meshes.forward, ep over X and Y": partial(layer_of, two_meshes.forward, ("X", "Y")),
    "two_meshes.forward, ep over Y, two pieces": partial(layer_of, two_meshes.forward, ("Y",), 2),
    "two_meshes.gradients, ep over Y": partial(layer_of, two_meshes.gradients, ("Y",)),
    "two_meshes.by_copies, one for each device": partial(exchange, two_meshes.by_copies, (("X", "Y"), 8)),
    "two_meshes.by_copies, one for each host": partial(exchange, two_meshes.by_copies, (("X",), 8), (("Y",), 16)),
    "two_meshes.by_gather": partial(exchange, two_meshes.by_gather, ("X", "Y")),
    "routers.balance_loss": balance,
    "balanced_training.step": balanced_step,
    "two_meshes.generate": generation,
}
