"""What a training step sends under a layout: every collective of a device, with its bytes and seconds (chapter 4).

One list, `sends`, says how often each runs and what it carries. `collectives` prices it at published rates for the floor, and
`step_estimate` at those that are reached. Symbols and conventions as in `training_step`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import Config
from helpers.numeric import maximum, plain, where

from .layout import Layout, Wires, shared, together, wires
from .step_operations import Layer, Operations, stage_layers


@dataclass(frozen=True)
class Held:
    """Parameters of the fullest device before fsdp and zero share them.

    dense    all but experts
    """

    dense: float
    experts: float


def held(c: Config, layout: Layout, at: Operations) -> Held:
    """Parameters of a device, cut by tp, pp and ep; the end of a pipeline with a table of the vocabulary is fullest.

    tp cuts matrices. Norms, routers and the narrow matrices of latent attention are copied, and so are KV heads beyond K.

    >>> from helpers.costs.transformers.public_models import model
    >>> from helpers.costs.transformers.parameters_and_flops import parameters
    >>> from .step_operations import operations
    >>> c = model("llama-3-8b")
    >>> dense = [held(c, x, operations(c, x, 1, 8192)).dense for x in (Layout(), Layout(tp=8))]
    >>> dense[0] == parameters(c).total, round(dense[1] / dense[0], 4)
    (True, 0.125)
    """
    stage = stage_layers(c, layout) / c.L
    return Held(stage * at.dense + _tables(c, layout, at), stage * at.experts)


def _tables(c: Config, layout: Layout, at: Operations):
    """Parameters of the tables of the vocabulary on the device that has most of them."""
    return where(layout.pp == 1, at.table + (0 if c.tied else at.head.weights), maximum(at.table, at.head.weights))


@dataclass(frozen=True)
class Send:
    """A collective of one device, whatever it is priced with.

    axes     of the layout; several are gathered over together
    what     "weights", "gradients" or "activations", "keys" for keys and values, "tokens" on the way to experts
    bytes    of the array on one device where it is whole along the axes (all shards together for an AllToAll)
    forward, backward  times that it runs in a microbatch's pass
    update   times that it runs at a step's end
    again    times more in the backward pass, by policy
    hides    nothing waits for it, so it can run beside the products
    copies   of a token among what an AllToAll sends
    """

    kind: str
    axes: tuple[str, ...]
    what: str
    bytes: float
    forward: float = 0
    backward: float = 0
    update: float = 0
    again: Mapping[str, float] = field(default_factory=dict)
    hides: bool = True
    copies: float = 1

    def passes(self, policy: str) -> tuple:
        """Times in the forward and in the backward pass."""
        return self.forward, self.backward + self.again.get(policy, 0)


@dataclass(frozen=True)
class Sends:
    """All that a device sends.

    layers  of one layer of each kind, as `Operations.layers` lists them
    stage   of a stage in each microbatch
    pods    the sum of gradients over pods, at the end; none if there is one pod
    """

    layers: tuple[tuple[Send, ...], ...]
    stage: tuple[Send, ...]
    pods: tuple[Send, ...]


def sends(c: Config, layout: Layout, at: Operations) -> Sends:
    """What one device sends in a step.

    Weights are sent in the type that products read, and so are a microbatch's gradients; sums over copies of the model at a
    step's end in the type in which gradients are stored. The tables of the vocabulary are spread over a stage's layers.

    >>> from helpers.costs.transformers.public_models import model
    >>> from .step_operations import operations
    >>> c, laid = model("llama-3-8b"), Layout(dp=2, tp=4)
    >>> [(x.kind, x.axes, x.forward, x.backward) for x in sends(c, laid, operations(c, laid, 2, 8192)).layers[0]][:2]
    [('AllGather', ('tp',), 2, 2), ('ReduceScatter', ('tp',), 2, 2)]
    """
    tables = _tables(c, layout, at) / stage_layers(c, layout)
    layers = tuple(
        (
            *_blocks(c, layout, layer),
            *_keys(layout, layer),
            *_tokens(c, layout, layer),
            *_weights(layout, layer.weights - layer.experts + tables, ("cp", "ep", "dp")),
            *(_weights(layout, layer.experts, ("cp", "dp")) if layer.kind.moe else ()),
        )
        for layer in at.layers
    )
    return Sends(layers, _handed(c, layout, at), _over_pods(layout, held(c, layout, at)))


def _over_pods(layout: Layout, kept: Held) -> tuple[Send, ...]:
    """Each device has a share of its slice's gradients by then, and sums that with its like in the other pods."""
    if plain(layout.pods) and layout.pods == 1:
        return ()
    mine = (kept.dense / layout.ep + kept.experts) / (layout.dp * layout.cp * layout.fsdp)
    return (Send("AllReduce", ("pods",), "gradients", layout.stored.gradient * mine, update=1),)


