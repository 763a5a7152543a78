"""Decode attention over a cut cache: equal to dense attention however the parts are put together, and in how many rounds."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels import mesh as meshes
from helpers.kernels.attention import tree_attention
from tests.helpers.kernels.attention import reference

B, S, N, K, H = 3, 13, 4, 2, 4
LENGTHS = jnp.array([13, 6, 0])  # 6: whole devices see nothing; 0: nobody sees anything


@cache
def given(scale=1.0, sunk=0.0):
    """sunk: scores of about -2 sunk², so that nothing of them is left beside a message of zeros."""
    draw = np.random.default_rng(0)
    q, k, v = (scale * draw.standard_normal(s) for s in ((B, N, H), (B, S, K, H), (B, S, K, H)))
    return [jnp.asarray(x, jnp.float32) for x in (q + sunk, k - sunk, v)]


def dense(q, k, v, lengths, do):
    """[result, dq, dk, dv] in NumPy, float64: of one query."""
    seen = np.arange(S) < np.asarray(lengths)[:, None]
    out, dq, dk, dv = reference.dense(q[:, None], k, v, do[:, None], seen[:, None, None])
    return out[:, 0], dq[:, 0], dk, dv


WAYS = ("chain", "doubling")


def run(n, way):
    return tree_attention.program(meshes.mesh((n,), ("X",)), "X", getattr(tree_attention, way))


CASES = [(3, "chain"), (5, "doubling")]
CASES += [(n, way) for n in (8, 1, 2, 3, 4, 5, 6, 7) for way in WAYS if (n, way) not in CASES]


@pytest.mark.parametrize("n, way", CASES)
@pytest.mark.sample(quick=2, slow=12, draw=3)
def test_equal_to_dense_attention(n, way):
    """Rows of 13, 6 and no tokens with NaN behind them, on every device; scores of hundreds and of minus hundreds too.

    Gradients of the query, which is on every device, and of each device's keys and values.
    """
    do = jax.device_put(np.random.default_rng(1).standard_normal((B, N, H)).astype("float32"))
    both = jax.jit(reference.pulled(lambda *x: run(n, way)(*x, LENGTHS)))
    for scale, sunk in ((1.0, 0.0), (20.0, 0.0), (1.0, 10.0)):
        q, k, v = given(scale, sunk)
        got = both(q, *(reference.spoilt(x, LENGTHS) for x in (k, v)), do)
        want = dense(q, k, v, LENGTHS, do)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=max(2e-6 * scale, 5e-6 * sunk))
        assert not np.any(got[0][2]) and all(np.isfinite(x).all() for x in got)
        if (scale, sunk) == (1, 0):
            reference.close(got, want, 1e-4)


@pytest.mark.slow
def test_in_bfloat16():
    """Sums are float32: within one rounding of what bfloat16 inputs give exactly."""
    args = [x.astype(jnp.bfloat16) for x in given()]
    got = run(5, "doubling")(*args, LENGTHS)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(np.float32), dense(*args, LENGTHS, args[0])[0], rtol=2**-8, atol=1e-6)


def test_what_does_not_fit_is_refused():
    q, k, v = map(np.asarray, given())
    with pytest.raises(ValueError, match="an empty sequence"):
        run(2, "chain")(q, k[:, :0], v[:, :0])
    with pytest.raises(ValueError, match=r"v\[B, S, K, V\] has the shape"):
        run(2, "chain")(q, k, v[:, :, :1])
