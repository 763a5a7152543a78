"""An engine that serves several sequences at once, over a pool of pages: prefill, insert, generate (chapter 5).

    engine = Engine(c, slots=4, size=64, chunk=8, page=4, pages=40)
    state = engine.empty()
    prefix = engine.prefill(params, prompt)                      # keys and values of the prompt, and the token after it
    state = engine.insert(prefix, state, slot=2, table=[7, 2])   # the other slots stay as they are, bit for bit
    state, tokens = engine.generate(params, state)               # one more token for each slot in use
    state = engine.free(state, slot=2)

All three are one pass of the model, over what is new of each sequence, a piece of a prompt or one token:

    logits, pool = engine.extend(params, pool, [Row(tokens, at=0, table=[7, 2])])    # after each row's last token

State and pool go in and come out; the engine itself is sizes and nothing else. A sequence has no place of its own in the pool but
its pages, so it can stop at any step and go on in another row. Who waits, who comes next, where a prefix is computed and whose
pages are whose is decided elsewhere: `continuous_batching`, `paged_batching`.

Source: Google, "JetStream" (2024) for the interface; Kwon et al., "Efficient memory management for large language model serving
with PagedAttention" (2023) for pages; Agrawal et al., "Sarathi-Serve" (2024) for passes with prompts and tokens in them.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from helpers.costs.transformers.config import Config

from . import kv_cache, paged_kv_cache


class Row(NamedTuple):
    """The next tokens of a sequence, the first of them at position `at`, and its pages."""

    tokens: Sequence[int]
    at: int
    table: Sequence[int]


class Prefix(NamedTuple):
    """A sequence by itself: pages of its own, in order, how many tokens are in them, the likeliest token after these."""

    cache: Any
    length: int = 0
    token: int = -1


class State(NamedTuple):
    """The pool, and what is in the slots: positions [slots] of the next tokens, these tokens, which slots are in use, and the
    pages of each, [slots, P], -1 where it has none."""

    cache: Any
    at: np.ndarray
    token: np.ndarray
    used: np.ndarray
    tables: np.ndarray


@dataclass(frozen=True)
class Engine:
    """`slots` rows in a pass, of at most `chunk` new tokens each; `pages` of `page` tokens for sequences of up to `size`."""

    c: Config
    slots: int
    size: int
    page: int
    pages: int
    chunk: int = 8

    @property
    def width(self) -> int:
        """Pages that one sequence may come to."""
        return -(-self.size // self.page)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, in all layers."""
        return paged_kv_cache.page_bytes(jax.eval_shape(self.empty_pool))

    def empty_pool(self) -> list[dict]:
        return paged_kv_cache.empty(self.c, self.pages, self.page)

    def empty(self) -> State:
        zeros = np.zeros(self.slots, np.int32)
        return State(self.empty_pool(), zeros, zeros, zeros.astype(bool), np.full((self.slots, self.width), -1))

    def room(self, prompt: int, n: int = 0) -> None:
        """ValueError, with the reason, if a prompt of so many tokens and n after it can never be served."""
        kv_cache.room(self.c, self.size, prompt, n)

    # One pass.

    def extend(self, params, pool, rows: Sequence[Row]):
        """(logits[rows, V] after the last token of each row, the pool with all of them): one pass of the model.

        It is as wide as its longest row needs: 1 if each has one token, else `chunk`. So there are two programs in all.
        """
        T = self.chunk if any(len(row.tokens) > 1 for row in rows) else 1
        return self._extend(params, pool, rows, self.slots, T)

    def _extend(self, params, pool, rows: Sequence[Row], B: int, T: int):
        tokens, tables = np.zeros((B, T), np.int32), np.full((B, self.width), -1)
        at, lengths = np.zeros((2, B), np.int32)
        for i, row in enumerate(rows):
            at[i], lengths[i] = row.at, len(row.tokens)
            tokens[i, : len(row.tokens)], tables[i, : len(row.table)] = row.tokens, row.table
        logits, pool = _extend(self.c, params, pool, tables, tokens, at, lengths)
        return np.asarray(logits)[: len(rows)], pool

    # Pages alone, without the model.
    copy = staticmethod(paged_kv_cache.copy)
    take = staticmethod(paged_kv_cache.take)
    put = staticmethod(paged_kv_cache.put)

    # The interface.

    def prefill(self, params, tokens: Sequence[int]) -> Prefix:
        """The prefix of a whole prompt."""
        self.room(len(tokens))
        prefix = self.nothing()
        while prefix.length < len(tokens):
            piece = tokens[prefix.length : prefix.length + self.chunk]
            prefix = self.read_together(params, [prefix], [piece])[0]
        return prefix

    def insert(self, prefix: Prefix, state: State, slot: int, table: Sequence[int]) -> State:
        """The state with a sequence in one more slot; its next token is the one that the prefix ends with.

        table   its pages, in order, with room for all the tokens that it may come to
        """
        if state.used[slot]:
            free = np.flatnonzero(~state.used).tolist()
            raise ValueError(f"slot {slot} is in use: insert into a free one, {free}, or free it first")
        table = [*table]
        if len(table) > self.width or len(table) * self.page < prefix.length:
            least, most = -(-prefix.length // self.page), self.width
            raise ValueError(f"{prefix.length} tokens need {least} to {most} pages of {self.page}, got {len(table)}")
        at, token, used, tables = (a.copy() for a in state[1:])
        at[slot], token[slot], used[slot] = prefix.length, prefix.token, True
        tables[slot] = table + [-1] * (self.width - len(table))
        return State(_insert(state.cache, prefix.cache, tables[slot]), at, token, used, tables)

    def generate(self, params, state: State) -> tuple[State, np.ndarray]:
        """(the state, tokens[slots]): the likeliest token after each slot's last one; -1 for a slot that is not in use."""
        full = np.flatnonzero(state.used & (state.at >= (state.tables >= 0).sum(1) * self.page))
        if len(full):
            raise ValueError(f"slots {full.tolist()} are full: end their texts, or give them more room from the start")
        slots = np.flatnonzero(state.used)
        rows = [Row(state.token[[slot]], state.at[slot], state.tables[slot]) for slot in slots]
        logits, pool = self._extend(params, state.cache, rows, self.slots, 1)
        tokens = np.full(self.slots, -1, np.int32)
        tokens[slots] = logits.argmax(-1)
        token = np.where(state.used, tokens, state.token)
        return state._replace(cache=pool, at=state.at + state.used, token=token), tokens

    def free(self, state: State, slot: int) -> State:
        if not state.used[slot]:
            raise ValueError(f"slot {slot} is not in use: only a slot that holds a text can be freed")
        used, tables = state.used.copy(), state.tables.copy()
        used[slot], tables[slot] = False, -1
        return state._replace(used=used, tables=tables)

    # Parts of a prefix.

    def nothing(self) -> Prefix:
        """The prefix of no tokens."""
        return Prefix(paged_kv_cache.empty(self.c, self.width, self.page))

    def read_together(self, params, prefixes: list[Prefix], pieces: list[Sequence[int]]) -> list[Prefix]:
        """The prefixes with the next tokens of their sequences, up to `chunk` of each: one pass over all of them."""
        B = 1 if len(pieces) == 1 else self.slots  # so that there are two programs, however many are read together
        caches = [prefix.cache for prefix in prefixes] + [self.nothing().cache] * (B - len(pieces))
        pool = jax.tree.map(lambda *pools: np.concatenate(pools, 1), *caches)
        rows = [
            Row(piece, prefix.length, range(i * self.width, (i + 1) * self.width))
            for i, (prefix, piece) in enumerate(zip(prefixes, pieces))
        ]
        logits, pool = self._extend(params, pool, rows, B, self.chunk)
        pool, read = jax.device_get(pool), []
        for i, (row, prefix) in enumerate(zip(rows, prefixes)):
            own = jax.tree.map(lambda a, row=row: a[:, row.table[0] : row.table[-1] + 1], pool)
            read.append(Prefix(own, row.at + len(row.tokens), int(logits[i].argmax())) if len(row.tokens) else prefix)
        return read

    def bytes(self, prefix: Prefix) -> int:
        """Bytes of the keys and values of its tokens: what goes over the network to another engine."""
        return prefix.length * self.page_bytes // self.page


@partial(jax.jit, static_argnums=0)
def _extend(c, params, pool, tables, tokens, positions, lengths):
    logits, pool = paged_kv_cache.extend(params, pool, tables, tokens, positions, c, lengths)
    return jnp.take_along_axis(logits, jnp.maximum(lengths - 1, 0)[:, None, None], 1)[:, 0], pool


@jax.jit
def _insert(pool, pages, table):
    """Each page of a prefix goes to its place in the pool; those that have none there are dropped."""

    put = lambda a, b: a.at[:, jnp.where(table < 0, a.shape[1], table)].set(b, mode="drop")  # noqa: E731
    return jax.tree.map(put, pool, pages)


# Which token comes next: (logits[V], the request's name, number of the sample, position of the token) -> token.


def greedy(logits, name: str, sample: int, position: int) -> int:
    return int(np.argmax(logits))


def sampler(temperature: float = 1.0, seed: int = 0) -> Callable:
    """Draws from softmax(logits / temperature), by adding Gumbel noise and taking the largest.

    The noise depends on the request, the sample and the position only: whoever shares the pass, and however often the
    sequence was interrupted, it gets the same tokens.
    """
    if temperature <= 0:
        raise ValueError(f"a temperature is above 0, not {temperature}: take `greedy` for the likeliest token")

    def choose(logits, name, sample, position):
        draw = np.random.default_rng([seed, zlib.crc32(name.encode()), sample, position])
        return int(np.argmax(logits / temperature + draw.gumbel(size=len(logits))))

    return choose
