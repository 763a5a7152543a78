"""What stands in a block of StableHLO: which operations its results need, how often a loop in it runs, FLOPs, what it hands on."""

from collections.abc import Iterator
from math import inf, prod

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}


def needed(block) -> list:
    """The operations of one block whose results reach its end or that have an effect."""
    live, kept = set(), []
    for op in reversed([operation(o) for o in block]):
        effect = "has_side_effect" in op.attributes and bool(op.attributes["has_side_effect"].value)
        if not len(op.results) or effect or any(r in live for r in op.results):
            kept.append(op)
            live.update(operands(op))
    return kept[::-1]


def operands(op) -> Iterator:
    """What an operation and those inside it look at."""
    yield from op.operands
    for region in op.regions:
        for block in region:
            for inner in block:
                yield from operands(operation(inner))


def matmul_flops(module) -> int | None:
    """FLOPs of a module's products on one device, loops run out, of branches the one with most; None if a loop does not say how often."""
    total = _flops(body(functions(module)["main"]), functions(module))
    return None if total == inf else total


def _flops(block, known: dict) -> float:
    total = 0
    for op in needed(block):
        if op.name == "stablehlo.dot_general":
            over = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"]).lhs_contracting_dimensions
            total += 2 * prod(shape(op.results[0].type)) * prod(shape(op.operands[0].type)[d] for d in over)
        elif op.name in CALLS:
            total += _flops(called(op, known), known)
        elif op.name == "stablehlo.while":
            inside = _flops(op.regions[1].blocks[0], known)
            times = trips(op)
            total += inside and inside * (inf if times is None else times)
        else:  # branches, and the program of one device
            total += max((_flops(r.blocks[0], known) for r in op.regions), default=0)
    return total


def trips(op) -> int | None:
    """How often a while runs if it only counts up, `i < limit` and `i + step` with whole numbers that stand there."""
    test, body = (r.blocks[0] for r in op.regions)
    compare = owner(ends(test)[0])
    if (
        compare is None
        or compare.name != "stablehlo.compare"
        or "LT" not in str(compare.attributes["comparison_direction"])
    ):
        return None
    counter, limit = (_carried(v, op, test, body) for v in compare.operands)
    if counter is None or limit is None or counter[1] <= 0 or limit[1] != 0:
        return None
    return max(0, -((counter[0] - limit[0]) // counter[1]))


def _carried(v, op, test, body) -> tuple[int, int] | None:
    """(first value, change on each trip) of what a loop's test looks at; None if the program does not say."""
    if v not in list(test.arguments):
        value = _whole(v)
        return None if value is None else (value, 0)
    at = list(test.arguments).index(v)
    first, var, out = _whole(op.operands[at]), body.arguments[at], ends(body)[at]
    if first is None or out == var:
        return None if first is None else (first, 0)
    step = owner(out)
    if step is None or step.name != "stablehlo.add" or var not in list(step.operands):
        return None
    steps = [_whole(x) for x in step.operands if x != var]
    return (first, steps[0]) if steps and steps[0] is not None else None


def _whole(v) -> int | None:
    """The number, if it is a whole one and written into the program."""
    made_by = owner(v)
    if made_by is None or made_by.name != "stablehlo.constant":
        return None
    value = made_by.attributes["value"]
    return int(np.array(value)) if isinstance(value, ir.DenseIntElementsAttr) and not shape(v.type) else None


def operation(o):
    """The operation under one of Python's views of it."""
    return o.operation


def owner(v):
    """The operation that makes a value; None for an argument."""
    return None if isinstance(v.owner, ir.Block) else operation(v.owner)


def functions(module) -> dict:
    """The functions of a module by their names."""
    return {o.attributes["sym_name"].value: o for o in map(operation, module.body) if o.name == "func.func"}


def callee(op) -> str:
    """The name of the function that a call runs."""
    return op.attributes[CALLS[op.name]].value


def called(op, known: dict):
    """The block of that function."""
    return body(known[callee(op)])


def body(function):
    """The block of a function."""
    return function.regions[0].blocks[0]


def ends(block) -> list:
    """What a block hands on."""
    return list(operation(list(block)[-1]).operands)


def shape(t) -> tuple[int, ...]:
    """Of a tensor's type."""
    return tuple(ir.RankedTensorType(t).shape)
