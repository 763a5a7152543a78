"""On which part of an argument a wrong result depends, or does not, other than it should: the program and the function that it should
be are asked for other arguments. What is said is so of these numbers, and holds none of them.
"""

import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product

import numpy as np

from helpers.costs.sharding.sharded_array import Sharding

from . import compare
from .raised import brief

FEW = 3  # cases, before what holds in all of them says something
LISTED = 4  # places that are named one by one
NEARLY = 0.1  # of the largest number: what is off by less comes of another function or of fewer bits, hardly of another place
LINEAR = 1e-3  # up to here a part of its size is rounding
PARTS = 24  # of an argument that are looked at, the whole and devices first: 2 s of a processor in all, and the same for everybody
PATIENCE = 10  # seconds of this thread, for slower programs: those that devices take and wait are not among them


@dataclass(frozen=True)
class Case:
    """What an answer was asked, what it gave, and what is right; `right` once the two were compared."""

    args: Mapping[str, object]
    got: object
    expected: object
    right: bool = False


LISTS = {
    "{} in reverse order": lambda x: x[::-1], "the first of {} alone": lambda x: x[:1], "the last of {} alone": lambda x: x[-1:],
    "the first two of {} alone": lambda x: x[:2], "{} without the first": lambda x: x[1:], "{} without the last": lambda x: x[:-1],
}  # fmt: skip
NUMBERS = {"{} + 1": lambda x: x + 1, "{} - 1": lambda x: x - 1}
ARRAYS = {"{} transposed": np.transpose, "the sign of {} changed": np.negative, "zeros in place of {}": np.zeros_like}
"""What an argument may have been taken for."""


def as_if(cases: Sequence[Case], is_alike: Callable, reference: Callable, min_cases: int = FEW) -> str | None:
    """Other arguments for which all that came would be right: one in another's place, one more, a part, another order.

    is_alike   whether what came is what `reference` gives for other arguments
    min_cases  wrong cases in which it has to be
    """
    asked = [opened_args(case.args) for case in cases]
    counts = [name for name, value in asked[0].items() if not isinstance(value, float)]  # what loops run over
    sizes = {name: [size_of(args.get(name)) for args in asked] for name in counts}
    spans = {name: (min(known), max(known)) for name, known in sizes.items() if None not in known}
    reference = brief(reference)

    def is_right(case: Case, edit: Callable) -> bool | None:
        """Whether what came is right for the changed arguments; None where these do not go together."""
        try:
            changed = edit(opened_args(compare.copied(dict(case.args))))
            if not all(low <= size_of(changed[name]) <= high for name, (low, high) in spans.items()):
                return None  # a loop may take long, or have no end
            return bool(is_alike(case.got, reference(**_as_given(changed, case.args))))
        except TimeoutError:
            return False
        except Exception:
            return None

    wrong_first = sorted(cases, key=lambda case: case.right)
    enough = max(min_cases, sum(not case.right for case in cases) / 2)
    for text, change in _changes(asked):
        matches = 0
        for case in wrong_first:
            if (right := is_right(case, change)) is False:
                break
            matches += bool(right) and not case.right
        else:
            if matches >= enough:
                return f"it is what a right answer gives with {text}"
    return None


def _as_given(opened_args: Mapping, args: Mapping) -> dict:
    """Opened arguments in the form of `args` again."""
    inside = lambda value: {name: opened_args.get(name, x) for name, x in value.items()}  # noqa: E731
    return {name: opened_args[name] if name in opened_args else inside(value) for name, value in args.items()}


def _changes(cases: Sequence[dict]) -> Iterator[tuple[str, Callable]]:
    """What arguments may have been taken for: in words, and as a function of them."""
    form = lambda x: is_number(x) or getattr(x, "shape", None) or isinstance(x, str | tuple | list) and type(x)  # noqa: E731
    names = [name for name, value in cases[0].items() if form(value) and all(name in args for args in cases)]
    for name, other in permutations(names, 2):
        if any(form(args[name]) != form(args[other]) for args in cases):
            continue
        yield f"{other} in place of {name}", lambda args, name=name, other=other: args | {name: args[other]}
        both = lambda args, name=name, other=other: args | {name: args[other], other: args[name]}  # noqa: E731
        looped = [isinstance(args[n], int) for args in cases for n in (name, other)]  # loops run over whole numbers
        if name < other and not any(looped):
            yield f"{name} and {other} exchanged", both
    for name, value in cases[0].items():
        if isinstance(value, bool):
            yield f"the opposite of {name}", lambda args, name=name: args | {name: not args[name]}
        for text, way in _ways(value).items():
            yield text.format(name), lambda args, name=name, way=way: args | {name: way(args[name])}
            if isinstance(value, tuple | list):
                every = lambda args, name=name, way=way: args | {name: type(args[name])(map(way, args[name]))}  # noqa: E731
                yield text.format(f"each entry of {name}"), every


