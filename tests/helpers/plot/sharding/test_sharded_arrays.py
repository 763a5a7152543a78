"""Layouts and films as pictures: what they show is what the arrays and films say."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers import plot
from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.sharded_array import Axis, Mesh, parse
from helpers.plot.picture import COLOURS
from helpers.plot.rooflines.chip_and_products import WHOLE
from helpers.plot.sharding import collective_steps as film
from helpers.plot.sharding.arrays_on_mesh import STRIPES
from helpers.plot.sharding.sharded_arrays import holders

SVG = "{http://www.w3.org/2000/svg}"
FILMS = [
    getattr(collective_steps, kind)(axis)
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "gather_matmul", "matmul_scatter")
    for axis in (Axis(4), Axis(5, wraps=False))
]


@pytest.mark.parametrize("text", ["A[I, J]", "A[I_X, J]", "A[I_X, J_Y]", "A[I_YX, J]", "A[I, J_Z] {U_X}", "B[J_ZX]"])
def test_every_device_stands_in_its_block(text):
    mesh, array = Mesh({"X": 2, "Y": 3, "Z": 2}), parse(text)
    held = holders(array, mesh)
    assert sorted(d for groups in held.values() for g in groups for d in g) == list(range(mesh.devices))
    for block, groups in held.items():
        assert len(groups) == mesh.size(array.unreduced) and {len(g) for g in groups} == {array.copies(mesh)}
        for d in (d for g in groups for d in g):
            assert array.block(list(mesh.coordinates())[d], mesh) == block


def test_a_block_has_the_colours_of_its_holders():
    arrays = [("A[I_X, J_Y]", ""), ("A[I_X, J]", ""), ("A[I, J]", "")]
    picture = plot.on_mesh(
        arrays, Mesh({"X": 2, "Y": 2}), "A square of four devices, and three arrays in their colours."
    )
    (ax,) = picture.figure.axes
    colours = [to_hex(p.get_facecolor()) for p in ax.patches if isinstance(p, Rectangle)]
    shares = [colours.count(c.lower()) for c in COLOURS[:4]]
    assert shares == [1 + 1 + STRIPES // 2] * 4 and colours.count(WHOLE) == 1


def test_a_layout_draws_each_block_with_its_devices():
    picture = plot.layout(["A[I_X, J_Y]", "A[I_X, J]", "A[I, J] {U_Y}"], {"X": 2, "Y": 2}, {"I": 8, "J": 4})
    whole, copied, partial = picture.figure.axes
    assert [t.get_text() for t in whole.texts] == ["0", "1", "2", "3"]
    assert [t.get_text() for t in copied.texts] == ["0, 1", "2, 3"]
    assert [t.get_text() for t in partial.texts] == ["(0, 2) + (1, 3)"]
    hatches = [
        {p.get_hatch() for p in ax.patches if isinstance(p, Rectangle) and p.get_hatch()} for ax in picture.figure.axes
    ]
    assert hatches == [set(), {"//"}, {"..."}]
    assert [ax.get_title() for ax in picture.figure.axes] == ["A[I_X, J_Y]", "A[I_X, J]", "A[I, J] {U_Y}"]
    assert copied.get_xlabel() == "each device [4, 4]\n2 copies of each block"
    assert "A[I_X, J]: 2 blocks: block 0, 0 on 0, 1; block 1, 0 on 2, 3." in picture.alt


def test_the_order_of_axes_shows():
    first, second = plot.layout(["A[I_XY, J]", "A[I_YX, J]"], {"X": 2, "Y": 2}).figure.axes
    assert [t.get_text() for t in first.texts] == ["0", "1", "2", "3"]
    assert [t.get_text() for t in second.texts] == ["0", "2", "1", "3"]
    assert [t.get_text() for t in second.get_yticklabels()] == ["y0 x0", "y0 x1", "y1 x0", "y1 x1"]


@pytest.mark.parametrize("run", FILMS, ids=lambda f: f"{f.kind} {f.axis.n}")
@pytest.mark.sample(quick=4, slow=4)
def test_a_film_as_a_picture_is_sound_svg_with_every_frame(run):
    picture = plot.frames(run)
    tree = ElementTree.fromstring(picture.svg())
    assert len(tree.findall(f"{SVG}svg")) == len(run.frames)
    assert [t.text for t in tree.findall(f"{SVG}svg/{SVG}g/{SVG}text") if re.match("step|end", t.text)] == [
        f.label for f in run.frames
    ]
    assert picture.alt == run.alt and "img alt=" in picture._repr_html_()
    assert plot.frames(run).svg() == picture.svg()


@pytest.mark.parametrize("run", [f for f in FILMS if f.kind != "AllToAll"], ids=lambda f: f"{f.kind} {f.axis.n}")
def test_a_frame_fills_what_is_held_and_draws_what_is_sent(run):
    for frame in run.frames:
        drawn = film.drawing(run, frame)
        filled = sum(len(set(h) | frame.works[d] | frame.done[d]) for d, h in enumerate(frame.held))
        assert drawn.count("fill-opacity") == filled
        assert drawn.count("stroke-dasharray") == sum(map(len, frame.works))
        round_the_back = sum(abs(s.src - s.dst) != 1 for s in frame.sends)
        assert drawn.count('v8z"') == len(frame.sends) + round_the_back


def test_links_of_an_all_to_all_carry_their_number_of_blocks():
    run = collective_steps.all_to_all(Axis(4))
    assert film.drawing(run, run.frames[0]).count(">1½<") == 2 * (
        3 + 2
    )  # 4 links a direction, one of them drawn at both sides
    assert film.drawing(run, run.frames[1]).count(">½<") == 10
