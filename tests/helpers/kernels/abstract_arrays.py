"""Meshes and arrays that are not there: all that a program needs to be traced."""

import jax


def mesh(**sizes: int) -> jax.sharding.AbstractMesh:
    """mesh(X=4, Y=2): 4 devices along X and 2 along Y."""
    kinds = (jax.sharding.AxisType.Auto,) * len(sizes)
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=kinds)


def bf16(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "bfloat16")


def int32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "int32")


def as_bf16(tree):
    """The same shapes, all of them bf16."""
    return jax.tree.map(lambda a: bf16(*a.shape), tree)


def both_passes(f):
    """f and the gradient of all its arguments; what f returns stands for the gradient of the loss."""

    def run(*args):
        y, pull = jax.vjp(f, *args)
        return y, pull(y)

    return run
