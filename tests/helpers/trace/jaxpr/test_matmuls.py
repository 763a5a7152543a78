"""Matrix products and convolutions in the jaxpr, against multiply-adds counted one by one."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings, strategies as st
from jax import lax

from helpers import trace
from tests.helpers.trace.counted import one


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