def _handed(c: Config, layout: Layout, at: Operations) -> tuple[Send, ...]:
    """A device between two others hands on v activations of each microbatch: each chip of tp its share of them.

    Without sequence parallelism the next stage puts the shares together (Narayanan et al. 2021, "scatter/gather").
    """
    whole, n = layout.stored.activation * at.rows * c.D, layout.stages / layout.pp * (layout.pp > 1)
    share = Send("Permute", ("pp",), "activations", whole / layout.tp, n, n)
    if layout.sequence_parallel:
        return (share,)
    return share, Send("AllGather", ("tp",), "activations", whole, n, n, hides=False)


def _blocks(c: Config, layout: Layout, layer: Layer) -> tuple[Send, ...]:
    """What tp sends around attention and around an MLP or shared experts.

    With sequence parallelism an AllGather of In and a ReduceScatter of Out, and each is the other's gradient: g and its
    conjugate of "Reducing Activation Recomputation" (2022). Without it, f and its conjugate: all of In is there, and an
    AllReduce sums Out forward and In's gradient backward; of experts, whose tokens tp has cut, it puts Out together.
    """
    size, tp = layout.stored.activation * layer.block, ("tp",)
    dense = not layer.kind.moe or c.moe.shared > 0 or not layout.sequence_parallel
    n = 1 if c.parallel else 1 + dense
    # Again: all of the forward pass; or of each layer attention, whose Out the MLP reads, once it is gathered.
    late, out = (0, 0) if c.parallel else (n - 1, 1)
    again = {"block": out, "nothing": n}
    if not layout.sequence_parallel:
        return (Send("AllReduce", tp, "activations", size, n, n, 0, again, hides=False),)
    return (
        Send("AllGather", tp, "activations", size, n, n, 0, {"block": late, "nothing": n}, hides=False),
        Send("ReduceScatter", tp, "activations", size, n, n, 0, again, hides=False),
        Send("AllGather", tp, "activations", size, 0, n, 0, {"block": -late}),  # In again: no gradient waits for it
    )


def _keys(layout: Layout, layer: Layer) -> tuple[Send, ...]:
    """Keys and values go round the ring; their gradients come back."""
    size = layout.stored.activation * layer.keys
    return (
        Send("AllGather", ("cp",), "keys", size, 1, 1, 0, {"block": 1, "nothing": 1}),
        Send("ReduceScatter", ("cp",), "keys", size, 0, 1),
    )


def _tokens(c: Config, layout: Layout, layer: Layer) -> tuple[Send, ...]:
    """Tokens go to their experts and back; their gradients the same way; experts' inputs are sent again, not kept."""
    if not layer.kind.moe:
        return ()
    size = layout.stored.activation * layer.routed * layout.ep * layout.tp
    again = {"block": 1, "nothing": 2}
    return (Send("AllToAll", ("tp", "ep"), "tokens", size, 2, 3, 0, again, False, c.moe.k),)


def _weights(layout: Layout, params, copies: tuple[str, ...]) -> tuple[Send, ...]:
    """Weights under fsdp, and under zero=3 those that are copied along other axes: gathered for each pass, gradients scattered.

    Otherwise gradients are summed over the copies, at the end, or with zero=2 after every microbatch.
    """
    z, whole = layout.zero, (*copies[:-1], "fsdp", "dp")
    each = min(layout.stored.weight, layout.stored.activation) * params
    out = []
    for axes, on in ((("fsdp",), z < 3), (whole, z == 3)):
        out.append(Send("AllGather", axes, "weights", each, 1 * on, 1 * on, 0, {"nothing": 1 * on}))
        out.append(Send("ReduceScatter", axes, "gradients", each, 0, 1 * on))
    mine = params / layout.fsdp
    sums, weights = layout.stored.gradient * mine, each / layout.fsdp
    return (
        *out,
        Send("AllReduce", copies, "gradients", sums, update=1 * (z == 0)),
        Send("ReduceScatter", copies, "gradients", sums, 0, 1 * (z == 2), 1 * (z == 1)),
        Send("AllGather", copies, "weights", weights, update=1 * ((z == 1) | (z == 2))),
    )


