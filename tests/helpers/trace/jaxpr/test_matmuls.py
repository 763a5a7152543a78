"""Matrix products in the jaxpr, against multiply-adds counted one by one."""

import numpy as np
from hypothesis import given, settings, strategies as st
from jax import lax

from helpers import trace


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
