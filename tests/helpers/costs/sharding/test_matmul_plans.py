"""The planner: its plans against the four cases by hand, a search over states, and the sources' numbers.

That a plan computes the product and sends what it says is in `tests/helpers/kernels/sharding/test_matmul_plans.py`.
"""

import pytest
from hypothesis import given, settings, strategies as st

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding import matmul_plans
from helpers.costs.sharding.best_shardings import block
from helpers.costs.sharding.matmul_plans import cheapest, plans, sizes_of
from helpers.costs.sharding.resharding import shardings
from helpers.costs.sharding.sharded_array import Axis, Mesh
from tests.helpers.costs.tables import refused
from tests.tiers import repeats

MESH, RING = Mesh({"X": 4, "Y": 2}), Mesh({"X": 4})
SIZES = dict(I=64, J=128, K=256)
V5E, V5P = chip("v5e"), chip("v5p")


def test_a_partial_sum_may_be_wished():
    (s,) = cheapest("A[I, J_X]", "B[J_X, K]", "C[I, K] {U_X}", SIZES, MESH, V5P).steps
    assert s.kind == "Matmul"
    for p in plans("A[I, J_X]", "B[J_X, K]", "C[I, K] {U_X}", SIZES, MESH):
        assert str(p.steps[-1].after) == "C[I, K] {U_X}"
    with pytest.raises(ValueError, match="is a partial sum: add it up over its devices"):
        plans("A[I, J] {U_X}", "B[J, K]", "C[I, K]", SIZES, MESH)


def chain_is_sound(p):
    """Every step starts where the one before ended, the product is legal, and shapes divide all along."""
    now = {a.name: a for a in p.operands[:2]}
    for s in p.steps:
        if s.kind == "Matmul":
            A, B = now["A"], now["B"]
            i, j = A.dims
            assert A.at(j) == B.at(j), "the contracted blocks must match"
            rest = A.at(i) + B.at(B.dims[1])
            assert len(set(rest) | set(A.at(j))) == len(rest) + len(A.at(j)), (
                "an axis cuts one dimension of the product"
            )
            assert s.after.at(i) == A.at(i) and s.after.at(B.dims[1]) == B.at(B.dims[1])
            assert set(s.after.unreduced) == set(A.at(j))
            now = {"C": s.after}
        else:
            assert now[s.operand] == s.before
            now[s.operand] = s.after
            a, b = s.before.local(p.sizes, p.mesh), s.after.local(p.sizes, p.mesh)
            n = p.mesh.size(s.axes)
            assert {"AllGather": n, "Slice": 1 / n, "ReduceScatter": 1 / n}.get(s.kind, 1) == b[0] * b[1] / (
                a[0] * a[1]
            )
    assert str(now["C"]) == str(p.operands[2])


@settings(deadline=None, max_examples=repeats(4, 25))
@given(st.data())
@pytest.mark.slow("plans on random meshes of three axes")
def test_random_plans_are_sound(data):
    mesh = Mesh({"X": data.draw(st.sampled_from([1, 2, 3, 4])), "Y": data.draw(st.sampled_from([2, 4])), "Z": 2})
    sizes = {d: data.draw(st.sampled_from([24, 48, 96, 240])) * 4 for d in "IJK"}
    pick = lambda n, d: data.draw(st.sampled_from(shardings(n, tuple(d), mesh)))  # noqa: E731
    found = plans(pick("A", "IJ"), pick("B", "JK"), pick("C", "IK"), sizes, mesh)
    for p in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=5)):
        chain_is_sound(p)


def test_peak_counts_what_is_held():
    """Q7 of the sources: a weight matrix of 537 MB, gathered, does not fit in 300 MB."""
    sizes, mesh = dict(B=128, D=8192, F=32768), Mesh({"X": 2, "Y": 2})
    whole = plans("In[B, D]", "W[D, F_XY]", "T[B, F]", sizes, mesh)
    gathered = next(
        p for p in whole if [s.kind for s in p.steps] == ["AllGather", "Matmul"] and p.steps[0].operand == "W"
    )
    W, In, T = 2 * 8192 * 32768, 2 * 128 * 8192, 2 * 128 * 32768
    assert gathered.peak == W / 4 + W + In + T
    assert gathered not in plans("In[B, D]", "W[D, F_XY]", "T[B, F]", sizes, mesh, limit=300e6)
    with pytest.raises(ValueError, match="no plan fits in 1,000,000 bytes a device: the smallest needs"):
        cheapest("In[B, D]", "W[D, F_XY]", "T[B, F]", sizes, mesh, V5E, limit=1e6)


