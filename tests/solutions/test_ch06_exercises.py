"""Exercises of chapter 6: the solved functions against the floor."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.attention import io_complexity, ring_attention
from helpers.kernels import mesh
from helpers.kernels.attention import dense_attention, flash_attention, linear_attention, masks
from helpers.kernels.attention.masks import Mask
from tests.solutions import course
from tests.solutions.course import agree

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer

TOPIC = "ch06_attention"


@pytest.fixture(scope="module")
def solved():
    """Every answer, by name."""
    return course.solved(TOPIC)


@pytest.mark.parametrize("L, H, M", [(1000, 64, 49152), (77, 16, 3000), (65536, 128, 10**6)])
def test_f16_what_flash_moves_is_the_floors_formula(solved, L, H, M):
    got = solved["blocks"](L, H, M)
    assert got["flash"] == io_complexity.flash_floats(L, H, got["b"], got["b"], version=2)
    assert got["naive"] == io_complexity.standard_floats(L, H)
    held = io_complexity.block_floats(got["b"], got["b"], H), io_complexity.block_floats(got["b"] + 4, got["b"] + 4, H)
    assert held[0] <= M < held[1]


@pytest.mark.parametrize("window, sinks", [(None, 0), (3, 0), (3, 2)])
def test_f1_masks_are_the_floors(solved, window, sinks):
    """E004-17: added, not multiplied; and the polarity of `pad`."""
    pad = np.arange(9) >= np.array([[9], [6]])
    got = solved["added"](5, 9, window, sinks, pad)
    expected = Mask(causal=True, window=window, sinks=sinks).array(5, 9) & ~pad[:, None]
    np.testing.assert_array_equal(got, np.where(expected, 0, -np.inf))


@pytest.mark.parametrize("case", [(17, 17, 3, 4, None), (9, 30, 4, 5, 7), (64, 64, 16, 8, 20)])
def test_visited_blocks_are_the_floors(solved, case):
    T, S, R, C, window = case
    plan = masks.Plan(T, S, R, C, Mask(causal=True, window=window))
    got = solved["visited"](*case)
    assert [list(range(*row)) for row in got["rows"]] == [[b.j for b in plan.row(i)] for i in range(plan.shape[0])]
    assert got["whole"] >= sum(b.whole for b in plan.blocks)  # there a short block counts as cut


def test_f22_the_map_of_work_is_the_floors(solved):
    """C(C ± 1)/2 on every device, and who waits for whom."""
    got = solved["work"](5, 6)
    assert [tuple(row) for row in got["ring"]] == list(ring_attention.work(5, 6))
    assert [tuple(row) for row in got["stripes"]] == list(ring_attention.work(5, 6, "striped"))
    agree(got["faster"], ring_attention.stripes_speed_up(5, 6))


def arrays(T, S, H, seed=0):
    rng = np.random.default_rng(seed)
    return [jax.device_put(rng.standard_normal((n, H)).astype("float32")) for n in (T, S, S)]


def attended(q, k, v, mask=masks.CAUSAL):
    return dense_attention.attention(*(x[None, :, None] for x in (q, k, v)), mask)[0, :, 0]


@pytest.mark.slow
def test_f12_f14_lazy_and_flash_equal_the_dense_reference(solved):
    q, k, v = arrays(6, 9, 4)
    o, _ = solved["flash"](q, k, v, 4, 4)
    np.testing.assert_allclose(o, attended(q, k, v), rtol=1e-4, atol=1e-5)
    lazy = solved["lazy"](q, k, v, jnp.arange(4, 10), 4)  # query t stands at t + 3
    np.testing.assert_allclose(lazy, o, rtol=1e-4, atol=1e-5)


@pytest.mark.slow("compiles a solution and the form that it is held against")
def test_f13_checkpointed_chunks_are_the_dense_gradients(solved):
    """Values and gradients equal dense; what is kept is linear in T, and the price is one product more."""
    q, k, v = arrays(11, 11, 4, seed=5)
    o, back = jax.vjp(attended, q, k, v)
    dO = jnp.cos(o)
    for x, y in zip(solved["there_and_back"](q, k, v, dO, 4), (o, *back(dO))):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
    flops = trace.count(lambda *x: solved["there_and_back"](*x, 16), *[jax.ShapeDtypeStruct((64, 4), jnp.float32)] * 4)
    assert flops.matmul_flops == 7 * 2 * 64 * 64 * 4


@pytest.mark.slow("compiles a gradient for each form")
def test_f15_the_way_back_is_jaxs(solved):
    q, k, v = arrays(7, 7, 4, seed=1)
    o, back = jax.vjp(attended, q, k, v)
    scores = np.where(np.tri(7), q @ k.T / 2, -np.inf)
    m = scores.max(1)
    dO = jnp.sin(o + 1)
    got = solved["flash_back"](q, k, v, o, m, np.exp(scores - m[:, None]).sum(1), dO, 3)
    for x, y in zip(got, back(dO)):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("R", [3, 4, 16])
@pytest.mark.slow("compiles a solution and the form that it is held against")
def test_f19_eight_bits_are_the_floors(solved, R):
    q, k, v = arrays(10, 10, 4, seed=4)
    k = k.at[9].multiply(40.0)
    heads = [x[None, :, None] for x in (q, k, v)]
    o, size = solved["eight_bits"](q, k, v, R)
    np.testing.assert_allclose(
        o, flash_attention.eight_bit(*heads, R, "fp8", masks.CAUSAL)[0, :, 0], rtol=1e-4, atol=1e-5
    )
    parts = [flash_attention.quantised(x, R) for x in heads]
    assert size == 3 * q.size + sum(p.scale.size * 4 for p in parts)


@pytest.mark.slow("compiles a solution and the form that it is held against")
def test_f19_scales_of_blocks_lose_less(solved):
    """The error of fp8 by blocks is below that of fp8 with one scale, where some blocks have outliers."""
    q, k, v = arrays(64, 64, 8, seed=5)
    v = v.at[-1].multiply(1e5)
    error = [flash_attention.error(solved["eight_bits"](q, k, v, R)[0][:-1], attended(q, k, v)[:-1]) for R in (8, 64)]
    assert error[0] < 0.1 < 0.3 < error[1]


def test_f5_chunks_are_the_recurrence(solved):
    """E004-18: the causal form takes prefix sums, and the unmasked one is right for the last row only."""
    rng = np.random.default_rng(2)
    q, k = rng.uniform(0.1, 1, (2, 10, 3))
    v = rng.standard_normal((10, 2))
    chunked = solved["in_chunks"](*(jnp.asarray(x, jnp.float32) for x in (q, k, v)), 4)
    U, Z, rows = np.zeros((1, 3, 2)), np.zeros((1, 3)), []
    for token in zip(q, k, v):
        o, U, Z = solved["one_token"](*(x[None] for x in token), U, Z)
        rows.append(o[0])
    np.testing.assert_allclose(chunked, np.stack(rows), rtol=1e-3, atol=1e-5)
    unmasked = q @ (k.T @ v) / (q @ k.sum(0))[:, None]
    np.testing.assert_allclose(unmasked[-1], rows[-1])
    assert np.abs(unmasked[:-1] - np.stack(rows[:-1])).max(1).min() > 1e-3


@pytest.mark.slow("compiles a solution and the form that it is held against")
def test_f7_what_hedgehog_learns_from_is_the_floors(solved):
    """Rows add up to 1, KL is never below 0 and 0 where both rows are the same, and steps bring it below that of ELU + 1."""
    rng = np.random.default_rng(7)
    q, k = (jax.device_put(rng.standard_normal((12, 4)).astype("float32")) for _ in range(2))
    W = jax.device_put((0.5 * rng.standard_normal((4, 6))).astype("float32"))
    half = 4**-0.25
    P = linear_attention.softmax_weights(q * half, k * half)
    got = solved["taught"](q, k, W, 0.5)
    R = linear_attention.weights(lambda x: linear_attention.hedgehog(W, x), q, k)
    np.testing.assert_allclose(got["rows"], R, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got["kl"], linear_attention.kl(P, R).mean(), rtol=1e-4)
    slope = jax.grad(
        lambda W: linear_attention.cross_entropy(
            P, linear_attention.weights(lambda x: linear_attention.hedgehog(W, x), q, k)
        ).mean()
    )(W)
    np.testing.assert_allclose(got["W"], W - 0.5 * slope, rtol=1e-4, atol=1e-6)
    step, losses = jax.jit(solved["taught"]), []
    for _ in range(60):
        got = step(q, k, W, 0.5)
        np.testing.assert_allclose(got["rows"].sum(1), 1, rtol=1e-5)
        losses.append(float(got["kl"]))
        W = got["W"]
    assert (
        0 < losses[-1] < losses[0]
        and losses[-1]
        < linear_attention.kl(P, linear_attention.weights(linear_attention.elu, q * half, k * half)).mean()
    )
    alike = solved["taught"](q, jnp.ones_like(k), W, 0.5)
    assert abs(alike["kl"]) < 1e-6


def test_f10_parts_in_any_grouping(solved):
    """E004-8: associative and commutative, with (-inf, 0, 0) as its identity, also with itself."""
    rng = np.random.default_rng(3)
    m, l, o = rng.normal(0, 30, (5, 3)), rng.uniform(1, 4, (5, 3)), rng.standard_normal((5, 3, 2))
    m[1], l[1], o[1] = -np.inf, 0, 0
    whole = solved["reduced"](m, l, o)
    right = None
    for part in reversed(list(zip(m, l, o))):
        right = part if right is None else solved["reduced"](*(np.stack(x) for x in zip(part, right)))
    for x, y in zip(whole, right):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    nothing = solved["reduced"](m[[1, 1]], l[[1, 1]], o[[1, 1]])
    np.testing.assert_array_equal(nothing[0], m[1])
    assert not nothing[1].any() and not nothing[2].any()


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_f11_the_likeliest_in_one_pass_are_those_of_the_whole_softmax(solved, size):
    """Equal to `lax.top_k(softmax(x))`, with many equal scores, for pieces of any size."""
    x = np.round(np.random.default_rng(4).normal(0, 2, (3, 100)), 1).astype(np.float32) + 0
    state = np.full(3, -np.inf), np.zeros(3), np.full((3, 6), -np.inf), np.full((3, 6), -1)
    for first in range(0, 100, size):
        *state, p = solved["likeliest"](*state, x[:, first : first + size], first)
    values, places = jax.lax.top_k(jax.nn.softmax(x), 6)
    np.testing.assert_allclose(p, values, rtol=1e-5)
    np.testing.assert_array_equal(state[3], places)


def test_the_fastest_is_the_least_of_all(solved):
    """6.21: no other choice of the model is faster; blocks outside by queries and whole scores both win, for some chip and length."""
    kinds = set()
    for case in (
        (4096, 128, 230_000, 9.89e14, 3.35e12, 3.9e12),
        (40, 64, 40_000, 1e13, 5e12, 1e15),
        (600, 64, 160_000, 9e14, 2e12, 5e11),
    ):
        best = solved["fastest"](*case)
        choices = product(("queries", "keys", "whole"), *[(16, 32, 64, 128, 256, 512)] * 2)
        visits = lambda R, K, T=case[0]: sum(j < min(i + R, T) for i in range(0, T, R) for j in range(0, T, K))  # noqa: E731
        price = lambda choice, case=case: solved["priced"](choice, visits(*choice[1:]), *case)  # noqa: B023, E731
        assert price(best) == min(map(price, choices))
        kinds.add(best[0])
    assert kinds == {"queries", "keys", "whole"}


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 0, 1)])
def test_f17_columns_in_any_order(solved, order):
    """Blocks of 5 keys, the last one of 2, come to the gradient of dense attention in any order."""
    T, N, H = 17, 3, 4
    rng = np.random.default_rng(17)
    q, dO = rng.standard_normal((2, 1, T, N, H)).astype(np.float32)
    k, v = rng.standard_normal((2, 1, T, 1, H)).astype(np.float32)
    out, back = jax.vjp(lambda *given: dense_attention.attention(*given, masks.CAUSAL.array(T, T)), q, k, v)
    x = np.where(np.tri(T, dtype=bool), np.einsum("tnh,jh->ntj", q[0], k[0, :, 0]) * H**-0.5, -np.inf)
    total, delta = jax.nn.logsumexp(x, axis=2).T, (dO * out).sum(3)[0]
    cut = [slice(first, first + 5) for first in range(0, T, 5)]
    rows = q[0], dO[0], np.asarray(total), np.asarray(delta)
    blocks = {j: solved["column_back"](*rows, k[0, cut[j], 0], v[0, cut[j], 0], 5 * j) for j in order}
    dq, dk, dv = back(dO)
    np.testing.assert_allclose(sum(blocks[j][0] for j in order), dq[0], rtol=1e-3, atol=1e-5)
    for which, expected in ((1, dk), (2, dv)):
        got = np.concatenate([blocks[j][which] for j in sorted(order)])
        np.testing.assert_allclose(got, expected[0, :, 0], rtol=1e-3, atol=1e-5)
