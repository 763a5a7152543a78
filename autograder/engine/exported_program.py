"""A program that a child exported, as the checker takes it: plain data of another process, looked into and run.

In a check it stands for the `jax.export.Exported` that it was.
"""

import itertools
import socket
from collections.abc import Callable
from functools import cached_property

import jax
import numpy as np

from . import wire
from .numpy_devices import Machine
from .plain_program import restored
from .program_data import Block, Unsupported


class Unread(ValueError):
    """A program cannot be read, or is too large to be carried out: its sender's fault, and no machine's."""

    ours = True  # its text is not the learner's


class Readers:
    """The process that reads the programs of a submission, forked for its first one, and again if it has ended.

    control  socket of the process that forks it
    """

    def __init__(self, control: socket.socket):
        self.control, self.reader = control, None
        self.numbers = itertools.count()  # of programs, also of those that another reader had

    def ask(self, **request) -> dict:
        """The reply of `program_reader`; `Unread` if the program cannot be read."""
        try:
            if self.reader is None:
                self.reader, theirs = socket.socketpair()
                with theirs:
                    wire.send_with_descriptors(self.control, {"op": "fork"}, [theirs.fileno()])
                wire.receive(self.control)
            wire.send(self.reader, request)
            reply = wire.receive(self.reader)
        except wire.WireError:
            self.end()
            raise Unread("the program cannot be read: it ends the process that reads it") from None
        if "refused" in reply:
            raise Unread(str(reply["refused"])[:300])
        return reply

    def end(self) -> None:
        """Let no other submission meet this one's reader."""
        if self.reader:
            self.reader.close()
        self.reader = None


class Imported:
    """A program; `Unread` if it cannot be read, or if something in it could reach beyond its operands.

    blob   its bytecode
    link   to the child that it came from, which has the readers
    whole  asks that child for the program as `jax.export` writes it
    asked  axes of the mesh, ins, out and args: it has to be one function on all devices, cut as these say
    """

    def __init__(self, blob, link, whole: Callable[[], object] | None = None, asked: dict | None = None):
        self.link, self.whole = link, whole
        self.number = next(link.readers.numbers)
        self.read = self._ask("read", program=blob, asked=asked)
        self.nr_devices, self.out_avals = self.read["devices"], self.read["results"]

    def _ask(self, op: str, **more) -> dict:
        return self.link.readers.ask(op=op, number=self.number, **more)

    @cached_property
    def functions(self) -> dict[str, Block]:
        found = self._ask("blocks")
        if "unsupported" in found:
            raise Unsupported(str(found["unsupported"]))
        return restored(found["blocks"])

    def told(self, sizes: dict[str, int]):
        """What it sends, holds and makes on a mesh of these sizes, as `trace` tells it of a program that is here."""
        from helpers.check.traced_program import told_again  # not before the sandbox has its own `helpers`

        return told_again(self.read["told"], sizes)

    def permutes_before_products(self) -> list[int]:
        """For each product, how many permutes it waits for."""
        return self._ask("waits")["waits"]

    def run(self, arrays: list[jax.Array], sharding: jax.NamedSharding) -> jax.Array:
        """Its one result for whole arguments, held by the devices of a mesh as `sharding` says."""
        whole = [np.asarray(a) for a in arrays]
        try:
            axes = dict(zip(sharding.mesh.axis_names, sharding.mesh.devices.shape))
            held = Machine(self.functions, axes, self.link.deadline).run(whole)
            if any(not self._is_block(h, sharding) for h in held):
                raise Unsupported("a check cannot look into a program with such a result")
        except Unsupported:
            held = self._ask("run", whole=self.whole(), arrays=whole)["held"]
            if len(held) != sharding.mesh.size or any(not self._is_block(h, sharding) for h in held):
                raise Unread("the program's result is none of the arrays that it says") from None
        except MemoryError:  # the arguments are small
            raise Unread("the program makes arrays that do not fit into memory") from None
        placed = jax.device_put(held, list(sharding.mesh.devices.flat))
        return jax.make_array_from_single_device_arrays(self.out_avals[0].shape, sharding, placed)

    def _is_block(self, held, sharding: jax.NamedSharding) -> bool:
        return isinstance(held, np.ndarray) and held.shape == sharding.shard_shape(self.out_avals[0].shape)
