"""Generation with data-parallel attention and spread experts: the tokens of one device, and two AllToAlls a layer, nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.transformers.config import MLA, MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.experts import decoder as spread
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.transformers.families import random_params, toy

V3 = toy(K=4, H=None, mla=MLA(8, kv_rank=10, nope=6, rope=4, v=5), moe=MoE(E=8, k=3, F=7, shared=1, first_dense=1))
MODELS = {"latent, shared and a dense layer": V3, "grouped, a window": toy(L=2, window=3, moe=MoE(E=16, k=2, F=9))}
B, T, NEW = 8, 5, 4


def alone(params, prompt, c):
    logits, cache = decoder.prefill(params, prompt, c, size=T + NEW)
    out = [logits.argmax(-1)]
    for t in range(T, T + NEW - 1):
        logits, cache = decoder.decode(params, cache, out[-1], t, c)
        out.append(logits.argmax(-1))
    return jnp.stack(out, 1)


@pytest.mark.parametrize("c", MODELS.values(), ids=MODELS)
@pytest.mark.slow("it compiles two decoders")
def test_tokens_are_those_of_one_device(c):
    params, mesh = random_params(c), meshes.mesh((8,), ("X",))
    prompt = np.random.default_rng(0).integers(0, c.V, (B, T))
    got = spread.generate(c, mesh, NEW)(params, prompt)
    assert (got == jax.jit(alone, static_argnums=2)(params, prompt, c)).all()
    assert len(np.unique(got)) > 3


def test_what_it_does_not_know_is_refused():
    with pytest.raises(ValueError, match="with experts"):
        spread.generate(toy(), meshes.mesh((8,), ("X",)), 3)
