"""Programs of `helpers.kernels.sharding` whose collectives are listed; see tools/sends.py."""

from functools import partial

import jax

from helpers.costs.sharding.matmul_plans import plans
from helpers.costs.sharding.sharded_array import Mesh
from helpers.kernels.mesh import sharded
from helpers.kernels.sharding import collectives, sharded_matmul as matmul
from tests.helpers.kernels.abstract_arrays import bf16, both_passes, mesh

I, J, K = 16, 24, 8

RINGS = {
    "ring of 8, one way": (dict(X=8), "X", dict(ways=1)),
    "ring of 8, both ways": (dict(X=8), "X", dict(ways=2)),
    "ring of 5, both ways": (dict(X=5), "X", dict(ways=2)),
    "line of 4": (dict(X=4), "X", dict(wraps=False)),
    "over X and Y, rings of 4 and 2": (dict(X=4, Y=2), ("X", "Y"), {}),
}
COLLECTIVES = {
    "all_gather": lambda x, names, **how: collectives.all_gather(x, names, 1, **how),
    "reduce_scatter": lambda x, names, **how: collectives.reduce_scatter(x, names, 1, **how),
    "all_reduce": collectives.all_reduce,
    "all_to_all": lambda x, names, **how: collectives.all_to_all(x, names, 0, 1, **how),
}


def on_blocks(f, sizes):
    """A per-device function on blocks of n rows and 2n columns."""
    m = mesh(**sizes)
    cut, n = jax.P(m.axis_names), m.size
    return jax.shard_map(f, mesh=m, in_specs=cut, out_specs=cut, check_vma=False), bf16(n * n, 2 * n)


def collective(name, ring, wrap=lambda f: f):
    sizes, names, how = RINGS[ring]
    f, x = on_blocks(lambda x: COLLECTIVES[name](x, names, **how), sizes)
    return wrap(f), (x,)


def primitive(kind):
    stack = (8,) if kind in ("ReduceScatter", "AllReduce") else ()  # partial sums, one in front of the other
    return collectives.primitive(kind, mesh(X=8), "X"), (bf16(*stack, I, J),)


CASES = {
    "case2": (matmul.case2, "X", "A[I, J_X]", "B[J, K]", "C[I, K]"),
    "case2, and Y": (matmul.case2, "X", "A[I, J_X]", "B[J, K_Y]", "C[I, K_Y]"),
    "case2, over X and Y": (matmul.case2, "XY", "A[I, J_XY]", "B[J, K]", "C[I, K]"),
    "case3": (matmul.case3, "X", "A[I, J_X]", "B[J_X, K]", "C[I, K]"),
    "case3, over X and Y": (matmul.case3, "XY", "A[I, J_XY]", "B[J_XY, K]", "C[I, K]"),
    "case3_scattered, columns": (matmul.case3_scattered, "X", "A[I, J_X]", "B[J_X, K]", "C[I, K_X]"),
    "case3_scattered, rows": (
        partial(matmul.case3_scattered, axis=0), "X", "A[I_Y, J_X]", "B[J_X, K]", "C[I_YX, K]",
    ),
    "case4_gather_b": (matmul.case4_gather_b, "X", "A[I_X, J]", "B[J, K_X]", "C[I_X, K]"),
    "case4_gather_a": (matmul.case4_gather_a, "X", "A[I_X, J]", "B[J, K_X]", "C[I, K_X]"),
}  # fmt: skip
OVERLAPPED = {
    "all_gather_matmul, J gathered": (matmul.all_gather_matmul, 1, "A[I, J_X]", "B[J, K]", "C[I, K]"),
    "all_gather_matmul, I gathered": (matmul.all_gather_matmul, 0, "A[I_X, J]", "B[J, K_X]", "C[I, K_X]"),
    "matmul_reduce_scatter, K scattered": (matmul.matmul_reduce_scatter, 1, "A[I, J_X]", "B[J_X, K]", "C[I, K_X]"),
    "matmul_reduce_scatter, I scattered": (matmul.matmul_reduce_scatter, 0, "A[I, J_X]", "B[J_X, K]", "C[I_X, K]"),
}


def case(name, wrap=lambda f: f):
    f, x, A, B, C = CASES[name]
    return wrap(sharded(lambda a, b: f(a, b, tuple(x)), mesh(X=4, Y=2), (A, B), C)), (bf16(I, J), bf16(J, K))


def overlapped(name, ways, wrap=lambda f: f):
    f, axis, A, B, C = OVERLAPPED[name]
    run = sharded(lambda a, b: f(a, b, "X", axis, ways), mesh(X=8), (A, B), C)
    return wrap(run), (bf16(I, J), bf16(J, K))


PLANS = {  # operands, result, and what the plan sends: the first such plan
    "two operands gathered": ("A[I_X, J]", "B[J_Y, K]", "C[I, K]", "AllGather AllGather"),
    "subscripts moved": ("A[I_XY, J]", "B[J, K]", "C[I, K_XY]", "AllToAll"),
    "subscripts in another order": ("A[I_XY, J]", "B[J, K]", "C[I_YX, K]", "Permute"),
    "a sum, scattered and gathered": ("A[I, J_X]", "B[J_X, K]", "C[I, K]", "ReduceScatter AllGather"),
    "a sum over one axis of two": ("A[I, J_XY]", "B[J_XY, K]", "C[I, K] {U_Y}", "AllReduce"),
    "a sum over both axes, gathered over one": ("A[I, J_XY]", "B[J_XY, K]", "C[I_X, K]", "ReduceScatter AllGather"),
}


def plan(name):
    A, B, C, kinds = PLANS[name]
    some = plans(A, B, C, dict(I=I, J=J, K=K), Mesh({"X": 4, "Y": 2}))
    chosen = next(p for p in some if [c.kind for c in p.collectives] == kinds.split())
    return matmul.program(chosen, mesh(X=4, Y=2)), (bf16(I, J), bf16(J, K))


PROGRAMS = {
    **{f"collectives.{c}, {r}": partial(collective, c, r) for c in COLLECTIVES for r in RINGS},
    **{
        f"collectives.{c}, ring of 8, both ways, forward and backward": partial(
            collective, c, "ring of 8, both ways", both_passes
        )
        for c in COLLECTIVES
    },
    **{f"collectives.primitive, {kind}": partial(primitive, kind) for kind in collectives.PRIMITIVES},
    **{f"sharded_matmul.{c}": partial(case, c) for c in CASES},
    **{
        f"sharded_matmul.{c}, forward and backward": partial(case, c, both_passes)
        for c in CASES
        if c in ("case2", "case3", "case3_scattered, columns", "case4_gather_b", "case4_gather_a")
    },
    **{
        f"sharded_matmul.{c}, {way}": partial(overlapped, c, ways)
        for c in OVERLAPPED
        for ways, way in ((1, "one way"), (2, "both ways"))
    },
    **{
        f"sharded_matmul.{c}, both ways, forward and backward": partial(overlapped, c, 2, both_passes)
        for c in OVERLAPPED
        if "J" in c or "K" in c
    },
    **{f"sharded_matmul.program, {p}": partial(plan, p) for p in PLANS},
}
