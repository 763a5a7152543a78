"""Whatever a learner may write as a sharded program or as its shardings becomes a sentence."""

import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from helpers.check.sharded_program import Program
from tests.helpers.check.programs import SMALL, XY, dense, gather, gather_scatter, limited, mlp, told


def test_specs_may_be_the_learners():
    spec = {"In": P(None, ("X", "Y")), "W": P(None, ("X", "Y")), "V": P(("X", "Y"))}
    k = dict(
        in_specs=lambda: [spec["In"], spec["W"], spec["V"]], out_specs=lambda: spec["In"], shapes=["BD", "DF", "FD"]
    )
    a = mlp(gather_scatter, **k)
    a.sends(AllGather=1, ReduceScatter=1)
    a.equals(dense, **SMALL)
    assert told(a) == (4, "")
    for broken, says in [
        ({}, "the entry 'In' is not done yet."),
        (spec | {"In": ...}, "gather_scatter is not done yet."),
        (spec | {"W": P("Z")}, "P('Z',) names axis Z, and the mesh has X, Y."),
        (spec | {"W": P("X", "X")}, "P('X', 'X') names axis X twice: an axis cuts one dimension, once."),
        (
            spec | {"W": P(None, None, "X")},
            "P(None, None, 'X') is for 3 dimensions, and the array has shape (8192, 32768).",
        ),
        (spec | {"W": ("X", None)}, "arrays are cut by a PartitionSpec such as P('X', None), this is ('X', None)."),
    ]:
        spec = broken
        assert told(a)[1].replace("('Z')", "('Z',)") == says
    a = Program(gather, 1, XY, [P("X")], P(), shapes=[(10, 16)])
    assert told(a)[1].endswith(" cuts 10 numbers into 4 equal parts, which cannot be.")


def undone(a):
    raise NotImplementedError


def branch(a):
    return gather(a) if a[0, 0] > 0 else a


def peek(a):
    return gather(a) if lax.axis_index("X") == 0 else a


def forbidden(a):
    from helpers.kernels.sharding.collectives import all_gather

    return all_gather(a, "X")


@pytest.mark.parametrize("f, says", [
    (undone, "undone is not done yet."),
    (lambda a: None, "<lambda> is not done yet."),
    (lambda a: ..., "<lambda> is not done yet."),
    (..., "your answer is not done yet."),
    (lambda a: (gather(a), a), "<lambda> returns 2 arrays; one array is asked for."),
    (lambda a: a, "<lambda> returns a block of shape (16, 16) on each device; B[I, J] has blocks of shape (64, 16)."),
    (lambda a: lax.psum(a, "Z"), "<lambda> names the mesh axis Z, and the mesh has X, Y."),
    (lambda a: a @ a[:3], "<lambda> raised TypeError: dot_general requires"),
    (lambda a, b: a, "<lambda> raised TypeError"),
    (branch, "branch looks at numbers that are not there yet"),
    (peek, "peek looks at numbers that are not there yet"),
    (forbidden, "helpers.kernels.sharding.collectives.all_gather is off limits inside an answer: write it out."),
])  # fmt: skip
def test_anything_a_learner_may_write_becomes_a_sentence(f, says):
    a = limited(f)
    a.sends(AllGather=1)
    earned, complaint = told(a)
    assert earned == 0 and complaint.startswith(says) and "\n" not in complaint and "Traceback" not in complaint


def test_a_block_with_too_few_dimensions():
    a = Program(lambda a: a.sum(), 1, XY, ["A[I_X, J]"], "B[I_X, J]", sizes=dict(I=64, J=16))
    assert told(a)[1] == "<lambda> returns a block with fewer dimensions than B[I_X, J] has."


def test_an_error_says_what_a_device_holds():
    a = Program(lambda a: a @ a, 1, XY, ["A[I_X, J]"], "B[I_X, J]", sizes=dict(I=64, J=8))
    assert told(a)[1].endswith("(Each device has bf16[16, 8].)")
