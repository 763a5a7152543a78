"""Arrays, layers and collectives as the tests of sharded inference write them."""

from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from helpers.costs.sharding.collectives import Collective
from helpers.costs.transformers.config import LayerKind
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.abstract_arrays import bf16, int32
from tests.helpers.kernels.attention import reference
from tests.helpers.kernels.transformers.families import random_params


def normal(*shape):
    return jax.device_put(np.random.default_rng(prod(shape)).standard_normal(shape).astype("float32"))


def one(kind, axes, shape, out, times=1):
    return Collective(kind, tuple(axes), shape, out, "bf16", times)


def abstract_weights(c):
    """The arrays of a layer, as shapes."""
    return {n: bf16(*a[1:]) for n, a in decoder.shapes(c)["layers"][0].items()}


def abstract_step(c, B, S):
    """(a layer's arrays, its cache of S places, its input of B tokens, positions), as shapes."""
    if c.mla:
        kept = dict(latent=bf16(B, S, c.mla.kv_rank), rope=bf16(B, S, c.mla.rope))
    else:
        kept = dict.fromkeys("kv", bf16(B, S, c.K, c.H))
    return abstract_weights(c), kept, bf16(B, c.D), int32(B)


@cache
def dense_layer(c, B, S):
    """(arrays, input, output, what it keeps of S tokens) by chapter 3's layer: all at once, nothing absorbed."""
    p = jax.tree.map(lambda a: a[0], random_params(c)["layers"][0])
    x = normal(B, S, c.D)
    out, held = jax.jit(lambda p, x: decoder.block(p, x, jnp.arange(S), c, LayerKind()))(p, x)
    return p, np.asarray(x), np.asarray(out), {n: np.asarray(a) for n, a in held.items()}


def upto(held, at):
    """The cache of sequences with at[B] tokens; NaN stands behind them."""
    return {name: np.asarray(reference.spoilt(a, at)) for name, a in held.items()}
