"""Arguments of a sharded program, and its result compared with a whole one, device by device."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from helpers.trace.jaxpr.collectives import short

from .wrong_blocks import Blocks

CLOSE = {"bf16": 0.01, "f16": 5e-3, "f32": 1e-4, "f64": 1e-9, "fp8": 0.1}
"""How far a number may be off, as a share of the largest one; whole numbers are exact."""

SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""How many of the narrow floats that are drawn are not 0: as many as add up to what the type holds."""


def drawn(rng, like: jax.ShapeDtypeStruct, scale: float, share: float = SHARES[0]) -> np.ndarray:
    """A random array: floats of that standard deviation, narrow floats from -2 to 2, or whole numbers from -4 to 4.

    share  of the narrow floats that are not 0

    NumPy's, for JAX compiles a program for each shape that it cuts over devices.
    """
    if narrow(like.dtype):
        weights = [share / 8, share * 3 / 8, 1 - share, share * 3 / 8, share / 8]
        return rng.choice(np.arange(-2, 3), like.shape, p=weights).astype(like.dtype)
    if jnp.issubdtype(like.dtype, jnp.floating):
        return (scale * rng.standard_normal(like.shape)).astype(like.dtype)
    return rng.integers(-4, 5, like.shape).astype(like.dtype)


def narrow(dtype) -> bool:
    """Whether these are floats of fewer bits than single precision has."""
    return jnp.issubdtype(dtype, jnp.floating) and jnp.dtype(dtype).itemsize < 4


def widened(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same numbers, narrow floats in single precision."""
    return [a.astype(np.float32) if narrow(a.dtype) else a for a in arrays]


def whole(numbers: np.ndarray) -> bool:
    """Whether all of them are whole numbers."""
    return bool(np.all(numbers == np.rint(numbers)))


def held_exactly(dtype, expected: np.ndarray, dense: Callable, arrays: Sequence[np.ndarray]) -> bool:
    """Whether a type holds exactly whatever a program adds up on its way to whole numbers; of other results nothing is asked."""
    sums = lambda: np.asarray(dense(*map(np.abs, widened(arrays))))  # noqa: E731
    return not narrow(dtype) or not whole(expected) or sums().max(initial=0) <= 2 ** jnp.finfo(dtype).nmant


def compared(
    got: jax.Array,
    expected: np.ndarray,
    mesh: jax.sharding.Mesh,
    stacked: bool,
    dtype,
    starts: dict,
    within: float = np.inf,
) -> Blocks:
    """What every device holds of a result beside its block of what is expected; copies that the result promises one by one.

    got      the sharded result; if it is `stacked`, a stack of partial sums, their sum is compared
    dtype    type that was computed in, which sets the tolerance: of whole numbers in narrow floats one rounding
    starts   whole arguments of the result's shape, by name: something may have been added to one
    within   the most that a number may be off where that is a share of the largest one
    """
    expected = np.asarray(expected, np.float64)
    if stacked:
        got = jax.device_put(np.asarray(got, np.float32).sum(0), jax.NamedSharding(mesh, jax.P()))
    rounding = 0.5 ** (jnp.finfo(dtype).nmant + 1) if narrow(dtype) and whole(expected) else 0.0
    share = 0.0 if rounding else min(within, CLOSE.get(short(dtype), 0) * np.abs(expected).max(initial=0))
    near = lambda h, w, slack=1: np.abs(h - w) <= slack * (share + rounding * np.abs(w))  # noqa: E731  (NaN is not near)
    order = {d: i for i, d in enumerate(mesh.devices.flat)}
    shards = sorted(got.addressable_shards, key=lambda s: order[s.device])
    cut = lambda a: [np.asarray(a, np.float64)[s.index] for s in shards]  # noqa: E731
    return Blocks(
        sizes=dict(mesh.shape),
        held=[np.asarray(s.data, np.float64) for s in shards],
        wanted=cut(expected),
        parts=[str(s.index) for s in shards],
        starts={name: cut(a) for name, a in starts.items()},
        near=near,
    )
