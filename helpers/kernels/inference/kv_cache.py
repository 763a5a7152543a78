"""A cache of B rows of which each stands at a position of its own: the slots of a server (chapter 5).

One function does it all: `extend` takes T tokens of each row against what the row holds. T = 1 is a step of generation,
T = C a chunk of a prompt, T = γ + 1 the check of a draft. A full layer has `size` places in a row; a local one is a ring of
its window and `slack` more, after the `keep` first tokens of the text.

Source: Austin et al. 2025, Section 7; Beltagy et al., "Longformer" (2020) for windows; Xiao et al., "Efficient streaming language
models with attention sinks" (2023) for the first tokens that are kept.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.transformers import decoder, quantisation
from helpers.kernels.transformers.decoder_layers import places, remember


def empty(c: Config, B: int, size: int, dtype=jnp.float32, slack: int = 0, keep: int = 0) -> list[dict]:
    """Room for `size` tokens in each of B rows.

    dtype   int8 brings scales with it, one for each head of each token
    slack   places of a ring beyond its window: as many as tokens that are written and then given up, as a draft's
    keep    first tokens that local layers hold besides their window
    """
    operands.whole(least=0, slack=slack, keep=keep)
    operands.whole(B=B, size=size)
    return decoder.empty_cache(c, B, size, dtype, slack + keep)


def extend(params: dict, cache: list[dict], tokens, positions, c: Config, lengths=None, keep: int = 0):
    """tokens[B, T], the first of row b at positions[b] -> (logits[B, T, V] of the token after each, the cache with them).

    lengths   how many of its T tokens each row has, [B]: the others leave no trace, and their logits mean nothing
    keep      the first tokens that local layers see besides their window, as in `empty`
    """
    check(cache, tokens, positions, c, lengths, keep)
    x, cache = advance(params, cache, tokens, positions, c, lengths, recall(keep))
    return decoder.unembed(top(params, x.dtype), x, c), cache


def advance(params: dict, cache: list[dict], tokens, positions, c: Config, lengths, recall: Callable):
    """`extend` without its last product: (x[B, T, D], the cache).

    recall   (cache of a layer, new entries in its form, positions[B, T], real[B, T], window) -> as `decoder_layers.remember`
    """
    places, real = rows(tokens, positions, lengths)
    x = decoder.embed(params, tokens, places, c)

    def look(kind, cache, entries):
        held, seen, mask = recall(cache, quantisation.encode(entries, cache), places, real, kind.window)
        return held, show(seen, x.dtype), mask & real[..., None]  # a token that does not count looks at nothing

    layer = lambda p, *args: decoder.block(quantisation.plain(p, x.dtype), *args)  # noqa: E731
    return decoder.through(params, x, places, c, cache, look, layer)


def rows(tokens, positions, lengths):
    """(positions[B, T] of the tokens, which of them count [B, T])."""
    steps = jnp.arange(tokens.shape[1])
    n = steps.size if lengths is None else jnp.asarray(lengths)[:, None]
    return jnp.asarray(positions)[:, None] + steps, jnp.broadcast_to(steps < n, tokens.shape)


def show(entries: dict, dtype) -> dict:
    """What a layer reads, as numbers to compute with; under the name "seen" it can be counted."""
    return quantisation.decode({name: checkpoint_name(a, "seen") for name, a in entries.items()}, dtype)


def recall(keep: int) -> Callable:
    """How slots remember, for `advance`."""
    return lambda cache, new, positions, is_real, window: remember(cache, new, positions, window, keep, is_real)


def top(params: dict, dtype) -> dict:
    """The parameters outside the layers, as arrays."""
    return quantisation.plain({name: a for name, a in params.items() if name != "layers"}, dtype)


# What is asked for.


def room(c: Config, size: int, prompt: int, new_tokens: int = 0) -> None:
    """Whether a prompt and `new_tokens` tokens after it fit a cache of `size`; a ValueError says why not.

    The last token of a text needs no place: nothing comes after it that would look there.
    """
    if prompt < 1:
        raise ValueError("an empty prompt has no last token to go on from: give it one, as one that opens every text")
    limits = {"learned positions": c.positions} if c.positions else {}
    if any(kind.window is None or kind.window > size for kind, _ in decoder.runs(c)):
        limits["places in the cache"] = size
    for what, most in limits.items():
        if (wanted := prompt + max(new_tokens - 1, 0)) > most:
            tokens = f"{prompt} tokens with {new_tokens} after it" if new_tokens else f"{prompt} tokens"
            raise ValueError(f"a prompt of {tokens} does not fit {most} {what}: make it at least {wanted}")


def check(cache, tokens, positions, c: Config, lengths, keep: int) -> None:
    """Whether the tokens have places in the cache, as far as their positions are known."""
    B = jax.tree.leaves(cache)[0].shape[1]
    check_rows(tokens, positions, lengths, B)
    limits = [c.positions] if c.positions else []
    for (kind, _), layer in zip(decoder.runs(c), cache):
        S = next(iter(layer.values())).shape[2]
        if kind.window is None or S < kind.window + keep:
            limits.append(S)
    if limits:
        check_reach(tokens, positions, lengths, min(limits), "there are places for {most}: make the cache larger")


def check_rows(tokens, positions, lengths, B: int) -> None:
    """As many rows of tokens, positions and lengths as the cache has."""
    operands.fit({"tokens[B, T]": tokens, "positions[B]": positions, "lengths[B]": lengths}, {"B": B})
    if tokens.shape[1] == 0:
        raise ValueError("there is no token to go on from: give each row one or more")


def check_reach(tokens, positions, lengths, max_position, reason: str) -> None:
    """No row's last token beyond its last place, `max_position` for all or for each row, if these are numbers and not traced."""
    if any(isinstance(given, jax.core.Tracer) for given in (tokens, positions, lengths, max_position)):
        return
    n = np.asarray(tokens.shape[1] if lengths is None else lengths)
    reach = np.where(n > 0, np.asarray(positions) + n, 0)
    max_position = np.broadcast_to(max_position, reach.shape)
    if np.any(np.asarray(positions) < 0):
        raise ValueError(f"a token's position is 0 or more, not {np.min(positions)}")
    row = int(np.argmax(reach - max_position))
    if reach[row] > max_position[row]:
        raise ValueError(f"row {row} would reach {reach[row]} tokens, and " + reason.format(most=max_position[row]))


