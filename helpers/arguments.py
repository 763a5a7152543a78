"""What the cost functions do with their arguments: which numbers they take, and what they say of others.

`@formula` stands above each public formula, and `@record` above each class of them. Called from outside, the formula then

* takes integer arrays of any width as floats, for 8192·8192·32 does not fit into 32 bits; whole numbers of NumPy and of
  Python become Python's, which are exact;
* refuses, with a sentence, what is not of the declared type (`int` a whole number, `Count` one of 1 or more, `Literal` one of
  several words), a negative size, rate or time, a division by zero, and an array where only one number will do. Tracers and nan,
  a number that is not known, are not looked at, and no number of an array is.

What formulas call among themselves is not looked at again.
"""

import inspect
import math
import threading
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from itertools import chain, repeat
from typing import Annotated, Literal, Union, dataclass_transform, get_args, get_origin

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


def formula(target=None, *, signed: str = ""):
    """Above a function or a class: take arguments, and refuse them, as the head of this module says.

    signed  parameters that may be negative, parted by spaces

    >>> @formula
    ... def seconds(n_bytes, bandwidth: float):
    ...     return n_bytes / bandwidth
    >>> seconds(8, 4.0)
    2.0
    >>> seconds(8, "fast")
    Traceback (most recent call last):
    ValueError: seconds: bandwidth is a number, not 'fast'
    """
    if target is None:
        return partial(formula, signed=signed)
    wrap = partial(_formula, signed=frozenset(signed.split()))
    return _with_members(target, wrap) if inspect.isclass(target) else wrap(target)


@dataclass_transform(frozen_default=True)
def record(target=None, *, signed: str = ""):
    """Above a class of the formulas: it is a frozen dataclass, whose fields are looked at as arguments are.

    >>> @record
    ... class Link:
    ...     bandwidth: float
    >>> Link("fast")
    Traceback (most recent call last):
    ValueError: Link: bandwidth is a number, not 'fast'
    """
    if target is None:
        return partial(record, signed=signed)
    return formula(dataclass(frozen=True)(target), signed=signed)


# How records of costs are made, added and multiplied.
OPERATIONS = ("__init__", "__add__", "__radd__", "__mul__", "__rmul__")


def _with_members(cls: type, wrap: Callable) -> type:
    """The class, with what it shows wrapped: methods, operations, and what a property reads."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and (name in OPERATIONS or not name.startswith("_")):
            setattr(cls, name, wrap(member))
        elif isinstance(member, property):
            setattr(cls, name, property(wrap(member.fget), doc=member.__doc__))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(wrap(member.__func__)))
    return cls


@contextmanager
def unchecked() -> Iterator[None]:
    """Around a table of our own, made while its module is imported: its tests look at it, and here that would take longer than it does."""
    before, _outermost.arrays = _outermost.arrays, False  # as if a formula were at work
    try:
        yield
    finally:
        _outermost.arrays = before


class _Outermost(threading.local):
    """Whether a formula is at work, which calls others: None, or whether arrays are among its arguments."""

    arrays: bool | None = None


_outermost = _Outermost()


def _formula(f: Callable, signed: frozenset) -> Callable:
    """`f` as the head of this module says; only the outermost call looks at its arguments, for the others' are made by formulas."""
    parameters = _Parameters(f, signed)

    @wraps(f)
    def entry(*args, **kwargs):
        if _outermost.arrays is False:  # the usual case first: a call inside another formula costs no more than this
            return f(*args, **kwargs)
        if _outermost.arrays:  # what a formula has computed on the way may be too large for JAX's integers
            return f(*map(fitting, args), **{name: fitting(x) for name, x in kwargs.items()})
        args, kwargs = tuple(map(taken, args)), {name: taken(x) for name, x in kwargs.items()}
        _outermost.arrays = any(map(_has_array, args)) or any(map(_has_array, kwargs.values()))
        try:
            if _outermost.arrays:
                args, kwargs = tuple(map(fitting, args)), {name: fitting(x) for name, x in kwargs.items()}
            result = _checked(f, parameters, args, kwargs)
            # What a generator yields is made here, as inside this formula, and not when somebody asks for it.
            return iter(list(result)) if hasattr(result, "__next__") else result
        except ZeroDivisionError:
            raise _division(f, parameters.given(args, kwargs)) from None
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            parameters.explain(error, parameters.given(args, kwargs))
            raise
        finally:
            _outermost.arrays = None

    return entry


