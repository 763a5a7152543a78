"""A cache of B rows of which each stands at a position of its own: the slots of a server (chapter 5).

One function does it all: `extend` takes T tokens of each row against what the row holds. T = 1 is a step of generation,
T = C a chunk of a prompt, T = K + 1 the check of a draft. A full layer has `size` places in a row; a local one is a ring of
its window and `slack` more, after the `keep` first tokens of the text.

Source: Austin et al. 2025, Section 7; Beltagy et al., "Longformer" (2020) for windows; Xiao et al., "Efficient streaming language
models with attention sinks" (2023) for the first tokens that are kept.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.transformers import decoder, quantisation
from helpers.kernels.transformers.decoder_layers import empty as empty_layer, remember


def empty(c: Config, B: int, size: int, dtype=jnp.float32, slack: int = 0, keep: int = 0) -> list[dict]:
    """Room for `size` tokens in each of B rows.

    dtype   int8 brings scales with it, one for each head of each token
    slack   places of a ring beyond its window: as many as tokens that are written and then given up, as a draft's
    keep    first tokens that local layers hold besides their window
    """
    operands.whole(least=0, slack=slack, keep=keep)
    if size < 1 or B < 1:
        raise ValueError(f"a cache has one row and one place or more, not {B} rows of {size} places")

    def places(kind):
        return size if kind.window is None else min(size, kind.window + slack + keep)

    return [run(c, n, B, places(kind), dtype) for kind, n in decoder.runs(c)]


def run(c: Config, n: int, B: int, places: int, dtype) -> dict:
    """The empty caches of n layers that follow each other."""
    scales = jnp.float32 if jnp.dtype(dtype).itemsize == 1 else dtype
    layer = jax.eval_shape(lambda: quantisation.scaled(empty_layer(c, B, places, scales), dtype))
    return {name: jnp.zeros((n, *a.shape), a.dtype) for name, a in layer.items()}


def extend(params: dict, cache: list[dict], tokens, at, c: Config, lengths=None, keep: int = 0):
    """tokens[B, T], the first of row b at position at[b] -> (logits[B, T, V] of the token after each, the cache with them).

    lengths   how many of its T tokens each row has, [B]: the others leave no trace, and their logits mean nothing
    keep      the first tokens that local layers see besides their window, as in `empty`
    """
    check(cache, tokens, at, c, lengths, keep)
    x, cache = advance(params, cache, tokens, at, c, lengths, recall(keep))
    return decoder.unembed(top(params, x.dtype), x, c), cache


def advance(params: dict, cache: list[dict], tokens, at, c: Config, lengths, recall: Callable):
    """`extend` without its last product: (x[B, T, D], the cache).

    recall   (cache of a layer, new entries in its form, positions[B, T], real[B, T], window) -> as `decoder_layers.remember`
    """
    places, real = rows(tokens, at, lengths)
    x = decoder.embed(params, tokens, places, c)

    def look(kind, old, new):
        held, seen, mask = recall(old, quantisation.encode(new, old), places, real, kind.window)
        return held, show(seen, x.dtype), mask & real[..., None]  # a token that does not count looks at nothing

    return decoder.through(params, x, places, c, cache, look, lambda p: quantisation.plain(p, x.dtype))


def rows(tokens, at, lengths):
    """(positions[B, T] of the tokens, which of them count [B, T])."""
    steps = jnp.arange(tokens.shape[1])
    n = steps.size if lengths is None else jnp.asarray(lengths)[:, None]
    return jnp.asarray(at)[:, None] + steps, jnp.broadcast_to(steps < n, tokens.shape)


def show(seen: dict, dtype) -> dict:
    """What a layer reads, as numbers to compute with; under the name "seen" it can be counted."""
    return quantisation.decode({name: checkpoint_name(a, "seen") for name, a in seen.items()}, dtype)


def recall(keep: int) -> Callable:
    """How slots remember, for `advance`."""
    return lambda old, new, at, real, window: remember(old, new, at, window, keep, real)


def top(params: dict, dtype) -> dict:
    """The parameters outside the layers, as arrays."""
    return quantisation.plain({name: a for name, a in params.items() if name != "layers"}, dtype)


# Rows.


def insert(cache: list[dict], one: list[dict], slot) -> list[dict]:
    """The cache in which a row is that of `one`, a cache with B = 1; no other row is touched.

    `one` may be smaller, if it was made with the same slack and keep: what it does not reach is written by later tokens
    before anybody looks there.
    """
    _slot(cache, slot)
    if jax.tree.structure(cache) != jax.tree.structure(one):
        raise ValueError(
            "a row goes into a cache that holds the same things in the same form: made with the same config and dtype"
        )

    def row(a, b):
        if b.shape[1] != 1 or b.shape[2] > a.shape[2] or b.shape[3:] != a.shape[3:] or b.dtype != a.dtype:
            raise ValueError(
                f"a row {b.dtype}{list(b.shape)} does not fit a cache {a.dtype}{list(a.shape)}:"
                " it has one row, no more places, and the same heads and type"
            )
        return a.at[:, slot, : b.shape[2]].set(b[:, 0])

    return jax.tree.map(row, cache, one)


def take(cache: list[dict], slot) -> list[dict]:
    """One row as a cache with B = 1."""
    _slot(cache, slot)
    return jax.tree.map(lambda a: a[:, slot][:, None], cache)


def _slot(cache, slot) -> None:
    B = jax.tree.leaves(cache)[0].shape[1]
    if known(slot) and not 0 <= int(slot) < B:
        raise ValueError(f"there is no slot {int(slot)}: a cache of {B} rows has slots 0 to {B - 1}")


# What is asked for.


def known(*values) -> bool:
    """Whether all of these are numbers already, and not those of a program that is being traced."""
    return not any(isinstance(v, jax.core.Tracer) for v in values)


def room(c: Config, size: int, prompt: int, new: int = 0) -> None:
    """Whether a prompt and `new` tokens after it fit a cache of `size`; a ValueError says why not.

    The last token of a text needs no place: nothing comes after it that would look there.
    """
    if prompt < 1:
        raise ValueError(
            "an empty prompt has no last token to go on from: give it one token, as one that opens every text"
        )
    limits = {"learned positions": c.positions} if c.positions else {}
    if any(kind.window is None or kind.window > size for kind, _ in decoder.runs(c)):
        limits["places in the cache"] = size
    for what, most in limits.items():
        wanted = prompt + max(new - 1, 0)
        if wanted > most:
            after = f" with {new} after it" if new else ""
            raise ValueError(
                f"a prompt of {prompt} tokens{after} does not fit {most} {what}: make it at least {wanted}"
            )


def check(cache, tokens, at, c: Config, lengths, keep: int) -> None:
    """Whether the tokens have places in the cache, as far as their positions are known."""
    B = jax.tree.leaves(cache)[0].shape[1]
    check_rows(tokens, at, lengths, B)
    limits = [c.positions] if c.positions else []
    for (kind, _), layer in zip(decoder.runs(c), cache):
        S = next(iter(layer.values())).shape[2]
        if kind.window is None or S < kind.window + keep:
            limits.append(S)
    if limits and known(tokens, at, lengths):
        check_reach(tokens, at, lengths, min(limits), "there are places for {most}: make the cache larger")


def check_rows(tokens, at, lengths, B: int) -> None:
    """As many rows of tokens, positions and lengths as the cache has."""
    if tokens.ndim != 2 or tokens.shape[0] != B or jnp.shape(at) != (B,):
        raise ValueError(
            f"tokens {list(tokens.shape)} at positions {list(jnp.shape(at))} do not fit a cache of {B} rows:"
            f" tokens are [{B}, T] and positions [{B}]"
        )
    if tokens.shape[1] == 0:
        raise ValueError("there is no token to go on from: give each row one or more")
    if lengths is not None and jnp.shape(lengths) != (B,):
        raise ValueError(f"lengths {list(jnp.shape(lengths))} do not fit {B} rows: one number for each")


def check_reach(tokens, at, lengths, most, why: str) -> None:
    """No row's last token beyond its last place; `most` is one number, or one for each row."""
    n = np.asarray(tokens.shape[1] if lengths is None else lengths)
    reach = np.where(n > 0, np.asarray(at) + n, 0)
    most = np.broadcast_to(most, reach.shape)
    if np.any(np.asarray(at) < 0):
        raise ValueError(f"a token's position is 0 or more, not {np.min(at)}")
    if np.any(reach > most):
        row = int(np.argmax(reach - most))
        raise ValueError(f"row {row} would reach {reach[row]} tokens, and " + why.format(most=most[row]))
