"""Random inputs for checks, the same for everybody who has the same COURSE_SEED.

When a class is graded, COURSE_VALUES holds two seeds made from a secret: the class's and, after a hyphen, the submission's own.
Values are drawn from both together. Where parts of an answer have points of their own, values come from the class's seed alone: a
mistake that some draws miss would cost one learner a part's points, and another none. Shapes come from COURSE_SEED, so that what
is compiled for one submission serves the next.
"""

import math
import os
import random
from collections.abc import Callable, Iterator

Draw = Callable[[random.Random], object]


def ints(low: int, high: int, multiple: int = 1) -> Draw:
    """Integers from low to high, evenly spread over orders of magnitude, divisible by `multiple`."""
    if not 0 < low <= high:
        raise ValueError(f"integers are drawn from a range of positive numbers, got {low} to {high}")
    return lambda r: max(multiple, round(math.exp(r.uniform(math.log(low), math.log(high))) / multiple) * multiple)


def floats(low: float, high: float) -> Draw:
    """Floats from low to high, evenly spread over orders of magnitude."""
    if not 0 < low <= high:
        raise ValueError(f"floats are drawn from a range of positive numbers, got {low} to {high}")
    return lambda r: math.exp(r.uniform(math.log(low), math.log(high)))


def choice(*values) -> Draw:
    """One of the values."""
    return lambda r: r.choice(values)


def secret() -> str:
    """The seeds of the class and of the submission; "" where nothing is secret."""
    return os.environ.get("COURSE_VALUES", "")


def seed(parts: bool = False) -> str:
    """What values are drawn from; for parts with points of their own the class's seed alone."""
    drawn = secret().partition("-")[0] if parts else secret()
    return drawn or os.environ.get("COURSE_SEED", "0")


def inputs(n: int, name: str, draws: dict[str, Draw], shapes: bool = False, parts: bool = False) -> Iterator[dict]:
    """n settings of the draws, fixed by the name and by COURSE_SEED (default 0), or by seeds made from a secret.

    shapes  they are sizes of arrays, the same for a whole class
    parts   parts of the answer have points of their own: the same for a whole class, and secret
    """
    chosen = os.environ.get("COURSE_SEED", "0") if shapes else seed(parts)
    for i in range(n):
        yield {k: d(random.Random(f"{chosen}/{name}/{k}/{i}")) for k, d in draws.items()}
