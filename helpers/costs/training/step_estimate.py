"""How long a training step takes, not at best but probably (chapter 4).

A bound takes every chip at its published rates. The estimate takes the list of a step's operations (`step_operations`), each
at a rate that its size and type reach (`operation_seconds`), adds what nothing hides of what is sent, launches, hops and the
host, and says how far off it may be. What a layer sends hides behind that layer, not behind the step.
Every number of a layout may be an array or a tracer.
"""

from math import prod

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding.collective_prices import in_domains
from helpers.costs.transformers.config import Config, LayerKind
from helpers.costs.transformers.training_memory_bytes import arrays
from helpers.numeric import maximum, minimum, sqrt, where

from .layout import Layout, groups_near, shared
from .layout_set import check, divides, slowest_stage
from .operation_seconds import CONSTANTS, TUNED, Constants, Pace, Software, published
from .pipeline_schedules import idle
from .step_operations import Layer, Operations, Send, operations

LOGITS = 20  # bytes a logit: float32 and bf16, read and written by softmax and its gradient
KERNELS = 6  # launches of norms, rotations, additions, activation functions in a layer
GRADIENT, WEIGHT = 4, 2  # bytes a parameter that the optimizer reads, and writes
MUON_STEPS = 5  # of Newton and Schulz, three products each (Jordan et al. 2024)
HOST_ADAM = 2.6e-10  # seconds a parameter that a host's processors update: 10e9 in 2.57 s (Ren et al. 2021, "ZeRO-Offload", Table 4)
HOST_BYTES = 4  # bytes a parameter over PCIe then: the gradient down, the weight up, in bf16
BEHIND = 0.7  # of the last microbatch's backward pass, behind which sums of gradients can hide: chosen, not fitted
SPREAD = {"always": 1.19, "experts": 1.2, "chip": 1.3}
"""Factors by which an interval goes to either side, so that three of four steps of a source that no constant has seen lie inside:
always; for experts, whose kernels and balance differ most between programs; for a chip without measured steps."""


@record
class Estimate:
    """Seconds of a training step, or of a server's: `mid` is the estimate, [low, high] where the measured time should lie.

    parts    of `mid`, in seconds, which add up to it. "uneven": what the fullest stage has more than the mean; "bubble": stages that wait
    borrows  the chip whose shares of peak are taken, for want of measured steps; "" if it has some
    """

    low: float
    mid: float
    high: float
    parts: dict
    borrows: str = ""


@record
class LayerPrices:
    """Seconds of one layer in one microbatch, whatever is kept of it.

    forward, backward  kernels of either pass
    attention    its part of both
    stream       norms and activation functions of the forward pass
    latent       up-projections of it
    sends        its collectives, with the seconds of one run of each, and whether it leaves a domain's cards alone
    """

    forward: float
    backward: float
    attention: tuple
    stream: float
    latent: float
    sends: tuple[tuple[Send, float, int], ...]


@record
class Prices:
    """Seconds of what a step does, whatever its policy: `head` with the loss, `sums` of gradients over copies of the model,
    `handed` from a stage to the next in a microbatch."""

    operations: Operations
    pace: Pace
    layers: tuple[LayerPrices, ...]
    head: float
    handed: float
    sums: float
    pods: float
    update: float


@formula
def prices(
    c: Config, chip: Chip, layout: Layout, ops: Operations, software: Software = TUNED, constants=CONSTANTS
) -> Prices:
    """What the operations of a step take on a chip."""
    layout, pace = shared(layout, chip), Pace(chip, software, layout.products, constants)
    along = groups_near(layout, chip)
    layers = tuple(_layer(layer, pace, along) for layer in ops.layers)
    head = sum(pace.passes(ops.head, "bf16")) + LOGITS * ops.rows * c.V / layout.tp / pace.memory
    handed = sum((send.forward + send.backward) * pace.send(send, along(*send.axes)) for send in ops.handed)
    sums = 0.0  # of gradients over copies of the model, and gathers of what these share
    for layer, priced in zip(ops.layers, layers):
        runs = sum(
            (send.update + (send.backward * layout.microbatches if "fsdp" not in send.axes else 0)) * seconds
            for send, seconds, _ in priced.sends
            if send.role in ("weights", "gradients")
        )
        sums = sums + layer.count / layout.pp * runs
    pods = sum(pace.send(send, in_domains(1, layout.pods)) for send in ops.pods)
    update = _update(ops, layout, chip, pace) + _muon(ops, layout, pace)
    return Prices(ops, pace, layers, head, handed, sums, pods, update)