@dataclass(frozen=True)
class Sent:
    """A collective of one device, as often as it runs in a step.

    axes     of the layout; several are gathered over together
    what     "weights", "gradients" or "activations", "keys" for keys and values, "tokens" on the way to experts
    bytes    of the array on one device where it is whole along the axes (all shards together for an AllToAll)
    times    it runs in a step
    when     "forward" or "backward", or "update", once at the end
    hides    nothing waits for it, so it can run beside the products
    seconds  of all runs, without overlap
    copies   of a token among what an AllToAll sends
    """

    kind: str
    axes: tuple[str, ...]
    what: str
    bytes: float
    times: float
    when: str
    hides: bool
    seconds: float
    copies: float = 1

    def __str__(self) -> str:
        beside = "hides" if self.hides else "waits"
        return (
            f"{self.times:g} x {self.kind}_{'+'.join(self.axes)} of {self.what}, {self.bytes / 1e6:.4g} MB each, "
            f"{self.when}, {beside}: {self.seconds:.3g} s"
        )


def collectives(
    c: Config,
    layout: Layout,
    at: Operations,
    s: Slice,
    hop,
) -> tuple[Sent, ...]:
    """Every collective of a device, at published rates; those that have nobody to send to are left out where that can be seen.

    at   the step's `operations`
    hop  seconds of latency per hop
    """
    over, out = joined(layout, s), []
    listed, m = sends(c, shared(layout, s.chip), at), layout.microbatches
    for one, n in _of_stage(c, layout, at, listed):
        out += _priced(one, over(one.axes), layout.policy, m, n, hop)
    for one in listed.pods:
        took = 2 * (1 - 1 / layout.pods) * one.bytes / s.chip.dcn_bandwidth
        out.append(Sent(one.kind, one.axes, one.what, one.bytes, one.update, "update", one.hides, took))
    return tuple(out)


def joined(layout: Layout, s: Slice):
    """The function that gives the wires of an axis, or of several together, by their names."""
    on, torus = wires(layout, s), bool(s.chip.axes)
    return cache(lambda axes: on[axes[0]] if len(axes) == 1 else together([on[a] for a in axes], torus))


def seconds_each(kind: str, way: Wires, copies=1):
    """Seconds of a collective for each byte of its array, without hops."""
    return {"AllToAll": way.swap(copies), "Permute": way.neighbour, "AllReduce": way.sum}.get(kind, way.gather)


def _of_stage(c: Config, layout: Layout, at: Operations, listed: Sends) -> list[tuple[Send, float]]:
    """Every collective of a stage, and how many of its layers have it; layers of several kinds that send the same count as one."""
    out: list[tuple[Send, float]] = [(one, 1) for one in listed.stage]
    places: dict[tuple, int] = {}
    for layer, some in zip(at.layers, listed.layers):
        n = stage_layers(c, layout) * (layer.count / c.L)
        for one in some:
            numbers = one.bytes, one.forward, one.backward, one.update
            key = (one.kind, one.axes, one.what, one.hides, *numbers) if plain(*numbers) else (len(out),)
            place = places.setdefault(key, len(out))
            if place == len(out):
                out.append((one, n))
            else:
                out[place] = one, out[place][1] + n
    return out


def _priced(one: Send, way: Wires, policy: str, microbatches, layers, hop) -> list[Sent]:
    """The runs of a collective over so many layers, pass by pass."""
    each = seconds_each(one.kind, way, one.copies)
    hops = way.sum_hops if one.kind == "AllReduce" else way.hops
    seconds, out = where(way.n > 1, maximum(hop * hops, one.bytes * each), 0.0), []
    for when, n in zip(("forward", "backward", "update"), (*one.passes(policy), one.update)):
        times = n * layers * (1 if when == "update" else microbatches)
        if not plain(times, way.n) or (times and way.n > 1):
            took = times * seconds
            out.append(Sent(one.kind, one.axes, one.what, one.bytes, times, when, one.hides, took, one.copies))
    return out


entries(__name__)
