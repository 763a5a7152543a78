"""A weight-stationary systolic array, simulated cycle by cycle (chapter 1).

K x N processing elements (PEs), each wired only to its neighbours.
PE[k, n] holds one weight W[k, n]. In every cycle it
  takes an activation from its left neighbour and a partial sum from the one above,
  adds weight times activation to the sum,
  and passes the activation to the right and the sum down, where they arrive one cycle later.
Row b of X enters from the left, element k into row k of the array, k cycles late: the rows come in as a diagonal.
The finished sums Out[b, n] leave at the bottom of column n.

Every PE has a second register, in which the next weights slide down while the present ones are in use. A mark on the
first row of the next matmul tells each PE to swap, so the change of weights crosses the array as a diagonal too.

Source: Kung, "Why systolic architectures?" (1982); Austin et al. 2025, Section 2, Appendix B.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count

import numpy as np

IDLE = -1


@dataclass(frozen=True)
class Frame:
    """The array at the end of one cycle; each field has shape [K, N] unless it says otherwise.

    cycle        counted from 0
    weight       the weight that each PE uses
    activation   what it multiplied by in this cycle; nan where idle
    partial      the sum that it hands down; nan where idle
    row          which row of X that is, counted through all matmuls; IDLE where idle
    loading      True where a weight of the next matmul moved in during this cycle
    finished     ((row, column), value) of the results that left at the bottom in this cycle
    """

    cycle: int
    weight: np.ndarray
    activation: np.ndarray
    partial: np.ndarray
    row: np.ndarray
    loading: np.ndarray
    finished: tuple[tuple[tuple[int, int], float], ...]

    @property
    def busy(self) -> float:
        """The share of PEs that did a useful multiply-add."""
        return float(np.mean(self.row != IDLE))


@dataclass(frozen=True)
class Run:
    """What a run of the array gave: one result for each matmul, and how many cycles all of them took.

    utilization is the share of PE-cycles that did a useful multiply-add.
    """

    results: tuple[np.ndarray, ...]
    cycles: int
    utilization: float


def starts(rows: Sequence[int], K: int) -> list[int]:
    """The cycle in which the first element of each matmul enters the array; a matmul has rows[i] rows.

    A matmul follows the one before it without a gap, unless that one has fewer than K rows: new weights slide in from
    the top in K cycles and cannot start before the old ones have been swapped in.

    >>> starts([8, 8, 2, 8], K=4)
    [0, 8, 16, 20]
    """
    return [0, *accumulate(max(b, K) for b in rows[:-1])]


def cycles(rows: Sequence[int], K: int, N: int) -> int:
    """Cycles that a K x N array needs for matmuls X_i[rows[i], K] @ W_i[K, N], one after the other.

    The first weights are there at the start. Element k of row b enters PE[k, 0] in cycle start + b + k and meets PE[k, n] in cycle
    start + b + k + n. The last result is that of the last row at the corner PE[K-1, N-1], in cycle start + (rows - 1) + (K - 1) +
    (N - 1). Counting from 0, that makes start + rows + K + N - 2 cycles: `rows` of work, and K + N - 2 to fill the array once. A
    second matmul adds its rows and nothing else, as long as the first has K rows to hide the second's weights behind.

    >>> cycles([128], 128, 128), cycles([128, 128], 128, 128)
    (382, 510)
    """
    return starts(rows, K)[-1] + rows[-1] + K + N - 2


def run(*matmuls: tuple[np.ndarray, np.ndarray]) -> Run:
    """Send (X, W) pairs through the array one after the other and collect the results.

    X[B, K] may differ in B; every W[K, N] has the shape of the array.

    >>> X, W = np.arange(6).reshape(3, 2), np.arange(8).reshape(2, 4)
    >>> r = run((X, W))
    >>> bool(np.array_equal(r.results[0], X @ W)), r.cycles
    (True, 7)
    """
    Xs, Ws = _checked(matmuls)
    out = np.zeros((sum(map(len, Xs)), Ws[0].shape[1]), np.result_type(*Xs, *Ws))
    busy = []
    for frame in frames(*matmuls):
        busy.append(frame.busy)
        for at, value in frame.finished:
            out[at] = value
    return Run(tuple(np.split(out, np.cumsum([len(X) for X in Xs])[:-1])), len(busy), float(np.mean(busy)))


def frames(*matmuls: tuple[np.ndarray, np.ndarray]) -> Iterator[Frame]:
    """The same run, one Frame for each cycle, until the last result has left."""
    Xs, Ws = _checked(matmuls)
    K, N = Ws[0].shape
    rows = [len(X) for X in Xs]
    begin, first = starts(rows, K), np.cumsum([0, *rows])
    k, n = np.arange(K)[:, None], np.arange(N)[None, :]

    active = Ws[0].astype(np.result_type(*Ws))
    shadow = np.zeros_like(active)
    x, p = np.zeros((K, N), np.result_type(*Xs)), np.zeros((K, N), np.result_type(*Xs, *Ws))
    row, swap = np.full((K, N), IDLE), np.zeros((K, N), bool)
    left = 0
    for t in count():
        # Activations, their row numbers and swap marks move one PE to the right; new ones enter at the left edge.
        x, row, swap = _right(x, 0), _right(row, IDLE), _right(swap, False)
        for i, X in enumerate(Xs):
            b = t - begin[i] - np.arange(K)
            inside = (b >= 0) & (b < rows[i])
            x[inside, 0], row[inside, 0] = X[b[inside], np.flatnonzero(inside)], first[i] + b[inside]
            swap[:, 0] |= (b == 0) & (i > 0)
        active = np.where(swap, shadow, active)
        shadow, loading = _load(shadow, Ws, begin, t, k, n)
        # Sums move one PE down; the top row starts from nothing.
        p = np.vstack([np.zeros((1, N), p.dtype), p[:-1]]) + active * x
        done = tuple(((int(row[-1, c]), c), p[-1, c].item()) for c in np.flatnonzero(row[-1] != IDLE))
        idle = row == IDLE
        yield Frame(t, active.copy(), np.where(idle, np.nan, x), np.where(idle, np.nan, p), row.copy(), loading, done)
        left += len(done)
        if left == sum(rows) * N:
            return


def _load(shadow, Ws, starts, t, k, n):
    """One cycle of the second registers: where matmul i's weights are on their way, everything moves one PE down.

    Its weights enter column n from the top in the K cycles before its first activation gets there, bottom row first.
    Row k joins in when the first weight reaches it, k cycles later, by which time it has swapped out its old one.
    """
    K = shadow.shape[0]
    moving = np.zeros(shadow.shape, bool)
    above = np.vstack([np.zeros((1, shadow.shape[1]), shadow.dtype), shadow[:-1]])
    for i in range(1, len(Ws)):
        since = t - (starts[i] - K + n[0])  # cycles since this column began to load
        entering = (since >= 0) & (since < K)
        above[0, entering] = Ws[i][K - 1 - since[entering], n[0, entering]]
        moving |= (k <= since) & (since < K)
    return np.where(moving, above, shadow), moving


def _right(a, edge):
    """Every value one PE to the right, `edge` at the left."""
    return np.hstack([np.full((a.shape[0], 1), edge, a.dtype), a[:, :-1]])


def _checked(matmuls):
    Xs, Ws = ([np.asarray(m[i]) for m in matmuls] for i in (0, 1))
    shapes = [(X.shape, W.shape) for X, W in zip(Xs, Ws, strict=True)]
    fits = [len(x) == len(w) == 2 and x[1] == w[0] and w == shapes[0][1] and 0 not in x + w for x, w in shapes]
    if not shapes or not all(fits):
        raise ValueError(f"matmuls are X[B, K] and W[K, N], with one K and N for all and no empty side, not {shapes}")
    return Xs, Ws
