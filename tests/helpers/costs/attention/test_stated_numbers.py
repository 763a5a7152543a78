"""Numbers of attention that the course's sources state, recomputed; where their text is wrong, what is right."""

from math import isclose

import jax
import jax.numpy as jnp
import pytest

from helpers.costs.attention import (
    io_complexity as io,
    time_and_intensity as heads,
)
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import critical_batch_limit, elementwise
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.trace import count
from tests.helpers.costs.tables import refused, walks

D, N = 12288, 96  # GPT-3
A100 = 3.12e14 / 1.55e12  # the sources' FLOPs per byte: its bandwidth is that of the card with 40 GB
LENGTHS = [2**i for i in range(8, 24)]


def test_intensities_of_gpt_3():
    """F3: limits 128, below 1, and 54.86 rather than 96."""
    assert heads.prefill_intensity(1e9, D, N) == pytest.approx(heads.prefill_intensity_limit(D, N), rel=1e-4) == 128
    assert all(heads.decode_intensity(L, D, N) < 1 for L in LENGTHS)
    assert heads.decode_intensity(1e12, D, N) == pytest.approx(heads.decode_intensity_limit(D, N))
    assert heads.decode_intensity_limit(D, N) == D / (D + N) < 1
    assert heads.decode_intensity_limit(D, N, 1) == pytest.approx(54.86, abs=0.005) == D * N / (D + N * N)
    assert heads.decode_intensity(1e12, D, N, 1) == pytest.approx(heads.decode_intensity_limit(D, N, 1), abs=1e-3)
    assert 0.9 * N < heads.decode_intensity_limit(D, 16, 1) * N / 16  # 16 heads: N² is small beside D
    assert heads.decode_speed_up(D, N) == pytest.approx((D + N) / (D / N + N)) == pytest.approx(55.3, abs=0.05)


def test_a_long_prefill_is_bound_by_memory_after_all():
    """E004-11: above 21k tokens the sources' own form falls below the A100's ratio; a Flash kernel keeps scores out of it."""
    assert round(A100) == 201 and round(chip("A100").alpha_hbm()) == 153
    bound = [L for L in range(1000, 60_000, 50) if heads.prefill_intensity(L, D, N) < A100]
    assert bound[0] == pytest.approx(21_000, rel=0.02) and bound[-1] == 59_950
    gpt3 = dict(D=D, N=N, H=128, K=96)
    stored, kept_on_chip = (heads.layer_intensity(1, 2**17, 2**17, **gpt3, scores=s) for s in (True, False))
    assert stored < A100 < kept_on_chip


def test_the_table_of_variants():
    """F4: re-derived; MQA is g = 1, MHA is g = h, and nothing but memory tells them apart."""
    L, B = 4096.0, 8.0
    by_group = {g: heads.complexity(B, L, D, N, g) for g in (1, 2, 8, 32, 96)}
    assert isclose(by_group[96].intensity, B * (L * D + D * D) / (B * (L * D + L * N) + D * D))
    assert isclose(by_group[1].intensity, B * (L * D + D * D) / (B * (L * D / N + L * N) + D * D))
    assert by_group[96].cache == 96 * by_group[1].cache and len({r.compute for r in by_group.values()}) == 1
    intensities = [r.intensity for r in by_group.values()]
    assert intensities == sorted(intensities, reverse=True)
    for g, row in by_group.items():
        assert row.intensity == pytest.approx(heads.decode_intensity(L, D, N, g, B))
        assert row.limit == heads.decode_intensity_limit(D, N, g)
        assert heads.complexity(B, 1e13, D, N, g).intensity == pytest.approx(row.limit)
    refused((lambda: heads.complexity(B, L, D, N, 5), "do not group"))


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


def test_the_cache_of_gpt_3():
    """E004-1, E004-16: 19.3e9 bytes, 18 GiB, 24% of an A100; MQA has 96 times fewer, 0.25%."""
    one = Config(D, 96, N, N, 128, 4 * D, 50257)
    assert kv_cache(one, 4096) == 19_327_352_832 == 2 * 2 * 4096 * 96 * 12288 == 18 * 2**30
    assert kv_cache(one, 4096) / chip("A100").hbm_bytes == pytest.approx(0.242, abs=5e-4)
    mqa = kv_cache(Config(D, 96, N, 1, 128, 4 * D, 50257), 4096)
    assert mqa * 96 == kv_cache(one, 4096) and mqa == pytest.approx(2.01e8, rel=2e-3)
    assert mqa / 80e9 == pytest.approx(0.0025, abs=5e-5)
    assert 96 * heads.complexity(1, 4096, D, N, N).cache * 2 == 19_327_352_832


def test_elementwise_work_and_the_batch_that_saturates_an_a100():
    assert elementwise(1000).intensity == 0.25  # ReLU in bf16: one FLOP, two accesses, four bytes (E004-27)
    assert round(critical_batch_limit(3.12e14, 1.55e12)) == 201
    assert round(critical_batch_limit(3.12e14, 2.039e12)) == 153
    assert chip("A100").rate() / chip("A100").rate("f32") == 16  # products against everything else
    assert chip("A100").fast_bytes == 108 * 164 * 1024  # E004-15: not 192 KiB of each SM


def test_softmax_through_memory():
    """F8, F9 and E004-5; the sources' three times on a TPU v3, 194, 254 and 199 us, go with 3, 4 and 3 accesses."""
    for L in (16, 1024):
        assert io.softmax_floats(L) == (L * L + L * L) + (L * L + L) + (L * L + L + L * L) == 5 * L * L + 2 * L
    assert io.softmax_floats(1e8) / io.softmax_floats(1e8, fused=True) == pytest.approx(2.5)
    n = io.SOFTMAX_ACCESSES
    assert n == {"naive": 3, "safe": 4, "online": 3}
    assert 254 / 194 == pytest.approx(n["safe"] / n["naive"], rel=0.05)
    assert 199 / 194 == pytest.approx(n["online"] / n["naive"], rel=0.05)


def test_floats_of_flash():
    """F16: 12 L²d²/M, fewer than 4L² + 4Ld by a number that L does not change (E004-24)."""
    H, M = 64, 2**16
    R, C = io.flash_blocks(M, H)
    ratios = [io.flash_floats(L, H, R, C) / io.flash_limit(L, H, M) for L in (2**12, 2**16, 2**20)]
    assert ratios[1] == pytest.approx(1, abs=0.03) and ratios[2] == pytest.approx(1 + 4 / (3 * H), abs=1e-3)
    saved = [io.standard_floats(L, H) / io.flash_floats(L, H, R, C) for L in (2**14, 2**16, 2**18)]
    assert saved[1] == pytest.approx(saved[2], rel=0.02) == pytest.approx(M / (3 * H * H), rel=0.05)
    # At the ends of d <= M <= Ld: as many as standard attention, and every array once or little more.
    assert io.flash_limit(2**14, H, 3 * H * H) == 4 * 2**28
    assert io.flash_floats(2**14, H, *io.flash_blocks(4 * 2**14 * H, H)) == 2 * 2**14 * H + 3 * 2**14 * H + 4 * 2**14
