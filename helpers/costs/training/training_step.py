"""One training step of a decoder under a layout: FLOPs, what is sent, bytes on a device, seconds (chapter 4).

tokens are those of the whole batch, in sequences of T. Between blocks activations are cut over tp, by tokens (sequence
parallelism) or by D as in `dp_fsdp_tp`, which sends as much; so every block gathers and scatters them. Without
sequence parallelism each chip of tp has all of them, and every block sums them. Weights under fsdp are gathered for each
microbatch, forward and backward, and their gradients scattered. Left out, since the programs of `kernels.training` do not
cut the vocabulary: what its products would send over tp, as much as one block of the 2L. Also activations' traffic to HBM,
(tp/F + 1/D)·C/W_hbm of a product's time, 8 % for LLaMA-2 13B with tp=4 on v5p; and windows that make cp send less.

Any number may be an array, of layouts for instance: `layout_search.search` is one call of `step`. Arrays are not checked.

Source: Austin et al. 2025, Section 5; Rajbhandari et al., "ZeRO" (2020); Korthikanti et al., "Reducing Activation
Recomputation" (2022) for tensor parallelism with sequence parallelism and without; Liu et al., "Ring Attention" (2023).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Time
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import Flops, flops, parameters
from helpers.costs.transformers.six_nd_and_mfu import six_nd
from helpers.costs.transformers.training_memory_bytes import arrays, recomputed
from helpers.numeric import maximum, minimum, plain, where

from .layout import AXES, BF16, NUMBERS, Bytes, Layout, Wires, divisors, lies
from .layout_collectives import Held, Sent, collectives, held, share
from .pipeline_schedules import bubble, in_flight
from .step_estimate import Estimate, step_seconds

DAY = 86400
CUT = ("q", "q_up", "k", "v", "kv_up", "shares", "heads", "gate", "in", "hidden")
"""Arrays of `training_memory_bytes.arrays`, by the first word, that tp cuts by heads or by F; the others are of D, or latent."""


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of the fullest device, by role.

    gathered     weights of one layer that fsdp has gathered, and its gradients before they are scattered
    activations  what is kept for the backward pass of all microbatches under way
    working      what one layer makes again in its backward pass; T·S shares are never whole, as in a flash kernel
    logits       of one microbatch, in float32
    """

    weights: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float
    working: float
    logits: float

    @property
    def total(self):
        """All of them."""
        return sum(vars(self).values())


@dataclass(frozen=True)
class Step:
    """A training step.

    flops   of all chips: forward, backward, and what is computed again
    active  parameters that one token meets
    bubble  share of the passes' time in which the stages of a pipeline wait
    parts   seconds of "math", of "hbm", and of what goes over each set of axes, with the pipeline's bubble
    waits   those of the collectives that products wait for
    """

    config: Config
    layout: Layout
    slice: Slice
    tokens: float
    T: float
    flops: float
    active: float
    sent: tuple[Sent, ...]
    memory: DeviceMemory
    bubble: float
    parts: dict[str, float]
    waits: float

    @property
    def chips(self):
        """All chips, of all pods."""
        return self.slice.chips * self.layout.pods

    @cached_property
    def time(self) -> Time:
        """`lower` with everything overlapped, `upper` with nothing; `bound` is what takes longest."""
        return Time(self.parts)

    @cached_property
    def estimate(self) -> Estimate:
        """The seconds that it will take, probably, and an interval."""
        return step_seconds(self.config, self.slice.chip, self.layout, self.tokens / self.T, self.T)

    @cached_property
    def hidden(self):
        """Seconds if what can hide does and the rest is waited for, at published rates: between the two.

        Sums of gradients at a step's end count as hidden, though only the last microbatch's backward pass can hide them.
        """
        beside = [s for name, s in self.parts.items() if name not in ("math", "hbm")]
        return maximum(maximum(self.parts["math"], self.parts["hbm"]) + self.waits, *beside)

    def mfu(self, seconds):
        """6·(active parameters)·tokens in that time, as a share of the chips' bf16 FLOPs/s."""
        return six_nd(self.active, self.tokens) / (seconds * self.chips * self.slice.chip.rate())

    def days(self, budget, seconds):
        """Days to train on `budget` tokens at that many seconds a step."""
        return budget / self.tokens * seconds / DAY

    def chip_hours(self, budget, seconds):
        """Chip-hours of the same."""
        return self.days(budget, seconds) * 24 * self.chips

    @property
    def missing(self):
        """Bytes that the fullest device has too few; 0 if all fits."""
        return maximum(self.memory.total - self.slice.chip.hbm_bytes, 0.0)


