"""One walk over a jaxpr, through everything that contains another jaxpr, and the FLOPs and bytes of a program.

All that is counted about a program is a sum over this walk, so each quantity is one function of one equation.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import jax

from helpers import show

from .equation_costs import MATMULS, TRANSCENDENTAL, bytes_moved, flops, is_literal, known, nbytes

# Primitives that run the one jaxpr they hold exactly once, and the parameter that holds it.
CALLS = (
    dict.fromkeys("jit pjit remat2 checkpoint composite".split(), "jaxpr")
    # JAX 0.12 calls a closed_call eval_jaxpr.
    | dict.fromkeys("closed_call call eval_jaxpr custom_jvp_call custom_vjp_call".split(), "call_jaxpr")
    | {"custom_vmap_call": "call"}
)


@dataclass(frozen=True)
class Visit:
    """One equation of the program and where it stands.

    eqn      the equation, with `primitive`, `invars`, `outvars`, `params`
    loops    how often the loops around it run it, on one device (an unreadable `while` counts as one)
    devices  how many devices run it: the manual axes of the `shard_map`s around it, multiplied
    axes     size of each of those axes, by name; inside them shapes are those of one device
    path     the equations around it, outermost first, as names with trip counts: ("jit f", "scan x4")
    opens    True if it only contains other equations, which are visited next
    trips    for a loop: how often its body runs; None if the program does not say
    """

    eqn: Any
    loops: int = 1
    devices: int = 1
    axes: dict[str, int] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    opens: bool = False
    trips: int | None = 1

    @property
    def name(self) -> str:
        """The primitive's name."""
        return self.eqn.primitive.name

    @property
    def times(self) -> int:
        """How often it runs in all: loops times devices."""
        return self.loops * self.devices

    def inside(self, label: str, loops: int = 1, axes: Mapping[str, int] | None = None) -> "Visit":
        """Where the equations stand that this one contains."""
        axes = axes or {}
        return replace(
            self,
            loops=self.loops * loops,
            devices=self.devices * prod(axes.values()),
            axes={**self.axes, **axes},
            path=(*self.path, label),
        )


def walk(jaxpr, context: Visit | None = None, choose_branches: Callable | None = None) -> Iterator[Visit]:
    """Every equation that the program needs, with its multipliers; containers before their contents.

    jaxpr            a Jaxpr or ClosedJaxpr, as from `jax.make_jaxpr(f)(*args)`
    context          where that jaxpr stands; leave it out for a whole program
    choose_branches  (branches of a `cond`, its Visit) -> the one branch to visit; without it, the one with the most FLOPs

    Equations whose results nobody uses are left out, as the compiler leaves them out.
    """
    context, choose_branches = context or Visit(None), choose_branches or largest
    for eqn in needed(open_jaxpr(jaxpr)):
        visit = replace(context, eqn=eqn, opens=False, trips=trips_of(eqn))
        contents = list(_contents(visit, choose_branches))
        yield replace(visit, opens=bool(contents))
        for inner, inside in contents:
            yield from walk(inner, inside, choose_branches)


def _contents(visit: Visit, choose_branches: Callable) -> Iterator[tuple]:
    """The jaxprs that an equation runs, each with where it stands then."""
    params, name, n = visit.eqn.params, visit.name, visit.trips
    if name in CALLS:
        yield params[CALLS[name]], visit.inside(f"{name} {params['name']}" if params.get("name") else name)
    elif name == "scan":
        yield params["jaxpr"], visit.inside(f"scan x{n}", loops=n)
    elif name == "while":
        tests, runs = (1, 1) if n is None else (n + 1, n)
        label = f"while x{'?' if n is None else n}"
        yield params["cond_jaxpr"], visit.inside(label, loops=tests)
        yield params["body_jaxpr"], visit.inside(label, loops=runs)
    elif name == "cond":
        yield choose_branches(params["branches"], visit), visit.inside("cond")
    elif name == "shard_map":
        yield params["jaxpr"], visit.inside("shard_map", axes=manual_axes(visit.eqn))