# A prompt in chunks of C tokens, each against the cache of those before, alone or in one pass with a decode step.
#
# Its largest block of scores is C × size, in a local layer C × (window - 1 + C), instead of T × T, and a server can generate for
# others between two chunks. Logits and cache are those of the whole prompt at once.
#
# Source: Agrawal et al., "Sarathi" (2023).


def prefill(params, cache, tokens, c: Config, chunk: int, positions=None, lengths=None, keep: int = 0):
    """tokens[B, T] from positions[B] (0 without it) on -> (logits[B, V] after each row's last token, the cache).

    chunk     tokens at a time; it need not divide T
    lengths   true lengths of the rows, [B], 1 or more: rows are filled up to T with anything
    """
    operands.whole(chunk=chunk)
    B, T = tokens.shape
    positions = jnp.zeros(B, jnp.int32) if positions is None else jnp.asarray(positions)
    n = jnp.full(B, T) if lengths is None else jnp.asarray(lengths)
    check(cache, tokens, positions, c, n, keep)
    chunks = -(-T // chunk)
    cut = jnp.pad(tokens, ((0, 0), (0, chunks * chunk - T))).reshape(B, chunks, chunk).swapaxes(0, 1)

    def one(state, piece):
        cache, last = state
        i, tokens = piece
        mine = jnp.clip(n - i * chunk, 0, chunk)  # how many of the row's tokens stand in this chunk
        x, cache = advance(params, cache, tokens, positions + i * chunk, c, mine, recall(keep))
        end = jnp.take_along_axis(x, jnp.maximum(mine - 1, 0)[:, None, None], axis=1)[:, 0]
        return (cache, jnp.where((mine > 0)[:, None], end, last)), None

    last = jnp.zeros((B, c.D), params["embedding"].dtype)
    (cache, last), _ = lax.scan(one, (cache, last), (jnp.arange(chunks), cut))
    return decoder.unembed(top(params, last.dtype), last, c), cache


def mixed(params, cache, tokens, positions, prompt_piece, tokens_read: int, c: Config, row: int):
    """A mixed step, one pass: a token of each of the first B rows and a piece of the prompt in one more row.

    tokens[B] stand at positions[B] of rows 0 to B - 1, prompt_piece[T] from position `tokens_read` of row `row` on. They go through the
    products as one row of B + T tokens, so every weight is used once; each sees the places of its own row only. Scores are
    computed against the places of all rows, which a kernel for ragged rows spares. Full layers only.

    Result: (logits[B + 1, V] after each of the tokens and after the piece, the cache)
    """
    if any(kind.window for kind, _ in decoder.runs(c)):
        raise ValueError("a mixed step keeps every token of a row: take a Config without windows")
    B, T = len(tokens), len(prompt_piece)
    packed = jnp.concatenate([jnp.asarray(tokens), jnp.asarray(prompt_piece)])[None]  # [1, B + T]
    where = jnp.concatenate([jnp.asarray(positions), tokens_read + jnp.arange(T)])  # [B + T] positions
    rows = jnp.concatenate([jnp.arange(B), jnp.full(T, row)])  # [B + T] whose they are

    def recall(kind, cache, entries):
        held = {n: a.at[rows, where].set(entries[n][0].astype(a.dtype), mode="drop") for n, a in cache.items()}
        seen = {n: a.reshape(1, -1, *a.shape[2:]) for n, a in held.items()}  # the rows behind each other
        of, place = jnp.divmod(jnp.arange(len(next(iter(held.values()))) * places(held)), places(held))
        return held, show(seen, x.dtype), ((of == rows[:, None]) & (place <= where[:, None]))[None]

    x = decoder.embed(params, packed, where[None], c)
    x, cache = decoder.through(params, x, where[None], c, cache, recall)
    last = x[0, jnp.append(jnp.arange(B), B + T - 1)]
    return decoder.unembed(top(params, last.dtype), last, c), cache


# Layers that share keys and values: each group of layers keeps those of its first one.
#
# The cache is smaller by the size of a group, and so are the weights W_K and W_V. Every layer still reads what it looks at, so a
# step reads as many bytes as before.
#
# Source: Brandon et al., "Reducing transformer key-value cache size with cross-layer attention" (2024); Austin et al. 2025, Section 7.

OWN = ("W_K", "W_V", "b_K", "b_V", "key norm")
"""What only the first layer of a group has."""


def strip(params: dict, c: Config, group: int) -> dict:
    """Any parameters, without what sharing layers have not: [L/group, group, …] of the rest, [L/group, …] of `OWN`."""
    _check(c, group)
    cut = lambda a: a.reshape(c.L // group, group, *a.shape[1:])  # noqa: E731
    (stack,) = params["layers"]
    layers = {k: cut(a)[:, 0] if k in OWN else jax.tree.map(cut, a) for k, a in stack.items()}
    return {**params, "layers": [layers]}


def empty_shared(c: Config, B: int, size: int, group: int, dtype=jnp.float32) -> list[dict]:
    """A cache for one layer of each group."""
    _check(c, group)
    return [jax.tree.map(lambda a: a[: c.L // group], cache) for cache in empty(c, B, size, dtype)]


def extend_shared(params: dict, cache: list[dict], tokens, positions, c: Config, group: int, lengths=None):
    """`extend` for layers that share: logits[B, T, V], the cache."""
    check(cache, tokens, positions, c, lengths, 0)
    (kind, _), (stack,), (old,) = decoder.runs(c)[0], params["layers"], cache
    places, real = rows(tokens, positions, lengths)
    x = decoder.embed(params, tokens, places, c)

    def layers(x, params_and_cache):
        p, old = params_and_cache
        held = []

        def first(entries):
            held.append(remember(old, quantisation.encode(entries, old), places, kind.window, 0, real))
            return again(None)

        def again(_):
            kept, seen, mask = held[0]
            return kept, show(seen, x.dtype), mask & real[..., None]

        for i in range(group):
            x, kept = decoder.block(_layer(p, i), x, places, c, kind, again if i else first)
        return x, kept

    x, new = lax.scan(layers, x, (stack, old))
    return decoder.unembed(params, x, c), [new]


def _layer(stack: dict, i: int) -> dict:
    """Parameters of the i-th layer of a group."""
    mine = {k: jax.tree.map(lambda a: a[i], a) for k, a in stack.items() if k not in OWN}
    return mine if i else mine | {k: a for k, a in stack.items() if k in OWN}


def _check(c: Config, group: int) -> None:
    if group < 1 or c.L % group:
        raise ValueError(f"groups of {group} do not fill {c.L} layers: take a divisor of {c.L}")
    if len(decoder.runs(c)) > 1 or c.mla:
        raise ValueError("layers that share keys and values are of one kind, and without latent attention")
