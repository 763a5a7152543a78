"""The four cases and the overlapped matmuls: equal to the dense product, sending what they should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers import trace
from helpers.costs.sharding.matmul_plans import plans
from helpers.costs.sharding.sharded_array import Mesh, Sharding
from helpers.kernels import mesh as meshes
from helpers.kernels.sharding import sharded_matmul as mm
from tests import ppermute_traffic
from tests.helpers.kernels.sharding import sends
from tests.tiers import repeats

MESH = meshes.mesh((4, 2), ("X", "Y"))
X = "X"
CASES = {  # per-device function, operands, result; what those of `sends` send is in sends.txt
    "1": (mm.case1, ("A[I_X, J]", "B[J, K_Y]"), "C[I_X, K_Y]"),
    "1, all on I": (mm.case1, ("A[I_XY, J]", "B[J, K]"), "C[I_XY, K]"),
    **{name: (lambda a, b, f=f, x=tuple(x): f(a, b, x), ins, out) for name, (f, x, *ins, out) in sends.CASES.items()},
}
OVERLAPPED = {name: (f, axis, ins, out) for name, (f, axis, *ins, out) in sends.OVERLAPPED.items()}
BESIDE = {  # another axis of the mesh cuts what stays as it is
    "gather J, K over Y": (mm.all_gather_matmul, 1, ("A[I, J_X]", "B[J, K_Y]"), "C[I, K_Y]"),
    "scatter I, and Y": (mm.matmul_reduce_scatter, 0, ("A[I_Y, J_X]", "B[J_X, K]"), "C[I_YX, K]"),
}


def operands(I=16, J=24, K=8, dtype=np.float32):
    draw = np.random.default_rng(I * J * K)
    return draw.integers(-5, 6, (I, J)).astype(dtype), draw.integers(-5, 6, (J, K)).astype(dtype)


def same_everywhere(out, dense):
    """The result is the dense product, and so is every device's copy of its block."""
    np.testing.assert_array_equal(out, dense)
    for shard in out.addressable_shards:
        np.testing.assert_array_equal(shard.data, dense[shard.index])


def same_gradients(program, A, B):
    weigh = np.random.default_rng(1).integers(-3, 4, (A.shape[0], B.shape[1])).astype(np.float32)
    for mine, dense in zip(
        jax.jit(jax.grad(lambda a, b: jnp.sum(program(a, b) * weigh), (0, 1)))(A, B), (weigh @ B.T, A.T @ weigh)
    ):
        np.testing.assert_array_equal(mine, dense)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(quick=6, slow=3)
def test_the_four_cases(name):
    f, ins, out = CASES[name]
    A, B = operands()
    program = meshes.sharded(f, MESH, ins, out)
    same_everywhere(program(A, B), A @ B)
    same_gradients(program, A, B)
    if name.startswith("1"):
        assert not trace.sent(program, A, B)


def test_case_3_leaves_partial_sums_that_differ_and_add_up():
    """Each device holds another partial sum."""
    A, B = operands()
    parts = np.asarray(meshes.sharded(mm.case1, MESH, ("A[I, J_X]", "B[J_X, K]"), "C[I, K] {U_X}")(A, B))
    assert parts.shape == (4, 16, 8)
    np.testing.assert_array_equal(parts.sum(0), A @ B)
    for i in range(4):
        np.testing.assert_array_equal(parts[i], A[:, 6 * i : 6 * i + 6] @ B[6 * i : 6 * i + 6])
    assert len({p.tobytes() for p in parts}) == 4


# Overlap.


@pytest.mark.parametrize("ways", [2, 1])
@pytest.mark.parametrize("name", [*OVERLAPPED, *BESIDE])
@pytest.mark.sample(quick=2)
def test_overlapped_matmuls(name, ways):
    f, axis, ins, out = (OVERLAPPED | BESIDE)[name]
    A, B = operands()
    program = meshes.sharded(lambda a, b: f(a, b, "X", axis, ways), MESH, ins, out)
    same_everywhere(program(A, B), A @ B)
    same_gradients(program, A, B)
    assert trace.sent(program, A, B).kinds == {"Permute": 3}


