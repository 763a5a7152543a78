"""Read a compiled program's text: its collectives, how often they run, and what runs while they are under way.

The text is XLA's own, after partitioning, fusion and scheduling, for one device. Compilers spell things differently:
  * an asynchronous collective is a pair, `…-start` and `…-done`; what stands between them may run meanwhile
  * a TPU's AllGather may be spread over several fusions, pieces of it beside pieces of matmuls: one record, with `pieces`
  * a TPU's ReduceScatter may be a fusion `all-reduce-scatter`, an all-reduce of which each device keeps its part
  * between slices a TPU sends to its network's program, and receives from it; which collective it wants, the send says
  * a loop says how often it runs (CPU, GPU), or its counter, step and limit do (TPU)
Works on CPU, GPU and TPU text of JAX 0.10 to 0.12. Show what it reads; never grade by it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from helpers.trace.jaxpr.collectives import moving
from helpers.trace.jaxpr.equation_costs import array_bytes
from helpers.trace.jaxpr.walk import counted_trips
from helpers.trace.stablehlo.replica_groups import axes_of, groups, groups_between_slices, pairs

KINDS = {
    "all-gather": "AllGather",
    "reduce-scatter": "ReduceScatter",
    "all-reduce": "AllReduce",
    "all-to-all": "AllToAll",
    "ragged-all-to-all": "AllToAll",
    "collective-permute": "Permute",
}
BETWEEN_SLICES = {name.upper().replace("-", "_"): kind for name, kind in KINDS.items()} | {"ONE_TO_ONE": "Permute"}
DTYPES = {"s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "s4": "int4", "u8": "uint8", "u32": "uint32",
          "pred": "bool", "f8e4m3fn": "fp8", "f8e5m2": "fp8", "f4e2m1fn": "fp4"}  # fmt: skip

Array = tuple[str, tuple[int, ...]]  # number type and shape


@dataclass(frozen=True)
class Made:
    """One collective that a compiler put into a program, as one device takes part in it.

    kind     one of `costs.sharding.collectives.KINDS`
    axes     mesh axes that it runs over, in the order of its members; None if its groups are not along whole axes
    n        devices that exchange with one another
    ins      type and shape of what one device puts in; several if the compiler sends several arrays as one
    outs     type and shape of what it gets
    times    how often it runs; None if its loop does not say
    behind   matmuls that run between its start and its end; None if the program waits for it
    pieces   fusions that it is spread over
    """

    kind: str
    axes: tuple[str, ...] | None
    n: int
    ins: tuple[Array, ...]
    outs: tuple[Array, ...]
    times: int | None = 1
    behind: int | None = None
    pieces: int = 1

    @property
    def bytes(self) -> float:
        """V of one run, as in `costs.sharding.collectives`: after a gather, before a scatter; for an AllToAll all shards together."""
        return self._operand_bytes * (self.n if self.kind == "AllToAll" else 1)

    @property
    def wire(self) -> float:
        """Bytes that one device sends in all runs, by the ring algorithms; a loop of unknown length counts once."""
        share = {"AllReduce": 2 * (self.n - 1) / self.n, "Permute": 1.0}.get(self.kind, (self.n - 1) / self.n)
        return (self.times or 1) * self._operand_bytes * share

    @property
    def _operand_bytes(self) -> int:
        return sum(array_bytes(dtype, shape) for dtype, shape in (self.outs if self.kind == "AllGather" else self.ins))

    def __str__(self) -> str:
        runs = "" if self.times == 1 else "? x " if self.times is None else f"{self.times:,} x "
        arrays = ", ".join(f"{t}{list(a)} -> {list(b)}" for (t, a), (_, b) in zip(self.ins, self.outs))
        return f"{runs}{self.kind}_{where(self)} {arrays}"


def where(value: Made) -> str:
    """Its axes as a subscript, or the size of its groups."""
    return f"({value.n} devices)" if value.axes is None else "".join(value.axes)


@dataclass(frozen=True)
class Line:
    """One instruction: its result's name and type, its operation, the rest of its line, and where it stands."""

    name: str
    type: str
    op: str
    rest: str
    computation: str
    at: int

    @property
    def base(self) -> str:
        """The operation without -start or -done."""
        return self.op.removesuffix("-start").removesuffix("-done")

    @property
    def operands(self) -> list[str]:
        """Names of the instructions that it reads."""
        return re.findall(r"%([\w.\-]+)", self.rest.split(")", 1)[0])

    @property
    def calls(self) -> list[str]:
        """Names of the computations that it runs once."""
        return re.findall(r"(?:calls|to_apply|called_computations|async_wrapped)=\{?%?([\w.\-]+)", self.rest)


