"""An exported program carried out operation by operation in JAX, so that a check can trace, count and differentiate it.

`Exported.call` is one opaque operation: FLOPs inside of it are not counted, and it has no rule for vmap.
Here every operation of the program becomes one of `jax.lax`; a loop that counts up to a number becomes a scan, which has
a gradient. An operation that has none here is refused, never skipped.
"""

import re

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program_data import Block, Op, Unsupported, only_operation, trips, whole

SAME_SHAPE = {
    "add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div, "maximum": lax.max, "minimum": lax.min,
    "power": lax.pow, "remainder": lax.rem, "atan2": lax.atan2, "and": lax.bitwise_and, "or": lax.bitwise_or,
    "xor": lax.bitwise_xor, "not": lax.bitwise_not, "negate": lax.neg, "abs": lax.abs, "sign": lax.sign, "floor": lax.floor,
    "ceil": lax.ceil, "exponential": lax.exp, "exponential_minus_one": lax.expm1, "log": lax.log, "log_plus_one": lax.log1p,
    "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "tanh": lax.tanh, "logistic": lax.logistic, "sine": lax.sin,
    "cosine": lax.cos, "tan": lax.tan, "is_finite": lax.is_finite, "select": lax.select, "clamp": lax.clamp,
    "shift_left": lax.shift_left, "shift_right_logical": lax.shift_right_logical, "chlo.erf": lax.erf, "chlo.erfc": lax.erfc,
    "shift_right_arithmetic": lax.shift_right_arithmetic, "chlo.erf_inv": lax.erf_inv, "chlo.square": lax.square,
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round_nearest_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "optimization_barrier": lambda *x: lax.optimization_barrier(x[0] if len(x) == 1 else x),
}  # fmt: skip
REDUCES = {
    "add": (jnp.sum, lax.add), "maximum": (jnp.max, lax.max), "minimum": (jnp.min, lax.min), "multiply": (jnp.prod, lax.mul),
    "and": (jnp.all, lax.bitwise_and), "or": (jnp.any, lax.bitwise_or),
}  # fmt: skip
SCATTERS = {
    "add": lax.scatter_add, "multiply": lax.scatter_mul, "maximum": lax.scatter_max, "minimum": lax.scatter_min,
}  # fmt: skip
COMPARES = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}


def inline(functions: dict[str, Block], arguments: list) -> list:
    """The results of a program's main function.

    >>> from .program_data import parsed
    >>> double = jax.export.export(jax.jit(lambda x: 2 * x))(jax.ShapeDtypeStruct((2,), np.float32))
    >>> inline(parsed(double), [np.array([1.0, 3.0], np.float32)])
    [Array([2., 6.], dtype=float32)]
    """
    return _Inlining(functions).block(functions["main"], arguments, {})


