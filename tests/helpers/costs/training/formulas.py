"""Formulas of chapter 4, with settings of each: see tests/helpers/costs/formulas.py."""

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import (
    closed_forms,
    dp_fsdp_tp as strategies,
    layout,
    layout_set as sets,
    pipeline_schedules as pipelines,
    step_estimate,
    step_operations as ops,
    training_step,
)
from helpers.costs.transformers.config import Config
from tests.helpers.costs.tables import by_name
from tests.helpers.costs.transformers.decoders import any_mixture, any_size

SQUARE = Slice(chip("v5e"), (8, 8))


def _layout(fsdp, tp, pp, ep, zero):
    """A layout of 64 chips and 4 microbatches, dp and cp what is left."""
    return layout.Layout(64 // (fsdp * tp * pp * ep), fsdp, tp, pp, ep, 1.0, 2.0, zero, 4.0)


def _laid(*a):
    return training_step.step(any_mixture(512, 8, 8, 1024), _layout(*a), 2**20, 1024, SQUARE)


def _held(*a):
    return tuple(vars(_laid(*a).operations.held).values())


def _prices(*a):
    p = _laid(*a).prices
    layers = [x for one in p.layers for x in vars(one).values() if not isinstance(x, tuple)]
    return tuple(x + 0 * p.head for x in (*layers, p.sums, p.pods, p.update))


def _step(*a):
    """Bounds and memory of a step of a decoder with experts."""
    at = _laid(*a)
    return at.time.lower, at.hidden, at.time.upper, at.memory.total, at.bubble, at.missing, at.mfu(at.hidden)


LAYOUTS = [(4.0, 4.0, 2.0, 2.0, 1.0), (16.0, 1.0, 1.0, 4.0, 0.0), (1.0, 2.0, 4.0, 8.0, 3.0), (1.0, 1.0, 1.0, 1.0, 2.0)]


def _estimated(D, tp, m):
    """Low, mid and high of a step on a machine of each kind."""
    c, k = Config(D, 8, 16, 8, 128, 4 * D, 32000), dict(dp=4.0, tp=tp, microbatches=m, zero=1)
    gpu, tpu = layout.Layout(**k, pp=4, policy="matmuls"), layout.Layout(**k, fsdp=16, pods=2)
    e, f = (step_estimate.step_seconds(c, chip(n), s, 1024, 2048) for n, s in (("H100", gpu), ("v5p", tpu)))
    return e.low, e.mid, e.high, f.low, f.mid, f.high


def _listed(D, tp, m):
    """FLOPs, parameters and streams of the kinds of layers of a decoder with experts."""
    at = ops.operations(any_mixture(D, 8, 8, 2 * D), layout.Layout(dp=2.0, tp=tp, ep=2.0, microbatches=m), 64, 1024)
    of = [
        (layer.flops, sum(vars(layer.held).values()), layer.attention.flops(), layer.streamed[1]) for layer in at.layers
    ]
    return (at.rows + 0 * tp, at.head.flops, *map(sum, zip(*of)))


def _sent(D, tp, m):
    """Bytes of all that a device sends, through all layers."""
    c, laid = any_mixture(D, 8, 8, 2 * D), layout.Layout(dp=2.0, tp=tp, ep=2.0, pp=2.0, microbatches=m)
    listed = ops.operations(c, laid, 64, 1024)
    every = (*(layer.sends for layer in listed.layers), listed.handed)
    return tuple(sum(x.bytes * sum(x.passes("block")) for x in sends) for sends in every)


def _peak(D, tp, m):
    """Bytes of the fullest device, by role."""
    at = layout.Layout(dp=2.0, tp=tp, pp=2.0, ep=2.0, microbatches=m, zero=1, policy="everything")
    return tuple(vars(training_step.peak_memory(any_mixture(D, 8, 8, 2 * D), chip("H100"), at, 64, 1024)).values())


def _utilised(B, T):
    args = Config(4096, 32, 32, 8, 128, 14336, 128256), chip("H100"), layout.Layout(dp=8), B, T
    return step_estimate.utilisation(*args, 10.0)


# name: (formula, settings). Each setting is a tuple of floats; formulas return one number or a tuple of them.
FORMULAS = {
    **by_name(
        (strategies.data_ratio, [(1e6, 64.0, 2550.0, 3.0, 4.0)]), (strategies.tensor_ratio, [(28672.0, 8.0, 2550.0, 1.0)]),
        (strategies.mixed_ratio, [(1e6, 28672.0, 4096.0, 2550.0, 2.0, 1.0)]), (strategies.data_batch, [(2550.0, 3.0)]),
        (strategies.tensor_limit, [(28672.0, 2550.0, 1.0)]),
        (strategies.X_opt, [(48000.0, 32768.0, 64.0, 2.0, 1.0), (3e6, 13824.0, 4096.0, 2.0, 1.0)]),
        (strategies.mixed_batch, [(32768.0, 2550.0, 2.0, 1.0)]), (strategies.chips_limit, [(4e7, 850.0)]),
        (strategies.slice_batch, [(73440.0, 2.0)]),
        (closed_forms.expert_bytes, [(1e4, 7168.0, 8.0, 64.0)]), (closed_forms.expert_ratio, [(2048.0, 19780.0, 64.0)]),
        (closed_forms.expert_width, [(19780.0, 64.0)]), (closed_forms.expert_width_on_rings, [(2550.0, 8.0), (2550.0, 5.0)]),
        (closed_forms.largest_model, [(96e9, 10.0)]), (closed_forms.three_checkpoints, [(3e6, 5120.0, 13824.0, 40.0)]),
    ),
    "operations": (_listed, [(512.0, 8.0, 2.0), (1280.0, 1.0, 1.0)]),
    "sends": (_sent, [(512.0, 8.0, 2.0), (1280.0, 1.0, 1.0)]), "utilisation": (_utilised, [(256.0, 4096.0), (8.0, 65536.0)]),
    "peak_memory": (_peak, [(512.0, 8.0, 2.0), (1280.0, 1.0, 1.0)]),
    "step_seconds": (_estimated, [(4096.0, 8.0, 2.0), (1280.0, 1.0, 1.0)]),
    "cost": (
        lambda B, D, F, X, Y: tuple(
            x for p in strategies.cost("FSDP+TP", B, D, F, X, Y) for x in (p.flops, *p.bytes.values())
        ),
        [(4096.0, 1024.0, 4096.0, 8.0, 4.0)],
    ),
    "accumulation_bytes":
        (lambda m, D, F: tuple(closed_forms.accumulation_bytes(way, m, D, F) for way in closed_forms.WAYS), [(8.0, 512.0, 2048.0)]),
    "idle": (
        lambda p, m, v, F: tuple(pipelines.idle(n, p, m, v, F) for n in pipelines.SCHEDULES),
        [(4.0, 8.0, 2.0, 1.0), (4.0, 2.0, 1.0, 3.0)],
    ),
    "bubble": (lambda p, m: tuple(pipelines.bubble(n, p, m, 2.0) for n in pipelines.SCHEDULES), [(4.0, 8.0), (1.0, 2.0)]),
    "in_flight": (lambda p, m: tuple(pipelines.in_flight(n, p, m, 2.0) for n in pipelines.SCHEDULES), [(4.0, 8.0), (4.0, 2.0)]),
    "estimated": (lambda *a: (lambda e: (e.low, e.mid, e.high))(_laid(*a).estimate), LAYOUTS),
    "step": (_step, LAYOUTS), "held": (_held, LAYOUTS), "prices": (_prices, LAYOUTS),
    "fullest": (lambda *a: tuple(vars(_laid(*a).memory).values()), LAYOUTS),
    "stage_layers":
        (lambda pp, v: sets.stage_layers(any_size(64, 61, 4, 64), layout.Layout(pp=pp, v=v)), [(16.0, 1.0), (4.0, 2.0), (1.0, 1.0)]),
    "divides": (lambda pp: sets.divides(any_size(64, 61, 4, 64), layout.Layout(pp=pp)) * 1.0, [(16.0,), (61.0,)]),
    "last_layers": (lambda pp, v: sets.last_layers(any_size(64, 62, 4, 64), layout.Layout(pp=pp, v=v)), [(16.0, 1.0), (4.0, 8.0)]),
    "device_stages": (
        lambda pp: tuple(n for n, _ in sets.device_stages(any_size(64, 61, 4, 64), layout.Layout(pp=pp), "last", pp - 1)),
        [(16.0,), (1.0,)],
    ),
    "slowest_stage": (
        lambda pp, each, head: sets.slowest_stage(any_size(64, 60, 4, 64), each, head, layout.Layout(pp=pp)),
        [(16.0, 1.0, 2.0), (4.0, 2.0, 0.5), (8.0, 0.1, 9.0)],
    ),
    "zero_memory": (lambda P, X: tuple(closed_forms.zero_memory(P, X, 2)), [(7e9, 64.0)]),
}  # fmt: skip