def open_jaxpr(jaxpr):
    """The Jaxpr inside a ClosedJaxpr; an open one as it is."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def needed(jaxpr) -> list:
    """The equations of one jaxpr whose results reach its outputs or that have an effect."""
    live, kept = {v for v in jaxpr.outvars if not is_literal(v)}, []
    for eqn in reversed(jaxpr.eqns):
        if has_effect(eqn) or any(v in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if not is_literal(v))
    return kept[::-1]


def has_effect(eqn) -> bool:
    """True if an equation does something besides its results; that it names a mesh axis is no effect here."""
    return any(type(e).__name__ != "NamedAxisEffect" for e in eqn.effects)


def manual_axes(eqn) -> dict[str, int]:
    """Names and sizes of the mesh axes over which a `shard_map` makes the program per-device."""
    mesh = eqn.params["mesh"]
    names = eqn.params.get("newly_manual_axes", eqn.params.get("manual_axes", mesh.axis_names))
    return {a: mesh.shape[a] for a in mesh.axis_names if a in names}


def largest(branches, visit: Visit | None = None):
    """The branch of a `cond` with the most FLOPs; the first of equals."""
    return max(branches, key=lambda b: sum(v.times * flops(v.eqn) for v in walk(b) if not v.opens))


def scan_counts(eqn) -> tuple[int, int]:
    """Of a `scan`, how many operands are the same on each trip, and how many are carried; the others lose their first axis.

    Read from the shapes: JAX 0.10 has these numbers among the parameters, JAX 0.12 has not.
    """
    body = open_jaxpr(eqn.params["jaxpr"])
    alike = lambda inside, outside: sum(len(v.aval.shape) == len(o.aval.shape) for v, o in zip(inside, outside))  # noqa: E731
    carried = alike(body.outvars, eqn.outvars)
    return alike(body.invars, eqn.invars) - carried, carried


def trips_of(eqn) -> int | None:
    """How often an equation runs what it contains: 1 for what is no loop; None if a `while` does not say."""
    if eqn.primitive.name != "while":
        return eqn.params["length"] if eqn.primitive.name == "scan" else 1
    test, body = open_jaxpr(eqn.params["cond_jaxpr"]), open_jaxpr(eqn.params["body_jaxpr"])
    if len(test.eqns) != 1 or test.eqns[0].primitive.name != "lt" or any(has_effect(e) for e in body.eqns):
        return None
    return counted_trips(*(_carried(v, eqn) for v in test.eqns[0].invars))


def counted_trips(counter: tuple[int, int] | None, limit: tuple[int, int] | None) -> int | None:
    """How often a loop runs that only counts up, while counter < limit; None if the program does not say.

    counter, limit  (first value, change on each trip), whole numbers that stand in the program; None for anything else

    >>> counted_trips((0, 2), (7, 0)), counted_trips((0, 0), (7, 0)), counted_trips((0, 2), None)
    (4, None, None)
    """
    if counter is None or limit is None or counter[1] <= 0 or limit[1] != 0:
        return None
    return max(0, -((counter[0] - limit[0]) // counter[1]))


def _carried(v, eqn) -> tuple[int, int] | None:
    """(first value, change on each trip) of what a loop's test looks at; None if the program does not say."""
    test, body = open_jaxpr(eqn.params["cond_jaxpr"]), open_jaxpr(eqn.params["body_jaxpr"])
    nt, nb = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    if is_literal(v) or v not in test.invars[nt:]:  # the same on every trip
        outside = v if is_literal(v) else dict(zip(test.invars, eqn.invars[:nt])).get(v)
        first = None if outside is None else _whole(outside)
        return None if first is None else (first, 0)
    at = test.invars.index(v) - nt
    first, var, out = _whole(eqn.invars[nt + nb + at]), body.invars[nb + at], body.outvars[at]
    if first is None or out is var:
        return None if first is None else (first, 0)
    for e in body.eqns:
        if out in e.outvars and e.primitive.name == "add" and any(x is var for x in e.invars):
            steps = [_whole(x) for x in e.invars if x is not var]
            return (first, steps[0]) if steps and steps[0] is not None else None
    return None


def _whole(v) -> int | None:
    """The number, if it is a whole one and written into the program."""
    return int(v.val) if is_literal(v) and v.aval.dtype.kind in "iu" else None


# -- FLOPs and bytes of a program


@dataclass(frozen=True)
class Tally:
    """One kind of operation: how often it runs, its FLOPs and its unfused bytes, all runs and devices together."""

    count: int
    flops: int
    bytes: int


