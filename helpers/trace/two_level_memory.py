"""A toy memory: schedules of attention that are walked step by step, every float between slow and fast memory counted.

Nothing is fast here. A schedule loads parts of arrays from a `Slow` memory, works on them with NumPy and stores parts again;
what it holds meanwhile must fit into a fast memory of M floats. So results, floats and footprint come from one run, and
`costs.attention.io_complexity` is held against them.

Arrays are one head of one sequence: Q[T, H], K and V[S, H]; scores are not scaled.
"""

from collections.abc import Callable, Iterator

import numpy as np


class Slow:
    """A large memory of arrays, and the floats that were read from it and written to it.

    M       floats that fast memory has room for; None: any number
    reads, writes
    held    floats in fast memory now; `most`, at the fullest moment

    >>> memory = Slow(M=8, x=np.arange(6.0))
    >>> x = memory.load("x", slice(0, 4))
    >>> memory.store("y", 2 * memory.keep(x), slice(0, 4), like=(6,))
    >>> memory.reads, memory.writes, memory.most, memory["y"][:4].tolist()
    (4, 4, 8, [0.0, 2.0, 4.0, 6.0])
    """

    def __init__(self, M: int | None = None, **arrays):
        self.M, self.reads, self.writes, self.held, self.most = M, 0, 0, 0, 0
        self._arrays = {name: np.array(a, float) for name, a in arrays.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        """An array, to look at it from outside: not counted."""
        return self._arrays[name]

    @property
    def moved(self) -> int:
        """Floats read and written."""
        return self.reads + self.writes

    def put(self, name: str, value) -> None:
        """An array that lies there before a kernel begins: not counted."""
        self._arrays[name] = np.array(value, float)

    def load(self, name: str, *index) -> np.ndarray:
        """Read a part of an array into fast memory: load("Q", slice(0, 4)) has rows 0 to 3, load("Q") all of it."""
        part = self._arrays[name][index].copy()
        self.reads += part.size
        return self.keep(part)

    def store(self, name: str, value, *index, like: tuple[int, ...] | None = None) -> None:
        """Write a part of an array; `like` makes one of that shape if there is none yet."""
        if name not in self._arrays:
            self._arrays[name] = np.full(np.shape(value) if like is None else like, np.nan)
        self._arrays[name][index] = value
        self.writes += np.size(value)

    def keep(self, value) -> np.ndarray:
        """Room in fast memory for something computed there; ValueError if there is too little."""
        self.held += np.size(value)
        self.most = max(self.most, self.held)
        if self.M is not None and self.held > self.M:
            raise ValueError(f"fast memory has room for {self.M:,} floats and would hold {self.held:,}: drop something")
        return value

    def drop(self, *values) -> None:
        """Give the room of these back."""
        self.held -= sum(np.size(v) for v in values)


def parts(n: int, size: int) -> Iterator[slice]:
    """n places in pieces of `size`, the last one perhaps shorter."""
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def rows_alone(memory: Slow, ins: tuple[str, ...], out: str, f: Callable, shape=None) -> None:
    """A kernel of its own: for each row, what `ins` have of it is read, and f of that written to `out`."""
    for i in range(len(memory[ins[0]])):
        values = [memory.load(name, i) for name in ins]
        memory.store(out, f(*values), i, like=shape or memory[ins[0]].shape)
        memory.drop(*values)


def softmax(memory: Slow, fused: bool = False) -> None:
    """P = softmax of S[T, S], without its largest score: three kernels, or one that holds a row."""
    if fused:
        return rows_alone(memory, ("S",), "P", lambda s: np.exp(s) / np.exp(s).sum())
    rows_alone(memory, ("S",), "E", np.exp)
    rows_alone(memory, ("E",), "l", np.sum, memory["S"].shape[:1])
    rows_alone(memory, ("E", "l"), "P", lambda e, n: e / n)


def softmax_in_passes(memory: Slow, kind: str = "online") -> None:
    """y = softmax of one row x, of which fast memory never has more than a number: "naive", "safe" or "online"."""

    def read():
        for i in range(len(memory["x"])):
            value = memory.load("x", i)
            memory.drop(value)
            yield value

    m, total = (0.0, 0.0) if kind == "naive" else (-np.inf, 0.0)
    if kind == "safe":
        m = max(read())
    for v in read():
        new = max(m, v) if kind == "online" else m
        total, m = total * (np.exp(m - new) if m > -np.inf else 0.0) + np.exp(v - new), new
    for i, v in enumerate(read()):
        memory.store("y", np.exp(v - m) / total, i, like=memory["x"].shape)


def product(memory: Slow, a: str, b: str, out: str, f: Callable) -> None:
    """A product whose operands are read once and whose result is written once, as a blocked matmul comes close to."""
    x, y = memory.load(a), memory.load(b)
    memory.store(out, f(x, y))
    memory.drop(x, y)


def standard(memory: Slow) -> None:
    """O and P of Q, K, V: scores, shares, result, each through slow memory."""
    product(memory, "Q", "K", "S", lambda q, k: q @ k.T)
    rows_alone(memory, ("S",), "P", lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum())
    product(memory, "P", "V", "O", np.matmul)


def flash(memory: Slow, R: int, C: int, version: int = 1) -> None:
    """O, and m and l (version 2: their logsum), of Q, K, V: blocks of R queries and C keys, none masked.

    version  1: keys outside, so O, l and m of every query are read and written again for each block of keys
             2: queries outside, so they stay
    """
    T, S = len(memory["Q"]), len(memory["K"])
    if version == 2:
        return _queries_outside(memory, R, C)
    memory.put("O", np.zeros((T, memory["V"].shape[1])))
    memory.put("l", np.zeros(T))
    memory.put("m", np.full(T, -np.inf))
    for c in parts(S, C):
        k, v = memory.load("K", c), memory.load("V", c)
        for r in parts(T, R):
            q, o, total, m = (memory.load(name, r) for name in ("Q", "O", "l", "m"))
            s = memory.keep(q @ k.T)
            here = s.max(-1)
            p = np.exp(s - here[:, None])
            new = np.maximum(m, here)
            a, b = np.exp(m - new), np.exp(here - new)
            sums = a * total + b * p.sum(-1)
            o = ((a * total)[:, None] * o + b[:, None] * (p @ v)) / sums[:, None]
            for name, value in (("O", o), ("l", sums), ("m", new)):
                memory.store(name, value, r)
            memory.drop(q, o, total, m, s)
        memory.drop(k, v)


def _queries_outside(memory: Slow, R: int, C: int) -> None:
    T, S = len(memory["Q"]), len(memory["K"])
    for r in parts(T, R):
        q = memory.load("Q", r)
        o = memory.keep(np.zeros((len(q), memory["V"].shape[1])))
        m, total = memory.keep(np.full(len(q), -np.inf)), memory.keep(np.zeros(len(q)))
        for c in parts(S, C):
            k, v = memory.load("K", c), memory.load("V", c)
            s = memory.keep(q @ k.T)
            new = np.maximum(m, s.max(-1))
            p, a = np.exp(s - new[:, None]), np.exp(m - new)
            o, total, m = a[:, None] * o + p @ v, a * total + p.sum(-1), new
            memory.drop(k, v, s)
        memory.store("O", o / total[:, None], r, like=(T, o.shape[1]))
        memory.store("logsum", m + np.log(total), r, like=(T,))
        memory.drop(q, o, m, total)
