"""What is kept and computed again, against the course's numbers, against matrices one by one, and against JAX itself."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.public_models import MODELS, model
from helpers.costs.transformers.training_memory_bytes import (
    POLICIES,
    arrays,
    products,
    recomputed,
    saved,
    saved_limit,
    train_flops,
    training_memory,
)
from tests.helpers.costs.tables import walks
from tests.helpers.costs.transformers.decoders import TOYS, layer


def test_the_numbers_of_the_course():
    assert saved_limit(4e6, 8192, 64) == pytest.approx(84e12, rel=2e-3)
    assert saved_limit(4e6, 8192, 64, arrays=1) == pytest.approx(4.2e12, rel=2e-3)
    block = Config(8192, 64, 64, 64, 128, 4 * 8192, 32000)
    assert saved(block, 1, 4e6, "block") == saved_limit(4e6, 8192, 64, arrays=1)


def test_about_twenty_arrays_a_layer():
    """Without the T·S shares, which a fused kernel never keeps."""
    c = Config(8192, 64, 64, 64, 128, 4 * 8192, 32000)
    kept = arrays(c, c.kind(0), "everything", S=0)
    assert 15 <= sum(kept.values()) / c.D <= 22
    assert sum(arrays(c, c.kind(0), "matmuls", 0).values()) / c.D == 5 + 2 * 4  # six outputs read again, and the input


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


def test_question_6():
    c = Config(64, 1, 4, 2, 16, 256, 100)
    B, T = 3, 32
    assert recomputed(c, B, T, "matmuls") == 4 * B * T**2 * c.N * c.H


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


def test_unknown_policies():
    for f in (lambda p: saved(TOYS["gqa"], 1, 4, p), lambda p: recomputed(TOYS["gqa"], 1, 4, p)):
        with pytest.raises(ValueError, match="'dots' is no policy: there are everything, matmuls, block, nothing"):
            f("dots")
