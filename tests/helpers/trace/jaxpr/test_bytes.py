"""Bytes from the jaxpr: of every operation by itself, and of a program's arguments and results."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from helpers import trace
from tests.helpers.trace.counted import BF16, arr


@pytest.mark.parametrize(("f", "args", "moved"), [
    (lambda x: x + 1, [arr(10)], 80),
    (lambda x: x * x, [arr(10)], 80),  # x is read once
    (lambda x, y: x * y, [arr(10, dtype=BF16)] * 2, 60),
    (lambda x: x.astype(BF16), [arr(10)], 60),
    (lambda x: (x + 1) * 2, [arr(10)], 160),  # nothing fused
    (lambda x: x.reshape(2, 5)[None], [arr(10)], 0),
    (lambda x: x.T, [arr(2, 5)], 80),
    (lambda x: lax.slice(x, (0,), (3,)), [arr(1000)], 24),
    (lambda x, i: lax.dynamic_index_in_dim(x, i, keepdims=False), [arr(1000, 7), arr(dtype=jnp.uint32)], None),
    (lambda x: x @ x, [arr(8, 8, dtype=BF16)], 256),
    (
        lambda x, w: lax.dot_general(x, w, (((1,), (0,)), ((), ()))),
        [arr(2, 3, dtype=jnp.int4), arr(3, 5, dtype=jnp.int4)],
        3 + 8 + 5,
    ),
])  # fmt: skip
def test_unfused_bytes(f, args, moved):
    got = trace.count(f, *args).bytes
    assert got == moved if moved is not None else 56 <= got < 200  # seven floats out and in, and some index arithmetic


def test_updates_touch_what_they_change():
    c = trace.count(lambda x, u: lax.dynamic_update_slice(x, u, (5, 0)), arr(1000, 8), arr(1, 8))
    assert c.by_primitive["dynamic_update_slice"].bytes == 2 * 32
    rows = lambda x, u: x.at[jnp.array([3, 1])].add(u)  # noqa: E731
    assert trace.count(rows, arr(1000, 8), arr(2, 8)).by_primitive["scatter-add"].bytes == 3 * 64 + 8
    table = trace.count(lambda t, i: t[i], arr(50_000, 64, dtype=BF16), arr(4, dtype=jnp.int32))
    assert table.by_primitive["gather"].bytes == 2 * 4 * 64 * 2 + 4 * 4


def test_fused_bytes_are_arguments_closed_over_arrays_and_results():
    w = jnp.ones((8, 16))
    f = lambda x, unused: jnp.tanh(x @ w) + 1  # noqa: E731
    for g in (f, jax.jit(f), jax.jit(lambda *a: jax.jit(f)(*a))):
        assert trace.count(g, arr(4, 8), arr(3)).io_bytes in (
            4 * (4 * 8 + 8 * 16 + 4 * 16),
            4 * (4 * 8 + 8 * 16 + 4 * 16 + 3),
        )
    assert trace.count(f, arr(4, 8), arr(3)).io_bytes == 4 * (4 * 8 + 8 * 16 + 4 * 16)
    assert trace.count(lambda x: x, arr(5)).io_bytes == 40


def test_matmul_is_the_rooflines_work():
    B, D, F = 64, 256, 512
    c = trace.count(jnp.matmul, arr(B, D, dtype=BF16), arr(D, F, dtype=BF16))
    assert (c.flops, c.io_bytes) == (2 * B * D * F, 2 * (B * D + D * F + B * F)) and c.bytes == c.io_bytes
    assert c.intensity == pytest.approx(B * D * F / (B * D + D * F + B * F))
