"""Pipelines of whole models: one batch through a chain of devices, and the small Transformer by any order of tasks (chapter 4).

Source: Austin et al. 2025, Section 5, whose loop is put right here: backward from the last stage to the first, each gradient
at the stage's own input, which lies where its weights are.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from helpers.costs.training.pipeline_schedules import Orders
from helpers.costs.transformers.config import Config
from helpers.kernels.transformers import decoder as transformer
from helpers.kernels.transformers.adam import Adam, Moments

from . import pipeline_parallel, transformer_over_mesh


def one_after_the_other(f: Callable, loss: Callable, weights: Sequence, x, devices: Sequence[jax.Device]):
    """(loss, the gradient of each stage's weights, on that stage's device) of y = f(x, w) for each w, stage i on device i.

    One batch, no microbatches: all devices but one wait.
    """
    if len(weights) != len(devices):
        raise ValueError(
            f"{len(weights)} stages lie on as many devices, not on {len(devices)}: give each stage its own"
        )
    weights = [jax.device_put(w, d) for w, d in zip(weights, devices, strict=True)]
    inputs = []
    for w, device in zip(weights, devices):
        x = jax.device_put(x, device)
        inputs.append(x)  # after it has moved: where its weights are
        x = f(x, w)
    value, dx = jax.value_and_grad(loss)(x)
    gradients = []
    for w, device, x in reversed(list(zip(weights, devices, inputs))):
        dx, dw = jax.vjp(f, x, w)[1](jax.device_put(dx, device))
        gradients.insert(0, dw)
    return value, gradients


def decoder(c: Config, size: int) -> pipeline_parallel.Stage:
    """Stages of the small Transformer's layers; the last one unembeds, and has its share of the mean over `size` tokens."""

    def loss(top, x, targets):
        logits = transformer.unembed(top, x, c)
        return (
            -jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), targets[..., None], axis=-1).sum()
            / size
        )

    return pipeline_parallel.of_function(lambda x, w: transformer.layers([w], x, c), loss)


def step(c: Config, orders: Orders, mesh: jax.sharding.Mesh, adam: Adam) -> Callable:
    """The program (params, moments, tokens[B, T + 1]) -> (params, moments, loss): Adam after all microbatches are through.

    Layers and their moments lie over Z. What is embedded or unembedded with is on every device.
    """
    transformer_over_mesh.fits(c)
    pipeline_parallel.stages_of(mesh)
    if len(transformer.runs(c)) > 1 or c.tied:
        raise ValueError("a pipeline of this program has layers of one kind, and an unembedding of its own")
    m = pipeline_parallel.microbatches(orders)

    def program(params, moments, rows):
        B, T = len(rows), rows.shape[1] - 1
        if B % m:
            raise ValueError(f"{m} microbatches do not share {B} sequences evenly: make B a multiple of {m}")
        rows = rows.reshape(m, B // m, T + 1)
        top = {name: w for name, w in params.items() if name not in ("layers", "embedding")}
        xs, into = jax.vjp(lambda table: table[rows[..., :-1]], params["embedding"])
        run = pipeline_parallel.gradients(decoder(c, B * T), orders, mesh)
        s = run(params["layers"][0], top, xs, rows[..., 1:])
        gradients = {"embedding": into(s.dxs)[0], **s.dtop, "layers": [s.dw]}
        params, moments = adam.update(params, gradients, moments)
        return *jax.lax.with_sharding_constraint((params, moments), lay(c, mesh)), s.loss

    return jax.jit(program)


def lay(c: Config, mesh: jax.sharding.Mesh) -> tuple[dict, Moments]:
    """Where parameters and moments are between two steps."""
    stages = jax.tree_util.DictKey("layers")
    on = lambda path, _: jax.NamedSharding(mesh, P(pipeline_parallel.Z if path[0] == stages else None))  # noqa: E731
    leaf = lambda x: isinstance(x, tuple)  # noqa: E731
    each = jax.tree_util.tree_map_with_path(on, transformer.shapes(c), is_leaf=leaf)
    return each, Moments(each, each, jax.NamedSharding(mesh, P()))


def start(c: Config, mesh: jax.sharding.Mesh, params: dict) -> tuple[dict, Moments]:
    """Parameters and Adam's zeros, laid over the mesh."""
    if c.L % (p := pipeline_parallel.stages_of(mesh)):
        raise ValueError(f"{p} devices do not share {c.L} layers evenly: make L a multiple of {p}")
    return jax.device_put((params, Adam.start(params)), lay(c, mesh))
