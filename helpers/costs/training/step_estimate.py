"""How long a training step takes, not at best but probably (chapter 4).

A bound takes every chip at its published rates. The estimate takes the list of a step's operations (`step_operations`), each
at a rate that its size and type reach (`operation_seconds`), adds what nothing hides of what is sent, launches, hops and the
host, and says how far off it may be. What a layer sends hides behind that layer, not behind the step.
Every number of a layout may be an array or a tracer.
"""

from dataclasses import dataclass
from math import prod

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config, LayerKind
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.training_memory_bytes import arrays
from helpers.numeric import maximum, minimum, plain, where

from .layout import AXES, Layout, shared
from .layout_collectives import Held, Send, held, sends
from .operation_seconds import TUNED, Pace, Software, published
from .pipeline_schedules import idle
from .step_estimate_constants import CONSTANTS, GENERATIONS, Constants
from .step_operations import Layer, Operations, operations, slowest_stage

LOGITS = 20  # bytes a logit: float32 and bf16, read and written by softmax and its gradient
KERNELS = 6  # launches of norms, rotations, additions, activation functions in a layer
GRADIENT, WEIGHT = 4, 2  # bytes a parameter that the optimizer reads, and writes
MUON_STEPS = 5  # of Newton and Schulz, three products each (Jordan et al. 2024)
HOST_ADAM = 2.6e-10  # seconds a parameter that a host's processors update: 10e9 in 2.57 s (Ren et al. 2021, "ZeRO-Offload", Table 4)
HOST_BYTES = 4  # bytes a parameter over PCIe then: the gradient down, the weight up, in bf16
BEHIND = 0.7  # of the last microbatch's backward pass, behind which sums of gradients can hide
SPREAD = {"always": 1.19, "experts": 1.2, "chip": 1.3}
"""Factors by which an interval goes to either side, so that three of four steps of a source that no constant has seen lie inside:
always; for experts, whose kernels and balance differ most between programs; for a chip without measured steps."""


@dataclass(frozen=True)
class Estimate:
    """Seconds of a step: `mid` is the estimate, [low, high] where the measured time should lie.

    parts    of `mid`, in seconds, which add up to it. "uneven": what the fullest stage has more than the mean; "bubble": stages that wait
    borrows  the chip whose shares of peak are taken, for want of measured steps; "" if it has some
    """

    low: float
    mid: float
    high: float
    parts: dict
    borrows: str = ""


@dataclass(frozen=True)
class LayerPrices:
    """Seconds of one layer in one microbatch, whatever is kept of it.

    there, back  kernels forward and backward
    attention    its part of both
    stream       norms and activation functions of the forward pass
    sends        its collectives, with the seconds of one run of each
    """

    there: float
    back: float
    attention: tuple
    stream: float
    sends: tuple[tuple[Send, float], ...]


@dataclass(frozen=True)
class Prices:
    """Seconds of what a step does, whatever its policy: `head` with the loss, `sums` of gradients over copies of the model,
    `handed` from a stage to the next in a microbatch."""

    at: Operations
    pace: Pace
    layers: tuple[LayerPrices, ...]
    head: float
    handed: float
    sums: float
    pods: float
    update: float


def prices(
    c: Config, chip: Chip, layout: Layout, at: Operations, software: Software = TUNED, k: Constants = CONSTANTS
) -> Prices:
    """What the operations of a step take on a chip."""
    layout, pace = shared(layout, chip), Pace(chip, software, layout.products, k)
    head = sum(pace.passes(at.head, "bf16")) + LOGITS * at.rows * c.V / layout.tp / pace.memory
    listed = sends(c, layout, at)
    layers = tuple(_layer(layer, some, layout, pace) for layer, some in zip(at.layers, listed.layers))
    handed = sum((one.forward + one.backward) * _run(one, layout, pace) for one in listed.stage)
    sums = sum(layer.count / layout.pp * _copied(of, layout) for layer, of in zip(at.layers, layers))
    update = _update(held(c, layout, at), layout, chip, pace) + _muon(at, layout, pace)
    pods = sum(2 * (1 - 1 / layout.pods) * one.bytes / pace.network for one in listed.pods)
    return Prices(at, pace, layers, head, handed, sums, pods, update)


