"""One walk over a jaxpr, through everything that contains another jaxpr.

All that is counted about a program is a sum over this walk, so each quantity is one function of one equation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from .equation_costs import flops, is_literal

# Primitives that run the one jaxpr they hold exactly once, and the parameter that holds it.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",  # what JAX 0.12 calls a closed_call
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "composite": "jaxpr",
}


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


def walk(jaxpr, around: Visit | None = None, choose: Callable | None = None) -> Iterator[Visit]:
    """Every equation that the program needs, with its multipliers; containers before their contents.

    jaxpr   a Jaxpr or ClosedJaxpr, as from `jax.make_jaxpr(f)(*args)`
    around  where that jaxpr stands; leave it out for a whole program
    choose  (branches of a `cond`, its Visit) -> the one branch to visit; without it, the one with the most FLOPs

    Equations whose results nobody uses are left out, as the compiler leaves them out.
    """
    around, choose = around or Visit(None), choose or largest
    for eqn in needed(open_jaxpr(jaxpr)):
        here = replace(around, eqn=eqn, opens=False, trips=1)
        name = here.name
        if name in CALLS:
            yield replace(here, opens=True)
            label = f"{name} {eqn.params['name']}" if eqn.params.get("name") else name
            yield from walk(eqn.params[CALLS[name]], _inside(here, label), choose)
        elif name == "scan":
            n = eqn.params["length"]
            yield replace(here, opens=True, trips=n)
            yield from walk(eqn.params["jaxpr"], _inside(here, f"scan x{n}", loops=n), choose)
        elif name == "while":
            yield from _while(here, choose)
        elif name == "cond":
            yield replace(here, opens=True)
            yield from walk(choose(eqn.params["branches"], here), _inside(here, "cond"), choose)
        elif name == "shard_map":
            yield replace(here, opens=True)
            yield from walk(eqn.params["jaxpr"], _inside(here, "shard_map", axes=manual_axes(eqn)), choose)
        else:
            yield here


def _inside(here: Visit, label: str, loops: int = 1, axes: dict[str, int] | None = None) -> Visit:
    axes = axes or {}
    return replace(
        here,
        loops=here.loops * loops,
        devices=here.devices * prod(axes.values()),
        axes={**here.axes, **axes},
        path=(*here.path, label),
    )


def _while(here: Visit, choose: Callable) -> Iterator[Visit]:
    eqn, n = here.eqn, while_trips(here.eqn)
    yield replace(here, opens=True, trips=n)
    label = "while x?" if n is None else f"while x{n}"
    tests = 1 if n is None else n + 1
    yield from walk(eqn.params["cond_jaxpr"], _inside(here, label, loops=tests), choose)
    yield from walk(eqn.params["body_jaxpr"], _inside(here, label, loops=1 if n is None else n), choose)


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


def largest(branches, here: Visit | None = None):
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


def while_trips(eqn) -> int | None:
    """How often a `while` runs if it only counts up, `i < limit` and `i + step` with whole numbers that stand there."""
    test, body = open_jaxpr(eqn.params["cond_jaxpr"]), open_jaxpr(eqn.params["body_jaxpr"])
    if len(test.eqns) != 1 or test.eqns[0].primitive.name != "lt" or any(has_effect(e) for e in body.eqns):
        return None
    counter, limit = (_carried(v, eqn) for v in test.eqns[0].invars)
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
