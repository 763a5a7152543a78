"""FLOPs and bytes of a program, from its jaxpr alone."""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from helpers.costs.rooflines.roofline import Work

from .equation_costs import MATMULS, TRANSCENDENTAL, bytes_moved, flops, is_literal, known, nbytes
from .walk import open_jaxpr, walk


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

    def work(self, dtype: str = "bf16") -> Work:
        """What was counted as the `Work` that `costs.rooflines.roofline` prices: all FLOPs, and the fused bytes.

        dtype   the type that the arithmetic runs in, which chooses a chip's rate
        """
        return Work(float(self.flops), float(self.io_bytes), dtype=dtype)

    @property
    def doubts(self) -> tuple[str, ...]:
        """One sentence for each thing that makes these numbers less than exact; empty if nothing does."""
        out = []
        if self.unknown:
            out.append(f"No rule knows {', '.join(self.unknown)}: counted as 0 FLOPs.")
        if self.unknown_trips:
            out.append("A while loop does not say how often it runs: its body is counted once.")
        if self.branches:
            out.append("Of each cond, only the branch with the most FLOPs is counted.")
        return tuple(out)

    def __str__(self) -> str:
        rows = [("", "runs", "FLOPs", "bytes, unfused")]
        rows += [(k, f"{t.count:,}", f"{t.flops:,}", f"{t.bytes:,}") for k, t in self.by_primitive.items()]
        rows += [("total", "", f"{self.flops:,}", f"{self.bytes:,}"), ("in and out only", "", "", f"{self.io_bytes:,}")]
        wide = [max(len(r[i]) for r in rows) for i in range(4)]
        lines = [r[0].ljust(wide[0]) + "".join("  " + r[i].rjust(wide[i]) for i in (1, 2, 3)) for r in rows]
        return "\n".join([line.rstrip() for line in lines] + list(self.doubts))


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
    tallies, unknown, devices, unknown_trips, branches = {}, {}, 1, False, False
    for v in walk(closed):
        devices = max(devices, v.devices)
        if v.opens:
            unknown_trips |= v.trips is None
            branches |= v.name == "cond"
            continue
        if not known(v.eqn):
            unknown[v.name] = unknown.get(v.name, 0) + v.times
        old = tallies.get(v.name, Tally(0, 0, 0))
        does, moves = flops(v.eqn), bytes_moved(v.eqn)
        tallies[v.name] = Tally(old.count + v.times, old.flops + v.times * does, old.bytes + v.times * moves)
    tallies = dict(sorted(tallies.items(), key=lambda kv: (-kv[1].flops, -kv[1].bytes, kv[0])))
    total = lambda names: sum(t.flops for k, t in tallies.items() if k in names)  # noqa: E731
    return Count(
        flops=total(tallies),
        matmul_flops=total(MATMULS),
        transcendentals=total(TRANSCENDENTAL),
        bytes=sum(t.bytes for t in tallies.values()),
        io_bytes=io_bytes(closed),
        devices=devices,
        by_primitive=tallies,
        unknown=unknown,
        unknown_trips=unknown_trips,
        branches=branches,
    )


def io_bytes(closed) -> int:
    """Bytes of a program's arguments, closed-over arrays and results, each once.

    Arguments that the program never looks at are not moved.
    """
    jaxpr = open_jaxpr(closed)
    used = {v for e in jaxpr.eqns for v in e.invars if not is_literal(v)}
    used |= {v for v in jaxpr.outvars if not is_literal(v)}
    constants = {id(c): c for c in _constants(closed)}
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
