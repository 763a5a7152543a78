"""The collectives of an exported program, read from its StableHLO.

`jax.export` carries a program from one process to another, where its jaxpr is gone. The list is that of `trace.sent`.
What export loses:
  * names of axes of size 1, where groups are written as device numbers (JAX 0.10): a collective over several axes is
    listed without them, one over such axes alone over the mesh's first axis of size 1. Newer versions write the names.
  * the sentence about axes left to the compiler, and where in the program a collective stands, but for loops and calls
  * a loop unrolled by JAX (`unroll=2`): its body stands there twice, with half the trips
Kinds, shapes, types and orders of axes are kept, bf16 and 4-bit types too. pbroadcast cannot be exported on a CPU.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, prod
from operator import itemgetter
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

from helpers.costs.sharding.collectives import Collective
from helpers.trace.jaxpr.collectives import BRANCHES, UNKNOWN_TRIPS, DeviceProgram, Record, Sent, hops, moving, within
from helpers.trace.jaxpr.equation_costs import array_bytes
from helpers.trace.jaxpr.walk import counted_trips

from .replica_groups import group_axes, named_axes

KINDS = {
    "stablehlo.all_gather": "AllGather",
    "stablehlo.reduce_scatter": "ReduceScatter",
    "stablehlo.all_reduce": "AllReduce",
    "stablehlo.all_to_all": "AllToAll",
    "stablehlo.collective_permute": "Permute",
}
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
LONGEST = 64  # trips of a loop that `permutes_before_products` follows: rings are shorter
SAME = frozenset("stablehlo.reshape stablehlo.transpose stablehlo.broadcast_in_dim sdy.sharding_constraint".split())


def sent_by(exported, mesh) -> Sent:
    """Every collective that an exported program sends, in program order.

    exported  as from `jax.export.export(jax.jit(f))(*args)`, deserialized or not
    mesh      the mesh it was made for, names and sizes in order: a costs or JAX mesh, or {"X": 4, "Y": 2}
    """
    sizes = axis_sizes(mesh)
    if exported.nr_devices != prod(sizes.values()):
        raise ValueError(f"the program is for {exported.nr_devices} devices, more or fewer than the mesh {sizes} has")
    with opened(exported) as module:
        reader = _Reader(module, sizes)
        return reader.sent(reader.visits())


def device_program(exported, mesh) -> DeviceProgram:
    """What a program that was made for the mesh has one device do, read in one walk where it has no branches.

    Constants come last among its arrays: `jax.jit` and `jax.export` put them in other places.
    """
    sizes = axis_sizes(mesh)
    if hasattr(exported, "told"):  # it was read in another process
        return exported.told(sizes)
    with opened(exported) as module:
        reader = _Reader(module, sizes)
        every = longest = visits = list(reader.visits())
        if any("cond" in v.path for v in visits):
            every, longest = list(reader.visits(lambda branches, _: branches)), reader.visits(reader.longest)
        made = [
            (v.op.name == "stablehlo.constant", *reader.array(r.type)) for v in every if v.manual for r in v.op.results
        ]
        made.sort(key=itemgetter(0))
        permutes = [v.op for v in visits if v.op.name == "stablehlo.collective_permute"]
        rings = tuple(sizes.values())
        return DeviceProgram(
            sent=reader.sent(visits),
            far=max((hops(np.array(op.attributes["source_target_pairs"]), rings) for op in permutes), default=0),
            made=[(dims, dtype) for _, dims, dtype, size in made if size and dims],
            largest=max((size for *_, size in made), default=0),
            flops=None if (total := _flops(longest)) == inf else total,
        )


def permutes_before_products(exported) -> list[int]:
    """For each run of a product, how many permutes in sequence it waits for, on the longest way to it.

    A product that takes what has just arrived waits for so many hops; 0 is one that waits for nothing.
    """
    if hasattr(exported, "permutes_before_products"):  # it was read in another process
        return exported.permutes_before_products()
    with opened(exported) as module:
        follower = _Follower(functions(module))
        main = follower.functions["main"]
        follower.block(main, [0] * len(main.arguments), {})
        return follower.found


class _Follower:
    """Carries out a program along its data, not in the order of its lines, with numbers of permutes in place of arrays."""

    def __init__(self, functions: dict):
        self.functions, self.found = functions, []

    def block(self, block, operands: list[int], outer_values: dict) -> list[int]:
        """What a block hands on; it sees the values outside it."""
        known = outer_values | dict(zip(block.arguments, operands))
        for op in needed(block):
            taken = [known.get(v, 0) for v in op.operands]
            made = self.operation(op, taken, known)
            known.update(zip(op.results, made))
        return [known.get(v, 0) for v in ends(block)]

    def operation(self, op, inputs: list[int], values: dict) -> list[int]:
        if op.name == "stablehlo.while":
            n = trips(op)
            for _ in range(1 if n is None else min(n, LONGEST)):
                inputs = self.block(op.regions[1].blocks[0], inputs, values)
            return inputs
        if op.name in ("stablehlo.case", "stablehlo.if"):
            ways = [self.block(r.blocks[0], [], values) for r in op.regions]
            return [max(way) for way in zip(*ways)]
        if op.name in CALLS:
            return self.block(self.functions[callee(op)], inputs, {})
        if op.name == "sdy.manual_computation":
            return self.block(op.regions[0].blocks[0], inputs, values)
        latest = max([*inputs, *(values.get(v, 0) for v in operands(op))], default=0)
        if op.name == "stablehlo.dot_general":
            self.found.append(latest)
        return [latest + (op.name == "stablehlo.collective_permute")] * len(op.results)


@contextmanager
def opened(exported) -> Iterator:
    """The module of an exported program, in a context of its own or in the one that it has already."""
    if hasattr(exported, "opened"):
        with exported.opened() as module:
            yield module
    else:
        with make_ir_context():
            text = jax.__version_info__ < (0, 10)  # it handed out a text before
            yield ir.Module.parse(exported.mlir_module()) if text else exported.mlir_module(serialized=False)


@dataclass(frozen=True)
class Held:
    """An opened module that is asked several things: opening takes longer than most answers."""

    module: object
    nr_devices: int
    out_avals: tuple = ()

    @contextmanager
    def opened(self) -> Iterator:
        with self.module.context:
            yield self.module


def axis_sizes(mesh) -> dict[str, int]:
    """{"X": 4, "Y": 2} of any kind of mesh."""
    return dict(mesh if isinstance(mesh, Mapping) else mesh.shape if hasattr(mesh, "axis_names") else mesh.sizes)


class _At(NamedTuple):
    """An operation, how often the loops around it run it, what stands around it, and whether shapes are local."""

    op: object = None
    loops: int = 1
    path: tuple[str, ...] = ()
    manual: bool = False

    def inside(self, label: str, loops: int = 1) -> "_At":
        return self._replace(loops=self.loops * loops, path=(*self.path, label))


class _Reader:
    """One walk over the operations that a module needs, as `jaxpr.walk` goes over a jaxpr.

    sizes  of the mesh
    """

    def __init__(self, module, sizes: Mapping[str, int]):
        self.sizes = sizes
        self.functions = functions(module)
        self.doubts: dict[str, int] = {}
        self.arrays: dict[ir.Type, tuple[tuple[int, ...], str, int]] = {}

    def array(self, kind) -> tuple[tuple[int, ...], str, int]:
        """Shape, type and bytes of what has this type, which many in a program have; no bytes for a token."""
        if kind not in self.arrays:
            try:
                dims, dtype = shape(kind), _dtype(kind)
                self.arrays[kind] = dims, dtype, array_bytes(dtype, dims)
            except (TypeError, ValueError):
                self.arrays[kind] = (), "", 0
        return self.arrays[kind]

    def visits(self, choose_branches: Callable | None = None) -> Iterator[_At]:
        """choose_branches: (branches of a cond, where it stands) -> those to visit; without it, the one that sends most"""
        return self._block(self.functions["main"], _At(), choose_branches or self.busiest)

    def sent(self, visits) -> Sent:
        record = Record()
        for v in visits:
            op = v.op
            if op.name in SAME and prod(shape(op.operands[0].type)) == prod(shape(op.results[0].type)):
                record.same(op.operands[0], op.results[0])
            axes, group = self._axes(op) if op.name in KINDS else ((), None)
            for here, there in zip(op.operands, op.results) if axes else ():
                ins, outs = (shape(x.type) for x in (here, there))
                dtype, note = _dtype(here.type), " > ".join(v.path)
                record.add(Collective(KINDS[op.name], axes, ins, outs, dtype, v.loops, note, group), here, there)
                self.doubts |= {UNKNOWN_TRIPS: 1} if "while x?" in v.path else {}
        return Sent(record.collectives, self.sizes, self.doubts, record.feeds)

    def _block(self, block, context: _At, choose_branches: Callable) -> Iterator[_At]:
        for op in needed(block):
            if op.name == "stablehlo.while":
                n = trips(op)
                for region, loops in zip(op.regions, (1, 1) if n is None else (n + 1, n)):
                    inside = context.inside(f"while x{'?' if n is None else n}", loops)
                    yield from self._block(region.blocks[0], inside, choose_branches)
            elif op.name in ("stablehlo.case", "stablehlo.if"):
                for branch in choose_branches([r.blocks[0] for r in op.regions], context):
                    yield from self._block(branch, context.inside("cond"), choose_branches)
            elif op.name in CALLS:
                yield from self._block(self.functions[callee(op)], context.inside(callee(op)), choose_branches)
            elif op.name == "sdy.manual_computation":
                inside = context.inside("shard_map")._replace(manual=True)
                yield from self._block(op.regions[0].blocks[0], inside, choose_branches)
            else:
                yield context._replace(op=op)

    def busiest(self, branches: list, context: _At) -> list:
        """The branch that sends most; the first of equals."""
        ways = [self.sent(self._block(b, context, self.busiest)) for b in branches]
        self.doubts |= {BRANCHES: 1} if len(set(ways)) > 1 else {}
        return [max(zip(branches, ways), key=lambda way: way[1].wire)[0]]

    def longest(self, branches: list, context: _At) -> list:
        """The branch whose products have most FLOPs."""
        return [max(branches, key=lambda b: _flops(self._block(b, context, self.longest)))]

    def _axes(self, op) -> tuple[tuple[str, ...], int | None]:
        """The axes that a collective runs over, and the devices of a group if it runs in groups of these."""
        if op.name == "stablehlo.collective_permute":
            pairs = np.array(op.attributes["source_target_pairs"])
            return moving(tuple(self.sizes), pairs, self.sizes), None  # device numbers go along all axes
        groups = op.attributes["replica_groups"]
        if not isinstance(groups, ir.DenseIntElementsAttr):  # newer versions name the axes
            return named_axes(str(groups), self.sizes)
        axes, _ = group_axes(np.array(groups), self.sizes)
        return axes, within(np.array(groups), prod(self.sizes[a] for a in axes))


def _flops(visits) -> float:
    """FLOPs of products on one device; infinity if a loop around one does not say how often it runs."""
    return sum(flops * (inf if "while x?" in v.path else v.loops) for v in visits if (flops := product_flops(v.op)))


def _dtype(type_name) -> str:
    """A type's name as costs have it."""
    name = str(ir.RankedTensorType(type_name).element_type)
    if name == "i1":
        return "bool"
    if m := re.fullmatch(r"(u?)i(\d+)", name):
        return f"{m[1]}int{m[2]}"
    if m := re.match(r"f([48])E", name):
        return f"fp{m[1]}"
    return {"complex<f32>": "complex64", "complex<f64>": "complex128"}.get(name, name)


