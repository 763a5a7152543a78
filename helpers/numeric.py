"""maximum, minimum, where, … for floats, NumPy arrays, JAX arrays and tracers, and what a formula does with its arguments.

An argument that knows its array namespace (the Python array API standard) is handled there.
Without one, plain Python does it.
So a cost function written with these runs without NumPy, broadcasts over arrays, and can be traced by `jax.jit`.

A module of formulas ends with `entries(__name__)`: its public functions, and its classes where they are made and used, then

* take integer arrays of any width as floats, for 8192·8192·32 does not fit into 32 bits; whole numbers of NumPy and of
  Python become Python's, which are exact;
* refuse a negative size, rate or time, and a division by zero, with a sentence. Arrays and tracers are not looked at.
"""

import inspect
import math
import sys
import threading
from copy import copy
from functools import reduce, wraps
from numbers import Integral


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
    return reduce(xp.maximum, map(_fitting, xs)) if xp else max(xs)


def minimum(*xs):
    """Smallest of the arguments, element by element."""
    xp = _namespace(*xs)
    return reduce(xp.minimum, map(_fitting, xs)) if xp else min(xs)


def where(condition, yes, no):
    """`yes` where the condition holds, else `no`; both are evaluated, so divide by `nonzero(x)` inside.

    >>> where(2 > 1, "more", "less")
    'more'
    """
    xp = _namespace(condition, yes, no)
    return xp.where(condition, _fitting(yes), _fitting(no)) if xp else (yes if condition else no)


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


def beside(x, *others):
    """A sum or product that a formula has made, as it stands beside these: a float if it is too large for their integers.

    JAX's have 32 bits, and raise an error at a Python number that has more.

    >>> beside(2**40, 3), beside(2**20, 3)
    (1099511627776, 1048576)
    """
    return _fitting(x) if _namespace(*others) else x


def sqrt(x):
    """Square root."""
    xp, x = _namespace(x), _taken(x)
    if not xp and x < 0:
        raise ValueError(f"a square root is of 0 or more, not of {x}")
    return xp.sqrt(x) if xp else math.sqrt(x)


def plain(*xs) -> bool:
    """Whether all of these are Python numbers, whose values may be looked at."""
    return all(isinstance(x, int | float) for x in xs)


def whole(least: int = 1, **sizes) -> None:
    """ValueError unless each of the sizes is a whole number that is not below `least`; arrays and tracers pass.

    >>> whole(n=4, m=2.5)
    Traceback (most recent call last):
    ValueError: m is a whole number of 1 or more, got 2.5
    """
    for name, x in sizes.items():
        if isinstance(x, bool | str | list | tuple) or x is None:
            raise ValueError(f"{name} is a number, got {x!r}")
        if plain(x) and not (x >= least and x == math.floor(x) if math.isfinite(x) else False):
            raise ValueError(f"{name} is a whole number of {least} or more, got {x}")


def entries(module: str, signed: str = "") -> None:
    """Make the public functions and classes of a module take their arguments as the head of this module says.

    signed  parameters that may be negative, parted by spaces
    """
    may, scope = frozenset(signed.split()), vars(sys.modules[module])
    for name, x in list(scope.items()):
        if name.startswith("_") or getattr(x, "__module__", None) != module:
            continue
        if inspect.isfunction(x):
            scope[name] = _entry(x, may)
        elif inspect.isclass(x) and not issubclass(x, tuple):
            _entries_of_class(x, may)


def _entries_of_class(c: type, signed: frozenset) -> None:
    for name, x in list(vars(c).items()):
        if name == "__init__":  # what a class checks by itself comes first, in its own words
            setattr(c, name, _entry(x, signed, checked_last=True))
        elif inspect.isfunction(x) and (not name.startswith("_") or name in _OPERATORS):
            setattr(c, name, _entry(x, signed))
        elif isinstance(x, property):
            setattr(c, name, property(_entry(x.fget, signed), doc=x.__doc__))


_OPERATORS = ("__add__", "__radd__", "__mul__", "__rmul__")
_AS_THEY_ARE = frozenset((int, float, bool, str, type(None)))
_FITS = 2**31  # whole numbers up to here fit into JAX's integers of 32 bits


class _Inside(threading.local):
    """Whether a formula is at work that calls others: None, or whether arrays are among its arguments."""

    arrays: bool | None = None


_inside = _Inside()


def _entry(f, signed: frozenset, checked_last: bool = False):
    """`f` with arguments as the head of this module says; what formulas call among themselves is not looked at again."""
    names = tuple(inspect.signature(f).parameters)
    kinds = {name: _kind(p) for name, p in inspect.signature(f).parameters.items()}

    @wraps(f)
    def taken(*args, **kwargs):
        if _inside.arrays is False:
            return f(*args, **kwargs)
        outside = _inside.arrays is None
        if outside:
            args, kwargs = tuple(map(_taken, args)), {name: _taken(x) for name, x in kwargs.items()}
            _inside.arrays = any(map(_has_array, args)) or any(map(_has_array, kwargs.values()))
        try:
            if _inside.arrays:
                args, kwargs = tuple(map(_fitting, args)), {name: _fitting(x) for name, x in kwargs.items()}
            if not outside:
                return f(*args, **kwargs)
            given = [(name, x) for name, x in (*zip(names, args), *kwargs.items()) if name not in signed]
            out = f(*args, **kwargs) if checked_last else None
            for name, x in given:
                if plain(x) and x < 0:
                    raise ValueError(f"{_called(f)}: {name} is 0 or more, not {x}")
            out = out if checked_last else f(*args, **kwargs)
            for name, x in given:  # what a formula says of its sizes by itself comes first
                if _holds_negative(x):
                    raise ValueError(f"{_called(f)}: {name} has numbers of 0 or more, not {x}")
            return _steps(out, _inside.arrays) if hasattr(out, "__next__") else out
        except ZeroDivisionError:
            if not outside:
                raise
            raise _division(f, zip(names, args), kwargs.items()) from None
        except (TypeError, AttributeError, LookupError) as e:
            said = _of_another_kind(f, (*zip(names, args), *kwargs.items()), kinds) if outside else None
            if said is None:
                raise
            raise said from e
        finally:
            if outside:
                _inside.arrays = None

    return taken


