"""How an answer is off that no named mistake explains: in which cases it is, by what factor or amount, and what it does not look at.

Nothing here knows an exercise. What is said holds in every case that was tried, and none of it is a number of a result.
"""

import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from itertools import combinations, permutations, product
from operator import getitem

import numpy as np

from . import compare
from .dependence import FEW, LISTED, Case, as_if, is_number, opened_args, size_of

SOME = 6  # cases in which an argument is exchanged
CAUSES = "an add counted as well as a multiply-add, or 2 bytes for 1"
FACTORS = {
    "that is exactly 8 times too much: bits where bytes are asked for?": 8,
    "that is exactly 8 times too little: bytes where bits are asked for?": 1 / 8,
    "that is 1000 times too much: which prefix?": 1e3,
    "that is 1000 times too little: which prefix, which unit of time?": 1e-3,
    "that is a million times too much: seconds are asked for, not microseconds?": 1e6,
    "that is a million times too little: which prefix?": 1e-6,
    "that is 1e9 times too much: which prefix?": 1e9,
    "that is 1e9 times too little: plain bytes and seconds are asked for, no prefix": 1e-9,
    "GiB for GB: here a GB is 1e9 bytes": 2**30 / 1e9,
    "GB for GiB: here a GiB is 2**30 bytes": 1e9 / 2**30,
    "the sign is wrong": -1,
}


def how_off(cases: Sequence[Case], rtol: float, learner=None, reference=None, twice: str | None = None) -> str | None:
    """A sentence without its full stop on what all wrong cases have in common, of their first wrong entry; None if nothing is known.

    learner  the answer, for other arguments in their order; `reference` gives what is right, for those by name, without it the cases do
    twice    what may have been counted twice where a value is off by exactly 2, "" if nothing can; with it, factors of units are told

    >>> area = [Case({"a": a, "b": b}, a * a, a * b) for a, b in ((3, 5), (3, 10), (3, 7), (4, 4))]
    >>> how_off(area, 1e-6, learner=lambda a, b: a * a, reference=lambda a, b: a * b)
    'it is the same whatever b is'
    >>> how_off([Case({"n": n}, n // 2, n / 2) for n in (4, 6, 5, 12, 9)], 1e-6)
    'it is right except where n is odd: there it is rounded down'
    """
    known = {repr(dict(c.args)): c.expected for c in cases}
    reference = reference or (lambda **args: known[repr(args)])
    cases = [replace(c, right=compare.alike(c.got, c.expected, rtol)) for c in cases]
    where, path, cases = _first_wrong_entry(cases, rtol)
    wrong, right = [c for c in cases if not c.right], [c for c in cases if c.right]
    if not wrong:
        return None
    entry = lambda f: lambda **args: reduce(getitem, path, f(**args))  # noqa: E731
    if learner and (ignored := _ignored(cases, rtol, entry(lambda **args: learner(*args.values())), entry(reference))):
        return where + ignored
    if like := as_if(cases, partial(compare.alike, rtol=rtol), entry(reference)):
        return where + like
    if _all_reordered(wrong, rtol):
        return where + "these are the right ones, in another order"
    how = _relation(wrong, rtol, twice, bool(where)) or _form(wrong[0], rtol)
    if place := _where(wrong, right):
        return f"{where}it is right except where {place}" + (f": there {how}" if how else "")
    return how and where + how


# -- the entry that is looked at


def _first_wrong_entry(cases: Sequence[Case], rtol: float) -> tuple[str, list, list[Case]]:
    """What is said of the place, the keys that lead there, and the cases of that entry alone; a tuple in a dict is opened as well."""
    said, path = "", []
    while True:
        off = [c for c in cases if not c.right]
        wrong = off[0] if off else None
        opens = wrong and isinstance(wrong.expected, Mapping | tuple | list)
        if not opens or compare.same(wrong.got, wrong.expected, math.inf) or _all_reordered(off, rtol):
            return said, path, list(cases)
        keys = list(wrong.expected) if isinstance(wrong.expected, Mapping) else range(len(wrong.expected))
        key = next(k for k in keys if not compare.alike(wrong.got[k], wrong.expected[k], rtol))
        said += compare.place_of(key, wrong.expected)
        path.append(key)
        entries = []
        for c in cases:
            with suppress(LookupError, TypeError):  # of another form in that case
                entries.append(Case(c.args, c.got[key], c.expected[key]))
        cases = [replace(c, right=compare.alike(c.got, c.expected, rtol)) for c in entries]


def _all_reordered(wrong: Sequence[Case], rtol: float) -> bool:
    """Whether it is so in all wrong cases: in one alone it may be chance."""
    return len(wrong) > 1 and all(_reordered(c, rtol) for c in wrong)


