"""Decode attention over a cut cache: equal to dense attention however the parts are put together, and in how many rounds."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
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


def run(n, way):
    return tree_attention.program(meshes.mesh((n,), ("X",)), "X", tree_attention.WAYS[way])


CASES = [(3, "chain"), (3, "tree"), (3, "reduced"), (5, "doubling")]
CASES += [(n, way) for n in (8, 1, 2, 3, 4, 5, 6, 7) for way in tree_attention.WAYS if (n, way) not in CASES]


@pytest.mark.parametrize("n, way", CASES)
@pytest.mark.sample(quick=1, slow=3, kind="way")
def test_equal_to_dense_attention(n, way):
    """Rows of 13, 6 and no tokens with NaN behind them, on every device; scores of hundreds and of minus hundreds too.

    Gradients of the query, which is on every device, and of each device's keys and values.
    """
    do = jnp.asarray(np.random.default_rng(1).standard_normal((B, N, H)), jnp.float32)
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


@pytest.mark.parametrize("n", [3, 8, 2, 6])
@pytest.mark.sample(quick=2)
def test_rounds(n):
    """⌈log2 N⌉ against N - 1, each of H + 2 numbers a head, however long the text is."""
    state, up = 4 * B * N * (H + 2), int(np.ceil(np.log2(n)))  # bytes of a part: float32
    for places in (16, 4096):
        args = [jax.ShapeDtypeStruct((B, *s, H), jnp.bfloat16) for s in ((N,), (places, K), (places, K))]
        sent = {way: trace.sent(run(n, way), *args) for way in tree_attention.WAYS}
        assert sent["chain"].kinds == {"Permute": n - 1}
        assert sent["tree"].kinds == {"Permute": 2 * up}
        assert sent["doubling"].kinds == {"Permute": up}
        assert sent["reduced"].kinds == {"AllReduce": 2}
        pair = 1 if n in (2, 4, 8) else 2
        assert {c.bytes for way in ("chain", "tree") for c in sent[way]} == {state}
        assert {c.bytes for c in sent["doubling"]} == {pair * state}
        assert sum(c.bytes for c in sent["reduced"]) == state
    assert up == tree_attention.rounds(n)


@pytest.mark.parametrize("n", [6, 8, 2, 3, 5])
@pytest.mark.sample(quick=2)
def test_the_tree_round_by_round(n):
    """The program's own messages: going up nobody is counted twice, and device 0 hears all; going down it tells all."""
    args = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((B, N, H), (B, n, K, H), (B, n, K, H))]
    program = trace.walk(jax.make_jaxpr(run(n, "tree"))(*args))
    rounds = [v.eqn.params["perm"] for v in program if v.name == "ppermute"]
    up, heard, told = len(rounds) // 2, [{i} for i in range(n)], {0}
    for pairs in rounds[:up]:
        for source, target in pairs:
            assert not heard[source] & heard[target]
            heard[target] = heard[target] | heard[source]
    for pairs in rounds[up:]:
        assert {source for source, _ in pairs} <= told
        told |= {target for _, target in pairs}
    assert heard[0] == told == set(range(n)) and sum(map(len, rounds[:up])) == n - 1


def test_what_does_not_fit_is_refused():
    q, k, v = map(np.asarray, given())
    with pytest.raises(ValueError, match="an empty cache"):
        run(2, "tree")(q, k[:, :0], v[:, :0])
    with pytest.raises(ValueError, match=r"give q\[B, N, H\], k and v\[B, S, K, H\]"):
        run(2, "tree")(q, k, v[..., :2])
