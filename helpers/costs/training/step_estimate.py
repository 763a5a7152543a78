"""How long a training step takes, not at best but probably (chapter 4).

A bound takes every chip at its published rates. The estimate takes the list of a step's operations (`step_operations`), each
at a rate that its size and type reach (`operation_seconds`), adds what nothing hides of what is sent, launches, hops and the
host, and says how far off it may be. What a layer sends hides behind that layer, not behind the step.
Every number of a layout may be an array or a tracer.
"""

from dataclasses import dataclass, replace
from math import prod

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config, LayerKind
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.training_memory_bytes import arrays, recomputed
from helpers.numeric import ceil, maximum, minimum, plain, where

from .layout import Layout
from .operation_seconds import TUNED, WIDE, Pace, Software
from .pipeline_schedules import idle
from .step_estimate_constants import CONSTANTS, GENERATIONS, Constants
from .step_operations import Layer, operations

LOGITS = 20  # bytes a logit: float32 and bf16, read and written by softmax and its gradient
KERNELS = 6  # launches of norms, rotations, additions, activation functions in a layer
ADAM = 30  # bytes a parameter that an update reads or writes: gradient 4, two moments and a float32 copy 24, weight 2
GRADIENT, WEIGHT = 4, 2  # bytes a parameter that copies of the model sum, and gather
HOST_ADAM = 2.6e-10  # seconds a parameter that a host's processors update: 10e9 in 2.57 s (Ren et al. 2021, "ZeRO-Offload", Table 4)
HOST_BYTES = 4  # bytes a parameter over PCIe then: the gradient down, the weight up, in bf16
BEHIND = 0.7  # of the last microbatch's backward pass, behind which sums of gradients can hide
SPREAD = {"always": 1.19, "experts": 1.2, "chip": 1.3}
"""Factors by which an interval goes to either side, so that three of four steps of a source that no constant has seen lie inside:
always; for experts, whose kernels and balance differ most between programs; for a chip without measured steps."""


@dataclass(frozen=True)
class Estimate:
    """Seconds of a step: `mid` is the estimate, [low, high] where the measured time should lie.

    parts    of `mid`, in seconds, which add up to it. "bubble": stages that wait
    borrows  the chip whose shares of peak are taken, for want of measured steps; "" if it has some
    """

    low: float
    mid: float
    high: float
    parts: dict
    borrows: str = ""


def _kernels(layer: Layer, layout: Layout, pace: Pace):
    """Seconds of one layer's kernels forward, backward, and what the backward pass does again; and of attention, both ways."""
    attention = pace.attention(layer.attention)
    products = [pace.passes(p, "bf16" if p.role == "router" else None) for p in layer.products]
    stream = [pace.stream(numbers, KERNELS) for numbers in layer.streamed]
    forward, backward = (sum(p[i] for p in products) + attention[i] + stream[i] for i in (0, 1))
    again = {"everything": 0.0, "matmuls": attention[0] + stream[0]}.get(layout.policy, forward)
    return forward, backward, again, attention


def _seen(c: Config, layer: Layer, layout: Layout, pace: Pace, forward, backward, attention) -> dict:
    """Seconds that nothing hides of what one layer sends, by what it is. `backward` has in it what is done again."""
    soft, tp, twice = pace.software, layout.tp, layout.policy in ("block", "nothing")
    waits = (pace.k.tensor if pace.gpu else pace.k.data) if soft.overlaps else 1.0
    shown = pace.k.data if soft.overlaps else 1.0
    times = 8 + 2 * layout.sequence_parallel + 4 * twice
    tensor = times * pace.around(2 * layer.block, tp) * waits * (0.5 if soft.overlaps_tp else 1.0)
    experts = 0.0
    if layer.kind.moe:
        experts = (4 + 2 * twice) * waits * pace.exchange(2 * layer.routed, layout.ep * tp, c.moe.k)

    def beside(each, there, back):  # one of them hides behind the forward pass, two behind the backward one
        late = maximum(0.0, each - there) + maximum(0.0, 2 * each - back)
        return 3 * each * shown + (late if soft.overlaps else 0.0)

    keys = pace.ring(2 * layer.keys, layout.cp, tp)
    copies = layout.dp * layout.cp * layout.ep
    whole = layout.zero == 3  # what copies of the model hold is cut over them too
    over, inside = layout.fsdp * where(whole, copies, 1), tp * where(whole, 1, layout.cp * layout.ep)
    gather = pace.ring(WEIGHT * layer.weights, over, inside, soft.gathers)
    return {
        "tensor": tensor,
        "experts": experts,
        "context": where(layout.cp > 1, beside(keys, *attention), 0.0),
        "weights": where(over > 1, beside(gather, forward, backward), 0.0),
    }


