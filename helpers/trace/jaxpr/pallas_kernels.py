"""What a Pallas kernel does, program by program of its grid: blocks brought in, blocks looked at, products (nothing is run).

The kernel's jaxpr is walked once for each point of the grid with the whole numbers in it known and everything else unknown:
so its branches (`pl.when`) and its loops go as they would. That is exact as long as they depend on the place in the grid only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import jax
import numpy as np

from .equation_costs import flops, is_literal, nbytes
from .walk import CALLS, largest, needed, open_jaxpr, scan_counts


@dataclass(frozen=True)
class Kernel:
    """One Pallas call.

    grid     programs along each axis, the last one fastest
    fetched  bytes of the blocks brought in for each operand: again only when the block differs from the last program's
    written  bytes of the blocks of each result, likewise
    loaded   bytes that the programs read of their operands' blocks; what a GPU reads, whose blocks are read as needed
    looked   for each program, loop trips and straight pieces of it that have a product in them: blocks visited
    products matrix products, and their `flops`
    unknown  branches and loops that depend on something else: the branch with most FLOPs was taken, the loop run once
    """

    grid: tuple[int, ...]
    fetched: tuple[int, ...]
    written: tuple[int, ...]
    loaded: int
    looked: tuple[int, ...]
    products: int
    flops: int
    unknown: int

    @property
    def bytes(self) -> int:
        """Fetched and written."""
        return sum(self.fetched) + sum(self.written)

    @property
    def visited(self) -> int:
        """Blocks looked at, all programs together."""
        return sum(self.looked)


def kernels(f: Callable, *args) -> list[Kernel]:
    """Every Pallas call in the program of `f(*args)`, in order; a call inside a loop is listed once.

    Arrays that are there before the kernel starts (scalar prefetch) are known if they stand in the program as constants.
    """
    return [_kernel(eqn, known) for eqn, known in _calls(jax.make_jaxpr(f)(*args), {})]


def _calls(jaxpr, known: dict) -> Iterator[tuple]:
    """Pallas calls, each with what is known of its operands."""
    known = known | dict(zip(open_jaxpr(jaxpr).constvars, getattr(jaxpr, "consts", ())))
    for eqn in needed(open_jaxpr(jaxpr)):
        have = [None if is_literal(v) else known.get(v) for v in eqn.invars]
        if eqn.primitive.name == "pallas_call":
            yield eqn, have
            continue
        for p in eqn.params.values():
            for inner in p if isinstance(p, tuple | list) else [p]:
                if not hasattr(body := open_jaxpr(inner), "eqns"):
                    continue
                same = inner is eqn.params.get(CALLS.get(eqn.primitive.name))
                yield from _calls(inner, dict(zip(body.invars, have)) if same else {})


def _kernel(eqn, known) -> Kernel:
    mapping, body = eqn.params["grid_mapping"], open_jaxpr(eqn.params["jaxpr"])
    grid, n = tuple(int(n) for n in mapping.grid), mapping.num_index_operands
    points, early = list(product(*map(range, grid))), [None if a is None else np.asarray(a) for a in known[:n]]
    moved = [sum(_blocks(spec, points, early)) for spec in mapping.block_mappings]
    operands = [*early, *[SLOW] * mapping.num_inputs]
    runs = [_Run(point, grid, dict(zip(body.invars, operands))).go(body) for point in points]
    total = lambda name: sum(getattr(r, name) for r in runs)  # noqa: E731
    looked = tuple(r.looked for r in runs)
    ins, outs = tuple(moved[: mapping.num_inputs]), tuple(moved[mapping.num_inputs :])
    return Kernel(grid, ins, outs, total("loaded"), looked, total("products"), total("flops"), total("unknown"))


def _blocks(spec, points, early) -> Iterator[int]:
    """Bytes of each block that is moved: those of the array, so less at its edge."""
    whole = spec.array_aval if hasattr(spec, "array_aval") else spec.array_shape_dtype  # its name before JAX 0.8
    shape, each = whole.shape, whole.dtype.itemsize
    sides = [
        1 if "Squeezed" in type(d).__name__ or d is None else getattr(d, "block_size", d) for d in spec.block_shape
    ]
    inside = ["Element" in type(d).__name__ for d in spec.block_shape]  # whose index map gives places, not blocks
    before = None
    for point in points:
        at = tuple(_scalars(spec.index_map_jaxpr, point, early))
        if at != before:
            starts = [i if e else i * n for i, n, e in zip(at, sides, inside)]
            yield each * prod(max(0, min(n, s - i)) for n, s, i in zip(sides, shape, starts))
        before = at


def _scalars(closed, point, early):
    """Values of a jaxpr of whole numbers: an index map, of a place in the grid and of arrays that are there before."""
    jaxpr = open_jaxpr(closed)
    constants = zip(jaxpr.constvars, map(_number, getattr(closed, "consts", ())))
    run = _Run(point, (), dict(zip(jaxpr.invars, (*point, *early))) | dict(constants)).go(jaxpr)
    out = [run.number(v) for v in jaxpr.outvars]
    if None in out:
        raise ValueError(
            "an index map is read unrun if it is arithmetic with the grid's places and with constants only"
        )
    return out


SLOW = object()  # what is known of an operand: that it lies in slow memory


class _Run:
    """One program of the grid, and what was counted.

    known  by variable: a whole number, an array that is there before the kernel, `SLOW`, or None
    """

    def __init__(self, point, grid, known: dict):
        self.point, self.grid, self.known = point, grid, known
        self.loaded = self.looked = self.products = self.flops = self.unknown = 0

    def value(self, v):
        return _number(v.val) if is_literal(v) else self.known.get(v)

    def number(self, v) -> int | None:
        x = self.value(v)
        return x if isinstance(x, int) else None

    def bind(self, inside, outside) -> None:
        """Let variables stand for what others stand for now."""
        self.known.update(zip(inside, [self.value(v) for v in outside]))

    def go(self, jaxpr) -> "_Run":
        """Walk a straight piece; a piece with products of its own counts as one block looked at."""
        had = False
        for eqn in open_jaxpr(jaxpr).eqns:
            name, result = eqn.primitive.name, eqn.outvars[0] if eqn.outvars else None
            if name == "program_id":
                self.known[result] = self.point[eqn.params["axis"]]
            elif name == "num_programs":
                self.known[result] = self.grid[eqn.params["axis"]]
            elif name in CALLS:
                had |= self.call(eqn)
            elif name == "cond":
                self.branch(eqn)
            elif name == "scan":
                self.scan(eqn)
            elif name == "while":
                self.loop(eqn)
            elif name in ("get", "masked_load"):
                self.loaded += nbytes(result) if self.value(eqn.invars[0]) is SLOW else 0
                self.known[result] = self.element(eqn) if name == "get" else None
            elif name == "dot_general":
                had, self.products, self.flops = True, self.products + 1, self.flops + flops(eqn)
            elif result is not None and result.aval.shape == ():
                numbers = [self.number(v) for v in eqn.invars]
                self.known[result] = _RULES[name](*numbers) if name in _RULES and None not in numbers else None
        self.looked += had
        return self

    def element(self, eqn) -> int | None:
        """The number that a known array has at a known place."""
        array = self.value(eqn.invars[0])
        at = jax.tree.unflatten(eqn.params["tree"], eqn.invars[1:])
        if not isinstance(array, np.ndarray) or len(at) != 1 or eqn.outvars[0].aval.shape != ():
            return None
        places = [i if isinstance(i, int) else self.number(i) for i in at[0].indices]
        return None if None in places else _number(array[tuple(places)])

    def call(self, eqn) -> bool:
        """A function called once: its products belong to the piece around it."""
        inner, products, looked = open_jaxpr(eqn.params[CALLS[eqn.primitive.name]]), self.products, self.looked
        self.bind(inner.invars, eqn.invars)
        self.go(inner)
        own = self.products > products and self.looked == looked + 1
        self.looked -= own
        self.bind(eqn.outvars, inner.outvars)
        return own

    def branch(self, eqn) -> None:
        which, branches = self.number(eqn.invars[0]), eqn.params["branches"]
        self.unknown += which is None
        taken = open_jaxpr(largest(branches) if which is None else branches[max(0, min(int(which), len(branches) - 1))])
        self.bind(taken.invars, eqn.invars[1:])
        self.go(taken)
        self.bind(eqn.outvars, taken.outvars)

    def scan(self, eqn) -> None:
        body, (first, carried) = open_jaxpr(eqn.params["jaxpr"]), scan_counts(eqn)
        self.bind(body.invars[: first + carried], eqn.invars)
        for _ in range(eqn.params["length"]):
            self.known.update(dict.fromkeys(body.invars[first + carried :]))
            self.go(body)
            self.bind(body.invars[first : first + carried], body.outvars)
        self.bind(eqn.outvars[:carried], body.invars[first:])

    def loop(self, eqn) -> None:
        test, body = open_jaxpr(eqn.params["cond_jaxpr"]), open_jaxpr(eqn.params["body_jaxpr"])
        n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        self.bind(test.invars[:n], eqn.invars)
        self.bind(body.invars, eqn.invars[n:])
        more = True
        while more:
            self.bind(test.invars[n:], body.invars[m:])
            self.go(test)
            more = self.number(test.outvars[0])
            self.unknown += more is None
            if more or more is None:
                self.go(body)
                self.bind(body.invars[m:], body.outvars)
        self.bind(eqn.outvars, body.invars[m:])


def _number(x):
    """A whole number or a truth value, else None."""
    if getattr(x, "shape", ()) != () or not hasattr(x, "__index__") and not isinstance(x, bool | float):
        return None
    kind = getattr(getattr(x, "dtype", None), "kind", type(x).__name__[0])
    return bool(x) if kind == "b" else int(x) if kind in "iu" else None


def _divided(a, b):
    """Towards zero, as `lax.div` does."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_SAME = dict.fromkeys(
    "convert_element_type squeeze reshape broadcast_in_dim copy stop_gradient pvary".split(), lambda a, *_: a
)
_RULES = _SAME | {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
    "div": _divided, "rem": lambda a, b: a - b * _divided(a, b), "sign": lambda a: (a > 0) - (a < 0), "abs": abs,
    "max": max, "min": min, "clamp": lambda low, a, high: min(max(a, low), high),
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "not": lambda a: not a if isinstance(a, bool) else ~a, "select_n": lambda which, *cases: cases[int(which)],
    "shift_right_logical": lambda a, b: a >> b, "shift_left": lambda a, b: a << b,
}  # fmt: skip
