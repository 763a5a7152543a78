"""The arrays of a program, from its jaxpr: those that it keeps for its backward pass, those as large as T x S, and the bytes of them
that a blocked program moves; and what a decoder attends to.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from math import prod

import jax
import jax.numpy as jnp

from helpers import show

from .equation_costs import ACCUMULATES, PUTS, TAKES, VIEWS, is_literal, nbytes, short, size
from .walk import CALLS, needed, open_jaxpr, scan_counts, trips_of, walk

FREE = VIEWS | frozenset("transpose pad broadcast_in_dim broadcast_to rev expand_dims".split())
"""What a kernel does while it reads: other strides, edges of zeros."""


class Arrays(show.Table, tuple):
    """Arrays of a program, as (shape, dtype), largest first; printed as a table.

    bytes   of all of them
    """

    head = ("saved array", "how many")

    def __new__(cls, variables=()):
        """variables: those of a jaxpr that stand for them"""
        largest_first = sorted(variables, key=nbytes, reverse=True)
        self = super().__new__(cls, ((tuple(v.aval.shape), short(v.aval.dtype)) for v in largest_first))
        self.bytes = sum(map(nbytes, largest_first))
        return self

    def rows(self) -> list[tuple[str, str]]:
        """The table: an array, and how many of its kind there are."""
        kinds = dict.fromkeys(self)
        return [(f"{dtype}{list(shape)}", str(self.count((shape, dtype)))) for shape, dtype in kinds]

    def __str__(self) -> str:
        return "\n".join([*(f"{n} x {a}" for a, n in self.rows()), f"saved: {show.bytes(self.bytes)}"])

    below = property(lambda self: (f"{show.bytes(self.bytes)} in all",))
    __repr__ = __str__


def saved(f: Callable, *args) -> Arrays:
    """What the forward pass of `f(*args)` hands to its backward pass; nothing is run.

    args  arrays or `jax.ShapeDtypeStruct`s (or trees of them); the gradient is taken by those that hold floats

    Arguments are not listed: they lie in memory anyway. One array that is needed twice is listed once. A `scan` keeps one
    array for all its trips.

    >>> x, w = (jax.ShapeDtypeStruct(s, "float32") for s in ((8, 4), (4, 16)))
    >>> saved(lambda x, w: jax.numpy.sin(x @ w), x, w)          # the cosine; x and w are arguments
    1 x f32[8, 16]
    saved: 512 B
    """
    leaves, tree = jax.tree.flatten(args)
    floats = [i for i, a in enumerate(leaves) if jnp.issubdtype(a.dtype, jnp.inexact)]

    def residuals(*leaves):
        def by_floats(*arrays):
            mine = dict(zip(floats, arrays))
            return f(*jax.tree.unflatten(tree, [mine.get(i, a) for i, a in enumerate(leaves)]))

        return jax.tree.leaves(jax.vjp(by_floats, *(leaves[i] for i in floats))[1])

    jaxpr = open_jaxpr(jax.make_jaxpr(residuals)(*leaves))
    given = {*jaxpr.invars, *jaxpr.constvars}
    return Arrays(v for v in dict.fromkeys(v for v in jaxpr.outvars if not is_literal(v)) if v not in given)


def squares(f: Callable, *args, T: int, S: int, backward: bool = False) -> Arrays:
    """Arrays of T·S numbers or more that the program of `f(*args)` makes, forward or `backward`; none from a Flash.

    T, S  lengths for which no argument has as many: T·S is more than B·T·N·H. Choose them long, heads few and small

    Nothing is run. Of each shape one is listed for each equation that makes it; `bytes` are of one run of each. What a Pallas
    kernel holds is not looked at: it is on the chip.

    >>> q = jax.ShapeDtypeStruct((64, 4), "float32")
    >>> squares(lambda q, k: jax.nn.softmax(q @ k.T), q, q, T=64, S=64)[0]
    ((64, 64), 'f32')
    """

    def both(*args):
        out, pull = jax.vjp(f, *args)
        return pull(out)

    closed = jax.make_jaxpr(both if backward else f)(*args)
    most = max((size(v) for v in open_jaxpr(closed).invars), default=0)
    if most >= T * S:
        raise ValueError(
            f"an argument has {most:,} numbers, T·S = {T * S:,} or more: make T and S longer, or H smaller"
        )
    # Of a loop what it stacks up, besides what its body makes.
    made = [v for e in walk(closed) if not e.opens or e.name == "scan" for v in e.eqn.outvars]
    return Arrays(v for v in made if size(v) >= T * S)


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
    traffic = _Traffic(M)
    traffic.slow.update(v for v in jaxpr.invars if _floats(v))
    traffic.slow.update(v for v in jaxpr.constvars if nbytes(v) > M)
    traffic.visit(jaxpr, 1)
    traffic.written += sum(nbytes(v) for v in jaxpr.outvars if not is_literal(v) and not traffic.is_slow(v))
    return Moved(traffic.read, traffic.written)


class _Traffic:
    """One pass over a program; `slow` are the variables that lie in slow memory whatever their size."""

    def __init__(self, M: int):
        self.M, self.read, self.written, self.slow = M, 0, 0, set()

    def is_slow(self, v) -> bool:
        if is_literal(v):
            return False
        return v in self.slow or (_floats(v) and nbytes(v) > self.M)

    def visit(self, jaxpr, runs: int) -> None:
        for eqn in needed(open_jaxpr(jaxpr)):
            name = eqn.primitive.name
            if name in CALLS or name == "shard_map":
                self.enter(eqn.params[CALLS.get(name, "jaxpr")], eqn.invars, runs, eqn.outvars)
            elif name == "cond":
                self.cond(eqn, runs)
            elif name == "scan":
                self.scan(eqn, runs)
            elif name == "while":
                once = runs * (1 if (trips := trips_of(eqn)) is None else trips)
                self.enter(eqn.params["body_jaxpr"], eqn.invars[eqn.params["cond_nconsts"] :], once, ())
            else:
                self.equation(eqn, name, runs)

    def enter(self, inner_jaxpr, outer_variables, runs: int, outvars) -> None:
        inner_jaxpr = open_jaxpr(inner_jaxpr)
        self.slow.update(v for v, o in zip(inner_jaxpr.invars, outer_variables) if self.is_slow(o))
        self.visit(inner_jaxpr, runs)
        self.slow.update(o for v, o in zip(inner_jaxpr.outvars, outvars) if self.is_slow(v))

    def cond(self, eqn, runs: int) -> None:
        """Of the branches the one that moves most."""
        ways = [copy(self) for _ in eqn.params["branches"]]
        for way, branch in zip(ways, eqn.params["branches"]):
            way.slow = set(self.slow)
            way.enter(branch, eqn.invars[1:], runs, eqn.outvars)
        vars(self).update(vars(max(ways, key=lambda way: way.read + way.written)))

    def scan(self, eqn, runs: int) -> None:
        inner, n = open_jaxpr(eqn.params["jaxpr"]), eqn.params["length"]
        first, carried = scan_counts(eqn)
        self.slow.update(v for v, o in zip(inner.invars[:first], eqn.invars) if self.is_slow(o))
        parts = zip(inner.invars[first + carried :], eqn.invars[first + carried :])
        # A part that is too large to stay is read where it is used.
        self.move(runs * n, variables_read=[v for v, o in parts if self.is_slow(o) and not self.is_slow(v)])
        self.visit(inner, runs * n)
        stacked = zip(inner.outvars[carried:], eqn.outvars[carried:])
        self.move(runs * n, variables_written=[v for v, o in stacked if self.is_slow(o) and not self.is_slow(v)])

    def equation(self, eqn, name: str, runs: int) -> None:
        ins, outs = eqn.invars, eqn.outvars
        slow = lambda variables: [v for v in variables if self.is_slow(v)]  # noqa: E731
        if name in FREE:
            self.slow.update(outs[:1] if slow(ins) else ())
        elif name in TAKES:
            if self.is_slow(ins[0]):
                self.move(runs, variables_read=outs, variables_written=slow(outs))
        elif name in PUTS | ACCUMULATES:
            part = ins[1 if name == "dynamic_update_slice" else 2]
            written = [part] if self.is_slow(outs[0]) else []
            old = written if name in ACCUMULATES else []  # the old values are read too
            self.move(runs, variables_read=[*slow([part]), *old], variables_written=written)
        else:
            self.move(runs, variables_read=dict.fromkeys(slow(ins)), variables_written=slow(outs))

    def move(self, runs: int, variables_read=(), variables_written=()) -> None:
        self.read += runs * sum(map(nbytes, variables_read))
        self.written += runs * sum(map(nbytes, variables_written))


def _floats(v) -> bool:
    return hasattr(v.aval, "dtype") and jnp.issubdtype(v.aval.dtype, jnp.inexact)


@dataclass(frozen=True)
class Attended:
    """Of a decoder of `kernels.transformers.decoder`, all layers together.

    tokens   rows that pass through an MLP; through experts, once for each expert that a token goes to
    scores   numbers that attention takes the exponential of, all heads together
    block    (T, S) of the largest array of them
    read     bytes of the caches that layers look at, in the form in which they are held
    """

    tokens: int
    scores: int
    block: tuple[int, int]
    read: int


def attended(f: Callable, *args) -> Attended:
    """Read from the program of `f(*args)`; nothing is run. Arguments as those of `count`.

    Learned sinks are one score more for each query. Blocks of a running softmax (`kernels.attention.softmax`) are not counted.
    """
    tokens = scores = read = 0
    blocks = [(0, 0)]
    for v in walk(jax.make_jaxpr(f)(*args)):
        if v.opens:
            continue
        name = v.eqn.params.get("name") if v.name == "name" else None
        out = v.eqn.outvars[0].aval if v.eqn.outvars else None
        if name in ("W_out", "W_out of experts"):
            tokens += v.times * prod(out.shape[:-1])
        if name == "seen":
            read += v.times * nbytes(v.eqn.outvars[0])
        if v.name == "exp" and out.ndim >= 4:  # [B, …, T, S]; a router's has two axes
            scores += v.times * prod(out.shape)
            blocks.append(out.shape[-2:])
    return Attended(tokens, scores, max(blocks, key=prod), read)