def _layer(layer: Layer, pace: Pace, groups_along) -> LayerPrices:
    attention = pace.attention(layer.attention)
    products = [pace.passes(p, "bf16" if p.role == "router" else None) for p in layer.products]
    stream = [pace.stream(numbers, KERNELS) for numbers in layer.streamed]
    forward, backward = (sum(p[i] for p in products) + attention[i] + stream[i] for i in (0, 1))
    if layer.kind.moe and pace.gpu:  # between full overlap of host and chip and none
        host = pace.host(next(p.groups for p in layer.products if p.role == "experts")) / 3
        forward, backward = sqrt(forward**2 + host**2), sqrt(backward**2 + (2 * host) ** 2)
    groups = [(send, groups_along(*send.axes)) for send in layer.sends if send.runs]
    sends = tuple((send, pace.send(send, group), where(group.domains > 1, 0, 1)) for send, group in groups)
    return LayerPrices(forward, backward, attention, stream[0], pace.usual * layer.latent / pace.peak, sends)


def _update(ops: Operations, layout: Layout, chip: Chip, pace: Pace):
    """Seconds of the optimizer, on the fullest chip or on its host."""
    mine = ops.held.share(layout, layout.zero >= 1)
    if layout.offload != "optimizer":
        return (GRADIENT + 2 * layout.stored.state + WEIGHT) * mine / pace.memory
    chips = layout.chips * layout.pods
    return mine * (HOST_BYTES / (_pcie(chip) * pace.k.link) + HOST_ADAM * minimum(chips, chip.chips_per_host))


def _muon(ops: Operations, layout: Layout, pace: Pace):
    """Seconds of Muon's products: of a matrix a by b, a no longer than b, 4a²b + 2a³ FLOPs a step, shared as its state is."""
    if layout.optimizer != "Muon":
        return 0.0
    total = 0.0
    for layer in ops.layers:
        for p in layer.products:
            a, b = minimum(p.n, p.k), maximum(p.n, p.k)
            total = total + layer.count * p.groups * (4 * a**2 * b + 2 * a**3)
    copies = layout.fsdp * where(layout.zero >= 1, layout.dp * layout.cp, 1)
    return MUON_STEPS * total / layout.pp / copies / pace.peak


def _pcie(chip: Chip) -> float:
    if not chip.pcie_bandwidth:
        raise ValueError(f"nobody publishes how fast a host reads a {chip.name}: leave offload out")
    return chip.pcie_bandwidth


@formula
def step_seconds(
    c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED, constants: Constants = CONSTANTS
) -> Estimate:
    """Seconds of a training step on B sequences of T tokens, on as many chips as the layout takes.

    >>> gpt3 = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)
    >>> layout = Layout(tp=8, pp=8, schedule="interleaved", v=3, microbatches=64, sequence_parallel=False)
    >>> e = step_seconds(gpt3, chip("A100"), layout, B=64, T=2048, software=Software(attention="stored"))
    >>> e.low < e.mid < e.high
    True
    """
    check(c, layout, B * T, T, chip)
    layout = shared(layout, chip)
    return estimated(c, chip, layout, prices(c, chip, layout, operations(c, layout, B, T), software, constants))


@formula
def estimated(c: Config, chip: Chip, layout: Layout, prices: Prices) -> Estimate:
    """Seconds of a step whose operations are priced, with the ends of the interval."""
    parts = _parts(c, chip, shared(layout, chip), prices)
    mid, measured = sum(parts.values()), bool(chip.generation)
    wide = prod((SPREAD["always"], SPREAD["experts"] if c.moe else 1.0, 1.0 if measured else SPREAD["chip"]))
    return Estimate(mid / wide, mid, mid * wide, parts, "" if measured else chip.lender)


def _parts(c: Config, chip: Chip, layout: Layout, prices: Prices) -> dict:
    """Seconds of a step by what takes them."""
    ops, pace = prices.operations, prices.pace
    rounds, shares = ops.rounds, [layer.count / c.L for layer in ops.layers]
    kinds = [_parts_of_layer(layer, layout, pace) for layer in prices.layers]
    layer = {name: sum(share * parts[name] for share, parts in zip(shares, kinds)) for name in kinds[0]}
    both, forward = sum(layer.values()), sum(share * priced.forward for share, priced in zip(shares, prices.layers))
    stage, even = slowest_stage(c, both, prices.head, layout), c.L / layout.pp * both
    ahead, back = c.L / layout.pp * forward, c.L / layout.pp * (both - forward)
    whole = divides(c, layout)
    last = where(whole, prices.head, prices.head / layout.pp)  # of a stage that is as full as the others
    # Of interleaved stages the next one computes while an activation travels (Megatron-LM's `overlap-p2p-communication`).
    hidden = maximum(pace.k.data * prices.handed, prices.handed - even) if pace.software.overlaps else prices.handed
    handed = where(layout.v > 1, hidden, prices.handed)
    return {name: rounds * c.L / layout.pp * seconds for name, seconds in layer.items()} | {
        "unembedding": rounds * last,
        "uneven": where(whole, 0.0, rounds * maximum(stage - even - last, 0.0)),
        "sends": rounds * handed,
        "bubble": idle(layout.schedule, layout.pp, rounds, layout.v, ahead, back / 2, back / 2),
        "gradients": _gradients(prices, layout, back),
        "update": prices.update,
        "host": _host(c, layout, chip, prices, rounds * (stage + handed)),
    }


