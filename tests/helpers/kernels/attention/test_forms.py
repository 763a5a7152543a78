"""Every form of attention against NumPy in float64: result and gradients, any mask, length and type, NaN where nobody looks."""

import jax
import numpy as np
import pytest

from helpers.kernels.attention import (
    dense_attention,
    flash_attention,
    masks,
    pallas_flash_attention_gpu,
    pallas_flash_attention_tpu,
)
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask
from tests.helpers.kernels.attention import reference

SINKS = Mask(True, 4, 2)
BF16 = 0.03  # a bfloat16 has 8 bits: 2^-8 of numbers up to about 4, in the result and in three products on the way back


def of_texts(f, *how, **more):
    return lambda q, k, v, mask, lengths: f(q, k, v, mask, lengths, *how, **more)


def of_whole_texts(f, *how):
    return lambda q, k, v, mask, _: f(q, k, v, mask, *how)


def padded(q, k, v, mask, lengths):
    seen = masks.padding(lengths, k.shape[1]) & mask.array(q.shape[1], k.shape[1])
    return dense_attention.attention(q, k, v, seen)


FORMS = {
    "dense": padded,
    "flash": of_texts(flash_attention.flash, 3, 4),
    "flash, blocks larger than the text": of_texts(flash_attention.flash, 64, 64),
    "flash, all blocks": of_texts(flash_attention.flash, 2, 3, skip_masked=False),
    "chunked": of_texts(dense_attention.efficient, 3, 4),
    "chunked, rows kept": of_texts(dense_attention.efficient, 3, 4, "rows"),
    "chunked, scores kept": of_texts(dense_attention.efficient, 3, 4, "scores"),
    "Pallas, TPU": of_texts(pallas_flash_attention_tpu.flash, 3, 4),
    "Pallas, GPU": of_texts(pallas_flash_attention_gpu.flash, 16, 16, interpret=True),
    # These take no lengths; their gradient is JAX's.
    "one key after the other": of_whole_texts(dense_attention.plain),
    "stabilised": of_whole_texts(dense_attention.stabilised),
    "the first flash": of_whole_texts(flash_attention.first, 3, 4),
}
WHOLE = ("one key after the other", "stabilised", "the first flash")
LATER = ("flash, blocks larger than the text", "flash, all blocks", "chunked, rows kept", "chunked, scores kept")

# B, T, S, N, K, H and lengths: odd sizes, grouped heads, a text without keys; more queries than keys, so that some see none.
WIDE = ((2, 5, 11, 4, 2, 3), [0, 9]), ((2, 21, 53, 4, 2, 5), [0, 50])  # the GPU's blocks are of 16
TALL = ((1, 7, 4, 3, 3, 5), [3]), ((1, 37, 20, 3, 3, 20), [19])
CASES = [
    (SINKS, WIDE, "float32"), (CAUSAL, TALL, "float32"), (FULL, WIDE, "float32"), (Mask(True, 3), TALL, "float32"),
    (SINKS, WIDE, "bfloat16"), (Mask(window=3), WIDE, "float32"), (SINKS, TALL, "float32"), (CAUSAL, TALL, "bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize("form", [pytest.param(n, marks=[pytest.mark.slow] * (n in LATER)) for n in FORMS])
@pytest.mark.parametrize("mask, sizes, dtype", CASES)
@pytest.mark.sample(quick=4, slow=16, draw=4)
def test_every_form_is_attention(form, mask, sizes, dtype):
    """NaN stands behind each text: it reaches no result and no gradient, and those of its own places are 0."""
    shape, lengths = sizes["GPU" in form]
    q, k, v, do = reference.draw(*shape, dtype=dtype)
    seen = mask.array(*shape[1:3])[None, None]
    given = q, k, v, do
    if form not in WHOLE:
        seen = seen & (np.arange(shape[2]) < np.array(lengths)[:, None, None, None])
        given = q, *(reference.spoilt(x, lengths) for x in (k, v)), do
    got = jax.jit(reference.pulled(lambda *x: FORMS[form](*x, mask, lengths)))(*given)
    assert {a.dtype for a in got} == {q.dtype}
    reference.close(got, reference.dense(q, k, v, do, seen), 3e-6 if dtype == "float32" else BF16)
