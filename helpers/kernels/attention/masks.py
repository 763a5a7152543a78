"""What attention is given: masks as rules, as arrays, and as the blocks that they leave to compute; q, k and v in groups (chapter 6).

One polarity throughout: True where a query sees a key. (Flax and `jax.nn.dot_product_attention` have it too; code that fills
scores where a mask is True has the opposite, and `flipped` turns one into the other.) Scores that are not seen become -inf, not
0: a factor of 0 would leave them the weight e^0.

The last query stands at the last key: query t is at position t + S - T. So T = S is a prompt, T = 1 a step of generation.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.kernels import operands


@dataclass(frozen=True)
class Mask:
    """A rule; without arguments every query sees every key.

    causal   a query sees no key that stands after it
    window   it sees keys that are fewer than `window` places away, so `window` of them with itself if causal
    sinks    besides its window it sees the first `sinks` keys

    >>> print(Mask(causal=True, window=2, sinks=1).array(4, 4).astype(int))
    [[1 0 0 0]
     [1 1 0 0]
     [1 1 1 0]
     [1 0 1 1]]
    """

    causal: bool = False
    window: int | None = None
    sinks: int = 0

    def __post_init__(self):
        if self.causal not in (True, False):
            raise ValueError(f"causal is True or False, not {self.causal!r}")
        operands.whole(window=self.window)
        operands.whole(least=0, sinks=self.sinks)
        if self.sinks and self.window is None:
            raise ValueError(f"sinks are first keys seen besides a window: {self.sinks} sinks need one")

    def sees(self, query, key):
        """Whether the query at position `query` sees the key at position `key`; integers or arrays that broadcast."""
        apart = query - key
        near = apart == apart if self.window is None else (apart < self.window) & (apart > -self.window)
        seen = near | (key < self.sinks) if self.sinks else near
        return seen & (apart >= 0) if self.causal else seen

    def array(self, T: int, S: int) -> np.ndarray:
        """The rule written out, bool[T, S]."""
        return self.sees(np.arange(T)[:, None] + S - T, np.arange(S)[None, :])

    def reach(self, T: int, S: int) -> np.ndarray:
        """Which keys some query sees, bool[S].

        >>> Mask(causal=True, window=2, sinks=1).reach(1, 5).astype(int).tolist()
        [1, 0, 0, 1, 1]
        """
        where = np.arange(S)
        return np.ones(S, bool) if self.window is None else (where > S - T - self.window) | (where < self.sinks)

    def block(self, queries: range, keys: range) -> tuple[bool, bool]:
        """(some query of the range sees some key of the range, all see all), without looking at the pairs.

        Distances between two ranges are a range, so its ends decide. Sinks are looked at apart from the other keys.
        """
        first = range(keys.start, min(keys.stop, max(keys.start, self.sinks)))
        parts = [
            self._distances(queries, first, None),
            self._distances(queries, range(first.stop, keys.stop), self.window),
        ]
        parts = [p for p in parts if p is not None]
        return any(p[0] for p in parts), all(p[1] for p in parts)

    def _distances(self, queries: range, keys: range, window: int | None) -> tuple[bool, bool] | None:
        if not keys or not queries:
            return None
        least, most = queries.start - keys[-1], queries[-1] - keys.start
        low = 0 if self.causal else -(10**18) if window is None else 1 - window
        high = 10**18 if window is None else window - 1
        return least <= high and most >= low, low <= least and most <= high


CAUSAL = Mask(causal=True)
FULL = Mask()


class Block(NamedTuple):
    """Block (i, j): queries [i · rows, …) and keys [j · columns, …). `whole`: no pair of it is masked, nothing is cut off."""

    i: int
    j: int
    whole: bool


@dataclass(frozen=True)
class Plan:
    """T queries and S keys in blocks of `rows` by `columns`, which need not divide them; and which blocks are computed.

    skip   leave out blocks in which no query sees a key; else all are computed

    >>> plan = Plan(8, 8, 2, 2, CAUSAL); len(plan.blocks), sum(b.whole for b in plan.blocks), plan.scores
    (10, 6, 40)
    """

    T: int
    S: int
    rows: int
    columns: int
    mask: Mask = FULL
    skip: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Blocks of queries, blocks of keys."""
        return -(-self.T // self.rows), -(-self.S // self.columns)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks to compute, row after row."""
        return tuple(b for i in range(self.shape[0]) for b in self.row(i))

    @property
    def scores(self) -> int:
        """Scores that are computed, masked ones and padding in the blocks with them."""
        return len(self.blocks) * self.rows * self.columns

    def row(self, i: int) -> list[Block]:
        """The blocks of queries i."""
        first = i * self.rows
        at = range(first + self.S - self.T, min(first + self.rows, self.T) + self.S - self.T)
        out = []
        for j in range(self.shape[1]):
            where = range(j * self.columns, min((j + 1) * self.columns, self.S))
            some, every = self.mask.block(at, where)
            if some or not self.skip:
                out.append(Block(i, j, every and len(at) == self.rows and len(where) == self.columns))
        return out

    def sees(self, i, j, lengths=None):
        """The mask of block (i, j), bool[rows, columns], also inside of a kernel.

        lengths  the keys that a text has; of B texts [B], for bool[B, 1, 1, rows, columns]
        """
        row, column = (lax.broadcasted_iota(jnp.int32, (self.rows, self.columns), axis) for axis in (0, 1))
        where = j * self.columns + column
        seen = self.mask.sees(i * self.rows + row + self.S - self.T, where) & (where < self.S)
        if lengths is None:
            return seen
        return seen & (where < (lengths[:, None, None, None, None] if lengths.ndim else lengths))


def plan(T: int, S: int, rows: int, columns: int, mask: Mask = FULL, skip_masked: bool = True) -> Plan:
    """A Plan whose blocks are no larger than the sequences."""
    ruled(mask)
    operands.whole(rows=rows, columns=columns)
    return Plan(T, S, min(rows, max(T, 1)), min(columns, max(S, 1)), mask, skip_masked)


def ruled(mask) -> Mask:
    """The mask, if it is a rule; ValueError for an array, which only `dense_attention` takes."""
    if not isinstance(mask, Mask):
        raise ValueError("a rule is asked for, as Mask(causal=True): an array of T by S is what this form does without")
    return mask


def padding(lengths, S: int):
    """bool[B, 1, S]: of S places the first lengths[B] hold keys."""
    return (jnp.arange(S) < operands.lengths(lengths, np.shape(lengths)[0], S)[:, None])[:, None]


def flipped(hidden_mask):
    """Our polarity from the opposite one, which is True where a key is hidden."""
    return ~hidden_mask


def as_array(mask, B: int, N: int, T: int, S: int):
    """A mask as bool[B or 1, N or 1, T, S], from a Mask, from an array with 2, 3 or 4 axes, or from None.

    ValueError for a shape that does not fit, for numbers instead of truth values, and for the causal mask upside down.
    """
    if mask is None or isinstance(mask, Mask):
        return jnp.asarray((mask or FULL).array(T, S))[None, None]
    mask = mask if isinstance(mask, jax.Array) else np.asarray(mask)
    if mask.dtype != bool:
        raise ValueError(f"a mask is bool, True where a query sees a key; this is {mask.dtype}: compare it")
    wanted = {2: (T, S), 3: (B, T, S), 4: (B, N, T, S)}.get(mask.ndim, ())
    if not wanted or any(m not in (1, w) for m, w in zip(mask.shape, wanted)):
        shapes = f"[T, S] = {(T, S)}, [B, T, S] = {(B, T, S)} or [B, N, T, S] = {(B, N, T, S)}"
        raise ValueError(f"a mask of shape {mask.shape} does not fit the scores: make it {shapes}")
    known = not isinstance(mask, jax.core.Tracer) and mask.shape[-2:] == (T, S) and T * S > 1
    if known and (np.asarray(mask) == ~CAUSAL.array(T, S)).all():
        raise ValueError(
            "this mask shows each query the keys after it and hides the rest: True means seen, so pass ~mask"
        )
    return mask[:, None] if mask.ndim == 3 else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)