def _reordered(case: Case, rtol: float) -> bool:
    """Whether a list has the right numbers or texts, each as often as it should be, and not where it should be.

    >>> _reordered(Case({}, ["step", "forward"], ["forward", "step"]), 1e-6), _reordered(Case({}, [2, 2], [1, 2]), 1e-6)
    (True, False)
    """
    if isinstance(case.got, tuple | list) and isinstance(case.expected, tuple | list) and len(case.got) > 1:
        with suppress(TypeError, ValueError):  # neither numbers nor texts
            return compare.alike(sorted(case.got), sorted(case.expected), rtol)
    return False


# -- what it does not look at


def _ignored(cases: Sequence[Case], rtol: float, learner: Callable, reference: Callable) -> str | None:
    """An argument that may be exchanged for that of another case: the answer stays what it is, and what is right does not."""
    for name in cases[0].args:
        tried, moves, differ = 0, 0, [*{repr(c.args.get(name)): c for c in cases}.values()]
        for case, other in product(cases[:SOME], differ[:SOME]):
            with suppress(Exception):  # the two need not go together
                args = case.args | {name: other.args[name]}
                if not compare.alike(learner(**args), case.got, 1e-12):
                    break
                tried, moves = tried + 1, moves + (not compare.alike(reference(**args), case.expected, rtol))
        else:
            if tried >= FEW and moves:
                return f"it is the same whatever {name} is"
    return None


# -- by what


INSTEAD = {
    "the sign is wrong": lambda e: -e, "it is upside down: 1 over what it should be": lambda e: 1 / e,
    "it is rounded down": math.floor, "it is rounded up": math.ceil, "it is rounded": round,
    "it is one too many": lambda e: e + 1, "it is one too few": lambda e: e - 1,
}  # fmt: skip


def _relation(wrong: Sequence[Case], rtol: float, twice: str | None, within: bool) -> str | None:
    """What numbers of all wrong cases are in place of the right ones, or by what factor or amount they are off."""
    pairs = [(c.got, c.expected) for c in wrong]
    if not all(is_number(g) and is_number(e) and e for g, e in pairs):
        return None
    near = lambda a, b: compare.alike(a, b, min(rtol, 0.01))  # noqa: E731
    ways = _several(wrong) if len(pairs) > 1 else []
    # A count among others has no unit.
    units = FACTORS if twice is not None and not (within and isinstance(pairs[0][1], numbers.Integral)) else {}
    ways += [(text, [(g, e * by) for g, e in pairs]) for text, by in (_doubled(twice, within) | units).items()]
    said = (text for text, sides in ways if all(near(a, b) for a, b in sides))
    by = pairs[0][0] / pairs[0][1]
    if (found := next(said, None)) or len(pairs) < 2 or not all(compare.alike(g, by * e, rtol) for g, e in pairs):
        return found
    digits = "it is right to four digits only: is some of it in float32, or rounded?"
    return digits if f"{by:.4g}" == "1" else f"it is {by:.4g} times what it should be"


def _doubled(twice: str | None, within: bool) -> dict[str, float]:
    """What is said of a value that is off by 2; which quantity of several may have been counted twice, an exercise says then."""
    if twice is None:
        return {}
    asked = "" if not twice or within and twice == CAUSES else f": {twice}?"
    return {f"that is exactly 2 times too much{asked}": 2, f"that is exactly half{asked}": 1 / 2}


def _several(wrong: Sequence[Case]) -> list[tuple[str, list[tuple]]]:
    """What may hold in several cases: in words, and by two numbers of each that are then the same."""
    pairs = [(c.got, c.expected) for c in wrong]
    ways = [(text, [(g, other(e)) for g, e in pairs]) for text, other in INSTEAD.items()]
    large = {g > e for g, e in pairs}
    if len(large) == 1:
        much, low, high = ("large", 1, 0) if True in large else ("small", 0, 1)
        for text, values in _terms(wrong):
            rows = [*zip(pairs, values)]
            ways.append((f"it is too {much} by exactly the factor {text}", [(p[high], p[low] * v) for p, v in rows]))
            ways.append((f"it is too {much} by exactly {text}", [(p[high] - p[low], v) for p, v in rows]))
    return ways


def _terms(cases: Sequence[Case]) -> Iterator[tuple[str, list[float]]]:
    """Numbers made of one argument or two, by how one writes them; those that do not differ between the cases tell nothing."""
    args = [opened_args(c.args) for c in cases]
    single = [(n, [size_of(a[n]) for a in args]) for n in args[0] if all(size_of(a.get(n)) is not None for a in args)]
    single = [(n if is_number(args[0][n]) else f"len({n})", v) for n, v in single]
    made = [*single]
    for n, v in single:
        made += [(f"{n} - 1", [x - 1 for x in v]), (f"{n} + 1", [x + 1 for x in v])]
        made += [(f"{n}²", [x * x for x in v]), (f"(1 - 1/{n})", [x and 1 - 1 / x for x in v])]
    for (n, v), (m, w) in combinations(single, 2):
        made.append((f"{n} · {m}", [x * y for x, y in zip(v, w)]))
    for (n, v), (m, w) in permutations(single, 2):
        made.append((f"{n}/{m}", [x / y if y else 0 for x, y in zip(v, w)]))
    yield from ((text, value) for text, value in made if len({round(x, 9) for x in value}) > 1)


