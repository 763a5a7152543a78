"""Comparing a learner's values with ours, and closing what an answer may not import."""

import copy
import pkgutil
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from importlib import import_module
from inspect import isgeneratorfunction, unwrap
from numbers import Number
from types import CodeType, FunctionType

import numpy as np

OPEN = ("helpers.costs.rooflines.hardware", "helpers.costs.rooflines.chips", "helpers.arguments", "helpers.numeric")
"""Modules that every answer may use: data and arithmetic. The formulas are what exercises ask for."""

PROGRAMS = tuple(
    f"helpers.kernels.{room}" for room in "sharding transformers attention training inference racks".split()
)
CLOSED = ("helpers.costs.", "helpers.kernels.rooflines", *PROGRAMS, "helpers.trace.")
"""Where the formulas, the simulators and the counters are that exercises ask for: modules whose names begin so."""


_shut: dict[int, list[tuple[FunctionType, CodeType]]] = {}
"""What `closed` has closed just now, with the code to put back."""


class OffLimits(Exception):
    """An answer called a function that it was asked to write."""


@contextmanager
def closed():
    """Close the functions of `CLOSED` while an answer runs, under whatever name it imported them.

    A function's code is exchanged rather than its name, because `from … import f` keeps the function itself.
    A result that `jax.jit` remembers from an earlier call is not seen.
    """
    _load("jax" in sys.modules)
    refusals = _refusals(len(sys.modules))
    kept = [(f, f.__code__) for f, _ in refusals]
    _shut[id(kept)] = kept
    for f, refusal in refusals:
        f.__code__ = refusal
    try:
        yield
    except PermissionError as e:
        if "is off limits inside an answer" in str(e):
            raise OffLimits(str(e)) from None
        raise
    finally:
        _open(kept)


def reopen() -> None:
    """Open what an answer that never ends would keep closed."""
    for kept in [*_shut.values()][::-1]:
        _open(kept)


def _open(kept: list[tuple[FunctionType, CodeType]]) -> None:
    for f, code in kept:
        f.__code__ = code
    _shut.pop(id(kept), None)


@lru_cache(4)
def _refusals(modules: int) -> list[tuple[FunctionType, CodeType]]:
    """Every function to be closed, and what stands in its place; found anew when more modules were imported."""
    return [(f, _refusal(f).__code__) for f in _formulas()]


def _formulas() -> list[FunctionType]:
    """Functions, methods and properties of the closed modules."""
    found = []
    for m in [m for name, m in sys.modules.items() if name.startswith(CLOSED) and name not in OPEN]:
        classes = [c for c in vars(m).values() if isinstance(c, type) and c.__module__ == m.__name__]
        things = [(name, x) for owner in (m, *classes) for name, x in vars(owner).items() if not name.startswith("__")]
        plain = [
            unwrap(x.fget if isinstance(x, property) else x)
            for _, x in things
            if callable(x) or isinstance(x, property)
        ]
        found += [f for f in plain if isinstance(f, FunctionType) and f.__module__ == m.__name__ and not f.__closure__]
    return found


@cache
def _load(jax: bool) -> None:
    """Import what is to be closed, so that an answer cannot be the first to do so; JAX programs only beside JAX."""
    _whole("helpers.costs")
    _whole("helpers.kernels.rooflines")
    for name in PROGRAMS if jax else ():
        _whole(name)


def _whole(name: str) -> None:
    """Import a package with all that lies in it."""
    for info in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
        import_module(info.name)


def _refusal(f: FunctionType) -> FunctionType:
    text = f"{f.__module__}.{f.__qualname__} is off limits inside an answer: write it out"
    scope: dict = {}
    # No free names but a builtin, for it runs in f's module; a generator may only be exchanged for a generator.
    exec(f"def refusal(*a, **k):\n raise PermissionError({text!r})\n" + " yield" * isgeneratorfunction(f), scope)
    return scope["refusal"]


def same(got, expected, rtol: float, floor: float = 1e-6) -> str | None:
    """None if the value is the expected one, else what differs, without saying what was expected.

    floor  numbers of an array that are smaller than this share of its largest one may be off by rtol of that share
    """
    if expected is Ellipsis:
        return None
    if expected is None or isinstance(expected, (str, bool)):
        got = got.item() if getattr(got, "shape", None) == () else got  # NumPy's or JAX's
        if type(got) is type(expected):
            alike = "".join(got.split()) == "".join(expected.split()) if isinstance(got, str) else got == expected
            return None if alike else "that is not it"
        return _asked(expected, got)
    if isinstance(expected, Mapping):
        return _same_mapping(got, expected, rtol, floor)
    if isinstance(expected, (tuple, list)) and not (isinstance(got, np.ndarray) or hasattr(got, "__array_namespace__")):
        return _same_sequence(got, expected, rtol, floor)
    return _same_number(got, expected, rtol, floor)


def copied(x):
    """A copy of what can be changed in place: lists, dicts, NumPy's arrays, and what tuples hold of these."""
    if type(x) in (tuple, list):
        return type(x)(map(copied, x))
    if type(x) is dict:
        return {k: copied(v) for k, v in x.items()}
    return copy.deepcopy(x) if isinstance(x, np.ndarray | list | dict | set | bytearray) else x


