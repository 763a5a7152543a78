"""Kernels: one grid step for each visited block, the rest left where it is; softmax in one kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels.attention import masks, pallas_flash_attention_tpu as pallas
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask
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
