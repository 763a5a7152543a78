"""What XLA says that it made of a program, beside our own count, and why the two differ.

XLA's figures come from the program after optimisation, and its documentation promises nothing about them:
  * a loop's body is counted once, however often it runs;
  * everything is per device;
  * bytes depend on which operations were fused, and change from version to version;
  * on a CPU, bf16 work may be done in f32, with conversions of its own;
  * exp, log, tanh ... are no FLOPs but "transcendentals", while comparing, selecting and converting are;
  * a custom call (a Pallas kernel) has no FLOPs unless its author states them.
So never grade by them; show them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import jax

from helpers.trace.jaxpr.equation_costs import flops
from helpers.trace.jaxpr.flops_and_bytes import Count, count
from helpers.trace.jaxpr.walk import walk

CLOSE = 0.03  # two figures that differ by less are called the same


@dataclass(frozen=True)
class Compiled:
    """XLA's cost analysis of one compiled program: per device, loop bodies once. None where XLA says nothing."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    devices: int
    platform: str


@dataclass(frozen=True)
class Comparison:
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
    reasons: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """XLA's FLOPs over ours with loop bodies once, on one device; None if either is missing or 0."""
        return self.xla.flops / self.per_device if self.per_device and self.xla.flops is not None else None

    def rows(self) -> list[tuple[str, float | None, float | None]]:
        """(what, ours, XLA's) line by line."""
        rows = [("FLOPs, whole program", self.ours.flops, None)]
        if self.bodies_once != self.ours.flops:
            rows.append(("FLOPs, loop bodies once", self.bodies_once, None))
        if self.xla.devices > 1:
            rows.append(("FLOPs, one device", self.per_device, None))
        rows[-1] = (*rows[-1][:2], self.xla.flops)
        rows.append(("of these transcendental (XLA: besides)", self.ours.transcendentals, self.xla.transcendentals))
        rows.append(("bytes, nothing fused", self.ours.bytes, None))
        rows.append(("bytes, as XLA fused it", None, self.xla.bytes))
        rows.append(("bytes, arguments and results only", self.ours.io_bytes, None))
        return rows

    def __str__(self) -> str:
        rows = [("", "ours", f"XLA ({self.xla.platform})")]
        rows += [(what, _number(a), _number(b)) for what, a, b in self.rows()]
        wide = [max(len(r[i]) for r in rows) for i in range(3)]
        table = [f"{r[0]:{wide[0]}}  {r[1]:>{wide[1]}}  {r[2]:>{wide[2]}}".rstrip() for r in rows]
        return "\n".join(table + [f"* {r}" for r in self.reasons])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = f'<tr><td></td><th scope="col">ours</th><th scope="col">XLA ({escape(self.xla.platform)})</th></tr>'
        body = "".join(
            f'<tr><th scope="row">{escape(what)}</th><td>{_number(a)}</td><td>{_number(b)}</td></tr>'
            for what, a, b in self.rows()
        )
        why = "".join(f"<li>{escape(r)}</li>" for r in self.reasons)
        return f'<table class="table">{head}{body}</table>' + (f"<ul>{why}</ul>" if why else "")


def xla(f: Callable, *args) -> Compiled:
    """Compile `f(*args)` for this machine and return XLA's own figures; nothing is run.

    args  arrays or `jax.ShapeDtypeStruct`s
    """
    compiled = (f if hasattr(f, "lower") else jax.jit(f)).lower(*args).compile()
    said = compiled.cost_analysis() or {}
    said = said[0] if isinstance(said, (list, tuple)) else said  # some versions give a list with one entry
    has_flops = "flops" in said or "bytes accessed" in said  # with bytes but no FLOPs, XLA means 0
    devices = {d for s in jax.tree.leaves((compiled.input_shardings, compiled.output_shardings)) for d in s.device_set}
    return Compiled(
        flops=_said(said, "flops", 0.0 if has_flops else None),
        transcendentals=_said(said, "transcendentals", 0.0 if has_flops else None),
        bytes=_said(said, "bytes accessed", None),
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
    types = {str(getattr(x.aval, "dtype", "")) for v in visits for x in (*v.eqn.invars, *v.eqn.outvars)}
    draft = Comparison(ours, once, here, theirs, ())
    return Comparison(ours, once, here, theirs, tuple(_reasons(draft, visits, types)))


def _reasons(c: Comparison, visits, types):
    trips = sorted({v.loops for v in visits if v.loops > 1})
    if trips:
        yield f"XLA counts the body of a loop once; it runs {' or '.join(f'{t:,}' for t in trips)} times."
    if c.xla.devices > 1:
        yield f"XLA counts what one device does; there are {c.xla.devices}."
    if c.xla.flops is None:
        yield "XLA gives no FLOPs for this machine."
    elif c.ratio is None or abs(c.ratio - 1) > CLOSE:
        yield from _flop_reasons(c, visits, types)
    if c.xla.bytes is not None:
        yield "XLA's bytes depend on what it fused and differ between versions: look at them, build nothing on them."
    if c.xla.platform == "cpu" and types & {"bfloat16", "float16"}:
        yield "On a CPU, XLA may compute 16-bit floats as 32-bit ones: more bytes, and FLOPs for the conversions."
    yield from c.ours.doubts


def _flop_reasons(c: Comparison, visits, types):
    names = {v.name for v in visits}
    if c.ours.transcendentals:
        yield "XLA counts exp, log, tanh and the like apart from FLOPs; here they are 1 FLOP each."
    if names & _XLA_COUNTS or any(t.startswith(("int", "uint")) for t in types):
        yield "XLA counts comparing, selecting, converting and integer arithmetic as FLOPs; here they are 0."
    if "pallas_call" in names:
        yield "XLA knows the FLOPs of a Pallas kernel only if its author states them (cost_estimate)."
    if c.ratio is not None and c.ratio < 1:
        yield "XLA simplifies before it counts: repeated and unused work is gone."
    elif c.ratio is not None:
        yield "XLA counts what it compiled: rewritten, repeated or padded work is included."


def _said(said, key: str, missing: float | None) -> float | None:
    value = said.get(key, missing)
    return None if value is None or value < 0 else float(value)  # XLA writes -1 for "unknown"


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:,.0f}"


_XLA_COUNTS = frozenset(
    "eq ne lt le gt ge select_n convert_element_type is_finite and or xor not argmax argmin".split()
)