def step(
    c: Config,
    layout: Layout,
    tokens,
    T,
    s: Slice,
    count: str = "all",
    hop: float | None = None,
    at: Mapping[str, Wires] | None = None,
) -> Step:
    """What a training step of `tokens` in sequences of T does on a slice, or on `layout.pods` of them. It has no `offload`.

    count  pairs of query and key that attention computes: `parameters_and_flops.PAIRS`
    hop    seconds of latency per hop, if not the chip's
    at     the wires of every axis, if they are known already; then the layout is not checked either

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> cube = Slice(chip("v5p"), (16, 16, 16))
    >>> at = step(model("llama-2-13b"), Layout(fsdp=1024, tp=4), 3 * 2**20, 3072, cube)
    >>> print(f"{at.time.lower:.3f} {at.hidden:.3f} {at.time.upper:.3f} {at.time.bound} {at.mfu(at.hidden):.2f}")
    0.179 0.284 0.352 math 0.46
    """
    if layout.offload:
        raise ValueError(f"a step has no price for {layout.offload} in the host's memory: leave offload out")
    if at is None:
        check(c, layout, tokens, T, s)
    p, f, sizes = parameters(c), flops(c, tokens / T, T, count=count), layout.stored
    again = recomputed(c, tokens / T, T, layout.policy, count)
    kept = held(c, layout, p)
    sent = collectives(c, layout, tokens, kept, s, s.chip.hop if hop is None else hop, at)
    stretch = 1 / (1 - bubble(layout.schedule, layout.pp, layout.microbatches, layout.v))
    moved = layout.microbatches * 2 * (sizes.weight + sizes.gradient) * (kept.dense + kept.experts)
    states = _kept(layout, kept)
    parts = {
        "math": _products(f, again, layout, s.chip) * layout.pp / (s.chips * layout.pods) * stretch,
        "hbm": moved / s.chip.hbm_bandwidth * stretch + 2 * sum(states) / s.chip.hbm_bandwidth,
    }
    waits = 0.0
    for one in sent:
        took, name = one.seconds * (1.0 if one.when == "update" else stretch), "+".join(one.axes)
        parts[name] = parts.get(name, 0.0) + took
        waits = waits + (0.0 if one.hides else took)
    memory = _memory(c, layout, tokens, T, kept, states, s)
    return Step(c, layout, s, tokens, T, f.train + again, p.active, sent, memory, 1 - 1 / stretch, parts, waits)


def _products(f: Flops, again, layout: Layout, chip: Chip):
    """Seconds of the slowest stage's products on one chip: its share of the layers and the unembedding.

    Products with weights run in `layout.products`, pairs of query and key and the unembedding in bf16 always.
    """
    # What is computed again has the pairs, unless nothing is; all of the forward pass has the unembedding too.
    more = {"everything": 0, "nothing": f.attention + f.unembedding}.get(layout.policy, f.attention)
    bf16 = 3 * f.attention + more
    layers = (3 * f.layers + again - bf16) / chip.rate(layout.products) + bf16 / chip.rate()
    return layers / layout.pp + 3 * f.unembedding / chip.rate()


