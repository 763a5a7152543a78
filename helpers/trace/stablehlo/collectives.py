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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

import numpy as np
from jax._src.interpreters.mlir import make_ir_context  # there is no public way to a context that knows JAX's dialects
from jax.extend.mlir import ir

from helpers.costs.sharding.collectives import Collective
from helpers.trace.jaxpr.collectives import BRANCHES, UNKNOWN_TRIPS, Sent, moving, within

from . import blocks

KINDS = {
    "stablehlo.all_gather": "AllGather",
    "stablehlo.reduce_scatter": "ReduceScatter",
    "stablehlo.all_reduce": "AllReduce",
    "stablehlo.all_to_all": "AllToAll",
    "stablehlo.collective_permute": "Permute",
}
SAME = frozenset("stablehlo.reshape stablehlo.transpose stablehlo.broadcast_in_dim sdy.sharding_constraint".split())


def sent_by(exported, mesh) -> Sent:
    """Every collective that an exported program sends, in program order.

    exported  as from `jax.export.export(jax.jit(f))(*args)`, deserialized or not
    mesh      the mesh it was made for, names and sizes in order: a costs or JAX mesh, or {"X": 4, "Y": 2}
    """
    sizes = axis_sizes(mesh)
    if exported.nr_devices != prod(sizes.values()):
        raise ValueError(
            f"the program is for {exported.nr_devices} devices and the mesh {sizes} has {prod(sizes.values())}"
        )
    with opened(exported) as module:
        reader = _Reader(module, sizes)
        return reader.sent(reader.visits())


@dataclass(frozen=True)
class Told:
    """What `told_by` reads.

    sent     its collectives, as `sent_by` lists them
    far      how many places its farthest permute goes, along the rings of the mesh
    made     shape and type of every array that its operations make on one device, in program order; numbers without dimensions
             are left out, and constants come last: `jax.jit` and `jax.export` put them in other places
    largest  bytes of the largest array that one operation makes on one device (inside `shard_map`)
    flops    of its products on one device; None if a loop around one does not say how often it runs
    """

    sent: Sent
    far: int
    made: list[tuple[tuple[int, ...], str]]
    largest: float
    flops: int | None


def told_by(exported, mesh) -> Told:
    """Sends, results and sizes of a program that was made for the mesh, read in one walk where it has no branches."""
    sizes = axis_sizes(mesh)
    if hasattr(exported, "told"):  # it was read in another process
        return exported.told(sizes)
    with opened(exported) as module:
        reader = _Reader(module, sizes)
        visits = list(reader.visits())
        every = _Reader(module, {}).visits() if any("cond" in v.path for v in visits) else visits  # all branches
        results = [r for v in every if v.manual for r in v.op.results]
        largest = max((_nbytes(r.type) for r in results), default=0)
        far, flops = _farthest(visits, tuple(sizes.values())), blocks.matmul_flops(module)
        return Told(reader.sent(visits), far, _made(results), largest, flops)


def _farthest(visits, shape: tuple[int, ...]) -> int:
    far = 0
    for v in visits:
        if v.op.name == "stablehlo.collective_permute":
            for pair in np.array(v.op.attributes["source_target_pairs"]):
                start, end = (np.unravel_index(place, shape) for place in pair)
                far = max(far, sum(min((e - s) % n, (s - e) % n) for s, e, n in zip(start, end, shape)))
    return int(far)


def _made(results) -> list[tuple[tuple[int, ...], str]]:
    made = [r for r in results if _nbytes(r.type) and blocks.shape(r.type)]
    made.sort(key=lambda r: blocks.owner(r).name == "stablehlo.constant")
    return [(blocks.shape(r.type), _dtype(r.type)) for r in made]


@contextmanager
def opened(exported) -> Iterator:
    """The module of an exported program, in a context of its own or in the one that it has already."""
    if hasattr(exported, "opened"):
        with exported.opened() as module:
            yield module
    else:
        with make_ir_context():
            yield _module(exported)


def _module(exported):
    """The module of an exported program, in the context that is open."""
    try:
        return exported.mlir_module(serialized=False)
    except TypeError:  # before JAX 0.10 it hands out a text
        return ir.Module.parse(exported.mlir_module())


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
    if isinstance(mesh, Mapping):
        return dict(mesh)
    return dict(mesh.shape if hasattr(mesh, "axis_names") else mesh.sizes)


@dataclass(frozen=True)
class _At:
    """An operation, how often the loops around it run it, what stands around it, and whether shapes are local."""

    op: object = None
    loops: int = 1
    path: tuple[str, ...] = ()
    manual: bool = False

    def inside(self, label: str, loops: int = 1) -> "_At":
        return replace(self, loops=self.loops * loops, path=(*self.path, label))


