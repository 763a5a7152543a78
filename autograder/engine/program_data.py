"""An exported program as plain data: its StableHLO read once, for `traceable_program` to trace and `numpy_devices` to run.

>>> double = jax.export.export(jax.jit(lambda x: 2 * x))(jax.ShapeDtypeStruct((3,), np.float32))
>>> [op.kind for op in parsed(double)["main"].ops]
['constant', 'broadcast_in_dim', 'multiply']
"""

import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import jax
import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

from .wire import DTYPES

LARGEST = 2**26  # numbers in a constant
TYPES = {
    "i1": "bool", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "ui4": "uint4", "ui8": "uint8",
    "ui16": "uint16", "ui32": "uint32", "ui64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32",
    "f64": "float64", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f4E2M1FN": "float4_e2m1fn",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
}  # fmt: skip
NUMBERS = {
    "dot_dimension_numbers": (
        stablehlo.DotDimensionNumbers,
        "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions rhs_contracting_dimensions",
    ),
    "dimension_numbers": (
        stablehlo.GatherDimensionNumbers,
        "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims start_index_map index_vector_dim",
    ),
    "scatter_dimension_numbers": (
        stablehlo.ScatterDimensionNumbers,
        "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims "
        "scattered_dims_to_operand_dims index_vector_dim",
    ),
}
CONVOLUTION = (
    stablehlo.ConvDimensionNumbers,
    "input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
    "kernel_output_feature_dimension kernel_spatial_dimensions output_batch_dimension output_feature_dimension "
    "output_spatial_dimensions",
)
CONTROL = {"while", "case", "if", "sdy.manual_computation"}
"""Kinds whose blocks see the values around them; in other blocks, constants from outside are written again."""


class Endless(BaseException):
    """A program does not end in time; no check catches this."""


class Unsupported(ValueError):
    """One sentence: which operation a check cannot look into."""


@dataclass
class Op:
    """One operation: which values it takes and gives, by number; its settings; the blocks inside of it."""

    kind: str
    takes: list[int]
    gives: list[int]
    types: list[tuple[tuple[int, ...], np.dtype]]  # of what it gives
    of: dict
    blocks: list["Block"]


@dataclass
class Block:
    """Operations in order, and the values that they hand on."""

    arguments: list[int]
    ops: list[Op] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def parsed(exported: jax.export.Exported) -> dict[str, Block]:
    """The functions of a program."""
    with make_ir_context():
        return functions(exported.mlir_module(serialized=False))


def functions(module) -> dict[str, Block]:
    """The functions of a module, whose context is entered."""
    found = {}
    for f in module.body.operations:
        if f.operation.name == "func.func":
            name = ir.StringAttr(f.attributes["sym_name"]).value
            found[name] = _block(f.regions[0].blocks[0], {}, {})
    return found


def outline(module) -> Block:
    """The main function of a module, without what is inside of its operations."""
    main = next(f for f in module.body.operations if str(f.attributes["sym_name"]) == '"main"')
    return _block(main.regions[0].blocks[0], {}, {}, whole=False)


def _block(block, numbers: dict, constants: dict[int, Op], whole=True) -> Block:
    def number(value) -> int:
        return numbers.setdefault(value, len(numbers))

    made = Block([number(a) for a in block.arguments])
    for view in block.operations:
        op = view.operation
        takes = [number(x) for x in op.operands]
        kind = op.name.removeprefix("stablehlo.")
        if kind in ("return", "func.return", "sdy.return"):
            made.ends = takes
            break
        blocks = [_block(r.blocks[0], numbers, constants) for r in op.regions if whole and len(r.blocks)]
        settings = {n: _setting(kind, n, a) for n, a in _attributes(op)}
        found = Op(kind, takes, [number(x) for x in op.results], [typed(x.type) for x in op.results], settings, blocks)
        if kind == "constant":
            constants[found.gives[0]] = found
        elif kind not in CONTROL:
            for b in blocks:
                b.ops[:0] = [constants[i] for i in dict.fromkeys(_free(b)) if i in constants]
        made.ops.append(found)
    return made


def _free(block: Block) -> list[int]:
    """Values from outside that a block without blocks of its own looks at."""
    own = {*block.arguments, *(i for op in block.ops for i in op.gives)}
    return [i for op in block.ops for i in op.takes if i not in own]


def _attributes(op):
    for a in op.attributes:  # names in newer versions of JAX, pairs in older ones
        name = a if isinstance(a, str) else a.name
        yield name, op.attributes[name]


def _setting(kind: str, name: str, a):
    """An attribute as a plain value; as its text if it is none that anybody here needs."""
    if name in NUMBERS:
        form, names = CONVOLUTION if kind == "convolution" else NUMBERS[name]
        found = form(a)
        return SimpleNamespace(**{n: _plain(getattr(found, n)) for n in names.split()})
    if (kind, name) == ("constant", "value"):
        return _constant(ir.DenseElementsAttr(a))
    if name == "comparison_direction":
        return stablehlo.ComparisonDirectionAttr(a).value
    for form in (ir.IntegerAttr, ir.BoolAttr, ir.StringAttr, ir.FlatSymbolRefAttr):
        if isinstance(a, form):
            return a.value
    if isinstance(a, ir.DenseI64ArrayAttr):
        return tuple(a)
    if isinstance(a, ir.DenseIntElementsAttr):
        return np.array(a)
    return str(a)


