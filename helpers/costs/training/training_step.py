"""One training step of a decoder under a layout: FLOPs, what is sent, bytes on a device, seconds (chapter 4).

tokens are those of the whole batch, in sequences of T. Between blocks activations are cut over tp, by tokens (sequence
parallelism) or by D as in `dp_fsdp_tp`, which sends as much; so every block gathers and scatters them. Without
sequence parallelism each chip of tp has all of them, and every block sums them. Weights under fsdp are gathered for each
microbatch, forward and backward, and their gradients scattered. Left out, since the programs of `kernels.training` do not
cut the vocabulary: what its products would send over tp, as much as one block of the 2L. Also activations' traffic to HBM,
(tp/F + 1/D)·C/W_hbm of a product's time, 8 % for LLaMA-2 13B with tp=4 on v5p; and windows that make cp send less.

Memory is that of the fullest device at its peak, by role, as allocators report it. `transformers.training_memory_bytes` has what
the formulas of the sources need; this goes from the list of operations and adds what runs hold besides: the copy of the largest
gradient before it is added, logits as the loss keeps them, and what libraries keep. Fused attention keeps no T·S weights,
whatever the policy. A pipeline's first device has the embedding and the most microbatches under way, its last one the unembedding
and the logits, and of a mixture's layers perhaps more with experts; the fullest counts. Stages may be uneven.

Any number may be an array, of layouts for instance: `layout_search.search` is one call of `step`. Arrays are not checked.

Source: Austin et al. 2025, Section 5; Rajbhandari et al., "ZeRO" (2020); Korthikanti et al., "Reducing Activation
Recomputation" (2022) for tensor parallelism with sequence parallelism and without; Liu et al., "Ring Attention" (2023).
"""

from dataclasses import replace
from functools import cached_property
from math import inf

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Time
from helpers.costs.sharding.collective_prices import PUBLISHED, collective_seconds, in_domains
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import arrays, known
from helpers.numeric import maximum, minimum, plain, where

from .closed_forms import zero_memory as zero_memory  # asked for beside `step`
from .layout import Layout, groups, shared
from .layout_set import check, device_stages, slowest_stage, stage_layers
from .operation_seconds import STORED, TUNED, Software, published
from .pipeline_schedules import bubble, in_flight
from .step_estimate import Estimate, Prices, estimated, prices, utilisation
from .step_operations import Held, Layer, Operations, Send, operations

DAY = 86400
CUT = ("q", "q_up", "k", "v", "kv_up", "shares", "heads", "gate", "in", "hidden")
"""Arrays of `training_memory_bytes.arrays`, by the first word, that tp cuts by heads or by F; the others are of D, or latent."""

LIBRARY = 1.6 * 2**30  # bytes of a GPU: buffers of collectives, workspaces, fragments; what B200 held that has no name
GATHERED = 3  # arrays of D numbers that PyTorch's tp keeps gathered, and Megatron-LM's not: rows twice, a gradient
INPUTS = "norm", "hidden", "out of experts"  # kept in products' type (Transformer Engine); the last: experts' rows
TIGHT = 0.079  # of a chip's bytes: a sheet's GB are GiB to an allocator, 7.4 % more, and the best counts miss 0.5 % (bench_estimate)


@record
class Sent(Send):
    """A collective of one device, as often as it runs in a step.

    times    it runs in a step
    when     "forward" or "backward", or "update", once at the end
    seconds  of all runs, without overlap
    """

    times: float = 0
    when: str = ""
    seconds: float = 0

    def __str__(self) -> str:
        beside = "hides" if self.hides else "waits"
        return (
            f"{self.times:g} x {self.kind}_{'+'.join(self.axes)} of {self.role}, {self.bytes / 1e6:.4g} MB each, "
            f"{self.when}, {beside}: {self.seconds:.3g} s"
        )


@record
class DeviceMemory:
    """Bytes of the fullest device, by role.

    gathered     weights of two layers that fsdp has gathered, one of them ahead; in a pipeline those of all its layers, and whole gradients
    activations  what is kept for the backward pass of all microbatches under way
    working      what one layer makes again, and the largest gradient of a matrix before it is added to its sum
    logits       of one microbatch
    library      what allocators and libraries keep
    """

    weights: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float
    working: float
    logits: float
    library: float

    @property
    def total(self):
        """All of them."""
        return sum(vars(self).values())


