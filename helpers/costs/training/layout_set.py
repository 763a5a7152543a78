"""The set of layouts of a training step: the rules that a layout keeps, all meshes of a machine that keep them, and how layers lie
over the devices of a pipeline (chapter 4).

Every way to write the chips of a machine as tp·cp·ep·fsdp·dp·pp, every zero, every number of microbatches, stages in pieces, each
layout under one name. `layout_search` ranks them; pages have the same set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from math import prod
from operator import and_
from types import MappingProxyType

from helpers.arguments import formula
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import divisors
from helpers.costs.transformers.config import Config
from helpers.numeric import ceil, maximum, minimum, plain, where

from .layout import AXES, NUMBERS, Layout, lies, shared
from .pipeline_schedules import INTERLEAVES

ANY, NOTHING = Layout(), MappingProxyType({})
TABLES = 2  # units of a pipeline beside the layers: the embedding and the unembedding may stand where a layer would
# On each device of an interleaved pipeline, that are tried: what lies between gains a part of a bubble's part.
STAGES = (1, 2, 4, 8)
BLOCK = 2048  # meshes at a time: a step's cost for Python is paid once for them


SENTENCES = {
    "chips": "{a} takes {a.chips} chips and {has} {room}: {mend}",
    "rows": "{a} does not lie along {shape} chips in whole rows: let the axes ({axes}, in this order) end where the slice's do, "
    "or divide what is left",
    "pod": "{a.chips} chips are more than the {room} of a {chip} pod: let {pods} pods share the batch",
    "tp": "tp={a.tp} does not divide N={c.N}, D={c.D} and F={width}: take a common divisor",
    "heads": "tp={a.tp} does not divide K={c.K} KV heads, nor they it: take a divisor or a multiple",
    "stages": "{a.stages} stages are more than L={c.L} layers and the two tables of the vocabulary: let {pp} be {most_stages} or less",
    "layers": "layers={a.layers} are {listed} layers on {devices} devices: give L={c.L} on pp={a.pp}",
    "experts": "ep={a.ep} does not divide E={c.moe.E} experts: let it be {near_E}",
    "no experts": "ep={a.ep}, and the model has no experts: leave it out",
    "sequences": "{tokens:.9g} tokens are no whole number of sequences of T={T}: the next is {whole:.9g}",
    "cp": "cp={a.cp} does not divide T={T} tokens of a sequence: let it be {near_T}",
    "shards": "{sequences:g} sequences do not divide over {shards:g} shards x {a.microbatches} microbatches: give a multiple of "
    "{parts:g}, the least is {least:.9g} tokens",
    "pieces": "v={a.v} stages on each device are of a pipeline: give pp",
    "interleaved": "an interleaved pipeline takes a multiple of pp={a.pp} microbatches, not {a.microbatches}",
}
"""What is said of each rule where it does not hold, of a layout a and a model c."""


@formula
def size_rules(c: Config, layout: Layout) -> dict:
    """What a model's sizes ask of a layout: by rule a truth value, or an array of them."""
    tp, least = layout.tp, minimum(layout.tp, c.K)
    return {
        "tp": (c.N % tp == 0) & (c.D % tp == 0) & (c.F % tp == 0) & ((c.moe or c).F % tp == 0),
        "heads": (c.K % least == 0) & (tp % least == 0),
        "stages": layout.stages <= c.L + TABLES,
    } | ({"experts": c.moe.E % layout.ep == 0} if c.moe else {"no experts": layout.ep == 1})


@formula(signed="T tokens")
def rules(c: Config, layout: Layout, tokens, T, machine: Slice | Chip) -> dict:
    """All that must hold for a layout on a slice; or on chips of a kind, as many as it takes."""
    if isinstance(machine, Slice):
        chip = machine.chip
        room = {"chips": layout.chips == _room(layout, machine), "rows": lies(layout, machine)}
    else:
        chip, room = machine, {"pod": layout.chips <= prod(machine.pod)} if machine.axes else {}
    listed = layout.device_layers
    return {
        **room,
        **size_rules(c, layout),
        "sequences": tokens % T == 0,
        "cp": T % layout.cp == 0,
        "shards": tokens / T % (shared(layout, chip).shards * layout.microbatches) == 0,
        "layers": (not layout.layers) | ((len(listed) == layout.pp) & (sum(listed) == c.L)),
        "pieces": (layout.v == 1) | (layout.pp > 1),
        "interleaved": (layout.microbatches % layout.pp == 0) | (layout.v == 1) | (layout.schedule not in INTERLEAVES),
    }


@formula(signed="T tokens")
def check(c: Config, layout: Layout, tokens, T, machine: Slice | Chip) -> None:
    """ValueError, in one sentence, for the first rule that a layout of plain numbers breaks; arrays are let pass."""
    if plain(tokens, T) and min(tokens, T) < 1:
        raise ValueError(f"tokens and T are 1 or more, got tokens={tokens} and T={T}")
    if plain(tokens, T, *(getattr(layout, name) for name in NUMBERS)):
        broken = next((name for name, holds in rules(c, layout, tokens, T, machine).items() if not holds), None)
        if broken:
            raise ValueError(SENTENCES[broken].format(**_words(c, layout, tokens, T, machine)))