@pytest.mark.parametrize("n", [5, 2, 3, 8])
@pytest.mark.sample(quick=1)
def test_overlapped_on_every_ring(n):
    mesh = jax.make_mesh((n,), ("X",), axis_types=(jax.sharding.AxisType.Auto,), devices=meshes.devices(8)[:n])
    A, B = operands(2 * n, 3 * n, n)
    for f, axis, ins, out in OVERLAPPED.values():
        same_everywhere(meshes.sharded(lambda a, b, f=f, x=axis: f(a, b, "X", x), mesh, ins, out)(A, B), A @ B)


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("n", [5, 4, 2, 8])
@pytest.mark.parametrize("name", OVERLAPPED)
@pytest.mark.sample(quick=3, slow=2, kind="name")
def test_n_small_matmuls_between_n_minus_one_permutes(name, n, ways):
    """The order in the program, the FLOPs of the whole product, the bytes of the collective alone."""
    f, axis, ins, out = OVERLAPPED[name]
    I, J, K = 4 * n, 2 * n, 3 * n
    mesh = jax.sharding.AbstractMesh((n,), ("X",), axis_types=(jax.sharding.AxisType.Auto,))
    program = meshes.sharded(lambda a, b: f(a, b, "X", axis, ways), mesh, ins, out)
    args = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((I, J), (J, K))]
    jaxpr = jax.make_jaxpr(program)(*args)
    order = [v.name for v in trace.walk(jaxpr) if v.name in ("dot_general", "ppermute")]
    assert order.count("dot_general") == n and order.count("ppermute") == n - 1
    longest = max(len(run) for run in "".join(o[0] for o in order).replace("d", " ").split())
    assert longest == 1 or (ways == 2 and longest == 2)  # both directions set off side by side, never more
    assert trace.count(program, *args).flops >= 2 * I * J * K
    moved = I * J if "gathered" in name else I * K
    hops = n - 1 if ways == 1 else n // 2
    sent = ppermute_traffic.of(jaxpr.jaxpr)
    assert (sent.busiest, sent.hops) == (4 * moved // n * hops, hops)


# Blocks.


@given(st.data())
@settings(max_examples=repeats(30, 100))
def test_any_blocks(data):
    cuts = [data.draw(st.integers(1, 3), n) for n in "ijk"]
    I, J, K = (c * data.draw(st.integers(1, 3)) for c in cuts)
    A, B = operands(I, J, K, np.int64)
    assert np.array_equal(mm.block_matmul(A, B, *cuts), A @ B)


# Who sends to whom.


@settings(max_examples=repeats(40, 100))
@given(st.permutations("XYZ"), st.permutations("XYZ"), st.integers(0, 3), st.integers(0, 3))
def test_moves_bring_every_block_home(p, q, cut, other):
    """Any two shardings with the same local shape, copies included; who has its block keeps it."""
    grid = Mesh({"X": 2, "Y": 2, "Z": 2})
    n = min(cut + other, 3)
    before, after = (
        Sharding("A", ("I", "J"), (tuple(a[: min(cut, n)]), tuple(a[min(cut, n) : n]))) for a in (list(p), list(q))
    )
    where = list(grid.coordinates())
    pairs = mm.moves(before, after, ("X", "Y", "Z"), grid)
    assert sorted(s for s, _ in pairs) == [t for _, t in pairs] == list(range(8))
    for s, t in pairs:
        assert before.block(where[s], grid) == after.block(where[t], grid)
        assert (s == t) == (before.block(where[t], grid) == after.block(where[t], grid))


def test_a_plan_for_another_mesh():
    plan = plans("A[I, J_X]", "B[J_X, K]", "C[I, K]", dict(I=8, J=8, K=8), Mesh({"X": 2}))[0]
    with pytest.raises(ValueError, match=r"the plan is for a Mesh\(X=2\), and these devices are Mesh\(X=4, Y=2\)"):
        mm.program(plan, MESH)
