"""Sharded programs of one and two matmuls, as exercises ask for them, and what a learner is told of them."""

import jax
from jax import lax

from helpers import check
from helpers.check.sharded_program import Program

XY = {"X": 4, "Y": 2}
BIG = dict(B=128, D=8192, F=32768)
SMALL = dict(B=check.ints(8, 32, 8), D=check.ints(8, 64, 8), F=check.ints(8, 64, 8))


def dense(x, w_in, w_out):
    return jax.nn.relu(x @ w_in) @ w_out


def gather_scatter(x, w_in, w_out):
    x = lax.all_gather(x, ("X", "Y"), axis=1, tiled=True)
    return lax.psum_scatter(jax.nn.relu(x @ w_in) @ w_out, ("X", "Y"), scatter_dimension=1, tiled=True)


def mlp(block, points=4, **k):
    """The exercise of two matmuls: In and Out cut alike."""
    given = dict(
        mesh=XY, in_specs=["In[B, D_XY]", "W[D, F_XY]", "V[F_XY, D]"], out_specs="Out[B, D_XY]", sizes=BIG, dtype="bf16"
    )
    return Program(block, points, **given | k)


def told(a):
    """(points, the complaint)."""
    earned, complaints = a.evaluate()
    assert len(complaints) <= 1 and bool(complaints) == (earned < a.points)
    return earned, "".join(complaints)


def limited(block, **k):
    return Program(block, 1, XY, ["A[I_X, J]"], "B[I, J]", sizes=dict(I=64, J=16), **k)


def gather(a):
    return lax.all_gather(a, "X", tiled=True)
