"""On which part of an argument a wrong result depends, or does not, other than it should: the program and the function that it should
be are asked for other arguments. What is said is so of these numbers, and holds none of them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np

from helpers.costs.sharding.sharded_array import Sharding

LISTED = 4  # places that are named one by one
NEARLY = 0.1  # of the largest number: what is off by less comes of another function or of fewer bits, hardly of another place
LINEAR = 1e-3  # up to here a part of its size is rounding
PARTS = 24  # of an argument that are looked at, the whole and devices first: 2 s of a processor in all, and the same for everybody
PATIENCE = 10  # seconds of this thread, for slower programs: those that devices take and wait are not among them


def place(device: int, sizes: dict[str, int]) -> str:
    """Where a device stands in a mesh.

    >>> place(1, {"X": 4, "Y": 2})
    'X = 0, Y = 1'
    """
    return ", ".join(f"{a} = {i}" for a, i in zip(sizes, np.unravel_index(device, list(sizes.values()))))


def places(off: np.ndarray) -> str:
    """Where along one dimension those stand that are off, if they stand together or are few; else "".

    >>> places(np.array([[False, False, False], [False, True, True]]))
    'they stand at 1 of 2 along dimension 0'
    """
    for d, n in enumerate(off.shape):
        some = np.flatnonzero(off.any(tuple(k for k in range(off.ndim) if k != d)))
        few, run = len(some) <= LISTED, some[-1] - some[0] + 1 == len(some)
        if len(some) < n and (few or run):
            where = f"{some[0]} to {some[-1]}" if run and len(some) > 2 else listed(map(str, some))
            return f"they stand at {where} of {n} along dimension {d}"
    return ""


def listed(texts: Iterable[str]) -> str:
    """The first of these, and how many more there are."""
    texts = list(texts)
    return "; ".join(texts[:LISTED]) + (f" and {len(texts) - LISTED} more" if len(texts) > LISTED else "")


def common_factor(got, wanted) -> float:
    """The factor by which all numbers are off, if they are by one; 0 where there is nothing to compare."""
    g, w = np.ravel(got), np.ravel(wanted)
    return float(g @ w / (w @ w)) if np.any(w) and np.isfinite([g, w]).all() else 0.0


@dataclass(frozen=True)
class Asked:
    """The program that gives a wrong result, and the function of whole arrays that it should be, to be asked for other arguments.

    cuts  how the arguments and the result are cut over mesh axes of these sizes; `index` says what each device has of them
    free  zeros among the arguments need not stay zeros
    """

    run: Callable
    ours: Callable
    arrays: Sequence[np.ndarray]
    cuts: Sequence[Sharding]
    index: Sequence[Sequence[tuple]]
    sizes: dict[str, int]
    free: bool

    def unread(self) -> str:
        """An argument in which the result is linear and should not be, or a part of one that a piece of it does not depend on and
        should; or the other way round; "" if none is found."""
        with suppress(Exception):
            return next(self._dependence(), "")
        return ""

    def _dependence(self) -> Iterator[str]:
        until = time.thread_time() + PATIENCE
        apart = lambda x, y, size: np.abs(x - y).max(initial=0) / np.abs(size).max(initial=1e-30)  # noqa: E731
        both = lambda k, x: [f(*self.arrays[:k], x, *self.arrays[k + 1 :]) for f in (self.run, self.ours)]  # noqa: E731
        for k, array in (real := [(k, array) for k, array in enumerate(self.arrays) if array.dtype.kind == "f"]):
            at = {by: both(k, by * array) for by in (-1, 0, 1, 2)}
            bent = [max(apart(at[n - 1][i] + at[n + 1][i], 2 * at[n][i], at[1][i]) for n in (0, 1)) for i in (0, 1)]
            if min(bent) < LINEAR and max(bent) > NEARLY:
                lacks = bent[0] < bent[1]
                yield f" It is {'' if lacks else 'not '}linear in {self.cuts[k].name}, and should {'not ' if lacks else ''}be."
        before = both(0, self.arrays[0])
        pieces, noise, later = self._parts(-1, before[1]), np.random.default_rng(0), []
        for k, array, part, index in [(i, x, *part) for i, x in real for part in self._parts(i, x)[:PARTS]]:
            if time.thread_time() > until:
                break
            here, some = (
                np.zeros(array.shape, bool),
                100 * noise.standard_normal(array.shape),
            )  # a relu lets one sign through
            here[index] = self.free | (array[index] != 0)
            after = [both(k, np.where(here, x, array).astype(array.dtype)) for x in (3 - array, some, -some)]
            for (piece, at), i in product(pieces, (0, 1)):
                stays = all((x[i][at] == before[i][at]).all() for x in after)
                if stays and apart(after[0][1 - i][at], before[1 - i][at], before[1 - i][at]) > NEARLY:
                    if i == 0:
                        yield f" There {piece} does not depend on {part}, and should."
                    later.append(f" There {piece} depends on {part}, and should not.")
        yield from later

    def _parts(self, k: int, array: np.ndarray) -> list[tuple[str, tuple]]:
        """An array, what each device has of it, some indices of each dimension, and of those that are whole these on each device."""
        cut, mine = self.cuts[k], {}
        for i, index in enumerate(self.index[k]):
            mine.setdefault(str(index), (f" of the device at {place(i, self.sizes)}", index))
        places = [("", (slice(None),) * array.ndim), *[place for place in mine.values() if len(mine) > 1]]
        inside = [
            (f"{where} at {cut.dims[d]} = {i}", (*at[:d], i, *at[d + 1 :]))
            for where, at in places
            for d, n in enumerate(array.shape)
            for i in sorted({0, n // 2, n - 1})
            if n > 1 and not (where and cut.axes[d])
        ]
        return [(cut.name + where, at) for where, at in places + inside]