def test_the_block_that_must_fit():
    """Question 7: F over all four chips, In and Out over D: 268 MB of weights, one AllGather and one ReduceScatter."""
    s = Slice(V5E, (2, 2))
    sizes, mesh = dict(B=128, D=8192, F=32768), Mesh.on(s, "XY")
    best = block("In[B, D_XY]", "W[D, F_XY]", "V[F_XY, D]", "Out[B, D_XY]", sizes, mesh, V5E, limit=300e6)
    assert [c.kind for p in (best.first, best.second) for c in p.collectives] == ["AllGather", "ReduceScatter"]
    assert str(best.first.product[2]) == "Tmp[B, F_XY]"
    t, weights = best.time(V5E), sum(w.bytes(sizes, mesh) for w in best.weights)
    assert round(weights / 1e6) == 268 and round(t.math * 1e6) == 174
    assert round(weights / V5E.hbm_bandwidth * 1e6) == 331 and 34e-6 < t.parts["ici"] < 48e-6
    assert block("In[B, D_XY]", "W[D, F]", "V[F, D]", "Out[B, D_XY]", sizes, mesh, V5E, limit=300e6) is None


def test_a_block_that_was_found_before_is_not_taken_for_that_of_other_wires_or_another_chip():
    given = "In[B, D_X]", "W[D, F_X]", "V[F_X, D]", "Out[B, D_X]", dict(B=2**16, D=8192, F=32768)
    meshes = Mesh({"X": Axis(8, True)}), Mesh({"X": Axis(8, False)})
    assert len({block(*given, m, c).time(c).parts["ici"] for m in meshes for c in (V5E, V5P)}) == 4


def test_bad_input_gets_one_sentence():
    for args, says in (
        (("A[I, J]", "B[L, K]", "C[I, K]"), "exactly one dimension is shared"),
        (("A[I, J]", "B[J, K]", "C[I, M]"), "names dimension M, which neither .* theirs are I, J, K"),
        (("A[I, J]", "B[J, K]", "C[I, J]"), "exactly one dimension is shared"),
        (("A[I, J, L]", "B[J, K]", "C[I, K]"), "a matrix has two dimensions, A.I, J, L. has 3"),
        (("A[I_Q, J]", "B[J, K]", "C[I, K]"), "names axis Q: use one that the mesh has, X, Y"),
        (("A[I_X, J_X]", "B[J, K]", "C[I, K]"), "names axis X twice"),
    ):
        with pytest.raises(ValueError, match=says) as e:
            plans(*args, SIZES, MESH)
        assert "\n" not in str(e.value)
    refused(
        (lambda: plans("A[I_X, J]", "B[J, K]", "C[I, K]", SIZES | dict(I=6), MESH), "X is 4 and does not divide I = 6"),
        (lambda: plans("A[I, J]", "B[J, K]", "C[I, K]", SIZES, MESH, "b16"), "bf16, "),
        (lambda: sizes_of(("A[I, J]", (8, 16)), ("B[J, K]", (12, 4))), "J is 16 in A.I, J. and 12 in B.J, K."),
        (lambda: sizes_of(("A[I, J]", (8,))), "has 2 dimensions, and the shape"),
    )


def test_planning_is_a_lookup_after_the_first_time():
    """The search runs once for each sharding and mesh; what depends on sizes is arithmetic."""
    args = "A[I_X, J]", "B[J, K_Y]", "C[I, K]"
    plans(*args, SIZES, MESH)
    before = matmul_plans._ways.cache_info().misses
    plans(*args, {d: 4 * n for d, n in SIZES.items()}, MESH)
    assert matmul_plans._ways.cache_info().misses == before
