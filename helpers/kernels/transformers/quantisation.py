"""Weights and caches in fewer bits: int8, int4, fp8 (chapter 5).

w ≈ q · scale, with one scale for all numbers that a product adds up, so that it may be multiplied in afterwards:
x @ (q · scale) = (x @ q) · scale. Integers are rounded, |w - q · scale| ≤ scale / 2; fp8 keeps 3 bits after the first one,
so its error grows with the number, at most 1/16 of it above the smallest normal one.

A cache has a scale for each head of each token ("k scale" beside "k"); in fp8 it has none, and 448 is the largest number.

Source: Dettmers et al., "LLM.int8()" (2022); Micikevicius et al., "FP8 formats for deep learning" (2022); Austin et al. 2025,
Section 7.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from helpers.kernels import operands

KINDS = {"int8": (jnp.int8, 127, 8), "int4": (jnp.int4, 7, 4), "fp8": (jnp.float8_e4m3fn, 448, 8)}
"""Type, largest number that is used, bits."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Quantised:
    """An array as q · scale; `scale` has 1 where its numbers are shared."""

    q: jax.Array
    scale: jax.Array

    def plain(self, dtype=jnp.float32):
        """The array that it stands for."""
        return self.q.astype(dtype) * self.scale.astype(dtype)


def quantise(w, axis, kind: str = "int8") -> Quantised:
    """The array in fewer bits.

    axis   the axis, or axes, whose numbers share a scale: those that a product sums over

    >>> quantise(jnp.array([[1.27, -0.5], [0.3, 2.54]]), axis=1).q.tolist()
    [[127, -50], [15, 127]]
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no format: there are {', '.join(KINDS)}")
    operands.real(w=w)
    dtype, most, _ = KINDS[kind]
    largest = jnp.max(jnp.abs(w), axis=axis, keepdims=True)
    scale = jnp.where(largest == 0, 1, largest / most).astype(w.dtype)
    q = w / scale
    q = jnp.clip(q if kind == "fp8" else jnp.round(q), -most, most)
    return Quantised(q.astype(dtype), scale)


def matmul(x, w: Quantised):
    """x[..., D] @ w[D, F], one scale for each of the F columns: multiplied in after the sum."""
    operands.real(x=x)
    return (x @ w.q.astype(x.dtype)) * w.scale.astype(x.dtype)


def size(tree) -> float:
    """Bytes of arrays and quantised arrays, scales with them; two numbers of int4 share a byte."""
    return sum(a.size * (0.5 if a.dtype == jnp.int4 else a.dtype.itemsize) for a in jax.tree.leaves(tree))


# Weights.

# Axes that each product sums over, from the end of the weight's shape; layers and experts stand in front.
_SUMMED = {"W_Q": (-3,), "W_K": (-3,), "W_V": (-3,), "W_O": (-3, -2), "W_UQ": (-3,), "W_UK": (-3,), "W_UV": (-3,)}


def weights(params: dict, kind: str = "int8") -> dict:
    """A decoder's parameters with all matrices but embedding and router quantised; norms and biases stay as they are."""

    def leaf(path, a):
        name = path[-1].key
        if name == "unembedding" or (name.startswith("W_") and name != "W_R"):
            return quantise(a, _SUMMED.get(name, (-2,)), kind)
        return a

    return jax.tree.map_with_path(leaf, params)


def plain(tree, dtype=jnp.float32):
    """The tree with arrays in place of what is quantised."""
    is_quantised = lambda a: isinstance(a, Quantised)  # noqa: E731
    return jax.tree.map(lambda a: a.plain(dtype) if is_quantised(a) else a, tree, is_leaf=is_quantised)


# Caches.


def scaled(cache: dict, dtype) -> dict:
    """The empty cache of a layer in that type: int8 with scales of the old type, fp8 or any other without."""
    if jnp.dtype(dtype) != jnp.int8:
        return {name: a.astype(dtype) for name, a in cache.items()}
    out = {name: a.astype(jnp.int8) for name, a in cache.items()}
    return out | {f"{name} scale": jnp.ones((*a.shape[:-1], 1), a.dtype) for name, a in cache.items()}


def encode(entries: dict, cache: dict) -> dict:
    """New entries in the cache's form."""
    out = {}
    for name, a in entries.items():
        if f"{name} scale" in cache:
            made = quantise(a, axis=-1)
            out |= {name: made.q, f"{name} scale": made.scale}
        elif cache[name].dtype.itemsize == 1:
            most = float(jnp.finfo(cache[name].dtype).max)
            out[name] = jnp.clip(a, -most, most)  # fp8 has no infinity: what is larger would be NaN
        else:
            out[name] = a
    return out


def decode(entries: dict, dtype) -> dict:
    """What is looked at, as numbers to compute with."""
    out = {name: a.astype(dtype) for name, a in entries.items() if not name.endswith(" scale")}
    return {
        name: a * entries[f"{name} scale"].astype(dtype) if f"{name} scale" in entries else a for name, a in out.items()
    }
