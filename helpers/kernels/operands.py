"""What a kernel was given, looked at before it computes: shapes that fit one another, numbers that are whole, numbers that are not.

JAX goes on where a reader has erred: it broadcasts a Target[B, 1] over Out[B, D], takes the last row where an index lies beyond it,
and writes a mean of 0.7 into an array of integers as 0. Here each of these is a ValueError of one sentence, with what would be right.
What a traced array holds is not known yet and is not looked at; its shape and its type are.
"""

import re
from collections.abc import Mapping
from numbers import Integral

import jax
import jax.numpy as jnp
import numpy as np

_ARRAY = re.compile(r"(\w[\w ]*)\[([^\]]*)\]")
_DIM = re.compile(r"\s*(\w+?)\s*(?:\+\s*(\d+))?\s*")


def fit(arrays: Mapping[str, object], sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """The size of each dimension of arrays by their notation; ValueError if two of them do not agree about one.

    arrays   for each array its notation, "q[B, T, N, H]"; None is an array that is not there. "p[K+1, V]" has one row more than K
    sizes    dimensions whose sizes are known before

    >>> fit({"In[B, D]": np.zeros((4, 8)), "Out[B, D]": np.zeros((4, 8))})
    {'B': 4, 'D': 8}
    >>> fit({"Out[B, D]": np.zeros((4, 8)), "Target[B, D]": np.zeros((4, 1))})
    Traceback (most recent call last):
    ValueError: Target[B, D] has the shape [4, 1], and D is 8: make it [4, 8]
    """
    found = dict(sizes or {})
    for how, x in arrays.items():
        name, dims = _ARRAY.fullmatch(how).groups()
        parts = [(m[1], int(m[2] or 0)) for d in dims.split(",") if (m := _DIM.fullmatch(d))]
        shape = None if x is None else np.shape(x)
        if shape is None:
            continue
        if len(shape) != len(parts):
            raise ValueError(f"{how} has {len(parts)} dimensions, and this {name} has the shape {list(shape)}")
        wanted = [found.get(d, n - more) + more for (d, more), n in zip(parts, shape)]
        if off := [d for (d, _), n, w in zip(parts, shape, wanted) if n != w]:
            raise ValueError(f"{how} has the shape {list(shape)}, and {off[0]} is {found[off[0]]}: make it {wanted}")
        found |= {d: n - more for (d, more), n in zip(parts, shape)}
    return found


def alike(tree_name: str, tree, name: str, other_tree) -> None:
    """ValueError if two trees have arrays of different shapes at the same place.

    >>> alike("weights", np.zeros(3), "gradients", np.zeros((2, 3)))
    Traceback (most recent call last):
    ValueError: weights of the shape [3] have gradients of the same shape, not [2, 3]
    """
    for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other_tree), strict=True):
        if np.shape(a) != np.shape(b):
            raise ValueError(
                f"{tree_name} of the shape {[*np.shape(a)]} have {name} of the same shape, not {[*np.shape(b)]}"
            )


def real(**arrays) -> None:
    """ValueError if an array holds no floating-point numbers: results come in its type, and integers would cut them.

    >>> real(q=np.arange(3))
    Traceback (most recent call last):
    ValueError: q holds int64, which would cut the result to whole numbers: give it as float32 or bfloat16
    """
    for name, x in arrays.items():
        if not jnp.issubdtype(kind := getattr(x, "dtype", None) or np.asarray(x).dtype, jnp.floating):
            raise ValueError(
                f"{name} holds {kind}, which would cut the result to whole numbers: give it as float32 or bfloat16"
            )


def whole(least: int | None = 1, **counts) -> None:
    """ValueError if one of these is no whole number, or less than `least` (None: any); None is a count that is not given.

    >>> whole(window=2.5)
    Traceback (most recent call last):
    ValueError: window is a whole number, 1 or more, not 2.5
    """
    for name, n in counts.items():
        if n is None or (isinstance(n, Integral) and not isinstance(n, bool) and (least is None or n >= least)):
            continue
        raise ValueError(f"{name} is a whole number{'' if least is None else f', {least} or more'}, not {n!r}")


def lengths(lengths_or_none, B: int, S: int | None = None) -> jax.Array | None:
    """How many of its S places each of B rows fills, as an array [B], from an array or a list; None: all of them.

    >>> lengths([3, 0], 2, 5).tolist()
    [3, 0]
    >>> lengths([3.5, 0], 2, 5)
    Traceback (most recent call last):
    ValueError: lengths are whole numbers, one for each of 2 rows, not [3.5 0. ]
    >>> lengths([3, 7], 2, 5)
    Traceback (most recent call last):
    ValueError: a row has 0 to 5 of 5 places, so lengths cannot be [3 7]
    """
    if lengths_or_none is None:
        return None
    n = jnp.asarray(lengths_or_none)
    if n.shape != (B,):
        raise ValueError(f"lengths are whole numbers, one for each of {B} rows: make them [{B}], not {list(n.shape)}")
    if not jnp.issubdtype(n.dtype, jnp.integer):
        said = n.dtype if isinstance(n, jax.core.Tracer) else np.asarray(n)
        raise ValueError(f"lengths are whole numbers, one for each of {B} rows, not {said}")
    if S is not None and not isinstance(n, jax.core.Tracer) and ((np.asarray(n) < 0) | (np.asarray(n) > S)).any():
        raise ValueError(f"a row has 0 to {S} of {S} places, so lengths cannot be {np.asarray(n)}")
    return n


def axis(mesh: jax.sharding.Mesh, name: str) -> int:
    """Devices along an axis of a mesh; ValueError if it has none of that name."""
    if name not in mesh.shape:
        raise ValueError(f"the mesh has no axis {name!r}: it has {', '.join(mesh.axis_names)}")
    return mesh.shape[name]


def blank(x, is_seen, axis: int = 1):
    """x with zeros where `is_seen` is False: a place that nobody looks at may hold NaN, and NaN times a weight of 0 is NaN.

    is_seen  [S], or [B, S] with B along the first dimension; S lies along `axis` of x. None: all of them

    Its gradient is zero there too, so NaN in such a place reaches nothing at all.

    >>> blank(jnp.array([[1.0, jnp.nan]]), jnp.array([[True, False]])).tolist()
    [[1.0, 0.0]]
    """
    if is_seen is None:
        return x
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    if is_seen.ndim == 2:
        shape[0] = is_seen.shape[0]
    return jnp.where(is_seen.reshape(shape), x, 0)
