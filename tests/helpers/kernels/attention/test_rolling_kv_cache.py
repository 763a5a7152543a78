"""A rolling buffer of window + sinks rows is attention with that mask over the whole text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.attention import dense_attention
from helpers.kernels.attention.masks import CAUSAL, Mask
from tests.helpers.kernels.attention import reference

T, PIECES = 13, (2, 7, 1, 3)


def in_pieces(rule):
    """Attention of a whole text that arrives in PIECES, all of it through the buffer."""

    def attend(q, k, v):
        cache, out, at = dense_attention.empty(q.shape[0], k.shape[2], k.shape[3], rule, k.dtype), [], 0
        for n in PIECES:
            here = slice(at, at + n)
            mine, cache = dense_attention.extend(cache, q[:, here], k[:, here], v[:, here], at, rule)
            assert cache["k"].shape[1] == rule.window + rule.sinks
            out, at = [*out, mine], at + n
        return jnp.concatenate(out, 1)

    assert sum(PIECES) == T
    return attend


@pytest.mark.slow
@pytest.mark.parametrize("rule", [Mask(True, 4, 2), Mask(True, 1), Mask(True, 30, 3), Mask(True, 5)], ids=str)
def test_pieces_and_steps_are_the_whole_text(rule):
    """Result and gradient; pieces shorter and longer than the window, a window longer than the text, grouped heads."""
    g = reference.draw(2, T, T, 4, 2, 3)
    reference.close(jax.jit(reference.pulled(in_pieces(rule)))(*g), reference.dense(*g, rule.array(T, T)), 3e-6)


@pytest.mark.slow
def test_in_bfloat16_too():
    rule, g = Mask(True, 4, 2), reference.draw(1, T, T, 2, 1, 4, dtype="bfloat16")
    got = jax.jit(in_pieces(rule))(*g[:3])
    assert got.dtype == jnp.bfloat16
    reference.close([got], reference.dense(*g, rule.array(T, T)), 0.02)


def test_a_row_is_where_it_is_said_to_be():
    """Sinks stay, a later token stands at sinks + (t - sinks) mod window, also for rows at positions of their own."""
    rule = Mask(True, 4, 2)
    tokens = jnp.broadcast_to(jnp.arange(20.0)[:, None, None], (2, 20, 1, 1))
    cache = dense_attention.empty(2, 1, 1, rule)
    more = jax.jit(lambda cache, x, at: dense_attention.extend(cache, x, x, x, at, rule)[1])
    for at in ([0, 0], [3, 6]):
        x = jnp.stack([row[a : a + 8] for row, a in zip(np.asarray(tokens), at)])
        cache = more(cache, x, jnp.array(at))
    for row, last in zip(cache["k"][..., 0, 0], (10, 13)):
        want = {t if t < 2 else 2 + (t - 2) % 4: t for t in [0, 1, *range(last - 3, last + 1)]}
        assert row.tolist() == [want[i] for i in range(6)]


def test_bad_input_is_told():
    x = jnp.zeros((1, 3, 2, 4))
    with pytest.raises(ValueError, match="a causal rule with a window"):
        dense_attention.empty(1, 2, 4, CAUSAL)
    cache = dense_attention.empty(1, 2, 4, Mask(True, 5, 2))
    with pytest.raises(ValueError, match=r"cache\[B, rows, K, H\] has the shape \[1, 7, 2, 4\], and rows is 8"):
        dense_attention.extend(cache, x, x, x, 0, Mask(True, 6, 2))
    with pytest.raises(ValueError, match=r"k\[B, T, K, H\] has the shape \[1, 3, 1, 4\], and K is 2"):
        dense_attention.extend(cache, x, np.zeros((1, 3, 1, 4)), np.zeros((1, 3, 1, 4)), 0, Mask(True, 5, 2))
    with pytest.raises(ValueError, match=r"k\[B, T, K, H\] has the shape \[1, 4, 2, 4\], and T is 3"):
        dense_attention.extend(cache, x, np.zeros((1, 4, 2, 4)), np.zeros((1, 4, 2, 4)), 0, Mask(True, 5, 2))
