"""The same cache in pages: a pool for all sequences, and for each a table of the pages where its tokens stand (chapter 5).

A pool holds [pages, size, K, H] for each layer; page tables[b, i] holds the tokens i·size to (i + 1)·size - 1 of row b, in all
layers. `Blocks` says whose pages are whose. Local layers hold every token here, and see their window.

Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention" (2023).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.arguments import Count, formula
from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.attention import masks, softmax
from helpers.kernels.transformers import decoder, decoder_layers
from helpers.kernels.transformers.decoder_layers import visible

from . import kv_cache


def empty(c: Config, pages: int, size: int, dtype=jnp.float32) -> list[dict]:
    """A pool of pages with `size` tokens each; dtype as in `kv_cache.empty`."""
    operands.whole(pages=pages, size=size)
    return [decoder_layers.empty(c, n, pages, size, dtype) for _, n in decoder.runs(c)]  # a page is a row


def extend(params: dict, pool: list[dict], tables, tokens, positions, c: Config, lengths=None):
    """`kv_cache.extend` over pages: tokens[B, T] from positions[B] on -> (logits[B, T, V], the pool with them).

    tables   [B, P] pages of each row in the order of its tokens, -1 where it has none; a page that is written to is in one
             table only (`Blocks.append` sees to that)
    """
    pages, size = jax.tree.leaves(pool)[0].shape[1:3]
    kv_cache.check_rows(tokens, positions, lengths, len(tables))
    places = size * (tables >= 0).cumprod(1).sum(1)  # up to the first page that is not there
    kv_cache.check_reach(tokens, positions, lengths, places, "its pages have places for {most}: append to it first")
    x, pool = kv_cache.advance(params, pool, tokens, positions, c, lengths, _recall(tables, pages, size))
    return decoder.unembed(kv_cache.top(params, x.dtype), x, c), pool


def _recall(tables, pages: int, size: int):
    B, P = tables.shape
    safe = jnp.where(tables < 0, pages, tables)  # beyond the pool: writes are dropped

    def look(cache, entries, positions, is_real, window):
        page = jnp.take_along_axis(safe, jnp.minimum(positions // size, P - 1), axis=1)  # [B, T]
        page = jnp.where(is_real & (positions < P * size), page, pages)
        held = {
            name: a.at[page, positions % size].set(entries[name].astype(a.dtype), mode="drop")
            for name, a in cache.items()
        }
        # Pages without an owner are read as page 0, and nobody sees what stands there: it is after the last token.
        seen = {name: a[jnp.maximum(tables, 0)].reshape(B, P * size, *a.shape[2:]) for name, a in held.items()}
        return held, seen, visible(positions, jnp.arange(P * size), window)

    return look


def copy(pool: list[dict], pairs: list[tuple[int, int]]) -> list[dict]:
    """The pool after pages were copied, (from, to) each: what `Blocks.append` asks for before it writes."""
    if not pairs:
        return pool
    source, target = map(jnp.array, zip(*pairs))
    return jax.tree.map(lambda a: a.at[:, target].set(a[:, source]), pool)


def take(pool: list[dict], pages: Sequence[int]) -> list[dict]:
    """What stands in these pages, as arrays on the host, [layers, pages, size, …]: they may be given to others now."""
    return jax.device_get(jax.tree.map(lambda a: a[:, jnp.asarray(pages, jnp.int32)], pool))


def put(pool: list[dict], saved_pages: list[dict], pairs: list[tuple[int, int]]) -> list[dict]:
    """The pool with some of what `take` gave, (number in `saved_pages`, page) each."""
    if not pairs:
        return pool
    source, target = map(np.array, zip(*pairs))
    return jax.tree.map(lambda a, b: a.at[:, target].set(b[:, source]), pool, saved_pages)


def page_bytes(pool: list[dict]) -> int:
    """Bytes of one page, in all layers."""
    return sum(a.size * a.dtype.itemsize // a.shape[1] for a in jax.tree.leaves(pool))


# Attention of one token per row over its true length, block by block: what is read is what is there.
#
# A padded program reads B · S_max keys whatever the rows hold. Here a list has the blocks that hold any: those of row 0, then those
# of row 1, and so on; one loop takes them in turn and keeps a running softmax for each row. The loop's length is known when the
# program runs, so the program returns how many blocks it has read: Σ ceil(length / block), and in bytes that times a block.
# A kernel takes the same list in parallel.
#
# Source: Dao et al., "FlashAttention" (2022) for the running softmax; Kwon et al., "PagedAttention" (2023); Austin et al. 2025, Section 7.


def attend(q, k, v, lengths, block: int):
    """q[B, N, H] over the first lengths[B] of k and v[B, S, K, H] -> (y[B, N, H], blocks read).

    block   keys that are read together; it divides S. A row of length 0 gets 0
    """
    operands.whole(block=block)
    masks.check(q[:, None], k, v)
    S = k.shape[1]
    if S % block:
        raise ValueError(f"blocks of {block} do not fill the {S} places of a row: take a divisor of {S}")
    lengths = jnp.minimum(operands.lengths(lengths, len(q), S), S)
    (B, N, H), K = q.shape, k.shape[2]
    q = q.reshape(B, K, N // K, H)  # query heads in groups, one for each KV head
    ends = jnp.cumsum(-(-lengths // block))  # where each row's blocks end in the list of all

    def one(n, running):
        row = jnp.searchsorted(ends, n, side="right")
        i = n - jnp.where(row > 0, ends[row - 1], 0)
        mine = jax.tree.map(lambda a: a[row], running)
        there = i * block + jnp.arange(block) < lengths[row]
        keys, values = (lax.dynamic_slice(a, (row, i * block, 0, 0), (1, block, *a.shape[2:]))[0] for a in (k, v))
        keys, values = (operands.blank(a, there, 0).swapaxes(0, 1) for a in (keys, values))  # [K, block, H]
        new = softmax.together(mine, softmax.chunk(q[row], keys, values, there))
        return jax.tree.map(lambda a, b: a.at[row].set(b), running, new)

    seen = lax.fori_loop(0, ends[-1], one, softmax.nothing((B, K, N // K), v.shape[-1]))
    return softmax.result(seen).reshape(B, N, -1), ends[-1]


# Whose pages are whose: an allocator, in plain Python.
#
# A sequence of n tokens has ceil(n / size) pages, so less than one page of it is empty. Sequences that begin alike share pages,
# counted; who writes into a shared page gets a copy of its own first. A page can also be kept without a sequence, as by a tree of
# prefixes. At all times
#
#     a page is free, or its count says in how many tables it stands and how often it is kept
#     what there are too few pages for raises an error and changes nothing


class Exhausted(RuntimeError):
    """Too few pages are free; nothing has changed. A server waits, or takes another sequence's pages."""


