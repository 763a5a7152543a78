"""What a training step sends under a layout: every collective of a device, with its bytes and seconds (chapter 4).

`training_step.step` puts this together with arithmetic and memory. Symbols and conventions as there.
"""

from dataclasses import dataclass
from functools import cache

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import Config
from helpers.numeric import maximum, plain, where

from .layout import Bytes, Layout, together, wires
from .step_operations import Operations, stage_layers


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
    stage, table = stage_layers(c, layout) / c.L, at.head.weights
    ends = where(layout.pp == 1, at.table + (0 if c.tied else table), maximum(at.table, table))
    return Held(stage * at.dense + ends, stage * at.experts)


@dataclass(frozen=True)
class Sent:
    """A collective of one device, as often as it runs in a step.

    axes     of the layout; several are gathered over together
    what     "weights", "gradients" or "activations", "keys" for keys and values, "tokens" on the way to experts
    bytes    of the array on one device where it is whole along the axes (all shards together for an AllToAll)
    times    it runs in a step
    when     "forward" or "backward", or "update", once at the end
    hides    nothing waits for it, so it can run beside the products
    seconds  of all runs, one after the other
    """

    kind: str
    axes: tuple[str, ...]
    what: str
    bytes: float
    times: float
    when: str
    hides: bool
    seconds: float

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
    kept: Held,
    s: Slice,
    hop,
) -> tuple[Sent, ...]:
    """Every collective of a device; those that have nobody to send to are left out where that can be seen.

    at    the step's `operations`
    kept  `held` of these
    hop   seconds of latency per hop
    """
    on, torus = wires(layout, s), bool(s.chip.axes)
    over = cache(lambda axes: on[axes[0]] if len(axes) == 1 else together([on[a] for a in axes], torus))
    out = []

    def send(kind, axes, what, size, times, when, hides):
        way = over(axes)
        each = {"AllToAll": way.across, "Permute": way.neighbour, "AllReduce": way.sum}.get(kind, way.gather)
        hops = way.sum_hops if kind == "AllReduce" else way.hops
        took = times * where(way.n > 1, maximum(hop * hops, size * each), 0.0)
        if not plain(times, way.n) or (times and way.n > 1):
            out.append(Sent(kind, axes, what, size, times, when, hides, took))

    L, sizes = stage_layers(c, layout), layout.stored
    _activations(c, layout, at, L, send)
    _weights(c, layout, kept, L, sizes, send)
    _copies(c, layout, kept, L, sizes, send)
    if torus and not (plain(layout.pods) and layout.pods == 1):
        each = sizes.gradient * (kept.dense / layout.ep + kept.experts) / (layout.dp * layout.cp) / layout.fsdp
        took = 2 * (1 - 1 / layout.pods) * each / s.chip.dcn_bandwidth
        out.append(Sent("AllReduce", ("pods",), "gradients", each, 1, "update", True, took))
    return tuple(out)


def _weights(c: Config, layout: Layout, kept: Held, L, sizes: Bytes, send) -> None:
    """Weights under fsdp, and under zero=3 those that dp, ep and cp copy: gathered for each pass, gradients scattered.

    One layer's at a time, the tables of the vocabulary spread over them.
    """
    m, z = layout.microbatches, layout.zero
    passes = {"forward": 1, "backward": 2 if layout.policy == "nothing" else 1}  # the whole forward pass again
    cases = [(("fsdp",), kept.dense, z < 3), (("cp", "ep", "fsdp", "dp"), kept.dense, z == 3)]
    if c.moe:
        cases += [(("fsdp",), kept.experts, z < 3), (("cp", "fsdp", "dp"), kept.experts, z == 3)]
    for axes, params, on in cases:
        for when, n in passes.items():
            send("AllGather", axes, "weights", sizes.weight / L * params, n * m * L * on, when, True)
        send("ReduceScatter", axes, "gradients", sizes.gradient / L * params, m * L * on, "backward", True)


