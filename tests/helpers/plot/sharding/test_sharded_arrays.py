"""Layouts and films as pictures: what they show is what the arrays and films say."""

import pytest

from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.sharded_array import Axis, Mesh, parse
from helpers.plot.sharding import collective_steps as film
from helpers.plot.sharding.sharded_arrays import holders

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


@pytest.mark.parametrize("run", [f for f in FILMS if f.kind != "AllToAll"], ids=lambda f: f"{f.kind} {f.axis.n}")
def test_a_frame_fills_what_is_held_and_draws_what_is_sent(run):
    for frame in run.frames:
        drawn = film.drawing(run, frame)
        filled = sum(len(set(h) | frame.works[d] | frame.done[d]) for d, h in enumerate(frame.held))
        assert drawn.count("fill-opacity") == filled
        assert drawn.count("stroke-dasharray") == sum(map(len, frame.works))
        round_the_back = sum(abs(s.src - s.dst) != 1 for s in frame.sends)
        assert drawn.count('v8z"') == len(frame.sends) + round_the_back
