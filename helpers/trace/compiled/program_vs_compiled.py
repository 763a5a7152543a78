"""What a program asks for beside what a compiler makes of it, and why the two differ: what is sent, and FLOPs and bytes.

The program's side is its jaxpr: the same on every machine, and what is graded. The compiler's side is for one machine and
one version, and comes from the program after optimisation; nothing is promised about it. So never grade by it; show it.

XLA's FLOPs and bytes besides:
  * a loop's body is counted once, however often it runs;
  * everything is per device;
  * bytes depend on which operations were fused, and change from version to version;
  * on a CPU, bf16 work may be done in f32, with conversions of its own;
  * exp, log, tanh ... are no FLOPs but "transcendentals", while comparing, selecting and converting are;
  * a custom call (a Pallas kernel) has no FLOPs unless its author states them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax

from helpers import show
from helpers.trace.jaxpr.collectives import Sent, sent
from helpers.trace.jaxpr.equation_costs import flops, short
from helpers.trace.jaxpr.walk import Count, count, walk

from .compiled_program import Program, made, mesh_name
from .hlo_text import Made, where

SIXTEEN = {"bf16", "f16"}
CLOSE = 0.03  # two figures that differ by less are called the same
COUNTED_BY_XLA = frozenset(
    "eq ne lt le gt ge select_n convert_element_type is_finite and or xor not argmax argmin".split()
)


# -- what is sent


@dataclass(frozen=True, repr=False)
class Beside(show.Table):
    """The collectives of a program beside those of the compiled program, with a sentence for each difference.

    asked    what the jaxpr says
    made     what the compiler made of it
    dtypes   number types of the program's arguments
    """

    asked: Sent
    made: Program
    dtypes: frozenset[str] = frozenset()

    @property
    def head(self) -> tuple[str, ...]:
        name = self.made.target
        return (mesh_name(self.made.sizes), "program: runs", "bytes sent", f"{name} compiler: runs", "bytes sent")

    @property
    def below(self) -> tuple[str, ...]:
        return () if self.asked or self.made.collectives else ("nothing is sent",)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they differ; empty if kinds, axes, runs and bytes are the same and nothing overlaps."""
        return tuple(dict.fromkeys(_why_sent(self)))

    def rows(self) -> list[tuple[str, ...]]:
        """For each kind and axes: how often it runs and what a device sends, by the program and by the compiler."""
        ours, theirs = _by_name(self.asked), _by_name(self.made.collectives)
        wire = lambda c: c.wire if isinstance(c, Made) else c.wire(self.asked.sizes)  # noqa: E731

        def cells(collectives: list) -> tuple[str, str]:
            if not collectives:
                return "", ""
            runs = "?" if any(c.times is None for c in collectives) else f"{sum(c.times for c in collectives):,}"
            return runs, show.bytes(sum(map(wire, collectives)))

        return [(n, *cells(ours.get(n, [])), *cells(theirs.get(n, []))) for n in dict.fromkeys((*ours, *theirs))]


def beside(f: Callable, *args, mesh: jax.sharding.Mesh | None = None) -> Beside:
    """What `f(*args)` asks to send beside what XLA makes of it for the devices of the arguments; nothing is run.

    f     a function, or `jax.jit(f, out_shardings=…)` where the result's sharding matters
    args  arrays or `jax.ShapeDtypeStruct`s with shardings
    mesh  the mesh whose axes name the groups; left out, that of the arguments or of a `shard_map` inside
    """
    types = frozenset(short(x.dtype) for x in jax.tree.leaves(args) if hasattr(x, "dtype"))
    return Beside(sent(f, *args), made(f, *args, mesh=mesh), types)


def _by_name(collectives) -> dict[str, list]:
    out: dict[str, list] = {}
    for c in collectives:
        over = where(c) if isinstance(c, Made) else f"({c.within} devices)" if c.within else "".join(c.axes)
        out.setdefault(f"{c.kind}_{over}", []).append(c)
    return out


