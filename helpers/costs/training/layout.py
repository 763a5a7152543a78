"""How a training step lies over chips: a `Layout`, and the group of chips along each of its axes (chapter 4).

The axes of a layout lie along the slice in one order, neighbours first: tp, cp, ep, fsdp, dp, pp, as in a mesh whose
last axis is tp. An axis that takes a whole axis of the torus has its ring; one that takes a part has a line, and one
that takes every s-th chip shares links with s-1 others like it.
GPUs: an axis lies inside an NVSwitch domain as far as it can and goes over the network beyond; `pods` counts the domains,
and the other axes lie across them. On TPUs pods are copies of the slice, which share the batch over the network.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache, reduce
from math import prod
from operator import mul

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import Tier, tiers
from helpers.costs.sharding.collective_prices import Group, adjacent, in_domains, on_torus
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.transformers.training_memory_bytes import POLICY_NAMES
from helpers.numeric import maximum, minimum, plain, where

from .pipeline_schedules import SCHEDULES

AXES = ("tp", "cp", "ep", "fsdp", "dp", "pp")
NUMBERS = (*AXES, "pods", "zero", "microbatches", "v")
FROM_ZERO = ("zero", "nodes")  # the others are 1 or more
OFFLOADS = ("", "activations", "optimizer")
OPTIMIZERS = ("Adam", "Muon")
LISTED = r"(\d+(x\d+)?(\+\d+(x\d+)?)*)?"  # 8x14 are 14 devices with 8 layers each


@record
class Bytes:
    """Bytes that each number takes: of weights, gradients and activations, and of the optimizer's state of a parameter.

    state  8 for Adam's two float32 moments, 12 with a master copy of the weights in float32, which training in bf16 needs:
           `kernels.transformers.adam` shows why

    >>> sum(vars(BF16).values()) - BF16.activation, sum(vars(MASTER).values()) - MASTER.activation   # of a parameter
    (12, 16)
    """

    weight: float = 2
    gradient: float = 2
    state: float = 8
    activation: float = 2


BF16 = Bytes()
MASTER = Bytes(state=12)
"""bf16 weights and gradients, two moments and a master copy in float32: the 16 bytes of "ZeRO" (2020), section 3."""
BY_BYTES = {10: Bytes(gradient=0), 12: BF16, 16: MASTER, 18: Bytes(gradient=4, state=12)}
"""What is stored of a parameter, by its bytes: weights and moments alone; gradients too; a master copy; gradients in float32."""


@record
class Layout:
    """How a training step lies over chips. Numbers may be arrays of layouts, which are not checked.

    dp     shares the batch; every one of them has the weights (`zero` says what of it is shared nevertheless)
    fsdp   shares the batch, and the weights, gradients and optimizer state too
    tp     shares heads and F, and between blocks the tokens (sequence parallelism)
    pp     shares the layers: stages of a pipeline
    ep     shares the batch, and the experts
    cp     shares the tokens of each sequence (ring attention)
    pods   slices on a data-centre network, that share the batch
    zero   what the chips that have the same weights share all the same: 0 nothing, 1 optimizer state, 2 gradients too,
           3 weights too. They are the chips along dp, ep (but for experts) and cp
    microbatches  of a step, in sequence: how many, not how large
    v         stages of the pipeline on each device, if the schedule is "interleaved"
    schedule  of the pipeline, if pp > 1: `pipeline_schedules.SCHEDULES`
    policy    what is kept for the backward pass: `training_memory_bytes.POLICY_NAMES`; T·S weights only if attention stores them
    sequence_parallel  between blocks tp shares the tokens; without it each of its chips has them all
    products  the type in which products with weights multiply: "bf16", "fp8", "mxfp8", "nvfp4", "int8"
    stored    bytes of what is stored, which is another matter: `BF16`, `MASTER`, or others
    layers    of each device of the pipeline, such as "7+8x14+7"; "": spread as evenly as they divide
    fp8_swiglu  what an MLP's activation function reads is kept in 8 bits (`activation_func_fp8_input_store` of Megatron-Core)
    overlaps_experts  two microbatches are under way at once, and the tokens of one travel while the other computes (DualPipe)
    nodes     domains that hold the experts of a token, at most; 0 as many as chance gives
    optimizer  "Adam", or "Muon", whose products with matrices take time too
    offload   what lives in the host's memory: "" nothing, "activations", or "optimizer"

    >>> Layout(fsdp=16, tp=4).chips, Layout(fsdp=16, tp=4, pods=2).shards
    (64, 32)
    >>> Layout(tp=0)
    Traceback (most recent call last):
    ValueError: tp is a whole number of 1 or more, got 0
    """

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1
    pods: int = 1
    zero: int = 0
    microbatches: int = 1
    v: int = 1
    schedule: str = "1F1B"
    policy: str = "block"
    sequence_parallel: bool = True
    products: str = "bf16"
    stored: Bytes = BF16
    optimizer: str = "Adam"
    offload: str = ""
    overlaps_experts: bool = False
    nodes: int = 0
    layers: str = ""
    fp8_swiglu: bool = False

    def __post_init__(self):
        for name in (*NUMBERS, "nodes"):
            x, least = getattr(self, name), int(name not in FROM_ZERO)
            if isinstance(x, bool | str) or x is None or (plain(x) and (x != int(x) or x < least)):
                raise ValueError(f"{name} is a whole number of {least} or more, got {x!r}")
        if plain(self.zero) and self.zero > 3:
            raise ValueError(f"zero is 0, 1, 2 or 3, not {self.zero}")
        for name, known in (("offload", OFFLOADS), ("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if (given := getattr(self, name)) not in known:
                raise ValueError(f"{name} is one of {', '.join(map(repr, known))}, not {given!r}")
        if not re.fullmatch(LISTED, self.layers):
            raise ValueError(f"layers are those of each device of a pipeline, such as 7+8x14+7, not {self.layers!r}")

    @property
    def chips(self):
        """Chips that the axes take, pods apart."""
        return reduce(mul, (getattr(self, a) for a in AXES))

    @property
    def stages(self):
        """Stages of the pipeline: v on each device, on a V two."""
        return self.pp * self.v * (where(self.pp > 1, 2, 1) if self.schedule == "ZB-V" else 1)

    @property
    def device_layers(self) -> tuple[int, ...]:
        """Layers of each device, if they are listed.

        >>> Layout(pp=4, layers="7+8x2+7").device_layers
        (7, 8, 8, 7)
        """
        parts = ((*part.split("x"), "1")[:2] for part in self.layers.split("+") if part)
        return tuple(int(n) for n, times in parts for _ in range(int(times)))

    @property
    def shards(self):
        """Parts that the sequences of a batch are cut into, on TPUs."""
        return self.pods * self.dp * self.fsdp * self.ep

    def __str__(self) -> str:
        """What is not as without it.

        >>> str(Layout(fsdp=16, tp=4, policy="matmuls", stored=MASTER)), str(Layout())
        ('fsdp=16 tp=4 policy=matmuls stored.state=12', 'one chip')
        """
        return " ".join(_changed(self)) or "one chip"


@record
class Spelling:
    """What may stand behind a name in a layout that is typed: a whole number, one of `words`, or any word if these are None.

    before  what a layout has that does not say it
    """

    before: int | bool | str
    words: tuple[str, ...] | None = ()
    least: int = 1
    most: int | None = None

    @property
    def range(self) -> str:
        """What may be typed, in words.

        >>> [GRAMMAR[name].range for name in ("tp", "zero", "sequence_parallel")]
        ['a whole number from 1', '0, 1, 2 or 3', 'True or False']
        """
        words = [str(n) for n in range(self.least, self.most + 1)] if self.most is not None else self.words
        return f"{', '.join(words[:-1])} or {words[-1]}" if words else f"a whole number from {self.least}"

    def value(self, text: str) -> int | bool | str | None:
        """What a text means; None if it may not stand there."""
        if self.words is None:
            return text
        if self.words:
            return (text == "True" if isinstance(self.before, bool) else text) if text in self.words else None
        # Pages read the same texts: no digits but these, and no number that JavaScript would round.
        number = int(text) if re.fullmatch("[0-9]{1,7}", text) else -1
        return number if number >= self.least and (self.most is None or number <= self.most) else None


_WORDS = {
    "sequence_parallel": ("True", "False"), "overlaps_experts": ("True", "False"), "fp8_swiglu": ("True", "False"),
    "layers": None, "schedule": SCHEDULES, "policy": POLICY_NAMES, "products": None,
    "optimizer": OPTIMIZERS, "offload": OFFLOADS[1:],
}  # fmt: skip
GRAMMAR = {
    f.name: Spelling(f.default, _WORDS.get(f.name, ()), int(f.name not in FROM_ZERO), 3 if f.name == "zero" else None)
    for f in fields(Layout)
    if f.name != "stored"
}
"""The names of a layout that is typed, and what may stand behind each."""


@formula
def read(
    text: str, sentences: Mapping[str, str], grammar: Mapping[str, Spelling] = GRAMMAR
) -> dict[str, int | bool | str]:
    """What a layout says that is typed as tp=8,fsdp=4 or with spaces; ValueError with one of the sentences if it is nonsense.

    sentences  for "unknown", "twice" and "value", and for "elsewhere": a name of `GRAMMAR` that this grammar leaves out. They may
               quote {part}, {name}, {value}, {names} and {range}

    >>> read("tp=8, fsdp=4 policy=matmuls", {})
    {'tp': 8, 'fsdp': 4, 'policy': 'matmuls'}
    >>> read("zero=4", {"value": "{name} is {range}, not {value}"})
    Traceback (most recent call last):
    ValueError: zero is 0, 1, 2 or 3, not 4
    """
    values: dict[str, int | bool | str] = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, _, typed = part.partition("=")
        spelling, wrong = grammar.get(name), ""
        value = spelling.value(typed) if spelling else None
        if spelling is None:
            wrong = "elsewhere" if name in GRAMMAR else "unknown"
        elif not typed:
            wrong = "unknown"
        elif name in values:
            wrong = "twice"
        elif value is None:
            wrong = "value"
        if wrong:
            by = {"part": part, "name": name, "value": typed, "names": ", ".join(grammar)}
            raise ValueError(sentences[wrong].format(**by, range=spelling.range if spelling else ""))
        values[name] = value
    return values


@formula
def shared(layout: Layout, chip: Chip) -> Layout:
    """A layout whose `pods` are those that share the batch: a GPU's domains do not, its axes lie across them.

    >>> [shared(Layout(fsdp=16, pods=2), chip(name)).shards for name in ("v5e", "H100")]
    [32, 16]
    """
    return layout if chip.axes else replace(layout, pods=1)


def _changed(record, prefix: str = "") -> list[str]:
    """The fields of a record that are not as they are by default; of a record in it, its own."""
    out = []
    for f in fields(record):
        x = getattr(record, f.name)
        if isinstance(x, Bytes):
            out += _changed(x, f"{f.name}.")
        elif x != f.default:
            out.append(f"{prefix}{f.name}={x}")
    return out


def _spans(layout: Layout, tiers: tuple[Tier, ...]) -> Iterator[tuple]:
    """For each axis on each tier: both, where the tier begins, and from where to where the axis lies in it, or nowhere."""
    low = 1
    for axis in AXES:
        high, begin = low * getattr(layout, axis), 1
        for tier in tiers:
            end = begin * tier.n
            yield axis, tier, begin, maximum(low, begin), minimum(high, end)
            begin = end
        low = high


def _parts(layout: Layout, tiers: tuple[Tier, ...]) -> dict[str, list[tuple]]:
    """For each axis, on each tier: chips, stride, and whether the part goes once round."""
    out = {axis: [] for axis in AXES}
    for axis, tier, begin, start, stop in _spans(layout, tiers):
        n = maximum(stop / start, 1)
        stride = where(n > 1, start / begin, 1)
        out[axis].append((n, stride, tier.wraps & (n * stride == tier.n)))
    return out


@formula
def along(layout: Layout, units_per_tier) -> dict[str, list]:
    """Members that each axis has in each tier, if tiers have so many units: axes lie neighbours first.

    >>> along(Layout(tp=4, fsdp=32), (8, 4, 4))["fsdp"]
    [2.0, 4.0, 4.0]
    """
    over = tuple(Tier("ici", n, 0.0) for n in units_per_tier)
    return {axis: [n for n, _, _ in parts] for axis, parts in _parts(layout, over).items()}


@formula
def lies(layout: Layout, slice: Slice):
    """Whether every axis takes whole rows of the torus: each boundary between axes divides, or is divided by, the torus' own.

    >>> cube = Slice(chip("v5p"), (4, 4, 4))
    >>> lies(Layout(fsdp=16, tp=4), cube), lies(Layout(dp=2, fsdp=4, tp=8), cube), lies(Layout(tp=3, fsdp=64), cube)
    (True, True, False)
    """
    # A torus, whose copies pods are; a domain and the network.
    over, whole = tiers(slice) if slice.chip.axes else tiers(slice, layout.pods), True
    for _, _, begin, start, stop in _spans(layout, over):
        whole = whole & ((stop <= start) | ((start % begin == 0) & (stop % start == 0)))
    return whole


@formula
def groups(layout: Layout, slice: Slice) -> Callable[..., Group]:
    """The function that gives the chips along an axis, or along several together, by their names.

    >>> along = groups(Layout(fsdp=16, tp=4), Slice(chip("v5p"), (4, 4, 4)))       # tp has one ring of 4, fsdp two
    >>> along("tp").gather, along("fsdp").gather, along("tp", "fsdp").n
    (0.5, 0.25, 64.0)
    >>> along = groups(Layout(fsdp=32, tp=2), Slice(chip("v5p"), (4, 4, 4)))  # tp a pair, fsdp every second chip of that ring besides
    >>> along("tp").gather, round(along("fsdp").gather, 4)
    (0.5, 0.2153)
    """
    if not slice.chip.axes:
        return _through_switches(layout, slice.chip, slice.chips)
    parts = _parts(layout, tiers(slice))

    @cache
    def along(*axes: str) -> Group:  # links of several axes add up
        return on_torus(tuple(Axis(n, wraps, stride=stride) for axis in axes for n, stride, wraps in parts[axis]))

    return along


@formula
def groups_near(layout: Layout, chip: Chip) -> Callable[..., Group]:
    """The same where no slice is known: GPUs fill whole domains, and on a torus each axis of a layout is a block of rings.

    >>> along = groups_near(Layout(tp=4, dp=16), chip("H100"))
    >>> along("tp").domains, along("dp").domains, along("dp").gather                # two members of dp in a domain
    (1.0, 8.0, 0.5)
    """
    if chip.axes:
        return cache(lambda *axes: adjacent(chip, prod(getattr(layout, axis) for axis in axes)))
    return _through_switches(layout, chip, chip.pod[0])


def _through_switches(layout: Layout, chip: Chip, domain_size) -> Callable[..., Group]:
    """Through switches the members of several axes are those of one larger axis: some in a domain, the others apart."""
    size = {axis: getattr(layout, axis) for axis in AXES}
    inside, apart = {}, 1
    for axis, n in size.items():  # neighbours are `apart` chips from each other, as far as a domain reaches
        inside[axis] = 1 if plain(n) and n == 1 else maximum(minimum(n, domain_size / apart), 1.0)
        apart = apart * n

    @cache
    def along(*axes: str) -> Group:
        members = prod(inside[axis] for axis in axes)
        return in_domains(members, prod(size[axis] for axis in axes) / members, chip.neighbours)

    return along
