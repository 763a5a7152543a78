"""A prompt in chunks of C tokens, each against the cache of those before, alone or in one pass with a decode step (chapter 5).

Its largest block of scores is C × size, in a local layer C × (window - 1 + C), instead of T × T, and a server can generate for
others between two chunks. Logits and cache are those of the whole prompt at once.

Source: Agrawal et al., "Sarathi" (2023).
"""

import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import places

from . import kv_cache


def prefill(params, cache, tokens, c: Config, chunk: int, at=None, lengths=None, keep: int = 0):
    """tokens[B, T] from positions at[B] (0 without it) on -> (logits[B, V] after each row's last token, the cache).

    chunk     tokens at a time; it need not divide T
    lengths   true lengths of the rows, [B], 1 or more: rows are filled up to T with anything
    """
    if chunk < 1:
        raise ValueError(f"a chunk has one token or more, not {chunk}")
    B, T = tokens.shape
    at = jnp.zeros(B, jnp.int32) if at is None else jnp.asarray(at)
    n = jnp.full(B, T) if lengths is None else jnp.asarray(lengths)
    kv_cache.check(cache, tokens, at, c, n, keep)
    chunks = -(-T // chunk)
    cut = jnp.pad(tokens, ((0, 0), (0, chunks * chunk - T))).reshape(B, chunks, chunk).swapaxes(0, 1)

    def one(state, part):
        cache, last = state
        i, tokens = part
        mine = jnp.clip(n - i * chunk, 0, chunk)  # how many of the row's tokens stand in this chunk
        x, cache = kv_cache.advance(params, cache, tokens, at + i * chunk, c, mine, kv_cache.recall(keep))
        end = jnp.take_along_axis(x, jnp.maximum(mine - 1, 0)[:, None, None], axis=1)[:, 0]
        return (cache, jnp.where((mine > 0)[:, None], end, last)), None

    last = jnp.zeros((B, c.D), params["embedding"].dtype)
    (cache, last), _ = lax.scan(one, (cache, last), (jnp.arange(chunks), cut))
    return decoder.unembed(kv_cache.top(params, last.dtype), last, c), cache


def mixed(params, cache, tokens, at, piece, done: int, c: Config, row: int):
    """A mixed step, one pass: a token of each of the first B rows and a piece of the prompt in one more row.

    tokens[B] stand at positions at[B] of rows 0 to B - 1, piece[T] from position `done` of row `row` on. They go through the
    products as one row of B + T tokens, so every weight is used once; each sees the places of its own row only. Scores are
    computed against the places of all rows, which a kernel for ragged rows spares. Full layers only.

    Result: (logits[B + 1, V] after each of the tokens and after the piece, the cache)
    """
    if any(kind.window for kind, _ in decoder.runs(c)):
        raise ValueError("a mixed step keeps every token of a row: take a Config without windows")
    B, T = len(tokens), len(piece)
    packed = jnp.concatenate([jnp.asarray(tokens), jnp.asarray(piece)])[None]  # [1, B + T]
    where = jnp.concatenate([jnp.asarray(at), done + jnp.arange(T)])  # [B + T] positions
    rows = jnp.concatenate([jnp.arange(B), jnp.full(T, row)])  # [B + T] whose they are

    def recall(kind, old, new):
        held = {n: a.at[rows, where].set(new[n][0].astype(a.dtype), mode="drop") for n, a in old.items()}
        seen = {n: a.reshape(1, -1, *a.shape[2:]) for n, a in held.items()}  # the rows behind each other
        of, place = jnp.divmod(jnp.arange(len(next(iter(held.values()))) * places(held)), places(held))
        return held, kv_cache.show(seen, x.dtype), ((of == rows[:, None]) & (place <= where[:, None]))[None]

    x = decoder.embed(params, packed, where[None], c)
    x, cache = decoder.through(params, x, where[None], c, cache, recall)
    last = x[0, jnp.append(jnp.arange(B), B + T - 1)]
    return decoder.unembed(kv_cache.top(params, last.dtype), last, c), cache
