"""Devices and meshes: eight simulated devices on any computer, the real ones where there are enough.

Call `devices()` in the first cell, before any array is made: JAX fixes its number of devices when it first needs one.
Import this module before jax, and warnings of XLA's C++ code stay out of the notebook's cells: JAX reads the level
of its C++ log once, while it is imported.
"""

import os

# "1" is what JAX itself chooses; "2" also hides warnings. A level that somebody chose stays.
if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

from math import prod  # noqa: E402

import jax  # noqa: E402
from jax.sharding import AxisType, Mesh  # noqa: E402

SIMULATED = 8  # never start fewer, so that a later cell can still ask for eight


def devices(n: int = SIMULATED) -> list[jax.Device]:
    """The first n accelerators if this machine has that many, else n simulated devices on its CPU.

    It may be called again, for as many or fewer.
    RuntimeError if JAX has already started with too few: a running JAX cannot add devices.
    """
    if n < 1:
        raise ValueError(f"a mesh needs at least one device, not {n}")
    _simulate(n)
    real = jax.devices()
    if real[0].platform != "cpu" and len(real) >= n:
        return real[:n]
    try:
        cpus = jax.devices("cpu")
    except RuntimeError:
        raise RuntimeError(
            f"this machine has {len(real)} of the {n} devices asked for and JAX may not use its CPU for the rest: "
            "add cpu to JAX_PLATFORMS and restart the kernel"
        ) from None
    if len(cpus) < n:
        raise RuntimeError(
            f"JAX has already started with {len(cpus)} CPU device{'s' * (len(cpus) != 1)}, so it cannot give you {n}: "
            "restart the kernel and call devices() before any other JAX code (even jax.random.key starts JAX)"
        )
    return cpus[:n]


def _simulate(n: int) -> None:
    """Ask for CPU devices if JAX has not started yet; a started JAX refuses, and `devices` looks at what it has."""
    wanted = max(n, SIMULATED, jax.config.jax_num_cpu_devices)
    try:
        jax.config.update("jax_num_cpu_devices", wanted)
    except RuntimeError:
        pass


def mesh(shape: tuple[int, ...], names: tuple[str, ...]) -> Mesh:
    """A mesh of devices with Auto axes: mesh((4, 2), ("X", "Y")) is 4 along X and 2 along Y.

    JAX's own default is Explicit axes, on which it refuses programs that leave a sharding open; chapter 2 makes
    those itself, where the refusal is the lesson.
    """
    if len(shape) != len(names):
        raise ValueError(f"a mesh needs one name for each axis, got shape {shape} and names {names}")
    return jax.make_mesh(
        tuple(shape), tuple(names), axis_types=(AxisType.Auto,) * len(names), devices=devices(prod(shape))
    )
