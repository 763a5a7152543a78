"""The types that may cross between processes, and the plain forms of those that JSON has not."""

import sys
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np

RAW_LIMIT = 128_000_000  # bytes of one message beside its text
BITS = 4096  # the size of a whole number

DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name, name))
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
        "complex64", "complex128", "bfloat16", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn",
    )
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # `str` of a type takes as long as all else of a small array
RECORDS = (
    "helpers.costs.rooflines.hardware",
    "helpers.costs.sharding.sharded_array",
    "helpers.costs.sharding.collectives",
    "helpers.costs.rooflines.roofline",
)
"""Modules whose frozen dataclasses may travel, by name and fields."""


class WireError(ValueError):
    """One sentence: what cannot travel."""


def is_array(x) -> bool:
    jax = sys.modules.get("jax")
    return isinstance(x, np.ndarray) or (
        jax is not None and isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)
    )


def is_abstract(x) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.ShapeDtypeStruct)


def is_spec(x) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.sharding.PartitionSpec)


def spec_axes(a):
    names = a if isinstance(a, tuple) else (a,)
    if a is not None and not all(isinstance(n, str) for n in names):
        raise WireError("The message has a PartitionSpec of other things than names.")
    return a


def text_array(x):
    """An array of text, or one NumPy string, from lists of strings as deep as it has dimensions."""
    rest, n, longest = [x], 0, 1
    while rest:
        if isinstance(one := rest.pop(), list):
            rest += one
            continue
        if type(one) is not str:
            raise WireError("An array of text has something else in it.")
        n, longest = n + 1, max(longest, len(one))
    if 4 * n * longest > RAW_LIMIT:  # every place is as wide as the longest text
        raise WireError("An array of text is too large to be handed over.")
    try:
        return np.array(x, dtype=str)[()]
    except ValueError:
        raise WireError("An array of text has rows of different lengths.") from None


def dtype_name(dtype: np.dtype) -> str:
    if dtype.name not in DTYPES:
        raise WireError(f"The type {dtype} cannot be handed over.")
    return dtype.name


def number_tree(x):
    if isinstance(x, complex):
        return {"complex": [x.real, x.imag]}
    text = str(x)
    if len(text) > BITS // 3:
        raise WireError("A number has too many digits.")
    return {"fraction" if isinstance(x, Fraction) else "decimal": text}


def to_number(tag, body):
    if tag == "complex":
        return complex(*map(float, body))
    if not isinstance(body, str) or len(body) > BITS // 3:
        raise WireError("The message has a number of too many digits.")
    if tag == "decimal":
        return Decimal(body)
    top, _, bottom = body.partition("/")  # never "1e999999999", which Fraction would write out
    return Fraction(int(top), int(bottom or "1"))


def record_name(kind: type) -> str | None:
    if kind.__module__ in RECORDS and is_dataclass(kind) and kind.__dataclass_params__.frozen:
        return f"{kind.__module__}.{kind.__qualname__}"
    return None


def to_record(name, values):
    module, _, kind = name.rpartition(".")
    found = vars(sys.modules[module]).get(kind) if module in RECORDS and module in sys.modules else None
    if not isinstance(found, type) or record_name(found) != name or len(fields(found)) != len(values):
        raise WireError(f"The message has the unknown record {ascii(name)[:60]}.")
    made = object.__new__(found)  # a record that was checked when it was made: no code of it runs here
    for f, v in zip(fields(found), values):
        object.__setattr__(made, f.name, v)
    return made


def plain_list(body) -> list:
    if not isinstance(body, list):
        raise WireError("The message has a part of a wrong form.")
    return body


def to_shape(shape) -> tuple[int, ...]:
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(d) is int and 0 <= d < 2**40 for d in shape):
        raise WireError("The message has an array of no proper shape.")
    return tuple(shape)
