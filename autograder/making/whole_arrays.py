"""What a sharded answer makes of whole arrays, found without devices and without compiling: its blocks are mapped over.

A program for eight devices takes half a second to compile, and each mistake is another program; so devices run only what cannot be
mapped, a gather or scatter over several axes at once.
JAX 0.10 maps a `psum_scatter` that is not tiled wrongly where another axis is mapped over as well, so answers tile it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

Cut = list[tuple[str, ...]]  # the axes over which each dimension is cut


def program(f: Callable, mesh: Mapping[str, int], ins: Sequence, out, dtype, static: tuple = ()) -> Callable:
    """The function of whole arrays that `f` makes on a mesh, all as `check.Program` is given it; ValueError where copies differ."""
    from helpers.kernels.mesh import spec  # starts JAX

    def cut(how) -> Cut:
        return [(axes,) if isinstance(axes, str) else tuple(axes or ()) for axes in spec(how)]

    def run(*arrays):
        import jax

        from helpers.trace.jaxpr.equation_costs import LONG

        types = [dtype] * len(ins) if isinstance(dtype, str) else dtype
        arrays = [np.asarray(a).astype(LONG.get(t, t)) for a, t in zip(arrays, types)]
        cuts, mapped = [cut(how) for how in ins], lambda *blocks: f(*blocks, *static)
        for axis in reversed(mesh):
            where = [0 if any(axis in axes for axes in c) else None for c in cuts]
            mapped = jax.vmap(mapped, where, axis_name=axis, axis_size=mesh[axis])
        try:
            result = mapped(*map(jax.numpy.asarray, map(blocks, arrays, cuts, [mesh] * len(cuts))))
        except (AssertionError, NotImplementedError):
            result = on_devices(lambda *blocks: f(*blocks, *static), mesh, tuple(map(spec, ins)), arrays)
        return joined(np.asarray(result).astype(np.float32), cut(out), mesh)  # not all of NumPy knows bfloat16

    return run


def on_devices(f: Callable, mesh: Mapping[str, int], ins: tuple, arrays: Sequence):
    """Each device's result, by all axes of the mesh."""
    import jax

    from helpers.kernels import mesh as meshes

    def by_axes(*blocks):
        return jax.numpy.expand_dims(f(*blocks), range(len(mesh)))

    on = meshes.mesh(tuple(mesh.values()), tuple(mesh))
    return jax.jit(jax.shard_map(by_axes, mesh=on, in_specs=ins, out_specs=jax.P(*mesh), check_vma=False))(*arrays)


def blocks(array, cut: Cut, mesh: Mapping[str, int]):
    """An array with the axes that cut it in front, in the order of the mesh.

    >>> blocks(np.arange(8).reshape(2, 4), [(), ("X",)], {"X": 2, "Y": 3}).tolist()
    [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    """
    names, shape = [], []
    for n, axes in zip(array.shape, cut):
        names += [*axes, ""]
        shape += [*(mesh[axis] for axis in axes), n // prod(mesh[axis] for axis in axes)]
    front = [names.index(axis) for axis in mesh if axis in names]
    return array.reshape(shape).transpose(front + [i for i, name in enumerate(names) if not name])


def joined(array: np.ndarray, cut: Cut, mesh: Mapping[str, int]) -> np.ndarray:
    """The whole of blocks that stand by all axes of a mesh.

    >>> joined(blocks(np.arange(8).reshape(4, 2), [("Y", "X"), ()], {"X": 2, "Y": 2}), [("Y", "X"), ()], {"X": 2, "Y": 2}).tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    names = list(mesh)
    for axis in mesh:
        if not any(axis in axes for axes in cut):
            i = names.index(axis)
            if not np.allclose(array, array.take([0], i), equal_nan=True):
                raise ValueError(f"devices along {axis} hold different numbers")
            array = array.take(0, i)
            names.remove(axis)
    order, shape = [], []
    for d, axes in enumerate(cut, len(names)):
        order += [*map(names.index, axes), d]
        shape.append(array.shape[d] * prod(mesh[axis] for axis in axes))
    return array.transpose(order).reshape(shape)
