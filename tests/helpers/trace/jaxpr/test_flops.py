"""FLOPs and bytes from the jaxpr: the conventions, control flow, several devices, known identities, arguments and results."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings, strategies as st
from jax import lax
from jax.sharding import AbstractMesh, AxisType

from helpers import trace
from tests.helpers.trace.counted import BF16, arr, one

# ---- the conventions


@pytest.mark.parametrize(("f", "flops"), [
    (lambda x: x + 1, 35),
    (lambda x: jnp.maximum(x, 0), 35),
    (lambda x: x * x - x, 70),
    (jnp.exp, 35),
    (jnp.tanh, 35),
    (lambda x: x**2, 35),
    (lambda x: x**3, 70),
    (lambda x: x**7, 35 * 4),
    (lambda x: lax.integer_pow(x, -2), 70),
    (lambda x: x.sum(), 34),
    (lambda x: x.sum(axis=0), 35 - 7),
    (lambda x: x.max(axis=1), 35 - 5),
    (lambda x: jnp.cumsum(x, axis=1), 35 - 5),
    (lambda x: x.reshape(7, 5).T, 0),
    (lambda x: jnp.where(x > 0, x, 0.0).astype(BF16), 0),
    (lambda x: jnp.argmax(x) + jnp.arange(3), 0),
    (lambda x: jnp.sort(x), 0),
    (lambda x: x.at[0].add(1.0), 7),
    (lambda x: jnp.zeros((9, 7)).at[jnp.array([1, 1, 3, 8, 0])].add(x), 35),
    (jax.nn.relu, 35),
    (
        lambda x: jax.nn.softmax(x, axis=-1),
        30 + 5 + 35 + 35 + 30 + 35,
    ),  # max, its floor, subtract, exp, sum, divide
])  # fmt: skip
def test_one_flop_per_element_and_none_for_moving(f, flops):
    assert one(f, arr(5, 7)) == flops


def test_integer_matmul_counts_but_integer_bookkeeping_does_not():
    x = arr(4, 4, dtype=jnp.int8)
    assert one(lambda x: lax.dot_general(x, x, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32), x) == 2 * 64
    assert one(lambda x: x + x, x) == 0


def test_unknown_work_is_reported_never_silent():
    c = trace.count(lambda x: jnp.linalg.cholesky(x @ x), arr(8, 8))
    assert c.matmul_flops == 2 * 8**3 and c.unknown == {"cholesky": 1}
    assert any("cholesky" in d for d in c.doubts) and "cholesky" in str(c)
    z = trace.count(lambda z: z * z, arr(3, dtype=jnp.complex64))
    assert z.flops == 0 and z.unknown == {"mul": 1}
    assert not trace.count(lambda z: z.real[:2].reshape(1, 2), arr(3, dtype=jnp.complex64)).unknown


def test_unknown_work_in_a_loop_is_counted_as_often_as_it_runs():
    c = trace.count(lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.linalg.cholesky(x), x), arr(8, 8))
    assert c.unknown == {"cholesky": 3}


# ---- control flow


def layer(x, w):
    return jnp.tanh(x @ w), None


def test_scan_equals_unrolled():
    x, ws = arr(8, 16), arr(6, 16, 16)
    unrolled = lambda x, ws: [x := layer(x, ws[i])[0] for i in range(6)][-1]  # noqa: E731
    a, b = trace.count(lambda x, ws: lax.scan(layer, x, ws)[0], x, ws), trace.count(unrolled, x, ws)
    assert a.flops == b.flops == 6 * (2 * 8 * 16 * 16 + 8 * 16)
    assert a.by_primitive["dot_general"] == b.by_primitive["dot_general"] and a.io_bytes == b.io_bytes


@pytest.mark.parametrize("loop", ["scan", "python"])
@pytest.mark.parametrize("remat", [False, True])
def test_gradient_of_a_matmul_chain_is_three_forwards_and_remat_is_four(loop, remat):
    step = jax.checkpoint(layer) if remat else layer

    def loss(x, ws):
        if loop == "scan":
            return jnp.sum(lax.scan(step, x, ws)[0])
        for i in range(ws.shape[0]):
            x = step(x, ws[i])[0]
        return jnp.sum(x)

    args = arr(8, 16), arr(4, 16, 16)
    forward, both = trace.count(loss, *args), trace.count(jax.value_and_grad(loss, (0, 1)), *args)
    assert both.matmul_flops == (4 if remat else 3) * forward.matmul_flops


def test_fori_loop_and_counting_while_show_their_trips():
    fori = lambda x: lax.fori_loop(2, 7, lambda i, x: x @ x, x)  # noqa: E731
    assert one(fori, arr(4, 4)) == 5 * 128
    loop = lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (3 + s[0], s[1] @ s[1]), (1, x))  # noqa: E731
    assert one(loop, arr(4, 4)) == 3 * 128  # i = 1, 4, 7
    assert trace.count(loop, arr(4, 4)).by_primitive["lt"].count == 4  # and once more to find that it is over
    never = lambda x: lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, s[1] @ s[1]), (5, x))  # noqa: E731
    assert one(never, arr(4, 4)) == 0


@given(st.integers(-5, 9), st.integers(-5, 9), st.integers(1, 4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_readable_trip_counts_are_right(start, limit, step, carried):
    def loop(x):
        if carried:
            test, body = lambda s: s[0] < s[2], lambda s: (s[0] + step, s[1] * 2, s[2])
        else:
            test, body = lambda s: s[0] < limit, lambda s: (s[0] + step, s[1] * 2, s[2])
        return lax.while_loop(test, body, (start, x, limit))[1]

    assert one(loop, arr(1)) == len(range(start, limit, step))


@pytest.mark.parametrize("loop", [
    lambda n, x: lax.fori_loop(0, n, lambda i, x: x @ x, x),
    lambda n, x: lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ x, x),
    lambda n, x: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, s[1] @ s[1]), (1, x))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + n, s[1] @ s[1]), (1, x))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] @ s[1]), (5, x))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 0, s[1] @ s[1]), (1, x))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] < 2.5, lambda s: (s[0] + 1.0, s[1] @ s[1]), (0.0, x))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] < s[2], lambda s: (s[0] + 1, s[1] @ s[1], s[2] + 1), (0, x, 5))[1],
    lambda n, x: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + s[0], s[1] @ s[1]), (1, x))[1],
])  # fmt: skip
def test_unreadable_trip_counts_are_flagged(loop):
    c = trace.count(loop, arr(dtype=jnp.int32), arr(4, 4))
    assert c.unknown_trips and c.matmul_flops == 128 and len(c.doubts) == 1


def test_cond_counts_its_largest_branch_and_says_so():
    f = lambda p, x: lax.cond(p, lambda x: x @ x @ x, lambda x: x, x)  # noqa: E731
    g = lambda i, x: lax.switch(i, [lambda x: x, lambda x: x @ x, lambda x: x + 1], x)  # noqa: E731
    a, b = trace.count(f, arr(dtype=bool), arr(4, 4)), trace.count(g, arr(dtype=jnp.int32), arr(4, 4))
    assert (a.flops, b.flops) == (256, 128) and a.branches and b.branches and a.doubts
    assert not trace.count(lambda x: x @ x, arr(4, 4)).branches


@jax.custom_vjp
def doubled(x):
    return x * 2


@jax.custom_jvp
def product(x, y):
    return x * y


doubled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))
product.defjvp(lambda primals, tangents: (product(*primals), tangents[0] * primals[1] + tangents[1] * primals[0]))


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint, lambda f: jax.jit(jax.jit(f)), lambda f: jax.vmap(f, 0)])
def test_wrappers_change_nothing(wrap):
    f = lambda x: jnp.sin(product(doubled(x), x))  # noqa: E731
    assert one(wrap(f), arr(5, 3)) == one(f, arr(5, 3)) == 45


def test_work_nobody_uses_is_left_out():
    def f(x):
        y = x @ x  # noqa: F841
        return x + 1

    assert one(f, arr(4, 4)) == one(jax.jit(f), arr(4, 4)) == 16


# ---- several devices


def test_shard_map_counts_all_devices():
    mesh = AbstractMesh((4, 2), ("X", "Y"), axis_types=(AxisType.Auto,) * 2)
    P = jax.P
    f = jax.shard_map(jnp.matmul, mesh=mesh, in_specs=(P("X", None), P(None, "Y")), out_specs=P("X", "Y"))
    whole, args = trace.count(jnp.matmul, arr(16, 8), arr(8, 16)), (arr(16, 8), arr(8, 16))
    c = trace.count(f, *args)
    assert c.flops == whole.flops and c.devices == 8 and c.by_primitive["dot_general"].count == 8
    assert c.io_bytes == whole.io_bytes
    assert c.bytes > whole.bytes  # every device reads its own copy of what is replicated
    (dot,) = [v for v in trace.walk(jax.make_jaxpr(f)(*args)) if v.name == "dot_general"]
    assert dot.axes == {"X": 4, "Y": 2} and dot.path == ("shard_map",) and (dot.loops, dot.devices) == (1, 8)
    assert dot.eqn.outvars[0].aval.shape == (4, 8)  # one device's


def test_partly_manual_shard_map_counts_its_own_axes():
    mesh = AbstractMesh((4, 2), ("X", "Y"), axis_types=(AxisType.Auto,) * 2)
    f = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=jax.P("X"), out_specs=jax.P("X"), axis_names={"X"})
    c = trace.count(jax.jit(f), arr(16))
    assert (c.flops, c.devices) == (16, 4)


def test_the_walk_knows_where_it_is():
    mesh = AbstractMesh((4,), ("X",), axis_types=(AxisType.Auto,))

    def body(x):
        return lax.scan(lambda c, _: (lax.psum(c, "X") * 0.5, None), lax.pcast(x, "X", to="varying"), None, length=3)[0]

    f = jax.shard_map(body, mesh=mesh, in_specs=jax.P(), out_specs=jax.P(), check_vma=False)
    (psum,) = [v for v in trace.walk(jax.make_jaxpr(f)(arr(8))) if v.name.startswith("psum")]
    assert psum.path == ("shard_map", "scan x3") and psum.times == 12 and psum.axes == {"X": 4}


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