@record(signed="T tokens")
class Step:
    """A training step; each quantity is computed when it is first asked for.

    operations  on one device
    count  pairs of query and key that `parts` and `flops` count
    hop    seconds of latency per hop
    software  of the estimate and memory
    """

    config: Config
    layout: Layout
    slice: Slice
    tokens: float
    T: float
    operations: Operations
    count: str
    hop: float
    software: Software = TUNED

    @property
    def chips(self):
        """All chips, of all pods."""
        return self.slice.chips * self.layout.pods

    @cached_property
    def flops(self):
        """Of all chips: forward, backward, and what is computed again; KV heads that several chips copy count for each."""
        again = self.operations.again(self.layout.policy, self.count)
        of_microbatch = 3 * sum(self.operations.forward(self.count)) + sum(again)
        return of_microbatch * self.operations.rounds * self.chips / self.layout.pp  # one device has a stage of it

    @cached_property
    def sent(self) -> tuple[Sent, ...]:
        """Every collective of a device."""
        return collectives(self)

    @cached_property
    def memory(self) -> DeviceMemory:
        """Bytes of the fullest device."""
        layout, chip = shared(self.layout, self.slice.chip), self.slice.chip
        return fullest(self.config, chip, layout, self.operations, self.T, self.software)

    @cached_property
    def bubble(self):
        """Share of the passes' time in which the stages of a pipeline wait."""
        a = self.layout
        return bubble(a.schedule, a.pp, a.microbatches, a.v)

    @cached_property
    def math(self):
        """Seconds of products at published rates, with the pipeline's bubble.

        Products with weights run in `layout.products`, pairs of query and key and the unembedding in bf16 always.
        """
        chip, again = self.slice.chip, self.operations.again(self.layout.policy, self.count)
        rates = published(chip, self.layout.products), chip.rate(), chip.rate()
        products, attention, head = (
            (3 * once + twice) / rate for once, twice, rate in zip(self.operations.forward(self.count), again, rates)
        )
        stage = slowest_stage(self.config, (products + attention) / self.config.L, head, self.layout)
        return self.operations.rounds * stage / (1 - self.bubble)

    @cached_property
    def parts(self) -> dict[str, float]:
        """Seconds of "math", of "hbm", and of what goes over each set of axes, with the pipeline's bubble."""
        m, sizes, held = self.memory, self.layout.stored, self.operations.held
        passes = self.operations.rounds * 2 * (sizes.weight + sizes.gradient) * (held.dense + held.experts)
        update = 2 * (m.weights + m.gradients + m.optimizer)
        out = {"math": self.math, "hbm": (passes / (1 - self.bubble) + update) / self.slice.chip.hbm_bandwidth}
        for sent in self.sent:
            axes = "+".join(sent.axes)
            out[axes] = out.get(axes, 0.0) + self._took(sent)
        return out

    def _took(self, sent: Sent):
        return sent.seconds if sent.when == "update" else sent.seconds / (1 - self.bubble)

    @cached_property
    def waits(self):
        """Seconds of the collectives that products wait for."""
        return sum((self._took(sent) for sent in self.sent if not sent.hides), 0.0)

    @cached_property
    def time(self) -> Time:
        """`lower` with everything overlapped, `upper` with nothing; `bound` is what takes longest."""
        return Time(self.parts)

    @cached_property
    def estimate(self) -> Estimate:
        """The seconds that it will take, probably, and an interval."""
        return estimated(self.config, self.slice.chip, self.layout, self.prices)

    @cached_property
    def prices(self) -> Prices:
        """Seconds of its operations, whatever the policy."""
        return prices(self.config, self.slice.chip, self.layout, self.operations, self.software)

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

    @property
    def tight(self) -> bool:
        """Whether fewer bytes are missing than a count of them may be off: it may run."""
        shared_bytes = minimum(self.memory.logits, self.memory.working)  # logits are gone before a layer is made again
        return 0 < self.missing <= TIGHT * self.slice.chip.hbm_bytes + shared_bytes


@formula(signed="T tokens")
def step(
    c: Config, layout: Layout, tokens, T, slice: Slice, count: str = "all", hop: float | None = None, software=TUNED
) -> Step:
    """What a training step of `tokens` in sequences of T does on a slice, or on `layout.pods` of them; no floor has what `offload` sends.

    count  pairs of query and key that attention computes: `parameters_and_flops.PAIRS`
    hop    seconds of latency per hop, if not the chip's

    >>> cube = Slice(chip("v5p"), (16, 16, 16))
    >>> at = step(model("llama-2-13b"), Layout(fsdp=1024, tp=4), 3 * 2**20, 3072, cube)
    >>> print(f"{at.time.lower:.3f} {at.hidden:.3f} {at.time.upper:.3f} {at.time.bound} {at.mfu(at.hidden):.2f}")
    0.179 0.284 0.352 math 0.48
    """
    known(layout.policy)
    published(slice.chip, layout.products)
    check(c, layout, tokens, T, slice)
    listed = operations(c, shared(layout, slice.chip), tokens / T, T)
    return Step(c, layout, slice, tokens, T, listed, count, slice.chip.hop if hop is None else hop, software)


