"""The notation: parsed, printed, and what each device holds, against counting elements one by one."""

from itertools import product

import pytest
from hypothesis import given, strategies as st

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.resharding import steps
from helpers.costs.sharding.sharded_array import Axis, Mesh, Sharding, bytes_each, parse
from tests.helpers.costs.tables import refused

MESH = Mesh({"X": 4, "Y": 2, "Z": 3})


@st.composite
def any_sharding(draw):
    """A sharding of two or three dimensions over X, Y, Z, with or without partial sums."""
    axes = draw(st.permutations("XYZ"))
    cut = sorted(draw(st.lists(st.integers(0, 3), min_size=3, max_size=3)))
    parts = [tuple(axes[a:b]) for a, b in zip([0, *cut], [*cut, 3])]
    dims = ("I", "J", "d0")[: draw(st.integers(2, 3))]
    return Sharding("A", dims, tuple(parts[: len(dims)]), parts[3])


@given(any_sharding())
def test_what_is_printed_is_parsed_back(a):
    assert parse(str(a)) == a


@given(any_sharding())
def test_blocks_cover_the_array_once_for_each_copy(a):
    sizes = dict(zip(a.dims, (24, 48, 24)))
    seen = dict.fromkeys(product(*(range(sizes[d]) for d in a.dims[:2])), 0)
    for at in MESH.coordinates():
        slices = a.slices(at, sizes, MESH)
        assert a.local(sizes, MESH) == tuple(stop - start for start, stop in slices)
        if len(a.dims) == 3 and slices[2][0] != 0:
            continue
        for element in product(*(range(*s) for s in slices[:2])):
            seen[element] += 1
    assert set(seen.values()) == {a.copies(MESH) * MESH.size(a.unreduced)}
    assert a.parts(MESH) * a.copies(MESH) * MESH.size(a.unreduced) == MESH.devices


def test_spellings_that_mean_the_same():
    for text in ("A[I_X,J_{YZ}]{U_W}", " A [ I_X , J_YZ ] { U_W } ", "A[I_X, J_YZ] {U_{W}}"):
        assert str(parse(text)) == "A[I_X, J_YZ] {U_W}"
    assert parse("W_in[D, F]").name == "W_in"
    assert str(parse("L[] {U_X}")) == "L[] {U_X}" and parse("L[]").local({}, MESH) == ()


def test_forbidden_notation():
    for says, texts in (
        ("names axis X twice", ("A[I_X, J_X]", "A[I_X, J] {U_X}", "A[I_XX, J]")),
        ("names dimension I twice", ("A[I, I]",)),
        ("not in the notation", ("A[I_x]", "A[I, J", "A[I] {X}")),
    ):
        refused(*((lambda text=text: parse(text), says) for text in texts))


def test_shardings_that_do_not_fit_the_mesh_or_the_array():
    refused(
        (lambda: parse("A[I_W, J]").check(MESH), "names axis W: use one that the mesh has, X, Y, Z"),
        (lambda: parse("A[I_XY, J]").local({"I": 12, "J": 4}, MESH), "XY is 8 and does not divide I = 12; .* 8 and 16"),
        (lambda: parse("A[I_X]").local({"I": 2}, MESH), "X is 4 and does not divide I = 2; .* 4 and its multiples"),
        (lambda: parse("A[I_X, J]").local({"I": 4}, MESH), "dimension J whose size is not given"),
        (lambda: parse("A[I, J]").at("K"), "no dimension K: it has I, J"),
        (lambda: bytes_each("bf17"), "no number type is called 'bf17'"),
    )


def test_meshes():
    assert [MESH.size(n) for n in ("", "X", "ZY", "XYZ")] == [1, 4, 6, 24]
    assert len(list(MESH.coordinates())) == 24 and list(MESH.coordinates())[7] == {"X": 1, "Y": 0, "Z": 1}
    assert Mesh({"X": 4}) == Mesh({"X": Axis(4)}) != Mesh({"X": Axis(4, False)})
    cube = Slice(chip("v5p"), (4, 4, 8))
    assert Mesh.on(cube, {"A": (0, 2), "B": (1,)}).sizes == {"A": 32, "B": 4}
    assert Mesh.on(Slice(chip("v5e"), (4, 16)), "XY").wires("YX") == (Axis(16, True), Axis(4, False))
    refused(
        (lambda: Mesh({"x": 4}), "one capital letter"),
        (lambda: Mesh({"X": 0}), "1 or more chips"),
        (lambda: MESH["W"], "no axis W: it has X, Y, Z"),
        (lambda: MESH.size("XW"), "no axis W"),
        (lambda: Mesh.on(cube, "XY"), "3 axes of the slice are each used once"),
    )


def test_a_whole_array_has_no_summands():
    sizes, mesh = dict(I=8, J=8), Mesh({"X": 4})
    with pytest.raises(ValueError, match=r"nothing turns A\[I, J\] into A\[I, J\] \{U_X\}"):
        steps(parse("A[I, J]"), parse("A[I, J] {U_X}"), sizes, mesh)
    assert [s.kind for s in steps(parse("A[I, J] {U_X}"), parse("A[I, J_X]"), sizes, mesh)] == ["ReduceScatter"]


def test_steps_avoid_shapes_that_do_not_divide():
    """I = 4 divides by X or Y, not by both: slice and gather must not pass through I_XY."""
    mesh = Mesh({"X": 4, "Y": 2})
    for s in steps(parse("A[I_X, J]"), parse("A[I_Y, J]"), dict(I=4, J=3), mesh):
        s.before.check(mesh, dict(I=4, J=3))
        s.after.check(mesh, dict(I=4, J=3))
