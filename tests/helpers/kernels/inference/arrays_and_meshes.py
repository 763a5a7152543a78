"""Arrays, absent devices and collectives as the tests of sharded inference write them."""

from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from helpers.costs.sharding.collectives import Collective


def normal(*shape):
    return jnp.asarray(np.random.default_rng(prod(shape)).standard_normal(shape), jnp.float32)


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, "bfloat16")


def absent(shape, names):
    """A mesh of devices that are not there, for tracing."""
    return jax.sharding.AbstractMesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))


def one(kind, axes, shape, out, times=1):
    return Collective(kind, tuple(axes), shape, out, "bf16", times)
