"""A program that a child exported, as the checker takes it: read with suspicion, looked into, run.

In a check it stands for the `jax.export.Exported` that it was.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import jax
import jax.export
import numpy as np
from jax._src.export._export import _module_to_bytecode  # no public way to write a module as `jax.export` does
from jax.extend.mlir import ir

from . import one_function_rule
from .numpy_devices import Machine
from .program_data import Block, Unsupported, cuts, functions, outline, typed

SAFE_CALLS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "shape_assertion"}
"""Custom calls that touch nothing but their operands; any other could call into the checker's own memory."""

LARGEST = 8_000_000  # bytes
DIALECTS = {"builtin", "func", "stablehlo", "chlo", "sdy"}


class Imported:
    """A program; `ValueError` in a sentence if it cannot be read, or if something in it could reach beyond its operands.

    link   to the child that it came from
    whole  asks that child for the program as `jax.export` writes it
    """

    def __init__(self, blob, link, whole: Callable[[], object] | None = None):
        self.context, self.link, self.whole = link.context, link, whole
        with self.context:
            self.module = _read(blob, ir.Module.parse)
            try:
                self.out_avals, self.nr_devices = _results(self.module), _devices(self.module)
            except (LookupError, TypeError, StopIteration) as e:
                raise ValueError(f"the program cannot be read ({type(e).__name__})") from None

    @contextmanager
    def opened(self) -> Iterator:
        """The module, in its context."""
        with self.context:
            yield self.module

    @cached_property
    def functions(self) -> dict[str, Block]:
        with self.opened() as module:
            return functions(module)

    def must_be_cut(self, axes: dict[str, int], ins: list, out, args: list) -> None:
        """Refuse a program that is not one function on all devices of a mesh, or whose arrays are not cut as these specs say.

        axes  names and sizes of the mesh
        args  shapes and types of what it is given
        """
        with self.opened() as module:
            one_function_rule.must_be_alone(module, axes)
            main = outline(module)
        inner = [op for op in main.ops if op.kind == "sdy.manual_computation"]
        at = dict(zip(main.arguments, map(plain, ins), strict=True))
        if (
            len(inner) != 1
            or inner[0].gives != main.ends
            or any(i in at for op in main.ops if op is not inner[0] for i in op.takes)
        ):
            raise ValueError("the program is not one function on all devices")
        given = zip(inner[0].takes, cuts(inner[0].of["in_shardings"]), strict=True)
        made = cuts(inner[0].of["out_shardings"])
        if any(i in at and _short(how) != at[i] for i, how in given) or any(_short(how) != plain(out) for how in made):
            raise ValueError("the program does not cut its arrays as was asked")
        with self.opened() as module:
            one_function_rule.must_be_manual(module, axes, args)

    def run(self, arrays: list[jax.Array], sharding: jax.NamedSharding) -> jax.Array:
        """Its one result for whole arguments, held by the devices of a mesh as `sharding` says."""
        try:
            held = self._held(arrays, sharding)
        except Unsupported:
            return jax.jit(self._exported().call, out_shardings=sharding)(*arrays)
        shape = self.out_avals[0].shape
        placed = jax.device_put(held, list(sharding.mesh.devices.flat))
        return jax.make_array_from_single_device_arrays(shape, sharding, placed)

    def _held(self, arrays, sharding) -> list[np.ndarray]:
        axes = dict(zip(sharding.mesh.axis_names, sharding.mesh.devices.shape))
        held = Machine(self.functions, axes, self.link.deadline).run([np.asarray(a) for a in arrays])
        if any(h.shape != sharding.shard_shape(self.out_avals[0].shape) for h in held):
            raise Unsupported("a check cannot look into a program with such a result")
        return held

    def _exported(self) -> jax.export.Exported:
        """This program for JAX to call: what the child says around it, and the operations that were looked into."""
        with self.context:
            around = []

            def deserialized(blob):
                around.append(jax.export.deserialize(bytearray(blob)))
                return around[0].mlir_module(serialized=False)

            _read(self.whole(), deserialized)
            return dataclasses.replace(around[0], mlir_module_serialized=_module_to_bytecode(self.module))


def _read(blob, parse: Callable):
    """The module in some bytes, if it is plain arithmetic."""
    if not isinstance(blob, bytes) or len(blob) > LARGEST:
        raise ValueError("the program is larger than 8 MB")
    try:
        module = parse(blob)
    except Exception as e:
        raise ValueError(f"the program cannot be read ({type(e).__name__})") from None
    if odd := next(_odd(module.operation), None):
        if "callback" in odd:
            raise ValueError("a program that calls back into Python cannot be exported")
        raise ValueError(f"a check cannot carry out {odd[:60]} of the program: it is no plain arithmetic")
    return module


def _results(module) -> list[jax.ShapeDtypeStruct]:
    main = next(o for o in module.body.operations if str(o.attributes["sym_name"]) == '"main"')
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    return [jax.ShapeDtypeStruct(*typed(r)) for r in results]


def _devices(module) -> int:
    of = module.operation.attributes
    return math.prod(ir.IntegerAttr(of[f"mhlo.num_{n}"]).value for n in ("partitions", "replicas"))


def plain(spec) -> tuple[tuple[str, ...], ...]:
    """A PartitionSpec as the mesh axes that cut each dimension, without the last ones that nothing cuts.

    >>> plain(jax.P(None, ("X", "Y"), None))
    ((), ('X', 'Y'))
    """
    return _short(tuple((a,) if isinstance(a, str) else tuple(a or ()) for a in spec))


def _short(how: tuple) -> tuple:
    while how and not how[-1]:
        how = how[:-1]
    return how


def _odd(operation) -> Iterator[str]:
    """What in a program is no plain arithmetic: calls into other code, and operations of unknown kinds."""
    for region in operation.regions:
        if len(region.blocks) > 1:
            yield "jumps"
        for block in region.blocks:
            for view in block.operations:
                op = view.operation
                if op.name == "stablehlo.custom_call":
                    target = str(op.attributes["call_target_name"]).strip('"')
                    if target not in SAFE_CALLS:
                        yield target
                elif op.name.partition(".")[0] not in DIALECTS:
                    yield op.name
                yield from _odd(op)
