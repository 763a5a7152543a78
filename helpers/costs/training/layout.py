"""How a training step lies over chips: a `Layout`, and the wires that each of its axes gets (chapter 4).

The axes of a layout lie along the slice in one order, neighbours first: tp, cp, ep, fsdp, dp, pp, as in a mesh whose
last axis is tp. An axis that takes a whole axis of the torus has its ring; one that takes a part has a line, and one
that takes every s-th chip shares links with s-1 others like it.
GPUs: an axis lies inside an NVSwitch domain as far as it can and goes over the network beyond; `pods` counts the domains,
and the other axes lie across them. On TPUs pods are copies of the slice, which share the batch over the network.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from math import prod
from operator import mul

from helpers.arguments import Count, entries
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.tiers import Tier, tiers
from helpers.numeric import floor, maximum, minimum, plain, where

from .pipeline_orders import SCHEDULES

AXES = ("tp", "cp", "ep", "fsdp", "dp", "pp")
NUMBERS = (*AXES, "pods", "zero", "microbatches", "v")
OFFLOADS = ("", "activations", "optimizer")
OPTIMIZERS = ("Adam", "Muon")


def divisors(n: Count) -> list[int]:
    """What divides n, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return low + [n // d for d in reversed(low) if d * d != n]


@dataclass(frozen=True)
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
ADAM8 = Bytes(state=2)
"""Two moments of 8 bits each (Dettmers et al., "8-bit Optimizers", 2022); their scales, four bytes for 2048 numbers, are left out."""
MUON = Bytes(state=4)
"""One momentum in float32, for all matrices (Jordan et al., "Muon", 2024); tables of the vocabulary have Adam's two in fact."""


@dataclass(frozen=True)
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
    schedule  of the pipeline, if pp > 1: `pipeline_orders.SCHEDULES`
    policy    what is kept for the backward pass: `training_memory_bytes.POLICIES`; T·S weights only if attention stores them
    sequence_parallel  between blocks tp shares the tokens; without it each of its chips has them all
    products  the type in which products with weights multiply: "bf16", "fp8", "mxfp8", "nvfp4", "int8"
    stored    bytes of what is stored, which is another matter: `BF16`, `MASTER`, `ADAM8`, `MUON`
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

    def __post_init__(self):
        for name in NUMBERS:
            x, least = getattr(self, name), int(name != "zero")
            if isinstance(x, bool | str) or x is None or (plain(x) and (x != int(x) or x < least)):
                raise ValueError(f"{name} is a whole number of {least} or more, got {x!r}")
        if plain(self.zero) and self.zero > 3:
            raise ValueError(f"zero is 0, 1, 2 or 3, not {self.zero}")
        for name, known in (("offload", OFFLOADS), ("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if (given := getattr(self, name)) not in known:
                raise ValueError(f"{name} is one of {', '.join(map(repr, known))}, not {given!r}")

    @property
    def chips(self):
        """Chips that the axes take, pods apart."""
        return reduce(mul, (getattr(self, a) for a in AXES))

    @property
    def stages(self):
        """Stages of the pipeline: v on each device, on a V two."""
        return self.pp * self.v * (where(self.pp > 1, 2, 1) if self.schedule == "ZB-V" else 1)

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


def shared(layout: Layout, chip: Chip) -> Layout:
    """A layout whose `pods` are those that share the batch: a GPU's domains do not, its axes lie across them.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [shared(Layout(fsdp=16, pods=2), chip(name)).shards for name in ("v5e", "H100")]
    [32, 16]
    """
    return layout if chip.axes else replace(layout, pods=1)


def _changed(of, where: str = "") -> list[str]:
    """The fields of a record that are not as they are by default; of a record in it, its own."""
    out = []
    for f in fields(of):
        x = getattr(of, f.name)
        if isinstance(x, Bytes):
            out += _changed(x, f"{f.name}.")
        elif x != f.default:
            out.append(f"{where}{f.name}={x}")
    return out


@dataclass(frozen=True)
class Wires:
    """What the chips along one axis, or along several, reach together.

    n          chips
    rate       bytes/s of an AllGather: bytes of the gathered array over its seconds, as links carry it
    ports      bytes/s that the worst-placed chip can receive
    hops       one after the other
    across     seconds for each byte of an AllToAll, of all shards together
    neighbour  seconds for each byte that every chip sends to the next one
    sum_rate   bytes/s of an AllReduce, as links carry it; `out` of a chip, on average; `sum_hops` one after the other
    far        seconds of `across` that are the network's between so many domains
    """

    n: float
    rate: float
    ports: float
    hops: float
    across: float
    neighbour: float
    sum_rate: float
    out: float
    sum_hops: float
    far: float = 0.0
    domains: float = 1.0

    def swap(self, copies):
        """Seconds for each byte of an AllToAll of tokens, so many copies of each: one is enough for a domain.

        A domain gets none of a token's copies with probability (1 - 1/domains)^copies.
        """
        reached = self.domains * (1 - (1 - 1 / self.domains) ** copies) / copies
        return self.across - self.far * (1 - reached)

    @cached_property
    def sum(self):
        """Seconds for each byte of an AllReduce: `costs.sharding.collectives.all_reduce`, and twice `gather` on rings."""
        more = self.n > 1
        sends = 2 * (1 - 1 / self.n)
        return where(more, maximum(1 / where(more, self.sum_rate, 1.0), sends / where(more, self.out, 1.0)), 0.0)

    @cached_property
    def gather(self):
        """Seconds for each byte of the whole array of an AllGather or ReduceScatter."""
        more = self.n > 1
        return where(
            more, maximum(1 / where(more, self.rate, 1.0), (1 - 1 / self.n) / where(more, self.ports, 1.0)), 0.0
        )


def _tiers(s: Slice, pods) -> tuple[Tier, ...]:
    """The axes of the torus, whose copies pods are; of GPUs the NVLink domain, and the network over which axes lie on."""
    return tiers(s) if s.chip.axes else tiers(s, pods)


def _parts(layout: Layout, over: tuple[Tier, ...]) -> dict[str, list[tuple]]:
    """For each axis, on each tier: chips, stride, and whether the part goes once round."""
    out, low = {}, 1
    for axis in AXES:
        high = low * getattr(layout, axis)
        parts, begin = [], 1
        for tier in over:
            end = begin * tier.n
            first = maximum(low, begin)
            n = maximum(minimum(high, end) / first, 1)
            stride = where(n > 1, first / begin, 1)
            parts.append((n, stride, tier.wraps & (n * stride == tier.n)))
            begin = end
        out[axis], low = parts, high
    return out


def along(layout: Layout, tiers_of) -> dict[str, list]:
    """Members that each axis has in each tier, if tiers have so many units: axes lie neighbours first.

    >>> along(Layout(tp=4, fsdp=32), (8, 4, 4))["fsdp"]
    [2.0, 4.0, 4.0]
    """
    over = tuple(Tier("ici", n, 0.0) for n in tiers_of)
    return {axis: [n for n, _, _ in parts] for axis, parts in _parts(layout, over).items()}


def lies(layout: Layout, s: Slice):
    """Whether every axis takes whole rows of the torus: each boundary between axes divides, or is divided by, the torus' own.

    >>> from helpers.costs.rooflines.chips import chip
    >>> cube = Slice(chip("v5p"), (4, 4, 4))
    >>> lies(Layout(fsdp=16, tp=4), cube), lies(Layout(dp=2, fsdp=4, tp=8), cube), lies(Layout(tp=3, fsdp=64), cube)
    (True, True, False)
    """
    ok, low = True, 1
    for axis in AXES:
        high = low * getattr(layout, axis)
        begin = 1
        for tier in _tiers(s, layout.pods):
            end = begin * tier.n
            first, last = maximum(low, begin), minimum(high, end)
            ok = ok & ((last <= first) | ((first % begin == 0) & (last % first == 0)))
            begin = end
        low = high
    return ok


def wires(layout: Layout, s: Slice) -> dict[str, Wires]:
    """The wires of each axis, by its name.

    >>> from helpers.costs.rooflines.chips import chip
    >>> cube = Slice(chip("v5p"), (4, 4, 4))
    >>> w = wires(Layout(fsdp=16, tp=4), cube)           # tp has one ring of 4, fsdp two
    >>> w["tp"].rate / 1.8e11, w["fsdp"].rate / 1.8e11
    (1.0, 2.0)
    >>> w = wires(Layout(fsdp=32, tp=2), cube)           # tp a pair, and fsdp every second chip of that ring besides
    >>> w["tp"].rate / 9e10, w["fsdp"].rate / 9e10
    (2.0, 5.0)
    """
    over = _tiers(s, layout.pods)
    build, speeds = (_over_torus, (over[0].W,)) if s.chip.axes else (_over_switches, (over[0].W, over[1].W))
    return {axis: build(parts, *speeds) for axis, parts in _parts(layout, over).items()}


def _over_torus(parts, W) -> Wires:
    """Rings and lines at once; a part of stride s has 1/s of each link."""
    rate = ports = hops = across = neighbour = sum_rate = out = sum_hops = 0.0
    whole = prod(n for n, _, _ in parts)
    for n, stride, wraps in parts:
        more = n > 1
        steps = where(wraps, floor(n / 2), n - 1)
        rate = rate + where(more, n / (maximum(steps, 1) * stride), 0.0)
        ports = ports + where(more, where(wraps & (n > 2), 2, 1) / stride, 0.0)
        hops = hops + steps * stride
        blocks = where(wraps & (n > 2), (n * n - n % 2) / 8, floor(n / 2) * (n - floor(n / 2)))
        across = maximum(across, where(more, blocks / (n * whole) * stride, 0.0))
        neighbour = maximum(neighbour, where(more, stride, 0.0))
        ring = wraps & (n > 2)
        sum_rate = sum_rate + where(more, where(ring, n / (2 * maximum(steps, 1)), 1.0) / stride, 0.0)
        out = out + where(more, where(ring, 2.0, 2 * (n - 1) / n) / stride, 0.0)
        sum_hops = sum_hops + where(ring, 2 * steps, n - 1) * stride
    return Wires(whole, rate * W, ports * W, hops, across / W, neighbour / W, sum_rate * W, out * W, sum_hops)


def _over_switches(parts, W, network) -> Wires:
    """Inside a domain every GPU has W bytes/s; what lies across domains gathers over the network first."""
    (inside, _, _), (outside, _, _) = parts
    whole = inside * outside
    seconds = (1 - 1 / inside) / W + (1 - 1 / outside) / inside / network
    rate = where(whole > 1, 1 / where(whole > 1, seconds, 1.0), 0.0)
    far = (1 - 1 / outside) / network / whole
    across = (1 - 1 / inside) / W / whole + far
    neighbour = where(outside > 1, 1 / network, where(inside > 1, 1 / W, 0.0))
    ports, hops = where(whole > 1, W, 0.0), (inside > 1) + 2 * (outside > 1)
    return Wires(whole, rate, ports, hops, across, neighbour, rate / 2, ports, 2 * hops, far, outside)


def together(some: Iterable[Wires], torus: bool) -> Wires:
    """Several axes as one; inner axes first.

    On a torus their links add up. Through a switch they go over the same one: the outer axis gathers first, and the inner
    ones then all of it. An AllToAll takes as long as its slowest axis at least, each byte of which is cut by the others.
    """
    some = list(some)
    n = reduce(mul, (w.n for w in some))
    hops = sum(w.hops for w in some)
    across, far = (maximum(*(getattr(w, name) * w.n for w in some)) / n for name in ("across", "far"))
    if torus:
        sums = [sum(getattr(w, name) for w in some) for name in ("sum_rate", "out", "sum_hops")]
        return Wires(n, sum(w.rate for w in some), sum(w.ports for w in some), hops, across, 0.0, *sums)
    seconds, inner = 0.0, 1
    for w in some:
        seconds, inner = seconds + w.gather / inner, inner * w.n
    rate = where(n > 1, 1 / where(n > 1, seconds, 1.0), 0.0)
    domains = reduce(mul, (w.domains for w in some))
    return Wires(n, rate, rate, hops, across, 0.0, rate / 2, rate, 2 * hops, far, domains)


entries(__name__)