def _layer(layer: Layer, some: tuple[Send, ...], layout: Layout, pace: Pace) -> LayerPrices:
    attention = pace.attention(layer.attention)
    products = [pace.passes(p, "bf16" if p.role == "router" else None) for p in layer.products]
    stream = [pace.stream(numbers, KERNELS) for numbers in layer.streamed]
    return LayerPrices(
        *(sum(p[i] for p in products) + attention[i] + stream[i] for i in (0, 1)),
        attention,
        stream[0],
        tuple((one, _run(one, layout, pace)) for one in some),
    )


def _run(one: Send, layout: Layout, pace: Pace):
    """Seconds of one run of a collective at the rates that are reached."""
    size = {a: getattr(layout, a) for a in AXES}
    n = prod(size[a] for a in one.axes)
    if one.kind == "Permute":
        return where(n > 1, one.bytes / _far(layout, pace) + pace.launch, 0.0)
    if one.kind == "AllToAll":
        return pace.exchange(one.bytes / n, n, one.copies)
    if one.axes == ("tp",):
        return (2 if one.kind == "AllReduce" else 1) * pace.around(one.bytes, n)
    before = AXES[: AXES.index(one.axes[-1])]
    inside = prod(size[a] for a in before if a not in one.axes)
    calls = pace.software.gathers if "fsdp" in one.axes else 1
    return (2 if one.kind == "AllReduce" else 1) * pace.ring(one.bytes, n, inside, calls)


def _parts(one: LayerPrices, layout: Layout, pace: Pace) -> dict:
    """Seconds of one layer under a policy: kernels, those done again, and of what it sends what nothing hides.

    Frameworks do the whole layer again; only a compiler sees that no gradient reads its last product.
    """
    soft = pace.software
    twice = {"everything": 0.0, "matmuls": one.attention[0] + one.stream}.get(layout.policy, one.there)
    waits = (pace.k.tensor if pace.gpu else pace.k.data) if soft.overlaps else 1.0

    def passes(what):  # seconds of both passes' collectives
        some = [(s.passes(layout.policy), each) for s, each in one.sends if what(s)]
        return tuple(sum((n[i] * each for n, each in some), 0.0) for i in (0, 1))

    def beside(sent, there, back):
        if not soft.overlaps:
            return sum(sent)
        return pace.k.data * sum(sent) + maximum(0.0, sent[0] - there) + maximum(0.0, sent[1] - back)

    return {
        "kernels": one.there + one.back,
        "again": twice,
        "tensor": sum(passes(lambda s: s.axes == ("tp",))) * waits * (0.5 if soft.overlaps_tp else 1.0),
        "experts": sum(passes(lambda s: s.what == "tokens")) * waits,
        "context": beside(passes(lambda s: s.what == "keys"), *one.attention),
        "weights": beside(passes(lambda s: "fsdp" in s.axes), one.there, one.back + twice),
    }


def _copied(one: LayerPrices, layout: Layout):
    """Seconds of the sums of a layer's gradients over copies of the model, and of gathering what they share."""
    some = [(s, each) for s, each in one.sends if s.what in ("weights", "gradients") and "fsdp" not in s.axes]
    return sum((s.update + s.backward * layout.microbatches) * each for s, each in some)


def _sums_run(layout: Layout):
    return where(layout.zero == 2, layout.microbatches, 1)


def _gradients(p: Prices, layout: Layout, last):
    """Seconds of sums of gradients that nothing hides; `last` are those of one microbatch's backward pass."""
    if not p.pace.software.overlaps:
        return p.sums + p.pods
    return maximum(0.0, p.sums - BEHIND * last * _sums_run(layout)) + p.pace.k.data * (p.sums + p.pods)


def _update(kept: Held, layout: Layout, chip: Chip, pace: Pace):
    """Seconds of the optimizer, on the fullest chip or on its host."""
    some = layout.zero >= 1
    mine = (
        kept.dense / where(some, layout.dp * layout.ep * layout.cp, 1)
        + kept.experts / where(some, layout.dp * layout.cp, 1)
    ) / layout.fsdp
    if layout.offload != "optimizer":
        return (GRADIENT + 2 * layout.stored.state + WEIGHT) * mine / pace.memory
    chips = layout.chips * layout.pods
    return mine * (HOST_BYTES / (_pcie(chip) * pace.k.link) + HOST_ADAM * minimum(chips, chip.chips_per_host))


