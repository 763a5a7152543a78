"""Programs of `helpers.kernels.racks` whose collectives are listed; see tools/sends.py."""

from functools import partial

import jax
import jax.numpy as jnp

from helpers.kernels.racks import two_tier_collectives as two
from tests.helpers.kernels.abstract_arrays import bf16, mesh

D = 8


def collective(name):
    f = getattr(two, name)
    cut, x = jax.P(("X", "Y")), bf16(8 * 16, 3) if name != "all_to_all" else bf16(8 * 8, 3)
    return jax.shard_map(f, mesh=mesh(X=2, Y=4), in_specs=cut, out_specs=cut, check_vma=False), (x,)


def dispatched(name):
    cut = jax.P(("X", "Y"))
    f = partial(getattr(two, name), capacity=4)
    on = jax.shard_map(f, mesh=mesh(X=2, Y=4), in_specs=(cut, cut), out_specs=(cut, cut), check_vma=False)
    return on, (bf16(8 * 12, D), jax.ShapeDtypeStruct((8 * 12, 8), jnp.bool_))


PROGRAMS = {
    **{
        f"two_tier_collectives.{n}": partial(collective, n)
        for n in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
    },
    **{f"two_tier_collectives.{n}": partial(dispatched, n) for n in ("dispatch", "dispatch_each")},
}