def _gradients(weights, experts, table, layout: Layout, pace: Pace, last):
    """Seconds that nothing hides of the sums of gradients over copies of the model, and of gathering what they share.

    last  seconds of one microbatch's backward pass. With zero=2 gradients are scattered after each, with zero=3 layer by layer
    """
    times = where(layout.zero == 2, layout.microbatches, 1)
    each = where(layout.zero == 0, 2 * GRADIENT, GRADIENT * times + WEIGHT) / layout.fsdp
    inside = layout.tp * layout.fsdp
    dense = pace.ring(each * (weights - experts + table), layout.dp * layout.ep * layout.cp, inside)
    routed = pace.ring(each * experts, layout.dp * layout.cp, inside * layout.ep)
    both = where(layout.zero == 3, 0.0, dense + routed)
    pods = (layout.pods - 1) / layout.pods * 2 * GRADIENT * (weights + table) / layout.fsdp / pace.network
    if not pace.software.overlaps:
        return both + pods
    return maximum(0.0, both - BEHIND * last * times) + pace.k.data * (both + pods)


def _update(c: Config, weights, experts, table, layout: Layout, chip: Chip, pace: Pace):
    """Seconds of the optimizer, on the chip or on its host."""
    some = layout.zero >= 1
    dense = (weights - experts + table) / where(some, layout.dp * layout.ep * layout.cp, 1)
    mine = (dense + experts / where(some, layout.dp * layout.cp, 1)) / layout.fsdp
    if layout.offload != "optimizer":
        return ADAM * mine / pace.memory
    chips = layout.chips * layout.pods
    return mine * (HOST_BYTES / (_pcie(chip) * pace.k.link) + HOST_ADAM * minimum(chips, chip.chips_per_host))


def _pcie(chip: Chip) -> float:
    if not chip.pcie_bandwidth:
        raise ValueError(f"nobody publishes how fast a host reads a {chip.name}: leave offload out")
    return chip.pcie_bandwidth


