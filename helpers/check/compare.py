"""Comparing a learner's values with ours, and closing what an answer may not import."""

import copy
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from numbers import Number

import numpy as np

from .random_inputs import secret

OPEN = ("helpers.costs.rooflines.hardware", "helpers.costs.rooflines.chips", "helpers.arguments", "helpers.numeric")
"""Modules that every answer may use: data and arithmetic. The formulas are what exercises ask for."""

ROOMS = "rooflines sharding transformers attention training inference racks experts"
CLOSED = ("helpers.costs.", "helpers.trace.", *(f"helpers.kernels.{room}" for room in ROOMS.split()))
"""Where the formulas, the simulators and the counters are that exercises ask for: modules whose names begin so."""


NUMBERS = int, float, np.float64
ROUNDING = 1e-14  # of the largest number of a list
WHOLE = 2**63  # from here on NumPy has no type for a whole number


class OffLimits(Exception):
    """An answer called a function that it was asked to write."""


@contextmanager
def closed():
    """Refuse calls of the functions of `CLOSED` while an answer runs, under whatever name it imported them.

    Python shows each call to `look`, as it does to a profiler; what is raised there is raised by that call.
    A result that `jax.jit` remembers from an earlier call is not seen, nor what another thread calls.
    """
    refused = []

    def look(frame, event, _):
        if event == "call" and (name := _formula(frame)):
            refused.append(f"{name} is off limits inside an answer: write it out")
            raise OffLimits(refused[0])

    before = sys.getprofile()
    sys.setprofile(look if CLOSED else before)
    try:
        yield
    finally:
        sys.setprofile(before)
        # Also if the answer, or JAX, has caught it and gone on: once `look` has raised, Python shows it no further calls.
        if refused:
            raise OffLimits(refused[0]) from None


def _formula(frame) -> str:
    """The name of the closed function that begins in this frame; "" for any other.

    Records may be made and added, a function that one of these made may be called, and a module may call what it needs
    when an answer is the first to import it.
    """
    module, code = str(frame.f_globals.get("__name__")), frame.f_code
    if not module.startswith(CLOSED) or module in OPEN:
        return ""
    if code.co_name.startswith("__") or "<locals>" in code.co_qualname:
        return ""
    while frame := frame.f_back:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return ""
    return f"{module}.{code.co_qualname}"


def same(value, expected, rtol: float, zero_tolerance: float = 1e-6) -> str | None:
    """None if the value is the expected one, else what differs, without saying what was expected.

    zero_tolerance  numbers of an array that are smaller than this share of its largest one may be off by rtol of that share
    """
    if expected is Ellipsis or _near(value, expected, rtol):
        return None
    if expected is None or isinstance(expected, (str, bool)):
        value = value.item() if getattr(value, "shape", None) == () else value  # NumPy's or JAX's
        if type(value) is type(expected):
            alike = "".join(value.split()) == "".join(expected.split()) if isinstance(value, str) else value == expected
            return None if alike else "that is not it"
        return _asked(expected, value)
    array = isinstance(value, np.ndarray) or hasattr(value, "__array_namespace__")
    if isinstance(expected, Mapping) or isinstance(expected, (tuple, list)) and not array:
        return _same_entries(value, expected, rtol, zero_tolerance)
    return _same_number(value, expected, rtol, zero_tolerance)


def near(x, y, rtol: float = 1e-3) -> bool:
    """Whether arrays have one shape and their numbers differ by rtol at most, small ones by a tenth of that of the largest.

    >>> near([1.0001, 0], [1, 1e-5]), near([1.0, 2], [1, 2.01]), near(1, [1])
    (True, False, False)
    """
    return np.shape(x) == np.shape(y) and np.allclose(x, y, rtol, rtol / 10 * np.abs(y).max())


def selected(value, names: Sequence[str]):
    """The named entries of a dict, None if it lacks one; all of the value without names, or if it is no dict.

    >>> selected({"a": 1, "b": 2}, ("b",)), selected({"a": 1}, ("b",)), selected(3, ())
    ({'b': 2}, None, 3)
    """
    if not names or not isinstance(value, Mapping):
        return value
    return {name: value[name] for name in names} if all(name in value for name in names) else None


def copied(x):
    """A copy of what can be changed in place: lists, dicts, NumPy's arrays, and what tuples hold of these."""
    if type(x) in (tuple, list):
        return type(x)(map(copied, x))
    if type(x) is dict:
        return {k: copied(v) for k, v in x.items()}
    return copy.deepcopy(x) if isinstance(x, np.ndarray | list | dict | set | bytearray) else x


def as_before(x, saved) -> bool:
    """Whether something still is what it was when it was copied.

    >>> a = [1, np.zeros(2)]; b = copied(a); a[1] += 1
    >>> as_before(a, b), as_before(b, copied(b))
    (False, True)
    """
    if isinstance(saved, tuple | list):
        return type(x) is type(saved) and len(x) == len(saved) and all(map(as_before, x, saved))
    if isinstance(saved, dict):
        return list(x) == list(saved) and all(as_before(x[k], v) for k, v in saved.items())
    if isinstance(saved, np.ndarray):
        return x.shape == saved.shape and x.tobytes() == saved.tobytes()
    return x is saved or isinstance(saved, set | bytearray | Number | str) and x == saved


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


