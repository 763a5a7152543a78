"""Costs of attention against brute force, traced programs, walked schedules and published numbers."""

from dataclasses import replace
from itertools import product
from math import ceil, inf

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.attention import io_complexity as io, time_and_intensity as heads
from helpers.costs.attention.flops_and_bytes import (
    Attention,
    chunk_keys,
    chunked,
    decode,
    flash,
    flash_rows,
    flops,
    fused,
    naive,
)
from helpers.costs.attention.time_and_intensity import Rates, exp_rate, exp_share, in_turn, seconds
from helpers.costs.rooflines.chips import chip
from helpers.trace import count
from tests.helpers.costs.tables import refused, walks
from tests.helpers.live.test_jaxpr_to_javascript import agree, run  # noqa: F401, the fixture


def mask(T, S, causal=True, window=None, keep=0):
    """bool[T, S], pair by pair."""
    at, key = np.arange(T)[:, None] + S - T, np.arange(S)
    near = True if window is None else (at - key < window) | (key < keep)
    return ((key <= at) if causal else np.full((T, S), True)) & near


MASKS = ({"causal": False}, {}, {"window": 1}, {"window": 3}, {"window": 7, "keep": 2}, {"window": 4, "keep": 9})


@walks(MASKS)
def test_pairs_and_blocks_are_those_of_the_mask(how):
    for T, S in ((1, 1), (12, 12), (5, 17), (17, 19)):
        seen = mask(T, S, **how)
        assert Attention(T, S, **how).pairs == seen.sum()
        for R, C in ((1, 1), (4, 4), (3, 5), (5, 3), (40, 40)):
            blocks = [[seen[i : i + R, j : j + C] for j in range(0, S, C)] for i in range(0, T, R)]
            found = io.visits(T, S, R, C, **how)
            assert found.rows == tuple(sum(b.any() for b in row) for row in blocks)
            assert found.full == sum(b.all() for row in blocks for b in row) and found.all == sum(found.rows)
    for b, T in product((1, 2, 3, 4, 6), (12, 13, 24)):
        assert Attention(T, **how).visited(b) == io.visits(T, T, b, b, **how).all
        assert Attention(b, 24, **how).visited(b) == io.visits(b, 24, b, b, **how).all  # a chunk of a prefill


def scores(q, k):
    return jnp.einsum("tnh,snh->nts", q, k)


def dense(q, k, v):
    return jnp.einsum("nts,snh->tnh", jax.nn.softmax(scores(q, k)), v)