def _kept(layout: Layout, kept: Held) -> tuple:
    """Bytes of weights, gradients and optimizer state on a device."""
    sizes = layout.stored
    dense, experts = (layout.dp * layout.ep * layout.cp, layout.dp * layout.cp)
    out = []
    for least, each in ((3, sizes.weight), (2, sizes.gradient), (1, sizes.state)):
        shared = layout.zero >= least
        whole = kept.dense / where(shared, dense, 1) + kept.experts / where(shared, experts, 1)
        out.append(each * whole / layout.fsdp)
    return tuple(out)


def _memory(c, layout, tokens, T, kept, states, s) -> DeviceMemory:
    sizes = layout.stored
    there = tokens / (share(layout, s) * layout.cp * layout.microbatches)  # of one microbatch, on one device
    peak = "everything" if layout.policy == "nothing" else layout.policy
    of_layers = sum(n * on_a_chip(arrays(c, kind, peak, T), layout) for kind, n in c.groups) / layout.pp
    again = 0.0
    if layout.policy == "block":
        kinds = [arrays(c, kind, "everything", T) | {"shares": 0} for kind, _ in c.groups]
        again = maximum(*(on_a_chip(one, layout) for one in kinds))
    under_way = in_flight(layout.schedule, layout.pp, layout.microbatches, layout.v)
    copies = layout.dp * layout.ep * layout.cp > 1
    weights_move = (layout.fsdp > 1) | ((layout.zero == 3) & copies)
    gradients_move = weights_move | ((layout.zero == 2) & copies)
    gathered = kept.layer * (where(weights_move, sizes.weight, 0) + where(gradients_move, sizes.gradient, 0))
    return DeviceMemory(
        *states,
        gathered=gathered,
        activations=sizes.activation * there * of_layers * under_way,
        working=sizes.activation * there * again,
        logits=4 * there * c.V / layout.tp,
    )


def on_a_chip(some: Mapping[str, float], layout: Layout):
    """Numbers of these arrays that one of the tp chips has for a token; without sequence parallelism it has all of some."""
    whole = 0 if layout.sequence_parallel else sum(n for name, n in some.items() if name.split()[0] not in CUT)
    return (sum(some.values()) - whole) / layout.tp + whole


def rules(c: Config, layout: Layout, tokens, T, s: Slice):
    """(holds, sentence) pairs: what must hold for a layout, as a truth value or an array of them, and what to say if not."""
    a, sequences, shards = layout, tokens / T, share(layout, s) * layout.microbatches
    room, takes = (s.chips, "the slice has") if s.chip.axes else (s.chips * a.pods, "the domains have")
    width = c.F if c.moe is None else c.moe.F
    stages = a.pp * a.v
    return (
        (a.chips == room, lambda: f"{a} takes {a.chips} chips and {takes} {room}: {_times(room, a.chips)}"),
        (
            lies(a, s),
            lambda: (
                f"{a} does not lie along {'x'.join(map(str, s.shape))} chips in whole rows: let the axes "
                f"({', '.join(AXES)}, in this order) end where the slice's do, or divide what is left"
            ),
        ),
        (
            (c.N % a.tp == 0) & (c.D % a.tp == 0) & (c.F % a.tp == 0) & (width % a.tp == 0),
            lambda: f"tp={a.tp} does not divide N={c.N}, D={c.D} and F={width}: take a common divisor",
        ),
        (
            (c.K % minimum(a.tp, c.K) == 0) & (a.tp % minimum(a.tp, c.K) == 0),
            lambda: f"tp={a.tp} does not divide K={c.K} KV heads, nor they it: take a divisor or a multiple",
        ),
        (
            c.L % stages == 0,
            lambda: f"{stages} stages do not divide L={c.L} layers: let pp{'·v' * (a.v > 1)} be {_near(stages, c.L)}",
        ),
        (
            (c.moe.E % a.ep == 0) if c.moe else (a.ep == 1),
            lambda: (
                f"ep={a.ep} does not divide E={c.moe.E} experts: let it be {_near(a.ep, c.moe.E)}"
                if c.moe
                else f"ep={a.ep}, and the model has no experts: leave it out"
            ),
        ),
        (
            tokens % T == 0,
            lambda: (
                f"{tokens:.9g} tokens are no whole number of sequences of T={T}: the next is {-(-tokens // T) * T:.9g}"
            ),
        ),
        (T % a.cp == 0, lambda: f"cp={a.cp} does not divide T={T} tokens of a sequence: let it be {_near(a.cp, T)}"),
        (
            sequences % shards == 0,
            lambda: (
                f"{sequences:g} sequences do not divide over {shards // a.microbatches:g} shards x {a.microbatches} microbatches: "
                f"give a multiple of {shards:g}, the least is {shards * T:.9g} tokens"
            ),
        ),
        (
            (a.microbatches % a.pp == 0) | (a.schedule != "interleaved"),
            lambda: f"an interleaved pipeline takes a multiple of pp={a.pp} microbatches, not {a.microbatches}",
        ),
    )


