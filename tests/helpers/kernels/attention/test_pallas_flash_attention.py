"""Kernels of a TPU and of a GPU: what they visit and what is left where it is; softmax in one kernel; compilers take them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels.attention import (
    dense_attention,
    masks,
    pallas_flash_attention_gpu,
    pallas_flash_attention_tpu as pallas,
)
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask, Plan
from helpers.trace.compiled import aot_compile_tpu
from tests.helpers.kernels.attention import reference

SINKS = Mask(True, 4, 2)


def calls(f, *args):
    """The kernels of a program, as their equations."""
    return [v.eqn for v in trace.walk(jax.make_jaxpr(f)(*args)) if v.name == "pallas_call"]


@pytest.mark.parametrize("mask", [FULL, CAUSAL, Mask(True, 9, 1)], ids=str)
def test_the_grid_has_the_blocks_that_are_visited(mask):
    """Three kernels, forward, dq, dk with dv; none holds more than a block, and nothing of T by S is made between them."""
    B, T, S, N, K, H, rows, columns = 2, 64, 128, 4, 2, 8, 8, 16
    q, k = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((B, T, N, H), (B, S, K, H)))
    visited = int(mask.array(T, S).reshape(T // rows, rows, S // columns, columns).any((1, 3)).sum())
    assert visited == len(masks.plan(T, S, rows, columns, mask).blocks)
    gradient = jax.grad(lambda *x: pallas.flash(*x, mask, None, rows, columns).sum(), (0, 1, 2))
    grids = [e.params["grid_mapping"].grid for e in calls(gradient, q, k, k)]
    empty = S // columns - len({b.j for b in masks.plan(T, S, rows, columns, mask).blocks})
    assert grids == [(B * N, visited), (B * N, visited), (B * K, (visited + empty) * N // K)]
    inside = [s for e in calls(gradient, q, k, k) for s in reference.inside(e)]
    assert max(np.prod(s, dtype=int) for s in inside) <= max(rows * pallas.LANES, columns * H, rows * columns)
    assert max(np.prod(s, dtype=int) for s in reference.arrays(gradient, q, k, k)) <= B * max(T * N, S * K) * H


def test_steps_take_a_row_or_a_column_to_its_end():
    """Each row begins once and ends once, also one in which nothing is seen; columns for each head of the group."""
    plan = masks.plan(7, 4, 2, 3, CAUSAL)
    I, J, _, edge = pallas._steps(plan)
    assert (I.tolist(), J.tolist(), edge.tolist()) == ([0, 1, 2, 3, 3], [0, 0, 0, 0, 1], [3, 3, 3, 1, 2])
    assert [b[:2] for b in plan.blocks] == [(1, 0), (2, 0), (3, 0), (3, 1)]  # row 0 stands before the first key
    I, J, g, edge = pallas._steps(plan, 2, columns=True)
    assert J.tolist() == [0] * 6 + [1] * 2 and I.tolist() == [1, 2, 3, 1, 2, 3, 3, 3]
    assert g.tolist() == [0, 0, 0, 1, 1, 1, 0, 1] and edge.tolist() == [1, 0, 0, 0, 0, 2, 1, 2]


def test_softmax_in_one_kernel():
    """L² floats read and L² written, where three operations move 5L² + 2L; rows that do not divide, masked ones."""
    x = np.random.default_rng(0).normal(size=(7, 13)).astype("float32")
    x[3, :5] = x[6] = -np.inf
    e = np.exp(x)
    want = e / np.maximum(e.sum(1, keepdims=True), 1e-30)
    np.testing.assert_allclose(jax.jit(lambda x: pallas.softmax(x, 4))(x), want, rtol=2e-6)
    L = 64
    square = jax.ShapeDtypeStruct((L, L), jnp.float32)
    (call,) = calls(pallas.softmax, square)
    moved = [v.aval for v in (*call.invars, *call.outvars)]
    assert sum(a.size for a in moved) == 2 * L * L == trace.count(pallas.softmax, square).io_bytes / 4
    assert max(np.prod(s, dtype=int) for s in reference.inside(call)) == 8 * L


def test_the_kernels_lower_for_a_tpu():
    """Without libtpu: JAX writes all three in Mosaic's language, forward, dq, dk with dv. What a TPU's compiler says is below."""
    f = lambda *x: pallas.flash(*x, SINKS, None, 256, 128, interpret=False)  # noqa: E731
    args = [jax.ShapeDtypeStruct((1, 1000, N, 128), jnp.bfloat16) for N in (4, 2, 2, 4)]
    text = reference.lowered(lambda *x: jax.vjp(f, *x[:3])[1](x[3]), args, "tpu")
    assert text.count("@tpu_custom_call") == 3


@pytest.mark.skipif(not aot_compile_tpu.available(), reason="needs libtpu, the TPU's compiler")
@pytest.mark.parametrize("mask", [CAUSAL, Mask(True, 512, 4)], ids=str)
def test_a_tpus_compiler_takes_the_kernels(mask):
    """Forward and backward, bfloat16, a length that no block divides; no temporary array beside them."""
    f = lambda *x: pallas.flash(*x, mask, None, 256, 128, interpret=False)  # noqa: E731
    both = lambda *x: jax.vjp(f, *x[:3])[1](x[3])  # noqa: E731
    mesh = aot_compile_tpu.mesh("v5e:2x2", {"X": 4})
    whole = jax.NamedSharding(mesh, jax.P())
    shapes = [(1, 1000, N, 128) for N in (4, 2, 2, 4)]
    args = [jax.ShapeDtypeStruct(s, jnp.bfloat16, sharding=whole) for s in shapes]
    program = jax.shard_map(both, mesh=mesh, in_specs=jax.P(), out_specs=jax.P(), check_vma=False)
    assert jax.jit(program).lower(*args).compile().memory_analysis().temp_size_in_bytes < 1000 * 1000


GPU_SINKS = Mask(True, 9, 2)
MASKS = [FULL, CAUSAL, GPU_SINKS, Mask(True, 20), Mask(window=9)]


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
@pytest.mark.parametrize("mask", [FULL, CAUSAL, GPU_SINKS], ids=str)
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
