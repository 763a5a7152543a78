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

from dataclasses import dataclass, replace
from functools import cached_property

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Time
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import known
from helpers.numeric import maximum, minimum, plain

from .layout import AXES, BF16, NUMBERS, Bytes, Layout, divisors, lies, shared
from .layout_collectives import Held, Sent, collectives, held
from .operation_seconds import published
from .pipeline_schedules import bubble
from .step_estimate import Estimate, Prices, prices, step_seconds, utilisation
from .step_memory import DeviceMemory, fullest
from .step_operations import Operations, operations, slowest_stage

DAY = 86400


@dataclass(frozen=True)
class Step:
    """A training step; each quantity is computed when it is first asked for.

    at     its operations, on one device
    count  pairs of query and key that `parts` and `flops` count
    hop    seconds of latency per hop
    """

    config: Config
    layout: Layout
    slice: Slice
    tokens: float
    T: float
    at: Operations
    count: str
    hop: float

    @property
    def chips(self):
        """All chips, of all pods."""
        return self.slice.chips * self.layout.pods

    @cached_property
    def flops(self):
        """Of all chips: forward, backward, and what is computed again; KV heads that several chips copy count for each."""
        once = self.at.products + self.at.attention(self.count) + self.at.head.flops
        each = 3 * once + sum(_again(self.at, self.layout.policy, self.count))
        return each * self.at.rounds * self.chips / self.layout.pp  # one device has a stage of it

    @cached_property
    def held(self) -> Held:
        """Parameters of the fullest device."""
        return held(self.config, self.layout, self.at)

    @cached_property
    def sent(self) -> tuple[Sent, ...]:
        """Every collective of a device."""
        return collectives(self.config, self.layout, self.at, self.slice, self.hop)

    @cached_property
    def memory(self) -> DeviceMemory:
        """Bytes of the fullest device."""
        return fullest(self.config, self.slice.chip, shared(self.layout, self.slice.chip), self.at, self.T)

    @cached_property
    def bubble(self):
        """Share of the passes' time in which the stages of a pipeline wait."""
        a = self.layout
        return bubble(a.schedule, a.pp, a.microbatches, a.v)

    @cached_property
    def math(self):
        """Seconds of products at published rates, with the pipeline's bubble."""
        return (
            self.at.rounds
            * _products(self.config, self.at, self.layout, self.slice.chip, self.count)
            / (1 - self.bubble)
        )

    @cached_property
    def parts(self) -> dict[str, float]:
        """Seconds of "math", of "hbm", and of what goes over each set of axes, with the pipeline's bubble."""
        m, sizes, W = self.memory, self.layout.stored, self.slice.chip.hbm_bandwidth
        passes = self.at.rounds * 2 * (sizes.weight + sizes.gradient) * (self.held.dense + self.held.experts)
        update = 2 * (m.weights + m.gradients + m.optimizer)
        out = {"math": self.math, "hbm": (passes / (1 - self.bubble) + update) / W}
        for one in self.sent:
            name = "+".join(one.axes)
            out[name] = out.get(name, 0.0) + self._took(one)
        return out

    def _took(self, one: Sent):
        return one.seconds if one.when == "update" else one.seconds / (1 - self.bubble)

    @cached_property
    def waits(self):
        """Seconds of the collectives that products wait for."""
        return sum((self._took(one) for one in self.sent if not one.hides), 0.0)

    @cached_property
    def time(self) -> Time:
        """`lower` with everything overlapped, `upper` with nothing; `bound` is what takes longest."""
        return Time(self.parts)

    @cached_property
    def estimate(self) -> Estimate:
        """The seconds that it will take, probably, and an interval."""
        return step_seconds(self.config, self.slice.chip, self.layout, self.tokens / self.T, self.T, known=self.prices)

    @cached_property
    def prices(self) -> Prices:
        """Seconds of its operations, whatever the policy."""
        return prices(self.config, self.slice.chip, self.layout, self.at)

    def keeping(self, policy: str) -> "Step":
        """The same step under another policy; what does not depend on that is not computed again."""
        known(policy)
        other = replace(self, layout=replace(self.layout, policy=policy))
        vars(other)["prices"] = self.prices
        return other

    @cached_property
    def hidden(self):
        """Seconds if what can hide does and the rest is waited for, at published rates: between the two.

        Sums of gradients at a step's end count as hidden, though only the last microbatch's backward pass can hide them.
        """
        beside = [s for name, s in self.parts.items() if name not in ("math", "hbm")]
        return maximum(maximum(self.parts["math"], self.parts["hbm"]) + self.waits, *beside)

    def mfu(self, seconds):
        """FLOPs of products that the model asks for, with the pairs that the mask leaves, over those of all chips in that time."""
        return utilisation(self.config, self.slice.chip, self.layout, self.tokens / self.T, self.T, seconds)[0]

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
) -> Step:
    """What a training step of `tokens` in sequences of T does on a slice, or on `layout.pods` of them. It has no `offload`.

    count  pairs of query and key that attention computes: `parameters_and_flops.PAIRS`
    hop    seconds of latency per hop, if not the chip's

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> cube = Slice(chip("v5p"), (16, 16, 16))
    >>> at = step(model("llama-2-13b"), Layout(fsdp=1024, tp=4), 3 * 2**20, 3072, cube)
    >>> print(f"{at.time.lower:.3f} {at.hidden:.3f} {at.time.upper:.3f} {at.time.bound} {at.mfu(at.hidden):.2f}")
    0.179 0.284 0.352 math 0.48
    """
    if layout.offload:
        raise ValueError(f"a step has no price for {layout.offload} in the host's memory: leave offload out")
    known(layout.policy)
    published(s.chip, layout.products)
    check(c, layout, tokens, T, s)
    at = operations(c, shared(layout, s.chip), tokens / T, T)
    return Step(c, layout, s, tokens, T, at, count, s.chip.hop if hop is None else hop)


def _again(at: Operations, policy: str, count: str) -> tuple:
    """FLOPs that a microbatch's backward pass does again: of products with weights, of pairs, of the unembedding."""
    pairs = 0.0 if policy == "everything" else at.attention(count)
    products = {"block": at.products - at.unread, "nothing": at.products}.get(policy, 0.0)
    return products, pairs, at.head.flops if policy == "nothing" else 0.0


def _products(c: Config, at: Operations, layout: Layout, chip: Chip, count: str):
    """Seconds of the slowest stage's products in one microbatch, at published rates.

    Products with weights run in `layout.products`, pairs of query and key and the unembedding in bf16 always.
    """
    again, pairs, head = _again(at, layout.policy, count)
    layers = (3 * at.products + again) / published(chip, layout.products) + (
        3 * at.attention(count) + pairs
    ) / chip.rate()
    return slowest_stage(c, layers / c.L, (3 * at.head.flops + head) / chip.rate(), layout)


def rules(c: Config, layout: Layout, tokens, T, s: Slice):
    """(holds, sentence) pairs: what must hold for a layout, as a truth value or an array of them, and what to say if not."""
    a, sequences, shards = layout, tokens / T, shared(layout, s.chip).shards * layout.microbatches
    room, takes = (s.chips, "the slice has") if s.chip.axes else (s.chips * a.pods, "the domains have")
    width = c.F if c.moe is None else c.moe.F
    stages = a.stages
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
            stages <= c.L,
            lambda: f"{stages} stages are more than L={c.L} layers: let pp{'·v' * (a.v > 1)} be {c.L} or less",
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
