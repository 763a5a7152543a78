"""Comparing a sharded result with a whole one, device by device."""

from itertools import combinations
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from .random_inputs import secret

CLOSE = {"bf16": 0.03, "f16": 5e-3, "f32": 1e-4, "f64": 1e-9, "fp8": 0.3}
"""How far a number may be off, as a share of the largest one; whole numbers are exact."""


def drawn(rng, like: jax.ShapeDtypeStruct, scale: float) -> np.ndarray:
    """A random array: floats of that standard deviation, or whole numbers from -4 to 4.

    NumPy's, for JAX compiles a program for each shape that it cuts over devices.
    """
    if jnp.issubdtype(like.dtype, jnp.floating):
        return (scale * rng.standard_normal(like.shape)).astype(like.dtype)
    return rng.integers(-4, 5, like.shape).astype(like.dtype)


def differs(got: jax.Array, expected: np.ndarray, mesh: jax.sharding.Mesh, stacked: bool, dtype: str) -> str | None:
    """None if every device holds its block of what is expected, else a sentence that does not say what that is.

    got      the sharded result; copies that it promises are compared one by one
    stacked  the result is a stack of partial sums, and their sum is compared
    dtype    type that was computed in, which sets the tolerance
    """
    expected = np.asarray(expected, np.float64)
    if stacked:
        got = jax.device_put(np.asarray(got, np.float32).sum(0), jax.NamedSharding(mesh, jax.P()))
    if got.shape != expected.shape:
        return f"the result has shape {got.shape}, which is not what was asked for."
    order = {d: i for i, d in enumerate(mesh.devices.flat)}
    shards = sorted(got.addressable_shards, key=lambda b: order[b.device])
    held = [np.asarray(b.data, np.float64) for b in shards]
    wanted = [expected[b.index] for b in shards]
    within = CLOSE.get(dtype, 0) * np.abs(expected).max(initial=0)
    close = lambda a, b: a.shape == b.shape and bool(np.all(np.abs(a - b) <= within))  # noqa: E731  (NaN is not close)
    off = [i for i, (h, w) in enumerate(zip(held, wanted)) if not close(h, w)]
    if not off:
        return None
    if np.isfinite(expected).all() and not all(np.isfinite(h).all() for h in held):
        return "the result holds NaN or infinity: was 0 divided by 0, -inf taken from -inf, or exp taken of a large number?"
    for n in _products(mesh.devices.shape):
        if all(close(h, n * w) for h, w in zip(held, wanted)):
            return f"every number is {n} times too large: was something summed that was already whole?"
        if all(close(n * h, w) for h, w in zip(held, wanted)):
            return f"every number is {n} times too small: is a sum missing?"
    if all(any(close(h, w) for w in wanted) for h in held):
        if sum(n > 1 for n in mesh.devices.shape) == 1:
            return "the blocks are right and on the wrong devices: device i is to hold block i."
        return "the blocks are right and on the wrong devices: which axis of a subscript is the major one?"
    copies = combinations([(str(b.index), h) for b, h in zip(shards, held)], 2)
    if any(i == j and not close(a, b) for (i, a), (j, b) in copies):
        return (
            "devices that should hold copies of a block hold different numbers: is a sum or a gather missing, "
            "or does each join its blocks in an order of its own?"
        )
    if (c := _factor(held, wanted)) and all(close(h, c * w) for h, w in zip(held, wanted)):
        return f"every number is {c:.4g} times what it should be, on {_mesh(mesh)}."
    return _first_off(held[off[0]], wanted[off[0]], within, mesh, off[0])


def _factor(held, wanted) -> float:
    """The factor by which all numbers are off, if they are by one; 0 where there is nothing to compare."""
    h, w = (np.concatenate([np.ravel(x) for x in some]) for some in (held, wanted))
    return float(h @ w / (w @ w)) if h.shape == w.shape and np.any(w) and np.isfinite(h).all() else 0.0


def _first_off(held, wanted, within: float, mesh, device: int) -> str:
    """Where the first wrong number is, and what it is; what it should be is left out where numbers are secret."""
    at = ", ".join(f"{a} = {i}" for a, i in zip(mesh.axis_names, np.unravel_index(device, mesh.devices.shape)))
    said = f"the result is wrong: on {_mesh(mesh)}, on the device at {at},"
    if held.shape != wanted.shape:
        return f"{said} the block has shape {held.shape}, not {wanted.shape}."
    wrong = np.argwhere(~(np.abs(held - wanted) <= within))
    first = tuple(wrong[0])
    index = list(map(int, first))
    number = "" if secret() else f"; the first, at {index}, is {held[first]:.4g} and should be {wanted[first]:.4g}"
    return f"{said} {len(wrong)} of {held.size} numbers are off{number}."


def _mesh(mesh) -> str:
    return "a mesh of " + ", ".join(f"{a} = {n}" for a, n in mesh.shape.items())


def _products(sizes) -> list[int]:
    """Products of some of the sizes, above 1."""
    return sorted({prod(c) for n in range(1, len(sizes) + 1) for c in combinations(sizes, n)} - {1})
