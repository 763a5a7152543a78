"""What a program sends, from its jaxpr, against lists written by hand."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P, reshard

from helpers import trace
from helpers.costs.sharding.collectives import Collective
from helpers.costs.sharding.sharded_array import Mesh
from helpers.trace.jaxpr import collectives

RING = [(i, (i + 1) % 4) for i in range(4)]


def mesh(**sizes):
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))


XY = mesh(X=4, Y=2)


def sm(f, ins, out, on=XY, **k):
    return jax.shard_map(f, mesh=on, in_specs=ins, out_specs=out, **({"check_vma": False} | k))


def arr(*shape, dtype="bfloat16"):
    return jax.ShapeDtypeStruct(shape, dtype)


def lines(f, *args):
    return [str(c) for c in trace.sent(f, *args)]


X16 = arr(16, 16)


# ---- every kind


@pytest.mark.parametrize("f, spec, said", [
    (lambda x: lax.all_gather(x, "X", tiled=True), P("X"), "AllGather_X bf16[4, 16] -> [16, 16]"),
    (lambda x: lax.all_gather(x, "X"), P("X"), "AllGather_X bf16[1, 4, 16] -> [4, 4, 16]"),
    (lambda x: lax.all_gather(x, ("Y", "X"), axis=1, tiled=True), P(), "AllGather_YX bf16[16, 16] -> [16, 128]"),
    (lambda x: lax.psum_scatter(x, "X", tiled=True), P(), "ReduceScatter_X bf16[16, 16] -> [4, 16]"),
    (lambda x: lax.psum_scatter(x[:4], "X"), P(), "ReduceScatter_X bf16[4, 16] -> [1, 16]"),
    (lambda x: lax.psum(x, "Y"), P("X"), "AllReduce_Y bf16[4, 16] -> [4, 16]"),
    (lambda x: lax.pmean(x, ("X", "Y")), P("X"), "AllReduce_XY bf16[4, 16] -> [4, 16]"),
    (lambda x: lax.pmax(x.astype("float32"), "X"), P("X"), "AllReduce_X f32[4, 16] -> [4, 16]"),
    (lambda x: lax.pmin(x.astype("int8"), "X"), P("X"), "AllReduce_X int8[4, 16] -> [4, 16]"),
    (lambda x: lax.psum(x.sum(), "X"), P("X"), "AllReduce_X bf16[] -> []"),
    (lambda x: lax.all_to_all(x, "X", 1, 0, tiled=True), P("X"), "AllToAll_X bf16[4, 16] -> [16, 4]"),
    (lambda x: lax.all_to_all(x[:, :4], "X", 1, 0), P("X"), "AllToAll_X bf16[1, 4, 4] -> [4, 4, 1]"),
    (lambda x: lax.ppermute(x, "X", RING), P("X"), "Permute_X bf16[4, 16] -> [4, 16]"),
    (lambda x: lax.all_gather(x.astype("int4"), "X", tiled=True), P("X"), "AllGather_X int4[4, 16] -> [16, 16]"),
    (lambda x: lax.all_gather(x.astype(jnp.float8_e4m3fn), "X"), P("X"), "AllGather_X fp8[1, 4, 16] -> [4, 4, 16]"),
])  # fmt: skip
def test_every_kind_with_its_axes_shapes_and_type(f, spec, said):
    assert lines(sm(f, spec, P()), X16) == [said]


def test_axis_sizes_and_places_cost_nothing():
    f = sm(lambda x: x * lax.psum(1, "X") * lax.axis_size("Y") + lax.axis_index("X").astype(x.dtype), P("X"), P("X"))
    assert trace.sent(f, X16) == () and str(trace.sent(f, X16)) == "nothing is sent"


def test_a_permute_is_over_the_axes_it_moves_along():
    swap = [(2 * x + y, 2 * x + 1 - y) for x in range(4) for y in range(2)]
    f = lambda names, perm: sm(lambda x: lax.ppermute(x, names, perm), P("X"), P("X"))  # noqa: E731
    assert [c.axes for c in trace.sent(f(("X", "Y"), swap), X16)] == [("Y",)]
    assert [c.axes for c in trace.sent(f(("Y", "X"), [(0, 5)]), X16)] == [("X", "Y")]
    assert [c.axes for c in trace.sent(f(("Y", "X"), [(0, 4)]), X16)] == [("Y",)]
    assert trace.sent(f("X", [(i, i) for i in range(4)]), X16) == ()


def test_what_is_no_collective_of_ours_is_refused():
    with pytest.raises(ValueError, match="pbroadcast is none of AllGather, ReduceScatter"):
        trace.sent(sm(lambda x: lax.pbroadcast(x, "X", 0), P("X"), P("X")), X16)


# ---- through everything that contains a program


def test_loops_are_listed_once_with_their_trips():
    def f(x):
        x = lax.scan(lambda c, _: (lax.fori_loop(0, 5, lambda i, d: lax.ppermute(d, "X", RING), c), None), x, length=7)[
            0
        ]
        return jax.jit(lambda y: lax.psum(y, "Y"))(x)

    program = sm(f, P("X"), P("X"))
    s = trace.sent(program, X16)
    assert [str(c) for c in s] == ["35 x Permute_X bf16[4, 16] -> [4, 16]", "AllReduce_Y bf16[4, 16] -> [4, 16]"]
    assert s[0].note == "shard_map > scan x7 > scan x5" and s.kinds == {"AllReduce": 1, "Permute": 35}
    assert not s.doubts


def test_the_gradient_of_a_gather_is_a_reduce_scatter():
    f = lambda x, w: lax.psum((x @ lax.all_gather(w, "X", tiled=True)).sum(), "X")  # noqa: E731
    loss = sm(f, (P("X"), P("X")), P(), check_vma=True)
    s = trace.sent(jax.grad(loss, 1), arr(16, 16, dtype="float32"), arr(16, 8, dtype="float32"))
    assert "ReduceScatter_X f32[16, 8] -> [4, 8]" in map(str, s)


@pytest.mark.parametrize("gathers, policy", [(1, None), (2, "nothing")])
def test_remat_gathers_again(gathers, policy):
    def f(w, x):
        layer = lambda w, x: jnp.sin(x @ jnp.cos(lax.all_gather(w, "X", tiled=True)))  # noqa: E731
        return (jax.checkpoint(layer) if policy else layer)(w, x).sum()

    s = trace.sent(sm(jax.value_and_grad(f), (P("X"), P()), (P(), P("X"))), arr(16, 8), arr(4, 16))
    assert s.kinds == {"AllGather": gathers, "ReduceScatter": 1}


def test_of_a_cond_the_branch_that_sends_most_is_taken_and_said():
    def f(x, ways):
        return lax.cond(x.sum() > 0, *ways, x)

    quiet, loud = lambda x: x @ x.T @ x, lambda x: lax.psum(x, "X")
    for ways in ((quiet, loud), (loud, quiet)):
        s = trace.sent(sm(lambda x, ways=ways: f(x, ways), P("X"), P("X")), X16)
        assert s.kinds == {"AllReduce": 1} and s.doubts == (collectives.BRANCHES,)
    s = trace.sent(sm(lambda x: f(x, (loud, loud)), P("X"), P("X")), X16)
    assert s.kinds == {"AllReduce": 1} and not s.doubts


def test_a_loop_that_does_not_say_how_often_is_counted_once_and_said():
    f = sm(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: lax.psum(c, "X"), x), P("X"), P("X"))
    s = trace.sent(f, X16)
    assert s.kinds == {"AllReduce": 1} and s.doubts == (collectives.UNKNOWN_TRIPS,)
    still = sm(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, lax.psum(x, "X")), P("X"), P("X"))
    assert not trace.sent(still, X16).doubts


def test_nested_and_partly_manual_shard_maps():
    inner = lambda y: lax.psum(lax.ppermute(y, ("X", "Y"), [(0, 5)]), "Y")  # noqa: E731

    def outer(x):
        return jax.shard_map(inner, in_specs=P("Y"), out_specs=P(), axis_names={"Y"}, check_vma=False)(lax.psum(x, "X"))

    s = trace.sent(sm(outer, P("X"), P(), axis_names={"X"}), arr(16, 16))
    assert [str(c) for c in s] == [
        "AllReduce_X bf16[4, 16] -> [4, 16]",
        "Permute_XY bf16[2, 16] -> [2, 16]",
        "AllReduce_Y bf16[2, 16] -> [2, 16]",
    ]
    assert s.doubts == ("Y is left to the compiler: shapes are whole along it.",)


PAIRS, ODD_AND_EVEN = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
KINDS = {
    "AllReduce": lambda x, axis, **k: lax.psum(x, axis, **k),
    "AllGather": lambda x, axis, **k: lax.all_gather(x, axis, tiled=True, **k),
    "ReduceScatter": lambda x, axis, **k: lax.psum_scatter(x, axis, tiled=True, **k),
    "AllToAll": lambda x, axis, **k: lax.all_to_all(x, axis, 1, 0, tiled=True, **k),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups, axis", [(PAIRS, "B"), (ODD_AND_EVEN, "A")])
def test_groups_along_an_axis_send_what_an_axis_of_their_own_would(kind, groups, axis):
    """Four devices in pairs are a mesh of 2 by 2, and a pair is one of its axes."""
    f, x = KINDS[kind], arr(16, 8)
    (got,) = s = trace.sent(sm(lambda x: f(x, "X", axis_index_groups=groups), P(), P(), mesh(X=4)), x)
    (own,) = t = trace.sent(sm(lambda x: f(x, axis), P(), P(), mesh(A=2, B=2)), x)
    assert (got.kind, got.axes, got.within, got.shape, got.out) == (kind, ("X",), 2, own.shape, own.out)
    assert s.wire == t.wire > 0 and not s.doubts
    assert "X in groups of 2" in str(got) and "X, groups of 2" in str(s)
    assert got.V(Mesh({"X": 4})) == own.V(Mesh({"A": 2, "B": 2}))
    assert trace.merged(s)[0] == got
    with pytest.raises(ValueError, match="which links a group shares is not known"):
        got.move(Mesh({"X": 4}))


@pytest.mark.parametrize("pairs, said", [
    ([(0, 2), (1, 2)], "devices 0 and 1 cannot both send to 2"),
    ([(0, 1), (0, 2)], "device 0 cannot send to both 1 and 2"),
    ([(0, 1), (0, 1)], "devices 0 and 0 cannot both send to 1"),
    ([(0, 4)], "0 cannot send to 4 in a permutation of 4 devices: they are 0 to 3"),
])  # fmt: skip
def test_an_impossible_permutation_is_named(pairs, said):
    with pytest.raises(ValueError, match=said):
        trace.sent(sm(lambda x: lax.ppermute(x, "X", pairs), P("X"), P("X")), X16)


def test_a_permutation_is_possible_if_nobody_meets_another():
    """All 256 ways in which each of four devices sends to one: those that are permutations, by their sets, pass."""
    for targets in itertools.product(range(4), repeat=4):
        try:
            collectives.possible(enumerate(targets), 4)
            passed = True
        except ValueError:
            passed = False
        assert passed == (len(set(targets)) == 4)


# ---- sums and tables


def test_bytes_by_axis_and_the_table():
    f = sm(lambda x: lax.psum(lax.all_gather(x, ("X", "Y"), tiled=True), "X"), P(("X", "Y")), P())
    s = trace.sent(f, X16)
    assert s.by_axis == {"XY": 16 * 16 * 2 * 7 / 8, "X": 2 * 16 * 16 * 2 * 3 / 4} and s.wire == 448 + 768
    assert s == (
        Collective("AllGather", ("X", "Y"), (2, 16), (16, 16)),
        Collective("AllReduce", ("X",), (16, 16), (16, 16)),
    )
    assert "each device sends 1.22 kB: 448 B over XY, 768 B over X" in str(s)
    html = s._repr_html_()
    assert html.count("<tr>") == 3 and "bf16[2, 16]" in html and "<th scope=" in html


def test_shardmap_programs_leave_nothing_uncounted():
    f = sm(
        lambda x, w: lax.psum_scatter(x @ lax.all_gather(w, "Y", tiled=True), "X", tiled=True), (P(), P("Y")), P("X")
    )
    c = trace.count(f, X16, arr(16, 8))
    assert not c.unknown and c.flops == c.matmul_flops == 8 * 2 * 16 * 16 * 8
    assert c.by_primitive["all_gather"].bytes == 8 * (8 * 8 + 16 * 8) * 2


# ---- Explicit axes

EXPLICIT = {
    "a product summed over a cut axis": lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=P()),
    "and scattered": lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=P("X")),
    "left unsummed": lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=P(unreduced={"X"})),
    "summed later": lambda a, b: reshard(jnp.einsum("ij,jk->ik", a, b, out_sharding=P(unreduced={"X"})), P()),
    "a product without": lambda a, b: a.T @ jnp.ones((8, 4)),
    "gathered": lambda a, b: reshard(a, P()),
    "cut along another dimension": lambda a, b: reshard(a, P("X", None)),
    "cut once more": lambda a, b: reshard(a, P("Y", "X")),
    "summed": lambda a, b: a.sum(1),
    "summed along what is whole": lambda a, b: (2 * a).sum(0),
    "in a loop": lambda a, b: lax.fori_loop(0, 3, lambda i, x: reshard(reshard(x, P()), P(None, "X")), a),
    "per device": lambda a, b: jax.shard_map(lambda x: lax.psum(x, "X"), in_specs=P(None, "X"), out_specs=P())(a),
}


@pytest.mark.parametrize("kind", EXPLICIT)
def test_what_explicit_axes_leave_to_the_compiler_is_said(kind):
    """Where, and only where, the compiled program sends what the jaxpr does not name."""
    with jax.set_mesh(jax.make_mesh((4, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2)):
        a, b = reshard(jnp.ones((8, 16)), P(None, "X")), reshard(jnp.ones((16, 8)), P("X"))
        s = trace.sent(EXPLICIT[kind], a, b)
        assert bool(s or s.doubts) == bool(trace.made(EXPLICIT[kind], a, b).collectives), s
        assert all("Explicit" in doubt for doubt in s.doubts) and not (s and s.doubts)
        if kind == "in a loop":
            assert "3 operations leave" in str(s)


# ---- logical collectives


@pytest.mark.parametrize(
    "f, said",
    [
        (
            lambda x: lax.all_gather(lax.all_gather(x, "Y", tiled=True), "X", tiled=True),
            ["AllGather_XY bf16[16, 16] -> [128, 16]"],
        ),
        (
            lambda x: lax.all_gather(lax.all_gather(x, "Y", axis=1, tiled=True).T, "X", axis=1),
            ["AllGather_XY bf16[16, 16] -> [32, 4, 16]"],
        ),
        (
            lambda x: lax.psum_scatter(lax.psum_scatter(x, "X", tiled=True), "Y", tiled=True),
            ["ReduceScatter_XY bf16[16, 16] -> [2, 16]"],
        ),
        (lambda x: lax.psum(lax.psum(x, "X"), "Y"), ["AllReduce_X bf16[16, 16] -> [16, 16]", "AllReduce_Y bf16[16, 16] -> [16, 16]"]),
        (lambda x: lax.psum(x, "X") + lax.psum(x, "Y"), ["AllReduce_X bf16[16, 16] -> [16, 16]", "AllReduce_Y bf16[16, 16] -> [16, 16]"]),
        (lambda x: lax.psum(2 * lax.psum(x, "X"), "Y"), ["AllReduce_X bf16[16, 16] -> [16, 16]", "AllReduce_Y bf16[16, 16] -> [16, 16]"]),
        (lambda x: lax.psum(lax.psum(x, "X"), "X"), ["AllReduce_X bf16[16, 16] -> [16, 16]"] * 2),
        (
            lambda x: lax.all_to_all(lax.all_to_all(x, "X", 1, 0, tiled=True), "Y", 1, 0, tiled=True),
            ["AllToAll_XY bf16[16, 16] -> [128, 2]"],
        ),
        (
            lambda x: lax.all_to_all(lax.all_to_all(x, "X", 1, 0, tiled=True), "Y", 0, 1, tiled=True),
            ["AllToAll_X bf16[16, 16] -> [64, 4]", "AllToAll_Y bf16[64, 4] -> [32, 8]"],
        ),
    ],
)  # fmt: skip
def test_one_after_the_other_is_one_logical_collective(f, said):
    assert [str(c) for c in trace.merged(trace.sent(sm(f, P(), P()), X16))] == said
