"""What is kept and computed again, against the course's numbers, matrices one by one, and JAX; bytes of layers of several kinds."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from helpers.costs.rooflines import roofline
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters, works
from helpers.costs.transformers.public_models import MODELS, model
from helpers.costs.transformers.training_memory_bytes import (
    POLICIES,
    arrays,
    products,
    recomputed,
    saved,
    train_flops,
    training_memory,
)
from tests.helpers.costs.tables import walks
from tests.helpers.costs.transformers.decoders import EVERY, TOYS, layer


@walks(TOYS)
def test_products_are_the_columns_of_all_matrices(name):
    c = TOYS[name]
    for i in range(c.L):
        wide = sum(products(c, c.kind(i)).values())
        assert wide == sum(columns for _, columns in layer(c, i)[0])


@walks([*TOYS, *(n for n in MODELS if not {*MODELS[n].unusual} - {"shared_gate"})])
def test_less_memory_costs_more_flops(name):
    c = TOYS.get(name) or MODELS[name]
    kept = [saved(c, 2, 16, p) for p in POLICIES]
    again = [recomputed(c, 2, 16, p) for p in POLICIES]
    assert kept == sorted(kept, reverse=True) and again == sorted(again)
    assert train_flops(c, 2, 16) == flops(c, 2, 16).train
    assert again[1] == flops(c, 2, 16).attention and again[3] == flops(c, 2, 16).forward


@walks([("gqa", "out"), ("parallel", "o out"), ("four-norms", ""), ("moe", ""), ("moe-shared", "shared")])
def test_a_block_again_without_what_nobody_reads(name, unread):
    c, tokens = TOYS[name], 2 * 8
    f = flops(c, 2, 8)
    dense = sum(n for kind, n in c.groups if not kind.moe)
    left_out = {
        "out": 2 * tokens * c.F * c.D * dense,
        "o": 2 * tokens * c.N * c.H * c.D * c.L,
        "shared": 2 * tokens * c.D * (c.F * dense + (c.L - dense) * (c.moe.shared * c.moe.F if c.moe else 0)),
    }
    assert f.layers - recomputed(c, 2, 8, "block") == sum(left_out[name] for name in unread.split())


def _layer(p, x):
    """A dense layer in the fewest lines: no norms with parameters, heads all in one."""
    norm = lambda x: x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)  # noqa: E731
    h = norm(x)
    q, k, v = (h @ p[w] for w in "qkv")
    x = x + jax.nn.softmax(q @ k.mT) @ v @ p["o"]
    h = norm(x)
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["in"])) @ p["out"]


def _dots(jaxpr):
    """FLOPs of all dot_generals of a program, those of its inner programs too."""
    total = 0
    for e in jaxpr.eqns:
        if e.primitive.name == "dot_general":
            (contract, _), _ = e.params["dimension_numbers"]
            a = e.invars[0].aval.shape
            inner = 1
            for d in contract:
                inner *= a[d]
            total += 2 * inner * e.outvars[0].aval.size
        total += sum(_dots(getattr(s, "jaxpr", s)) for s in jax.tree.leaves(e.params, is_leaf=_program) if _program(s))
    return total


def _program(x):
    return hasattr(x, "eqns") or hasattr(x, "jaxpr")


@walks(POLICIES)
def test_jax_computes_as_much_again(policy):
    D, F, B, T = 8, 24, 2, 5
    c = Config(D, 1, 1, 1, D, F, 10, norm="none")
    shapes = dict(q=(D, D), k=(D, D), v=(D, D), o=(D, D), gate=(D, F), out=(F, D)) | {"in": (D, F)}
    p = {name: jax.ShapeDtypeStruct(s, "float32") for name, s in shapes.items()}
    x = jax.ShapeDtypeStruct((B, T, D), "float32")
    keep = {"matmuls": jax.checkpoint_policies.dots_with_no_batch_dims_saveable}
    f = _layer if policy == "everything" else jax.checkpoint(_layer, policy=keep.get(policy))
    if policy == "nothing":  # what follows the layer reads its result, so even the last product is done again
        f = jax.checkpoint(lambda p, x: jnp.square(_layer(p, x)))
    step = jax.make_jaxpr(jax.grad(lambda p, x: f(p, x).sum(), argnums=(0, 1)))(p, x)
    layers = flops(c, B, T).layers
    again = layers if policy == "nothing" else recomputed(c, B, T, policy)
    assert _dots(step.jaxpr) == 3 * layers + again


def test_memory_by_role():
    c = model("llama-2-13b")
    m = training_memory(c, 1, 4096, "block")
    N = parameters(c).total
    assert m.weights + m.optimizer == 10 * N == pytest.approx(130e9, rel=2e-3)
    assert m.activations == 2 * 4096 * c.D * c.L and m.logits == 4 * 4096 * c.V
    assert m.total == m.weights + m.gradients + m.optimizer + m.activations + m.logits
    assert training_memory(c, 1, 4096, "matmuls").total > m.total


def test_selective_makes_norms_activations_and_up_projections_again():
    """By DeepSeek-V3's config.json: D of 7168, latents of 1536 and 512, 128 heads of 128 + 64 and 128, nine experts of 2048."""
    c = model("deepseek-v3")
    every, some = (sum(arrays(c, c.kind(60), policy, 4096).values()) for policy in ("everything", "selective"))
    assert every - some == 2 * 7168 + 128 * (192 + 256) + 9 * 2048
    assert recomputed(c, 1, 1, "selective") == 61 * 2 * 128 * (1536 * 192 + 512 * 256)


