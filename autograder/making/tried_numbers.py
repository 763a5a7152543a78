"""Inputs whose result a reader of the site can try: the result is stored as salted hashes, one for each of its numbers.

Inputs are drawn as the hidden tests draw theirs, from a seed of their own, and the results come from our answer.  A hash of three
digits keeps an answer from being read by accident; a program that tries all numbers finds it in minutes.  Nothing graded depends on it.
"""

import math
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy

from helpers.check.questions import ROUNDS, canonical, hashed  # noqa: F401  (ROUNDS is asked for here)

DRAWN, KEPT = 12, 2  # inputs to choose from, of which so many are stored
VARIED = 8  # of the results of the inputs drawn, so many must differ: a few guesses would find fewer


def entries(result: object) -> dict[str, object]:
    """What a result consists of, by name or by place: of a plain number one entry without a name.

    >>> entries({"bytes": 47}), entries((1.0, "memory")), entries(2.5)
    ({'bytes': 47}, {'1': 1.0, '2': 'memory'}, {'': 2.5})
    """
    if isinstance(result, Mapping):
        return {str(k): v for k, v in result.items()}
    if isinstance(result, (tuple, list)):
        return {str(i): v for i, v in enumerate(result, 1)}
    return {"": result}


def to_try(
    answer: Callable, drawn: list[tuple], salt: str, mistakes: list[Callable], kept: int = KEPT
) -> list[tuple[list, dict[str, str]]]:
    """Of the arguments drawn those by which most mistakes show, and a hash for each entry of the answer's result that can be asked.

    mistakes  functions with known mistakes in them
    """
    results = []
    for args in drawn:
        with suppress(Exception):  # rounded numbers may be no case at all
            results.append((list(args), entries(answer(*deepcopy(args)))))
    first = results[0][1] if len(results) >= VARIED else {}
    of_name = {name: [result.get(name) for _, result in results] for name in first}
    varied = lambda values: len({canonical(x) for x in values}) >= VARIED  # noqa: E731
    names = [name for name, values in of_name.items() if all(map(_number, values)) and varied(values)]
    found = [(args, {n: float(result[n]) for n in names if _fit(result[n], args)}) for args, result in results]
    told = [_told_apart(args, asked, mistakes) for args, asked in found]
    best: list[int] = []
    for _ in range(kept):
        known = set().union(*(told[i] for i in best))
        left = [i for i, (_, asked) in enumerate(found) if asked and i not in best]
        best += sorted(left, key=lambda i: (len(found[i][1]), len(told[i] | known)), reverse=True)[:1]
    chosen = [found[i] for i in best]
    hashes = lambda i, asked: {n: hashed(x, f"{salt} {i} {n}") for n, x in asked.items()}  # noqa: E731
    return [(args, hashes(i, asked)) for i, (args, asked) in enumerate(chosen)]


def _told_apart(args: list, asked: dict[str, float], mistakes: list[Callable]) -> set[int]:
    """Which mistakes lead to other numbers there."""
    found = set()
    for i, mistake in enumerate(mistakes):
        with suppress(Exception):  # some are about other inputs
            got = entries(mistake(*deepcopy(args)))
            if any(_number(got.get(n)) and abs(got[n] - x) > 0.01 * abs(x) for n, x in asked.items()):
                found.add(i)
    return found


def settings(draws: dict[str, Callable], name: str) -> list[dict]:
    """Of a check's draws what a reader may try, the same whatever COURSE_SEED is."""
    seeded = lambda k, i: random.Random(f"to try/{name}/{k}/{i}")  # noqa: E731
    return [{k: rounded(draw(seeded(k, i))) for k, draw in draws.items()} for i in range(DRAWN)]


def rounded(x: object) -> object:
    """A drawn value whose floats have three digits, so that a page can print it whole.

    >>> rounded((3.14159, 7, "bf16"))
    (3.14, 7, 'bf16')
    """
    if isinstance(x, float):
        return float(f"{x:.2e}")
    if isinstance(x, (tuple, list)):
        return type(x)(map(rounded, x))
    return {k: rounded(v) for k, v in x.items()} if isinstance(x, dict) else x


def _number(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _fit(x: float, args: list) -> bool:
    """Whether a result can be asked: not one of few, none of the inputs, and not where another machine might round otherwise."""
    few = not math.isfinite(x) or x == 0 or (x == int(x) and abs(x) < 100)
    edge = not few and canonical(x * (1 - 1e-9)) != canonical(x * (1 + 1e-9))
    return not (few or edge or any(_number(a) and canonical(a) == canonical(x) for a in args))
