"""What is asked of a sharded program put together with JAX: mesh, blocks, the program as JAX reads it, and its complaints."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import jax
import jax.export
import numpy as np

from helpers import trace
from helpers.costs.sharding import sharded_array
from helpers.kernels import mesh as meshes
from helpers.trace.jaxpr.collectives import largest_result, read, results, short
from helpers.trace.jaxpr.equation_costs import MATMULS, flops
from helpers.trace.jaxpr.walk import walk
from helpers.trace.stablehlo.arrivals import permutes_before_products
from helpers.trace.stablehlo.collectives import Held, axis_sizes, told_by

from .compare import OffLimits, closed
from .raised import Unclear, by_answer, called, raised, text, undone, unjudged, unnamed
from .random_inputs import secret

LONG = {
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "fp4": "float4_e2m1fn",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
NOTATION = str, sharded_array.Sharding
HOSTS = frozenset("pure_callback io_callback".split())
"""Ways to ask the host, over which devices could exchange anything uncounted."""


class Setting:
    """A mesh, how arguments and result are cut over it, and their shapes."""

    def __init__(self, mesh, ins, out, shapes, sizes: Mapping[str, int], dtype):
        self.mesh = meshes.mesh(tuple(mesh.values()), tuple(mesh)) if isinstance(mesh, Mapping) else mesh
        self.ins, self.out, self.sizes, self.shapes = list(ins), out, sizes, shapes
        self.stacked = isinstance(out, str | sharded_array.Sharding) and bool(sharded_array.parse(out).unreduced)
        self.types = [dtype] * len(self.ins) if isinstance(dtype, str) else list(dtype)
        for how in (*self.ins, out):
            if how is None or how is Ellipsis:
                raise NotImplementedError
            if not isinstance(how, str | sharded_array.Sharding | jax.sharding.PartitionSpec):
                raise Unclear(f"arrays are cut by a PartitionSpec such as P('X', None), this is {how!r}")
            axes = [a for a in jax.tree.leaves(tuple(meshes.spec(how))) if a is not None]
            if missing := [a for a in axes if a not in self.mesh.axis_names]:
                has = ", ".join(self.mesh.axis_names)
                raise Unclear(f"{said(how)} names axis {missing[0]}, and the mesh has {has}")
            if twice := [a for a in axes if axes.count(a) > 1]:
                raise Unclear(f"{said(how)} names axis {twice[0]} twice: an axis cuts one dimension, once")
        for how in [] if shapes else [how for how in self.ins if isinstance(how, NOTATION)]:
            if other := [d for d in sharded_array.parse(how).dims if d not in sizes]:
                raise Unclear(f"{said(how)} has a dimension {other[0]}, and the arrays have {', '.join(sizes)}")

    def arrays(self, sizes: Mapping[str, int], shapes=None) -> list[jax.ShapeDtypeStruct]:
        """The arguments, whole; ValueError in a sentence if one cannot be cut as its spec says."""
        shapes = shapes or self.shapes or [sharded_array.parse(a).dims for a in self.ins]
        shapes = [tuple(sizes[d] if isinstance(d, str) else d for d in dims) for dims in shapes]
        out = [jax.ShapeDtypeStruct(s, LONG.get(t, t)) for s, t in zip(shapes, self.types)]
        for a, spec in zip(out, self.ins):
            self.local(a, spec)
        return out

    def local(self, a, spec) -> jax.ShapeDtypeStruct:
        """One device's block of an array."""
        cuts, n = tuple(meshes.spec(spec)), axis_sizes(self.mesh)
        if len(cuts) > len(a.shape):
            raise Unclear(f"{said(spec)} is for {len(cuts)} dimensions, and the array has shape {a.shape}")
        shape = list(a.shape)
        for d, axes in enumerate(cuts):
            by = prod(n[x] for x in ((axes,) if isinstance(axes, str) else axes or ()))
            if shape[d] % by:
                raise Unclear(f"{said(spec)} cuts {shape[d]} numbers into {by} equal parts, which cannot be")
            shape[d] //= by
        return jax.ShapeDtypeStruct(tuple(shape), a.dtype)


