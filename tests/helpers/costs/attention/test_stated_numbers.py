"""Numbers of attention that the course's sources state, recomputed; where their text is wrong, what is right."""

from math import isclose

import jax
import jax.numpy as jnp
import pytest

from helpers.costs.attention import (
    io_complexity as io,
    time_and_intensity as heads,
)
from helpers.trace import count
from tests.helpers.costs.tables import refused, walks

D, N = 12288, 96  # GPT-3


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
