"""A window's keys and values in a buffer that rolls: window + sinks rows, however long the text (chapters 5 and 6).

The first `sinks` tokens keep their rows. A later token takes the row of the one that stands `window` before it, which nobody sees
any more: position t ≥ sinks has row sinks + (t - sinks) mod window. The buffer knows no order, so who sees whom is decided by the
positions that its rows hold. A piece of a prompt overwrites keys that its own first queries still see; these are read before.

The rows are those of chapter 5's caches (`helpers.kernels.transformers.decoder_layers.remember`), here without a model around them.

Source: Beltagy et al., "Longformer" (2020) for windows; Jiang et al., "Mistral 7B" (2023) for the buffer; Xiao et al., "Efficient
streaming language models with attention sinks" (2023).
"""

import jax.numpy as jnp

from helpers.kernels import operands
from helpers.kernels.transformers import decoder_layers

from . import dense_attention, gqa_shapes, masks
from .masks import Mask


def empty(B: int, K: int, H: int, mask: Mask, dtype=jnp.float32) -> dict:
    """Room for what the rule lets a query see: k and v[B, window + sinks, K, H].

    >>> empty(1, 2, 8, Mask(True, 4096, 4))["k"].shape
    (1, 4100, 2, 8)
    """
    operands.whole(B=B, K=K, H=H)
    rows = _rolls(mask).window + mask.sinks
    return {name: jnp.zeros((B, rows, K, H), dtype) for name in ("k", "v")}


def extend(cache: dict, q, k, v, at, mask: Mask, tau: float | None = None):
    """(attention of T tokens [B, T, N, H] to all that the rule shows them, the cache with them).

    q[B, T, N, H], k and v[B, T, K, H] are the tokens at positions at, at + 1, …; `at` is a number, or [B]. T = 1 is a step of
    generation, T > 1 a piece of a prompt, of any length. Pieces come in order, none is left out. ValueError for shapes that do
    not fit, and for rules without a window.
    """
    gqa_shapes.check(q, k, v)
    (B, T), (_, rows, *heads) = q.shape[:2], cache["k"].shape
    if rows != _rolls(mask).window + mask.sinks or list(k.shape) != [len(cache["k"]), T, *heads]:
        raise ValueError(
            f"k{list(k.shape)} do not fit a buffer {list(cache['k'].shape)} under {mask}: make them [B, T, K, H] like q, with the"
            " B, K and H that `empty` was given, and the same rule"
        )
    positions = jnp.broadcast_to(jnp.asarray(at), (B,))[:, None] + jnp.arange(T)
    cache, seen, sees = decoder_layers.remember(cache, {"k": k, "v": v}, positions, mask.window, mask.sinks)
    return dense_attention.attention(q, seen["k"], seen["v"], sees, tau), cache


def _rolls(mask: Mask) -> Mask:
    masks.ruled(mask)
    if not mask.causal or mask.window is None:
        raise ValueError(
            f"a buffer rolls under a causal rule with a window, not {mask}: write Mask(True, window, sinks)"
        )
    return mask