_BUILT_IN = (str, int, float, list, tuple, dict)


def _kind(p: inspect.Parameter):
    """What a parameter takes: a class of records, float for a number; None where its annotation does not say."""
    if p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD or isinstance(p.default, str):
        return None
    if p.annotation in (p.empty, int, float):
        return float
    return p.annotation if inspect.isclass(p.annotation) and p.annotation.__module__.startswith("helpers.") else None


def _of_another_kind(f, given, kinds: dict) -> ValueError | None:
    """What to say where a formula fails at a text that stands for a number, or at a number or a text in place of a record."""
    for name, x in given:
        kind = kinds.get(name)
        if kind is float and (isinstance(x, str) or isinstance(x, list) and plain(*x)):
            return ValueError(f"{_called(f)}: {name} is a number, not {x!r}")
        if kind not in (None, float) and isinstance(x, _BUILT_IN) and not isinstance(x, kind):
            return ValueError(f"{_called(f)}: {name} is a {kind.__name__}, not {x!r}")
    return None


def _holds_negative(x) -> bool:
    """Whether a number in a tuple, a list or a dict of sizes is below zero."""
    some = x if type(x) in (tuple, list) else x.values() if type(x) is dict else ()
    return any(y < 0 if plain(y) else _holds_negative(y) for y in some)


def _steps(results, arrays: bool):
    """What a formula gives one after the other, each made inside."""
    while True:
        before, _inside.arrays = _inside.arrays, arrays
        try:
            one = next(results)
        except StopIteration:
            return
        finally:
            _inside.arrays = before
        yield one


def _called(f) -> str:
    return f.__qualname__.removesuffix(".__init__")


def _division(f, *groups) -> ValueError:
    """What to say of a division by zero: which arguments, or fields of records, are zero."""
    given = [pair for group in groups for pair in group]
    fields = [
        (n if name == "self" else f"{name}.{n}", y) for name, x in given if _is_record(x) for n, y in vars(x).items()
    ]
    zero = [[name for name, x in pairs if plain(x) and x == 0 and x is not False] for pairs in (given, fields)]
    named = " or ".join(zero[0] or zero[1]) or "every size and rate"
    return ValueError(f"{_called(f)} divides by zero: give more than 0 for {named}")


def _taken(x):
    """An argument as a formula takes it: integers of arrays as floats, whole numbers as Python's; also in tuples and dicts."""
    kind = type(x)
    if kind in _AS_THEY_ARE:
        return x
    if kind is tuple:
        return _same_or_new(x, tuple(map(_taken, x)))
    if kind is list:
        new = [_taken(v) for v in x]
        return new if any(a is not b for a, b in zip(new, x, strict=True)) else x
    if kind is dict:
        new = {k: _taken(v) for k, v in x.items()}
        return new if any(new[k] is not v for k, v in x.items()) else x
    if isinstance(x, Integral):
        return x if isinstance(x, int) else int(x)
    if _is_array(x) and _narrow(x.dtype):
        return x.astype(float)
    return x


def _fitting(x):
    """Beside arrays: a whole number that JAX's integers of 32 bits cannot hold as a float; also in tuples and records."""
    if type(x) is int:
        return x if -_FITS < x < _FITS else float(x)
    if type(x) is tuple:
        return _same_or_new(x, tuple(map(_fitting, x)))
    if _is_record(x):
        changed = {k: new for k, v in vars(x).items() if (new := _fitting(v)) is not v}
        if changed:
            x = copy(x)
            for name, value in changed.items():
                object.__setattr__(x, name, value)
    return x


def _same_or_new(old: tuple, new: tuple) -> tuple:
    return old if all(a is b for a, b in zip(old, new)) else new


def _is_array(x) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "astype")


def _narrow(dtype) -> bool:
    """Whether products of sizes overflow in it: all integers, and floats of 16 bits and less."""
    kind = getattr(dtype, "kind", "")
    return kind in "iu" or (kind in "fV" and getattr(dtype, "itemsize", 4) < 4)


def _is_record(x) -> bool:
    return hasattr(type(x), "__dataclass_fields__")


def _has_array(x) -> bool:
    kind = type(x)
    if kind in _AS_THEY_ARE:
        return False
    if kind is tuple or kind is list:
        return any(map(_has_array, x))
    if kind is dict or _is_record(x):
        return any(map(_has_array, x.values() if kind is dict else vars(x).values()))
    return _is_array(x)