class _Reader:
    """One walk over the operations that a module needs, as `jaxpr.walk` goes over a jaxpr.

    sizes  of the mesh; of a cond's branches the one that sends most is taken, or all where nobody asks who sends
    """

    def __init__(self, module, sizes: Mapping[str, int]):
        self.sizes = sizes
        self.functions = blocks.functions(module)
        self.doubts: dict[str, int] = {}

    def visits(self) -> Iterator[_At]:
        return self._block(blocks.body(self.functions["main"]), _At())

    def sent(self, visits) -> Sent:
        found, feeds, made = self._sent(visits)
        return Sent(found, self.sizes, self.doubts, feeds)

    def _sent(self, visits):
        found, feeds, made = [], [], {}
        for v in visits:
            op = v.op
            if op.name in SAME and _elements(op.operands[0].type) == _elements(op.results[0].type):
                made[op.results[0]] = made.get(op.operands[0])
            axes, group = self._axes(op) if op.name in KINDS else ((), None)
            for here, there in zip(op.operands, op.results) if axes else ():
                shape, out = (tuple(ir.RankedTensorType(x.type).shape) for x in (here, there))
                feeds.append(made.get(here))
                made[there] = len(found)
                dtype, note = _dtype(here.type), " > ".join(v.path)
                found.append(Collective(KINDS[op.name], axes, shape, out, dtype, v.loops, note, group))
                self.doubts |= {UNKNOWN_TRIPS: 1} if "while x?" in v.path else {}
        return found, feeds, made

    def _block(self, block, at: _At) -> Iterator[_At]:
        for op in blocks.needed(block):
            here = _At(op, at.loops, at.path, at.manual)
            if op.name == "stablehlo.while":
                n = blocks.trips(op)
                for region, loops in zip(op.regions, (1, 1) if n is None else (n + 1, n)):
                    yield from self._block(region.blocks[0], at.inside(f"while x{'?' if n is None else n}", loops))
            elif op.name in ("stablehlo.case", "stablehlo.if"):
                for block in [self._busiest(op, at)] if self.sizes else [r.blocks[0] for r in op.regions]:
                    yield from self._block(block, at.inside("cond"))
            elif op.name in blocks.CALLS:
                yield from self._block(blocks.called(op, self.functions), at.inside(blocks.callee(op)))
            elif op.name == "sdy.manual_computation":
                yield from self._block(op.regions[0].blocks[0], replace(at.inside("shard_map"), manual=True))
            else:
                yield here

    def _busiest(self, op, at: _At):
        """The branch that sends most; the first of equals."""
        blocks = [r.blocks[0] for r in op.regions]
        ways = [Sent(self._sent(self._block(b, at))[0], self.sizes) for b in blocks]
        self.doubts |= {BRANCHES: 1} if len(set(ways)) > 1 else {}
        return max(zip(blocks, ways), key=lambda bw: bw[1].wire)[0]

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


def named_axes(text: str, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], int | None]:
    """The axes that replica groups name, and the devices of a group if only a part of an axis is named.

    >>> named_axes('axes = [#stablehlo.axis_ref<name = "X">]', {"X": 4, "Y": 2})
    (('X',), None)
    >>> named_axes('axes = [<name = "X", sub_axis_info = (1)2>, <name = "Y">]', {"X": 4, "Y": 2})
    (('X', 'Y'), 4)
    """
    found = re.findall(r'name = "([^"]*)"(?:,\s*sub_axis_info\s*=\s*\(\d+\)(\d+))?', text)
    axes = tuple(dict.fromkeys(name for name, _ in found))
    members = prod(int(part or sizes[name]) for name, part in found)
    return axes, None if members == prod(sizes[a] for a in axes) else members


def group_axes(groups: np.ndarray, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], bool]:
    """The mesh axes whose devices make up these groups, in order, and True; or the fewest that contain them, and False.

    groups  device numbers [groups, members], numbered along the mesh with its last axis fastest

    >>> group_axes(np.array([[0, 2, 4, 6], [1, 3, 5, 7]]), {"X": 4, "Y": 2})
    (('X',), True)
    >>> group_axes(np.array([[0, 2, 4, 6, 1, 3, 5, 7]]), {"X": 4, "Y": 2})
    (('Y', 'X'), True)
    >>> group_axes(np.array([[0, 2], [4, 6], [1, 3], [5, 7]]), {"X": 4, "Y": 2})
    (('X',), False)
    """
    wide = [a for a, n in sizes.items() if n > 1]
    ones = [a for a, n in sizes.items() if n == 1]
    if groups.shape[1] == 1 and ones:
        return (ones[0],), True
    rows = {tuple(int(d) for d in g if d >= 0) for g in groups}  # shorter groups are filled up with -1
    for count in range(1, len(wide) + 1):
        for axes in permutations(wide, count):
            if prod(sizes[a] for a in axes) == groups.shape[1] and rows == set(_along(axes, sizes)):
                return axes, True
    around = (
        axes
        for n in range(1, len(wide) + 1)
        for axes in permutations(wide, n)
        if list(axes) == sorted(axes, key=wide.index)
    )
    within = lambda axes: all(any(set(r) <= set(g) for g in _along(axes, sizes)) for r in rows)  # noqa: E731
    return min((a for a in around if within(a)), key=lambda a: prod(sizes[x] for x in a)), False


def _along(axes: tuple[str, ...], sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Groups of device numbers along these axes, the last of them fastest."""
    names = list(sizes)
    ids = np.arange(prod(sizes.values())).reshape(list(sizes.values()))
    order = [i for i, a in enumerate(names) if a not in axes] + [names.index(a) for a in axes]
    return [tuple(map(int, g)) for g in ids.transpose(order).reshape(-1, prod(sizes[a] for a in axes))]


def _elements(t) -> int:
    return prod(blocks.shape(t))


def _dtype(t) -> str:
    """A type's name as costs have it."""
    name = str(ir.RankedTensorType(t).element_type)
    if name == "i1":
        return "bool"
    if m := re.fullmatch(r"(u?)i(\d+)", name):
        return f"{m[1]}int{m[2]}"
    if m := re.match(r"f([48])E", name):
        return f"fp{m[1]}"
    return {"complex<f32>": "complex64", "complex<f64>": "complex128"}.get(name, name)


def _nbytes(t) -> int:
    """Bytes of a tensor, 4-bit types packed; 0 for a token."""
    try:
        t = ir.RankedTensorType(t)
    except (TypeError, ValueError):
        return 0
    name = str(t.element_type)
    bits = 8 if name == "i1" else int((re.search(r"\d+", name) or ["0"])[0]) * (2 if "complex" in name else 1)
    return -(-prod(t.shape) * bits // 8)
