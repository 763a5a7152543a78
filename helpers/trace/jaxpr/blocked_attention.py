"""Attention in blocks, read from the program: arrays as large as T x S, and bytes that a blocked program moves."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from .collectives import short
from .equation_costs import ACCUMULATES, PUTS, TAKES, VIEWS, is_literal, nbytes, size
from .saved_residuals import Saved
from .walk import CALLS, needed, open_jaxpr, scan_counts, walk, while_trips

FREE = VIEWS | frozenset("transpose pad broadcast_in_dim broadcast_to rev expand_dims".split())
"""What a kernel does while it reads: other strides, edges of zeros."""


def squares(f: Callable, *args, T: int, S: int, backward: bool = False) -> Saved:
    """Arrays of T·S numbers or more that the program of `f(*args)` makes, forward or `backward`; none from a Flash.

    T, S  lengths for which no argument has as many: T·S is more than B·T·N·H. Choose them long, heads few and small

    Nothing is run. Of each shape one is listed for each equation that makes it; `bytes` are of one run of each. What a Pallas
    kernel holds is not looked at: it is on the chip.

    >>> q = jax.ShapeDtypeStruct((64, 4), "float32")
    >>> squares(lambda q, k: jax.nn.softmax(q @ k.T), q, q, T=64, S=64)[0]
    ((64, 64), 'f32')
    """
    if backward:
        forward = f

        def f(*args):
            out, pull = jax.vjp(forward, *args)
            return pull(out)

    closed = jax.make_jaxpr(f)(*args)
    most = max((size(v) for v in open_jaxpr(closed).invars), default=0)
    if most >= T * S:
        raise ValueError(
            f"an argument has {most:,} numbers, no fewer than T·S = {T * S:,}: make T and S longer, or H smaller"
        )
    made = [v for e in walk(closed) if not e.opens for v in e.eqn.outvars]
    made += [v for e in walk(closed) if e.name == "scan" for v in e.eqn.outvars]  # what a loop stacks up
    found = sorted((v for v in made if size(v) >= T * S), key=nbytes, reverse=True)
    return Saved(((tuple(v.aval.shape), short(v.aval.dtype)) for v in found), sum(map(nbytes, found)))


@dataclass(frozen=True)
class Moved:
    """Bytes that a program reads from slow memory and writes to it."""

    read: int
    written: int

    @property
    def bytes(self) -> int:
        """Both."""
        return self.read + self.written


def moved(f: Callable, *args, M: int) -> Moved:
    """Bytes through memory if arrays of up to M bytes stay on the chip, and all larger ones do not; nothing is run.

    The arguments lie in slow memory, and so does every array of more than M bytes. An equation reads what it takes of these
    and writes the larger ones; a slice reads its part, an update writes its part, a loop over an array's first axis reads a
    part on each trip and writes what it stacks up. Views, transposes and edges of zeros are free. Results that are small
    are written once, at the end. No fusion is assumed: a large array between two equations is written and read.

    M must be less than any of the arrays that are blocked; numbers of index type are not counted.

    >>> q = jax.ShapeDtypeStruct((64, 4), "float32")
    >>> moved(lambda q, k: q @ k.T, q, q, M=1024)                # 1 KiB each in, 16 KiB out
    Moved(read=2048, written=16384)
    """
    closed = jax.make_jaxpr(f)(*args)
    jaxpr = open_jaxpr(closed)
    at = _Walk(M)
    at.slow.update(v for v in jaxpr.invars if _floats(v))
    at.slow.update(v for v in jaxpr.constvars if nbytes(v) > M)
    at.visit(jaxpr, 1)
    at.written += sum(nbytes(v) for v in jaxpr.outvars if not is_literal(v) and not at.is_slow(v))
    return Moved(at.read, at.written)


class _Walk:
    """One pass over a program; `slow` are the variables that lie in slow memory whatever their size."""

    def __init__(self, M: int):
        self.M, self.read, self.written, self.slow = M, 0, 0, set()

    def is_slow(self, v) -> bool:
        if is_literal(v):
            return False
        return v in self.slow or (_floats(v) and nbytes(v) > self.M)

    def visit(self, jaxpr, times: int) -> None:
        for eqn in needed(open_jaxpr(jaxpr)):
            name = eqn.primitive.name
            if name in CALLS:
                self.enter(eqn.params[CALLS[name]], eqn.invars, times, eqn.outvars)
            elif name == "shard_map":
                self.enter(eqn.params["jaxpr"], eqn.invars, times, eqn.outvars)
            elif name == "cond":
                self.cond(eqn, times)
            elif name == "scan":
                self.scan(eqn, times)
            elif name == "while":
                n = eqn.params["cond_nconsts"]
                trips = while_trips(eqn)  # 0 is a number
                self.enter(eqn.params["body_jaxpr"], eqn.invars[n:], times * (1 if trips is None else trips), ())
            else:
                self.equation(eqn, name, times)

    def enter(self, inner, outside, times: int, outvars) -> None:
        inner = open_jaxpr(inner)
        self.slow.update(v for v, o in zip(inner.invars, outside) if self.is_slow(o))
        self.visit(inner, times)
        self.slow.update(o for v, o in zip(inner.outvars, outvars) if self.is_slow(v))

    def cond(self, eqn, times: int) -> None:
        """Of the branches the one that moves most."""
        ways = []
        for branch in eqn.params["branches"]:
            way = _Walk(self.M)
            way.slow = set(self.slow)
            way.enter(branch, eqn.invars[1:], times, eqn.outvars)
            ways.append(way)
        most = max(ways, key=lambda way: way.read + way.written)
        self.read, self.written, self.slow = self.read + most.read, self.written + most.written, most.slow

    def scan(self, eqn, times: int) -> None:
        inner, n = open_jaxpr(eqn.params["jaxpr"]), eqn.params["length"]
        first, carried = scan_counts(eqn)
        for v, o in zip(inner.invars[:first], eqn.invars[:first]):
            if self.is_slow(o):
                self.slow.add(v)
        for v, o in zip(inner.invars[first + carried :], eqn.invars[first + carried :]):
            if self.is_slow(o) and not self.is_slow(v):  # a part that is too large to stay is read where it is used
                self.read += times * n * nbytes(v)
        self.visit(inner, times * n)
        for v, o in zip(inner.outvars[carried:], eqn.outvars[carried:]):
            if self.is_slow(o) and (is_literal(v) or not self.is_slow(v)):
                self.written += times * n * nbytes(v)

    def equation(self, eqn, name: str, times: int) -> None:
        out = eqn.outvars[0] if eqn.outvars else None
        if name in FREE:
            if any(self.is_slow(v) for v in eqn.invars):
                self.slow.add(out)
        elif name in TAKES:
            if self.is_slow(eqn.invars[0]):
                self.read += times * sum(map(nbytes, eqn.outvars))
                self.written += times * sum(nbytes(v) for v in eqn.outvars if self.is_slow(v))
        elif name in PUTS:
            part = eqn.invars[1 if name == "dynamic_update_slice" else 2]
            self.read += times * (nbytes(part) if self.is_slow(part) else 0)
            self.written += times * (nbytes(part) if self.is_slow(eqn.outvars[0]) else 0)
        elif name in ACCUMULATES:  # the old values are read too
            part, slow = eqn.invars[2], self.is_slow(eqn.outvars[0])
            self.read += times * nbytes(part) * (self.is_slow(part) + slow)
            self.written += times * nbytes(part) * slow
        else:
            self.read += times * sum(nbytes(v) for v in dict.fromkeys(v for v in eqn.invars if self.is_slow(v)))
            self.written += times * sum(nbytes(v) for v in eqn.outvars if self.is_slow(v))


def _floats(v) -> bool:
    dtype = getattr(v.aval, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, np.inexact)