def _plain(value):
    return value if isinstance(value, int) else tuple(value)


def _constant(attribute) -> np.ndarray | None:
    """None for one that has no plain value here: an error only if it is used."""
    try:
        shape, dtype = typed(attribute.type)
        if attribute.is_splat:
            if np.prod(shape, dtype=object) > LARGEST:
                return None
            return np.broadcast_to(np.asarray(_number(attribute.get_splat_value(), dtype), dtype), shape)
        try:
            return np.array(attribute).astype(dtype).reshape(shape)  # given as numbers, so no larger than the program
        except (TypeError, ValueError, RuntimeError):
            return np.array([attribute[i] for i in range(len(attribute))]).astype(dtype).reshape(shape)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None


def _number(attribute, dtype):
    likely = {"b": ir.BoolAttr, "i": ir.IntegerAttr, "u": ir.IntegerAttr}.get(dtype.kind, ir.FloatAttr)
    for kind in (likely, ir.FloatAttr, ir.BoolAttr, ir.IntegerAttr):  # another one raises, which takes long
        try:
            return kind(attribute).value
        except (TypeError, ValueError):
            continue
    raise Unsupported("a check cannot look into a program with such constants")


def typed(kind) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of a tensor."""
    try:
        tensor = ir.RankedTensorType(kind)
    except (TypeError, ValueError):
        raise Unsupported("a check cannot look into a program with things that are no arrays") from None
    name = TYPES.get(str(tensor.element_type))
    if name is None or not tensor.has_static_shape:
        known = re.fullmatch(
            r"complex<f\d\d>|[a-z]{1,4}\d{1,2}\w{0,9}", str(tensor.element_type)
        )  # a sender may write any
        raise Unsupported(f"a check cannot look into a program with {known[0] if known else 'such'} arrays")
    return tuple(tensor.shape), DTYPES[name]


def only_operation(block: Block) -> str:
    """The operation of a reduction of two numbers, or "" if it does more."""
    plain = len(block.ops) == 1 and len(block.arguments) == 2 and block.ends == block.ops[0].gives
    return block.ops[0].kind if plain and set(block.ops[0].takes) == set(block.arguments) else ""


def trips(op: Op, numbers: dict[int, int]) -> int | None:
    """How often a while runs if it only counts up, `i < limit` and `i + step` with whole numbers that stand there.

    numbers  value -> the number, for those that stand in the program around the loop
    """
    test, body = op.blocks
    known = numbers | {o.gives[0]: n for b in op.blocks for o in b.ops if (n := whole(o)) is not None}
    compare = next((o for o in test.ops if o.gives == test.ends), None)
    if compare is None or compare.kind != "compare" or compare.of["comparison_direction"] != "LT":
        return None
    counter, limit = compare.takes
    if counter not in test.arguments:
        return None
    at = test.arguments.index(counter)
    if limit in test.arguments:
        i = test.arguments.index(limit)
        limit = op.takes[i] if body.ends[i] == body.arguments[i] else -1
    step = next((o for o in body.ops if o.gives == [body.ends[at]]), None)
    if step is None or step.kind != "add" or body.arguments[at] not in step.takes:
        return None
    by = [known.get(x) for x in step.takes if x != body.arguments[at]]
    first, last = known.get(op.takes[at]), known.get(limit)
    if first is None or last is None or len(by) != 1 or not by[0] or by[0] < 0:
        return None
    return max(0, -((first - last) // by[0]))


def whole(op: Op) -> int | None:
    """The number of a constant that is one whole number."""
    value = op.of.get("value") if op.kind == "constant" else None
    return int(value) if value is not None and value.ndim == 0 and value.dtype.kind in "iu" else None


def cuts(text: str) -> list[tuple[tuple[str, ...], ...]]:
    """For each array of a manual computation's shardings, the mesh axes that cut each of its dimensions.

    ValueError if a sharding says anything else: a part of an axis, say, or an open dimension.

    >>> cuts('#sdy.sharding_per_value<[<@mesh, [{}, {"X", "Y"}]>, <@mesh, []>]>')
    [((), ('X', 'Y')), ()]
    """
    if not re.fullmatch(rf"#sdy\.sharding_per_value<\[({_CUT}(, {_CUT})*)?\]>", text):
        raise ValueError("the program cuts its arrays by other things than whole axes")
    found = re.findall(r"<@\w+, \[([^\]]*)\]", text)
    return [tuple(tuple(re.findall(r'"([^"]*)"', d)) for d in re.findall(r"\{([^}]*)\}", one)) for one in found]


_DIM = r'\{(?:"\w+"(?:, "\w+")*)?\}'
_CUT = rf"<@\w+, \[(?:{_DIM}(?:, {_DIM})*)?\]>"
