"""Every number that the sources of chapter 2 state, computed again by `helpers`; values are typed here with where they stand.

S3 is section 3 ("sharding") of How To Scale Your Model (2025); W_ici there is both directions of a link.
Where a source is wrong, book/data/errata.json computes the corrected value and says why; examples of docstrings have others.
"""

import json
from functools import cache, partial

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding import matmul_plans
from helpers.costs.sharding.best_shardings import designs
from helpers.costs.sharding.collectives import (
    Collective,
    all_gather,
    all_reduce,
    all_to_all,
    crossover,
    reduce_scatter,
    seconds,
)
from helpers.costs.sharding.resharding import shardings
from helpers.costs.sharding.sharded_array import Axis, Mesh, parse
from tests.book.conftest import ROOT
from tests.book.stated import near
from tests.helpers.costs.tables import walks

W = 4.5e10  # one way, v5e and v4p
RING, LINE = Axis(4), Axis(4, wraps=False)
V5E_84 = Mesh.on(Slice(chip("v5e"), (8, 4)), "XY")
V5E_44 = Mesh.on(Slice(chip("v5e"), (4, 4)), "XY")
V4P = Mesh.on(Slice(chip("v4p"), (4, 4, 4)), "XYZ")
CUBE = Mesh.on(Slice(chip("v5p"), (4, 4, 4)), "XYZ")
QUIZ1 = parse("A[I_XY, J]"), dict(I=1024, J=4096), Mesh({"X": 8, "Y": 2})
QUIZ2 = parse("A[I_XY, J]"), dict(I=128, J=2048), Mesh({"X": 2, "Y": 8, "Z": 2})
E_F = 2 * 2048 * 8192
B_D = 2 * 1024 * 4096


def plan(A, B, C, sizes, mesh, *kinds):
    """The plan with these steps."""
    return next(p for p in matmul_plans.plans(A, B, C, sizes, mesh) if [s.kind for s in p.steps] == list(kinds))


@cache  # and called where a test needs it: its plans take seconds
def q5(A, B, *kinds):
    return plan(A, B, "C[I, K]", dict(I=8192, J=8192, K=8192), CUBE, *kinds).time(chip("v5p"))


GATHERED = partial(q5, "A[I_XYZ, J]", "B[J, K]", "Matmul", "AllGather")
SUMMED = partial(q5, "A[I, J_XYZ]", "B[J_XYZ, K]", "Matmul", "AllReduce")
COPIED = partial(q5, "A[I, J]", "B[J, K]", "Matmul")

