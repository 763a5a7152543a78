"""maximum, minimum, where, … for floats, NumPy arrays, JAX arrays and tracers.

An argument that knows its array namespace (the Python array API standard) is handled there.
Without one, plain Python does it.
So a cost function written with these runs without NumPy, broadcasts over arrays, and can be traced by `jax.jit`.
"""

import math
import sys
from functools import reduce


def _namespace(*xs):
    """The array namespace of the arguments; JAX wins over NumPy, so that tracers stay tracers."""
    found = [x.__array_namespace__() for x in xs if hasattr(x, "__array_namespace__")]
    return next((n for n in found if n.__name__.startswith("jax")), found[0] if found else None)


def maximum(*xs):
    """Largest of the arguments, element by element.

    >>> maximum(1.0, 3.0, 2.0)
    3.0
    """
    xp = _namespace(*xs)
    return reduce(xp.maximum, xs) if xp else max(xs)


def minimum(*xs):
    """Smallest of the arguments, element by element."""
    xp = _namespace(*xs)
    return reduce(xp.minimum, xs) if xp else min(xs)


def where(condition, yes, no):
    """`yes` where the condition holds, else `no`; both are evaluated, so divide by `nonzero(x)` inside.

    >>> where(2 > 1, "more", "less")
    'more'
    """
    xp = _namespace(condition, yes, no)
    return xp.where(condition, yes, no) if xp else (yes if condition else no)


def nonzero(x):
    """`x`, with 1 in place of 0: a denominator for the branch of `where` that is not taken."""
    return where(x == 0, 1.0, x)


def ceil(x):
    """Smallest integer not below `x` (a float for arrays)."""
    xp = _namespace(x)
    return xp.ceil(x) if xp else math.ceil(x)


def floor(x):
    """Largest integer not above `x` (a float for arrays)."""
    xp = _namespace(x)
    return xp.floor(x) if xp else math.floor(x)


def ceil_near(x):
    """`ceil`, where x is a product of fractions: what is a whole number but for rounding is that number.

    In floats 1.1·50/5 is 11.000000000000002. Whole is what lies within four roundings, 4·eps·x, of a whole number.

    >>> ceil(1.1 * 50 / 5), ceil_near(1.1 * 50 / 5), ceil_near(11.001)
    (12, 11, 12)
    """
    return x if _integer(x) else where(_is_whole(x), _nearest(x), ceil(x))


def floor_near(x):
    """`floor`, where x is a product of fractions: what is a whole number but for rounding is that number.

    >>> floor(0.29 * 100), floor_near(0.29 * 100), floor_near(28.999)
    (28, 29, 28)
    """
    return x if _integer(x) else where(_is_whole(x), _nearest(x), floor(x))


def _nearest(x):
    return floor(x + 0.5)


def _integer(x) -> bool:
    return isinstance(x, int) or getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u")


def _is_whole(x):
    eps = float(_namespace(x).finfo(x.dtype).eps) if hasattr(x, "dtype") else sys.float_info.epsilon
    return abs(x - _nearest(x)) <= 4 * eps * abs(x)


def sqrt(x):
    """Square root."""
    xp = _namespace(x)
    return xp.sqrt(x) if xp else math.sqrt(x)


def plain(*xs) -> bool:
    """Whether all of these are Python numbers, whose values may be looked at."""
    return all(isinstance(x, int | float) for x in xs)