class Reading:
    """A program as exported, or as its jaxpr where JAX cannot export it.

    out      its results
    sent     its collectives
    far      how many places its farthest permute goes
    made     shape and type of each array that it makes on one device, in order
    largest  bytes of the largest of these
    flops    of its products on one device; None if they cannot be counted
    """

    def __init__(self, program, args: Sequence[jax.ShapeDtypeStruct], mesh):
        self.mesh = mesh
        if hasattr(program, "nr_devices"):  # it was exported in another process
            return self._exported(program)
        with closed():
            try:
                read, program = self._exported, jax.export.export(program)(*args)
            except Exception:  # either the program is wrong, which the jaxpr tells as well, or export cannot carry it
                read, program = self._written, jax.make_jaxpr(program)(*args)
        read(program)

    @classmethod
    def like(cls, other: "Reading", traced, lowered) -> "Reading":
        """Another tracing of the program, read in the same way, so that the two can be compared."""
        self = cls.__new__(cls)
        self.mesh = other.mesh
        hostless(traced.jaxpr)
        if other.exported:
            self._exported(Held(lowered.compiler_ir("stablehlo"), self.mesh.size, traced.jaxpr.out_avals))
        else:
            self._written(traced.jaxpr)
        return self

    def _exported(self, program) -> None:
        self.exported, self.out, self.program = True, program.out_avals, program
        self.sent, self.far, self.made, self.largest, self.flops = trace.Sent(), 0, [], 0, 0
        if program.nr_devices != self.mesh.size:  # 1 if nothing of it is needed
            return
        says = told_by(program, self.mesh)
        self.sent, self.far, self.made, self.largest = says.sent, says.far, says.made, says.largest
        self.flops = says.flops

    def waits(self) -> list[int]:
        """For each product how many permutes in sequence it waits for; none is known where JAX cannot export."""
        known = self.exported and self.program.nr_devices == self.mesh.size
        return permutes_before_products(self.program) if known else []

    def _written(self, jaxpr) -> None:
        hostless(jaxpr)
        self.exported, self.out = False, jaxpr.out_avals
        self.sent, self.far, self.made, self.largest = read(jaxpr), hops(jaxpr), results(jaxpr), largest_result(jaxpr)
        products = [v for v in walk(jaxpr) if v.name in MATMULS]
        endless = any("while x?" in v.path for v in products)
        self.flops = None if endless else sum(v.loops * flops(v.eqn) for v in products)


def hostless(jaxpr) -> None:
    """A complaint if devices could talk past the mesh."""
    if any(v.name in HOSTS for v in walk(jaxpr)):
        raise Unclear("devices send by collectives, so do without callbacks: the host is no part of the mesh")


def hops(jaxpr) -> int:
    """How many places a program's farthest permute goes, along rings."""
    far = 0
    for v in walk(jaxpr):
        if v.name == "ppermute" and v.axes:
            axes = v.eqn.params["axis_name"]
            shape = [v.axes[a] for a in ((axes,) if isinstance(axes, str) else axes)]
            for pair in v.eqn.params["perm"]:
                start, end = (np.unravel_index(place, shape) for place in pair)
                far = max(far, sum(min((e - s) % n, (s - e) % n) for s, e, n in zip(start, end, shape)))
    return far


def told(e: Exception, name: str, s: Setting | None) -> str:
    """One sentence for whatever the learner's code raised."""
    said_so = str(e)
    if undone(e) or "ellipsis" in said_so.lower():
        return f"{name} is not done yet."
    if isinstance(e, KeyError) and s is None:  # while it was asked how its arrays are cut
        return f"the entry {text(e)} is not done yet." if text(e) else "an entry is not done yet."
    if s is None and secret() and not isinstance(e, OffLimits):  # nothing of what a graded answer says is repeated
        return f"the shardings of {name} cannot be read: an axis of the mesh cuts one dimension, once."
    if isinstance(e, (OffLimits, Unclear)):
        return f"{said_so.rstrip('.')}."
    if axis := re.search(r"unbound axis name:? ['\"]?(\w)\b", said_so, re.I):
        return f"{name} names the mesh axis {axis[1]}, and the mesh has {', '.join(s.mesh.axis_names)}."
    if isinstance(e, jax.errors.TracerArrayConversionError):
        return f"{name} calls NumPy, which wants numbers that are not there yet: use jnp in place of np."
    if isinstance(e, jax.errors.ConcretizationTypeError):
        return (
            f"{name} looks at numbers that are not there yet: a program is the same on every device, so choose by "
            "jnp.where or by lax.axis_index inside an index, not by if."
        )
    if "too long to be compatible with the corresponding output" in said_so:
        return f"{name} returns a block with fewer dimensions than {said(s.out)} has."
    if "in the same order as the axis_names" in said_so:
        return "ppermute wants its axes in the order of the mesh."
    if not by_answer(e):
        return unjudged(e)
    blocks = ""
    if s is None:
        return f"the shardings of {name} cannot be read: {text(e)}".rstrip(":. ") + "."
    if s:
        try:
            local = [s.local(a, spec) for a, spec in zip(s.arrays(s.sizes), s.ins)]
            blocks = f" (Each device has {', '.join(f'{short(a.dtype)}{list(a.shape)}' for a in local)}.)"
        except Exception:
            pass
    return f"{raised(name, e)}.{'' if unnamed(e) else blocks}"


def own(how):
    """How arrays are cut, from who says so; names that an answer gives its arrays are left out where numbers are secret."""
    if not callable(how):
        return how
    found = called(how, (), {})
    hide = lambda x: replace(sharded_array.parse(x), name="array") if isinstance(x, NOTATION) and secret() else x  # noqa: E731
    return [hide(x) for x in found] if isinstance(found, list | tuple) else hide(found)


def said(how) -> str:
    """How an array is cut, as one writes it."""
    return str(how).replace("PartitionSpec", "P")