def as_before(x, before) -> bool:
    """Whether something still is what it was when it was copied.

    >>> a = [1, np.zeros(2)]; b = copied(a); a[1] += 1
    >>> as_before(a, b), as_before(b, copied(b))
    (False, True)
    """
    if isinstance(before, tuple | list):
        return type(x) is type(before) and len(x) == len(before) and all(map(as_before, x, before))
    if isinstance(before, dict):
        return list(x) == list(before) and all(as_before(x[k], v) for k, v in before.items())
    if isinstance(before, np.ndarray):
        return x.shape == before.shape and x.tobytes() == before.tobytes()
    return x is before or isinstance(before, set | bytearray | Number | str) and x == before


def sides(value):
    """What a value says besides its numbers: texts, truth values, and how many there are of what.

    >>> sides({"chips": 8, "bound": "memory"}), sides((1.5, None))
    ({'chips': 'number', 'bound': 'memory'}, ['number', None])
    """
    if value is None or value is Ellipsis or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Mapping):
        return {k: sides(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [*map(sides, value)]
    return getattr(value, "shape", ()) or "number"


def _same_mapping(got, expected, rtol, floor):
    if not isinstance(got, Mapping):
        return f"a dict with the entries {', '.join(map(str, expected))} is asked for, this is {kind(got)}"
    if missing := [str(k) for k in expected if k not in got]:
        return f"the entry {missing[0]!r} is missing"
    return next((f"in entry {k!r}, {w}" for k, v in expected.items() if (w := same(got[k], v, rtol, floor))), None)


def _same_sequence(got, expected, rtol, floor):
    if not isinstance(got, (tuple, list)):
        return f"{len(expected)} values are asked for, this is {kind(got)}"
    if len(got) != len(expected):
        return f"{len(expected)} values are asked for, these are {len(got)}"
    return next(
        (
            f"value {i + 1} of {len(expected)}: {w}"
            for i, (g, e) in enumerate(zip(got, expected))
            if (w := same(g, e, rtol, floor))
        ),
        None,
    )


def _same_number(got, expected, rtol, floor):
    try:
        g, e = np.asarray(_plain(got)), np.asarray(expected)
        if g.dtype == object or g.dtype.kind in "USb":
            raise TypeError
        g, e = (g, e) if "c" in g.dtype.kind + e.dtype.kind else (g.astype(float), e.astype(float))
    except (TypeError, ValueError):
        return _asked(expected, got)
    if g.shape != e.shape:
        return f"the shape is {g.shape if g.size else 'empty'}, which is not what was asked for".replace(
            "()", "that of a single number"
        )
    scale = np.maximum(np.abs(e), 1e-12 if e.ndim == 0 else np.abs(e[np.isfinite(e)]).max(initial=0) * floor + 1e-12)
    with np.errstate(all="ignore"):
        close = (g == e) | (np.abs(g - e) <= rtol * scale) & np.isfinite(g) & np.isfinite(e)
    if close.all():
        return None
    if e.ndim == 0:
        if rtol < 1e-4 and np.abs(g - e) < 1e-4 * np.abs(e):
            return "that is right to four digits and no further: is some of it in float32, or rounded on the way?"
        return (
            "that is not it: too large" if g > e else "that is not it: too small" if g < e else "that is not a number"
        )
    return f"{int((~close).sum())} of {e.size} numbers are off, the first at index {tuple(int(i) for i in np.argwhere(~close)[0])}"


def _plain(x):
    """A number of Python's own that NumPy has not, as a float; infinity for what no float holds."""
    if isinstance(x, bool) or not isinstance(x, (int, Fraction, Decimal)):
        return x
    if isinstance(x, Decimal) and x.is_nan():  # a signalling one cannot become a float
        return float("nan")
    try:
        return float(x)
    except OverflowError:
        return float("inf") if x > 0 else -float("inf")


def _asked(expected, got) -> str:
    return f"{kind(expected)} is asked for, this is {kind(got)}"


def kind(x) -> str:
    """What a value is, with its article."""
    if x is None:
        return "None"
    names = (
        (bool, "a truth value"), (str, "a string"), (Mapping, "a dict"), (tuple, "a tuple"), (list, "a list"),
        (complex, "a complex number"), (Number, "a number"),
    )  # fmt: skip
    return next(
        (n for t, n in names if isinstance(x, t)), "an array" if getattr(x, "ndim", 0) else f"a {type(x).__name__}"
    )


def shown(x) -> str:
    """A short text for a value in a message, for numbers one that can be pasted back."""
    if hasattr(x, "ndim") and hasattr(x, "dtype"):
        if type(x).__name__.endswith("Tracer"):  # has no numbers yet
            return f"an array of shape {tuple(x.shape)}"
        if x.ndim == 0:
            return f"{x:.6g}" if x.dtype.kind == "f" else str(x)
        if x.size <= 12:
            return np.array2string(np.asarray(x), precision=6, separator=", ", max_line_width=10_000)
        return f"an array of shape {tuple(x.shape)}"
    if isinstance(x, float):
        return f"{x:.6g}"
    if isinstance(x, Mapping):
        return "{" + ", ".join(f"{k!r}: {shown(v)}" for k, v in x.items()) + "}"
    if isinstance(x, (tuple, list)) and len(x) <= 12:
        open_, close = "[]" if isinstance(x, list) else "()"
        return open_ + ", ".join(map(shown, x)) + ("," if len(x) == 1 and open_ == "(" else "") + close
    text = getattr(x, "name", None) if type(x).__name__ in ("Chip", "Slice") else repr(x)
    return text if text and len(text) <= 80 else f"a {type(x).__name__}"
