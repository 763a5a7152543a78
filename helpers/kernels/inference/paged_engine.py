"""An engine over pages: one pass reads what is new of each sequence, a piece of a prompt or one token (chapter 5).

    engine = PagedEngine(c, slots=4, size=64, chunk=8, page=4, pages=40)
    pool = engine.empty()
    logits, pool = engine.extend(params, pool, [Row(tokens, at=0, table=[7, 2])])     # after each row's last token

The pool goes in and comes out; the engine itself is sizes and nothing else. A sequence has no place of its own in it but its
pages, so it can stop at any step and go on in another row. Whose pages are whose is `paged_batching`'s business.

Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention" (2023); Agrawal et al.,
"Sarathi-Serve" (2024) for passes with prompts and tokens in them.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

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


@dataclass(frozen=True)
class PagedEngine:
    """`slots` rows in a pass, of at most `chunk` new tokens each; `pages` of `page` tokens for sequences of up to `size`."""

    c: Config
    slots: int
    size: int
    chunk: int
    page: int
    pages: int

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, in all layers."""
        return paged_kv_cache.page_bytes(jax.eval_shape(self.empty))

    def empty(self) -> list[dict]:
        return paged_kv_cache.empty(self.c, self.pages, self.page)

    def room(self, prompt: int, n: int) -> None:
        """ValueError, with the reason, if a prompt of so many tokens and n after it can never be served."""
        kv_cache.room(self.c, self.size, prompt, n)

    def extend(self, params, pool, rows: Sequence[Row]):
        """(logits[rows, V] after the last token of each row, the pool with all of them): one pass of the model.

        It is as wide as its longest row needs: 1 if each has one token, else `chunk`. So there are two programs in all.
        """
        if len(rows) > self.slots or any(not 1 <= len(row.tokens) <= self.chunk for row in rows):
            raise ValueError(
                f"a pass has {self.slots} rows of 1 to {self.chunk} tokens, got {[len(row.tokens) for row in rows]}"
            )
        if any(len(row.table) * self.page < row.at + len(row.tokens) for row in rows):
            raise ValueError("a row has more tokens than its pages have places: append to it first")
        T = self.chunk if any(len(row.tokens) > 1 for row in rows) else 1
        tokens, tables = np.zeros((self.slots, T), np.int32), np.full((self.slots, -(-self.size // self.page)), -1)
        at, lengths = np.zeros((2, self.slots), np.int32)
        for i, row in enumerate(rows):
            at[i], lengths[i] = row.at, len(row.tokens)
            tokens[i, : len(row.tokens)], tables[i, : len(row.table)] = row.tokens, row.table
        logits, pool = _extend(self.c, params, pool, tables, tokens, at, lengths)
        return np.asarray(logits)[: len(rows)], pool

    # Pages alone, without the model.
    copy = staticmethod(paged_kv_cache.copy)
    take = staticmethod(paged_kv_cache.take)
    put = staticmethod(paged_kv_cache.put)


@partial(jax.jit, static_argnums=0)
def _extend(c, params, pool, tables, tokens, at, lengths):
    logits, pool = paged_kv_cache.extend(params, pool, tables, tokens, at, c, lengths)
    return jnp.take_along_axis(logits, jnp.maximum(lengths - 1, 0)[:, None, None], 1)[:, 0], pool


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
