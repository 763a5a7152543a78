"""The operations of a program on NumPy arrays: what one device computes. Nothing is compiled.

Small types (bf16, f16, fp8) are computed in f32 and rounded after each operation.
"""

import math
from collections.abc import Callable

import numpy as np

from .program_data import Block, Op, Unsupported, only_operation
from .wire import DTYPES

SORTED_AT_MOST = 2048  # numbers in a row


def _quotient(a, b):
    if a.dtype.kind in "fc":
        return a / b
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, np.asarray(-1).astype(a.dtype), (a - np.fmod(a, safe)) // safe)


def _remainder(a, b):
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b)))


def _power(a, b):
    return np.power(a, b) if a.dtype.kind in "fc" else np.where(b < 0, 0, np.power(a, np.where(b < 0, 0, b)))


def _shift(direction: str) -> Callable:
    def shift(a, by):
        bits, unsigned = 8 * a.dtype.itemsize, np.dtype(f"u{a.dtype.itemsize}")
        far = by.view(unsigned) >= bits
        if direction == "left":
            return np.where(far, 0, np.left_shift(a, np.where(far, 0, by)))
        if direction == "arithmetic":
            return np.right_shift(a, np.where(far, bits - 1, by))
        return np.where(far, 0, np.right_shift(a.view(unsigned), np.where(far, 0, by).view(unsigned)).view(a.dtype))

    return shift


ELEMENTWISE = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": _quotient, "remainder": _remainder,
    "maximum": np.maximum, "minimum": np.minimum, "power": _power, "atan2": np.arctan2, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_not, "negate": np.negative, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "round_nearest_even": np.rint, "exponential": np.exp,
    "round_nearest_afz": lambda x: np.trunc(x + np.copysign(x.dtype.type(0.5), x)),
    "exponential_minus_one": np.expm1, "log": np.log, "log_plus_one": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "logistic": lambda x: 1 / (1 + np.exp(-x)), "sine": np.sin,
    "cosine": np.cos, "tan": np.tan, "is_finite": np.isfinite, "select": np.where,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "chlo.erf": np.vectorize(math.erf, [float]), "chlo.erfc": np.vectorize(math.erfc, [float]),
    "shift_left": _shift("left"), "shift_right_logical": _shift("logical"), "shift_right_arithmetic": _shift("arithmetic"),
    "optimization_barrier": lambda *x: x[0] if len(x) == 1 else x, "sdy.sharding_constraint": lambda x: x,
}  # fmt: skip
COMPARES = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
FOLDS = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
SMALL = frozenset(DTYPES[n] for n in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"))


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype in SMALL else x


def function(op: Op) -> Callable:
    """What an operation does with its operands; its result has the shape and type that the program says."""
    makers = {
        "constant": _constant, "iota": _iota, "compare": _compare, "convert": _convert, "bitcast_convert": _bitcast,
        "reshape": lambda op: lambda x: x.reshape(op.types[0][0]),
        "transpose": lambda op: lambda x: x.transpose(op.of["permutation"]),
        "concatenate": lambda op: lambda *parts: np.concatenate(parts, axis=op.of["dimension"]),
        "reverse": lambda op: lambda x: np.flip(x, op.of["dimensions"]),
        "dynamic_slice": lambda op: lambda x, *starts: x[_corner(x.shape, op.of["slice_sizes"], starts)],
        "broadcast_in_dim": _broadcast, "slice": _slice, "pad": _pad,
        "dynamic_update_slice": _dynamic_update_slice, "dot_general": _dot, "reduce": _reduce, "sort": _sort, "gather": _gather,
        "reduce_window": _reduce_window, "scatter": _scatter,
    }  # fmt: skip
    if op.kind in ELEMENTWISE:
        return ELEMENTWISE[op.kind]
    if op.kind not in makers:
        raise Unsupported(f"a check cannot look into a program with {op.kind[:40]}")
    return makers[op.kind](op)


def carried_out(op: Op, f: Callable, given: list[np.ndarray]) -> list[np.ndarray]:
    """The results of one operation on one device."""
    found = f(*map(wide, given))
    found = [np.asarray(x) for x in (found if isinstance(found, (tuple, list)) else (found,))]
    for x, (shape, _) in zip(found, op.types, strict=True):
        if x.shape != shape:
            raise Unsupported(f"a check cannot carry out a {op.kind} of shape {shape}")
    return [x if x.dtype == dtype else x.astype(dtype) for x, (_, dtype) in zip(found, op.types)]


def _region(block: Block) -> Callable:
    """A block on single numbers, applied to arrays of them at once."""
    steps = [(op, function(op)) for op in block.ops]
    if any(op.blocks or op.kind in ("iota", "reduce", "dot_general", "gather") for op, _ in steps):
        raise Unsupported("a check cannot look into a program with a reduction of its own")

    def run(*given):
        values = dict(zip(block.arguments, given, strict=True))
        for op, f in steps:
            made = np.asarray(f(*(wide(values[i]) for i in op.takes)))
            values[op.gives[0]] = made.astype(op.types[0][1])
        return [values[i] for i in block.ends]

    return run


def _constant(op):
    if op.of["value"] is None:
        raise Unsupported(f"a check cannot look into a program with constants of {op.types[0][1]}")
    return lambda: op.of["value"]


def _iota(op):
    (shape, dtype), d = op.types[0], op.of["iota_dimension"]
    line = np.arange(shape[d]).astype(dtype).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return lambda: np.broadcast_to(line, shape)


def _compare(op):
    f, total = COMPARES[op.of["comparison_direction"]], "TOTALORDER" in op.of.get("compare_type", "")
    return (lambda a, b: f(_total(a), _total(b))) if total else f


def _total(x):
    """Whole numbers in the order of the floats, NaN last."""
    if x.dtype.kind != "f":
        return x
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").reshape(x.shape)
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _convert(op):
    dtype = op.types[0][1]

    def convert(x):
        if dtype.kind == "b":
            return x != 0
        if dtype.kind in "iu" and x.dtype.kind == "f":
            limits = np.iinfo(dtype)
            x = np.clip(np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0), float(limits.min), float(limits.max))
        return x.astype(dtype)

    return convert