@formula
def collectives(step: Step) -> tuple[Sent, ...]:
    """Every collective of a device, at published rates; those that have nobody to send to are left out where that can be seen."""
    layout, out = step.layout, []
    along, rates = groups(layout, step.slice), PUBLISHED.on(step.slice.chip, step.hop)
    for send, layers in _stage_sends(step):
        group = in_domains(1, layout.pods) if send.axes == ("pods",) else along(*send.axes)
        seconds = collective_seconds(send.kind, send.bytes, group, rates, send.copies, send.reached(group))
        for when, n in zip(("forward", "backward", "update"), (*send.passes(layout.policy), send.update)):
            times = n * layers * (1 if when == "update" else layout.microbatches)
            if not plain(times, group.n) or (times and group.n > 1):
                out.append(Sent(**vars(send), times=times, when=when, seconds=times * seconds))
    return tuple(out)


def _stage_sends(step: Step) -> list[tuple[Send, float]]:
    """The collectives of a stage, and how many of its layers have each; layers of several kinds that send the same count as one."""
    rows: dict[tuple, tuple[Send, float]] = {}
    for layer in step.operations.layers:
        n = stage_layers(step.config, step.layout) * (layer.count / step.config.L)
        for send in layer.sends:
            numbers = send.bytes, send.forward, send.backward, send.update
            alike = (send.kind, send.axes, send.role, send.hides, *numbers) if plain(*numbers) else (len(rows),)
            like_it, layers = rows.get(alike, (send, 0))
            rows[alike] = like_it, layers + n
    handed, pods = ([(send, 1) for send in sends] for sends in (step.operations.handed, step.operations.pods))
    return [*handed, *rows.values(), *pods]


@formula
def peak_memory(c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED) -> DeviceMemory:
    """Bytes of the fullest device in a training step on B sequences of T tokens.

    >>> from dataclasses import replace
    >>> from .layout import Bytes
    >>> layout = Layout(dp=4, pp=2, microbatches=4, zero=1, policy="everything", stored=Bytes(gradient=4, state=12))
    >>> cut = replace(model("llama-3-70b"), L=12)                              # measured: 66.5 GiB on B200 (SimuMax 1.2)
    >>> round(peak_memory(cut, chip("B200"), layout, 16, 4096).total / 2**30, 1)
    66.9
    """
    layout = shared(layout, chip)
    return fullest(c, chip, layout, operations(c, layout, B, T), T, software)


@formula
def fullest(c: Config, chip: Chip, layout: Layout, ops: Operations, T, software: Software = TUNED) -> DeviceMemory:
    """The same, of a step whose operations are known."""
    layers, tokens = ops.layers, layout.stored.activation * ops.rows  # bytes, if a number is kept of each token
    matrix = _most(layers, [maximum(*(p.weights for p in layer.products)) for layer in layers])
    again = tokens * _most(layers, _kept(c, layers, layout, "everything", T, software))
    # PyTorch's pipelines: no resharding, and no sum before the last microbatch.
    whole = (2 + layout.stored.gradient) * (ops.held.dense + ops.held.experts)
    two = 2 * 2 * _most(layers, [layer.held.dense + layer.held.experts for layer in layers])
    gathered = where(layout.pp > 1, whole, two)
    whole_rows = 0.0 if software.tuned or not layout.sequence_parallel else GATHERED * (1 - 1 / layout.tp)
    shares = (layout.fsdp > 1) | ((layout.zero == 3) & (layout.dp * layout.ep * layout.cp > 1))
    alike = {
        "gathered": where(shares, gathered, 0.0),
        "working": (again if layout.policy == "block" else 0.0) + 2 * matrix + tokens * c.D * whole_rows,
        "library": LIBRARY if chip.axes == 0 else 0.0,
    }
    kept = [tokens * numbers for numbers in _kept(c, layers, layout, layout.policy, T, software)]
    devices = len(layout.device_layers) or layout.pp
    # Where all between the ends have equally many layers, the second device is the fullest: it holds most microbatches.
    between = range(1, devices - 1) if layout.layers else (minimum(1, devices - 1),)
    places = ("first", 0), *(("between", device) for device in between), ("last", devices - 1)
    most, *others = (DeviceMemory(**_device(c, layout, ops, kept, *place, software.logit), **alike) for place in places)
    for other in others:
        fuller = other.total > most.total
        most = DeviceMemory(**{name: where(fuller, getattr(other, name), x) for name, x in vars(most).items()})
    return most