CLAIMS = {
    # quizzes
    "S3 quiz 1: bytes on a device": (QUIZ1[0].bytes(*QUIZ1[1:], "f32"), 2**20),
    "S3 quiz 2: bytes on a device": (QUIZ2[0].bytes(*QUIZ2[1:], "int8"), 16384),
    "S3 quiz 2: KiB in all": (32 * QUIZ2[0].bytes(*QUIZ2[1:], "int8") / 1024, 512.0),
    "S3 quiz 3: on the line (560 rounded)": (seconds(all_gather(E_F, V5E_84.wires("Y")), W), 5.59e-4),
    "S3 quiz 3: if it were a ring (377 with 34e6)": (seconds(all_gather(E_F, RING), W), 3.73e-4),
    "S3 quiz 3: hops on the line": (all_gather(E_F, V5E_84.wires("Y")).hops, 3),
    "S3 quiz 3: small, in all": (seconds(all_gather(2 * 256 * 256, LINE), W), 3e-6),
    # collectives
    "S3: block at which latency ends": (crossover(Axis(8), W) / 8, 45000.0),
    "S3: with 8 shards": (crossover(Axis(8), W), 360e3),
    "S3: AllGather, times V/W_ici": (seconds(all_gather(1.0, Axis(16)), 1.0, hop=0) * 2, 1.0),
    "S3: ReduceScatter, times V/W_ici": (seconds(reduce_scatter(1.0, Axis(16)), 1.0, hop=0) * 2, 1.0),
    "S3: AllReduce, times V/W_ici": (seconds(all_reduce(1.0, Axis(16)), 1.0, hop=0) * 2, 2.0),
    "S3: AllToAll, times V/W_ici": (seconds(all_to_all(1.0, Axis(16)), 1.0, hop=0) * 2, 0.25),
    # questions
    "S3 Q2: AllGather over X": (seconds(all_gather(B_D / 4, V4P.wires("X")), W), 2.33e-5),
    "S3 Q2: AllGather over XY": (seconds(all_gather(B_D, V4P.wires("XY")), W), 4.66e-5),
    "S3 Q2: its latency": (all_gather(B_D, V4P.wires("XY")).hops * 1e-6, 4e-6),
    "S3 Q2: AllReduce over Z": (seconds(all_reduce(B_D / 16, V4P.wires("Z")), W), 1.165e-5),
    "S3 Q3": (seconds(all_gather(2 * 128, V4P.wires("X")), W), 2e-6),
    "S3 Q5: arithmetic, cut over 64": (lambda: GATHERED().math, 3.74e-5),
    "S3 Q5: AllGather": (lambda: GATHERED().parts["ici"], 2.49e-4),
    "S3 Q5: AllReduce": (lambda: SUMMED().parts["ici"], 4.97e-4),
    "S3 Q5: everything copied": (lambda: COPIED().math, 2.395e-3),
}


@walks(CLAIMS)
def test_numbers_of_the_source(claim):
    got, stated = CLAIMS[claim]
    near(got() if callable(got) else got, stated)


def test_where_memory_is_short():
    """The page: gathered weights do not fit beside their shards in 600 MB; exchanged weights do."""
    case = (
        "In[B_X, D_Y]",
        "W_in[D_X, F_Y]",
        "Tmp[B_X, F]",
        dict(B=8192, D=8192, F=32768),
        Mesh.on(Slice(chip("v5e"), (2, 2)), "XY"),
    )
    much, little = (matmul_plans.cheapest(*case, chip("v5e"), limit=limit) for limit in (2e9, 600e6))
    of_weights = lambda p: [s.kind for s in p.steps if s.operand == "W_in"]  # noqa: E731
    assert (of_weights(much), of_weights(little)) == (["AllGather"], ["AllToAll"])
    assert much.time(chip("v5e")).lower < little.time(chip("v5e")).lower


@walks([128, 1024, 2000, 3000, 8192], [1024, 4096, 6144, 16384])
def test_question_4_gather_weights_or_add_up_results(B, D):
    """Adding up wins if D > 2B where both wait for links (B < 2550), and where D > 5100 for larger batches."""
    n, F, v5p = 16, 32768, chip("v5p")
    ring, sizes = Mesh({"X": n}), dict(B=B, D=D, F=F)
    case = "X[B, D]", "Y[D_X, F]", "Z[B, F]", sizes, ring
    gather, add = plan(*case, "AllGather", "Matmul"), plan(*case, "Slice", "Matmul", "AllReduce")
    for p, flops, moved in ((gather, 2 * B * D * F, 2 * D * F), (add, 2 * B * D * F / n, 4 * B * F)):
        t = p.time(v5p)
        assert (t.math, t.parts["ici"]) == pytest.approx((flops / 4.59e14, moved / 1.8e11))
    lower = [max(p.time(v5p).math, p.time(v5p).parts["ici"]) for p in (gather, add)]
    assert (lower[1] < lower[0]) == ((D > 2 * B) if B < 2550 else D > 5100)


