"""Arrays as large as T x S, bytes of blocked programs, and Pallas kernels, read from the program alone."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from helpers.costs.attention import io_complexity as io
from helpers.costs.attention.flops_and_bytes import Attention, flash as predicted
from helpers.kernels.attention.flash_attention import flash_all_blocks as chapter_3
from helpers.trace import moved, squares

T, H, b = 64, 16, 8


def array(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


def dense(q, k, v):
    return jax.nn.softmax(q @ k.T) @ v


def flash(q, k, v, b=b):
    """Blocks by two loops: O once, keys and values for every block of queries."""
    K, V = (x.reshape(-1, b, x.shape[-1]) for x in (k, v))

    def row(q):
        def look(seen, kv):
            m, total, o = seen
            s = q @ kv[0].T
            new = jnp.maximum(m, s.max(-1))
            a, p = jnp.exp(m - new), jnp.exp(s - new[:, None])
            return (new, a * total + p.sum(-1), a[:, None] * o + p @ kv[1]), None

        start = jnp.full(b, -jnp.inf), jnp.zeros(b), jnp.zeros((b, v.shape[-1]))
        return (lambda m, total, o: o / total[:, None])(*lax.scan(look, start, (K, V))[0])

    return lax.map(row, q.reshape(-1, b, q.shape[-1])).reshape(q.shape)


def test_arrays_of_t_by_s():
    q = array(T, 4)
    assert not squares(flash, q, q, q, T=T, S=T)
    found = squares(dense, q, q, q, T=T, S=T)
    assert {shape for shape, _ in found} == {(T, T)} and found.bytes >= 2 * 4 * T * T
    assert len(squares(dense, q, q, q, T=T, S=T, backward=True)) > len(found)
    # What a loop keeps for its backward pass: all scores, stacked; and in other shapes, of other types, hidden in a loop.
    kept = squares(flash, q, q, q, T=T, S=T, backward=True)
    assert any(np.prod(shape) == T * T for shape, _ in kept)
    text = [array(1, T, 1, 4)] * 3
    for backward in (False, True):
        assert not squares(lambda *x: chapter_3(*x, True, b, b), *text, T=T, S=T, backward=backward)
    assert squares(lambda *x: chapter_3(*x, True, T, T), *text, T=T, S=T)  # one block is all of it
    for hidden in (lambda q, k: jnp.zeros(T * T) + q[0, 0], lambda q, k: lax.map(lambda x: k @ x, q).sum(0)):
        assert squares(hidden, q, q, T=T, S=T)
    assert squares(lambda q, k: jnp.where(jnp.tril(jnp.ones((T, T), bool)), 1.0, 0.0) @ q, q, q, T=T, S=T)
    with pytest.raises(ValueError, match="make T and S longer"):
        squares(dense, *[array(8, 8)] * 3, T=8, S=8)


@pytest.mark.parametrize("size", [8, 16])
def test_bytes_of_a_blocked_program(size):
    """Arrays have 4 KiB, a block of scores 1 KiB at most."""
    q = array(T, H)
    want = 4 * (io.flash_floats(T, H, size, size, 2) - T)  # this program does not keep m + log l
    for f in (partial(flash, b=size), jax.jit(partial(flash, b=size)), jax.checkpoint(partial(flash, b=size))):
        got = moved(f, q, q, q, M=2048)
        assert got.bytes == want and got.written == 4 * T * H
    a = Attention(T, H=H, causal=False, x=4)
    assert predicted(a, size).bytes - predicted(a, size).kept == want


def test_bytes_of_a_program_that_is_not_blocked():
    q = array(T, H)
    product = moved(lambda q, k: q @ k.T, q, q, M=2048)
    assert (product.read, product.written) == (2 * 4 * T * H, 4 * T * T)
    # exp, its sum, the division: as 5L² + 2L, but a row of sums stays on the chip
    unfused = moved(lambda s: (lambda e: e / e.sum(-1, keepdims=True))(jnp.exp(s)), array(T, T), M=2048)
    assert unfused.bytes == 4 * (io.softmax_floats(T) - 2 * T)
    assert moved(lambda x: x[:4] + 1, q, M=2048) == moved(lambda x: lax.dynamic_slice(x, (3, 0), (4, H)) * 2, q, M=2048)
    assert moved(lambda x: x[:4] + 1, q, M=2048).read == 4 * 4 * H
    put = moved(lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)), q, array(2, H), M=2048)
    assert (put.read, put.written) == (4 * 2 * H, 4 * 2 * H)
    added = moved(lambda x, y: x.at[2:4].add(y), q, array(2, H), M=2048)  # the old values come in too
    assert (added.read, added.written) == (2 * 4 * 2 * H, 4 * 2 * H)
    looped = moved(lambda q: lax.fori_loop(0, 5, lambda i, s: s + q[i], jnp.zeros(H)), q, M=2048)
    assert (looped.read, looped.written) == (5 * 4 * H, 4 * H)
    chosen = moved(
        lambda q, n: lax.cond(n > 0, lambda: q.sum(0), lambda: q[0]), q, jax.ShapeDtypeStruct((), "int32"), M=2048
    )
    assert chosen.read == 4 * T * H


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_while_that_counts_up_reads_on_each_trip_and_one_without_a_trip_nothing(trips):
    def program(q):
        return lax.while_loop(
            lambda c: c[0] < 8 * trips,
            lambda c: (c[0] + 8, c[1] + lax.dynamic_slice_in_dim(q, c[0], 8).sum(0)),
            (0, jnp.zeros(H)),
        )[1]

    found = moved(program, array(T, H), M=2048)
    assert found.read == trips * 8 * H * 4


@pytest.mark.parametrize(
    "reads_all",
    [
        lambda x: sum(part.sum() for part in lax.split(x, (4,) * 16, 0)),
        lambda x: sum(
            lax.bitcast_convert_type(lax.bitcast_convert_type(x, "int32")[i : i + 4], "float32").sum()
            for i in range(0, 64, 4)
        ),
        lambda x: lax.cond(x[0, 0] > 0, lambda x: x[0] @ jnp.ones((16, 999)) @ jnp.ones(999), lambda x: x.sum(), x),
    ],
    ids=["split", "as whole numbers", "a branch with fewer FLOPs"],
)
def test_what_is_read_is_counted_however_it_is_cut(reads_all):
    assert moved(reads_all, array(64, 16), M=1024).read >= 64 * 16 * 4