def _why_sent(b: Beside) -> Iterator[str]:
    asked, got = [c for c in b.asked if c.members(b.asked.sizes) > 1], b.made.collectives
    if b.made.refused:
        yield str(b.made.refused)
        return
    if len(asked) < len(b.asked):
        yield "A collective over an axis of one device sends nothing; XLA leaves it out."
    if got and not b.asked:
        yield "The program names no collective: it names shardings, and XLA's partitioner adds what they need."
    if asked and not got:
        yield "XLA found that nobody needs what would be sent."
    sixteen = ({c.dtype for c in b.asked} or b.dtypes) & SIXTEEN
    if sixteen and b.made.target == "cpu" and any(t == "f32" for c in got for t, _ in c.ins):
        types = " and ".join(sorted(sixteen))
        yield f"On a CPU XLA computes {types} as f32 and sends it so: twice the bytes. TPUs and GPUs do not."
    yield from _other_collectives(b, asked)
    yield from _schedule(got)
    yield from b.asked.doubts


def _other_collectives(b: Beside, asked: list) -> Iterator[str]:
    """Other kinds, axes or numbers of collectives than the program names."""
    got = b.made.collectives
    ours, theirs = _by_name(asked), _by_name(got)
    for c in got:
        if c.sliced:
            twice = f"it sends {show.bytes(c.wire)} in place of {show.bytes(c.wire / 2)}."
            yield (
                f"An AllReduce of which each device keeps only its part is a ReduceScatter in two steps: {twice} "
                "XLA's partitioner on a CPU knows no other; psum_scatter in shard_map stays a ReduceScatter."
                if b.made.target == "cpu"
                else f"Of one AllReduce each device keeps only its part, as after a ReduceScatter: {twice}"
            )
        if len(c.outs) > 1:
            yield f"XLA sends {len(c.outs)} arrays in one {c.kind}: one latency in place of {len(c.outs)}."
        if c.axes is None:
            yield f"A {c.kind} runs in groups of {c.n} that are not along whole axes of the mesh."
        if c.times is None:
            yield "XLA's text does not say how often a loop runs: what it sends is counted once."
    yield from (_ring(steps) for n, steps in theirs.items() if n.startswith("Permute") and n not in ours)
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


def _ring(steps: list[Made]) -> str:
    """On permutes that nobody asked for."""
    axes, runs = steps[0].axes, sum(c.times or 1 for c in steps)
    if len(axes) == 1 and any(c.behind for c in steps):
        return (
            f"{runs} Permutes over {axes[0]} with parts of a matmul between them: a collective matmul, "
            "a gather or a scatter cut into steps that hide behind the arithmetic."
        )
    return f"XLA chose a way of its own through the mesh, with {runs} Permute{'s' * (runs != 1)} over {''.join(axes)}."


def _schedule(got: tuple[Made, ...]) -> Iterator[str]:
    """What runs while something is sent."""
    if split := [c for c in got if c.behind is not None]:
        busy = sum(bool(c.behind) for c in split)
        yield (
            f"{len(split)} of {len(got)} collectives are asynchronous, a start and an end; "
            f"matmuls run meanwhile in {busy} of them."
        )
    if pieces := [c for c in got if c.pieces > 1]:
        yield f"{len(pieces)} of them travel in pieces, each beside a piece of a matmul in one fusion."


# -- FLOPs and bytes


@dataclass(frozen=True)
class Compiled:
    """XLA's cost analysis of one compiled program: per device, loop bodies once. None where XLA says nothing."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    devices: int
    platform: str


@dataclass(frozen=True, repr=False)
class Comparison(show.Table):
    """Our count beside XLA's, with the two steps between them and a sentence for each difference.

    ours         the count of the whole program
    bodies_once  our FLOPs if every loop body ran once
    per_device   that, on one device: what XLA's figure should be near
    xla          XLA's cost analysis
    reasons      why they differ; empty if FLOPs agree within 3 % and nothing hides a difference
    """

    ours: Count
    bodies_once: float
    per_device: float
    xla: Compiled
    reasons: tuple[str, ...] = ()
    right = True

    @property
    def head(self) -> tuple[str, ...]:
        return "", "ours", f"XLA ({self.xla.platform})"

    @property
    def ratio(self) -> float | None:
        """XLA's FLOPs over ours with loop bodies once, on one device; None if either is missing or 0."""
        return self.xla.flops / self.per_device if self.per_device and self.xla.flops is not None else None

    def rows(self) -> list[tuple[str, ...]]:
        """(what, ours, XLA's) line by line."""
        ours, theirs = self.ours, self.xla
        rows = [("FLOPs, whole program", ours.flops, None)]
        if self.bodies_once != ours.flops:
            rows.append(("FLOPs, loop bodies once", self.bodies_once, None))
        if theirs.devices > 1:
            rows.append(("FLOPs, one device", self.per_device, None))
        rows[-1] = (*rows[-1][:2], theirs.flops)
        rows += [
            ("of these transcendental (XLA: besides)", ours.transcendentals, theirs.transcendentals),
            ("bytes, nothing fused", ours.bytes, None),
            ("bytes, as XLA fused it", None, theirs.bytes),
            ("bytes, arguments and results only", ours.io_bytes, None),
        ]
        return [(what, *("" if n is None else f"{n:,.0f}" for n in numbers)) for what, *numbers in rows]


