"""Reads the programs of one submission in a process that has nothing to lose: their bytes meet a parser written in C++.

It is forked for a submission from one that never saw a check, has walls of its own, and hands on plain data. Whatever a
program does to it costs its sender the program, and nobody else anything.
"""

import dataclasses
import io
import math
import re
import socket
from collections.abc import Callable, Iterator

import jax
import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.interpreters.mlir import make_ir_context

from helpers.check.traced_program import said_by, waits

from . import one_function_rule, plain_program, wire
from .jax_internals import module_bytes
from .program_data import Unsupported, functions, typed

BYTECODE = b"ML\xefR"  # how it begins; texts are nested as deep as one likes, and the parser follows
LARGEST = 8_000_000  # bytes
SAFE_CALLS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "shape_assertion"}
"""Custom calls that touch nothing but their operands; any other could call into the memory of who runs it."""
DIALECTS = {"builtin", "func", "stablehlo", "chlo", "sdy"}


CONTEXT = make_ir_context()  # made once, before any fork: it takes longer than a program


def serve(sock: socket.socket, limits: dict) -> None:
    """Answer the checker until the socket closes."""
    reader = Reader()
    while True:
        try:
            wire.send(sock, reader.reply(wire.receive(sock)))
        except wire.Closed:
            return


class Reader:
    """The programs of one submission, by number."""

    def __init__(self):
        self.held = {}

    def reply(self, request: dict) -> dict:
        """What a request gives, or the sentence why it gives nothing."""
        try:
            with CONTEXT:
                return getattr(self, request.pop("op"))(**request)
        except ValueError as e:
            return {"refused": str(e)}
        except Exception as e:
            return {"refused": f"the program cannot be read ({type(e).__name__})"}

    def read(self, number: int, program: bytes, asked: dict | None) -> dict:
        """What a program takes, makes and sends; its number stays its own, for what is asked of it later.

        asked  axes, ins, out and args, if it has to be one function on all devices of a mesh; else nobody counts what it sends
        """
        module = _read(program, ir.Module.parse)
        devices = _devices(module)
        found = {"devices": devices, "results": _results(module)}
        if asked:
            one_function_rule.must_be_cut(module, **asked)
            found["told"] = said_by(module, devices, asked["axes"])
        self.held[number] = module, asked
        return found

    def blocks(self, number: int) -> dict:
        """A program as plain data: half of them, the large ones, are only counted."""
        try:
            return {"blocks": plain_program.written(functions(self.held[number][0]))}
        except Unsupported as e:
            return {"unsupported": str(e)}

    def waits(self, number: int) -> dict:
        """For each product of a program, how many permutes it waits for."""
        module, asked = self.held[number]
        return {"waits": waits(module, math.prod(asked["axes"].values()))}

    def run(self, number: int, whole: bytes, arrays: list[np.ndarray]) -> dict:
        """What each device holds of a program's result, by JAX.

        whole  what its sender says around it; the operations are those that were looked into
        """
        (module, asked), around = self.held[number], []

        def deserialized(blob):
            around.append(jax.export.deserialize(bytearray(blob)))
            if bytes(around[0].mlir_module_serialized[:4]) != BYTECODE:
                raise ValueError("no bytecode")
            return around[0].mlir_module(serialized=False)

        _read(whole, deserialized, begins=b"")
        exported = dataclasses.replace(around[0], mlir_module_serialized=module_bytes(module))
        try:
            return {"held": _run(exported, arrays, **asked)}
        except Exception as e:  # its text holds names that the sender chose
            raise ValueError(f"JAX cannot run the program ({type(e).__name__})") from None


def _run(exported, arrays: list[np.ndarray], axes: dict, ins: list, out, args: list) -> list[np.ndarray]:
    """What each device of the mesh holds of the program's result for these whole arguments."""
    mesh = jax.make_mesh(
        tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
        devices=jax.devices()[: math.prod(axes.values())],
    )  # fmt: skip
    placed = [jax.device_put(a, jax.NamedSharding(mesh, spec)) for a, spec in zip(arrays, ins, strict=True)]
    made = jax.jit(exported.call, out_shardings=jax.NamedSharding(mesh, out))(*placed)
    held = {shard.device: np.asarray(shard.data) for shard in made.addressable_shards}
    return [held[device] for device in mesh.devices.flat]


def warm() -> None:
    """Read a program before any fork: the first one takes ten times as long as the next."""
    text = "func.func public @main(%0: tensor<2xf32>) -> tensor<2xf32> { return %0 : tensor<2xf32> }"
    counted = "{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}"
    program = io.BytesIO()
    with CONTEXT:
        ir.Module.parse(f"module @warm attributes {counted} {{ {text} }}").operation.write_bytecode(program)
        reader = Reader()
        reader.read(0, program.getvalue(), None)
        reader.blocks(0)


def _read(blob, parse: Callable, begins: bytes = BYTECODE):
    """The module in some bytes, if it is plain arithmetic."""
    if not isinstance(blob, bytes) or len(blob) > LARGEST:
        raise ValueError("the program is larger than 8 MB")
    if not blob.startswith(begins):
        raise ValueError("the program cannot be read: it is no bytecode")
    try:
        module = parse(blob)
    except Exception as e:
        raise ValueError(f"the program cannot be read ({type(e).__name__})") from None
    if odd := next(_odd(module.operation), None):
        if "callback" in odd:
            raise ValueError("a program that calls back into Python cannot be exported")
        name = odd if re.fullmatch(r"lapack_\w{4,12}", odd) else "an operation"  # who sends it chooses the name
        raise ValueError(f"a check cannot carry out {name} of the program: it is no plain arithmetic")
    return module


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


def _results(module) -> list[jax.ShapeDtypeStruct]:
    main = next(o for o in module.body.operations if str(o.attributes["sym_name"]) == '"main"')
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    return [jax.ShapeDtypeStruct(*typed(r)) for r in results]


def _devices(module) -> int:
    of = module.operation.attributes
    return math.prod(ir.IntegerAttr(of[f"mhlo.num_{n}"]).value for n in ("partitions", "replicas"))
