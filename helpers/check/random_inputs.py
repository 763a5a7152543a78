"""Random inputs for checks, without a secret the same for everybody who has the same COURSE_SEED.

When a class is graded, COURSE_VALUES holds two seeds made from a secret: the class's and, after a hyphen, the submission's own.
Values are drawn from both together. Where parts of an answer have points of their own, a mistake that some draws miss would cost
one learner a part's points, and another none: there the class's seed draws the cases, small whole numbers and choices with
them, and the submission's own moves each large number by up to `NEAR` of it, so that no two submissions are asked the same.
Shapes are drawn by their names alone: no seed decides what a mistake meets, and what is compiled for one submission serves the next.
"""

import math
import os
import random
from collections.abc import Callable, Iterator

import numpy as np

Draw = Callable[[random.Random], object]
NEAR = 0.03
TRIES = 100  # of moved values, until a case has as many on each side of every edge as the class's


class Moved(random.Random):
    """The class's draws, of which those from many values are the submission's own: seeds of arrays, say."""

    def __init__(self, class_seed: str, submission: str):
        super().__init__(class_seed)
        self.own = random.Random(submission)

    def getrandbits(self, k: int) -> int:
        return super().getrandbits(k) if k <= 24 else self.own.getrandbits(k)


def moved(r: random.Random, x: float, low: float = 0, high: float = math.inf, multiple: int = 0) -> float:
    """A positive number that was drawn, moved by the submission's own draw.

    multiple  of which it is one, and stays one: a small one does not move

    >>> moved(random.Random(1), 500.0), 485 < moved(Moved("a", "b"), 500.0) < 516, moved(Moved("a", "b"), 3, multiple=1)
    (500.0, True, 3)
    """
    if not isinstance(r, Moved):
        return x
    there = x * math.exp(r.own.uniform(-NEAR, NEAR))
    if multiple:
        there = round(there / multiple) * multiple
    return there if low <= there <= high else x


def ints(low: int, high: int, multiple: int = 1) -> Draw:
    """Integers from low to high, evenly spread over orders of magnitude, divisible by `multiple`."""
    spread = _spread("integers", low, high)
    return lambda r: moved(r, max(multiple, round(spread(r) / multiple) * multiple), low, high, multiple)


def floats(low: float, high: float) -> Draw:
    """Floats from low to high, evenly spread over orders of magnitude."""
    spread = _spread("floats", low, high)
    return lambda r: moved(r, spread(r), low, high)


def _spread(kind: str, low: float, high: float) -> Draw:
    if not 0 < low <= high:
        raise ValueError(f"{kind} are drawn from a range of positive numbers, got {low} to {high}")
    return lambda r: math.exp(r.uniform(math.log(low), math.log(high)))


def choice(*values) -> Draw:
    """One of the values."""
    return lambda r: r.choice(values)


def anew(draw: Draw) -> Draw:
    """The submission's own draw, also where parts have points of their own: for what no mistake depends on, names, say."""
    return lambda r: draw(random.Random(r.getrandbits(64)))


def secret() -> str:
    """The seeds of the class and of the submission; "" where nothing is secret."""
    return os.environ.get("COURSE_VALUES", "")


def seed() -> str:
    """What values are drawn from."""
    return secret() or os.environ.get("COURSE_SEED", "0")


def inputs(
    n: int, name: str, draws: dict[str, Draw], shapes=False, parts=False, is_alike=None, class_cache=None
) -> Iterator[dict]:
    """n settings of the draws, fixed by the name and by COURSE_SEED (default 0), or by seeds made from a secret.

    shapes       they are sizes of arrays, the same for everybody
    parts        parts of the answer have points of their own: near the class's, and each submission's own
    is_alike     what a setting's values must leave as the class's have it, with parts: the side of each edge that they are on
    class_cache  (key, a function) -> what that gives, which is one for a class; without it each is made anew
    """
    for i in range(n):
        at = {k: f"{name}/{k}/{i}" for k in draws}
        if parts:
            yield _beside(draws, at, is_alike, class_cache or (lambda _, make: make()))
        else:
            chosen = "0" if shapes else seed()
            yield {k: d(random.Random(f"{chosen}/{at[k]}")) for k, d in draws.items()}


def rng(name: str) -> np.random.Generator:
    """NumPy's random numbers, fixed like `inputs` by the name: the submission's own."""
    (drawn,) = inputs(1, name, {"seed": lambda r: r.randrange(2**32)})
    return np.random.default_rng(drawn["seed"])


def _beside(draws: dict[str, Draw], names: dict[str, str], is_alike: Callable | None, class_cache: Callable) -> dict:
    """A setting near the class's; the class's own, should none be found that is alike."""
    shared = {k: f"{seed().partition('-')[0]}/{names[k]}" for k in draws}  # of the seed what a class has in common
    own = ({k: d(Moved(shared[k], f"{seed()}/{names[k]}/{n}")) for k, d in draws.items()} for n in range(TRIES))
    if is_alike is None:
        return next(own)

    def of_class():
        theirs = {k: d(random.Random(shared[k])) for k, d in draws.items()}
        return theirs, is_alike(**theirs)

    theirs, side = class_cache(tuple(shared.values()), of_class)
    return next((moved for moved in own if is_alike(**moved) == side), theirs)