def _times(room, chips) -> str:
    if room % chips == 0:
        return f"multiply an axis by {room // chips}"
    return f"divide an axis by {chips // room}" if chips % room == 0 else "make their product equal"


def _near(n: int, size: int) -> str:
    """The divisors of a size that are nearest to n, from below and above."""
    fit = divisors(size)
    near = {max(d for d in fit if d <= n), min((d for d in fit if d >= n), default=size)}
    return " or ".join(map(str, sorted(near)))


def check(c: Config, layout: Layout, tokens, T, s: Slice) -> None:
    """ValueError, in one sentence, for the first rule that a layout of plain numbers breaks; arrays are let pass."""
    if plain(tokens, T) and min(tokens, T) < 1:
        raise ValueError(f"tokens and T are 1 or more, got tokens={tokens} and T={T}")
    if plain(tokens, T, *(getattr(layout, name) for name in NUMBERS)):
        for holds, sentence in rules(c, layout, tokens, T, s):
            if not holds:
                raise ValueError(sentence())


# Closed forms of the sources, without a slice.


def zero_memory(P, X, zero: int, sizes: Bytes = BF16):
    """Bytes of weights, gradients and optimizer state on one of X devices that share them by ZeRO-1, 2 or 3.

    sizes  what a number takes: `layout.MASTER` with a master copy of the weights, which is state and shared as that is

    >>> from helpers.costs.training.layout import MASTER
    >>> sum(zero_memory(1, 1, 0)), sum(zero_memory(1, 1, 0, MASTER))           # bytes of a parameter, without and with it
    (12.0, 16.0)
    >>> [tuple(round(b / 1e9, 1) for b in zero_memory(13e9, 64, z)) for z in range(4)]
    [(26.0, 26.0, 104.0), (26.0, 26.0, 1.6), (26.0, 0.4, 1.6), (0.4, 0.4, 1.6)]
    """
    if zero not in (0, 1, 2, 3):
        raise ValueError(f"zero is 0, 1, 2 or 3, not {zero!r}")
    each = ((sizes.weight, 3), (sizes.gradient, 2), (sizes.state, 1))
    return tuple(b * P / (X if zero >= least else 1) for b, least in each)


def largest_model(hbm_bytes, bytes_each=10):
    """Parameters that data parallelism can hold on a chip, with bytes for each: bf16 weights and Adam's moments make 2 + 8.

    The source's ten have no gradients (2 more) and no master copy (4 more): a limit that no run in bf16 reaches. With these
    it is 16; activations come on top.

    >>> largest_model(96e9), largest_model(96e9, 16)
    (9600000000.0, 6000000000.0)
    """
    return hbm_bytes / bytes_each


def three_checkpoints(B, D, F, L, bytes_each=2):
    """Bytes kept of B tokens if each layer keeps the results of three products, two of F numbers and one of D.

    >>> f"{three_checkpoints(16e6, 5120, 13824, 40):.3g} {three_checkpoints(3e6, 5120, 13824, 40):.4g}"   # LLaMA-2 13B
    '4.19e+13 7.864e+12'
    """
    return bytes_each * L * B * (D + 2 * F)


entries(__name__, signed="tokens T")