def test_unknown_policies():
    for f in (lambda p: saved(TOYS["gqa"], 1, 4, p), lambda p: recomputed(TOYS["gqa"], 1, 4, p)):
        with pytest.raises(ValueError, match="'dots' is no policy: there are everything, matmuls, block, nothing"):
            f("dots")


def test_caches_of_layers_of_several_kinds():
    """Qwen3-Next: 12 of 48 layers keep 2 heads of 256; Gemma 3n: 4 full and 16 local ones of 20 do, and 10 read theirs."""
    qwen, gemma = model("qwen-3-next-80b-a3b"), model("gemma-3n-e2b")
    state = 4 * 32 * 128 * 128 + 2 * 3 * (2 * 16 * 128 + 32 * 128)
    assert kv_cache(qwen, 10**5) == 12 * 10**5 * 2 * 2 * 256 * 2 + 36 * state
    assert kv_cache(qwen, 1) - kv_cache(qwen, 0) == 12 * 2048
    assert kv_cache(gemma, 32768) == (4 * 32768 + 16 * 512) * 2 * 2 * 256 * 2


def test_sparse_attention_grows_with_its_indexer_alone():
    """Beyond 2048 keys a token of DeepSeek-V3.2 has a constant number of pairs, and 64 scores of 128 for each key."""
    c = model("deepseek-v3.2")
    step = [flops(c, 1, 1, S, "causal", absorbed=True).attention for S in (2048, 4096, 8192)]
    assert step[2] - step[1] == 2 * (step[1] - step[0]) == 61 * 2 * 4096 * 64 * 128
    dense = flops(model("deepseek-v3"), 1, 1, 2048, "causal", absorbed=True).attention
    assert step[0] - dense == 61 * 2 * 2048 * 64 * 128


def test_bytes_of_a_decode_step_with_linear_attention():
    """Qwen3-Next: matrix by matrix, one full layer and three of Gated DeltaNet."""
    c, B, S = model("qwen-3-next-80b-a3b", L=4), 8, 4096
    w = works(c, B, 1, S)
    D, product = c.D, lambda a, b: roofline.matmul(B, a, b).bytes  # noqa: E731
    full = [(D, 16 * 256), (D, 16 * 256), (D, 2 * 256), (D, 2 * 256), (16 * 256, D)]
    delta = [(D, 16 * 128), (D, 16 * 128), (D, 32 * 128), (D, 32 * 128), (D, 64), (32 * 128, D)]
    convolution = 2 * 4 * (2 * 16 * 128 + 32 * 128)
    assert w["projections"].bytes == sum(product(*m) for m in full) + 3 * (
        sum(product(*m) for m in delta) + convolution
    )
    cache = B * S * 2 * 2 * 256 * 2 + B * 2 * 16 * 256 * 2
    states = 2 * B * (32 * 128 * 128 * 4 + 3 * 8192 * 2)  # all read and written
    assert w["attention"].bytes == cache + 3 * (states + B * (8192 + 32 * 128) * 2)


def test_bytes_of_a_decode_step_behind_an_indexer():
    """DeepSeek-V3.2: of a long cache 2048 latent vectors, and all of the indexer's keys."""
    c, B = model("deepseek-v3.2", L=1, moe=None), 4
    read = [works(c, B, 1, S, absorbed=True)["attention"].bytes for S in (1000, 2048, 10000)]
    queries = B * (128 * (2 * 512 + 64) + 64 * 128) * 2
    assert read == [queries + B * 2 * (min(S, 2048) * 576 + S * 128) for S in (1000, 2048, 10000)]


def test_a_step_reads_caches_that_layers_share():
    """Each layer of Gemma 3n reads its cache or that of another: more than is kept."""
    c, S = model("gemma-3n-e2b"), 8192
    read = works(c, 1, 1, S, w=0, x=0, cache_bytes=2)["attention"].bytes
    assert read == (6 * S + 24 * 512) * 2 * 2 * 256 * 2 > kv_cache(c, S)


def test_bytes_of_what_gemma_3n_adds():
    c, rows = EVERY["gemma-3n"], 6
    products = [(16, 2), (2, 16), (16, 7), (7, 16), (3, 3), (3, 9)] * 6 + [(16, 42)] + [(16, 16)] * 4
    router = [roofline.matmul(rows, 16, 3).bytes, 2 * rows * (16 + 3)]  # its weights once
    assert works(c, 2, 3)["added"].bytes == sum(roofline.matmul(rows, *m).bytes for m in products) + 6 * sum(router)