def _copies(c: Config, layout: Layout, kept: Held, L, sizes: Bytes, send) -> None:
    """Gradients of weights that several devices hold: once at the end, or with zero=2 after every microbatch."""
    m, z = layout.microbatches, layout.zero
    cases = [(("cp", "ep", "dp"), kept.dense)] + ([(("cp", "dp"), kept.experts)] if c.moe else [])
    for axes, params in cases:
        w, g = (each / L * params / layout.fsdp for each in (sizes.weight, sizes.gradient))
        send("AllReduce", axes, "gradients", g, L * (z == 0), "update", True)
        send("ReduceScatter", axes, "gradients", g, L * (z == 1), "update", True)
        send("ReduceScatter", axes, "gradients", g, m * L * (z == 2), "backward", True)
        send("AllGather", axes, "weights", w, L * ((z == 1) | (z == 2)), "update", True)


def _activations(c: Config, layout: Layout, at: Operations, L, send) -> None:
    """What is sent of activations, in each microbatch, through L layers of a stage."""
    m, policy, x = layout.microbatches, layout.policy, layout.stored.activation
    moe = sum(layer.count for layer in at.layers if layer.kind.moe) / c.L * L
    one = x * at.layers[0].block
    mine = one / layout.tp if layout.sequence_parallel else one  # what a device has of it between blocks
    _blocks(c, layout, one, L, moe, send)
    # Keys and values go round the ring; their gradients come back.
    keys = x * at.layers[0].keys
    twice = 1 if policy in ("everything", "matmuls") else 2
    send("AllGather", ("cp",), "keys", keys, m * L, "forward", True)
    send("AllGather", ("cp",), "keys", keys, m * L * twice, "backward", True)
    send("ReduceScatter", ("cp",), "keys", keys, m * L, "backward", True)
    # Tokens go to their experts and back; their gradients the same way; experts' inputs are sent again, not kept.
    again = {"nothing": 3, "block": 2}.get(policy, 1)
    if c.moe:
        routed = mine * layout.ep * c.moe.k
        send("AllToAll", ("ep",), "tokens", routed, m * 2 * moe, "forward", False)
        send("AllToAll", ("ep",), "tokens", routed, m * (2 + again) * moe, "backward", False)
    # A device between two others hands on v activations of each microbatch; `kernels.training.pipeline_parallel` tells what it sends.
    for when in ("forward", "backward"):
        send("Permute", ("pp",), "activations", mine, m * layout.stages / layout.pp * (layout.pp > 1), when, True)


def _blocks(c: Config, layout: Layout, one, L, moe, send) -> None:
    """What tp sends, `one` bytes each: around attention and around the MLP; of experts, for each copy of a token.

    With sequence parallelism an AllGather of In and a ReduceScatter of Out, and each is the other's gradient: g and its
    conjugate of "Reducing Activation Recomputation" (2022). Without it, f and its conjugate: all of In is there, and an
    AllReduce sums Out forward and In's gradient backward.
    """
    m, policy = layout.microbatches, layout.policy
    blocks = L if c.parallel else 2 * L - moe + moe * ((c.moe.k + (c.moe.shared > 0)) if c.moe else 0)
    # What is done again: all of the forward pass; or of each layer attention, whose Out the MLP reads, once it is gathered.
    late = 0 if c.parallel or policy != "block" else blocks - L
    gathers, scatters = {"nothing": (blocks, blocks), "block": (late, 0 if c.parallel else L)}.get(policy, (0, 0))
    for when, more, out in (("forward", 0, 0), ("backward", gathers, scatters)):
        if layout.sequence_parallel:
            send("AllGather", ("tp",), "activations", one, m * (blocks + more), when, False)
            send("ReduceScatter", ("tp",), "activations", one, m * (blocks + out), when, False)
        else:
            send("AllReduce", ("tp",), "activations", one, m * (blocks + out), when, False)
    if layout.sequence_parallel:  # In again: no gradient waits for it
        send("AllGather", ("tp",), "activations", one, m * (blocks - late), "backward", True)


entries(__name__)
