"""Programs for two TPU slices: what is stored equals the formulas of two tiers, and what the text says is what is read."""

import json
import runpy
from math import prod
from pathlib import Path

import pytest

from helpers.costs.racks import tiered_collectives as tiered
from helpers.trace.compiled import aot_compile_tpu, compiled_program
from helpers.trace.compiled.hlo_text import read
from helpers.trace.stablehlo.replica_groups import groups_between_slices

ROOT = Path(__file__).parents[4]
STORED = json.loads((ROOT / "book/results/ch07_compiler.json").read_text(encoding="utf-8"))
SIZES = {"X": 2, "Y": 4}
V = 2 * prod((8192, 1024)) / 8  # bf16 bytes of what one chip puts in

TEXT = """HloModule step, is_scheduled=true, num_partitions=4

ENTRY %main (p: bf16[64,8]) -> bf16[16,8] {
  %p = bf16[64,8]{1,0} parameter(0)
  %r = bf16[16,8]{1,0} reduce-scatter(%p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %t = token[] after-all()
  %send = (bf16[16,8]{1,0}, u32[], token[]) send(%r, %t), channel_id=2, is_host_transfer=true, frontend_attributes={ASKED}
  %recv = (bf16[16,8]{1,0}, u32[], token[]) recv(%t), channel_id=1, is_host_transfer=true, frontend_attributes={ASKED}
  %sent = token[] send-done(%send), channel_id=2, is_host_transfer=true
  %got = (bf16[16,8]{1,0}, token[]) recv-done(%recv), channel_id=1, is_host_transfer=true
  ROOT %out = bf16[16,8]{1,0} get-tuple-element(%got), index=0
}
"""
ASKED = 'TARGETrendezvous="a_0",_xla_megascale_transfer_type="ALL_REDUCE"'


def text(target="", kind="ALL_REDUCE"):
    """The program, whose send names `target` and asks for `kind`."""
    return TEXT.replace("ASKED", ASKED.replace("TARGET", target).replace("ALL_REDUCE", kind))


def sent(name):
    made = compiled_program.from_json(STORED["cases"][name]["made"])
    return [(c.kind, c.axes, c.wire) for c in made.collectives]


@pytest.mark.parametrize(
    "target", ['"{1,2}x{0:3}"', "{{100000,200000},{100001,200001},{100002,200002},{100003,200003}}"]
)
def test_a_send_between_slices_is_a_collective_along_their_axis(target):
    inside, across = read(text(f"_xla_megascale_target={target},"), SIZES)
    assert (inside.kind, inside.axes, inside.n, inside.wire) == ("ReduceScatter", ("Y",), 4, 64 * 8 * 2 * 3 / 4)
    assert (across.kind, across.axes, across.n, across.wire) == ("AllReduce", ("X",), 2, 16 * 8 * 2)


def test_a_send_to_all_chips_of_both_slices():
    every = ",".join(str(100_000 * s + c) for s in (2, 1) for c in (3, 0, 1, 2))
    asked = text(f"_xla_megascale_target={{{{{every}}}}},", "ALL_TO_ALL")
    assert [(c.kind, c.axes, c.n) for c in read(asked, SIZES)][1] == ("AllToAll", ("X", "Y"), 8)


def test_a_send_between_some_chips_of_both_slices_is_along_no_whole_axis():
    for target in ("{{100002,200002},{100003,200003}}", '"{1,2}x{2:3}"'):
        asked = text(f"_xla_megascale_target={target},")
        assert groups_between_slices(asked, 4) == [[2, 6], [3, 7]]
        assert [(c.kind, c.axes, c.n) for c in read(asked, SIZES)][1] == ("AllReduce", None, 2)


def test_a_send_that_names_no_chips_is_one_collective_all_the_same():
    assert [(c.kind, c.axes, c.n) for c in read(text(), SIZES)][1] == ("AllReduce", None, 4)


def test_a_send_to_the_host_is_no_collective():
    assert [c.kind for c in read(text().replace("megascale_transfer", "transfer"), SIZES)] == ["ReduceScatter"]


def test_a_flat_sum_is_made_the_three_steps_of_the_chapter():
    steps = [m.bytes for m in tiered.hierarchical("AllReduce", V, 4, 2)]
    found = sent("AllReduce, flat")
    assert found == sent("AllReduce, two tiers")
    assert [(kind, axes) for kind, axes, _ in found] == [
        ("ReduceScatter", ("Y",)),
        ("AllReduce", ("X",)),
        ("AllGather", ("Y",)),
    ]
    assert found[1][2] == steps[1] and found[0][2] + found[2][2] == pytest.approx(sum(steps) - steps[1])


def test_a_flat_gather_and_scatter_cross_once_and_a_flat_swap_is_left_flat():
    assert [axes for _, axes, _ in sent("AllGather, flat")] == [("X",), ("Y",)]
    assert sent("AllGather, flat")[0][2] == tiered.hierarchical("AllGather", 8 * V, 4, 2)[1].bytes
    assert sent("ReduceScatter, flat")[-1] == (
        "ReduceScatter",
        ("X",),
        tiered.hierarchical("ReduceScatter", V, 4, 2)[1].bytes,
    )
    assert [(kind, axes) for kind, axes, _ in sent("AllToAll, flat")] == [("AllToAll", ("X", "Y"))]
    assert [axes for _, axes, _ in sent("AllToAll, two tiers")] == [("Y",), ("X",)]


def test_what_is_stored_is_what_the_script_makes():
    script = runpy.run_path(str(ROOT / "book/results/ch07_compiler.py"))
    assert list(script["CASES"]) == list(STORED["cases"]) and "ch07_compiler.py" in STORED["command"]
    if not aot_compile_tpu.available():
        pytest.skip("libtpu is not installed: make env EXTRA=tpu")
    for name, f in script["CASES"].items():
        made = aot_compile_tpu.report(STORED, name, f, per_device=True)
        assert [(c.kind, c.axes, c.wire) for c in made.collectives] == sent(name), name
    with pytest.raises(ValueError, match="first axis of a mesh over 2 slices has 2 devices, not 4"):
        aot_compile_tpu.mesh("v5e:2x2", {"Y": 4, "X": 2}, slices=2)