def _stage(c: Config, layer, head, layout: Layout):
    """Seconds of the slowest stage. Where layers do not divide, the stage with the unembedding gets fewer."""
    chunks = layout.pp * layout.v
    even = c.L / layout.pp * layer
    most = ceil(c.L / chunks) * layout.v * layer
    return where(c.L % chunks == 0, even + head, maximum(most, even + head / layout.pp))


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
    if layout.pp * layout.v > c.L + 2:  # an end of the pipeline may have a table of the vocabulary and no layer
        raise ValueError(
            f"{layout.pp * layout.v} stages are more than L={c.L} layers and two tables: let pp·v be {c.L} or less"
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


def step_seconds(
    c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED, k: Constants = CONSTANTS
) -> Estimate:
    """Seconds of a training step on B sequences of T tokens, on as many chips as the layout takes.

    >>> from helpers.costs.rooflines.chips import chip
    >>> gpt3 = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)
    >>> at = Layout(tp=8, pp=8, schedule="interleaved", v=3, microbatches=64, sequence_parallel=False)
    >>> e = step_seconds(gpt3, chip("A100"), at, B=64, T=2048, software=Software(attention="stored"))
    >>> e.low < e.mid < e.high
    True
    """
    if chip.axes == 0:
        layout = replace(layout, pods=1)  # a GPU's domains are no copies: the axes lie across them
    _check(c, chip, layout, B)
    pace, at = Pace(chip, software, layout.products, k), operations(c, layout, B, T)
    one: dict = dict.fromkeys(("kernels", "again", "tensor", "experts", "context", "weights"), 0.0)
    forward = weights = experts = 0.0
    for layer in at.layers:
        share = layer.count / c.L
        there, back, again, attention = _kernels(layer, layout, pace)
        of = {"kernels": there + back, "again": again} | _seen(c, layer, layout, pace, there, back + again, attention)
        one = {name: one[name] + share * of[name] for name in one}
        forward = forward + share * there
        weights, experts = weights + layer.count * layer.weights, experts + layer.count * layer.experts
    each = sum(one.values())
    head = sum(pace.passes(at.head, "bf16")) + LOGITS * at.rows * c.V / layout.tp / pace.memory
    stage, even = _stage(c, each, head, layout), c.L / layout.pp * each
    sends = where(layout.pp > 1, layout.v * (2 * at.rows * c.D / layout.tp / _far(layout, pace) + k.latency), 0.0)
    passes = at.rounds * (stage + sends)
    there, back = c.L / layout.pp * forward, c.L / layout.pp * (each - forward)
    waits = idle(layout.schedule, layout.pp, at.rounds, layout.v, there, back / 2, back / 2)
    held = weights / layout.pp, experts / layout.pp, c.V * c.D / layout.tp
    moved = _kept_on_host(c, layout, at.rows, at.rounds, chip, pace)
    late = moved * k.data + maximum(0.0, moved * (1 - k.data) - passes * 2 / 3)
    parts = {name: at.rounds * c.L / layout.pp * seconds for name, seconds in one.items()}
    parts |= {
        "unembedding": passes - at.rounds * (even + sends),
        "sends": at.rounds * sends,
        "bubble": waits,
        "gradients": _gradients(*held, layout, pace, back),
        "update": _update(c, *held, layout, chip, pace),
        "host": late,
    }
    mid = sum(parts.values())
    wide = _spread(c, chip)
    known = chip.name in GENERATIONS
    return Estimate(mid / wide, mid, mid * wide, parts, "" if known else "H100" if pace.gpu else "v5e")


def _far(layout: Layout, pace: Pace):
    """Bytes/s between two stages."""
    if not pace.gpu:
        return 2 * pace.link
    return where(layout.chips <= pace.chip.pod[0], pace.link, pace.network)


def _kept_on_host(c: Config, layout: Layout, rows, rounds, chip: Chip, pace: Pace):
    """Seconds to take kept activations down to the host and up again."""
    if layout.offload != "activations":
        return 0.0
    kept = sum(arrays(c, LayerKind(), layout.policy, 1).values())
    return 4 * rounds * rows * kept * c.L / layout.pp / layout.tp / (_pcie(chip) * pace.k.link)


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
    pods = 1 if chip.axes == 0 else layout.pods
    peak = seconds * layout.chips * pods * chip.rate(WIDE.get(layout.products, layout.products))
    once, again = flops(c, B, T, count=count).train, recomputed(c, B, T, layout.policy, count)
    return once / peak, (once + again) / peak


def six_nd_seconds(c: Config, chip: Chip, layout: Layout, B, T, share=0.4):
    """A baseline: 6 FLOPs for each parameter that a token meets, and token, at 40 % of peak."""
    return 6.0 * parameters(c).active * B * T / (share * chip.rate("bf16") * layout.chips * layout.pods)


def half_of_peak_seconds(c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED, share=0.5):
    """A baseline that is hard to beat: all FLOPs, those done again too, at half of peak, times the pipeline's bubble."""
    pods = 1 if chip.axes == 0 else layout.pods
    f = flops(c, B, T, count="all" if software.attention == "stored" else "half")
    again = {"everything": 0.0, "matmuls": f.attention}.get(layout.policy, f.layers)
    bubble = (layout.pp - 1) / (layout.v * layout.microbatches)
    rate = chip.rate(WIDE.get(layout.products, layout.products))
    return 1.0 * (f.train + again) / (share * rate * layout.chips * pods) * (1 + bubble)


entries(__name__)
