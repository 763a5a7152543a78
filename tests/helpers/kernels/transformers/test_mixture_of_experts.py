"""Experts: equal to a loop over tokens, with capacity, without, and over eight devices with two AllToAlls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from helpers import trace
from helpers.costs.transformers import shares_and_thresholds
from helpers.costs.transformers.config import MoE
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.kernels import mesh as meshes
from helpers.kernels.transformers import mixture_of_experts
from tests.helpers.kernels.transformers.families import random_params, toy

TOKENS = 24


def layer(c, seed=0):
    """Parameters of the only layer, and tokens."""
    params = jax.device_put(jax.tree.map(lambda a: a[0], random_params(c, seed)["layers"][0]))
    return params, jax.device_put(np.random.default_rng(seed + 9).standard_normal((TOKENS, c.D)).astype("float32"))


def one_mlp(c, w, x):
    hidden = jax.nn.silu(x @ w["W_gate"]) * (x @ w["W_in"]) if c.gated else jax.nn.gelu(x @ w["W_in"])
    return hidden @ w["W_out"]


def by_loop(c, p, x, C=None):
    """Token by token, expert by expert: (result, choices dropped)."""
    queue, dropped, out = np.zeros(c.moe.E, int), 0, []
    for token in x:
        logits = np.asarray(token @ p["W_R"])
        best = np.argsort(-logits, kind="stable")[: c.moe.k]
        gates, y = np.exp(logits[best]) / np.exp(logits[best]).sum(), 0
        for e, gate in zip(best, gates):
            if C is None or queue[e] < C:
                y = y + gate * one_mlp(c, {n: w[e] for n, w in p["experts"].items()}, token)
            else:
                dropped += 1
            queue[e] += 1
        for s in range(c.moe.shared):
            y = y + one_mlp(c, {n: w[s] for n, w in p["shared experts"].items()}, token)
        out.append(y + jnp.zeros(c.D))
    return jnp.stack(out), dropped


CONFIGS = {
    "gated": toy(L=1, moe=MoE(E=5, k=2, F=9)),
    "shared, plain": toy(L=1, gated=False, moe=MoE(E=4, k=3, F=9, shared=2)),
    "all of them": toy(L=1, moe=MoE(E=4, k=4, F=9)),
}


@pytest.mark.parametrize("c", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("C", [7, 2, TOKENS])
@pytest.mark.sample(quick=1, slow=2)
def test_equal_to_a_loop_over_tokens(c, C):
    """With room for all, and with queues that overflow; the dropped are counted."""
    p, x = layer(c)
    got, dropped = jax.jit(lambda p, x: mixture_of_experts.with_capacity(p, x, c, C))(p, x)
    want, missing = by_loop(c, p, x, C)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert dropped == missing and (missing == 0) == (C == TOKENS)
    if C == TOKENS:
        np.testing.assert_allclose(mixture_of_experts.dropless(p, x, c), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("factor", [1.25, 1.0, 2.0])
@pytest.mark.sample(quick=1)
def test_flops_are_those_of_the_places(factor):
    """With a capacity all places are multiplied; without, k experts for each token; the gradient costs twice."""
    c = toy(L=1, moe=MoE(E=4, k=2, F=9, shared=1))
    p, x = layer(c)
    C = shares_and_thresholds.capacity(TOKENS, 4, 2, factor)
    roles = lambda slots=None: sum(  # noqa: E731
        n for role, n in flops(c, 1, TOKENS, slots=slots).by_role.items() if role in ("experts", "shared", "router")
    )
    padded = trace.count(lambda p, x: mixture_of_experts.with_capacity(p, x, c, C)[0], p, x)
    assert padded.matmul_flops == roles(4 * C)
    ragged, total = (
        trace.count(lambda p, x: mixture_of_experts.dropless(p, x, c), p, x),
        lambda p, x: jnp.sum(mixture_of_experts.dropless(p, x, c)),
    )
    assert ragged.matmul_flops == roles() and not ragged.doubts
    assert trace.count(jax.value_and_grad(total, (0, 1)), p, x).matmul_flops == 3 * roles()


# ---- eight devices


@pytest.mark.slow("compiles a layer for four devices")
def test_two_all_to_alls_make_the_same_result():
    """Tokens and experts on one axis of eight devices; each device's bytes to the expert and back."""
    c = toy(L=1, moe=MoE(E=16, k=2, F=9))
    p, _ = layer(c)
    p = {n: p[n] for n in ("W_R", "experts")}
    x = jax.random.normal(jax.random.key(4), (64, c.D))
    mesh, C = meshes.mesh((8,), ("X",)), 8
    specs = {"W_R": P(), "experts": P("X")}
    run = lambda C: jax.shard_map(  # noqa: E731
        lambda p, x: mixture_of_experts.over_devices(p, x, c, C, "X"),
        mesh=mesh,
        in_specs=(specs, P("X")),
        out_specs=(P("X"), P()),
    )
    got, dropped = jax.jit(run(C))(p, x)
    np.testing.assert_allclose(got, mixture_of_experts.dropless(p, x, c), rtol=1e-4, atol=1e-5)
    assert dropped == 0
    sent = trace.sent(run(C), p, x)
    assert sent.kinds == {"AllToAll": 2, "AllReduce": 1}
    there = [s for s in sent if s.kind == "AllToAll"]
    assert [s.shape for s in there] == [(16, C, c.D), (2, 8 * C, c.D)] and [s.out for s in there] == [
        (2, 8 * C, c.D),
        (16, C, c.D),
    ]
    some, dropped = jax.jit(run(1))(p, x)  # queues of each device apart
    by_hand = [by_loop(c, p, part, 1) for part in jnp.split(x, 8)]
    np.testing.assert_allclose(some, jnp.concatenate([y for y, _ in by_hand]), rtol=1e-4, atol=1e-5)
    assert dropped == sum(n for _, n in by_hand) > 0


# ---- said in one sentence


def test_bad_input():
    with pytest.raises(ValueError, match="a token cannot go to k = 5 of E = 4 experts: k is at most E"):
        mixture_of_experts.route(jnp.zeros((3, 4)), 5)
