"""The same cache in pages: a pool for all sequences, and for each a table of the pages where its tokens stand (chapter 5).

A pool holds [pages, size, K, H] for each layer; page tables[b, i] holds the tokens i·size to (i + 1)·size - 1 of row b, in all
layers. `page_allocator` says whose pages are whose. Local layers hold every token here, and see their window.

Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention" (2023).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import visible

from . import kv_cache


def empty(c: Config, pages: int, size: int, dtype=jnp.float32) -> list[dict]:
    """A pool of pages with `size` tokens each; dtype as in `kv_cache.empty`."""
    if pages < 1 or size < 1:
        raise ValueError(f"a pool has one page with one place or more, not {pages} pages of {size}")
    return [kv_cache.run(c, n, pages, size, dtype) for _, n in decoder.runs(c)]  # a page is a row


def extend(params: dict, pool: list[dict], tables, tokens, at, c: Config, lengths=None):
    """`kv_cache.extend` over pages: tokens[B, T] from positions at[B] on -> (logits[B, T, V], the pool with them).

    tables   [B, P] pages of each row in the order of its tokens, -1 where it has none; a page that is written to is in one
             table only (`Blocks.append` sees to that)
    """
    pages, size = jax.tree.leaves(pool)[0].shape[1:3]
    kv_cache.check_rows(tokens, at, lengths, tables.shape[0])
    if kv_cache.known(tables, tokens, at, lengths):
        _check(tables, pages, size, tokens, at, lengths)
    x, pool = kv_cache.advance(params, pool, tokens, at, c, lengths, _recall(tables, pages, size))
    return decoder.unembed(kv_cache.top(params, x.dtype), x, c), pool


def _recall(tables, pages: int, size: int):
    B, P = tables.shape
    safe = jnp.where(tables < 0, pages, tables)  # beyond the pool: writes are dropped

    def look(old, new, at, real, window):
        page = jnp.take_along_axis(safe, jnp.minimum(at // size, P - 1), axis=1)  # [B, T]
        page = jnp.where(real & (at < P * size), page, pages)
        held = {name: a.at[page, at % size].set(new[name].astype(a.dtype), mode="drop") for name, a in old.items()}
        # Pages without an owner are read as page 0, and nobody sees what stands there: it is after the last token.
        seen = {name: a[jnp.maximum(tables, 0)].reshape(B, P * size, *a.shape[2:]) for name, a in held.items()}
        return held, seen, visible(at, jnp.arange(P * size), window)

    return look


def copy(pool: list[dict], pairs: list[tuple[int, int]]) -> list[dict]:
    """The pool after pages were copied, (from, to) each: what `Blocks.append` asks for before it writes."""
    if not pairs:
        return pool
    source, target = (jnp.array(pages) for pages in _pairs(pairs))
    operands.numbers("page", [source, target], _pages(pool))
    return jax.tree.map(lambda a: a.at[:, target].set(a[:, source]), pool)


def take(pool: list[dict], pages: Sequence[int]) -> list[dict]:
    """What stands in these pages, as arrays on the host, [layers, pages, size, …]: they may be given to others now."""
    operands.numbers("page", pages, _pages(pool))
    index = jnp.asarray(pages, jnp.int32)
    return jax.device_get(jax.tree.map(lambda a: a[:, index], pool))


def put(pool: list[dict], held: list[dict], pairs: list[tuple[int, int]]) -> list[dict]:
    """The pool with some of what `take` gave, (number in `held`, page) each."""
    if not pairs:
        return pool
    source, target = (np.array(pages) for pages in _pairs(pairs))
    operands.numbers("page", target, _pages(pool))
    operands.numbers("held page", source, _pages(held))
    return jax.tree.map(lambda a, b: a.at[:, target].set(b[:, source]), pool, held)


def _pages(pool: list[dict]) -> int:
    return jax.tree.leaves(pool)[0].shape[1]


def _pairs(pairs):
    if odd := [pair for pair in pairs if len(pair) != 2]:
        raise ValueError(f"pages are copied by pairs, (from, to) each, not {odd[0]!r}")
    return zip(*pairs)


def page_bytes(pool: list[dict]) -> int:
    """Bytes of one page, in all layers."""
    return sum(a.size * a.dtype.itemsize // a.shape[1] for a in jax.tree.leaves(pool))


def _check(tables, pages: int, size: int, tokens, at, lengths) -> None:
    tables = np.asarray(tables)
    operands.numbers("page", np.maximum(tables, 0), pages)
    places = size * np.sum(np.cumprod(tables >= 0, axis=1), axis=1)
    kv_cache.check_reach(tokens, at, lengths, places, "its pages have places for {most}: append to it first")
