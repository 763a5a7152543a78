"""What a sharded program is told: what it sends, what it holds, and whether its result is right.

    a = check.Program(block, 4, {"X": 4, "Y": 2}, ["A[I_X, J]", "B[J, K_Y]"], "C[I_X, K_Y]", sizes=dict(I=1024, J=8192, K=4096))
    a.sends(AllGather=1, ReduceScatter=1)
    a.equals(lambda A, B: A @ B, I=check.ints(8, 64, 8), J=check.ints(8, 64, 8), K=check.ints(8, 64, 8))

The answer is the function of one device. It is never called by hand: JAX exports the program made of it, and the
exported program is read. Sizes as large as in life are traced only; `equals` runs small ones.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import prod

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from helpers import show, trace
from helpers.costs.sharding import sharded_array
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.kernels import mesh as meshes
from helpers.trace.jaxpr.equation_costs import short

from .compare import closed, kind
from .dependence import Asked, place
from .edge_cases import lowest
from .judged_program import once
from .likely_mistakes import either
from .raised import called, limited
from .random_inputs import inputs, seed
from .sending_rules import SendingRules, kinds_of, statement
from .traced_program import NOTATION, Reading, Setting, Shrinking, Unclear, own, reading, reading_like, told, unlike
from .wrong_blocks import Blocks, described, is_narrow, is_whole

LARGEST = 2**22  # numbers in the arrays that `equals` makes
SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""How many of the narrow floats that are drawn are not 0: as many as add up to what the type holds."""


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
        self._fits(limit)

    @statement
    def _fits(self, limit: float) -> str | None:
        args, out, made = self.holds
        if args + max(out, made) <= limit:
            return None
        kinds = "arguments", "result", "the largest array on the way"
        parts = ", ".join(f"{kind} {show.bytes(n)}" for kind, n in zip(kinds, self.holds))
        s, cut = self.setting, zip(self.setting.arrays(self.setting.sizes), self.setting.ins)
        blocks = [(_bytes(s.local(a, spec)), jax.tree.leaves(tuple(meshes.spec(spec)))) for a, spec in cut]
        if whole := [x for size, axes in blocks for x in axes if x and size * s.mesh.shape[x] == made > size]:
            parts += f", as much as an argument whole along {whole[0]}"
        return f"{show.bytes(args + max(out, made))} per device, the limit is {show.bytes(limit)} ({parts})."

    @statement
    def equals(self, dense: Callable, n: int = 2, shapes=None, scale=1.0, prepared=None, **sizes) -> str | None:
        """On n random inputs the program's result equals that of `dense`, which gets the whole arrays, as NumPy has them.

        The first of them are as small as the draws can be, so that no seed decides an edge.

        shapes    those of the arguments, if not named dimensions are given by
        sizes     numbers or draws, small ones: the program runs
        scale     standard deviation of the inputs; narrow floats, bf16 say, are small whole numbers, which they hold exactly
        prepared  the arguments, made of what is drawn: a function of these arrays that leaves their shapes as they are
        """
        fixed = {k: v for k, v in sizes.items() if not callable(v)}
        draws = {k: v for k, v in sizes.items() if callable(v)}
        for i, picked in enumerate([lowest(self.draws, draws), *inputs(n - 1, self.draws, draws, shapes=True)]):
            avals = self.setting.arrays(self.setting.sizes | fixed | picked, shapes)
            if message := self._compare(avals, *self._drawn(dense, avals, scale, i, prepared)):
                return message

    @statement
    def gives(self, expected, *arrays) -> str | None:
        """For these whole arrays the program's result is `expected`."""
        avals = self.setting.arrays(self.setting.sizes, [np.shape(a) for a in arrays])
        typed = [np.asarray(a).astype(aval.dtype) for a, aval in zip(arrays, avals)]
        wide = [a.astype(np.float32) if is_narrow(a.dtype) else a for a in typed]
        return self._compare(avals, typed, wide, np.asarray(expected))

    def wrong(self, message: str, result=None, *case, **kinds: int) -> None:
        """A named mistake, by all that it sends: tried whenever a program sends what it should not.

        result  or by what it leads to, tried whenever a result is wrong: a function of the whole arrays, or the result for those
                of a `case`
        """
        if result is not None:
            alike = lambda a, x: a.shape == np.shape(x) and np.allclose(a, x, rtol=0.01)  # noqa: E731  (as in bf16)
            stated = lambda *arrays: result if all(map(alike, arrays, case)) else None  # noqa: E731
            self.slips.append((message, result if callable(result) else stated))
            return
        kinds_of(kinds)
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
        return reading(self._exported(args) or self.program(), args, s.mesh)

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
            ins, out = [meshes.spec(a) for a in s.ins], meshes.spec(s.out)
            self.asked[key] = self.answer.exported_program(s.mesh, ins, out, s.stacked, self.static, args)
        return self.asked[key]

    def _ready(self, cut_args: Sequence[jax.Array]) -> tuple[Reading, Callable]:
        """What the program for arrays like these says, and that very program, ready to run."""
        s = self.setting
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in cut_args]
        if there := self._exported(args):
            held = jax.NamedSharding(s.mesh, meshes.spec(s.out))
            return reading(there, args, s.mesh), lambda *arrays: there.run(arrays, held)
        program = self.program()
        with closed():
            traced = program.trace(*cut_args)
            lowered = traced.lower()

        compiled = cache(lambda: lowered.compile(compiler_options=once()))

        def run(*arrays):  # compiled only if what it says is right
            with closed():
                return compiled()(*arrays)

        return reading_like(self.reading, traced, lowered), run

    def program(self) -> Callable:
        """The program that the answer makes; with {U_X} the result is the stack of the devices' partial sums."""
        s, stacked = self.setting, self.setting.stacked

        def f(*blocks):
            with limited():
                out = called(self.answer, (*blocks, *self.static), {})
            leaves = jax.tree.leaves(out)
            numeric = all(isinstance(x, (int, float)) or hasattr(x, "dtype") for x in leaves)
            if not numeric or len(leaves) == 1 and leaves[0] is not out:
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

    def _drawn(self, dense, avals: Sequence, scale: float, i: int, prepared=None) -> tuple[list, list, np.ndarray]:
        """Random arguments like these, the same with narrow floats in single precision, and what is right.

        Of narrow floats so few are not 0 that their type holds exactly whatever a program adds up on its way to whole numbers.
        """
        if sum(a.size for a in avals) > LARGEST:
            raise ValueError(f"equals runs the program: give it sizes that make fewer than {LARGEST:,} numbers")
        rng, dtype = np.random.default_rng(zlib.crc32(f"{seed()}/{self.draws}/{i}".encode())), avals[0].dtype
        for share in SHARES:
            arrays = [_random(rng, a, scale, share) for a in avals]
            arrays = list(prepared(*arrays)) if prepared else arrays
            wide = [a.astype(np.float32) if is_narrow(a.dtype) else a for a in arrays]
            expected = np.asarray(dense(*wide))  # NumPy's: JAX compiles a program for each shape that it works on
            if not is_narrow(dtype) or not is_whole(expected):
                return arrays, wide, expected
            if np.asarray(dense(*map(np.abs, wide))).max(initial=0) <= 2 ** jnp.finfo(dtype).nmant:
                return arrays, wide, expected
        raise ValueError(f"equals adds up more than {dtype} holds: give it smaller sizes")

    def _compare(self, avals: Sequence, arrays: list, wide_args: list, expected: np.ndarray) -> str | None:
        s = self.setting
        put = [meshes.put(a, s.mesh, spec) for a, spec in zip(arrays, s.ins)]
        small, program = self._ready(put)
        # It would end the process after a minute.
        if any("cond" in c.note.split(" > ") for c in (*small.sent, *self.logical)):
            return "a collective inside lax.cond or switch can wait for ever for devices that chose otherwise: send outside."
        shrinks = Shrinking(s.arrays(s.sizes), avals, s.mesh.size)
        if message := unlike(self.reading, small, shrinks, self.limited):
            return message
        got = jax.block_until_ready(program(*put))
        if (shape := got.shape[s.stacked :]) != expected.shape:
            return f"the result has shape {shape}, which is not what was asked for."
        named = {sharded_array.parse(how).name: a for how, a in zip(s.ins, wide_args) if isinstance(how, NOTATION)}
        starts = {name: a for name, a in named.items() if a.shape == expected.shape}
        beside = lambda right, **within: Blocks.of(got, right, s.mesh, s.stacked, avals[0].dtype, starts, **within)  # noqa: E731
        if (blocks := beside(expected)).right:
            return None

        def leads(mistake: Callable) -> bool:  # to what came, and not nearly as well to what is right
            result = np.asarray(mistake(*wide_args))
            apart = np.abs(result - expected).max(initial=0) if result.shape == expected.shape else 0
            return bool(apart) and beside(result, within=apart / 4).right

        if message := either([m for m, slip in self.slips if leads(slip)]):
            return message
        narrow = [c.dtype for c in small.sent if bytes_each(c.dtype) < bytes_each(s.widest)]
        travels = f" Some of it travels as {narrow[0]}, and the arguments are {s.widest}." if narrow else ""
        silent = [a for a in s.mesh.axis_names if not any(a in c.axes for c in small.sent)]
        number, asked = any(isinstance(x, float) for x in self.static), self._asked(wide_args, put, program)
        return described(replace(blocks, silent=silent, with_number=number, asked=asked)) + travels

    def _asked(self, wide_args: Sequence, cut_args: Sequence, program: Callable) -> Asked | None:
        """To ask for other results, where a statement has a function of whole arrays."""
        s, stated = self.setting, [r for r in self.todo if getattr(r, "func", None) is Program.equals.__wrapped__]
        if not stated or s.stacked or not all(isinstance(how, NOTATION) for how in (*s.ins, s.out)):
            return None
        where = lambda x: [x.sharding.devices_indices_map(x.shape)[d] for d in s.mesh.devices.flat]  # noqa: E731

        def again(arrays):
            return (meshes.put(a.astype(x.dtype), s.mesh, how) for a, x, how in zip(arrays, cut_args, s.ins))

        return Asked(
            run=lambda *arrays: np.asarray(program(*again(arrays))),
            ours=lambda *arrays: np.asarray(stated[0].args[1](*arrays)),
            arrays=wide_args,
            cuts=[*map(sharded_array.parse, (*s.ins, s.out))],
            index=[*map(where, (*cut_args, program(*cut_args)))],
            sizes=dict(s.mesh.shape),
            free="prepared" not in stated[0].keywords,
        )


