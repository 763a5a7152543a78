"""Toy decoders, one for each family of configurations: sizes all different, so that no formula can mix them up."""

import jax
import numpy as np
import pytest

from helpers.costs.transformers.config import MLA, Config, MoE
from helpers.kernels.transformers.decoder import init
from tests.helpers.costs.transformers.decoders import TOYS


def toy(**changes) -> Config:
    return Config(**dict(dict(D=12, L=3, N=4, K=2, H=6, F=20, V=29), **changes))


FAMILIES = {
    "llama": toy(),
    "mha": toy(K=4),
    "mqa": toy(K=1, H=8),
    "odd sizes": toy(D=7, H=5, F=11, N=3, K=3),
    "one layer": toy(L=1),
    "gpt-2": toy(K=4, gated=False, tied=True, norm="layer", positions=16, biases=("qkv", "o", "mlp")),
    "phi": toy(K=4, gated=False, norm="layer", norms=1, parallel=True, biases=("qkv", "o", "mlp", "unembed")),
    "neox": toy(K=4, gated=False, norm="layer", norms=2, parallel=True),
    "command-r": toy(norm="layer-no-bias", norms=1, parallel=True, tied=True, qk_norm="head"),
    "olmo": toy(norm="none"),
    "layer norms inside": toy(L=1, norm="layer", qk_norm="head"),
    "olmo-2": toy(qk_norm="full"),
    "bloom": toy(K=4, gated=False, tied=True, norm="layer", embed_norm=True, biases=("qkv", "o", "mlp")),
    "qwen-2": toy(biases=("qkv",)),
    "qwen-3": toy(qk_norm="head", tied=True),
    "mistral": toy(window=3),
    "gemma-2": toy(L=4, norms=4, tied=True, window=3, full_every=2),
    "gemma-3": toy(L=5, norms=4, tied=True, window=3, full_every=3, qk_norm="head"),
    "no final norm": toy(final_norm=False),
    "mixtral": toy(moe=MoE(E=5, k=2, F=9)),
    "llama-4": toy(L=4, moe=MoE(E=3, k=1, F=10, shared=1, every=2)),
    "gpt-oss": toy(L=4, window=3, full_every=2, sinks=True, biases=("qkv", "o", "mlp", "router"),
                   moe=MoE(E=4, k=2, F=9)),
    "plain experts": toy(gated=False, biases=("mlp",), moe=MoE(E=4, k=3, F=9, shared=2)),
    "parallel experts": toy(parallel=True, norms=1, moe=MoE(E=4, k=2, F=9, shared=1)),
    "experts, four norms": toy(norms=4, moe=MoE(E=4, k=2, F=9, shared=1)),
    "deepseek-v2-lite": toy(K=4, H=None, mla=MLA(None, kv_rank=10, nope=6, rope=4, v=5), moe=MoE(E=6, k=2, F=7, shared=2, first_dense=1)),
    "deepseek-v3": toy(K=4, H=None, mla=MLA(8, kv_rank=10, nope=6, rope=4, v=5), moe=MoE(E=6, k=3, F=7, shared=1, first_dense=1)),
}  # fmt: skip

# For tests that run nothing: those of the cost functions too.
COUNTED = FAMILIES | {f"toy {name}": c for name, c in TOYS.items()}

DISTINCT = "gpt-2 phi bloom command-r olmo-2 gemma-2 llama-4 gpt-oss deepseek-v2-lite deepseek-v3".split()


def each(families: dict[str, Config]):
    """A test for each; those that differ most at once, the others in the long battery."""
    named = ((n, c, () if n in DISTINCT else pytest.mark.slow) for n, c in families.items())
    return pytest.mark.parametrize("c", [pytest.param(c, id=n, marks=marks) for n, c, marks in named])


def random_params(c: Config, seed: int = 0, scale: float = 0.4) -> dict:
    """Parameters with nothing at 0 or 1, so that a forgotten bias or scale is seen.

    Those of layers are NumPy's: what JAX does with an array outside of a program, `jnp.asarray` too, it compiles for each shape.
    """
    draw = np.random.default_rng(seed)

    def leaf(path, a):
        x = scale * draw.standard_normal(a.shape)
        if "norm" in path[-1].key:
            x[..., 0, :] += 1
        return x.astype(a.dtype) if path[0].key == "layers" else jax.device_put(x.astype(a.dtype))  # tokens look there

    return jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(lambda key: init(c, key), jax.random.key(0)))


def tokens(c: Config, B: int, T: int):
    return jax.device_put(np.random.default_rng(B * T).integers(0, c.V, (B, T), dtype=np.int32))