def _device(
    c: Config, layout: Layout, ops: Operations, kept_by_layer: list, position: str, device, logit_bytes: float
) -> dict:
    """What the "first" device of a pipeline, the "last" or one "between" has of its own; with one stage all have the same.

    Interleaved stages may count a table of the vocabulary as a layer, so that both ends have one fewer: LLaMA-3.1-405B has 126 layers
    on 16 devices (Dubey et al. 2024, section 3.3.2). Then the second device may be the fullest.
    """
    layers, pp, sizes = ops.layers, layout.pp, layout.stored
    stages, alone = device_stages(c, layout, position, device), layout.pp == 1

    def summed(values):  # over the layers of its stages
        return sum(_of_stage(c, layers, values, *stage) for stage in stages)

    both = ops.table + (0 if c.tied else ops.head.weights)
    if layout.schedule in ("ZB-V", "DualPipe"):  # the device of one end has the other one, too
        last = position == "first" or (position == "last" and len(stages) == 2)
        tables = both if last else 0.0
    else:
        last, tables = position == "last", {"first": ops.table, "last": ops.head.weights}.get(position, 0.0)
    dense, experts = (summed(values) for values in zip(*((n.held.dense, n.held.experts) for n in layers)))
    held = Held(dense + where(alone, both, tables), experts)
    # Of a device's v stages the one that is computed has whole gradients, until its microbatches are through.
    whole = where((layout.zero == 2) & (layout.v > 1), held.share(layout, False) / layout.v, 0.0)
    under_way = in_flight(layout.schedule, pp, layout.microbatches, layout.v, device)
    under_way = where(alone, under_way, under_way / 2) if len(stages) == 2 else under_way
    here = inf if layout.offload != "activations" else 2 * _most(layers, kept_by_layer)  # the rest is on its host
    return {
        "weights": sizes.weight * held.share(layout, layout.zero >= 3),
        "gradients": sizes.gradient * (held.share(layout, layout.zero >= 2) + whole),
        "optimizer": 0.0 if layout.offload == "optimizer" else sizes.state * held.share(layout, layout.zero >= 1),
        "activations": minimum(summed(kept_by_layer) * under_way, here),
        "logits": where(alone | last, logit_bytes * ops.rows * c.V / layout.tp, 0.0),
    }


def _kept(c: Config, layers: tuple[Layer, ...], layout: Layout, policy: str, T, software: Software) -> list:
    """Numbers that one layer of each kind keeps for a token on one device; without sequence parallelism it has all of some."""
    out = []
    for layer in layers:
        numbers = dict(arrays(c, layer.kind, "everything" if policy == "nothing" else policy, T))
        if software.attention != "stored":
            numbers.pop("shares", None)
        if layout.fp8_swiglu and policy != "block":
            numbers = {name: n / 2 if name.split()[0] in ("gate", "in") else n for name, n in numbers.items()}
        if software.tuned and policy != "block" and (narrow := STORED.get(layout.products, 2) / 2) < 1:
            own = {name: narrow for name in numbers if any(x in name for x in INPUTS)} | {"heads": 1 + narrow}
            numbers = {name: n * own.get(name, 1) for name, n in numbers.items()}
        whole = 0 if layout.sequence_parallel else sum(n for name, n in numbers.items() if name.split()[0] not in CUT)
        out.append((sum(numbers.values()) - whole) / layout.tp + whole)
    return out


def _of_stage(c: Config, layers: tuple[Layer, ...], values: list, stage_layers, position: str):
    """Sum over a stage's layers of what each kind of layer has: the first stage has the dense layers that a mixture begins with."""
    total = sum(layer.count for layer in layers)
    if c.moe is None or c.moe.every != 1 or not c.moe.first_dense:
        return sum(layer.count * v for layer, v in zip(layers, values)) / total * stage_layers
    mixed = sum(layer.count for layer in layers if layer.kind.moe)
    experts = maximum(stage_layers - (c.L - mixed), 0) if position == "first" else minimum(stage_layers, mixed)
    out = 0.0
    for moe, many in ((True, experts), (False, stage_layers - experts)):
        alike = [(layer.count, v) for layer, v in zip(layers, values) if layer.kind.moe == moe]
        out = out + many * sum(count * v for count, v in alike) / sum(count for count, _ in alike)
    return out


def _most(layers: tuple[Layer, ...], values: list):
    """The largest of what each kind of layer has, of those that the model has: traced, it lists others too."""
    return maximum(*(where(layer.count > 0, v, 0.0) for layer, v in zip(layers, values)), 0.0)