def array(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


def gradients(f):
    """The result, and what the backward pass makes of it."""

    def both(*a):
        out, pull = jax.vjp(f, *a)
        return out, pull(out)

    return both


def test_products_of_the_forward_and_the_backward_pass():
    a = Attention(16, N=3, H=8, causal=False)
    q = array(16, 3, 8)
    forward, both = (count(f, q, q, q).matmul_flops for f in (dense, gradients(dense)))
    again = count(gradients(jax.checkpoint(dense)), q, q, q).matmul_flops
    assert forward == flops(a) and both - forward == flops(a, products=4)
    assert again - forward == flops(a, products=5)
    assert flops(a, products=5) / flops(a) == 2.5 and flops(a, 16 * 16) == fused(a).flops == naive(a).flops
    assert naive(a, True).flops == both - forward and flash(a, 8, backward=True).flops == 2.5 * forward
    assert flash(a, 8, backward=True, kernels=2).flops == 3.5 * forward


@walks([4, 8])
def test_bytes_are_the_floats_of_the_schedules(b):
    a = Attention(24, H=4, causal=False, x=4, s=4)
    assert naive(a).bytes == 4 * (io.standard_floats(24, 4) - 2 * 24**2 + io.softmax_floats(24))
    assert fused(a).bytes == 4 * io.standard_floats(24, 4)
    for version in (1, 2):
        assert flash(a, b, version).bytes == 4 * io.flash_floats(24, 4, b, b, version)


def test_causal_and_windowed_flash_move_what_they_visit():
    """Block by block: keys for each block of queries, or queries for each block of keys."""
    for how in ({}, {"window": 20, "keep": 3}):
        a, b = Attention(64, N=4, K=2, H=8, **how), 8
        met = sum(io.visits(64, 64, b, b, **how).rows)
        row = 4 * 4 * 64  # of the heads, one number
        assert flash(a, b).bytes == 4 * (2 * 2 * 64 * 8 + 2 * 2 * met * b * 8) + row
        assert (
            flash(a, b, rows=16).bytes
            == 4 * (2 * 2 * 64 * 8 + 2 * 2 * io.visits(64, 64, 16, 16, **how).all * 16 * 8) + row
        )
        assert flash(a, b).flops == 4 * 4 * met * b * b * 8
        back = 4 * (2 * 2 * 64 * 8) + row + 4 * 4 * 2 * 64 * 8 + 4 * met * b * (2 * 2 * 8 + 2 * 4 * 8 + 8)
        assert flash(a, b, backward=True).bytes == back


def test_rows_from_which_flash_is_bound_by_products():
    for name in ("H100", "v5e"):
        at = chip(name)
        rows = flash_rows(at.alpha_hbm())
        a = Attention(2**22, causal=False)
        below, above = (
            seconds(flash(a, n, rows=n), Rates(at.rate(), at.hbm_bandwidth)) for n in (rows * 0.99, rows * 1.01)
        )
        assert below.bound == "hbm" and above.bound == "math"
        keys = flash_rows(at.alpha_hbm(), backward=True)
        below, above = (
            seconds(flash(a, n, backward=True, rows=n), Rates(at.rate(), at.hbm_bandwidth))
            for n in (keys * 0.98, keys * 1.02)
        )
        assert below.bound == "hbm" and above.bound == "math"


def test_chunks_of_a_prefill_look_as_far_as_their_ends():
    for how in ({}, {"window": 6}, {"window": 6, "keep": 2}, {"causal": False}):
        for T, S, C in ((24, 24, 4), (8, 24, 8), (12, 24, 3), (24, 24, 7), (10, 22, 4), (3, 24, 7), (9, 9, 20)):
            seen = mask(T, S, **how)
            want = sum(seen[i : i + C].any(0).sum() for i in range(0, T, C))
            got = chunk_keys(Attention(T, S, **how), C)
            # A chunk's sinks may lie in its window: the formula counts them apart.
            assert got == want if not how.get("keep") else want <= got <= want + 2 * ceil(T / C)
    assert chunk_keys(Attention(24, window=4), 7) == 7 + 10 + 10 + 6  # the last chunk has three queries
    assert chunk_keys(Attention(4, 24, window=7), 4) == 4 + 7 - 1  # erratum E004-12
    a = Attention(32, N=2, H=4, x=4, causal=False)
    assert chunked(a, 32).bytes == fused(a).bytes and chunked(a, 8).held * 4 == fused(a).held
    assert chunked(Attention(32), 1).flops == flops(Attention(32))  # one query at a time: no masked pair


def test_a_decode_step_reads_its_cache():
    a = Attention(1, 1000, N=8, K=2, H=16, B=3)
    assert decode(a).bytes == 2 * 3 * (2 * 8 * 16 + 2 * 2 * 1000 * 16) and decode(a).flops == 4 * 3 * 8 * 1000 * 16
    pages = decode(a, 16).bytes - decode(a).bytes
    assert pages == 3 * (2 * 2 * 2 * 16 * (ceil(1000 / 16) * 16 - 1000) + 4 * 63)
    for window, keep in ((64, 4), (2000, 4)):
        w = replace(a, window=window, keep=keep)
        seen = mask(1, 1000, window=window, keep=keep).sum()
        assert decode(w).flops == 4 * 3 * 8 * seen * 16 == flops(w)


def test_blocks_that_fit():
    for M, H in ((4096, 8), (49152, 64), (50000, 128)):
        R, C = io.flash_blocks(M, H)
        assert (ceil(M / (4 * H)), min(ceil(M / (4 * H)), H)) == (C, R)
        floats = 2 * (R + C) * H + R * C + 2 * R  # Q, O; K, V; scores; l, m
        assert 0.75 * M < floats <= 1.25 * M + (2 + H) * (R + C) / C + 4 * H  # erratum E004-24: not M
    for at in (io.Layout(), io.Layout(scores=False, sums=False), io.Layout(x=1, buffers=3)):
        for M, H, backward in product((2**14, 232448, 2**24), (64, 128), (False, True)):
            b = io.largest_block(M, H, at, backward)
            assert b % 16 == 0
            assert io.block_bytes(b, b, H, at, backward) <= M < io.block_bytes(b + 16, b + 16, H, at, backward)


def pingpong(groups, n, multiply, soft):
    """Two resources, each for one group at a time; a group multiplies, then does its softmax, n times; first come, first served."""
    free, at = {"mxu": 0.0, "sfu": 0.0}, [0.0] * groups
    for _ in range(n):
        for unit, takes in (("mxu", multiply), ("sfu", soft)):
            for g in sorted(range(groups), key=lambda g: at[g]):
                at[g] = free[unit] = max(at[g], free[unit]) + takes
    return max(at)


def test_overlap_takes_the_longer_part():
    for multiply, soft in ((2.0, 1.0), (1.0, 2.0), (1.0, 1.0), (3.0, 0.0)):
        assert io.busy(5, multiply, soft, 1) == pingpong(1, 5, multiply, soft)
        assert io.busy(5, multiply, soft) == pingpong(2, 5, multiply, soft)
    many = 10**6
    assert io.busy(many, 2.0, 1.5) / (2 * many) == pytest.approx(max(2.0, 1.5))  # not 3.5
    h100 = chip("H100")
    each = exp_rate(h100.cores, 1.83e9)
    assert each == pytest.approx(3.9e12, rel=0.01)  # the FlashAttention-3 paper's rate
    # its "512 times as many", and half the time
    assert h100.rate() / each == pytest.approx(256, rel=0.01) and 4 * 128 == 512
    assert exp_share(128, h100.rate(), 3.9e12) == pytest.approx(0.5, abs=0.01)
    # twice the products' rate, not the exps'
    assert exp_share(128, h100.rate("fp8"), 3.9e12) == pytest.approx(1.0, abs=0.02)
    t = seconds(flash(Attention(4096, causal=False), 128, rows=inf), Rates(h100.rate(), h100.hbm_bandwidth, 3.9e12))
    assert t.parts["exps"] / t.math == pytest.approx(exp_share(128, h100.rate(), 3.9e12), rel=0.01)
    p, at = flash(Attention(4096, causal=False), 128, rows=4096), Rates(h100.rate(), h100.hbm_bandwidth, 3.9e12)
    t = seconds(p, at)
    assert in_turn(p, at) == t.math + t.parts["exps"] > t.lower == t.math


def test_refusals():
    refused(
        (lambda: Attention(8, N=6, K=4), "6 query heads do not group over 4 KV heads"),
        (lambda: Attention(0), "a query, a key and a width"),
        (lambda: Attention(8, 4), "S is at least T"),
        (lambda: Attention(8, causal=False, window=4), "for causal attention"),
        (lambda: Attention(8, window=0), "at least one key"),
        (lambda: flash(Attention(8), 4, version=4), "flash: version is one of 1, 2, 3, not 4"),
        (lambda: decode(Attention(8)), "one query"),
        (lambda: io.flash_blocks(100, 64), "256, not 100"),
        (lambda: io.warp_floats(1, 1, 1, 1, "Q"), "warp_floats: cut is one of 'keys', 'queries', not 'Q'"),
        (lambda: io.busy(1, 1.0, 1.0, 3), "busy: groups is one of 1, 2, not 3"),
    )


D, N = 12288, 96  # GPT-3


def layer(T, S, N, K):
    """The products of an attention layer of T new tokens, as plain einsums; the cache holds S - T older ones."""

    def f(x, W_Q, W_K, W_V, W_O, k, v):
        q = jnp.einsum("btd,dnh->btnh", x, W_Q)
        k = jnp.concatenate([k, jnp.einsum("btd,dkh->btkh", x, W_K)], 1)
        v = jnp.concatenate([v, jnp.einsum("btd,dkh->btkh", x, W_V)], 1)
        q = q.reshape(*q.shape[:2], K, N // K, -1)
        p = jax.nn.softmax(jnp.einsum("btkgh,bskh->bkgts", q, k))
        o = jnp.einsum("bkgts,bskh->btkgh", p, v)
        return jnp.einsum("btnh,nhd->btd", o.reshape(*o.shape[:2], N, -1), W_O)

    B, D, H = 2, 24, 4
    shapes = (B, T, D), (D, N, H), (D, K, H), (D, K, H), (N, H, D), (B, S - T, K, H), (B, S - T, K, H)
    return count(f, *(jax.ShapeDtypeStruct(s, "float32") for s in shapes)), dict(B=B, T=T, S=S, D=D, N=N, H=H, K=K)


@walks([(8, 8, 4), (1, 16, 4), (1, 16, 1), (3, 9, 2)])
def test_a_whole_layer(T, S, K):
    """FLOPs of the program; bytes of its arguments and result, and of what a compiler cannot keep on the chip."""
    c, at = layer(T, S, 4, K)
    assert heads.layer_flops(**at) == c.matmul_flops
    inside = 2 * T * (2 * 4 * 4 + 2 * K * 4) * 2  # q, k, v and o: written and read, both sequences
    assert heads.layer_bytes(**at, x=4, scores=False) == c.io_bytes + 4 * inside
    assert heads.layer_bytes(**at, x=4) - heads.layer_bytes(**at, x=4, scores=False) == 4 * 4 * 2 * 4 * T * S
    assert heads.layer_intensity(**at, x=4) == heads.layer_flops(**at) / heads.layer_bytes(**at, x=4)