class _Inlining:
    def __init__(self, functions: dict[str, Block]):
        self.functions, self.numbers = functions, {}

    def block(self, block: Block, arguments, around: dict) -> list:
        """What a block hands on; it sees the values around it."""
        values = around | dict(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            given = [values[i] for i in op.takes]
            if (n := whole(op)) is not None:
                self.numbers[op.gives[0]] = n
            if op.of.get("name") == "chlo.top_k":
                made = lax.top_k(given[0], int(re.search(r"\bk = (\d+)", op.of["composite_attributes"])[1]))
            elif op.kind in ("func.call", "composite"):
                name = op.of["callee" if op.kind == "func.call" else "decomposition"]
                made = _Inlining(self.functions).block(self.functions[name], given, {})
            elif op.kind == "while":
                made = self.loop(op, given, values)
            elif op.kind in ("case", "if"):
                made = self.branch(op, given[0], values)
            else:
                made = self.operation(op, given)
                made = made if isinstance(made, (list, tuple)) else [made]
            values.update(zip(op.gives, made, strict=True))
        return [values[i] for i in block.ends]

    def loop(self, op: Op, state: list, around: dict) -> list:
        test, body = op.blocks
        n = trips(op, self.numbers)
        state = [jnp.asarray(s) for s in state]
        if n is None:
            go_on, step = ((lambda s, b=b: self.block(b, s, around)) for b in (test, body))
            return list(lax.while_loop(lambda s: go_on(s)[0], step, state))
        return list(lax.scan(lambda s, _: (self.block(body, s, around), None), state, length=n)[0])

    def branch(self, op: Op, which, around: dict) -> list:
        ways = [lambda b=b: self.block(b, [], around) for b in op.blocks]
        if op.kind == "if":
            return list(lax.cond(which, *ways))
        n = len(ways) - 1
        return list(lax.switch(jnp.where((which < 0) | (which > n), n, which), ways))

    def operation(self, op: Op, given: list):
        """One operation; its result's shape and type are those that the program says."""
        if op.kind in SAME_SHAPE:
            return SAME_SHAPE[op.kind](*given)
        (shape, dtype), of = op.types[0], op.of
        dtype = jax.dtypes.canonicalize_dtype(dtype)  # random bits are counted in 64 bits
        match op.kind:
            case "constant":
                if of["value"] is None:
                    raise Unsupported(f"a check cannot look into a program with constants of {dtype}")
                return of["value"]
            case "convert":
                return lax.convert_element_type(given[0], dtype)
            case "bitcast_convert":
                return lax.bitcast_convert_type(given[0], dtype)
            case "reshape":
                return lax.reshape(given[0], shape)
            case "transpose":
                return lax.transpose(given[0], of["permutation"])
            case "broadcast_in_dim" if shape == ():  # stays a number, where a reduction starts from it
                return given[0]
            case "broadcast_in_dim":
                return lax.broadcast_in_dim(given[0], shape, of["broadcast_dimensions"])
            case "concatenate":
                return lax.concatenate(given, of["dimension"])
            case "slice":
                return lax.slice(given[0], *(of[n] for n in ("start_indices", "limit_indices", "strides")))
            case "pad":
                names = ("edge_padding_low", "edge_padding_high", "interior_padding")
                return lax.pad(*given, list(zip(*(of[n] for n in names))))
            case "reverse":
                return lax.rev(given[0], of["dimensions"])
            case "iota":
                return lax.broadcasted_iota(dtype, shape, of["iota_dimension"])
            case "compare":
                return COMPARES[of["comparison_direction"]](*given)
            case "dynamic_slice":
                return lax.dynamic_slice(given[0], given[1:], of["slice_sizes"])
            case "dynamic_update_slice":
                return lax.dynamic_update_slice(given[0], given[1], given[2:])
            case "dot_general":
                d = of["dot_dimension_numbers"]
                contract = d.lhs_contracting_dimensions, d.rhs_contracting_dimensions
                batch = d.lhs_batching_dimensions, d.rhs_batching_dimensions
                return lax.dot_general(*given, (contract, batch), preferred_element_type=dtype)
        return self.over_many(op, given)

    def over_many(self, op: Op, given: list):
        """Operations with a rule of their own for pairs of numbers, or with indices."""
        n = len(op.gives)
        match op.kind:
            case "reduce":
                return self.reduce(op, given[:n], given[n:])
            case "reduce_window" if n == 1:
                return self.reduce_window(op, *given)
            case "sort":
                return lax.sort(given, dimension=op.of["dimension"], num_keys=self.keys(op.blocks[0]), is_stable=True)
            case "gather":
                return self.gather(op, *given)
            case "scatter" if n == 1:
                return self.scatter(op, *given)
            case "convolution":
                return _convolution(op, *given)
        raise Unsupported(f"a check cannot look into a program with {op.kind[:40]}")

    def reduce(self, op: Op, operands: list, starts: list):
        dims, kind = op.of["dimensions"], only_operation(op.blocks[0])
        if kind not in REDUCES:
            rule = lambda a, b: tuple(self.block(op.blocks[0], [*a, *b], {}))  # noqa: E731
            return lax.reduce(tuple(operands), tuple(jnp.asarray(s) for s in starts), rule, dims)
        function, join = REDUCES[kind]
        dtype = op.types[0][1]
        found = function(operands[0], axis=dims, **({"dtype": dtype} if kind in ("add", "multiply") else {}))
        return found if _neutral(kind, starts[0], dtype) else join(found, lax.broadcast(starts[0], found.shape))

    def reduce_window(self, op: Op, operand, start):
        kind, size = only_operation(op.blocks[0]), op.of["window_dimensions"]
        if kind not in REDUCES or not _neutral(kind, start, op.types[0][1]):
            raise Unsupported("a check cannot look into a program with such a reduce_window")
        one, padding = (1,) * len(size), op.of.get("padding", np.zeros((len(size), 2), int))
        stride, base, by = (op.of.get(n, one) for n in ("window_strides", "base_dilations", "window_dilations"))
        padding = [tuple(map(int, p)) for p in padding]
        return lax.reduce_window(operand, start, REDUCES[kind][1], size, stride, padding, base, by)

    def keys(self, block: Block) -> int:
        """By how many of its operands a sort goes: JAX sorts upwards by the first ones."""
        used = {i for op in block.ops for i in op.takes} & set(block.arguments)
        n = len(used) // 2
        last = next((op for op in block.ops if op.gives == block.ends), None)
        upwards = last is not None and (last.kind != "compare" or last.of["comparison_direction"] == "LT")
        if not n or used != set(block.arguments[: 2 * n]) or not upwards:
            raise Unsupported("a check cannot look into a program with such a sort")
        return n

    def gather(self, op: Op, operand, starts):
        d = op.of["dimension_numbers"]
        numbers = lax.GatherDimensionNumbers(
            d.offset_dims,
            d.collapsed_slice_dims,
            d.start_index_map,
            d.operand_batching_dims,
            d.start_indices_batching_dims,
        )
        starts = _vectors_last(starts, d.index_vector_dim)
        return lax.gather(operand, starts, numbers, op.of["slice_sizes"], mode=lax.GatherScatterMode.CLIP)

    def scatter(self, op: Op, operand, starts, new):
        d, block = op.of["scatter_dimension_numbers"], op.blocks[0]
        over = not block.ops and block.ends == block.arguments[1:]
        put = lax.scatter if over else SCATTERS.get(only_operation(block))
        if put is None:
            raise Unsupported("a check cannot look into a program with such a scatter")
        numbers = lax.ScatterDimensionNumbers(
            d.update_window_dims, d.inserted_window_dims, d.scattered_dims_to_operand_dims,
            d.input_batching_dims, d.scatter_indices_batching_dims,
        )  # fmt: skip
        starts = _vectors_last(starts, d.index_vector_dim)
        return put(operand, starts, new, numbers, mode=lax.GatherScatterMode.FILL_OR_DROP)


def _vectors_last(starts, vector_dim: int):
    starts = jnp.asarray(starts)
    return starts[..., None] if vector_dim == starts.ndim else jnp.moveaxis(starts, vector_dim, -1)


def _neutral(kind: str, start, dtype: np.dtype) -> bool:
    """Whether a reduction starts from what changes nothing."""
    if isinstance(start, jax.core.Tracer):
        return False
    low, high = (-np.inf, np.inf)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    expected = {"add": 0, "multiply": 1, "maximum": low, "minimum": high, "and": True, "or": False}[kind]
    if kind == "and" and dtype.kind != "b":
        return False
    return bool(np.all(np.asarray(start) == np.asarray(expected, dtype)))


def _convolution(op: Op, image, kernel):
    d, of, n = op.of["dimension_numbers"], op.of, image.ndim - 2
    numbers = lax.ConvDimensionNumbers(
        (d.input_batch_dimension, d.input_feature_dimension, *d.input_spatial_dimensions),
        (d.kernel_output_feature_dimension, d.kernel_input_feature_dimension, *d.kernel_spatial_dimensions),
        (d.output_batch_dimension, d.output_feature_dimension, *d.output_spatial_dimensions),
    )
    if "true" in str(of.get("window_reversal", "")):
        raise Unsupported("a check cannot look into a program with such a convolution")
    strides, left, right = (of.get(k, (1,) * n) for k in ("window_strides", "lhs_dilation", "rhs_dilation"))
    padding = [tuple(map(int, p)) for p in of.get("padding", np.zeros((n, 2), int))]
    return lax.conv_general_dilated(
        image, kernel, strides, padding, left, right, numbers, of["feature_group_count"], of["batch_group_count"],
        preferred_element_type=op.types[0][1],
    )  # fmt: skip