def place_of(key, expected) -> str:
    """Where an entry of a dict, a tuple or a list stands, as a message begins."""
    return f"in entry {key!r}, " if isinstance(expected, Mapping) else f"value {key + 1} of {len(expected)}: "


def _same_entries(value, expected, rtol, zero_tolerance):
    """What differs in a dict, a tuple or a list: its form, or the first entry that is wrong."""
    keys = list(expected) if isinstance(expected, Mapping) else range(len(expected))
    if isinstance(expected, Mapping):
        if not isinstance(value, Mapping):
            return f"a dict with the entries {', '.join(map(str, expected))} is asked for, this is {kind(value)}"
        if missing := [str(k) for k in expected if k not in value]:
            return f"the entry {missing[0]!r} is missing"
    elif not isinstance(value, (tuple, list)):
        return f"{len(expected)} values are asked for, this is {kind(value)}"
    elif len(value) != len(expected):
        more = "more" if len(value) > len(expected) else "fewer"
        return f"{len(expected)} values are asked for, these are {more if secret() else len(value)}"
    noise = 0.0 if isinstance(expected, Mapping) else ROUNDING * _largest(expected)
    pairs = ((k, value[k], expected[k]) for k in keys)
    differ = ((k, None if _is_rounding(g, e, noise) else same(g, e, rtol, zero_tolerance)) for k, g, e in pairs)
    return next((place_of(k, expected) + difference for k, difference in differ if difference), None)


def _largest(numbers) -> float:
    """The largest of those entries that are plain numbers; 0 without any."""
    return max((abs(float(x)) for x in numbers if type(x) in NUMBERS and abs(x) < WHOLE), default=0.0)


def _is_rounding(value, expected, noise: float) -> bool:
    """Whether a zero of a list came out as what rounding leaves of numbers as large as its others, as of 1 - (1 - p)."""
    return noise > 0 and type(expected) in NUMBERS and expected == 0 and type(value) in NUMBERS and abs(value) <= noise


def _near(value, expected, rtol: float) -> bool:
    """Whether two plain numbers are alike, as `_same_number` says it: most are, and NumPy takes ten times as long."""
    for x in (value, expected):
        if type(x) not in NUMBERS or type(x) is int and abs(x) >= WHOLE:
            return False
    g, e = float(value), float(expected)  # NumPy's own warn of an overflow
    return g == e or abs(g - e) <= rtol * max(abs(e), 1e-12) < math.inf


def _same_number(value, expected, rtol, zero_tolerance):
    try:
        g, e = np.asarray(_plain(value)), np.asarray(_plain(expected))
        if g.dtype == object or g.dtype.kind in "USb":
            raise TypeError
        g, e = (g, e) if "c" in g.dtype.kind + e.dtype.kind else (g.astype(float), e.astype(float))
    except (TypeError, ValueError):
        return _asked(expected, value)
    if g.shape != e.shape:
        if secret():
            return "the shape is not what was asked for"  # by its own an answer could tell what it was given
        shape = "empty" if not g.size else g.shape or "that of a single number"
        return f"the shape is {shape}, which is not what was asked for"
    largest = np.abs(e[np.isfinite(e)]).max(initial=0) if e.ndim else 0.0
    scale = np.maximum(np.abs(e), largest * zero_tolerance + 1e-12)
    with np.errstate(all="ignore"):
        close = (g == e) | (np.abs(g - e) <= rtol * scale) & np.isfinite(g) & np.isfinite(e)
    if close.all():
        return None
    if e.ndim == 0:
        if rtol < 1e-4 and np.abs(g - e) < 1e-4 * np.abs(e):
            return "that is right to four digits only: is some of it in float32, or rounded?"
        return "that is not it: too large" if g > e else "that is not it: too small" if g < e else "that is no number"
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


def alike(value, expected, rtol: float) -> bool:
    """Whether the value is the expected one."""
    return same(value, expected, rtol) is None


def _asked(expected, value) -> str:
    return f"{kind(expected)} is asked for, this is {kind(value)}"


def kind(x) -> str:
    """What a value is, with its article."""
    if x is None:
        return "None"
    names = (
        (bool, "a truth value"), (str, "a string"), (Mapping, "a dict"), (tuple, "a tuple"), (list, "a list"),
        (complex, "a complex number"), (Number, "a number"),
    )  # fmt: skip
    other = "an array" if getattr(x, "ndim", 0) else "a function" if callable(x) else with_article(type(x).__name__)
    return next((name for type_, name in names if isinstance(x, type_)), other)


def with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeioAEIOU' else 'a'} {name}"


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
    return text if text and len(text) <= 80 else with_article(type(x).__name__)
