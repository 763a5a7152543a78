"""Exercises 2.15 to 2.26: the programs and constants held against something else."""

import re
from itertools import product

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding import best_shardings, matmul_plans, sharded_array
from helpers.costs.sharding.collectives import Collective
from helpers.costs.sharding.resharding import shardings
from helpers.kernels import mesh
from tests.solutions import course

TOPIC = "ch02_sharding"
CONTEST = course.exercises(TOPIC)[-1]


def test_b4_and_b9_terms_add_up_for_any_cut(solved):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((7, 6)), rng.standard_normal((6, 5))
    for rows, inner, columns in (((7,), (6,), (5,)), ((3, 4), (1,) * 6, (5,)), ((1, 1, 5), (2, 4), (4, 1))):
        found = solved["terms"](A, B, rows, inner, columns)
        blocks = [
            [sum(found[i, j, k] for j in range(len(inner))) for k in range(len(columns))] for i in range(len(rows))
        ]
        np.testing.assert_allclose(np.block(blocks), A @ B)


def test_b21_the_overlapped_product_has_n_products_and_n_minus_1_permutes(solved):
    """Interleaved: a product, then a permute, and a product last."""
    import jax
    from jax.sharding import PartitionSpec as P

    on = mesh.mesh((4,), ("X",))
    f = jax.shard_map(
        lambda A, B: solved["gathered_product"](A, B, "X"),
        mesh=on, in_specs=(P(None, "X"), P(None, "X")), out_specs=P(None, "X"), check_vma=False,
    )  # fmt: skip
    (inner,) = [
        e for e in jax.make_jaxpr(f)(np.ones((8, 16)), np.ones((16, 12))).eqns if e.primitive.name == "shard_map"
    ]
    body = inner.params["jaxpr"]
    names = [e.primitive.name for e in getattr(body, "jaxpr", body).eqns]
    assert [n for n in names if n in ("dot_general", "ppermute")] == ["dot_general", "ppermute"] * 3 + ["dot_general"]


def test_the_traces_of_plans_are_explained(solved):
    """2.24 on what plans of the planner send, over a mesh of one axis, where it uses no detours."""
    grid, sizes, cuts = sharded_array.Mesh({"X": 2}), dict(I=24, J=40, K=56), [("", ""), ("_X", ""), ("", "_X")]
    seen = 0
    for a, b, c in product(cuts, repeat=3):
        A, B, C = f"A[I{a[0]}, J{a[1]}]", f"B[J{b[0]}, K{b[1]}]", f"C[I{c[0]}, K{c[1]}]"
        for p in matmul_plans.plans(A, B, C, sizes, grid):
            if {s.kind for s in p.steps} <= {"AllGather", "ReduceScatter", "AllReduce", "Matmul"}:
                sent = [(k.kind, *k.axes, k.shape, k.out) for k in p.collectives]
                blocks = {t[0]: sharded_array.parse(t).local(sizes, grid) for t in (A, B, C)}
                found = solved["recover"](sent, blocks, sizes)
                assert found and {n: sharded_array.parse(t).local(sizes, grid) for n, t in found.items()} == blocks
                if sent:
                    seen += 1
                    assert found == {"A": A, "B": B, "C": C}
    assert seen > 20


PROBLEMS = [
    (eval(case), float(best))  # numbers of the course's own text
    for case, best in re.findall(r"^    \((\(.*\)), ([\d.]+e-6)\),$", CONTEST, re.M)
]


def options(B, D, F, axes, wraps):
    """The mesh, the sizes, and all shardings of In, W_in, Tmp and W_out whose blocks divide."""
    grid, sizes = sharded_array.Mesh({a: sharded_array.Axis(n, wraps) for a, n in axes.items()}), dict(B=B, D=D, F=F)
    return (
        grid,
        sizes,
        [
            [a for a in shardings(n, dims, grid) if all(sizes[d] % grid.size(x) == 0 for d, x in zip(a.dims, a.axes))]
            for n, dims in (("In", ("B", "D")), ("W", ("D", "F")), ("Tmp", ("B", "F")), ("V", ("F", "D")))
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("problem, best", PROBLEMS)
@pytest.mark.sample(quick=0, slow=1)
def test_the_best_design_is_the_best_of_all(problem, best):
    *given, name, limit = problem
    grid, sizes, _ = options(*given)
    assert best_shardings.block_seconds(sizes, grid, chip(name), limit=limit)[0] == pytest.approx(best, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [problem for problem, _ in PROBLEMS[3:]])
@pytest.mark.sample(quick=0, slow=2)
def test_no_limit_that_is_drawn_lets_another_design_fit(problem):
    """What a device holds on any way through a product, with or without the other's weights, lies beyond all shares."""
    *given, _, limit = problem
    low, high = map(float, re.search(r"check\.floats\(([\d.]+), ([\d.]+)\)", CONTEST).groups())
    grid, sizes, (ins, ws, tmps, vs) = options(*given)
    cases = [matmul_plans.Case.of(*a, sizes, grid, "bf16") for a in (*product(ins, ws, tmps), *product(tmps, vs, ins))]
    rooms = [case.room(*way) for case in cases for way in case.ways(True)]
    held = {at for at, _ in rooms} | {x for _, routes in rooms for route in routes for x in route}
    weights = {0, *(w.bytes(sizes, grid, "bf16") for w in ws + vs)}
    assert 1 - low < 0.01 > high - 1 and not [h for h in held for w in weights if low * limit <= h + w <= high * limit]


@pytest.mark.parametrize("problem, best", PROBLEMS)
@pytest.mark.sample(quick=6)
def test_our_design_comes_near_the_best(solved, problem, best):
    B, D, F, axes, wraps, name, limit = problem
    found = solved["design"](*problem)
    grid = sharded_array.Mesh({a: sharded_array.Axis(n, wraps) for a, n in axes.items()})
    block = best_shardings.block(
        found["In"], found["W_in"], found["W_out"], found["In"], dict(B=B, D=D, F=F), grid, chip(name), limit=limit
    )
    assert best * 0.999 <= block.time(chip(name)).upper <= best * 1.01


def test_what_the_block_sends_is_what_the_plan_says(solved):
    """2.21: the trace of our program equals the collectives of the cheapest plan for our layout."""
    import jax

    from helpers import trace

    laid = solved["layout"]()
    on, shapes = mesh.mesh((2, 2), ("X", "Y")), ((128, 8192), (8192, 32768), (32768, 8192))
    f = mesh.sharded(solved["block"], on, [laid[n] for n in ("In", "W_in", "W_out")], laid["In"])
    sent = trace.sent(f, *(jax.ShapeDtypeStruct(s, "bfloat16") for s in shapes))
    assert tuple(trace.merged(sent)) == (
        Collective("AllGather", ("X", "Y"), (128, 2048), (128, 8192)),
        Collective("ReduceScatter", ("X", "Y"), (128, 8192), (128, 2048)),
    )