@dataclass(frozen=True)
class Count:
    """What a program does, over all its loop trips and all devices of its `shard_map`s.

    flops            all of them, by the conventions of `trace.jaxpr.equation_costs`
    matmul_flops     those of matrix multiplications and convolutions
    transcendentals  those that are exp, log, tanh ...; `flops` includes them
    bytes            unfused: every equation reads its operands from memory and writes its results there (an upper bound)
    io_bytes         fused: the arguments, closed-over arrays and results of the whole program, once each; what a
                     roofline's matmul formula uses. A lower bound, unless the program only looks into a part of an argument
    devices          how many devices the widest `shard_map` runs on; 1 without one
    by_primitive     a Tally for each primitive, most FLOPs first
    unknown          primitives that no rule knows, counted as 0 FLOPs, and how often they run
    unknown_trips    True if a `while` does not say how often it runs; its body is counted once
    branches         True if there is a `cond`; its branch with the most FLOPs is counted
    """

    flops: int
    matmul_flops: int
    transcendentals: int
    bytes: int
    io_bytes: int
    devices: int
    by_primitive: dict[str, Tally]
    unknown: dict[str, int]
    unknown_trips: bool
    branches: bool

    @property
    def intensity(self) -> float:
        """FLOPs per byte if everything is fused: `flops / io_bytes`, the highest that the program can reach."""
        return self.flops / self.io_bytes if self.io_bytes else float("inf")

    @property
    def doubts(self) -> tuple[str, ...]:
        """One sentence for each thing that makes these numbers less than exact; empty if nothing does."""
        doubts = {
            f"No rule knows {', '.join(self.unknown)}: counted as 0 FLOPs.": self.unknown,
            "A while loop does not say how often it runs: its body is counted once.": self.unknown_trips,
            "Of each cond, only the branch with the most FLOPs is counted.": self.branches,
        }
        return tuple(sentence for sentence, holds in doubts.items() if holds)

    def __str__(self) -> str:
        rows = [("", "runs", "FLOPs", "bytes, unfused")]
        rows += [(k, f"{t.count:,}", f"{t.flops:,}", f"{t.bytes:,}") for k, t in self.by_primitive.items()]
        rows += [("total", "", f"{self.flops:,}", f"{self.bytes:,}"), ("in and out only", "", "", f"{self.io_bytes:,}")]
        return "\n".join([*show.columns(rows, right=True), *self.doubts])


def count(f: Callable, *args) -> Count:
    """FLOPs and bytes of `f(*args)`, without running it.

    args  arrays or `jax.ShapeDtypeStruct`s (or trees of them): only shapes and types matter

    Shapes inside `shard_map` are those of one device, so what stands there is multiplied by the number of devices:
    every figure is for the whole program on all devices. Work whose result nobody uses is left out.

    >>> import jax, jax.numpy as jnp
    >>> x, w = (jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in ((8, 512), (512, 1024)))
    >>> c = count(jnp.matmul, x, w)
    >>> c.flops == 2 * 8 * 512 * 1024, c.io_bytes == 2 * (8 * 512 + 512 * 1024 + 8 * 1024)
    (True, True)
    """
    closed = jax.make_jaxpr(f)(*args)
    visits, tallies, unknown = list(walk(closed)), {}, Counter()
    for v in visits:
        if v.opens:
            continue
        if not known(v.eqn):
            unknown[v.name] += v.times
        old, does, moves = tallies.get(v.name, Tally(0, 0, 0)), flops(v.eqn), bytes_moved(v.eqn)
        tallies[v.name] = Tally(old.count + v.times, old.flops + v.times * does, old.bytes + v.times * moves)
    tallies = dict(sorted(tallies.items(), key=lambda kv: (-kv[1].flops, -kv[1].bytes, kv[0])))
    total = lambda names: sum(t.flops for k, t in tallies.items() if k in names)  # noqa: E731
    return Count(
        flops=total(tallies),
        matmul_flops=total(MATMULS),
        transcendentals=total(TRANSCENDENTAL),
        bytes=sum(t.bytes for t in tallies.values()),
        io_bytes=io_bytes(closed),
        devices=max((v.devices for v in visits), default=1),
        by_primitive=tallies,
        unknown=dict(unknown),
        unknown_trips=any(v.trips is None for v in visits),
        branches=any(v.opens and v.name == "cond" for v in visits),
    )


def io_bytes(closed_jaxpr) -> int:
    """Bytes of a program's arguments, closed-over arrays and results, each once.

    Arguments that the program never looks at are not moved.
    """
    jaxpr = open_jaxpr(closed_jaxpr)
    used = {v for e in jaxpr.eqns for v in e.invars if not is_literal(v)}
    used |= {v for v in jaxpr.outvars if not is_literal(v)}
    constants = {id(c): c for c in _constants(closed_jaxpr)}
    return (
        sum(nbytes(v) for v in jaxpr.invars if v in used)
        + sum(getattr(c, "nbytes", 0) for c in constants.values())
        + sum(nbytes(v) for v in jaxpr.outvars)
    )


def _constants(jaxpr):
    """Arrays that a program closes over, at every level; a function under `jit` keeps its own."""
    yield from getattr(jaxpr, "consts", ())
    for eqn in open_jaxpr(jaxpr).eqns:
        for p in eqn.params.values():
            for inner in p if isinstance(p, (tuple, list)) else [p]:
                if hasattr(open_jaxpr(inner), "eqns"):
                    yield from _constants(inner)