@pytest.mark.parametrize(
    "B, best", [(1024, "AllReduce"), (2047, "AllReduce"), (2049, "AllToAll"), (6143, "AllToAll"), (6145, "AllToAll")]
)
def test_the_third_way_of_the_page(B, best):
    """Transposing the weights sends less than adding up from B = D/4, and less than gathering them up to B = 3D/4."""
    ring, D = Mesh({"X": 8}), 8192
    case = "A[B, D]", "W[D_X, F]", "C[B, F]", dict(B=B, D=D, F=32768), ring
    link = lambda *kinds: plan(*case, *kinds).comms(9e10, 0)  # noqa: E731
    gather = link("AllGather", "Matmul")
    add = link("Slice", "Matmul", "AllReduce")
    transpose = link("AllToAll", "Matmul", "AllGather")
    assert (transpose < add) == (B > D / 4)
    assert (transpose < gather) == (B < 3 * D / 4)
    assert min((add, "AllReduce"), (transpose, "AllToAll"))[1] == best


def test_question_5_nothing_is_faster():
    found = designs("C[I, K]", dict(I=8192, J=8192, K=8192), CUBE)
    assert min(p.time(chip("v5p")).lower for p in found) == pytest.approx(GATHERED().lower)


def test_question_6():
    """A[I_X, J_Y] · B[J_Y, K] -> C[I_X, K] on a v5e 4x4: a sum over Y, on lines of 4.

    Arithmetic lasts longer from J = 26,267 on if it is a ReduceScatter and an AllGather, from 17,511 on if it is chained.
    """
    for kinds, least in ((["AllReduce"], 17_511), (["ReduceScatter", "AllGather"], 26_267)):
        for J, bound in ((least - least % 4 - 4, "ici"), (least - least % 4 + 4, "math")):
            sizes = dict(I=8192, J=J, K=8192)
            p = plan("A[I_X, J_Y]", "B[J_Y, K]", "C[I_X, K]", sizes, V5E_44, "Matmul", *kinds)
            assert [(c.kind, c.axes) for c in p.collectives] == [(kind, ("Y",)) for kind in kinds]
            assert max(("math", "ici"), key=p.time(chip("v5e")).parts.get) == bound


def test_eleven_ways_to_shard_a_matrix():
    assert len(shardings("A", ("I", "J"), Mesh({"X": 4, "Y": 2}))) == 11


def test_a_colleagues_factor_of_problem_8():
    four = Mesh({"X": 4})
    theirs = Collective("AllReduce", ("X",), (4096, 8192), (4096, 8192), "f32").wire(four)
    planned = Collective("ReduceScatter", ("X",), (4096, 8192), (1024, 8192), "bf16").wire(four)
    assert theirs / planned == 4


def test_stored_records_of_a_tpu_compiler():
    """What the page says of them: cases 1 to 4, the ring beside products, the loop's trips, the refusal."""
    stored = json.loads((ROOT / "book/results/ch02_compiler.json").read_text(encoding="utf-8"))
    assert stored["command"] and stored["date"] and stored["machine"] and {"jax", "libtpu"} <= set(stored["versions"])
    cases = {name: c["made"] for name, c in stored["cases"].items()}
    assert cases["case 1"]["collectives"] == []
    sent = {n: [(c["kind"], c["times"]) for c in cases[f"case {n}"]["collectives"]] for n in (2, 3, 4)}
    assert sent[2] == [("AllGather", 1)] and sent[3] == [("AllReduce", 1)]
    assert {kind for kind, _ in sent[4]} == {"Permute"} and sum(times for _, times in sent[4]) == 17 == 16 - 1 + 2
    ring = cases["case 2, weights"]["collectives"]
    assert {c["kind"] for c in ring} == {"Permute"} and len(ring) == 3 and any(c["behind"] for c in ring)
    assert [c["kind"] for c in cases["case 3, psum_scatter"]["collectives"]] == ["ReduceScatter"]
    assert [(c["kind"], c["times"]) for c in cases["100 layers"]["collectives"]] == [("AllGather", 100)] * 2
    assert cases["too large"]["refused"]["needed"] > cases["too large"]["refused"]["available"]