def xla(f: Callable, *args) -> Compiled:
    """Compile `f(*args)` for this machine and return XLA's own figures; nothing is run.

    args  arrays or `jax.ShapeDtypeStruct`s
    """
    compiled = (f if hasattr(f, "lower") else jax.jit(f)).lower(*args).compile()
    costs = compiled.cost_analysis() or {}
    costs = costs[0] if isinstance(costs, (list, tuple)) else costs  # some versions give a list with one entry
    none = 0.0 if "flops" in costs or "bytes accessed" in costs else None  # with bytes but no FLOPs, XLA means 0

    def cost(key: str, missing: float | None = none) -> float | None:
        value = costs.get(key, missing)
        return None if value is None or value < 0 else float(value)  # XLA writes -1 for "unknown"

    devices = {d for s in jax.tree.leaves((compiled.input_shardings, compiled.output_shardings)) for d in s.device_set}
    return Compiled(
        flops=cost("flops"),
        transcendentals=cost("transcendentals"),
        bytes=cost("bytes accessed", None),
        devices=max(1, len(devices)),
        platform=next(iter(devices)).platform if devices else jax.default_backend(),
    )


def compare(f: Callable, *args) -> Comparison:
    """Our count of `f(*args)` beside XLA's, as a table with the reasons for every difference.

    args  arrays or `jax.ShapeDtypeStruct`s
    """
    ours, theirs = count(f, *args), xla(f, *args)
    visits = [v for v in walk(jax.make_jaxpr(f)(*args)) if not v.opens]
    once = sum(v.devices * flops(v.eqn) for v in visits if v.loops)
    # Outside shard_map shapes are those of the whole array; XLA's partitioner shares such work among its devices.
    here = sum(flops(v.eqn) * v.devices / max(v.devices, theirs.devices) for v in visits if v.loops)
    draft = Comparison(ours, once, here, theirs)
    return Comparison(ours, once, here, theirs, tuple(_why_counted(draft, visits)))


def _why_counted(c: Comparison, visits: list) -> Iterator[str]:
    types = {str(getattr(x.aval, "dtype", "")) for v in visits for x in (*v.eqn.invars, *v.eqn.outvars)}
    if trips := sorted({v.loops for v in visits if v.loops > 1}):
        yield f"XLA counts the body of a loop once; it runs {' or '.join(f'{t:,}' for t in trips)} times."
    if c.xla.devices > 1:
        yield f"XLA counts what one device does; there are {c.xla.devices}."
    if c.xla.flops is None:
        yield "XLA gives no FLOPs for this machine."
    elif c.ratio is None or abs(c.ratio - 1) > CLOSE:
        yield from _other_flops(c, {v.name for v in visits}, types)
    if c.xla.bytes is not None:
        yield "XLA's bytes depend on what it fused and differ between versions: look at them, build nothing on them."
    if c.xla.platform == "cpu" and types & {"bfloat16", "float16"}:
        yield "On a CPU, XLA may compute 16-bit floats as 32-bit ones: more bytes, and FLOPs for the conversions."
    yield from c.ours.doubts


def _other_flops(c: Comparison, names: set[str], types: set[str]) -> Iterator[str]:
    if c.ours.transcendentals:
        yield "XLA counts exp, log, tanh and the like apart from FLOPs; here they are 1 FLOP each."
    if names & COUNTED_BY_XLA or any(t.startswith(("int", "uint")) for t in types):
        yield "XLA counts comparing, selecting, converting and integer arithmetic as FLOPs; here they are 0."
    if "pallas_call" in names:
        yield "XLA knows the FLOPs of a Pallas kernel only if its author states them (cost_estimate)."
    if c.ratio is not None and c.ratio < 1:
        yield "XLA simplifies before it counts: repeated and unused work is gone."
    elif c.ratio is not None:
        yield "XLA counts what it compiled: rewritten, repeated or padded work is included."