def _ways(value) -> dict[str, Callable]:
    """What a value like this may have been taken for."""
    if not getattr(value, "shape", ()):
        return NUMBERS if is_number(value) else LISTS if isinstance(value, str | tuple | list) else {}
    ways = dict(ARRAYS)
    for j, size in enumerate(value.shape):
        ways[f"{{}} in reverse order along dimension {j}"] = partial(np.flip, axis=j)
        ways[f"{{}} one place on along dimension {j}"] = partial(np.roll, shift=1, axis=j)
        for n in (n for n in range(2, size // 2 + 1) if size % n == 0):
            order = np.arange(size).reshape(n, -1).T.ravel()
            dealt = f"{{}} in another order along dimension {j}, as if {n} blocks were dealt in turn"
            ways[dealt] = partial(np.take, indices=order, axis=j)
    return ways


def is_number(x) -> bool:
    """Whether something is a number that a float holds."""
    return isinstance(x, numbers.Real | np.number) and not isinstance(x, bool) and abs(x) < 1e300


def opened_args(args: Mapping) -> dict:
    """Arguments, and in place of a dict of plain numbers and texts what it holds: a model's D is an argument like others.

    >>> opened_args({"t": 4, "model": {"D": 64, "F": 96}, "names": ["a"]})
    {'t': 4, 'D': 64, 'F': 96, 'names': ['a']}
    """
    opened: dict = {}
    for name, value in args.items():
        inside = isinstance(value, Mapping) and all(is_number(x) or isinstance(x, str) for x in value.values())
        opened |= {k: v for k, v in value.items() if k not in args} if inside else {name: value}
    return opened


def size_of(x) -> float | None:
    """A number as it is, of a list or a text how long it is."""
    if is_number(x):
        return float(x)
    return float(len(x)) if isinstance(x, str | tuple | list | Mapping) else None


def place(device: int, sizes: dict[str, int]) -> str:
    """Where a device stands in a mesh.

    >>> place(1, {"X": 4, "Y": 2})
    'X = 0, Y = 1'
    """
    return ", ".join(f"{a} = {i}" for a, i in zip(sizes, np.unravel_index(device, list(sizes.values()))))


def places(is_off: np.ndarray) -> str:
    """Where along one dimension those stand that are off, if they stand together or are few; else "".

    >>> places(np.array([[False, False, False], [False, True, True]]))
    'they stand at 1 of 2 along dimension 0'
    """
    for j, n in enumerate(is_off.shape):
        rows = np.flatnonzero(is_off.any(tuple(i for i in range(is_off.ndim) if i != j)))
        few, run = len(rows) <= LISTED, rows[-1] - rows[0] + 1 == len(rows)
        if len(rows) < n and (few or run):
            where = f"{rows[0]} to {rows[-1]}" if run and len(rows) > 2 else listed(map(str, rows))
            return f"they stand at {where} of {n} along dimension {j}"
    return ""


def listed(texts: Iterable[str]) -> str:
    """The first of these, and how many more there are."""
    texts = list(texts)
    return "; ".join(texts[:LISTED]) + (f" and {len(texts) - LISTED} more" if len(texts) > LISTED else "")


def common_factor(value, expected) -> float:
    """The factor by which all numbers are off, if they are by one; 0 where there is nothing to compare."""
    value, expected = np.ravel(value), np.ravel(expected)
    if not np.any(expected) or not np.isfinite([value, expected]).all():
        return 0.0
    return float(value @ expected / (expected @ expected))


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
        both = lambda k, x: [ask(*self.arrays[:k], x, *self.arrays[k + 1 :]) for ask in (self.run, self.ours)]  # noqa: E731
        for k, array in (real := [(k, array) for k, array in enumerate(self.arrays) if array.dtype.kind == "f"]):
            times = {n: both(k, n * array) for n in (-1, 0, 1, 2)}
            sums = [[times[n - 1][i] + times[n + 1][i] for n in (0, 1)] for i in (0, 1)]
            bent = [max(apart(sums[i][n], 2 * times[n][i], times[1][i]) for n in (0, 1)) for i in (0, 1)]
            if min(bent) < LINEAR and max(bent) > NEARLY:
                lacks = bent[0] < bent[1]
                yield f" It is {'' if lacks else 'not '}linear in {self.cuts[k].name}, and should {'not ' if lacks else ''}be."
        before = both(0, self.arrays[0])
        pieces, noise, later = self._parts(-1, before[1]), np.random.default_rng(0), []
        for k, array, part, index in [(i, x, *part) for i, x in real for part in self._parts(i, x)[:PARTS]]:
            if time.thread_time() > until:
                break
            moves, random = np.zeros(array.shape, bool), 100 * noise.standard_normal(array.shape)
            moves[index] = self.free | (array[index] != 0)
            others = 3 - array, random, -random  # a relu lets one sign through
            after = [both(k, np.where(moves, x, array).astype(array.dtype)) for x in others]
            for (piece, where), i in product(pieces, (0, 1)):
                stays = all((result[i][where] == before[i][where]).all() for result in after)
                if stays and apart(*(result[1 - i][where] for result in (after[0], before, before))) > NEARLY:
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
            (f"{where} at {cut.dims[j]} = {i}", (*index[:j], i, *index[j + 1 :]))
            for where, index in places
            for j, n in enumerate(array.shape)
            for i in sorted({0, n // 2, n - 1})
            if n > 1 and not (where and cut.axes[j])
        ]
        return [(cut.name + where, index) for where, index in places + inside]
