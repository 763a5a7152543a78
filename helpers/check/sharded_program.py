"""What a sharded program is told: what it sends, what it holds, and whether its result is right.

    a = check.Program(
        block, points=4, mesh={"X": 4, "Y": 2}, in_specs=["A[I_X, J]", "B[J, K_Y]"], out_specs="C[I_X, K_Y]",
        sizes=dict(I=1024, J=8192, K=4096),
    )
    a.wrong("who needs the whole result?", AllReduce=1)
    a.sends(AllGather=1, ReduceScatter=1)
    a.fits(300e6)
    a.equals(lambda A, B: A @ B, I=check.ints(8, 64, 8), J=check.ints(8, 64, 8), K=check.ints(8, 64, 8))
    check.report("2.7", a)

The answer is the function of one device. It is never called by hand: JAX exports the program made of it, and the
exported program is read. Sizes as large as in life are traced only; `equals` runs small ones.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod

import jax
import jax.export
import numpy as np

from helpers import show
from helpers.costs.sharding import sharded_array
from helpers.kernels import mesh as meshes
from helpers.trace.jaxpr.collectives import short
from helpers.trace.stablehlo.collectives import axis_sizes

from .compare import closed, kind
from .judged_program import once
from .likely_mistakes import either
from .raised import called, limited
from .random_inputs import Extreme, inputs, seed
from .same_program import Shrinking, unlike
from .sending_rules import SendingRules
from .sharded_results import SHARES, compared, drawn, held_exactly, widened
from .traced_program import NOTATION, Reading, Setting, Unclear, own, told
from .wrong_blocks import described

LARGEST = 2**22  # numbers in the arrays that `equals` makes


class Program(SendingRules):
    """A learner's function of one device and what must hold of the program made of it; all or nothing for its points.

    block      the function: blocks in, the block of the result out
    mesh       {"X": 4, "Y": 2} or a JAX mesh
    in_specs   for each argument how it is cut: "A[I_X, J]" or a PartitionSpec; a function if a learner's names occur in it
    out_specs  the same for the result; copies that it promises are compared
    shapes     for each argument its dimensions, as numbers or as names whose sizes are given; not needed with "A[I_X, J]"
    sizes      size of each named dimension
    dtype      type of the arguments, or a list of types
    static     plain values that the function gets by position after its blocks, the same on all devices: an axis, a dimension

    JAX's own proof that copies are equal (check_vma) is off, for it knows none for all_gather and ppermute.
    """

    def __init__(self, block, points, mesh, in_specs, out_specs, shapes=None, sizes=None, dtype="bf16", static=()):
        self.answer, self.points, self.static = block, points, tuple(static)
        self.name = getattr(block, "__name__", "your answer")
        self.draws = self.name
        self.given = (mesh, in_specs, out_specs, shapes, dict(sizes or {}), dtype)
        self.todo: list[Callable[[], str | None]] = []
        self.mistakes: list[tuple[str, dict[str, int]]] = []
        self.slips: list[tuple[str, Callable]] = []
        self.limited = False

    # -- what must hold

    def fits(self, limit: float) -> None:
        """A device holds its blocks of the arguments, and beside them the result or the largest array that it makes."""
        self.limited = True

        def run():
            args, out, made = self.holds
            if args + max(out, made) <= limit:
                return None
            parts = f"arguments {show.bytes(args)}, result {show.bytes(out)}, the largest array on the way {show.bytes(made)}"
            return f"{show.bytes(args + max(out, made))} per device, the limit is {show.bytes(limit)} ({parts})."

        self.todo.append(run)

    def equals(self, dense: Callable, n: int = 2, shapes=None, scale: float = 1.0, prepared=None, **sizes) -> None:
        """On n random inputs the program's result equals that of `dense`, which gets the whole arrays, as NumPy has them.

        The first of them are as small as the draws can be, so that no seed decides an edge.

        shapes    those of the arguments, if not named dimensions are given by
        sizes     numbers or draws, small ones: the program runs
        scale     standard deviation of the inputs; narrow floats, bf16 say, are small whole numbers, which they hold exactly
        prepared  the arguments, made of what is drawn: a function of these arrays that leaves their shapes as they are
        """
        fixed = {k: v for k, v in sizes.items() if not callable(v)}
        draws = {k: v for k, v in sizes.items() if callable(v)}

        def run():
            smallest = {k: draw(Extreme(True, k)) for k, draw in draws.items()}
            for i, picked in enumerate([smallest, *inputs(n - 1, self.draws, draws, shapes=True)]):
                if message := self._compare(dense, shapes, fixed | picked, scale, i, prepared):
                    return message

        self.todo.append(run)

    def wrong(self, message: str, result: Callable | None = None, **kinds: int) -> None:
        """A named mistake, by all that it sends: tried whenever a program sends what it should not.

        result  or by what it leads to: a function of the whole arrays, tried whenever a result is wrong
        """
        if result:
            self.slips.append((message, result))
            return
        self._kinds(kinds)
        self.mistakes.append((message, kinds))

    def evaluate(self) -> tuple[float, list[str]]:
        """Points earned and the first complaint."""
        for key in ("setting", "reading", "asked"):
            self.__dict__.pop(key, None)
        try:
            if not callable(self.answer):
                return 0, [f"{self.name} is not done yet."]
            complaint = next((m for run in [self._shape, *self.todo] if (m := run())), None)
        except Exception as e:
            complaint = told(e, self.name, self.setting if "setting" in self.__dict__ else None)
        return (0, [complaint]) if complaint else (self.points, [])

    # -- the program

    @cached_property
    def setting(self) -> Setting:
        return Setting(*map(own, self.given[:4]), *self.given[4:])

    @cached_property
    def reading(self) -> Reading:
        """What the program says, in full size. Nothing is run and nothing is allocated."""
        s = self.setting
        args = s.arrays(s.sizes)
        return Reading(self._exported(args) or self.program(), args, s.mesh)

    @cached_property
    def asked(self) -> dict[str, jax.export.Exported]:
        """Programs that another process has exported: arguments -> program."""
        return {}

    def _exported(self, args: Sequence[jax.ShapeDtypeStruct]) -> jax.export.Exported | None:
        """The program for these arguments from where the answer is, if that is another process (when a class is graded)."""
        if not hasattr(type(self.answer), "exported_program"):
            return None
        s, key = self.setting, str(args)
        if key not in self.asked:
            ins = [meshes.spec(a) for a in s.ins]
            self.asked[key] = self.answer.exported_program(
                s.mesh, ins, meshes.spec(s.out), s.stacked, self.static, args
            )
        return self.asked[key]

    def _ready(self, put: Sequence[jax.Array]) -> tuple[Reading, Callable]:
        """What the program for arrays like these says, and that very program, ready to run."""
        s = self.setting
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in put]
        if there := self._exported(args):
            held = jax.NamedSharding(s.mesh, meshes.spec(s.out))
            return Reading(there, args, s.mesh), lambda *arrays: there.run(arrays, held)
        program = self.program()
        with closed():
            traced = program.trace(*put)
            lowered = traced.lower()

        def run(*arrays):  # compiled only if what it says is right
            with closed():
                return lowered.compile(compiler_options=once())(*arrays)

        return Reading.like(self.reading, traced, lowered), run

    def program(self) -> Callable:
        """The program that the answer makes; with {U_X} the result is the stack of the devices' partial sums."""
        s, stacked = self.setting, self.setting.stacked

        def f(*blocks):
            with limited():
                out = called(self.answer, (*blocks, *self.static), {})
            leaves = jax.tree.leaves(out)
            if (
                not all(isinstance(x, (int, float)) or hasattr(x, "dtype") for x in leaves)
                or len(leaves) == 1
                and leaves[0] is not out
            ):
                raise Unclear(f"{self.name} returns {kind(out)}; one array is asked for")
            return out[None] if stacked else out

        specs = tuple(meshes.spec(a) for a in s.ins)
        return jax.jit(jax.shard_map(f, mesh=s.mesh, in_specs=specs, out_specs=meshes.spec(s.out), check_vma=False))

    @property
    def holds(self) -> tuple[float, float, float]:
        """Bytes on one device: arguments, result, largest array made."""
        s, args = self.setting, self.setting.arrays(self.setting.sizes)
        local = [s.local(a, spec) for a, spec in zip(args, s.ins)]
        return sum(map(_bytes, local)), _bytes(s.local(self.reading.out[0], s.out)), self.reading.largest

    def _shape(self) -> str | None:
        """The result is one array, of the shape that the notation asks for."""
        out, s = self.reading.out, self.setting
        if not out:
            return f"{self.name} is not done yet."
        if len(out) > 1:
            return f"{self.name} returns {len(out)} arrays; one array is asked for."
        if isinstance(s.out, str | sharded_array.Sharding):
            want = sharded_array.parse(s.out)
            if not s.stacked and set(want.dims) <= set(s.sizes):
                whole = jax.ShapeDtypeStruct(tuple(s.sizes[d] for d in want.dims), out[0].dtype)
                if whole.shape != out[0].shape:
                    got, asked = (s.local(x, s.out).shape for x in (out[0], whole))
                    return f"{self.name} returns a block of shape {got} on each device; {want} has blocks of shape {asked}."
        return None

    def _compare(self, dense, shapes, sizes, scale, i, prepared=None) -> str | None:
        s = self.setting
        like = s.arrays(s.sizes | sizes, shapes)
        if sum(a.size for a in like) > LARGEST:
            raise ValueError(f"equals runs the program: give it sizes that make fewer than {LARGEST:,} numbers")
        rng, dtype = np.random.default_rng(zlib.crc32(f"{seed()}/{self.draws}/{i}".encode())), like[0].dtype
        for share in SHARES:
            arrays = [drawn(rng, a, scale, share) for a in like]
            arrays = list(prepared(*arrays)) if prepared else arrays
            wide = widened(arrays)
            expected = np.asarray(dense(*wide))  # NumPy's: JAX compiles a program for each shape that it works on
            if held_exactly(dtype, expected, dense, arrays):
                break
        else:
            raise ValueError(f"equals adds up more than {dtype} holds: give it smaller sizes")
        put = [meshes.put(a, s.mesh, spec) for a, spec in zip(arrays, s.ins)]
        small, program = self._ready(put)
        if any(
            "cond" in c.note.split(" > ") for c in (*small.sent, *self.logical)
        ):  # it would end the process after a minute
            return "a collective inside lax.cond or switch can wait for ever for devices that chose otherwise: send outside."
        shrinks = Shrinking(s.arrays(s.sizes), like, s.mesh.size)
        if message := unlike(self.reading, small, shrinks, axis_sizes(s.mesh), self.limited):
            return message
        got = jax.block_until_ready(program(*put))
        if (shape := got.shape[s.stacked :]) != expected.shape:
            return f"the result has shape {shape}, which is not what was asked for."
        named = {sharded_array.parse(how).name: a for how, a in zip(s.ins, wide) if isinstance(how, NOTATION)}
        starts = {name: a for name, a in named.items() if a.shape == expected.shape}
        beside = lambda result, **within: compared(got, result, s.mesh, s.stacked, dtype, starts, **within)  # noqa: E731
        if (blocks := beside(expected)).right:
            return None

        def leads(slip: Callable) -> bool:  # to what came, and not nearly as well to what is right
            result = np.asarray(slip(*wide))
            apart = np.abs(result - expected).max(initial=0) if result.shape == expected.shape else 0
            return bool(apart) and beside(result, within=apart / 4).right

        return either([m for m, slip in self.slips if leads(slip)]) or described(blocks) + self._narrow(small)

    def _narrow(self, small: Reading) -> str:
        """A sentence on floats that travel with fewer bits than the arguments have; "" if none do."""
        widest = max(self.setting.types, key=sharded_array.bytes_each)
        narrow = [c.dtype for c in small.sent if sharded_array.bytes_each(c.dtype) < sharded_array.bytes_each(widest)]
        return f" Some of it travels as {narrow[0]}, and the arguments are {widest}." if narrow else ""


def _bytes(a) -> float:
    return sharded_array.bytes_each(short(a.dtype)) * prod(a.shape)
