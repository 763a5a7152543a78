"""Ring and striped attention: equal to dense attention and its gradients on any number of devices; what is sent, what is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.attention import ring_attention
from helpers.kernels.attention.masks import CAUSAL, Mask
from tests.helpers.kernels.attention import reference

B, T, N, K, H = 2, 24, 4, 2, 4  # every number of devices below divides 24
STRIPED = dict(places=ring_attention.stripes)


# What is sent, from the program alone; its bytes are in test_mesh_costs.


def like(*heads, T=T, dtype="bfloat16"):
    return [jax.ShapeDtypeStruct((B, T, n, H), dtype) for n in heads]


def sends(f, n, C):
    """How often K and V are sent, and how often their gradients, if a causal ring over n devices is `f`."""
    args = like(N, K, K, T=n * C)
    once = sum(c.times for c in trace.sent(f, *args))
    gradient = jax.grad(lambda *x: f(*x).astype(jnp.float32).sum(), (0, 1, 2))
    return once, sum(c.times for c in trace.sent(gradient, *args)) - 2 * once


@pytest.mark.parametrize("window, hops", [(1, 0), (5, 1), (6, 2)])
def test_a_window_needs_few_hops(window, hops):
    """Four tokens a device, and a window over the query's own and window - 1 before it: from ⌈(window - 1)/4⌉ devices."""
    run = ring_attention.program(meshes.mesh((4,), ("X",)), "X", window=window)
    assert sends(run, 4, 4) == (hops, hops + (hops > 0))  # gradients: one message more, home


def ancestors(body):
    """For each equation of a loop's body the names of all primitives that its inputs come from."""
    came, out = {}, []
    for eqn in body.eqns:
        before = set().union(*(came.get(v, set()) for v in eqn.invars if not hasattr(v, "val")))
        out.append((eqn, before))
        came |= {v: before | {eqn.primitive.name} for v in eqn.outvars}
    return out


def test_sends_and_work_do_not_wait_for_each_other():
    """In a round of the loop, forward and backward, no message needs what is computed there, and no work what arrives."""
    run = ring_attention.program(meshes.mesh((4,), ("X",)), "X")
    gradient = jax.grad(lambda *x: run(*x).astype(jnp.float32).sum(), (0, 1, 2))
    loops = [
        v.eqn.params["jaxpr"].jaxpr
        for v in trace.walk(jax.make_jaxpr(gradient)(*like(N, K, K)))
        if v.name == "scan" and any(e.primitive.name == "ppermute" for e in v.eqn.params["jaxpr"].jaxpr.eqns)
    ]
    assert len(loops) == 2
    for body in loops:
        found = ancestors(body)
        assert {"ppermute", "cond"} <= {e.primitive.name for e, _ in found}
        for eqn, before in found:
            assert eqn.primitive.name != "ppermute" or "cond" not in before
            assert eqn.primitive.name != "cond" or "ppermute" not in before


def test_no_array_is_as_large_as_the_scores():
    """Forward and backward hold a tile of them; what is kept for the backward pass grows with C alone."""
    C, tile, mesh = 512, 32, meshes.mesh((4,), ("X",))
    run = ring_attention.program(mesh, "X", tile=tile, **STRIPED)
    args = like(1, 1, 1, T=4 * C, dtype="float32")
    gradient = jax.grad(lambda *x: run(*x).sum(), (0, 1, 2))
    made = [x.aval.size for v in trace.walk(jax.make_jaxpr(gradient)(*args)) if v.axes for x in v.eqn.outvars]
    assert B * tile * tile <= max(made) < C * C
    kept = trace.saved(lambda *x: run(*x).sum(), *args).bytes
    assert kept < 8 * 4 * B * 4 * C * (H + 1) < 4 * B * 4 * C * C


# What is computed.


def test_masked_blocks_are_not_multiplied():
    """0 · NaN is NaN: values of the last block spoil every device that multiplies its weights with them."""
    n, C = 3, 4
    v = np.ones((1, n * C, 1, 2), np.float32)
    v[:, -C:] = np.nan
    run = ring_attention.program(meshes.mesh((n,), ("X",)), "X", ring_attention.counted)
    out, scores = run(np.ones_like(v), np.ones_like(v), v)
    spoilt = np.isnan(out).any((0, 2, 3))
    assert spoilt.tolist() == [False] * C * (n - 1) + [True] * C
    assert scores.tolist() == [[C * C * (r <= i) for r in range(n)] for i in range(n)]  # without tiles


