"""Routers equal a loop over tokens; groups are met as often as drawn; balance is that of the whole batch, by enumeration and jax.grad."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.experts import routers
from helpers.kernels.experts.routers import ROUTERS, Router

ODD = {
    "sqrt softplus": Router(3, "sqrt softplus", scale=1.5),
    "two of four groups": Router(3, "softmax", groups=4, limit=2),
    "groups of one": Router(2, "sigmoid", groups=16, limit=3),
}


def by_hand(logits, r, bias):
    """One token, with lists and floats."""
    E, z = len(logits), [float(x) for x in logits]
    top = sum(np.exp(x) for x in z)
    score = {
        "softmax": lambda x: np.exp(x) / top,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "sqrt softplus": lambda x: np.log(1 + np.exp(x)) ** 0.5,
        "softmax of the chosen": lambda x: x,
    }[r.scores]
    s, size = [score(x) for x in z], E // r.groups
    by = [a + b for a, b in zip(s, bias)]
    parts = [range(g * size, (g + 1) * size) for g in range(r.groups)]
    worth = [sum(sorted((by[e] for e in part), reverse=True)[:2]) for part in parts]
    kept = sorted(range(r.groups), key=lambda g: (-worth[g], g))[: r.limit]
    near = sorted((e for g in kept for e in parts[g]), key=lambda e: (-by[e], e))[: r.k]
    w = [np.exp(s[e]) if r.scores == "softmax of the chosen" else s[e] for e in near]
    total = sum(w) if r.divided or r.scores == "softmax of the chosen" else 1
    return near, [r.scale * x / total for x in w]


@pytest.mark.parametrize("r", [*ROUTERS.values(), *ODD.values()], ids=[*ROUTERS, *ODD])
def test_a_router_equals_a_loop_over_tokens(r):
    E, rng = 32 if r.k == 8 and r.groups == 1 else 64 if r.groups == 8 else 16, np.random.default_rng(r.k)
    logits, bias = rng.standard_normal((40, E)).astype("float32"), (rng.standard_normal(E) / 9).astype("float32")
    expert, weight = jax.jit(routers.choose, static_argnums=1)(logits, r, bias)
    for t in range(40):
        near, w = by_hand(logits[t], r, bias)
        assert expert[t].tolist() == near
        assert np.allclose(weight[t], w, rtol=1e-5)


def test_a_bias_evens_out_what_tokens_prefer():
    """16 experts, k 2, 1,024 tokens: by chance alone about 1.15 on the fullest; a bias of 0 steps moves nothing."""
    rng = np.random.default_rng(0)
    prefers = rng.standard_normal(16)
    r, bias, seen = Router(2, "sigmoid"), jnp.zeros(16), []
    for _ in range(60):
        logits = (prefers + rng.standard_normal((1024, 16))).astype("float32")
        load = routers.loads(routers.choose(logits, r, bias)[0], 16)
        seen.append(float(load.max() / load.mean()))
        bias = routers.nudged(bias, load, 0.01)
    assert seen[0] > 1.8 and np.mean(seen[-10:]) < 1.3
    assert (routers.nudged(bias, load, 0.0) == bias).all()
    at_once = routers.even_bias(jax.nn.sigmoid(logits), 2)
    load = routers.loads(routers.choose(logits, r, at_once)[0], 16)
    assert load.max() / load.mean() < 1.05
    expert, weight = routers.choose(logits, r, at_once, fixed_expert=jnp.tile(jnp.array([5, 3]), (1024, 1)))
    assert (expert == jnp.array([5, 3])).all() and np.allclose(
        weight[:, 0] * jax.nn.sigmoid(logits[:, 3]), weight[:, 1] * jax.nn.sigmoid(logits[:, 5])
    )
    assert (routers.nudged(jnp.zeros(3), jnp.array([1, 2, 3]), 0.5) == jnp.array([0.5, 0.0, -0.5])).all()


def test_the_balance_loss_by_hand_and_by_its_gradient():
    shares = np.array([0.7, 0.1, 0.1, 0.1])
    expert = jnp.repeat(jnp.arange(4), jnp.array([7, 1, 1, 1]))[:, None]
    scores = jnp.tile(shares, (10, 1))
    assert routers.balance_loss(scores, expert) == pytest.approx(2.08)
    dense = jax.jit(jax.grad(routers.balance_loss))(scores, expert)
    for t, e in ((0, 0), (3, 2)):  # with f fixed, in steps
        up, down = (routers.balance_loss(scores.at[t, e].add(h), expert) for h in (1e-2, -1e-2))
        assert dense[t, e] == pytest.approx(float(up - down) / 2e-2, rel=1e-3)


def test_the_loss_over_devices_is_that_of_the_whole_batch():
    """Eight devices with preferences of their own: each is unbalanced, and all together are not."""
    T, E, mesh = 64, 8, meshes.mesh((8,), ("X",))
    own = 3 * np.repeat(np.eye(8), T // 8, 0) + np.random.default_rng(4).standard_normal((T, E))
    own = own.astype("float32")

    def loss(logits, axes=()):
        return routers.balance_loss(jax.nn.softmax(logits), routers.choose(logits, Router(2))[0], axes)

    on = jax.shard_map(lambda x: loss(x, "X"), mesh=mesh, in_specs=jax.P("X"), out_specs=jax.P(), check_vma=False)
    alone = jax.jit(loss)
    assert jax.jit(on)(own) == pytest.approx(float(alone(own)), rel=1e-5)
    each = np.mean([alone(own[i : i + 8]) for i in range(0, T, 8)])
    assert each > 1.3 * alone(own)  # the mean of products is another loss
    assert [c.shape for c in trace.sent(on, own)] == [(E,), ()]
    gradient = jax.jit(jax.grad(lambda x: on(x)))(own)
    assert np.allclose(gradient, jax.jit(jax.grad(loss))(own), atol=1e-6)


@pytest.mark.parametrize(("make", "says"), [
    (lambda: Router(2, groups=2, limit=3), "3 of 2 groups"),
    (lambda: Router(0), "k is a whole number"),
    (lambda: routers.choose(jnp.zeros((3, 8)), Router(5, groups=4, limit=2)), "5 of 8 experts in 2 of 4"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
