"""Attention in 8 bits, a scale for each block or one for all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.attention import flash_attention, masks
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask
from helpers.kernels.transformers import quantisation
from tests.helpers.kernels.attention import reference

T, SIZES = 64, (None, 8)


def round_trip(x, size, kind="fp8"):
    """x[B, T, N, H] after it was quantised."""
    blocks = flash_attention.quantised(x, size, kind).plain(jnp.float32)
    return masks.joined(blocks, x.shape[1]).swapaxes(1, 2)


def with_outliers(seed):
    """FlashAttention-3's test: normal numbers, and one in a thousand is ten times a normal number more."""
    rng, shape = np.random.default_rng(seed), (1, T, 2, 16)
    return [
        jnp.asarray(rng.normal(size=shape) + 10 * rng.normal(size=shape) * (rng.random(shape) < 1e-3), "float32")
        for _ in "qkv"
    ]


QUICK = [("int8", CAUSAL, 5, 3), ("fp8", Mask(True, 5, 2), 13, None)]
LONG = [
    (kind, mask, 13, size)
    for kind in quantisation.KINDS
    for mask in (FULL, CAUSAL, Mask(True, 5, 2), Mask(window=3))
    for size in (4, None)
    if (kind, mask, 13, size) not in QUICK
]


@pytest.mark.parametrize(
    "kind, mask, S, size", [*QUICK, *(pytest.param(*c, marks=pytest.mark.slow) for c in LONG)], ids=str
)
@pytest.mark.sample(quick=2, slow=6)
def test_it_is_attention_of_the_rounded_numbers(kind, mask, S, size):
    """Exactly, dense attention of what is left of q, k and v. Odd sizes, grouped heads, blocks that do not divide.

    With 5 keys the first two queries stand before all of them: they give 0. What no query sees counts for no scale.
    """
    q, k, v, do = reference.draw(2, 7, S, 4, 2, 5)
    seen = mask.array(7, S).any(0)[:, None, None]

    @jax.jit
    def run(*x):
        return flash_attention.eight_bit(*x, size, kind, mask), [
            round_trip(a, size, kind) for a in (x[0], *(jnp.where(seen, y, 0) for y in x[1:]))
        ]

    got, rounded = run(q, k, v)
    reference.close([got], reference.dense(*rounded, do, mask.array(7, S)), 3e-6)
    assert flash_attention.error(rounded[1], k) > 1e-3 and np.any(got[:, :2]) == (S > 5)


def test_blocks_keep_to_half_a_step_each():
    """int8: |x - q · scale| ≤ scale / 2 of its own head and block; the scale is the block's largest over 127."""
    x = with_outliers(1)[0][:, :37]
    made, back = jax.jit(lambda x: (flash_attention.quantised(x, 8, "int8"), round_trip(x, 8, "int8")))(x)
    assert made.q.shape == (5, 1, 2, 8, 16) and made.scale.shape == (5, 1, 2, 1, 1)
    np.testing.assert_allclose(made.scale[1, 0, 1, 0, 0], np.abs(x[0, 8:16, 1]).max() / 127, rtol=1e-6)
    off = np.abs(back - x)
    steps = np.repeat(np.asarray(made.scale)[:, 0, :, 0, 0], 8, axis=0)[:37]  # [T, N]
    assert (off <= steps[None, :, :, None] / 2 * 1.0001).all()
    with pytest.raises(ValueError, match="size is a whole number, 1 or more, not 0"):
        flash_attention.quantised(x, 0)


def test_the_error_is_relative():
    assert abs(flash_attention.error(np.array([3.0, 5.0]), np.array([3.0, 4.0])) - 0.2) < 1e-6
