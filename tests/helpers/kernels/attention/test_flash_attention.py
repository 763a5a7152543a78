"""Lazy, chunked and flash attention: large scores, orders of blocks, and what they keep, count and visit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels.attention import dense_attention, flash_attention, masks
from helpers.kernels.attention.flash_attention import flash_all_blocks as flash
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask
from tests.helpers.kernels.attention import reference

SINKS = Mask(True, 4, 2)


def seen(mask, T, S):
    return mask.array(T, S)[None, None]


@pytest.fixture(scope="module")
def once():
    """Results of large scores and of a form that forgets, compiled together."""
    g = reference.draw(2, 5, 11, 4, 2, 3, seed=3)
    forms = dict(
        large_plain=lambda q, k, v: dense_attention.plain(300 * q, k, v),
        large=lambda q, k, v: dense_attention.stabilised(300 * q, k, v),
        large_flash=lambda q, k, v: flash_attention.flash(300 * q, k, v, FULL, None, 3, 4),
        large_dense=lambda q, k, v: dense_attention.attention(300 * q, k, v),
        forgetful=lambda *x: flash_attention.first(*x, CAUSAL, 5, 4, writes="Om"),
    )
    got = jax.jit(lambda *x: {name: f(*x) for name, f in forms.items()})(*g[:3])
    return got, got["large_dense"], g


def test_lazy_softmax(once):
    """The plain one overflows where the stabilised one is right."""
    got, large, _ = once
    assert np.isnan(got["large_plain"]).any()
    for name in ("large", "large_flash"):
        np.testing.assert_allclose(got[name], large, rtol=1e-4, atol=1e-5)


def test_what_the_first_version_must_write(once):
    """Without ℓ, attention over the last block of keys alone."""
    got, _, (q, k, v, do) = once
    last = seen(CAUSAL, 5, 11) & (np.arange(11) >= 8)
    saw = last.any(-1)[0, 0]  # queries that see a key of the last block; for the others it adds nothing to O
    np.testing.assert_allclose(
        got["forgetful"][:, saw], reference.dense(q, k, v, do, last)[0][:, saw], rtol=2e-6, atol=1e-6
    )
    assert saw.tolist() == [False, False, True, True, True]
    assert np.abs(got["forgetful"] - reference.dense(q, k, v, do, seen(CAUSAL, 5, 11))[0]).max() > 0.1


@pytest.mark.slow("compiles a program for each order")
def test_blocks_in_any_order():
    """Rows forward and columns backward, each by itself; only dq is a sum over columns."""
    g = reference.draw(1, 6, 9, 2, 1, 3)
    plan = masks.plan(6, 9, 3, 3, CAUSAL)
    want = reference.dense(*g, seen(CAUSAL, 6, 9))

    @jax.jit
    def run(q, k, v, do):
        out, total = flash_attention.forward_by_rows(q, k, v, plan, [0, 1])
        back = [flash_attention.backward_by_columns(q, k, v, out, total, do, plan, o) for o in ([0, 1, 2], [2, 0, 1])]
        column = flash_attention.backward(q, k, v, out, total, do, plan, blocks=[b for b in plan.blocks if b.j == 0])
        row = flash_attention.backward(q, k, v, out, total, do, plan, blocks=plan.row(1))
        return flash_attention.forward_by_rows(q, k, v, plan, [1, 0])[0], out, back, column, row

    other, out, back, column, row = run(*g)
    np.testing.assert_array_equal(out, other)
    for b in back:
        reference.close((out, *b), want, 3e-6)
        np.testing.assert_array_equal(b[1], back[0][1])
        np.testing.assert_array_equal(b[2], back[0][2])
    # A column has dk and dv for good and adds to dq; along a row it is the other way about.
    reference.close([a[:, :3] for a in column[1:]], [a[:, :3] for a in want[2:]], 3e-6)
    assert np.abs(column[0] - want[1]).max() > 1e-2 and np.abs(row[1] - want[2]).max() > 1e-2
    np.testing.assert_allclose(row[0][:, 3:], want[1][:, 3:], atol=1e-5)


def arr(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


ATTENDS = {
    "flash": lambda *x: flash_attention.flash(*x, CAUSAL, None, 16, 32),
    "rows": lambda *x: dense_attention.efficient(*x, CAUSAL, None, 16, 32, "rows"),
    "first": lambda *x: flash_attention.first(*x, CAUSAL, 16, 32),
}


@pytest.mark.parametrize("name", ATTENDS)
def test_no_array_of_T_by_S(name):
    """Forward and backward, the largest array is that of the heads' vectors or of one block."""
    T, S, H = 512, 1024, 4
    q, k = arr(1, T, 1, H), arr(1, S, 1, H)
    f = ATTENDS[name]
    program = f if name == "first" else jax.grad(lambda *x: f(*x).sum(), (0, 1, 2))
    large = max(np.prod(s, dtype=int) for s in reference.arrays(program, q, k, k))
    assert 16 * 32 <= large <= T * (S // 32 if name == "rows" else 1) * H + S * H
    assert (
        max(np.prod(s, dtype=int) for s in reference.arrays(lambda *x: dense_attention.attention(*x, CAUSAL), q, k, k))
        >= T * S
    )


def kept(f, T, N=2, H=4):
    return trace.saved(lambda *x: f(*x).sum(), arr(1, T, N, H), arr(1, T, N, H), arr(1, T, N, H))


@pytest.mark.slow
def test_what_is_kept_for_the_backward_pass():
    """Flash keeps O and log-sums; checkpointed chunks their states; neither T · S, and both grow with T."""
    N, H = 2, 4
    f = lambda *x: flash_attention.flash(*x, CAUSAL, None, 8, 16)  # noqa: E731
    assert kept(f, 64).bytes == 4 * 64 * N * (H + 1)
    chunked = lambda T, keep: kept(lambda *x: dense_attention.efficient(*x, CAUSAL, None, 8, T // 4, keep), T)  # noqa: E731
    of = {(T, keep): chunked(T, keep) for T in (64, 128) for keep in ("scores", "state", "rows")}
    assert sum(np.prod(s) for s, _ in of[64, "state"] if s[:2] == (8, 4)) == 64 * 4 * N * (H + 2)
    grows = {keep: of[128, keep].bytes / of[64, keep].bytes for keep in ("scores", "state", "rows")}
    assert grows["rows"] < 2.1 and 1.9 < grows["state"] < 2.1  # linear in T, with a fixed number of chunks
    assert grows["scores"] > 3 and of[64, "scores"].bytes > 4 * 64 * 64 * N
    assert kept(lambda *x: dense_attention.attention(*x, CAUSAL), 64).bytes > 4 * 64 * 64 * N


@pytest.mark.parametrize("mask", [FULL, CAUSAL, SINKS, Mask(True, 9)], ids=str)
def test_flops_are_those_of_the_blocks_visited(mask):
    """Two products forward, five more backward, of visited blocks alone."""
    B, T, S, N, K, H, rows, columns = 2, 16, 24, 4, 2, 3, 4, 8
    q, k = arr(B, T, N, H), arr(B, S, K, H)
    parts = mask.array(T, S).reshape(T // rows, rows, S // columns, columns).any((1, 3)).sum()
    product = 2 * B * N * H * rows * columns * parts
    f = lambda *x: flash_attention.flash(*x, mask, None, rows, columns)  # noqa: E731
    assert trace.count(f, q, k, k).matmul_flops == 2 * product
    assert trace.count(jax.value_and_grad(lambda *x: f(*x).sum(), (0, 1, 2)), q, k, k).matmul_flops == 7 * product


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow("the same without a mask"))])
def test_forward_and_backward_are_those_of_dense_attention(causal):
    """Chunks that divide nothing, and more keys than queries."""
    g = reference.draw(2, 5, 11, 4, 1, 4)
    got = jax.jit(reference.pulled(lambda q, k, v: flash(q, k, v, causal, 2, 3)))(*g)
    reference.close(got, reference.dense(*g, Mask(causal).array(5, 11)), 3e-6)
