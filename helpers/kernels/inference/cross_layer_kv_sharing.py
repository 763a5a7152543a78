"""Layers that share keys and values: each group of layers keeps those of its first one (chapter 5).

The cache is smaller by the size of a group, and so are the weights W_K and W_V. Every layer still reads what it looks at, so a
step reads as many bytes as before.

Source: Brandon et al., "Reducing transformer key-value cache size with cross-layer attention" (2024); Austin et al. 2025, Section 7.
"""

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.transformers import decoder, quantisation
from helpers.kernels.transformers.decoder_layers import remember

from . import kv_cache

OWN = ("W_K", "W_V", "b_K", "b_V", "key norm")
"""What only the first layer of a group has."""


def init(c: Config, key, group: int, dtype=jnp.float32) -> dict:
    """Parameters as those of `decoder.init`, without the keys and values of all but the first layer of each group."""
    _check(c, group)
    return strip(decoder.init(c, key, dtype), c, group)


def strip(params: dict, c: Config, group: int) -> dict:
    """Any parameters, without what sharing layers have not: [L/group, group, …] of the rest, [L/group, …] of `OWN`."""
    _check(c, group)
    cut = lambda a: a.reshape(c.L // group, group, *a.shape[1:])  # noqa: E731
    (stack,) = params["layers"]
    layers = {k: cut(a)[:, 0] if k in OWN else jax.tree.map(cut, a) for k, a in stack.items()}
    return {**params, "layers": [layers]}


def empty(c: Config, B: int, size: int, group: int, dtype=jnp.float32) -> list[dict]:
    """A cache for one layer of each group."""
    _check(c, group)
    return [jax.tree.map(lambda a: a[: c.L // group], cache) for cache in kv_cache.empty(c, B, size, dtype)]


def extend(params: dict, cache: list[dict], tokens, at, c: Config, group: int, lengths=None):
    """`kv_cache.extend` for layers that share: logits[B, T, V], the cache."""
    kv_cache.check(cache, tokens, at, c, lengths, 0)
    (kind, _), (stack,), (old,) = decoder.runs(c)[0], params["layers"], cache
    places, real = kv_cache.rows(tokens, at, lengths)
    x = decoder.embed(params, tokens, places, c)

    def layers(x, both):
        p, old = both
        held = []

        def first(new):
            held.append(remember(old, quantisation.encode(new, old), places, kind.window, 0, real))
            return again(None)

        def again(_):
            kept, seen, mask = held[0]
            return kept, kv_cache.show(seen, x.dtype), mask & real[..., None]

        for i in range(group):
            x, kept = decoder.block(_layer(p, i), x, places, c, kind, again if i else first)
        return x, kept

    x, new = lax.scan(layers, x, (stack, old))
    return decoder.unembed(params, x, c), [new]


def _layer(p: dict, i: int) -> dict:
    """Parameters of the i-th layer of a group."""
    mine = {k: jax.tree.map(lambda a: a[i], a) for k, a in p.items() if k not in OWN}
    return mine if i else mine | {k: a for k, a in p.items() if k in OWN}


def _check(c: Config, group: int) -> None:
    if group < 1 or c.L % group:
        raise ValueError(f"groups of {group} do not fill {c.L} layers: take a divisor of {c.L}")
    if len(decoder.runs(c)) > 1 or c.mla:
        raise ValueError("layers that share keys and values are of one kind, and without latent attention")