# Arrays as attention takes them, q[B, T, N, H], k and v[B, S, K, H], and as its blocks need them.
#
# Query head n belongs to KV head n // G with G = N / K. Queries go into groups, [B, K, G, T, H], and keys get an axis of length 1
# in the group's place, [B, K, 1, S, H], so that no key is ever repeated.


def check(q, k, v) -> None:
    """ValueError in one sentence if q, k and v are no operands of attention."""
    for name, x in dict(q=q, k=k, v=v).items():
        if not hasattr(x, "ndim"):
            raise ValueError(f"{name} is an array, not {x!r}")
    n = operands.fit({"q[B, T, N, H]": q, "k[B, S, K, H]": k, "v[B, S, K, V]": v})
    if n["K"] == 0 or n["N"] % n["K"]:
        raise ValueError(f"{n['K']} KV heads do not divide {n['N']} query heads: make N a multiple of K")
    if n["T"] == 0 or n["S"] == 0:
        raise ValueError(f"an empty sequence: attention needs a query and a key, not T = {n['T']} and S = {n['S']}")
    operands.real(q=q, k=k, v=v)


def checked(q, k, v, mask, lengths=None):
    """(k, v, lengths) after `check`: keys and values that no query sees are zeros, lengths an array or None.

    mask   a rule, `masks.Mask`: also where it leaves keys to nobody, as a window does to the first of many keys
    """
    check(q, k, v)
    T, S = q.shape[1], k.shape[1]
    lengths, there = operands.lengths(lengths, len(q), S), mask.reach(T, S)
    if lengths is None:
        there = None if there.all() else there
    else:
        there = there & (jnp.arange(S) < lengths[:, None])
    return operands.blank(k, there), operands.blank(v, there), lengths


def queries(x, K: int):
    """[B, T, N, H] -> [B, K, G, T, H]."""
    B, T, N, H = x.shape
    return x.reshape(B, T, K, N // K, H).transpose(0, 2, 3, 1, 4)


def keys(x):
    """[B, S, K, H] -> [B, K, 1, S, H]."""
    return x.transpose(0, 2, 1, 3)[:, :, None]


def tokens(x):
    """[B, K, G, T, H] -> [B, T, N, H]; of keys, [B, K, 1, S, H] -> [B, S, K, H]."""
    B, K, G, T, H = x.shape
    return x.transpose(0, 3, 1, 2, 4).reshape(B, T, K * G, H)


def cut(x, n: int):
    """[..., T, H] -> blocks[m, ..., n, H], the last one filled up with zeros."""
    *front, T, H = x.shape
    x = jnp.pad(x, [(0, 0)] * len(front) + [(0, -T % n), (0, 0)])
    return jnp.moveaxis(x.reshape(*front, -1, n, H), -3, 0)


def joined(x, T: int):
    """The blocks in a row again, what was filled up taken off: [m, ..., n, H] -> [..., T, H]."""
    x = jnp.moveaxis(x, 0, -3)
    return x.reshape(*x.shape[:-3], -1, x.shape[-1])[..., :T, :]