def _bitcast(op):
    (shape, dtype) = op.types[0]

    def bitcast(x):
        if x.dtype.itemsize != dtype.itemsize:
            raise Unsupported("a check cannot look into a program with bitcast_convert to another size")
        return np.ascontiguousarray(x).view(dtype).reshape(shape)

    return bitcast


def _broadcast(op):
    shape, dims = op.types[0][0], op.of["broadcast_dimensions"]

    def broadcast(x):
        sizes = [1] * len(shape)
        for d, n in zip(dims, x.shape):
            sizes[d] = n
        return np.broadcast_to(x.reshape(sizes), shape)

    return broadcast


def _slice(op):
    at = tuple(map(slice, *(op.of[n] for n in ("start_indices", "limit_indices", "strides"))))
    return lambda x: x[at]


def _pad(op):
    low, high, inner = (op.of[n] for n in ("edge_padding_low", "edge_padding_high", "interior_padding"))

    def pad(x, value):
        sizes = [n + max(0, n - 1) * i for n, i in zip(x.shape, inner)]
        spread = np.full(sizes, value, x.dtype)
        spread[tuple(slice(None, None, i + 1) for i in inner)] = x
        cut = spread[tuple(slice(max(0, -a), n - max(0, -b)) for a, b, n in zip(low, high, sizes))]
        return np.pad(cut, [(max(0, a), max(0, b)) for a, b in zip(low, high)], constant_values=value)

    return pad


def _corner(shape, sizes, starts) -> tuple[slice, ...]:
    begins = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, shape, sizes)]
    return tuple(slice(b, b + size) for b, size in zip(begins, sizes))


def _dynamic_update_slice(op):
    def update(x, new, *starts):
        x = x.copy()
        x[_corner(x.shape, new.shape, starts)] = new
        return x

    return update


def _dot(op):
    d, dtype = op.of["dot_dimension_numbers"], op.types[0][1]
    batch = d.lhs_batching_dimensions, d.rhs_batching_dimensions
    contract = d.lhs_contracting_dimensions, d.rhs_contracting_dimensions

    def dot(a, b):
        kept = [[i for i in range(x.ndim) if i not in (*bs, *cs)] for x, bs, cs in zip((a, b), batch, contract)]
        shape = [*(a.shape[i] for i in batch[0]), *(a.shape[i] for i in kept[0]), *(b.shape[i] for i in kept[1])]
        if dtype.kind in "iu" or dtype.itemsize > 4:
            a, b = a.astype(dtype), b.astype(dtype)
        blocks = [a.shape[i] for i in batch[0]]
        inner = [math.prod(a.shape[i] for i in contract[0])]
        left = a.transpose(*batch[0], *kept[0], *contract[0]).reshape(*blocks, -1 if a.size else 0, *inner)
        right = b.transpose(*batch[1], *contract[1], *kept[1]).reshape(*blocks, *inner, -1 if b.size else 0)
        return np.matmul(left, right).reshape(shape)

    return dot


def _reduce(op):
    fold, dims, n = FOLDS.get(only_operation(op.blocks[0])), op.of["dimensions"], len(op.gives)

    def plain(x, start):
        return fold(fold.reduce(x, axis=dims, dtype=x.dtype), start)

    if fold is not None:
        return plain
    region = _region(op.blocks[0])

    def general(*given):
        rest = [i for i in range(given[0].ndim) if i not in dims]
        rows = [x.transpose(*dims, *rest).reshape(-1, *(x.shape[i] for i in rest)) for x in given[:n]]
        found = [np.broadcast_to(s, r.shape[1:]) for s, r in zip(given[n:], rows)]
        for i in range(len(rows[0])):
            found = region(*found, *(r[i] for r in rows))
        return found

    return general


