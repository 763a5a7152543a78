"""Devices and meshes: eight simulated devices on any computer, the real ones where there are enough.

Call `devices()` in the first cell, before any array is made: JAX fixes its number of devices when it first needs one.
Import this module before jax, and warnings of XLA's C++ code stay out of the notebook's cells: JAX reads the level
of its C++ log once, while it is imported.
"""

import os

# "1" is what JAX itself chooses; "2" also hides warnings. A level that somebody chose stays.
if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import contextlib  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from math import prod  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax import P  # noqa: E402
from jax.sharding import AxisType, Mesh  # noqa: E402

from helpers.costs.sharding import sharded_array  # noqa: E402
from helpers.costs.sharding.matmul_plans import sizes_of  # noqa: E402

Slices = tuple[tuple[int, int], ...]  # (start, stop) along each dimension

SIMULATED = 8  # never start fewer, so that a later cell can still ask for eight


def devices(n: int = SIMULATED) -> list[jax.Device]:
    """The first n accelerators if this machine has that many, else n simulated devices on its CPU.

    It may be called again, for as many or fewer.
    RuntimeError if JAX has already started with too few: a running JAX cannot add devices.
    """
    if n < 1:
        raise ValueError(f"a mesh needs at least one device, not {n}")
    # Ask for CPU devices if JAX has not started yet; a started JAX refuses, and below we look at what it has.
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", max(n, SIMULATED, jax.config.jax_num_cpu_devices))
    real = jax.devices()
    if real[0].platform != "cpu" and len(real) >= n:
        return real[:n]
    try:
        cpus = jax.devices("cpu")
    except RuntimeError:
        said = f"this machine has {len(real)} of the {n} devices asked for and JAX may not use its CPU for the rest"
        raise RuntimeError(f"{said}: add cpu to JAX_PLATFORMS and restart the kernel") from None
    if len(cpus) < n:
        raise RuntimeError(
            f"JAX has already started with {len(cpus)} CPU device{'s' * (len(cpus) != 1)}, so it cannot give you {n}: "
            "restart the kernel and call devices() before any other JAX code (even jax.random.key starts JAX)"
        )
    return cpus[:n]


def mesh(shape: tuple[int, ...], names: tuple[str, ...]) -> Mesh:
    """A mesh of devices with Auto axes: mesh((4, 2), ("X", "Y")) is 4 along X and 2 along Y.

    JAX's own default is Explicit axes, on which it refuses programs that leave a sharding open; chapter 2 makes
    those itself, where the refusal is the lesson.
    """
    shape, names = tuple(shape), tuple(names)
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=devices(prod(shape)))


def like(grid: sharded_array.Mesh) -> Mesh:
    """The devices for a mesh of `costs`: like(costs.sharding.sharded_array.Mesh({"X": 4, "Y": 2}))."""
    return mesh(tuple(grid.sizes.values()), grid.names)


def costs_mesh(mesh: Mesh) -> sharded_array.Mesh:
    """The mesh of `costs` with the same names and sizes; every axis counts as a ring."""
    return sharded_array.Mesh(dict(mesh.shape))


def spec(array) -> P:
    """The PartitionSpec of a sharding in the notation; a PartitionSpec as it is.

    An array with {U_X} is held as its partial sums, stacked in front: of C[I, K] {U_X}, an array [|X|, I, K] cut over X.

    >>> spec("A[I_X, J_YZ]") == P("X", ("Y", "Z")), spec("A[I, J] {U_X}") == P("X", None, None)
    (True, True)
    """
    if isinstance(array, P):
        return array
    a = sharded_array.parse(array)
    cuts = [a.unreduced, *a.axes] if a.unreduced else a.axes
    return P(*(axes[0] if len(axes) == 1 else axes or None for axes in cuts))


def sharded(f: Callable, mesh: Mesh, in_specs, out_specs) -> Callable:
    """The program in which every device runs f on its own blocks.

    in_specs   the sharding of each argument, in the notation or as a PartitionSpec: ("A[I_X, J]", "B[J, K]")
    out_specs  that of the result; with {U_X} the result is the stack of the devices' partial sums (see `spec`)

    Arguments whose shapes do not fit the notation are refused.
    JAX is not asked to prove that a result without X is the same all along X (check_vma): it cannot see that of an
    all_gather, or of anything made of ppermutes.
    """
    in_specs = tuple(in_specs)
    written = [None if isinstance(a, P) else sharded_array.parse(a) for a in (*in_specs, out_specs)]
    grid = costs_mesh(mesh) if any(written) else None
    for a in filter(None, written):
        a.check(grid)
    stacked = [bool(a and a.unreduced) for a in written]

    def on_device(*blocks):
        result = f(*(b[0] if s else b for b, s in zip(blocks, stacked)))
        return result[None] if stacked[-1] else result

    run = jax.shard_map(
        on_device, mesh=mesh, in_specs=tuple(map(spec, in_specs)), out_specs=spec(out_specs), check_vma=False
    )

    def program(*arrays):
        shapes = [(a, x.shape[len(a.unreduced) > 0 :]) for a, x in zip(written, arrays) if a]
        for a, _ in shapes:
            a.check(grid, sizes_of(*shapes))
        return run(*arrays)

    return jax.jit(program)


def put(array, mesh: Mesh, sharding) -> jax.Array:
    """The array, cut over the mesh as the notation or PartitionSpec says; ValueError in one sentence if it cannot be."""
    if not isinstance(sharding, P):
        a = sharded_array.parse(sharding)
        a.check(costs_mesh(mesh), sizes_of((a, np.shape(array)[len(a.unreduced) > 0 :])))
    return jax.device_put(array, jax.NamedSharding(mesh, spec(sharding)))


def holds(array: jax.Array) -> dict[int, Slices]:
    """Which part of a sharded array each device of its mesh really holds, by the device's number in the mesh."""
    number = {d: i for i, d in enumerate(array.sharding.mesh.devices.flat)}
    index = array.sharding.devices_indices_map(array.shape)
    found = {number[d]: tuple(s.indices(n)[:2] for s, n in zip(cut, array.shape)) for d, cut in index.items()}
    return dict(sorted(found.items()))


def holders(sharding, mesh: sharded_array.Mesh | Mesh, sizes: Mapping[str, int]) -> dict[int, Slices]:
    """Which part each device holds by the notation: what `holds` says once the array is there.

    >>> holders("A[I_X, J]", sharded_array.Mesh({"X": 2, "Y": 2}), {"I": 8, "J": 3})
    {0: ((0, 4), (0, 3)), 1: ((0, 4), (0, 3)), 2: ((4, 8), (0, 3)), 3: ((4, 8), (0, 3))}
    """
    grid = costs_mesh(mesh) if isinstance(mesh, Mesh) else mesh
    a = sharded_array.parse(sharding)
    a.check(grid, sizes)
    return {d: a.slices(where, sizes, grid) for d, where in enumerate(grid.coordinates())}