class Text:
    """A compiled program as instructions, with questions that several readings ask."""

    def __init__(self, text: str):
        self.lines: list[Line] = list(_lines(text))
        self.by_name = {line.name: line for line in self.lines}
        self.inside: dict[str, list[Line]] = {}
        for line in self.lines:
            self.inside.setdefault(line.computation, []).append(line)
        self.callers = {c: line for line in self.lines for c in line.calls}
        self.loops = {body: line for line in self.lines if line.op == "while" for body in [_attr(line, "body")]}
        self.users: dict[str, list[Line]] = {}
        for line in self.lines:
            for name in line.operands:
                self.users.setdefault(name, []).append(line)
        self.devices = int(_group(r"num_partitions=(\d+)", text) or 1)
        self.entry = _group(r"(?m)^ENTRY\s+%?([\w.\-]+)", text)
        self.scheduled = "is_scheduled=true" in text
        self._matmuls: dict[str, int] = {}

    def trips(self, computation: str) -> int | None:
        """How often the loops around a computation run it; None if one of them does not say."""
        n = 1
        while above := self.loops.get(computation) or self.callers.get(computation):
            if above.op == "while":
                once = self._runs(above)
                n = None if once is None or n is None else n * once
            computation = above.computation
        return n

    def _runs(self, loop: Line) -> int | None:
        """How often a loop runs: what it says itself, or from its test, `i < limit`, and its step, `i + step`."""
        if said := _group(r'"known_trip_count":\{"n":"(\d+)"\}', loop.rest):
            return int(said)
        body = self.inside.get(_attr(loop, "body"), [])
        for test in self.inside.get(_attr(loop, "condition"), []):
            if test.op == "compare" and "direction=LT" in test.rest and body:
                counter, limit = (self.by_name[name] for name in test.operands)
                at = int(_attr(counter, "index") or -1)
                after = self.by_name[body[-1].operands[at]] if counter.op == "get-tuple-element" else counter
                if after.op != "add":
                    return None
                first, end = self._value(self._first(loop, at)), self._value(limit)
                steps = [n for name in after.operands if (n := self._value(self.by_name[name])) is not None]
                counter = (first, steps[0]) if first is not None and len(steps) == 1 else None
                return counted_trips(counter, None if end is None else (end, 0))
        return None

    def _first(self, loop: Line, index: int) -> Line:
        """What a loop's variable holds at first."""
        return self.by_name[self.by_name[loop.operands[0]].operands[index]]

    def _value(self, line: Line) -> int | None:
        """The whole number that an instruction always gives; None if it may change."""
        while line.op in ("copy", "bitcast", "copy-done", "copy-start"):
            line = self.by_name[line.operands[0]]
        if line.op == "constant":
            said = _group(r"^(\d+)\)", line.rest)
            return int(said) if said else None
        loop = self.loops.get(line.computation)
        if line.op != "get-tuple-element" or not loop or self.by_name[line.operands[0]].op != "parameter":
            return None
        at = int(_attr(line, "index"))
        after = self.by_name[self.inside[line.computation][-1].operands[at]]
        same = after.op == "get-tuple-element" and int(_attr(after, "index")) == at
        return self._value(self._first(loop, at)) if same else None

    def matmuls(self, line: Line) -> int:
        """Matrix products in one instruction, those of the computations that it calls included."""
        library = line.op == "custom-call" and re.search(r'custom_call_target="[^"]*(gemm|matmul)', line.rest)
        if line.op in ("dot", "convolution", "ragged-dot") or library:
            return 1
        bodies = [_attr(line, "body")] if line.op == "while" else []
        return sum(map(self.matmuls_in, [*line.calls, *bodies]))

    def matmuls_in(self, computation: str) -> int:
        """Matrix products in a computation, loop bodies once; `entry` is that of the whole program."""
        if computation not in self._matmuls:
            self._matmuls[computation] = sum(self.matmuls(line) for line in self.inside.get(computation, []))
        return self._matmuls[computation]

    def position(self, line: Line) -> tuple[int, ...]:
        """Where an instruction stands in the order of execution: lines of its callers, outermost first, then its own."""
        here = (line.at,)
        while above := self.loops.get(line.computation) or self.callers.get(line.computation):
            line, here = above, (above.at, *here)
        return here

    def between(self, start: Line, end: Line) -> int | None:
        """Matrix products between two instructions of one computation; None if the text is not in the order of execution."""
        if not self.scheduled:
            return None
        span = [line for line in self.inside[start.computation] if start.at < line.at < end.at]
        return sum(self.matmuls(line) for line in span)


