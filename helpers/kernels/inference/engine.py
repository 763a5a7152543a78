"""An engine that serves several texts at once, behind three functions: prefill, insert, generate (chapter 5).

    engine = Engine(c, slots=4, size=64, chunk=8)
    state = engine.empty()
    prefix = engine.prefill(params, prompt)               # keys and values of the prompt, and the token after it
    state = engine.insert(prefix, state, slot=2)          # the other slots stay as they are, bit for bit
    state, tokens = engine.generate(params, state)        # one more token for each slot in use
    state = engine.free(state, slot=2)

The state goes in and comes out; the engine itself is sizes and nothing else. With `page`, its cache is a pool of pages, and
a text takes those of the table that `insert` is given; without, a slot has places for `size` tokens, needed or not. Who
waits, who comes next and where a prefix is computed is the orchestrator's business, which knows nothing of models.

A prompt is read `chunk` tokens at a time: one program serves prompts of every length.

Source: Google, "JetStream" (2024) for the interface; Austin et al. 2025, Section 7; Agrawal et al., "Sarathi" (2023) for chunks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from helpers.costs.transformers.config import Config

from . import kv_cache as rows, paged_kv_cache


class Prefix(NamedTuple):
    """What the engine knows of one text: a cache of one row, how many tokens are in it, the likeliest token after them."""

    cache: Any
    length: int = 0
    token: int = -1


class State(NamedTuple):
    """The slots: their caches, the position of each one's next token, that token, and which slots are in use, [slots] each.

    tables   [slots, P] the pages of each text, -1 where it has none; None: the cache is not in pages
    """

    cache: Any
    at: Any
    token: Any
    used: Any
    tables: Any = None


@dataclass(frozen=True)
class Engine:
    """`slots` texts of at most `size` tokens each, prompts read `chunk` tokens at a time.

    page, pages   tokens of a page, and how many pages there are for all slots
    """

    c: Config
    slots: int
    size: int
    chunk: int = 8
    page: int | None = None
    pages: int | None = None

    def __post_init__(self):
        if (self.page is None) != (self.pages is None):
            raise ValueError(f"a pool has pages, and tokens in each: got page={self.page}, pages={self.pages}")

    @property
    def width(self) -> int | None:
        """Pages that one text may come to."""
        return self.page and -(-self.size // self.page)

    def empty(self) -> State:
        none = np.zeros(self.slots, np.int32)
        if self.page is None:
            return State(rows.empty(self.c, self.slots, self.size), none, none, none.astype(bool))
        tables = np.full((self.slots, self.width), -1, np.int32)
        return State(paged_kv_cache.empty(self.c, self.pages, self.page), none, none, none.astype(bool), tables)

    # The interface.

    def prefill(self, params, tokens: Sequence[int], known: Prefix | None = None) -> Prefix:
        """The prefix of a whole prompt. `known` is that of its first tokens, if they were read before."""
        rows.room(self.c, self.size, len(tokens))
        prefix = self.nothing() if known is None else known
        while prefix.length < len(tokens):
            prefix = self.read(params, prefix, tokens[prefix.length : prefix.length + self.chunk])
        return prefix

    def insert(self, prefix: Prefix, state: State, slot: int, table: Sequence[int] = ()) -> State:
        """The state with a text in one more slot; its next token is the one that the prefix ends with.

        table   with pages: those of the text, in order, with room for all the tokens that it may come to
        """
        self._is_slot(slot)
        if state.used[slot]:
            free = np.flatnonzero(~np.asarray(state.used)).tolist()
            raise ValueError(f"slot {slot} is in use: insert into a free one, {free}, or free it first")
        if prefix.token < 0:
            raise ValueError("a prefix without a next token cannot go on: prefill one token of it or more")
        if self.page is None:
            return _insert(state, prefix.cache, prefix.length, prefix.token, slot)
        if len(table) > self.width or len(table) * self.page < prefix.length:
            least, most = -(-prefix.length // self.page), self.width
            raise ValueError(f"{prefix.length} tokens need {least} to {most} pages of {self.page}, got {len(table)}")
        whole = np.array([*table] + [-1] * (self.width - len(table)), np.int32)
        return _insert_pages(state, prefix.cache, prefix.length, prefix.token, slot, whole)

    def generate(self, params, state: State) -> tuple[State, np.ndarray]:
        """(the state, tokens[slots]): the likeliest token after each slot's last one; -1 for a slot that is not in use."""
        room = self.size if self.page is None else (np.asarray(state.tables) >= 0).sum(1) * self.page
        full = np.flatnonzero(np.asarray(state.used) & (np.asarray(state.at) >= room))
        if len(full):
            raise ValueError(f"slots {full.tolist()} are full: end their texts, or give them more room from the start")
        state, tokens = _generate(self.c, params, state)
        return state, np.asarray(tokens)

    def free(self, state: State, slot: int) -> State:
        self._is_slot(slot)
        if not state.used[slot]:
            raise ValueError(f"slot {slot} is not in use: only a slot that holds a text can be freed")
        used = np.array(state.used)
        used[slot] = False
        if self.page is None:
            return state._replace(used=used)
        tables = np.array(state.tables)
        tables[slot] = -1
        return state._replace(used=used, tables=tables)

    # Parts of a prefix: a piece more, blocks of it to keep, blocks that were kept.

    def nothing(self) -> Prefix:
        """The prefix of no tokens."""
        every = self.size if self.page else 0  # pages hold the tokens that left a window too
        return Prefix(rows.empty(self.c, 1, self.size, slack=every))

    def read(self, params, prefix: Prefix, piece: Sequence[int]) -> Prefix:
        """The prefix with the next tokens of its text, at most `chunk` of them: one pass of the model."""
        if not 1 <= len(piece) <= self.chunk:
            raise ValueError(f"a pass reads 1 to {self.chunk} tokens, got {len(piece)}")
        return self.read_together(params, [prefix], [piece])[0]

    def read_together(self, params, prefixes: list[Prefix], pieces: list[Sequence[int]]) -> list[Prefix]:
        """`read` for several texts in one pass. Each row of it is `chunk` tokens wide, however long the piece is."""
        if any(not 0 <= len(piece) <= self.chunk for piece in pieces):
            raise ValueError(
                f"a pass reads up to {self.chunk} tokens of a text, got {[len(piece) for piece in pieces]}"
            )
        texts, rest = len(pieces), self.slots - len(pieces)
        if texts > 1:  # one program for several texts, however many
            prefixes, pieces = [*prefixes] + [self.nothing()] * rest, [*pieces] + [()] * rest
        padded = np.zeros((len(pieces), self.chunk), np.int32)
        for row, piece in zip(padded, pieces):
            row[: len(piece)] = piece
        at, lengths = np.array([prefix.length for prefix in prefixes]), np.array([len(piece) for piece in pieces])
        cache = jax.tree.map(lambda *rows: np.concatenate(rows, 1), *(prefix.cache for prefix in prefixes))
        tokens, cache = _read(self.c, params, cache, padded, at, lengths)
        after = [jax.tree.map(lambda a, i=i: a[:, i : i + 1], jax.device_get(cache)) for i in range(len(pieces))]
        ended = zip(prefixes, after, at + lengths, tokens.tolist(), lengths)
        return [Prefix(new, int(end), token) if n else old for old, new, end, token, n in ended][:texts]

    def cut(self, prefix: Prefix, block: int, start: int = 0) -> list:
        """The keys and values of each whole block of a prefix, from block number `start` on, as a prefix tree holds them."""
        self._keeps_all()
        whole = jax.tree.map(np.asarray, prefix.cache)
        ends = range((start + 1) * block, prefix.length + 1, block)
        return [jax.tree.map(lambda a, end=end: a[:, :, end - block : end].copy(), whole) for end in ends]

    def join(self, blocks: list) -> Prefix:
        """The prefix that these blocks are the beginning of. It needs one more token before it can be inserted."""
        self._keeps_all()
        cache, at = jax.tree.map(np.array, self.nothing().cache), 0
        for kept in blocks:
            n = jax.tree.leaves(kept)[0].shape[2]
            jax.tree.map(
                lambda a, b, at=at, n=n: a.__setitem__((slice(None), slice(None), slice(at, at + n)), b), cache, kept
            )
            at += n
        return Prefix(cache, at)

    def bytes(self, prefix: Prefix) -> int:
        """Bytes of the keys and values of its tokens: what goes over the network to another engine."""
        return sum(a.nbytes // a.shape[2] * min(prefix.length, a.shape[2]) for a in jax.tree.leaves(prefix.cache))

    def _is_slot(self, slot: int) -> None:
        if not 0 <= slot < self.slots:
            raise ValueError(f"there is no slot {slot}: they are 0 to {self.slots - 1}")

    def _keeps_all(self) -> None:
        if self.page is None and any(self.c.kind(i).window for i in range(self.c.L)):
            raise ValueError("a ring forgets what left its window, so texts cannot share their beginning: take pages")


@partial(jax.jit, static_argnums=0)
def _read(c, params, cache, tokens, at, lengths):
    logits, cache = rows.extend(params, cache, tokens, at, c, lengths)
    last = jnp.maximum(lengths - 1, 0)[:, None, None]
    return jnp.take_along_axis(logits, last, 1)[:, 0].argmax(-1), cache


@jax.jit
def _insert(state, cache, length, token, slot):
    return _start(state, length, token, slot)._replace(cache=rows.insert(state.cache, cache, slot))


@jax.jit
def _insert_pages(state, cache, length, token, slot, table):
    """The prefix is cut into pages, and each goes to its place in the pool; those that have none there are dropped."""

    def put(pool, a):
        pages, page, P = *pool.shape[1:3], len(table)
        whole = jnp.pad(a[:, 0], [(0, 0), (0, P * page - a.shape[2])] + [(0, 0)] * (a.ndim - 3))
        return pool.at[:, jnp.where(table < 0, pages, table)].set(whole.reshape(-1, P, *pool.shape[2:]), mode="drop")

    state = _start(state, length, token, slot)
    return state._replace(
        cache=jax.tree.map(put, state.cache, cache), tables=jnp.asarray(state.tables).at[slot].set(table)
    )


def _start(state, length, token, slot):
    at, tokens, used = (jnp.asarray(a) for a in (state.at, state.token, state.used))
    return state._replace(at=at.at[slot].set(length), token=tokens.at[slot].set(token), used=used.at[slot].set(True))


@partial(jax.jit, static_argnums=0)
def _generate(c, params, state):
    used, said = state.used, state.token[:, None]
    if state.tables is None:
        logits, cache = rows.extend(params, state.cache, said, state.at, c, lengths=used.astype(jnp.int32))
    else:
        logits, cache = paged_kv_cache.extend(
            params, state.cache, state.tables, said, state.at, c, lengths=used.astype(jnp.int32)
        )
    token = jnp.where(used, logits[:, 0].argmax(-1).astype(jnp.int32), -1)
    return state._replace(cache=cache, at=state.at + used, token=jnp.where(used, token, state.token)), token