@pytest.mark.parametrize("heads, tokens, how, said", [
    ((4, 2), (0, 0), {}, "an empty sequence"),
    ((4, 2), (8, 12), {}, r"k\[B, T, K, H\] has the shape \[1, 12, 2, 4\], and T is 8"),
    ((4, 2), (8, 8), dict(window=3, causal=False), "a window looks back"),
    ((4, 2), (8, 8), dict(window=0), "window is a whole number, 1 or more, not 0"),
    ((4, 2), (8, 8), dict(ways=3), "ways is 1 or 2, not 3"),
    ((4, 2), (8, 8), dict(tile=0), "tile is a whole number, 1 or more, not 0"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(heads, tokens, how, said):
    q, k = (np.zeros((1, t, n, 4)) for t, n in zip(tokens, heads))
    with pytest.raises(ValueError, match=said):
        ring_attention.ring(q, k, k, "X", **how)


def test_shapes_are_named():
    q = np.zeros((1, 8, 4, 4))
    with pytest.raises(ValueError, match=r"k\[B, S, K, H\] has 4 dimensions, and this k has the shape \[8, 4\]"):
        ring_attention.ring(q, q[0, :, 0], q, "X")
    with pytest.raises(ValueError, match=r"k\[B, S, K, H\] has the shape \[1, 8, 4, 2\], and H is 4"):
        ring_attention.ring(q, q[..., :2], q, "X")
    with pytest.raises(ValueError, match="3 devices do not share 8 tokens evenly: take a multiple of 3"):
        ring_attention.program(meshes.mesh((3,), ("X",)), "X")(q, q, q)


HOWS = {
    "whole": dict(causal=False),
    "causal": {},
    "causal, both ways": dict(ways=2, tile=5),
    "window": dict(window=3, ways=2, tile=2),
    "stripes": STRIPED,
    "stripes, whole": dict(causal=False, ways=2, **STRIPED),
    "stripes, both ways": dict(ways=2, tile=2, **STRIPED),
    "stripes, window": dict(window=2, tile=2, **STRIPED),
}
LATER = ("whole", "causal, both ways", "stripes, whole", "stripes, both ways")


@pytest.mark.parametrize("how", [pytest.param(n, marks=[pytest.mark.slow] * (n in LATER)) for n in HOWS])
@pytest.mark.parametrize("n", [2, 8, 3, 1])
@pytest.mark.sample(quick=2, slow=6, draw=3)
def test_equal_to_dense_attention(n, how):
    """Result and gradients; tiles that do not divide a device's tokens are filled up with places that nobody looks at."""
    g = reference.draw(2, T, T, N, K, H)
    seen = Mask(HOWS[how].get("causal", True), HOWS[how].get("window")).array(T, T)
    run = ring_attention.program(meshes.mesh((n,), ("X",)), "X", **HOWS[how])
    reference.close(jax.jit(reference.pulled(run))(*g), reference.dense(*g, seen), 1e-5)


@pytest.mark.slow
def test_stripes_in_bfloat16():
    """Sums are float32, so the result is within one rounding; gradients of keys and values are rounded at each hop."""
    g, one = reference.draw(2, 6, 6, 2, 1, 4, dtype="bfloat16"), 2**-8
    got = jax.jit(reference.pulled(ring_attention.program(meshes.mesh((2,), ("X",)), "X", **STRIPED)))(*g)
    assert {x.dtype for x in got} == {jnp.dtype("bfloat16")}
    (y, *gradients), (right, *wanted) = (np.asarray(x, float) for x in got), reference.dense(*g, CAUSAL.array(6, 6))
    np.testing.assert_allclose(y, right, rtol=one, atol=1e-6)
    assert all(np.abs(a - b).max() <= 3 * one * np.abs(b).max() for a, b in zip(gradients, wanted, strict=True))