def _parts_of_layer(layer: LayerPrices, layout: Layout, pace: Pace) -> dict:
    """Seconds of one layer under a policy: kernels, those done again, and of what it sends what nothing hides.

    Frameworks do the whole layer again; only a compiler sees that no gradient reads its last product.
    """
    overlaps = pace.software.overlaps
    some = {"matmuls": layer.attention[0] + layer.stream, "selective": layer.stream + layer.latent}
    again = {"everything": 0.0, **some}.get(layout.policy, layer.forward)
    waits = (pace.k.tensor if pace.gpu else pace.k.data) if overlaps else 1.0

    def passes(picks, in_domain=False):  # seconds of both passes' collectives, or of those that are inside a domain
        runs = [
            (s.passes(layout.policy), took * (near if in_domain else 1)) for s, took, near in layer.sends if picks(s)
        ]
        return tuple(sum((times[i] * seconds for times, seconds in runs), 0.0) for i in (0, 1))

    def beside(send_seconds, forward, backward):
        if not overlaps:
            return sum(send_seconds)
        slows = pace.k.data * sum(send_seconds)
        outlasts = maximum(0.0, send_seconds[0] - forward) + maximum(0.0, send_seconds[1] - backward)
        # Tuned programs fetch far enough ahead that links are busy while products are slowed.
        return maximum(slows, outlasts) if pace.software.tuned else slows + outlasts

    tensor = waits * (0.5 if pace.software.overlaps_tp and pace.gpu else 1.0)
    tokens = waits * (0.0 if layout.overlaps_experts else 1.0)
    busy = zip(passes(lambda s: s.axes == ("tp",), True), passes(lambda s: s.role == "tokens", True))
    idle_cards = [tensor * x + tokens * y for x, y in busy]  # chips wait for each other, and weights can travel
    exchange, weights = passes(lambda s: s.role == "tokens"), passes(lambda s: "fsdp" in s.axes)
    passed = layer.forward, layer.backward + again
    return {
        "kernels": layer.forward + layer.backward,
        "again": again,
        "tensor": sum(passes(lambda s: s.axes == ("tp",))) * tensor,
        "experts": beside(exchange, *passed) if layout.overlaps_experts else sum(exchange) * tokens,
        "context": beside(passes(lambda s: s.role == "keys"), *layer.attention),
        "weights": beside(weights, layer.forward + idle_cards[0], layer.backward + again + idle_cards[1]),
    }


def _gradients(prices: Prices, layout: Layout, backward_seconds):
    """Seconds of sums of gradients that nothing hides; `backward_seconds` are those of one microbatch's pass."""
    if not prices.pace.software.overlaps:
        return prices.sums + prices.pods
    runs = where(layout.zero == 2, layout.microbatches, 1)
    slowing = prices.pace.k.data * (prices.sums + prices.pods)
    return maximum(0.0, prices.sums - BEHIND * backward_seconds * runs) + slowing


def _host(c: Config, layout: Layout, chip: Chip, prices: Prices, pass_seconds):
    """Seconds that nothing hides of taking kept activations down to the host and up again; most hides behind the passes."""
    if layout.offload != "activations":
        return 0.0
    kept = sum(arrays(c, LayerKind(), layout.policy, 1).values()) * c.L / layout.pp / layout.tp
    moved = 4 * prices.operations.rounds * prices.operations.rows * kept / (_pcie(chip) * prices.pace.k.link)
    # Behind two thirds of the passes: chosen, for no published step has any.
    return moved * prices.pace.k.data + maximum(0.0, moved * (1 - prices.pace.k.data) - pass_seconds * 2 / 3)


@formula
def utilisation(c: Config, chip: Chip, layout: Layout, B, T, seconds, count: str = "causal") -> tuple:
    """(MFU, HFU) of a step that takes so long: FLOPs of products, without and with what is computed again, over what all chips
    do at the peak rate of `layout.products`.

    count  pairs of query and key: "causal" what the mask leaves, so that neither passes 1; papers often have "all"

    >>> gpt = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)    # MFU 51.4 % (Korthikanti et al. 2022)
    >>> layout = Layout(tp=8, pp=8, policy="matmuls")
    >>> [f"{x:.1%}" for x in utilisation(gpt, chip("A100"), layout, 64, 2048, 13.75, count="all")]
    ['51.4%', '51.8%']
    """
    peak = seconds * layout.chips * shared(layout, chip).pods * published(chip, layout.products)
    whole = operations(c, Layout(), B, T)  # on one device, which copies no KV heads
    once, again = 3 * sum(whole.forward(count)), sum(whole.again(layout.policy, count))
    return once / peak, (once + again) / peak