def _reduce_window(op):
    fold = FOLDS.get(only_operation(op.blocks[0]))
    size, out = op.of["window_dimensions"], op.types[0][0]
    one = (1,) * len(size)
    stride, by = op.of.get("window_strides", one), op.of.get("window_dilations", one)
    padding = op.of.get("padding", np.zeros((len(size), 2), int))
    if fold is None or len(op.gives) > 1 or op.of.get("base_dilations", one) != one:
        raise Unsupported("a check cannot look into a program with such a reduce_window")

    def slide(x, start):
        x = np.pad(x, [tuple(map(int, p)) for p in padding], constant_values=start)
        found = np.full(out, start, x.dtype)
        for offset in np.ndindex(*size):
            at = [slice(o * b, o * b + (n - 1) * s + 1, s) for o, b, n, s in zip(offset, by, out, stride)]
            found = fold(found, x[tuple(at)])
        return found

    return slide


def _sort(op):
    region, d = _region(op.blocks[0]), op.of["dimension"]

    def sort(*given):
        rows = [np.moveaxis(x, d, -1) for x in given]
        n = rows[0].shape[-1]
        if n > SORTED_AT_MOST:
            raise Unsupported("a check cannot look into a program that sorts so many numbers")
        pairs = [p for r in rows for p in np.broadcast_arrays(r[..., :, None], r[..., None, :])]
        before = region(*pairs)[0]  # [..., i, j]: i stands before j
        alike = ~before & ~np.swapaxes(before, -1, -2) & np.tri(n, k=-1, dtype=bool).T
        order = np.argsort((before | alike).sum(-2), axis=-1, kind="stable")
        return [np.moveaxis(np.take_along_axis(r, order, -1), -1, d) for r in rows]

    return sort


def _windows(shape, window, collapsed, batching, starts, start_batching, vector_dim, index_map):
    """For each dimension of an operand the indices of every window, [batch..., window...], and the first of each window."""
    if vector_dim == starts.ndim:
        starts = starts[..., None]
    starts = np.moveaxis(starts, vector_dim, -1).astype(np.int64)
    batch, offsets = starts.shape[:-1], [n for d, n in enumerate(window) if d not in collapsed]
    begins = [np.zeros(batch, np.int64) for _ in shape]
    for i, d in enumerate(index_map):
        begins[d] = starts[..., i]
    for d, along in zip(batching, start_batching):
        i = along - (along > vector_dim)
        begins[d] = np.broadcast_to(
            np.arange(shape[d]).reshape([-1 if k == i else 1 for k in range(len(batch))]), batch
        )
    kept = [d for d in range(len(shape)) if d not in collapsed]
    inner = []
    for d in range(len(shape)):
        sizes = [window[d] if d == k else 1 for k in kept]
        inner.append(np.arange(window[d] if d in kept else 1).reshape([1] * len(batch) + sizes))
    return begins, inner, len(batch), offsets


def _gather(op):
    d, window = op.of["dimension_numbers"], op.of["slice_sizes"]
    collapsed = (*d.collapsed_slice_dims, *d.operand_batching_dims)

    def gather(x, starts):
        begins, inner, n, offsets = _windows(
            x.shape, window, collapsed, d.operand_batching_dims, starts, d.start_indices_batching_dims,
            d.index_vector_dim, d.start_index_map,
        )  # fmt: skip
        at = [
            np.clip(b, 0, size - w).reshape(b.shape + (1,) * len(offsets)) + i
            for b, size, w, i in zip(begins, x.shape, window, inner)
        ]
        found = x[tuple(at)]
        return np.moveaxis(found, range(n, found.ndim), d.offset_dims)

    return gather


def _scatter(op):
    d, kind = op.of["scatter_dimension_numbers"], only_operation(op.blocks[0])
    block = op.blocks[0]
    over = not block.ops and block.ends == block.arguments[1:]
    if len(op.gives) > 1 or not over and kind not in FOLDS:
        raise Unsupported("a check cannot look into a program with such a scatter")
    collapsed = (*d.inserted_window_dims, *d.input_batching_dims)

    def scatter(x, starts, new):
        new = np.moveaxis(new, d.update_window_dims, range(new.ndim - len(d.update_window_dims), new.ndim))
        kept = iter(new.shape[new.ndim - len(d.update_window_dims) :])
        window = [1 if k in collapsed else next(kept) for k in range(x.ndim)]
        begins, inner, n, offsets = _windows(
            x.shape, window, collapsed, d.input_batching_dims, starts, d.scatter_indices_batching_dims,
            d.index_vector_dim, d.scattered_dims_to_operand_dims,
        )  # fmt: skip
        inside = np.all([(b >= 0) & (b + w <= s) for b, w, s in zip(begins, window, x.shape)], axis=0)
        at = [np.where(inside, b, 0).reshape(b.shape + (1,) * len(offsets)) + i for b, i in zip(begins, inner)]
        chosen = np.broadcast_to(inside.reshape(inside.shape + (1,) * len(offsets)), new.shape)
        at = tuple(np.broadcast_to(i, new.shape)[chosen] for i in at)
        x = x.copy()
        if over:
            x[at] = new[chosen]
        else:
            FOLDS[kind].at(x, at, new[chosen])
        return x

    return scatter