def read(text: "str | Text", sizes: Mapping[str, int]) -> tuple[Made, ...]:
    """The collectives of a compiled program, in the order of its text, which is that of execution once XLA has scheduled it.

    text   `compiled.as_text()`
    sizes  devices along each axis of the mesh that it was compiled for, in the mesh's order

    >>> line = "  %g = f32[8,4]{1,0} all-gather(%p), replica_groups=[2,4]<=[8], dimensions={0}"
    >>> p = "ENTRY %main (p: f32[2,4]) -> f32[8,4] {" + chr(10) + "  %p = f32[2,4]{1,0} parameter(0)" + chr(10)
    >>> made = read("HloModule m, num_partitions=8" + chr(10) + p + line + chr(10) + "}", {"X": 2, "Y": 4})[0]
    >>> print(made, made.bytes, made.wire)
    AllGather_Y f32[2, 4] -> [8, 4] 128 96.0
    """
    t = text if isinstance(text, Text) else Text(text)
    found: list[tuple[str, Made]] = []
    copies = []
    sends = [line for line in t.lines if (line.base in KINDS or _asked(line)) and not line.op.endswith("-done")]
    for line in sorted(sends, key=t.position):
        if _asked(line):
            found.append(("", _between_slices(t, line, sizes)))
            continue
        made, above = _made(t, line, sizes), t.callers.get(line.computation)
        if above and above.name.startswith("async-collective-start"):
            done = t.by_name.get(above.name.replace("start", "done", 1))
            made = replace(made, behind=t.between(above, done) if done else None)
            found.append((_chain(line), made))
        elif "AsyncCollective" in "".join(x.rest for x in t.inside[line.computation]) or _chain(line):
            copies.append((_chain(line), made))  # the same collective again, in a fusion on its way or in its last one
        else:
            found.append(("", made))
    known = [(chain, made.kind, made.axes) for chain, made in copies]
    return tuple(replace(m, pieces=1 + known.count((chain, m.kind, m.axes)) * bool(chain)) for chain, m in found)


