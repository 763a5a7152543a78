"""What the cost functions do with their arguments: which numbers they take, and what they say of others.

A module of formulas ends with `entries(__name__)`: its public functions, and its classes where they are made and used, then

* take integer arrays of any width as floats, for 8192·8192·32 does not fit into 32 bits; whole numbers of NumPy and of
  Python become Python's, which are exact;
* refuse, with a sentence, what is not of the declared type (`int` a whole number, `Count` one of 1 or more), a negative
  size, rate or time, a division by zero, and an array where only one number will do. Tracers and nan, a number that is not
  known, are not looked at, and no number of an array is.

What formulas call among themselves is not looked at again.
"""

import inspect
import math
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from itertools import chain, repeat
from typing import Annotated, Union, get_args, get_origin

from helpers.numeric import AS_THEY_ARE, fitting, is_array, is_record, plain, taken

Count = Annotated[int, "of 1 or more"]


def whole(least: int = 1, **sizes) -> None:
    """ValueError unless each of the sizes is a whole number that is not below `least`; arrays and tracers pass.

    >>> whole(n=4, m=2.5)
    Traceback (most recent call last):
    ValueError: m is a whole number of 1 or more, got 2.5
    """
    for name, x in sizes.items():
        if isinstance(x, bool | str | list | tuple) or x is None:
            raise ValueError(f"{name} is a number, got {x!r}")
        if plain(x) and not (_is_whole(x) and x >= least):
            raise ValueError(f"{name} is a whole number of {least} or more, got {x}")


def entries(module: str, signed: str = "") -> None:
    """Make the public functions and classes of a module take their arguments as the head of this module says.

    signed  parameters that may be negative, parted by spaces
    """
    may = frozenset(signed.split())
    for owner, name, f in _public(module):
        _replace(owner, name, _entry(f, may, checked_last=name == "__init__"))


def declared(module: str) -> None:
    """Make the public functions and classes of a module refuse, with a sentence, what is not of the declared type, and do no more."""
    for owner, name, f in _public(module):
        _replace(owner, name, _only_declared(f))


def _public(module: str):
    """(owner, name, function) of what a module shows: functions, methods, and what a property reads."""
    scope = sys.modules[module]
    for name, x in list(vars(scope).items()):
        if name.startswith("_") or getattr(x, "__module__", None) != module:
            continue
        if inspect.isfunction(x):
            yield scope, name, x
        elif inspect.isclass(x) and not issubclass(x, tuple):
            for n, y in list(vars(x).items()):
                if inspect.isfunction(y) and (n in _CALLED or not n.startswith("_")):
                    yield x, n, y
                elif isinstance(y, property):
                    yield x, n, y.fget
                elif isinstance(y, classmethod):
                    yield x, n, y.__func__


def _replace(owner, name: str, f) -> None:
    old = vars(owner)[name]
    if isinstance(old, property):
        f = property(f, doc=old.__doc__)
    setattr(owner, name, classmethod(f) if isinstance(old, classmethod) else f)


_CALLED = ("__init__", "__add__", "__radd__", "__mul__", "__rmul__")


class _Inside(threading.local):
    """Whether a formula is at work that calls others: None, or whether arrays are among its arguments."""

    arrays: bool | None = None


_inside = _Inside()


def _entry(f, signed: frozenset, checked_last: bool):
    """`f` with arguments as the head of this module says; what a class checks by itself comes first, in its own words."""
    checks = _Checks(f)

    @wraps(f)
    def entry(*args, **kwargs):
        if _inside.arrays is False:
            return f(*args, **kwargs)
        outside = _inside.arrays is None
        if outside:
            args, kwargs = tuple(map(taken, args)), {name: taken(x) for name, x in kwargs.items()}
            _inside.arrays = any(map(_has_array, args)) or any(map(_has_array, kwargs.values()))
        try:
            if _inside.arrays:
                args, kwargs = tuple(map(fitting, args)), {name: fitting(x) for name, x in kwargs.items()}
            if not outside:
                return f(*args, **kwargs)
            given = checks.named(args, kwargs)
            out = f(*args, **kwargs) if checked_last else None
            checks.declared(given)
            for name, x in given:
                if plain(x) and x < 0 and name not in signed:
                    raise ValueError(f"{_called(f)}: {name} is 0 or more, not {x}")
            out = out if checked_last else f(*args, **kwargs)
            for name, x in given:  # what a formula says of its sizes by itself comes first
                if _holds_negative(x) and name not in signed:
                    raise ValueError(f"{_called(f)}: {name} has numbers of 0 or more, not {x}")
            return _steps(out, _inside.arrays) if hasattr(out, "__next__") else out
        except ZeroDivisionError:
            if not outside:
                raise
            raise _division(f, checks.named(args, kwargs)) from None
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            if outside and (not isinstance(error, ValueError) or str(error).startswith(_OF_ARRAYS)):
                checks.after_failure(checks.named(args, kwargs), error)
            raise
        finally:
            if outside:
                _inside.arrays = None

    return entry


def _only_declared(f):
    checks = _Checks(f)

    @wraps(f)
    def entry(*args, **kwargs):
        checks.declared(checks.named(args, kwargs))
        return f(*args, **kwargs)

    return entry