def _random(rng, aval: jax.ShapeDtypeStruct, scale: float, share: float = SHARES[0]) -> np.ndarray:
    """A random array: floats of that standard deviation, narrow floats from -2 to 2, or whole numbers from -4 to 4.

    share  of the narrow floats that are not 0

    NumPy's, for JAX compiles a program for each shape that it cuts over devices.
    """
    if is_narrow(aval.dtype):
        weights = [share / 8, share * 3 / 8, 1 - share, share * 3 / 8, share / 8]
        return rng.choice(np.arange(-2, 3), aval.shape, p=weights).astype(aval.dtype)
    if jnp.issubdtype(aval.dtype, jnp.floating):
        return (scale * rng.standard_normal(aval.shape)).astype(aval.dtype)
    return rng.integers(-4, 5, aval.shape).astype(aval.dtype)


def _bytes(a) -> float:
    return bytes_each(short(a.dtype)) * prod(a.shape)


def look(f: Callable, mesh: Mapping[str, int], in_specs, out_spec, sizes: Mapping[str, int], static=()) -> None:
    """Print what every device is given and holds after `f`, and what the program sends: to try an answer, not to judge it.

    f         the function of one device
    in_specs  "A[I_X, J]" for each array; its numbers are 0, 0.1, 0.2, … in the order of the whole array
    static    what `f` takes after its blocks

    Specs may be functions without arguments, where an answer says how arrays are cut.
    """
    asked = Program(f, 0, mesh, in_specs, out_spec, sizes=sizes, dtype="f32", static=static)
    try:
        setting = asked.setting
        arrays = [np.arange(np.prod(a.shape), dtype=np.float32).reshape(a.shape) / 10 for a in setting.arrays(sizes)]
        put = [meshes.put(a, setting.mesh, spec) for a, spec in zip(arrays, setting.ins)]
        program = asked.program()
        result, sent = program(*put), trace.sent(program, *put)
    except Exception as e:
        print(told(e, asked.name, vars(asked).get("setting")))
    else:
        _print_blocks(setting, put, result)
        print("sends: " + ("; ".join(map(str, sent)) or "nothing"))


def _print_blocks(setting: Setting, cut_args, result) -> None:
    rows, sizes = [*zip(setting.ins, cut_args), (setting.out, result)], dict(setting.mesh.shape)
    for i, device in enumerate(setting.mesh.devices.flat):
        print(f"device {place(i, sizes)}")
        for spec, array in rows:
            block = next(shard.data for shard in array.addressable_shards if shard.device == device)
            text = np.array2string(np.asarray(block), precision=2, separator=", ", threshold=24, prefix=" " * 8)
            lines = text.replace("\n\n", "\n")
            print(f"    {'→ ' if array is result else '  '}{spec} {list(block.shape)}\n        {lines}")