def _muon(at: Operations, layout: Layout, pace: Pace):
    """Seconds of Muon's products: of a matrix a by b, a no longer than b, 4a²b + 2a³ FLOPs a step, shared as its state is."""
    if layout.optimizer != "Muon":
        return 0.0
    total = 0.0
    for layer in at.layers:
        for p in layer.products:
            a, b = minimum(p.n, p.k), maximum(p.n, p.k)
            total = total + layer.count * p.groups * (4 * a**2 * b + 2 * a**3)
    copies = layout.fsdp * where(layout.zero >= 1, layout.dp * layout.cp, 1)
    return MUON_STEPS * total / layout.pp / copies / pace.peak


def _pcie(chip: Chip) -> float:
    if not chip.pcie_bandwidth:
        raise ValueError(f"nobody publishes how fast a host reads a {chip.name}: leave offload out")
    return chip.pcie_bandwidth


def _check(c: Config, chip: Chip, layout: Layout, B) -> None:
    numbers = [getattr(layout, n) for n in ("dp", "fsdp", "ep", "pods", "microbatches", "tp", "pp", "v")]
    if not plain(B, *numbers):
        return
    parts = layout.shards * layout.microbatches
    if B < 1 or B % parts:
        least = max(1, -(-B // parts)) * parts
        raise ValueError(
            f"{B} sequences do not divide over {layout.shards} copies x {layout.microbatches} microbatches: take {least}"
        )
    if layout.stages > c.L + 2:  # an end of the pipeline may have a table of the vocabulary and no layer
        raise ValueError(
            f"{layout.stages} stages are more than L={c.L} layers and two tables: let pp·v be {c.L} or less"
        )
    if c.N % layout.tp:
        raise ValueError(f"tp={layout.tp} does not divide N={c.N} heads: take a divisor")
    room = prod(chip.pod)
    if chip.axes and layout.chips > room:
        pods = -(-layout.chips // room)
        raise ValueError(
            f"{layout.chips} chips are more than the {room} of a {chip.name} pod: let {pods} pods share the batch"
        )
    if layout.ep > 1 and not c.moe:
        raise ValueError(f"ep={layout.ep}, and the model has no experts: leave it out")
    if c.moe and c.moe.E % layout.ep:
        raise ValueError(f"ep={layout.ep} does not divide E={c.moe.E} experts: take a divisor")


def step_seconds(
    c: Config,
    chip: Chip,
    layout: Layout,
    B,
    T,
    software: Software = TUNED,
    k: Constants = CONSTANTS,
    known: Prices | None = None,
) -> Estimate:
    """Seconds of a training step on B sequences of T tokens, on as many chips as the layout takes.

    known  its `prices`, if they are known already; then `software` and `k` are theirs

    >>> from helpers.costs.rooflines.chips import chip
    >>> gpt3 = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)
    >>> at = Layout(tp=8, pp=8, schedule="interleaved", v=3, microbatches=64, sequence_parallel=False)
    >>> e = step_seconds(gpt3, chip("A100"), at, B=64, T=2048, software=Software(attention="stored"))
    >>> e.low < e.mid < e.high
    True
    """
    layout = shared(layout, chip)
    _check(c, chip, layout, B)
    p = known or prices(c, chip, layout, operations(c, layout, B, T), software, k)
    parts = _step(c, chip, layout, p)
    mid = sum(parts.values())
    wide, measured = _spread(c, chip), chip.name in GENERATIONS
    return Estimate(mid / wide, mid, mid * wide, parts, "" if measured else "H100" if p.pace.gpu else "v5e")


def _step(c: Config, chip: Chip, layout: Layout, p: Prices) -> dict:
    """Seconds of a step by what takes them."""
    at, pace, shares = p.at, p.pace, [layer.count / c.L for layer in p.at.layers]
    some = [_parts(one, layout, pace) for one in p.layers]
    one = {name: sum(share * of[name] for share, of in zip(shares, some)) for name in some[0]}
    each, forward = sum(one.values()), sum(share * layer.there for share, layer in zip(shares, p.layers))
    stage, even = slowest_stage(c, each, p.head, layout), c.L / layout.pp * each
    there, back = c.L / layout.pp * forward, c.L / layout.pp * (each - forward)
    whole = c.L % layout.stages == 0
    last = where(whole, p.head, p.head / layout.pp)  # of a stage that is as full as the others
    return {name: at.rounds * c.L / layout.pp * seconds for name, seconds in one.items()} | {
        "unembedding": at.rounds * last,
        "uneven": where(whole, 0.0, at.rounds * maximum(stage - even - last, 0.0)),
        "sends": at.rounds * p.handed,
        "bubble": idle(layout.schedule, layout.pp, at.rounds, layout.v, there, back / 2, back / 2),
        "gradients": _gradients(p, layout, back),
        "update": p.update,
        "host": _host(c, layout, at, chip, pace, at.rounds * (stage + p.handed)),
    }


def _far(layout: Layout, pace: Pace):
    """Bytes/s between two stages."""
    if not pace.gpu:
        return 2 * pace.link
    return where(layout.chips <= pace.chip.pod[0], pace.link, pace.network)


def _host(c: Config, layout: Layout, at: Operations, chip: Chip, pace: Pace, passes):
    """Seconds that nothing hides of taking kept activations down to the host and up again; most hides behind the passes."""
    if layout.offload != "activations":
        return 0.0
    kept = sum(arrays(c, LayerKind(), layout.policy, 1).values())
    moved = 4 * at.rounds * at.rows * kept * c.L / layout.pp / layout.tp / (_pcie(chip) * pace.k.link)
    return moved * pace.k.data + maximum(0.0, moved * (1 - pace.k.data) - passes * 2 / 3)


def _spread(c: Config, chip: Chip) -> float:
    """Factor from the estimate to either end of its interval."""
    unknown = {"always": True, "experts": c.moe is not None, "chip": chip.name not in GENERATIONS}
    return prod(SPREAD[name] for name, on in unknown.items() if on)


def utilisation(c: Config, chip: Chip, layout: Layout, B, T, seconds, count: str = "causal") -> tuple:
    """(MFU, HFU) of a step that takes so long: FLOPs of products, without and with what is computed again, over what all chips
    do at the peak rate of `layout.products`.

    count  pairs of query and key: "causal" what the mask leaves, so that neither passes 1; papers often have "all"

    >>> from helpers.costs.rooflines.chips import chip
    >>> gpt = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)    # MFU 51.4 % (Korthikanti et al. 2022)
    >>> at = Layout(tp=8, pp=8, policy="matmuls")
    >>> [f"{x:.1%}" for x in utilisation(gpt, chip("A100"), at, 64, 2048, 13.75, count="all")]
    ['51.4%', '51.8%']
    """
    peak = seconds * layout.chips * shared(layout, chip).pods * published(chip, layout.products)
    whole = operations(c, Layout(), B, T)  # on one device, which copies no KV heads
    once, again = 3 * whole.forward(count), whole.again(layout.policy, count)
    return once / peak, (once + again) / peak


def six_nd_seconds(c: Config, chip: Chip, layout: Layout, B, T, share=0.4):
    """A baseline: 6 FLOPs for each parameter that a token meets, and token, at 40 % of peak."""
    return 6.0 * parameters(c).active * B * T / (share * chip.rate("bf16") * layout.chips * layout.pods)


def half_of_peak_seconds(c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED, share=0.5):
    """A baseline that is hard to beat: all FLOPs, those done again too, at half of peak, times the pipeline's bubble."""
    pods = shared(layout, chip).pods
    f = flops(c, B, T, count="all" if software.attention == "stored" else "half")
    again = {"everything": 0.0, "matmuls": f.attention}.get(layout.policy, f.layers)
    bubble = (layout.pp - 1) / (layout.v * layout.microbatches)
    rate = published(chip, layout.products)
    return 1.0 * (f.train + again) / (share * rate * layout.chips * pods) * (1 + bubble)


entries(__name__)
