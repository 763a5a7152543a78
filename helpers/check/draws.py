"""Random inputs for checks, the same for everybody who has the same COURSE_SEED."""

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


def inputs(n: int, name: str, draws: dict[str, Draw]) -> Iterator[dict]:
    """n settings of the draws, fixed by the name and by COURSE_SEED (default 0)."""
    seed = os.environ.get("COURSE_SEED", "0")
    for i in range(n):
        yield {k: d(random.Random(f"{seed}/{name}/{k}/{i}")) for k, d in draws.items()}