# -- in which cases


def _where(wrong: Sequence[Case], right: Sequence[Case]) -> str | None:
    """What holds in all wrong cases and in none of the right ones; None for a single wrong case, in which too much holds."""
    if min(len(wrong), len(right)) < 2:
        return None
    for text, holds in _conditions(wrong[0].args):
        if all(_holds(holds, c) for c in wrong) and not any(_holds(holds, c) for c in right):
            return text
    return _among(wrong, right)


def _among(wrong: Sequence[Case], right: Sequence[Case]) -> str | None:
    """A text that is one of few in all wrong cases, and none of these in the right ones."""
    texts = lambda n, cases: {x if isinstance(x := opened_args(c.args).get(n), str) else None for c in cases}  # noqa: E731
    for n, v in opened_args(wrong[0].args).items():
        off, fine = texts(n, wrong), texts(n, right)
        if isinstance(v, str) and None not in off | fine and not off & fine and len(off) < min(LISTED, len(wrong)):
            return f"{n} is " + " or ".join(map(repr, sorted(off)))
    return None


def _holds(condition: Callable, case: Case) -> bool:
    try:
        return bool(condition(case.args))
    except (TypeError, ValueError, KeyError, ZeroDivisionError):
        return False


def _conditions(args: Mapping) -> Iterator[tuple[str, Callable]]:
    """What may hold of arguments like these, the plainest first."""
    for n, v in args.items():
        if v is None or isinstance(v, bool | str):
            yield f"{n} is {v!r}", lambda a, n=n, v=v: type(a[n]) is type(v) and a[n] == v
        if is_number(v):
            for plain in (0, 1, 2):
                yield f"{n} is {plain}", lambda a, n=n, plain=plain: a[n] == plain
            yield f"{n} is odd", lambda a, n=n: a[n] % 2 == 1
            yield f"{n} is no whole number", lambda a, n=n: a[n] != int(a[n])
            yield f"{n} is no power of two", lambda a, n=n: a[n] == int(a[n]) and int(a[n]) & (int(a[n]) - 1) != 0
            yield f"{n} is below 1", lambda a, n=n: a[n] < 1
        if isinstance(v, str | tuple | list | Mapping):
            yield f"{n} is empty", lambda a, n=n: len(a[n]) == 0
            yield f"{n} has one entry", lambda a, n=n: len(a[n]) == 1
            yield f"{n} has more than one entry", lambda a, n=n: len(a[n]) > 1
            yield f"{n} has more than two entries", lambda a, n=n: len(a[n]) > 2
            for odd, number in enumerate(("even", "odd")):
                yield f"{n} has an {number} number of entries", lambda a, n=n, odd=odd: len(a[n]) % 2 == odd
            yield f"{n} has an entry twice", lambda a, n=n: len(set(map(repr, a[n]))) < len(a[n])
        if isinstance(v, tuple | list) and v and all(map(is_number, v)):
            yield f"{n} has an odd entry", lambda a, n=n: any(x % 2 == 1 for x in a[n])
            yield f"{n} has entries that differ", lambda a, n=n: len(set(a[n])) > 1
            yield f"{n} has an entry that is 1", lambda a, n=n: 1 in a[n]
            yield f"{n} has an entry that is 0", lambda a, n=n: 0 in a[n]
    for n, m in combinations([n for n, v in args.items() if is_number(v)], 2):
        yield f"{n} and {m} are equal", lambda a, n=n, m=m: a[n] == a[m]
        yield f"{n} is less than {m}", lambda a, n=n, m=m: a[n] < a[m]
        yield f"{n} is more than {m}", lambda a, n=n, m=m: a[n] > a[m]
        yield f"{m} does not divide {n}", lambda a, n=n, m=m: a[n] % a[m] != 0
        yield f"{n} does not divide {m}", lambda a, n=n, m=m: a[m] % a[n] != 0


# -- what an array or a text looks like


def _form(case: Case, rtol: float) -> str | None:
    """How the numbers of an array are off: which of them, or in which order they are."""
    try:
        g, e = np.asarray(case.got, float), np.asarray(case.expected, float)
    except (TypeError, ValueError, OverflowError):
        return None
    size = 1e-12 + 1e-6 * np.abs(e[np.isfinite(e)]).max(initial=0)
    near = lambda h, w, slack=1: np.isclose(h, w, slack * rtol, size, equal_nan=True)  # noqa: E731
    if g.shape != e.shape or g.ndim == 0 or near(g, e).all():
        return None
    from .wrong_blocks import Blocks, described  # which needs JAX

    return described(Blocks({}, [g], [e], ["all"], {}, near)).rstrip(".")
