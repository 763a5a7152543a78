"""The kernel in a GPU's form: the blocks it visits, and that its compiler takes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.attention import dense_attention, pallas_flash_attention_gpu
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask, Plan
from tests.helpers.kernels.attention import reference

SINKS = Mask(True, 9, 2)
MASKS = [FULL, CAUSAL, SINKS, Mask(True, 20), Mask(window=9)]


@pytest.mark.parametrize("length", [70, 33, 0])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_loops_visit_the_blocks_in_which_something_is_seen(mask, length):
    """Each once, of those that the text reaches, and as whole only those of which every key is seen; T below, at and above S."""
    for T in (21, 70, 90):
        plan = Plan(T, 70, 16, 16, mask)
        rule = np.pad(mask.array(T, 70), [(0, -T % 16), (0, -70 % 16)]).reshape(-1, 16, 5, 16)
        held = (np.arange(80) < length).reshape(5, 16)
        for i in range(plan.shape[0]):
            spans = [(int(a), int(b), whole) for a, b, whole in pallas_flash_attention_gpu.spans(i, plan, length)]
            at = [(j, whole) for a, b, whole in spans for j in range(a, b)]
            assert [j for j, _ in at] == np.flatnonzero(rule[i].any((0, 2)) & held.any(1)).tolist(), (T, i)
            whole = (rule[i] & held)[: T - 16 * i].all((0, 2))  # rows behind the text are not written
            assert all(whole[j] for j, said in at if said), (T, i)
            if mask.window is None:
                assert all(said for j, said in at if whole[j] and 16 * i + 16 <= T), (T, i)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")  # from JAX 0.11 on
@pytest.mark.parametrize("mask", [FULL, CAUSAL, SINKS], ids=str)
def test_it_lowers_to_one_triton_kernel(mask):
    """Without a GPU: JAX writes the whole kernel in Triton's own language, one call; nothing is transposed or repeated beside it."""
    f = lambda *x: pallas_flash_attention_gpu.flash(*x, mask, interpret=False)  # noqa: E731
    dtype, H = (jnp.float32, 80) if mask == CAUSAL else (jnp.bfloat16, 128)
    text = reference.lowered(f, [jax.ShapeDtypeStruct((1, 1000, N, H), dtype) for N in (4, 2, 2)])
    assert text.count("@__gpu$xla.gpu.triton") == 1 and "transpose" not in text.split("ir =")[0]


def gpu() -> bool:
    return jax.default_backend() == "gpu"


@pytest.mark.skipif(not gpu(), reason="needs a GPU: the kernel compiles and runs on one alone")
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("H", [64, 80, 128])
def test_it_is_attention_on_a_gpu(mask, H):
    q, k, v, _ = reference.draw(2, 1000, 1000, 4, 2, H, dtype="bfloat16")
    want = dense_attention.attention(q.astype("float32"), k.astype("float32"), v.astype("float32"), mask)
    got = jax.jit(lambda *x: pallas_flash_attention_gpu.flash(*x, mask))(q, k, v)
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=0.02, atol=0.02)


def test_bad_input_is_told():
    q, k, v, _ = reference.draw(1, 4, 4, 2, 2, 4)
    with pytest.raises(ValueError, match="a power of two of columns, 16 or more, not 24"):
        pallas_flash_attention_gpu.flash(q, k, v, columns=24)
    with pytest.raises(ValueError, match="a rule is asked for"):
        pallas_flash_attention_gpu.flash(q, k, v, np.ones((4, 4), bool))