def _room(layout: Layout, slice: Slice):
    """Chips that axes have to take: of a slice, or of all domains."""
    return slice.chips if slice.chip.axes else slice.chips * layout.pods


def _words(c: Config, a: Layout, tokens, T, machine: Slice | Chip) -> dict:
    """What `SENTENCES` quote."""
    known = isinstance(machine, Slice)
    chip, room = (machine.chip, _room(a, machine)) if known else (machine, prod(machine.pod))
    mend = "make their product equal"
    if room % a.chips == 0:
        mend = f"multiply an axis by {room // a.chips}"
    elif a.chips % room == 0:
        mend = f"divide an axis by {a.chips // room}"
    shards, parts = shared(a, chip).shards, shared(a, chip).shards * a.microbatches
    sizes = {"width": (c.moe or c).F, "near_E": _near(a.ep, c.moe.E) if c.moe else "", "near_T": _near(a.cp, int(T))}
    batch = {"tokens": tokens, "T": T, "sequences": tokens / T, "whole": -(-tokens // T) * T, "least": parts * T}
    has, shape = "the slice has" if chip.axes else "the domains have", machine.shape if known else ()
    places = {"chip": chip.name, "has": has, "room": room, "mend": mend, "pods": -(-a.chips // room)}
    axes = {"a": a, "c": c, "shape": "x".join(map(str, shape)), "axes": ", ".join(AXES)}
    stages = {"pp": "pp·v" if a.v > 1 else "pp", "most_stages": c.L + TABLES, "shards": shards, "parts": parts}
    stages |= {"listed": sum(a.device_layers), "devices": len(a.device_layers)}
    return sizes | batch | places | axes | stages


def _near(n: int, size: int) -> str:
    """The divisors of a size that are nearest to n, from below and above."""
    fit = divisors(size)
    near = {max(d for d in fit if d <= n), min((d for d in fit if d >= n), default=size)}
    return " or ".join(map(str, sorted(near)))


@formula
def factors(n: int, k: int) -> Iterator[tuple[int, ...]]:
    """Every way to write n as a product of k whole numbers, in order.

    >>> list(factors(4, 2)), sum(1 for _ in factors(4096, 6))
    ([(1, 4), (2, 2), (4, 1)], 6188)
    """
    if k == 1:
        yield (n,)
        return
    for d in divisors(n):
        yield from ((d, *others) for others in factors(n // d, k - 1))


@formula
def meshes(c: Config, tokens: int, T: int, slice: Slice, template: Layout = ANY, fixed: Mapping = NOTHING):
    """One array for each axis, of all the meshes that keep the rules with one microbatch or more.

    template  has the pods and the schedule
    fixed     sizes of axes that are not searched

    >>> {a: len(x) for a, x in meshes(model("llama-2-13b"), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4))).items()}
    {'tp': 194, 'cp': 194, 'ep': 194, 'fsdp': 194, 'dp': 194, 'pp': 194}
    """
    import numpy as np

    rows = np.array(list(factors(_room(template, slice), len(AXES))))
    for axis in fixed.keys() & {*AXES}:
        rows = rows[rows[:, AXES.index(axis)] == fixed[axis]]
    rows = rows[rows[:, AXES.index("pp")] <= c.L + TABLES]
    for axis, size in (("tp", c.N), ("cp", T), ("ep", c.moe.E if c.moe else 1)):
        rows = rows[size % rows[:, AXES.index(axis)] == 0]  # most go here, and fast
    layouts = Layout(**dict(zip(AXES, rows.T)), pods=template.pods, schedule=template.schedule)
    return dict(zip(AXES, rows[reduce(and_, rules(c, layouts, tokens, T, slice).values())].T))


@formula
def interleavings(c: Config, pp: int, schedule: str = "1F1B") -> tuple[int, ...]:
    """Stages that each of pp devices may have, of those that are tried.

    >>> [interleavings(model("llama-3.1-405b"), pp) for pp in (1, 16, 32)]             # 126 layers and two tables: 16·8
    [(1,), (1, 2, 4, 8), (1, 2, 4)]
    """
    many = pp > 1 and schedule in INTERLEAVES
    return tuple(v for v in STAGES if v == 1 or (many and pp * v <= c.L + TABLES))


@formula
def grids(c: Config, tokens: int, T: int, slice: Slice, template: Layout = ANY, fixed: Mapping = NOTHING):
    """Layouts of arrays that broadcast: meshes down, each with every v, then zero, then microbatches; together they are all layouts.

    A number of microbatches that does not divide a mesh's sequences, or is no multiple of pp where v asks for one, is among them;
    `rules` tells.

    template  whatever they have besides: pods, schedule, types of products and of what is stored
    fixed     what of it is not searched: sizes of axes, zero, microbatches, v
    """
    import numpy as np

    sizes = meshes(c, tokens, T, slice, template, fixed)
    stages = [(fixed["v"],) if "v" in fixed else interleavings(c, pp, template.schedule) for pp in sizes["pp"]]
    sizes = {axis: np.repeat(n, [len(some) for some in stages]) for axis, n in sizes.items()}
    sizes["v"] = np.array([v for some in stages for v in some])
    tried = {"zero": range(4), "microbatches": divisors(tokens // T)} | {name: [x] for name, x in fixed.items()}
    zero, microbatches = np.array(tried["zero"])[:, None], np.array(tried["microbatches"], float)
    for begin in range(0, len(sizes["tp"]), BLOCK):
        block = {axis: n[begin : begin + BLOCK, None, None].astype(float) for axis, n in sizes.items()}
        yield replace(template, **block, zero=zero[None], microbatches=microbatches[None, None])


@formula
def keeps(c: Config, layout: Layout, tokens, T, slice: Slice, keep_aliases: bool = False):
    """Whether a layout is in the set: it keeps all rules, and has no simpler name, unless `keep_aliases` will do.

    Where nobody has the same weights, zero shares nothing; and with zero=3, chips along dp share weights as those along fsdp do.

    >>> case = 2**20, 4096, Slice(chip("H100"), (8,))
    >>> layouts = Layout(dp=8, zero=2), Layout(dp=8, zero=3), Layout(fsdp=8), Layout(fsdp=8, zero=3), Layout(fsdp=4, cp=2, zero=3)
    >>> [keeps(model("llama-3-8b"), layout, *case) for layout in layouts]
    [True, False, True, False, True]
    """
    copies, zero = layout.dp * layout.cp * layout.ep > 1, layout.zero
    simplest = (zero == 0) | (copies & ((zero < 3) | (layout.dp == 1)))
    return reduce(and_, rules(c, layout, tokens, T, slice).values(), simplest | keep_aliases)


# How layers lie over the devices of a pipeline.


@formula
def stage_layers(c: Config, layout: Layout):
    """Layers of the fullest device: the largest number listed, or L/pp, rounded up, for stages need not be equal.

    >>> [float(stage_layers(model("llama-3.1-405b"), Layout(pp=n))) for n in (1, 14, 16)]
    [126.0, 9.0, 8.0]
    """
    return 1.0 * (max(layout.device_layers) if layout.layers else ceil(c.L / layout.pp))


@formula
def divides(c: Config, layout: Layout):
    """Whether all devices of a pipeline have equally many layers."""
    return len({*layout.device_layers}) == 1 if layout.layers else c.L % layout.pp == 0


@formula
def last_layers(c: Config, layout: Layout):
    """Layers of the device with the unembedding: where layers do not divide, what the others leave, or one fewer than they have if
    interleaved stages count tables as layers.

    >>> c = model("llama-3.1-405b")
    >>> [float(last_layers(c, layout)) for layout in (Layout(pp=16), Layout(pp=16, v=8), Layout(pp=16, layers="8x15+6"))]
    [6.0, 7.0, 6.0]
    """
    most = stage_layers(c, layout)
    if layout.layers:
        return 1.0 * layout.device_layers[-1]
    return most - minimum(where(_tables_as_layers(c, layout), 1, most * layout.pp - c.L), most)


def _tables_as_layers(c: Config, layout: Layout):
    """Whether interleaved stages are even once the embedding and the unembedding count as layers: both ends have one fewer."""
    return (layout.v > 1) & (layout.pp > 1) & ((c.L + TABLES) % layout.stages == 0)


@formula(signed="device")
def device_stages(c: Config, layout: Layout, position: str, device) -> tuple[tuple, ...]:
    """The stages of a device, each as its layers and its position in the pipeline; under DualPipe a device has one from either end.

    position  "first", "last", or one "between"

    >>> c = model("deepseek-v3")
    >>> [device_stages(c, Layout(pp=16, schedule=name), "first", 0) for name in ("1F1B", "DualPipe")]
    [((4.0, 'first'),), ((4.0, 'first'), (1.0, 'last'))]
    """
    most = stage_layers(c, layout)
    ends = {"first": most - where(_tables_as_layers(c, layout), 1, 0), "last": last_layers(c, layout)}
    positions = position, {"first": "last", "last": "first"}.get(position, position)
    if layout.layers:
        numbers = layout.device_layers[device], layout.device_layers[-1 - device]
    else:
        numbers = (minimum(ends.get(end, most), c.L) for end in positions)
    stages = tuple(zip(numbers, positions))
    if layout.schedule != "DualPipe":
        return stages[:1]
    # A device that is alone has both ends, and the layers once.
    return tuple((where(layout.pp == 1, n / 2, n), end) for n, end in stages)


@formula
def slowest_stage(c: Config, layer_seconds, head_seconds, layout: Layout):
    """Seconds of the slowest stage, from those of a layer and those of the head, which is the unembedding."""
    most, even = stage_layers(c, layout), c.L / layout.pp * layer_seconds
    last = last_layers(c, layout) * layer_seconds + head_seconds
    fullest = maximum(maximum(most * layer_seconds, last), even + head_seconds / layout.pp)
    return where(divides(c, layout), even + head_seconds, fullest)