def _checked(f: Callable, parameters: "_Parameters", args: tuple, kwargs: dict):
    """The result, once the arguments are what they are declared to be.

    What a class says of its fields by itself comes before the checks, and what a formula says of the numbers in a tuple,
    a list or a dict before that of their signs: both know better what would be right.
    """
    given, makes_record = parameters.given(args, kwargs), f.__name__ == "__init__"
    if not makes_record:
        parameters.check(given)
    result = f(*args, **kwargs)
    if makes_record:
        parameters.check(given)
    for name, x in given:
        if name not in parameters.signed and any(map(_below_zero, _values(x))):
            raise ValueError(f"{parameters.called}: {name} has numbers of 0 or more, not {x}")
    return result


class _Parameters:
    """What the parameters of a function are declared to be, and what is said of something else.

    The signature is read at the first call: most formulas are never called in a process that imports them.
    """

    def __init__(self, f: Callable, signed: frozenset = frozenset()):
        self.f, self.called, self.signed = f, _called(f), signed

    @cached_property
    def by_name(self) -> dict[str, inspect.Parameter]:
        return {n: p for n, p in inspect.signature(self.f).parameters.items() if p.kind is not p.VAR_KEYWORD}

    @cached_property
    def positional(self) -> list[str]:
        return [n for n, p in self.by_name.items() if p.kind is not p.KEYWORD_ONLY]

    @cached_property
    def variadic(self) -> str | None:
        return next((n for n, p in self.by_name.items() if p.kind is p.VAR_POSITIONAL), None)

    @cached_property
    def types(self) -> dict:
        return {n: p.annotation for n, p in self.by_name.items() if p.annotation is not p.empty}

    @cached_property
    def numbers(self) -> set[str]:
        """Parameters without a type: numbers, if no default says that they are something else."""
        untyped = {n: p.default for n, p in self.by_name.items() if n not in self.types}
        others = {n for n, default in untyped.items() if default is None or isinstance(default, str)}
        return untyped.keys() - others - {"self", self.variadic}

    def given(self, args: tuple, kwargs: dict) -> tuple:
        """(parameter, what is given for it) of a call."""
        names = self.positional if self.variadic is None else chain(self.positional, repeat(self.variadic))
        return (*zip(names, args), *kwargs.items())

    def check(self, given) -> None:
        self.check_types(given)
        for name, x in given:
            if isinstance(x, int | float) and x < 0 and name not in self.signed:
                raise ValueError(f"{self.called}: {name} is 0 or more, not {x}")

    def check_types(self, given) -> None:
        for name, x in given:
            if name in self.types and type(x) is not self.types[name] and not _is(x, self.types[name]):
                raise ValueError(f"{self.called}: {name} is {_words(self.types[name])}, not {_shown(x)}")

    def explain(self, error: Exception, given) -> None:
        """A sentence in place of an error of Python's own, if an argument is its cause.

        A parameter without a type takes whatever calculates like a number, so a text, a list or None is wrong only where
        the formula failed at it.
        """
        array_refused = str(error).startswith(ARRAY_ERRORS)
        if isinstance(error, ValueError) and not array_refused:
            return  # a sentence already
        self.check_types(given)
        for name, x in given:
            if array_refused and getattr(x, "shape", ()):
                raise ValueError(f"{self.called}: {name} is one number here, not an array") from None
            if name in self.numbers and (isinstance(x, str) or x is None or isinstance(x, list) and plain(*x)):
                raise ValueError(f"{self.called}: {name} is a number, not {_shown(x)}") from None


ARRAY_ERRORS = (  # how NumPy and JAX begin, where one number was needed
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
    if origin is Literal:
        return isinstance(x, str | int | float) and x in inner
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
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
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


def _values(x):
    """What a tuple, a list or a dict holds; nothing of anything else."""
    kind = type(x)
    return x if kind is tuple or kind is list else x.values() if kind is dict else ()


def _below_zero(x) -> bool:
    """Whether a size, or one in a tuple, a list or a dict of sizes, is below zero."""
    return x < 0 if plain(x) else any(map(_below_zero, _values(x)))


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
    if type(x) in AS_THEY_ARE:
        return False
    return is_array(x) or any(map(_has_array, vars(x).values() if is_record(x) else _values(x)))