@formula
class Blocks:
    """Pages of `size` tokens each, and a table for every sequence that has a name.

    >>> b = Blocks(pages=4, size=2)
    >>> b.allocate("a", 3), b.fork("a", "b"), b.available
    ([0, 1], [0, 1], 2)
    >>> b.append("b")                                       # its place is in page 1, which "a" has too
    [(1, 2)]
    >>> b.table("a"), b.table("b"), b.append("a")
    ([0, 1], [0, 2], [])
    >>> b.free("a"), b.free("b"), b.available
    (None, None, 4)
    """

    def __init__(self, pages: Count, size: Count):
        self.pages, self.size = pages, size
        self._free = list(range(pages))[::-1]  # the next one at the end
        self._count = [0] * pages
        self._tables: dict[Hashable, list[int]] = {}
        self._lengths: dict[Hashable, int] = {}

    # What there is.

    @property
    def available(self) -> int:
        """Pages that are free."""
        return len(self._free)

    def names(self) -> list[Hashable]:
        """All sequences, the oldest first."""
        return list(self._tables)

    def length(self, name: Hashable) -> int:
        """Tokens of a sequence."""
        return self._lengths[self._known(name)]

    def table(self, name: Hashable) -> list[int]:
        """The pages of a sequence in order."""
        return list(self._tables[self._known(name)])

    def needs(self, name: Hashable, n_tokens: int) -> int:
        """Pages that `append(name, n)` will take; a name that is not here yet begins with n tokens."""
        had = self._lengths.get(name, 0)
        return self._ceil(had + n_tokens) - self._ceil(had) + (n_tokens > 0 and self._must_copy(name))

    # What changes it.

    def allocate(self, name: Hashable, length: int, shared_pages: Sequence[int] = ()) -> list[int]:
        """Pages for a new sequence of `length` tokens; `shared_pages` are full pages of another one that begins alike."""
        self._new(name)
        operands.whole(length=length)
        new = self._take(self._ceil(length) - len(shared_pages), f"{length} tokens of {name!r}")
        self._share(shared_pages)
        self._tables[name], self._lengths[name] = [*shared_pages, *new], length
        return self.table(name)

    def append(self, name: Hashable, n_tokens: int = 1) -> list[tuple[int, int]]:
        """Places for n more tokens; (from, to) of the pages to copy before they are written: one at most."""
        operands.whole(least=0, n=n_tokens)
        table, copies = self._tables[self._known(name)], n_tokens > 0 and self._must_copy(name)
        new = self._take(self.needs(name, n_tokens), f"{n_tokens} more tokens of {name!r}")
        pairs = [(table[-1], new[0])] if copies else []
        if copies:
            self.drop(table.pop())
        table += new
        self._lengths[name] += n_tokens
        return pairs

    def fork(self, name: Hashable, new_name: Hashable, length: int | None = None) -> list[int]:
        """A second sequence that begins with the first `length` tokens of another one, on the same pages."""
        had = self.length(name)
        self._new(new_name)
        length = had if length is None else length
        if not 1 <= length <= had:
            raise ValueError(f"{name!r} has {had} tokens: a fork takes 1 to {had} of them, not {length}")
        self._tables[new_name], self._lengths[new_name] = self._tables[name][: self._ceil(length)], length
        self._share(self._tables[new_name])
        return self.table(new_name)

    def free(self, name: Hashable) -> None:
        """The sequence is done: pages that nobody else has are free."""
        for page in reversed(self._tables.pop(self._known(name))):
            self.drop(page)
        del self._lengths[name]

    def keep(self, page: int) -> None:
        """One more holds this page, who is no sequence: it stays when all sequences on it are gone."""
        self._count[page] += 1

    def drop(self, page: int) -> None:
        """Let go of a page: one holder fewer."""
        self._count[page] -= 1
        if not self._count[page]:
            self._free.append(page)

    def replace(self, name: Hashable, i: int, page: int) -> None:
        """Page i of a sequence's table is another one from now on, which holds the same tokens already."""
        table = self._tables[self._known(name)]
        self.keep(page)
        self.drop(table[i])
        table[i] = page

    def resume(
        self, freed: Mapping[Hashable, tuple[Sequence[int], int]], resident_pages: Mapping[int, int]
    ) -> dict[int, int]:
        """Sequences that were freed come back, {name: (its table then, length)}, and share pages as they did.

        resident_pages  {page then: page that holds the same now}; each other page gets a free one
        Returns {page then: page now} of all
        """
        missing = sorted({page for table, _ in freed.values() for page in table} - resident_pages.keys())
        new = self._take(len(missing), f"the pages of {', '.join(map(repr, freed))}")
        now = dict(resident_pages) | dict(zip(missing, new))
        for name, (table, length) in freed.items():
            self._new(name)
            self._tables[name], self._lengths[name] = [now[page] for page in table], length
            self._share(self._tables[name])
        for page in new:
            self.drop(page)  # held since it was taken, and by each table besides
        return now

    # How.

    def _ceil(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def _must_copy(self, name: Hashable) -> bool:
        """Whether its next token stands in a page that another sequence has too."""
        return self._lengths.get(name, 0) % self.size > 0 and self._count[self._tables[name][-1]] > 1

    def _take(self, n_pages: int, reason: str) -> list[int]:
        if n_pages > self.available:
            raise Exhausted(
                f"{reason} take {n_pages} pages, and {self.available} of {self.pages} are free: wait, or free some"
            )
        pages = [self._free.pop() for _ in range(n_pages)]
        self._share(pages)
        return pages

    def _share(self, pages: Iterable[int]) -> None:
        for page in pages:
            self.keep(page)

    def _known(self, name: Hashable) -> Hashable:
        if name not in self._tables:
            raise ValueError(f"there is no sequence {name!r}: allocate it first")
        return name

    def _new(self, name: Hashable) -> None:
        if name in self._tables:
            raise ValueError(f"there is a sequence {name!r} already: free it first, or take another name")
