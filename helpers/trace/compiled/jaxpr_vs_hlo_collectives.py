"""What a program asks to send beside what a compiler makes of it, and why the two differ.

The program's side is its jaxpr: the same on every machine, and what is graded. The compiler's side is for one machine and
one version; nothing is promised about it. So never grade by it; show it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from math import prod

import jax

from helpers import show
from helpers.trace.jaxpr.collectives import Sent, sent

from .compiled_program import Program, made, mesh_name
from .hlo_text import Made, where

SIXTEEN = {"bf16", "f16"}


@dataclass(frozen=True)
class Beside:
    """The collectives of a program beside those of the compiled program, with a sentence for each difference.

    asked    what the jaxpr says
    made     what the compiler made of it
    dtypes   number types of the program's arguments
    """

    asked: Sent
    made: Program
    dtypes: frozenset[str] = frozenset()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they differ; empty if kinds, axes, runs and bytes are the same and nothing overlaps."""
        return tuple(dict.fromkeys(_reasons(self)))

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """For each kind and axes: how often it runs and what a device sends, by the program and by the compiler."""
        ours, theirs = _by_name(self.asked), _by_name(self.made.collectives)
        return [
            (name, *_cells(ours.get(name, []), self.asked.sizes), *_cells(theirs.get(name, []), self.made.sizes))
            for name in dict.fromkeys((*ours, *theirs))
        ]

    def __str__(self) -> str:
        table = [self._head, *self.rows()]
        wide = [max(len(r[i]) for r in table) for i in range(5)]
        lines = ["  ".join(x.ljust(w) for x, w in zip(r, wide)).rstrip() for r in table]
        return "\n".join(lines + [f"* {r}" for r in self.reasons])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(h)}</th>' for h in self._head)
        body = "".join(
            f'<tr><th scope="row">{escape(r[0])}</th>' + "".join(f"<td>{escape(x)}</td>" for x in r[1:]) + "</tr>"
            for r in self.rows()
        )
        why = "".join(f"<li>{escape(r)}</li>" for r in self.reasons)
        return f'<table class="table"><tr>{head}</tr>{body}</table>' + (f"<ul>{why}</ul>" if why else "")

    @property
    def _head(self) -> tuple[str, ...]:
        name = self.made.target
        return (mesh_name(self.made.sizes), "program: runs", "bytes sent", f"{name} compiler: runs", "bytes sent")


def beside(f: Callable, *args, mesh: jax.sharding.Mesh | None = None) -> Beside:
    """What `f(*args)` asks to send beside what XLA makes of it for the devices of the arguments; nothing is run.

    f     a function, or `jax.jit(f, out_shardings=…)` where the result's sharding matters
    args  arrays or `jax.ShapeDtypeStruct`s with shardings
    mesh  the mesh whose axes name the groups; left out, that of the arguments or of a `shard_map` inside
    """
    names = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
    types = {str(getattr(x, "dtype", "")) for x in jax.tree.leaves(args)}
    return Beside(sent(f, *args), made(f, *args, mesh=mesh), frozenset(names.get(t, t) for t in types))


def _by_name(collectives) -> dict[str, list]:
    out: dict[str, list] = {}
    for c in collectives:
        out.setdefault(f"{c.kind}_{_where(c)}", []).append(c)
    return out


def _where(c) -> str:
    if isinstance(c, Made):
        return where(c)
    return f"({c.within} devices)" if c.within else "".join(c.axes)


def _cells(cs: list, sizes: dict[str, int]) -> tuple[str, str]:
    if not cs:
        return "", ""
    runs = "?" if any(c.times is None for c in cs) else f"{sum(c.times for c in cs):,}"
    return runs, show.bytes(sum(_wire(c, sizes) for c in cs))


def _wire(c, sizes: dict[str, int]) -> float:
    return c.wire if isinstance(c, Made) else Sent([c], sizes).wire


