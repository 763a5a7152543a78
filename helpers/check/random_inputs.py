"""Random inputs for checks, the same for everybody who has the same COURSE_SEED.

When a class is graded, COURSE_VALUES holds a seed of the submission's own, made from a secret: values are drawn from it,
while shapes still come from COURSE_SEED, so that what is compiled for one submission serves the next.
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
    """The seed of a submission's own values; "" where nothing is secret."""
    return os.environ.get("COURSE_VALUES", "")


def seed() -> str:
    """What values are drawn from."""
    return secret() or os.environ.get("COURSE_SEED", "0")


def inputs(n: int, name: str, draws: dict[str, Draw], shapes: bool = False) -> Iterator[dict]:
    """n settings of the draws, fixed by the name and by COURSE_SEED (default 0), or by the submission's own seed.

    shapes  they are sizes of arrays, the same for a whole class
    """
    chosen = os.environ.get("COURSE_SEED", "0") if shapes else seed()
    for i in range(n):
        yield {k: d(random.Random(f"{chosen}/{name}/{k}/{i}")) for k, d in draws.items()}