def _made(text: Text, line: Line, sizes: Mapping[str, int]) -> Made:
    done = next((u for u in text.users.get(line.name, []) if u.op == line.base + "-done"), None)
    kind = KINDS[line.base]
    outs = arrays((done or line).type)
    ins = tuple(a for name in line.operands if name in text.by_name for a in arrays(text.by_name[name].type))
    moves, found = pairs(line.rest), groups(line.rest, text.devices)
    slices = range(0, prod(sizes.values()), text.devices)  # a program for several slices is written for one of them
    moves, found = ([[d + first for d in x] for first in slices for x in xs] for xs in (moves, found))
    axes = moving(tuple(sizes), moves, sizes) if moves else axes_of(found, sizes)
    n = _members(text, axes, found, sizes)
    if kind == "AllReduce" and line.computation.startswith("all-reduce-scatter"):
        kind, outs = "ReduceScatter", arrays(text.inside[line.computation][-1].type)
    if kind == "AllToAll" and len(outs) > 1:  # one operand for each member: together they are the array
        ins, outs = (tuple((a[0][0], (len(a), *a[0][1])) for a in [x]) for x in (ins, outs))
    return Made(
        kind, axes, n, ins if len(ins) == len(outs) else outs, outs, text.trips(line.computation),
        text.between(line, done) if done else None,
    )  # fmt: skip


def _members(text: Text, axes: tuple[str, ...] | None, groups: list[list[int]], sizes: Mapping[str, int]) -> int:
    """Devices that exchange with one another: along whole axes, or in the largest group, or all if none is named."""
    return prod(sizes[a] for a in axes) if axes is not None else max(map(len, groups), default=text.devices)


def _asked(line: Line) -> str:
    """The collective that a send asks of the network between slices; "" if it is no such send."""
    kind = _group(r'_xla_megascale_transfer_type="(\w+)"', line.rest)
    return BETWEEN_SLICES.get(kind, "") if line.op == "send" else ""


def _between_slices(text: Text, line: Line, sizes: Mapping[str, int]) -> Made:
    """A send to the network and the receive of its result, which share a name, as one collective."""
    named = re.search(r'rendezvous="[^"]*"', line.rest)[0]
    receive = next(x for x in text.inside[line.computation] if x.op == "recv" and named in x.rest)
    done = next(u for u in text.users[receive.name] if u.op == "recv-done")
    # Sorted, for their order is that of the torus, not of the mesh.
    found = [*map(sorted, groups_between_slices(line.rest, text.devices))]
    axes = axes_of(found, sizes)
    n = _members(text, axes, found, sizes)
    ins, outs = (arrays(x.type)[:1] for x in (line, receive))
    trips, behind = text.trips(line.computation), text.between(line, done)
    return Made(_asked(line), axes, n, ins, outs, trips, behind)


def _chain(line: Line) -> str:
    """What a TPU's pieces of one collective have in common; channel numbers are shared by different ones."""
    return _group(r'chain_id="(\d+)"', line.rest)


_ARRAY = re.compile(r"\b(pred|bf16|[sufc]\d+|f\d+e\d+m\d+\w*)\[([\d,<=]*)\]")
_LINE = re.compile(r"^\s*(?:ROOT\s+)?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_COMPUTATION = re.compile(r"^(?:ENTRY\s+)?%?([\w.\-]+) \(.*\{\s*$")


def arrays(type_: str) -> tuple[Array, ...]:
    """The arrays of a result's type, without layouts and without the counters that a TPU adds.

    >>> arrays("(bf16[4,8]{1,0:T(8,128)(2,1)S(1)}, u32[]{:S(2)})")
    (('bf16', (4, 8)),)
    """
    found = [
        (DTYPES.get(t, t), tuple(int(n.lstrip("<=")) for n in dims.split(",") if n))
        for t, dims in _ARRAY.findall(re.sub(r"\{[^{}]*\}", "", type_))
    ]
    return tuple(found) if len(found) == 1 else tuple(a for a in found if a != ("uint32", ()))


def _group(pattern: str, text: str) -> str:
    """What the pattern's group matches in a text; "" if nothing does."""
    m = re.search(pattern, text)
    return m[1] if m else ""


def _attr(line: Line, name: str) -> str:
    return _group(name + r"=%?([\w.\-]+)", line.rest)


def _lines(text: str) -> Iterator[Line]:
    computation = ""
    for at, raw in enumerate(text.splitlines()):
        if m := _COMPUTATION.match(raw):
            computation = m[1]
        elif m := _LINE.match(raw):
            yield Line(*m.groups(), computation, at)
