"""What tests of `helpers.trace` count with."""

import jax
import jax.numpy as jnp

from helpers import trace

F32, BF16 = jnp.float32, jnp.bfloat16


def arr(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def one(f, *args):
    """FLOPs of a program, which no rule may leave uncounted."""
    c = trace.count(f, *args)
    assert not c.doubts
    return c.flops