# -- what stands in a block


def needed(block) -> list:
    """The operations of one block whose results reach its end or that have an effect."""
    live, kept = set(), []
    for op in reversed([o.operation for o in block]):
        results, effect = op.results, "has_side_effect" in op.attributes and op.attributes["has_side_effect"].value
        if not len(results) or any(r in live for r in results) or effect:
            kept.append(op)
            live.update(operands(op) if len(op.regions) else op.operands)
    return kept[::-1]


def operands(op) -> Iterator:
    """What an operation and those inside it look at."""
    yield from op.operands
    for region in op.regions:
        for block in region:
            for inner in block:
                yield from operands(inner.operation)


def product_flops(op) -> int:
    """FLOPs of a product of two arrays, 0 of anything else."""
    if op.name != "stablehlo.dot_general":
        return 0
    over = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"]).lhs_contracting_dimensions
    return 2 * prod(shape(op.results[0].type)) * prod(shape(op.operands[0].type)[d] for d in over)


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
    return counted_trips(*(_carried(v, op, test, body) for v in compare.operands))


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


def owner(v):
    """The operation that makes a value; None for an argument."""
    return None if isinstance(v.owner, ir.Block) else v.owner.operation


def functions(module) -> dict:
    """The blocks of a module's functions, by their names."""
    found = [o.operation for o in module.body if o.operation.name == "func.func"]
    return {f.attributes["sym_name"].value: f.regions[0].blocks[0] for f in found}


def callee(op) -> str:
    """The name of the function that a call runs."""
    return op.attributes[CALLS[op.name]].value


def ends(block) -> list:
    """What a block hands on."""
    return list(list(block)[-1].operation.operands)


def shape(tensor_type) -> tuple[int, ...]:
    """Of a tensor's type."""
    return tuple(ir.RankedTensorType(tensor_type).shape)
