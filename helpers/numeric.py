"""maximum, minimum, where, … for floats, NumPy arrays, JAX arrays and tracers.

An argument that knows its array namespace (the Python array API standard) is handled there.
Without one, plain Python does it.
So a cost function written with these runs without NumPy, broadcasts over arrays, and can be traced by `jax.jit`.
"""

import math
import sys
from copy import copy
from functools import reduce
from numbers import Integral

AS_THEY_ARE = frozenset((int, float, bool, str, type(None)))
_FITS = 2**31  # whole numbers up to here fit into JAX's integers of 32 bits


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
    return reduce(xp.maximum, map(fitting, xs)) if xp else max(xs)


def minimum(*xs):
    """Smallest of the arguments, element by element."""
    xp = _namespace(*xs)
    return reduce(xp.minimum, map(fitting, xs)) if xp else min(xs)


def where(condition, yes, no):
    """`yes` where the condition holds, else `no`; both are evaluated, so divide by `nonzero(x)` inside.

    >>> where(2 > 1, "more", "less")
    'more'
    """
    xp = _namespace(condition, yes, no)
    return xp.where(condition, fitting(yes), fitting(no)) if xp else (yes if condition else no)


def choose(n, cases):
    """The dict of numbers that case n of these functions returns, counted from 0; of a tracer all are asked.

    >>> choose(1, [lambda: {"F": 4}, lambda: {"F": 8}])
    {'F': 8}
    """
    if plain(n):
        return cases[int(n)]()
    rows = [case() for case in cases]
    last = len(rows) - 1
    return {
        key: reduce(lambda other, k: where(n == k, rows[k][key], other), range(last), x)
        for key, x in rows[last].items()
    }


def nonzero(x):
    """`x`, with 1 in place of 0: a denominator for the branch of `where` that is not taken."""
    return where(x == 0, 1.0, x)


def ceil(x):
    """Smallest integer not below `x` (a float for arrays); nan and infinity stay what they are."""
    xp = _namespace(x)
    return xp.ceil(x) if xp else math.ceil(x) if math.isfinite(x) else x


def floor(x):
    """Largest integer not above `x` (a float for arrays); nan and infinity stay what they are."""
    xp = _namespace(x)
    return xp.floor(x) if xp else math.floor(x) if math.isfinite(x) else x


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


def beside(x, *others):
    """A sum or product that a formula has made, as it stands beside these: a float if it is too large for their integers.

    JAX's have 32 bits, and raise an error at a Python number that has more.

    >>> beside(2**40, 3), beside(2**20, 3)
    (1099511627776, 1048576)
    """
    return fitting(x) if _namespace(*others) else x


def sqrt(x):
    """Square root."""
    xp, x = _namespace(x), taken(x)
    if not xp and x < 0:
        raise ValueError(f"a square root is of 0 or more, not of {x}")
    return xp.sqrt(x) if xp else math.sqrt(x)


def log(x):
    """Natural logarithm."""
    xp, x = _namespace(x), taken(x)
    if not xp and x <= 0:
        raise ValueError(f"a logarithm is of more than 0, not of {x}")
    return xp.log(x) if xp else math.log(x)


def significant(x):
    """`x` to 30 binary digits, which are nine decimal ones: two sums of the same numbers in another order are equal then.

    Veltkamp's splitting. It takes one product and two differences, so Python, NumPy and JavaScript round alike. Floats of 32 bits
    have no more digits than that.

    >>> significant(0.1 + 0.2) == significant(0.3), significant(123456789)
    (True, 123456789.0)
    """
    if getattr(getattr(x, "dtype", None), "itemsize", 8) < 8:
        return x
    scaled = x * (2.0**23 + 1)
    return scaled - (scaled - x)


def threshold(holds, low: float, high: float) -> float:
    """The number from which on `holds` is true, between these two: by halving, of logarithms where low is above 0.

    >>> round(threshold(lambda x: x * x >= 2, 0, 8), 9), round(threshold(lambda x: x / 3 > 1e6, 1, 1e12))
    (1.414213562, 3000000)
    """
    while low < (middle := math.sqrt(low * high) if low > 0 else (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def plain(*xs) -> bool:
    """Whether all of these are Python numbers, whose values may be looked at."""
    return all(isinstance(x, int | float) for x in xs)


def taken(x):
    """An argument as a formula takes it: integers of arrays as floats, whole numbers as Python's; also in tuples and dicts."""
    kind = type(x)
    if kind in AS_THEY_ARE:
        return x
    if kind is tuple:
        return _same_or_new(x, tuple(map(taken, x)))
    if kind is list:
        return _same_or_new(x, [taken(v) for v in x])
    if kind is dict:
        new = {k: taken(v) for k, v in x.items()}
        return new if any(new[k] is not v for k, v in x.items()) else x
    if isinstance(x, Integral):
        return x if isinstance(x, int) else int(x)
    if is_array(x) and _narrow(x.dtype):
        return x.astype(float)
    return x


def fitting(x):
    """Beside arrays: a whole number that JAX's integers of 32 bits cannot hold as a float; also in tuples and records."""
    if type(x) is int:
        return x if -_FITS < x < _FITS else float(x)
    if type(x) is tuple:
        return _same_or_new(x, tuple(map(fitting, x)))
    if is_record(x):
        changed = {k: new for k, v in vars(x).items() if (new := fitting(v)) is not v}
        if changed:
            x = copy(x)
            for name, value in changed.items():
                object.__setattr__(x, name, value)
    return x


def _same_or_new(old: list | tuple, new: list | tuple) -> list | tuple:
    return old if all(a is b for a, b in zip(old, new)) else new


def is_array(x) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "astype")


def _narrow(dtype) -> bool:
    """Whether products of sizes overflow in it: all integers, and floats of 16 bits and less."""
    kind = getattr(dtype, "kind", "")
    return kind in "iu" or (kind in "fV" and getattr(dtype, "itemsize", 4) < 4)


def is_record(x) -> bool:
    return hasattr(type(x), "__dataclass_fields__")
