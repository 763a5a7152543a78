"""A program for several devices, run in step on NumPy arrays: what each device holds, without compiling anything.

A check runs every learner's program once or twice on small arrays, so compiling it costs far more than running it.
What is not known here is left to JAX: `Unsupported` is raised and the program is compiled after all.
"""

import re
import time

import numpy as np

from .numpy_operations import FOLDS, carried_out, function, wide
from .program_data import Block, Endless, Op, Unsupported, cuts, only_operation

MOVES = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute"}


class Machine:
    """Devices of a mesh, numbered with its last axis fastest, and a program's functions."""

    def __init__(self, functions: dict[str, Block], axes: dict[str, int], deadline: float | None):
        self.functions, self.axes, self.deadline = functions, axes, deadline
        self.all = tuple(range(int(np.prod(list(axes.values())))))
        self.known: dict[int, object] = {}

    def run(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """What each device holds of the one result, given whole arguments."""
        main = self.functions["main"]
        values = dict(zip(main.arguments, ({0: a} for a in arrays), strict=True))
        with np.errstate(all="ignore"):
            for op in main.ops:
                if op.kind == "sdy.manual_computation":
                    if op.gives != main.ends or len(op.gives) != 1:
                        break
                    given = [values[i][0] for i in op.takes]
                    blocks = [self.cut(a, how) for a, how in zip(given, cuts(op.of["in_shardings"]), strict=True)]
                    (held,) = self.block(op.blocks[0], blocks, self.all, {})
                    return [held[d] for d in self.all]
                self.step(op, values, (0,))
        raise Unsupported("a check cannot look into a program that is not one function on all devices")

    def cut(self, whole: np.ndarray, how) -> dict[int, np.ndarray]:
        """Each device's block of an array."""
        found = {}
        for device in self.all:
            place = dict(zip(self.axes, np.unravel_index(device, tuple(self.axes.values()))))
            at = []
            for n, names in zip(whole.shape, how):
                i, parts = 0, 1
                for a in names:
                    i, parts = i * self.axes[a] + int(place[a]), parts * self.axes[a]
                at.append(slice(i * (n // parts), (i + 1) * (n // parts)))
            found[device] = whole[tuple(at)]
        return found

    def block(self, block: Block, given: list[dict], devices: tuple[int, ...], around: dict) -> list[dict]:
        """Run operations on these devices; what a block hands on, for each of them."""
        values = around | dict(zip(block.arguments, given, strict=True))
        for op in block.ops:
            self.step(op, values, devices)
        return [values[i] for i in block.ends]

    def step(self, op: Op, values: dict, devices: tuple[int, ...]) -> None:
        if self.deadline is not None and time.process_time() > self.deadline:
            raise Endless
        given = [values[i] for i in op.takes]
        if op.kind in MOVES:
            made = self.move(op, given, devices)
        elif op.kind == "while":
            made = self.loop(op, given, devices, values)
        elif op.kind in ("case", "if"):
            made = self.branch(op, given[0], devices, values)
        elif op.kind in ("func.call", "composite"):
            name = op.of["callee" if op.kind == "func.call" else "decomposition"]
            made = self.block(self.functions[name], given, devices, {})
        elif op.kind in ("partition_id", "replica_id"):
            n = op.kind == "partition_id"
            made = [{d: np.asarray(d * n, op.types[0][1]) for d in devices}]
        elif op.kind == "constant":
            made = [dict.fromkeys(devices, carried_out(op, self.function(op), [])[0])]
        else:
            f = self.function(op)
            each = {d: carried_out(op, f, [g[d] for g in given]) for d in devices}
            made = [{d: x[i] for d, x in each.items()} for i in range(len(op.gives))]
        values.update(zip(op.gives, made, strict=True))

    def function(self, op: Op):
        if id(op) not in self.known:
            self.known[id(op)] = function(op)
        return self.known[id(op)]

    # -- control

    def loop(self, op: Op, state: list[dict], devices, around: dict) -> list[dict]:
        """Each device goes on until its own test fails."""
        test, body = op.blocks
        left = devices
        while True:
            (goes_on,) = self.block(test, state, left, around)
            left = tuple(d for d in left if goes_on[d])
            if not left:
                return state
            made = self.block(body, state, left, around)
            state = [old | {d: new[d] for d in left} for old, new in zip(state, made)]

    def branch(self, op: Op, which: dict, devices, around: dict) -> list[dict]:
        """Each device takes its own way: `if` has the true one first, `case` takes the last for a number out of range."""
        n, chosen = len(op.blocks), {}
        for d in devices:
            i = int(which[d])
            chosen[d] = 1 - i if op.kind == "if" else i if 0 <= i < n else n - 1
        found: list[dict] = [{} for _ in op.gives]
        for i in sorted(set(chosen.values())):
            some = tuple(d for d in devices if chosen[d] == i)
            for old, new in zip(found, self.block(op.blocks[i], [], some, around)):
                old.update({d: new[d] for d in some})
        return found

    # -- collectives

    def move(self, op: Op, given: list[dict], devices) -> list[dict]:
        if set(devices) != set(self.all):
            raise Unsupported("a check cannot look into a program whose devices choose whether to send")
        if op.kind == "collective_permute":
            (held,) = given
            moved = {d: np.zeros_like(held[d]) for d in self.all}
            moved.update({int(b): held[int(a)] for a, b in op.of["source_target_pairs"]})
            return [moved]
        groups = self.groups(op)
        made = [{} for _ in given]
        for held, out in zip(given, made):
            for group in groups:
                out.update(zip(group, MOVED[op.kind](op, [held[d] for d in group])))
        return made

    def groups(self, op: Op) -> list[list[int]]:
        found = op.of["replica_groups"]
        if isinstance(found, str):  # names of mesh axes
            names, sizes = re.findall(r'name = "([^"]*)"', found), self.axes
            if "sub_axis" in found or not set(names) <= set(sizes):
                raise Unsupported("a check cannot look into a program with such groups")
            ids = np.arange(len(self.all)).reshape(list(sizes.values()))
            order = [i for i, a in enumerate(sizes) if a not in names] + [list(sizes).index(a) for a in names]
            found = ids.transpose(order).reshape(-1, int(np.prod([sizes[a] for a in names])))
        if "use_global_device_ids" not in op.of and op.kind != "all_to_all":
            raise Unsupported("a check cannot look into a program with such groups")
        groups = [[int(d) for d in g] for g in found]
        if sorted(d for g in groups for d in g) != list(self.all):
            raise Unsupported("a check cannot look into a program whose devices choose whether to send")
        return groups


def _summed(op: Op, held: list[np.ndarray]) -> np.ndarray:
    fold = FOLDS.get(only_operation(op.blocks[0]))
    if fold is None:
        raise Unsupported("a check cannot look into a program with a reduction of its own")
    return fold.reduce([wide(h) for h in held]).astype(held[0].dtype)


def _all_to_all(op, held):
    parts = [np.split(h, len(held), op.of["split_dimension"]) for h in held]
    return [np.concatenate([p[i] for p in parts], op.of["concat_dimension"]) for i in range(len(held))]


MOVED = {
    "all_reduce": lambda op, held: [_summed(op, held)] * len(held),
    "reduce_scatter": lambda op, held: np.split(_summed(op, held), len(held), op.of["scatter_dimension"]),
    "all_gather": lambda op, held: [np.concatenate(held, op.of["all_gather_dim"])] * len(held),
    "all_to_all": _all_to_all,
}