class _Checks:
    """What the parameters of a function are declared to be, and what is said of something else."""

    def __init__(self, f):
        some = {n: p for n, p in inspect.signature(f).parameters.items() if p.kind is not p.VAR_KEYWORD}
        self.called, self.names = _called(f), [n for n, p in some.items() if p.kind is not p.KEYWORD_ONLY]
        self.several = next((n for n, p in some.items() if p.kind is p.VAR_POSITIONAL), None)
        self.kinds = {n: p.annotation for n, p in some.items() if p.annotation is not p.empty}
        self.numbers = {n for n, p in some.items() if p.annotation is p.empty and p.default is not None and n != "self"}
        self.numbers -= {n for n, p in some.items() if isinstance(p.default, str)} | {self.several}

    def named(self, args, kwargs) -> tuple:
        """(parameter, what is given for it) of a call."""
        names = self.names if self.several is None else chain(self.names, repeat(self.several))
        return (*zip(names, args), *kwargs.items())

    def declared(self, given) -> None:
        for name, x in given:
            if name in self.kinds and not _is(x, self.kinds[name]):
                raise ValueError(f"{self.called}: {name} is {_words(self.kinds[name])}, not {_shown(x)}")

    def after_failure(self, given, error) -> None:
        """What is not declared is a number, most often: said of a text, a list or None only where the formula failed at it."""
        self.declared(given)
        for name, x in given:
            if str(error).startswith(_OF_ARRAYS) and getattr(x, "shape", ()):
                raise ValueError(f"{self.called}: {name} is one number here, not an array") from None
            if name in self.numbers and (isinstance(x, str) or x is None or isinstance(x, list) and plain(*x)):
                raise ValueError(f"{self.called}: {name} is a number, not {_shown(x)}") from None


_OF_ARRAYS = (
    "The truth value of an array",
    "only integer scalar arrays",
    "only 0-dimensional arrays",
    "only length-1 arrays",
)
_BUILT_IN = (str, list, tuple, dict, set, frozenset, types.FunctionType)


def _is_whole(x) -> bool:
    return math.isfinite(x) and x == math.floor(x)


def _is(x, kind) -> bool:
    """Whether x can be of the declared type; what knows itself as an array, a tracer or another stand-in for numbers can."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Count:
        return _is(x, int) and not (plain(x) and x < 1)
    if kind in (int, float, bool):
        if x is None or isinstance(x, _BUILT_IN) or is_record(x):
            return False
        if kind is bool:
            return not plain(x) or x in (0, 1)
        return not isinstance(x, bool) and (not plain(x) or kind is not int or _is_whole(x))
    if origin in (Union, types.UnionType):
        return any(_is(x, k) for k in inner)
    if kind is type(None):
        return x is None
    if kind is str:
        return isinstance(x, str)
    if origin is Callable:
        return callable(x)
    if origin in (tuple, Sequence, Collection, Iterable):
        return _is_several(x, origin, inner)
    if origin in (Mapping, dict):
        return isinstance(x, Mapping) and all(_is(v, inner[1]) for v in x.values())
    ours = inspect.isclass(kind) and kind.__module__.startswith("helpers.")
    return not ours or isinstance(x, kind) or issubclass(kind, tuple) and isinstance(x, tuple)


def _is_several(x, origin, inner) -> bool:
    if isinstance(x, str):  # several letters
        return inner[0] is str
    if isinstance(x, Mapping) or plain(x) or x is None or is_record(x):
        return False
    if not isinstance(x, tuple | list):
        return True
    if origin is tuple and Ellipsis not in inner:
        return len(x) == len(inner) and all(map(_is, x, inner))
    return all(_is(v, inner[0]) for v in x)


_WORDS = {
    int: "a whole number",
    Count: "a whole number of 1 or more",
    float: "a number",
    bool: "True or False",
    str: "a text",
    type(None): "None",
}


def _words(kind) -> str:
    """A declared type in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin in (Union, types.UnionType):
        return " or ".join(map(_words, inner))
    if origin is Callable:
        return "a function"
    if origin in (tuple, Sequence, Collection, Iterable):
        if origin is tuple and Ellipsis not in inner:
            return "a tuple of " + " and ".join(map(_words, inner))
        return f"a tuple or list, and each of it {_words(inner[0])}"
    if origin in (Mapping, dict):
        return f"a dict, and each of its values {_words(inner[1])}"
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _shown(x) -> str:
    text = repr(x)
    return text if len(text) <= 60 and "\n" not in text else f"what is given, a {type(x).__name__}"


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


def _division(f, given) -> ValueError:
    """What to say of a division by zero: which arguments, or fields of records, are zero."""
    fields = [
        (n if name == "self" else f"{name}.{n}", y) for name, x in given if is_record(x) for n, y in vars(x).items()
    ]
    zero = [[name for name, x in pairs if plain(x) and x == 0 and x is not False] for pairs in (given, fields)]
    named = " or ".join(zero[0] or zero[1]) or "every size and rate"
    return ValueError(f"{_called(f)} divides by zero: give more than 0 for {named}")


def _has_array(x) -> bool:
    kind = type(x)
    if kind in AS_THEY_ARE:
        return False
    if kind is tuple or kind is list:
        return any(map(_has_array, x))
    if kind is dict or is_record(x):
        return any(map(_has_array, x.values() if kind is dict else vars(x).values()))
    return is_array(x)
