"""Programs of `helpers.kernels.training` whose collectives are listed; see tools/sends.py."""

from functools import partial

import jax

from helpers.costs.training.pipeline_schedules import pipeline
from helpers.costs.transformers.config import MoE
from helpers.kernels.training import (
    data_parallel_and_fsdp as data,
    mlp_training_step,
    pipeline_parallel,
    transformer_over_mesh,
)
from helpers.kernels.training.transformer_over_mesh import Axes
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.abstract_arrays import as_bf16, bf16, int32, mesh
from tests.helpers.kernels.transformers.families import toy

ADAM = Adam(rate=0.01)
B, D, F, L = 16, 8, 24, 3  # of the two-matmul layers; B counts tokens

STRATEGIES = {
    "one device": (mlp_training_step.ONE, dict(X=1)),
    "data parallelism": (data.DATA, dict(X=4)),
    "ZeRO-1": (data.ZERO1, dict(X=4)),
    "ZeRO-2": (data.ZERO2, dict(X=4)),
    "FSDP": (data.FSDP, dict(X=4)),
    "data parallelism, summed once": (data.DATA_ONCE, dict(X=4)),
    "FSDP, scattered once": (data.FSDP_ONCE, dict(X=4)),
    "tensor parallelism": (data.TENSOR, dict(Y=4)),
    "FSDP and tensor parallelism": (data.MIXED, dict(X=2, Y=4)),
}


def weights():
    return mlp_training_step.Weights(bf16(L, D, F), bf16(L, F, D))


def passes(name, backward):
    s, sizes = STRATEGIES[name]
    there, back = mlp_training_step.passes(s, mesh(**sizes))
    given = bf16(B, D), weights()
    return (back, (*jax.eval_shape(there, *given), weights())) if backward else (there, given)


def mlp_step(name, micro=1, master=False):
    s, sizes = STRATEGIES[name]
    state = jax.eval_shape(partial(ADAM.start, master=master), weights())
    return mlp_training_step.step(s, mesh(**sizes), ADAM, micro), (weights(), state, bf16(B, D), bf16(B, D))


def hosts_step(hybrid, micro):
    state = jax.eval_shape(ADAM.start, weights())
    return data.hsdp_step(mesh(X=2, Y=4), ADAM, micro, hybrid), (weights(), state, bf16(B, D), bf16(B, D))


SCHEDULES = {  # schedule, devices, microbatches, stages on each device; size of X, if there is one
    "naive, 4 stages, 4 microbatches": ("naive", 4, 4, 1, 0),
    "GPipe, 4 stages, 8 microbatches": ("GPipe", 4, 8, 1, 0),
    "1F1B, 4 stages, 8 microbatches": ("1F1B", 4, 8, 1, 0),
    "1F1B, 4 stages, 8 microbatches, twice along X": ("1F1B", 4, 8, 1, 2),
    "interleaved, 4 devices, 8 microbatches, 2 stages each": ("interleaved", 4, 8, 2, 0),
    "ZB-H1, 4 stages, 8 microbatches": ("ZB-H1", 4, 8, 1, 0),
    "ZB-H2, 4 stages, 8 microbatches": ("ZB-H2", 4, 8, 1, 0),
}


def schedule(name):
    """(orders, mesh, microbatches)."""
    kind, p, m, v, X = SCHEDULES[name]
    return pipeline(kind, p, m, v), mesh(**(dict(X=X) if X else {}), Z=p), m


def two_matmul(name):
    orders, grid, m = schedule(name)
    run = pipeline_parallel.gradients(pipeline_parallel.two_matmul(m * 6 * D), orders, grid)
    return run, (mlp_training_step.Weights(bf16(8, D, F), bf16(8, F, D)), bf16(), bf16(m, 6, D), bf16(m, 6, D))


def params(c):
    return as_bf16(jax.eval_shape(lambda: decoder.init(c, jax.random.key(0))))


DENSE = toy(D=8, L=2, N=4, K=2, H=4, F=12, V=13)
EXPERTS = toy(D=8, L=2, N=4, K=2, H=4, F=12, V=13, moe=MoE(E=4, k=2, F=6))
AXES = {
    "data": (DENSE, Axes(data="X"), dict(X=4)),
    "context and tensor": (DENSE, Axes(context="S", tensor="Y"), dict(S=4, Y=2)),
    "data, FSDP and tensor": (DENSE, Axes(data="P", fsdp="X", tensor="Y"), dict(P=2, X=2, Y=2)),
    "FSDP and experts": (EXPERTS, Axes(fsdp="X", experts="E", capacity=1.0), dict(X=2, E=2)),
}


def loss(name):
    c, axes, sizes = AXES[name]
    return transformer_over_mesh.loss(c, mesh(**sizes), axes), (params(c), int32(8, 16 + 1))


def whole_step(name):
    c, axes, sizes = AXES[name]
    given = params(c), jax.eval_shape(ADAM.start, params(c)), int32(8, 16 + 1)
    return transformer_over_mesh.step(c, mesh(**sizes), axes, ADAM), given


PROGRAMS = {
    **{
        f"mlp_training_step.passes, {s}, {way}": partial(passes, s, way == "backward")
        for s in STRATEGIES
        for way in ("forward", "backward")
    },
    **{f"mlp_training_step.step, {s}": partial(mlp_step, s) for s in STRATEGIES},
    **{
        f"mlp_training_step.step, {s}, 4 microbatches": partial(mlp_step, s, 4)
        for s in STRATEGIES
        if STRATEGIES[s][1] == dict(X=4)
    },
    "mlp_training_step.step, FSDP, a master copy": partial(mlp_step, "FSDP", master=True),
    "data_parallel_and_fsdp.hsdp_step, 2 microbatches": partial(hosts_step, True, 2),
    "data_parallel_and_fsdp.hsdp_step, FSDP": partial(hosts_step, False, 1),
    **{f"pipeline_parallel.gradients, {s}": partial(two_matmul, s) for s in SCHEDULES},
    "transformer_over_mesh.loss, context and tensor": partial(loss, "context and tensor"),
    **{f"transformer_over_mesh.step, {axes}": partial(whole_step, axes) for axes in AXES},
}