def _reasons(b: Beside) -> Iterator[str]:
    asked, got = [c for c in b.asked if _members(c, b.asked.sizes) > 1], b.made.collectives
    if b.made.refused:
        yield str(b.made.refused)
        return
    if len(asked) < len(b.asked):
        yield "A collective over an axis of one device sends nothing; XLA leaves it out."
    if got and not b.asked:
        yield "The program names no collective: it names shardings, and XLA's partitioner adds what they need."
    if asked and not got:
        yield "XLA found that nobody needs what would be sent."
    yield from _types(b, got)
    yield from _changes(b, asked, got)
    yield from _schedule(got)
    yield from b.asked.doubts


def _members(c, sizes: dict[str, int]) -> int:
    return c.within or prod(sizes[a] for a in c.axes)


def _types(b: Beside, got: tuple[Made, ...]) -> Iterator[str]:
    """Numbers that travel in another type than they have."""
    sixteen = ({c.dtype for c in b.asked} or b.dtypes) & SIXTEEN
    if sixteen and b.made.target == "cpu" and any(t == "f32" for c in got for t, _ in c.ins):
        yield (
            f"On a CPU XLA computes {' and '.join(sorted(sixteen))} as f32 and sends it so: twice the bytes. TPUs and GPUs do not."
        )


def _changes(b: Beside, asked: list, got: tuple[Made, ...]) -> Iterator[str]:
    """Other kinds, axes or numbers of collectives than the program names."""
    ours, theirs = _by_name(asked), _by_name(got)
    for c in got:
        if c.sliced:
            yield (
                f"An AllReduce of which each device keeps only its part is a ReduceScatter in two steps: {_twice(c)} "
                "XLA's partitioner on a CPU knows no other; psum_scatter in shard_map stays a ReduceScatter."
                if b.made.target == "cpu"
                else f"Of one AllReduce each device keeps only its part, as after a ReduceScatter: {_twice(c)}"
            )
        if len(c.outs) > 1:
            yield f"XLA sends {len(c.outs)} arrays in one {c.kind}: one latency in place of {len(c.outs)}."
        if c.axes is None:
            yield f"A {c.kind} runs in groups of {c.n} that are not along whole axes of the mesh."
        if c.times is None:
            yield "XLA's text does not say how often a loop runs: what it sends is counted once."
    yield from _rings(b, ours, theirs)
    for name, cs in ours.items():
        if name in theirs and len(theirs[name]) == len(cs):
            a, c = sum(x.times for x in cs), sum(x.times or 0 for x in theirs[name])
            if c < a:
                runs = "once" if c == 1 else f"{c:,} times"
                yield f"{name} runs {runs} in place of {a:,} times: XLA took what stays the same out of the loop."
        elif name in theirs and sum(len(x.outs) for x in theirs[name]) < len(cs):
            yield f"XLA makes fewer of {name}: it joined equal ones or dropped what nobody needs."
        elif name not in theirs and got:
            yield f"{name} is not in the compiled program: XLA does the same with other collectives."


def _rings(b: Beside, ours: dict[str, list], theirs: dict[str, list]) -> Iterator[str]:
    """Permutes that nobody asked for."""
    for name, steps in theirs.items():
        if not name.startswith("Permute") or name in ours:
            continue
        axes, busy, runs = steps[0].axes, any(c.behind for c in steps), sum(c.times or 1 for c in steps)
        if len(axes) == 1 and busy:
            yield (
                f"{runs} Permutes over {axes[0]} with parts of a matmul between them: a collective matmul, "
                "a gather or a scatter cut into steps that hide behind the arithmetic."
            )
        else:
            yield f"XLA chose a way of its own through the mesh, with {runs} Permute{'s' * (runs != 1)} over {''.join(axes)}."


def _schedule(got: tuple[Made, ...]) -> Iterator[str]:
    """What runs while something is sent."""
    split = [c for c in got if c.behind is not None]
    if split:
        busy = sum(bool(c.behind) for c in split)
        yield (
            f"{len(split)} of {len(got)} collectives are asynchronous, a start and an end; "
            f"matmuls run meanwhile in {busy} of them."
        )
    if pieces := [c for c in got if c.pieces > 1]:
        yield f"{len(pieces)} of them travel in pieces, each beside a piece of a matmul in one fusion."


def _twice(c: Made) -> str:
    return f"it sends {show.bytes(c.wire)} in place of {show.bytes(c.wire / 2)}."
