"""Counting from the jaxpr, against multiply-adds counted one by one, known identities, and XLA."""

import itertools
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import AbstractMesh, AxisType

from helpers import trace
from helpers.costs.roofline import Work

F32, BF16 = jnp.float32, jnp.bfloat16


def arr(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def one(f, *args):
    """FLOPs of a program, which no rule may leave uncounted."""
    c = trace.count(f, *args)
    assert not c.doubts
    return c.flops


# ---- matrix multiplications, one multiply-add at a time


def dot_by_hand(a, b, contract, batch):
    """Multiply-adds of a dot_general, by visiting every one; also the result, to show that these are the right ones."""
    (ca, cb), (ba, bb) = contract, batch
    fa = [d for d in range(a.ndim) if d not in (*ca, *ba)]
    fb = [d for d in range(b.ndim) if d not in (*cb, *bb)]
    out = np.zeros([a.shape[d] for d in ba] + [a.shape[d] for d in fa] + [b.shape[d] for d in fb])
    adds = 0
    for at in np.ndindex(*out.shape):
        for k in np.ndindex(*(a.shape[d] for d in ca)):
            ia, ib = [0] * a.ndim, [0] * b.ndim
            for d, i in zip([*ba, *fa, *ca], [*at[: len(ba) + len(fa)], *k], strict=True):
                ia[d] = i
            for d, i in zip([*bb, *fb, *cb], [*at[: len(bb)], *at[len(ba) + len(fa) :], *k], strict=True):
                ib[d] = i
            out[at] += a[tuple(ia)] * b[tuple(ib)]
            adds += 1
    return out, adds


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_dot_general_is_two_per_multiply_add(data):
    sizes = st.integers(1, 3)
    batch, contract = (data.draw(st.lists(sizes, max_size=2)) for _ in range(2))
    free_a, free_b = (data.draw(st.lists(sizes, max_size=2)) for _ in range(2))
    labels_a = (
        [("b", i) for i in range(len(batch))]
        + [("c", i) for i in range(len(contract))]
        + [("f", i) for i in range(len(free_a))]
    )
    labels_b = labels_a[: len(batch) + len(contract)] + [("f", i) for i in range(len(free_b))]
    order_a, order_b = data.draw(st.permutations(labels_a)), data.draw(st.permutations(labels_b))
    size_a, size_b = ({"b": batch, "c": contract, "f": free} for free in (free_a, free_b))
    a = np.random.default_rng(0).integers(-3, 4, [size_a[k][i] for k, i in order_a]).astype(np.float32)
    b = np.random.default_rng(1).integers(-3, 4, [size_b[k][i] for k, i in order_b]).astype(np.float32)
    dims = tuple(
        tuple(tuple(order.index((kind, i)) for i in range(n)) for order in (order_a, order_b))
        for kind, n in (("c", len(contract)), ("b", len(batch)))
    )
    out, adds = dot_by_hand(a, b, *dims)
    f = lambda a, b: lax.dot_general(a, b, dims)  # noqa: E731
    assert np.array_equal(f(a, b), out)
    c = trace.count(f, a, b)
    assert c.flops == c.matmul_flops == c.by_primitive["dot_general"].flops == 2 * adds


def conv_by_hand(x, w, stride, pads, grow_x, grow_w, groups):
    """A 1D or 2D convolution x[N, C, ...] * w[O, C / groups, ...] in loops: the result and the multiply-adds on real inputs."""
    space = x.ndim - 2
    wide = [(n - 1) * g + 1 for n, g in zip(x.shape[2:], grow_x, strict=True)]
    reach = [(n - 1) * g + 1 for n, g in zip(w.shape[2:], grow_w, strict=True)]
    outs = [(wide[i] + sum(pads[i]) - reach[i]) // stride[i] + 1 for i in range(space)]
    out, adds = np.zeros((x.shape[0], w.shape[0], *outs)), 0
    for b, o in np.ndindex(x.shape[0], w.shape[0]):
        for at in np.ndindex(*outs):
            for c, tap in itertools.product(range(w.shape[1]), np.ndindex(*w.shape[2:])):
                pos = [at[i] * stride[i] + tap[i] * grow_w[i] - pads[i][0] for i in range(space)]
                if all(0 <= p < wide[i] and p % grow_x[i] == 0 for i, p in enumerate(pos)):
                    source = o // (w.shape[0] // groups) * w.shape[1] + c
                    out[(b, o, *at)] += (
                        x[(b, source, *(p // g for p, g in zip(pos, grow_x, strict=True)))] * w[(o, c, *tap)]
                    )
                    adds += 1
    return out, adds


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_convolution_is_two_per_multiply_add_on_real_inputs(data):
    draw, space = data.draw, data.draw(st.integers(1, 2))
    small = lambda lo, hi: [draw(st.integers(lo, hi)) for _ in range(space)]  # noqa: E731
    groups, per, fan = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    x = (
        np.random.default_rng(0)
        .integers(-3, 4, (draw(st.integers(1, 2)), groups * per, *small(4, 6)))
        .astype(np.float32)
    )
    w = np.random.default_rng(1).integers(-3, 4, (groups * fan, per, *small(1, 2))).astype(np.float32)
    how = dict(
        stride=small(1, 2),
        pads=list(zip(small(0, 2), small(0, 2), strict=True)),
        grow_x=small(1, 2),
        grow_w=small(1, 2),
    )

    def f(x, w):
        return lax.conv_general_dilated(
            x, w, how["stride"], how["pads"], lhs_dilation=how["grow_x"], rhs_dilation=how["grow_w"], feature_group_count=groups
        )  # fmt: skip

    out, adds = conv_by_hand(x, w, **how, groups=groups)
    assert np.array_equal(f(x, w), out)
    assert one(f, x, w) == 2 * adds
    both = trace.count(
        jax.grad(lambda x, w: jnp.sum(f(x, w)), (0, 1)), x, w
    )  # each pair again, once for dx and once for dw
    assert both.matmul_flops == 2 * 2 * adds


# ---- the conventions


@pytest.mark.parametrize(
    ("f", "flops"),
    [
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
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 1), "VALID"), 25 * 2),
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
    ],
)
def test_one_flop_per_element_and_none_for_moving(f, flops):
    assert one(f, arr(5, 7)) == flops


def test_transcendentals_are_named_and_included():
    c = trace.count(lambda x: jnp.exp(x) + jnp.log(x), arr(10))
    assert (c.flops, c.transcendentals) == (30, 20)


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


def test_nested_scans_multiply():
    inner = lambda x, w: lax.scan(lambda x, _: (x @ w, None), x, None, length=5)[0]  # noqa: E731
    c = trace.count(lambda x, ws: lax.scan(lambda x, w: (inner(x, w), None), x, ws)[0], arr(4, 4), arr(3, 4, 4))
    assert c.matmul_flops == 15 * 2 * 4**3 and c.by_primitive["dot_general"].count == 15


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


@pytest.mark.parametrize(
    "loop",
    [
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
    ],
)
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


# ---- bytes


@pytest.mark.parametrize(
    ("f", "args", "moved"),
    [
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
    ],
)
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
    assert c.work() == Work(2 * B * D * F, 2 * (B * D + D * F + B * F)) and c.bytes == c.io_bytes
    assert c.intensity == pytest.approx(B * D * F / (B * D + D * F + B * F))


def test_nothing_is_allocated():
    big = arr(10**7, 10**7, dtype=BF16)
    assert one(lambda x: x @ x, big) == 2 * 10**21


def test_a_transformer_layer_by_hand():
    B, T, D, N, H, F, L = 2, 16, 32, 4, 8, 64, 3

    def block(x, p):
        q, k, v = (jnp.einsum("btd,dnh->btnh", x, p[n]) for n in "qkv")
        a = jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) / H**0.5)
        x = x + jnp.einsum("bnts,bsnh,nhd->btd", a, v, p["o"])
        return x + jax.nn.gelu(x @ p["in"]) @ p["out"], None

    p = dict(q=arr(L, D, N, H), k=arr(L, D, N, H), v=arr(L, D, N, H), o=arr(L, N, H, D), out=arr(L, F, D)) | {
        "in": arr(L, D, F)
    }
    params = sum(prod(a.shape) for a in p.values())
    c = trace.count(lambda x, p: lax.scan(block, x, p)[0], arr(B, T, D), p)
    assert c.matmul_flops == 2 * B * T * params + L * 4 * B * T * T * N * H
    loss = lambda x, p: lax.scan(block, x, p)[0].sum()  # noqa: E731
    assert trace.count(jax.grad(loss, (0, 1)), arr(B, T, D), p).matmul_flops == 3 * c.matmul_flops


def test_str_is_a_table():
    text = str(trace.count(lambda x: jnp.exp(x @ x), arr(128, 128)))
    assert "dot_general" in text and f"{2 * 128**3 + 128**2:,}" in text and "in and out only" in text
