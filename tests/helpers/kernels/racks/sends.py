"""Programs of `helpers.kernels.racks` whose collectives are listed; see tests/helpers/kernels/sends.py."""

from functools import partial

import jax
import jax.numpy as jnp

from helpers.kernels.racks import hsdp, two_tier_collectives as two
from helpers.kernels.training import mlp_training_step
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.abstract_arrays import bf16, mesh

ADAM = Adam(rate=0.01)
B, D, F, L = 16, 8, 24, 3


def collective(name):
    f = getattr(two, name)
    cut, x = jax.P(("X", "Y")), bf16(8 * 16, 3) if name != "all_to_all" else bf16(8 * 8, 3)
    return jax.shard_map(f, mesh=mesh(X=2, Y=4), in_specs=cut, out_specs=cut, check_vma=False), (x,)


def dispatched(name):
    cut = jax.P(("X", "Y"))
    f = partial(getattr(two, name), capacity=4)
    on = jax.shard_map(f, mesh=mesh(X=2, Y=4), in_specs=(cut, cut), out_specs=(cut, cut), check_vma=False)
    return on, (bf16(8 * 12, D), jax.ShapeDtypeStruct((8 * 12, 8), jnp.bool_))


def step(hybrid, micro):
    w = mlp_training_step.Weights(bf16(L, D, F), bf16(L, F, D))
    state = jax.eval_shape(ADAM.start, w)
    return hsdp.step(mesh(X=2, Y=4), ADAM, micro, hybrid), (w, state, bf16(B, D), bf16(B, D))


PROGRAMS = {
    **{
        f"two_tier_collectives.{n}": partial(collective, n)
        for n in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
    },
    **{f"two_tier_collectives.{n}": partial(dispatched, n) for n in ("dispatch", "dispatch_each")},
    "hsdp.step, 2 microbatches": partial(step, True, 2),
    "hsdp.step, FSDP": partial(step, False, 1),
}
