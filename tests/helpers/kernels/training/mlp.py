"""The two-matmul layers that strategies train: weights, tokens and targets, there or absent, and two steps of Adam."""

import jax
import numpy as np

from helpers.kernels import mesh as meshes
from helpers.kernels.training import mlp_training_step
from helpers.kernels.transformers.adam import Adam

ADAM = Adam(rate=0.02)
X4, Y4, X2Y4 = ((4,), ("X",)), ((4,), ("Y",)), ((2, 4), ("X", "Y"))


def given(B=16, D=8, F=24, L=3, dtype="float32"):
    draw = np.random.default_rng(0)

    def normal(*shape, scale=1.0):
        return jax.device_put((scale * draw.standard_normal(shape)).astype(dtype))

    w = mlp_training_step.Weights(normal(L, D, F, scale=D**-0.5), normal(L, F, D, scale=F**-0.5))
    return w, normal(B, D), normal(B, D)


def absent(B, D, F, L, dtype="bfloat16"):
    """(weights, Adam's state, In, Target), as shapes."""
    like = lambda *shape: jax.ShapeDtypeStruct(shape, dtype)  # noqa: E731
    w = mlp_training_step.Weights(like(L, D, F), like(L, F, D))
    return w, jax.eval_shape(ADAM.start, w), like(B, D), like(B, D)


def two_steps(s, grid, micro=1):
    """(weights as they lie over the mesh, the loss) after two steps."""
    mesh, (w, In, Target) = meshes.mesh(*grid), given()
    held, moments = mlp_training_step.start(s, mesh, w)
    step = mlp_training_step.step(s, mesh, ADAM, micro)
    for _ in range(2):
        held, moments, loss = step(held, moments, In, Target)
    return held, loss


def volume(sent):
    """Bytes as the strategy table counts them: of the whole array, twice for an AllReduce."""
    return sum((2 if c.kind == "AllReduce" else 1) * c.times * c.bytes for c in sent)
