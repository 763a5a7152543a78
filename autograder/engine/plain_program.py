"""The blocks of a program as a text and arrays, for the way from who reads it to who looks into it.

Nothing is believed of them: what comes back is made of numbers, names, known types and arrays, or is a `ValueError`.
"""

import json
import math
from types import SimpleNamespace

import numpy as np

from .program_data import LARGEST, Block, Op
from .wire import DTYPES

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def written(functions: dict[str, Block]) -> dict:
    """The functions of a program, as `restored` takes them."""
    arrays: list[np.ndarray] = []

    def plain(x):
        if isinstance(x, Op):
            return [x.kind, x.takes, x.gives, [[shape, NAMES[dtype]] for shape, dtype in x.types], x.of, x.blocks]
        if isinstance(x, Block):
            return [x.arguments, x.ops, x.ends]
        if isinstance(x, SimpleNamespace):
            return {"names": vars(x)}
        same = x.size > 1 and not any(x.strides)  # one number, as large as it looks only when it is used
        arrays.append(np.asarray(x.flat[0], x.dtype) if same else x)
        return {"array": len(arrays) - 1, "shape": x.shape}

    return {"text": json.dumps(functions, default=plain), "arrays": arrays}


def restored(blocks: dict) -> dict[str, Block]:
    """The functions of a program."""
    try:
        arrays = [a for a in blocks["arrays"] if isinstance(a, np.ndarray)]
        return {name: _block(block, arrays) for name, block in json.loads(blocks["text"]).items()}
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as e:
        raise ValueError(f"the program cannot be read ({type(e).__name__})") from None


def _block(tree: list, arrays: list) -> Block:
    arguments, ops, ends = tree
    return Block(_whole(arguments), [_op(op, arrays) for op in ops], _whole(ends))


def _op(tree: list, arrays: list) -> Op:
    kind, takes, gives, types, settings, blocks = tree
    known = [(_shape(shape), DTYPES[name]) for shape, name in types]
    of = {name: _setting(value, arrays) for name, value in settings.items()}
    return Op(str(kind), _whole(takes), _whole(gives), known, of, [_block(b, arrays) for b in blocks])


def _setting(value, arrays: list):
    """An attribute: a plain value, numbers, numbers with names, or an array."""
    if isinstance(value, list):
        return tuple(_setting(v, arrays) for v in value)
    if not isinstance(value, dict):
        return value
    if "names" in value:
        return SimpleNamespace(**{str(n): _setting(v, arrays) for n, v in value["names"].items()})
    array, shape = arrays[value["array"]], _shape(value["shape"])
    if math.prod(shape) > LARGEST:
        raise ValueError("a constant is too large")
    return np.broadcast_to(array, shape) if array.shape != shape else array


def _whole(numbers: list) -> list[int]:
    if not all(type(n) is int for n in numbers):
        raise ValueError("no whole numbers")
    return numbers


def _shape(dims: list) -> tuple[int, ...]:
    if not all(0 <= n < 2**40 for n in _whole(dims)):
        raise ValueError("no shape")
    return tuple(dims)
