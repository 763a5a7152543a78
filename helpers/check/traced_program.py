"""What is asked of a sharded program put together with JAX: mesh, blocks, the program as JAX reads it, whether that for small arguments,
which is run, is the one for large arguments, which is counted, and its complaints.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

import jax
import jax.export

from helpers import trace
from helpers.costs.sharding import sharded_array
from helpers.kernels import mesh as meshes
from helpers.trace.jaxpr.collectives import DeviceProgram, device_program as of_jaxpr
from helpers.trace.jaxpr.equation_costs import LONG, short
from helpers.trace.jaxpr.walk import walk
from helpers.trace.stablehlo.collectives import Held, axis_sizes, device_program, permutes_before_products
from helpers.trace.stablehlo.plain_data import said_by, told_again, waits  # noqa: F401  (the engine reads programs by these)

from .compare import OffLimits, closed
from .raised import Unclear, by_answer, called, sentence, text, undone, unjudged, unnamed
from .random_inputs import secret

NOTATION = str, sharded_array.Sharding
WHY = "does an if look at a size, or does something count the calls?"
HOSTS = frozenset("pure_callback io_callback".split())
"""Ways to ask the host, over which devices could exchange anything uncounted."""


class Setting:
    """A mesh, how arguments and result are cut over it, and their shapes."""

    def __init__(self, mesh, ins, out, shapes, sizes: Mapping[str, int], dtype):
        self.mesh = meshes.mesh(tuple(mesh.values()), tuple(mesh)) if isinstance(mesh, Mapping) else mesh
        self.ins, self.out, self.sizes, self.shapes = list(ins), out, sizes, shapes
        self.stacked = isinstance(out, NOTATION) and bool(sharded_array.parse(out).unreduced)
        self.types = [dtype] * len(self.ins) if isinstance(dtype, str) else list(dtype)
        self.widest = max(self.types, key=sharded_array.bytes_each, default="")
        for how in (*self.ins, out):
            if how is None or how is Ellipsis:
                raise NotImplementedError
            if not isinstance(how, (*NOTATION, jax.sharding.PartitionSpec)):
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


@dataclass(frozen=True)
class Reading(DeviceProgram):
    """A program as exported, or as its jaxpr where JAX cannot export it.

    out      its results
    program  as exported; None where its jaxpr was read
    """

    out: Sequence
    mesh: jax.sharding.Mesh
    program: object = None

    def waits(self) -> list[int]:
        """For each product how many permutes in sequence it waits for; none is known where JAX cannot export."""
        known = self.program is not None and self.program.nr_devices == self.mesh.size
        return permutes_before_products(self.program) if known else []


def reading(program, args: Sequence[jax.ShapeDtypeStruct], mesh) -> Reading:
    """What a program says of itself, one that was exported in another process, too."""
    if hasattr(program, "nr_devices"):
        return _exported(program, mesh)
    with closed():
        try:
            read, program = _exported, jax.export.export(program)(*args)
        except Exception:  # either the program is wrong, which the jaxpr tells as well, or export cannot carry it
            read, program = _written, jax.make_jaxpr(program)(*args)
    return read(program, mesh)


def reading_like(model_reading: Reading, traced, lowered) -> Reading:
    """Another tracing of the program, read in the same way, so that the two can be compared."""
    if model_reading.program is None:
        return _written(traced.jaxpr, model_reading.mesh)
    hostless(traced.jaxpr)
    held = Held(lowered.compiler_ir("stablehlo"), model_reading.mesh.size, traced.jaxpr.out_avals)
    return _exported(held, model_reading.mesh)


def _exported(program, mesh) -> Reading:
    nothing = program.nr_devices != mesh.size  # 1 if nothing of it is needed
    says = DeviceProgram(trace.Sent(), 0, [], 0, 0) if nothing else device_program(program, mesh)
    return Reading(**vars(says), out=program.out_avals, mesh=mesh, program=program)


def _written(jaxpr, mesh) -> Reading:
    hostless(jaxpr)
    return Reading(**vars(of_jaxpr(jaxpr)), out=jaxpr.out_avals, mesh=mesh)


def hostless(jaxpr) -> None:
    """A complaint if devices could talk past the mesh."""
    if any(v.name in HOSTS for v in walk(jaxpr)):
        raise Unclear("devices send by collectives, so do without callbacks: the host is no part of the mesh")


class Shrinking:
    """How dimensions become smaller from large arguments to small ones.

    One may shrink as one of theirs does, as a product of some, or as the sum of parts of two; what is padded or halved may be
    off by less than one. One that stays as it is counts devices, twice at most, as in a roll by a place on the mesh.

    >>> from jax import ShapeDtypeStruct as S
    >>> s = Shrinking([S((4096, 8000), "float32")], [S((24, 120), "float32")], devices=4)
    >>> s(2000, 30), s(4095, 23), s(4, 4), s(2000 * 4096, 30 * 24), s(4096 + 2000, 24 + 30)
    (True, True, True, True, True)
    >>> s(2000, 120), s(1, 24), s(30, 30), s(1, 720)
    (False, False, False, False)
    """

    def __init__(self, large_shapes, small_shapes, devices: int):
        pairs: Counter = Counter()
        for a, b in zip(large_shapes, small_shapes):
            pairs |= Counter((n, m) for n, m in zip(a.shape, b.shape) if n)
        self.pairs, self.devices = sorted(pairs), devices
        self.ratios: set[Fraction] = set()
        for n, m in pairs.elements():
            self.ratios |= {Fraction(m, n), *(r * Fraction(m, n) for r in self.ratios)}
        self.parts = {Fraction(k, n) for k, n in product(range(1, devices + 1), repeat=2)}
        self.known: dict[tuple[int, int], bool] = {}

    def __call__(self, large_size: int, small_size: int) -> bool:
        if (large_size, small_size) not in self.known:
            self.known[large_size, small_size] = self._shrinks(large_size, small_size)
        return self.known[large_size, small_size]

    def _shrinks(self, large_size: int, small_size: int) -> bool:
        counts_devices = large_size == small_size <= 2 * self.devices
        if counts_devices or any(abs(small_size - large_size * r) < 1 for r in self.ratios):
            return True
        for (n, m), (k, j), a in product(self.pairs, self.pairs, self.parts):
            b = (large_size - a * n) / k
            if b in self.parts and small_size == a * m + b * j:
                return True
        return False

    def shapes(self, large_shape: tuple[int, ...], small_shape: tuple[int, ...]) -> bool:
        return len(large_shape) == len(small_shape) and all(map(self, large_shape, small_shape))


def unlike(large_reading: Reading, small_reading: Reading, shrinks: Shrinking, is_compared: bool) -> str | None:
    """A sentence on the first thing in which the program for small arguments, which is run, is not the one that is counted.

    What stands at the same place in both must be the same up to the sizes.

    is_compared  compare all arrays that they make as well
    """
    if small_reading.sent.doubts:
        doubt = small_reading.sent.doubts[0]
        return f"what is sent must not depend on the sizes: for small blocks it cannot be counted. {doubt}"
    kinds = [trace.merged(r.sent).kinds for r in (large_reading, small_reading)]
    if kinds[0] != kinds[1]:
        a, b = (str(k) if k else "nothing" for k in kinds)
        return f"what is sent must not depend on the sizes: for large blocks it is {a}, for small ones {b}; {WHY}"
    sizes = axis_sizes(small_reading.mesh)
    for a, b in zip(large_reading.sent, small_reading.sent):
        plain = [(c.kind, [x for x in c.axes if sizes[x] > 1], c.dtype, c.times, c.within) for c in (a, b)]
        if plain[0] != plain[1] or not shrinks.shapes(a.shape, b.shape) or not shrinks.shapes(a.out, b.out):
            return f"what is sent must shrink as the blocks do: for large ones it is {a}, for small ones {b}."
    if len(large_reading.sent) != len(small_reading.sent):
        return f"what is sent must not depend on the sizes: for large blocks it is cut into other pieces than for small ones; {WHY}"
    if large_reading.far != small_reading.far:
        return (
            "where something is sent must not depend on the sizes: "
            f"for large blocks no permute goes farther than {large_reading.far}, for small ones {small_reading.far}; {WHY}"
        )
    for (shape, dtype), (other, kind) in zip(large_reading.made, small_reading.made) if is_compared else ():
        if dtype != kind or not shrinks.shapes(shape, other):
            return (
                "what a device holds must shrink as the blocks do: "
                f"for large ones your program makes {dtype}{list(shape)} where for small ones it makes {kind}{list(other)}."
            )
    if is_compared and len(large_reading.made) != len(small_reading.made):
        return (
            "what a device holds must shrink as the blocks do: "
            f"for large ones your program makes {len(large_reading.made)} arrays, for small ones {len(small_reading.made)}."
        )
    return None


def told(error: Exception, name: str, setting: Setting | None) -> str:
    """One sentence for whatever the learner's code raised."""
    said_so = str(error)
    if undone(error) or "ellipsis" in said_so.lower():
        return f"{name} is not done yet."
    if isinstance(error, KeyError) and setting is None:  # while it was asked how its arrays are cut
        return f"the entry {text(error)} is not done yet." if text(error) else "an entry is not done yet."
    # Nothing that a graded answer says is repeated.
    if setting is None and secret() and not isinstance(error, OffLimits):
        return f"the shardings of {name} cannot be read: an axis of the mesh cuts one dimension, once."
    if isinstance(error, (OffLimits, Unclear)):
        return f"{said_so.rstrip('.')}."
    if axis := re.search(r"unbound axis name:? ['\"]?(\w)\b", said_so, re.I):
        return f"{name} names the mesh axis {axis[1]}, and the mesh has {', '.join(setting.mesh.axis_names)}."
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return f"{name} calls NumPy, which wants numbers that are not there yet: use jnp in place of np."
    if isinstance(error, jax.errors.ConcretizationTypeError):
        return (
            f"{name} looks at numbers that are not there yet: a program is the same on every device, so choose by "
            "jnp.where or by lax.axis_index inside an index, not by if."
        )
    if "too long to be compatible with the corresponding output" in said_so:
        return f"{name} returns a block with fewer dimensions than {said(setting.out)} has."
    if "in the same order as the axis_names" in said_so:
        return "ppermute wants its axes in the order of the mesh."
    if not by_answer(error):
        no_permutation = re.search("cannot (both )?send to .* permutation", said_so)  # in the words of `trace`
        return f"a permute of {name} cannot work: {said_so.rstrip('.')}." if no_permutation else unjudged(error)
    blocks = ""
    if setting is None:
        return f"the shardings of {name} cannot be read: {text(error)}".rstrip(":. ") + "."
    if setting:
        try:
            local = [setting.local(a, spec) for a, spec in zip(setting.arrays(setting.sizes), setting.ins)]
            blocks = f" (Each device has {', '.join(f'{short(a.dtype)}{list(a.shape)}' for a in local)}.)"
        except Exception:
            pass
    return f"{sentence(name, error)}.{'' if unnamed(error) else blocks}"


def own(shardings):
    """How arrays are cut, from who says so; names that an answer gives its arrays are left out where numbers are secret."""
    if not callable(shardings):
        return shardings
    found = called(shardings, (), {})
    hide = lambda x: replace(sharded_array.parse(x), name="array") if isinstance(x, NOTATION) and secret() else x  # noqa: E731
    return [hide(x) for x in found] if isinstance(found, list | tuple) else hide(found)


def said(sharding) -> str:
    """How an array is cut, as one writes it."""
    return str(sharding).replace("PartitionSpec", "P")
