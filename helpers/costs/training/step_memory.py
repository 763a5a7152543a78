"""What the fullest device of a training step holds at its peak, by role, as allocators report it (chapter 4).

`transformers.training_memory_bytes` has what the formulas of the sources need. This goes from the list of operations
(`step_operations`) and adds what runs hold besides: the copy of the largest gradient before it is added, logits as the loss keeps
them, and what libraries keep. Fused attention keeps no T·S weights, whatever the policy.

A pipeline's first device has the embedding and the most microbatches under way, its last one the unembedding and the logits, and
of a mixture's layers perhaps more with experts; the fuller of the two counts. Stages may be uneven.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import arrays
from helpers.numeric import maximum, minimum, where

from .layout import Layout, shared
from .operation_seconds import TUNED, Software
from .pipeline_schedules import in_flight
from .step_operations import Layer, Operations, operations, stage_layers

CUT = ("q", "q_up", "k", "v", "kv_up", "shares", "heads", "gate", "in", "hidden")
"""Arrays of `training_memory_bytes.arrays`, by the first word, that tp cuts by heads or by F; the others are of D, or latent."""

LIBRARY = (
    1.6 * 2**30
)  # bytes of a GPU: buffers of collectives, workspaces, fragments; what B200 held besides what can be named
LOGIT = 6  # bytes a logit: bf16 as the product gives it, float32 as the loss keeps its softmax


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of the fullest device, by role.

    gathered     weights of two layers that fsdp has gathered, one of them ahead
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


def on_a_chip(some: Mapping[str, float], layout: Layout):
    """Numbers of these arrays that one of the tp chips has for a token; without sequence parallelism it has all of some."""
    whole = 0 if layout.sequence_parallel else sum(n for name, n in some.items() if name.split()[0] not in CUT)
    return (sum(some.values()) - whole) / layout.tp + whole


def _kept(c: Config, layer: Layer, layout: Layout, policy: str, T, software: Software):
    """Numbers that one layer keeps for a token on one device."""
    some = dict(arrays(c, layer.kind, "everything" if policy == "nothing" else policy, T))
    if software.attention != "stored":
        some.pop("shares", None)
    return on_a_chip(some, layout)


def _of_stage(c: Config, layers: tuple[Layer, ...], values, n, last: bool):
    """Sum over a stage's n layers of what each kind of layer has: at the pipeline's end as many with experts as can be."""
    total = sum(layer.count for layer in layers)
    if c.moe is None or c.moe.every != 1 or not c.moe.first_dense:
        return sum(layer.count * v for layer, v in zip(layers, values)) / total * n
    mixed = sum(layer.count for layer in layers if layer.kind.moe)
    experts = minimum(n, mixed) if last else maximum(n - (c.L - mixed), 0)
    out = 0.0
    for moe, many in ((True, experts), (False, n - experts)):
        some = [(layer.count, v) for layer, v in zip(layers, values) if layer.kind.moe == moe]
        out = out + many * sum(count * v for count, v in some) / sum(count for count, _ in some)
    return out


def _most(layers: tuple[Layer, ...], values):
    """The largest of what each kind of layer has, of those that the model has: traced, it lists others too."""
    return maximum(*(where(layer.count > 0, v, 0.0) for layer, v in zip(layers, values)), 0.0)


def _shared(dense, experts, layout: Layout, least: int):
    """Numbers of a device, of those that fsdp and zero share."""
    on = layout.zero >= least
    copies = layout.dp * layout.cp
    whole = dense / where(on, copies * layout.ep, 1) + experts / where(on, copies, 1)
    return whole / layout.fsdp


def _tables(c: Config, layout: Layout, at: Operations, last: bool) -> tuple:
    """Numbers of the tables of the vocabulary on the first or the last device, and whether it has the loss."""
    both, one = at.table + (0 if c.tied else at.head.weights), layout.pp == 1
    if layout.schedule == "DualPipe":
        return both, True
    if layout.schedule == "ZB-V":  # the first device has the first stage and the last one
        return where(one, both, 0.0 if last else both), one | (not last)
    return where(one, both, at.head.weights if last else at.table), one | last


def _end(c: Config, layout: Layout, T, gpu: bool, software: Software, at, last: bool) -> DeviceMemory:
    """The first or the last device of a pipeline; of one stage both are the same."""
    sizes, pp, copies = layout.stored, layout.pp, layout.dp * layout.ep * layout.cp
    n = minimum(stage_layers(c, layout), c.L)
    experts = _of_stage(c, at.layers, [layer.experts for layer in at.layers], n, last)
    dense = _of_stage(c, at.layers, [layer.weights - layer.experts for layer in at.layers], n, last)
    ends, loss = _tables(c, layout, at, last)
    if layout.schedule == "DualPipe":  # all weights lie on two devices
        dense, experts = (where(pp > 1, 2, 1) * x for x in (dense, experts))
    dense = dense + ends
    states = [
        each * _shared(dense, experts, layout, least)
        for least, each in ((3, sizes.weight), (2, sizes.gradient), (1, sizes.state))
    ]
    if layout.offload == "optimizer":
        states[2] = 0.0
    kept = [_kept(c, layer, layout, layout.policy, T, software) for layer in at.layers]
    under_way = in_flight(layout.schedule, pp, layout.microbatches, layout.v, pp - 1 if last else 0)
    x = sizes.activation * at.rows
    again = _most(at.layers, [_kept(c, layer, layout, "everything", T, software) for layer in at.layers])
    matrix = _most(at.layers, [maximum(*(p.weights for p in layer.products)) for layer in at.layers])
    gathered = _most(at.layers, [layer.weights for layer in at.layers])
    return DeviceMemory(
        *states,
        gathered=where((layout.fsdp > 1) | ((layout.zero == 3) & (copies > 1)), 2 * 2 * gathered, 0.0),
        activations=x * _of_stage(c, at.layers, kept, n, last) * under_way,
        working=(x * again if layout.policy == "block" else 0.0) + 2 * matrix,
        logits=where(loss, LOGIT * at.rows * c.V / layout.tp, 0.0),
        library=LIBRARY if gpu else 0.0,
    )


def peak_memory(c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED) -> DeviceMemory:
    """Bytes of the fullest device in a training step on B sequences of T tokens.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> from .layout import Bytes
    >>> at = Layout(dp=4, pp=2, microbatches=4, zero=1, policy="everything", stored=Bytes(gradient=4, state=12))
    >>> from dataclasses import replace
    >>> cut = replace(model("llama-3-70b"), L=12)                              # measured: 66.5 GiB on B200 (SimuMax 1.2)
    >>> round(peak_memory(cut, chip("B200"), at, 16, 4096).total / 2**30, 1)
    66.9
    """
    layout = shared(layout, chip)
    return fullest(c, chip, layout, operations(c, layout, B, T), T, software)


def fullest(c: Config, chip: Chip, layout: Layout, at: Operations, T, software: Software = TUNED) -> DeviceMemory:
    """The same, of a step whose operations are known."""
    first, last = (_end(c, layout, T, chip.axes == 0, software, at, end) for end in (False, True))
    fuller = last.total > first.total
    return DeviceMemory(**{name: where(fuller, getattr(last, name), getattr(first, name)) for name in vars(first)})


entries(__name__)
