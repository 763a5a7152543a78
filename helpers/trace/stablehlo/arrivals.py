"""How long the products of an exported program wait for what is sent: along data, not in the order of its lines."""

from . import blocks
from .collectives import opened

LONGEST = 64  # trips of a loop that are followed


def permutes_before_products(exported) -> list[int]:
    """For each run of a product, how many permutes in sequence it waits for, on the longest way to it.

    A product that takes what has just arrived waits for so many hops; 0 is one that waits for nothing.
    """
    if hasattr(exported, "permutes_before_products"):  # it was read in another process
        return exported.permutes_before_products()
    with opened(exported) as module:
        functions = blocks.functions(module)
        main = blocks.body(functions["main"])
        follower = _Follower(functions)
        follower.block(main, [0] * len(main.arguments), {})
        return follower.found


class _Follower:
    """Carries out a program with numbers of permutes in place of arrays."""

    def __init__(self, functions: dict):
        self.functions, self.found = functions, []

    def block(self, block, given: list[int], around: dict) -> list[int]:
        """What a block hands on; it sees the values around it."""
        known = around | dict(zip(block.arguments, given))
        for op in blocks.needed(block):
            taken = [known.get(v, 0) for v in op.operands]
            made = self.operation(op, taken, known)
            known.update(zip(op.results, made))
        return [known.get(v, 0) for v in blocks.ends(block)]

    def operation(self, op, taken: list[int], known: dict) -> list[int]:
        if op.name == "stablehlo.while":
            trips = blocks.trips(op)
            for _ in range(1 if trips is None else min(trips, LONGEST)):
                taken = self.block(op.regions[1].blocks[0], taken, known)
            return taken
        if op.name in ("stablehlo.case", "stablehlo.if"):
            ways = [self.block(r.blocks[0], [], known) for r in op.regions]
            return [max(way) for way in zip(*ways)]
        if op.name in blocks.CALLS:
            return self.block(blocks.called(op, self.functions), taken, {})
        if op.name == "sdy.manual_computation":
            return self.block(op.regions[0].blocks[0], taken, known)
        latest = max([*taken, *(known.get(v, 0) for v in blocks.operands(op))], default=0)
        if op.name == "stablehlo.dot_general":
            self.found.append(latest)
        return [latest + (op.name == "stablehlo.collective_permute")] * len(op.results)
