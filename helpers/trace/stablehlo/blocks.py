"""What stands in a block of StableHLO: which operations its results need, how often a loop in it runs, what it hands on."""

from collections.abc import Iterator

import numpy as np
from jax.extend.mlir import ir


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


def body(function):
    """The block of a function."""
    return function.regions[0].blocks[0]


def ends(block) -> list:
    """What a block hands on."""
    return list(operation(list(block)[-1]).operands)


def shape(t) -> tuple[int, ...]:
    """Of a tensor's type."""
    return tuple(ir.RankedTensorType(t).shape)
