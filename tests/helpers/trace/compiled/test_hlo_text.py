"""The compiler's collectives, read from its text: group spellings, schedules, loops, and real programs for this CPU."""

import json

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.trace.compiled import compiled_program
from helpers.trace.compiled.compiled_program import made
from helpers.trace.compiled.hlo_text import Text, read
from helpers.trace.jaxpr.collectives import moving
from helpers.trace.stablehlo.replica_groups import axes_of, groups, pairs

N = 256
SPELLINGS = {
    "replica_groups={{0,2},{1,3}}, dimensions={0}": (4, [[0, 2], [1, 3]]),
    "replica_groups={}, dimensions={0}": (4, [[0, 1, 2, 3]]),
    "replica_groups=[4,2]<=[8], dimensions={0}": (8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    "replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}": (8, [[0, 2, 4, 6], [1, 3, 5, 7]]),
    "replica_groups=mesh['X'=4,'Y'=2] {'X':(2)2}, x": (8, [[0, 2], [1, 3], [4, 6], [5, 7]]),
    "replica_groups=mesh['X'=4,'Y'=2] {'X':(1)2}, x": (8, [[0, 4], [2, 6], [1, 5], [3, 7]]),
    "replica_groups=mesh['X'=4,'Y'=2] {'Y','X'}, x": (8, [[0, 2, 4, 6, 1, 3, 5, 7]]),
    "replica_groups=mesh['a'=2,'b'=4], device_ids=([2,2,2]T(0,2,1)) {'b':(2)2}, m": (
        8,
        [[0, 2], [1, 3], [4, 6], [5, 7]],
    ),
    "replica_groups=mesh['a'=4,'b'=1,'c'=2], device_ids=([4,2]T(1,0)) {'c'}, m": (8, [[0, 2], [4, 6], [1, 3], [5, 7]]),
    "replica_groups=mesh['a'=1,'b'=2,'c'=2] {'b'}, u": (4, [[0, 2], [1, 3]]),
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_spelling_of_groups(text):
    devices, wanted = SPELLINGS[text]
    assert sorted(groups(text, devices)) == sorted(wanted)
    assert sorted(d for g in wanted for d in g) == list(range(devices))


def test_groups_are_named_by_the_axes_of_the_mesh():
    sizes = {"X": 2, "Y": 2, "Z": 2}
    assert axes_of([[0, 4], [1, 5], [2, 6], [3, 7]], sizes) == ("X",)
    assert axes_of([[0, 1, 4, 5], [2, 3, 6, 7]], sizes) == ("X", "Z")
    assert axes_of([[0, 4, 1, 5], [2, 6, 3, 7]], sizes) == ("Z", "X")
    assert axes_of([[0, 3], [1, 2], [4, 7], [5, 6]], sizes) is None  # along no axis
    assert axes_of([[0, 2], [4, 6], [1, 3], [5, 7]], {"X": 4, "Y": 2}) is None  # a half of an axis
    ring = pairs("source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}, x")
    assert moving(("X", "Y"), ring, {"X": 4, "Y": 2}) == ("X",)
    assert moving(("X", "Y"), [(0, 3)], {"X": 2, "Y": 2}) == ("X", "Y")


RING = """HloModule step, is_scheduled=true, num_partitions=4

%part (a: f32[8,8], b: f32[8,8]) -> f32[8,8] {
  %a = f32[8,8]{1,0} parameter(0)
  %b = f32[8,8]{1,0} parameter(1)
  ROOT %dot.1 = f32[8,8]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (s: (u32[], f32[8,8])) -> (u32[], f32[8,8]) {
  %s = (u32[], f32[8,8]{1,0}) parameter(0)
  %i = u32[] get-tuple-element(%s), index=0
  %x = f32[8,8]{1,0} get-tuple-element(%s), index=1
  %two = u32[] constant(STEP)
  %next = u32[] add(%i, %two)
  %go = (f32[8,8]{1,0}, f32[8,8]{1,0}, u32[], u32[]) collective-permute-start(%x), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %product = f32[8,8]{1,0} fusion(%x, %x), kind=kOutput, calls=%part
  %came = f32[8,8]{1,0} collective-permute-done(%go)
  %last = f32[8,8]{1,0} fusion(%product, %came), kind=kOutput, calls=%part
  ROOT %out = (u32[], f32[8,8]{1,0}) tuple(%next, %last)
}

%more (s.1: (u32[], f32[8,8])) -> pred[] {
  %s.1 = (u32[], f32[8,8]{1,0}) parameter(0)
  %limit = u32[] constant(8)
  %i.1 = u32[] get-tuple-element(%s.1), index=0
  ROOT %test = pred[] compare(%i.1, %limit), direction=LT
}

ENTRY %main (p: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  %zero = u32[] constant(FIRST)
  %start = (u32[], f32[8,8]{1,0}) tuple(%zero, %p)
  %loop = (u32[], f32[8,8]{1,0}) while(%start), condition=%more, body=%body
  ROOT %r = f32[8,8]{1,0} get-tuple-element(%loop), index=1
}
"""


@pytest.mark.parametrize(("first", "step", "times"), [(0, 1, 8), (0, 2, 4), (3, 2, 3), (8, 1, 0)])
def test_a_loop_without_a_count_is_counted_by_its_counter(first, step, times):
    (ring,) = read(RING.replace("STEP", str(step)).replace("FIRST", str(first)), {"X": 4})
    assert (ring.kind, ring.axes, ring.n, ring.times) == ("Permute", ("X",), 4, times)
    assert ring.bytes == 256 and ring.behind == 1  # of the two matmuls, one stands between start and end


def test_a_loop_that_does_not_say_is_unknown_not_once():
    text = RING.replace("STEP", "1").replace("u32[] constant(FIRST)", "u32[] custom-call()")
    (ring,) = read(text, {"X": 4})
    assert ring.times is None and str(ring).startswith("? x") and ring.wire == 256


def test_text_that_is_not_scheduled_says_nothing_about_overlap():
    text = RING.replace("STEP", "1").replace("FIRST", "0").replace(", is_scheduled=true", "")
    assert read(text, {"X": 4})[0].behind is None and Text(text).matmuls_in("main") == 2


PIECES = """HloModule two, is_scheduled=true, num_partitions=4

%go (p.1: s8[2,4]) -> s8[8,4] {
  %p.1 = s8[2,4]{1,0} parameter(0)
  %g.1 = s8[8,4]{1,0} all-gather(%p.1), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, frontend_attributes={chain_id="0"}
  ROOT %c.1 = s8[8,4]{1,0} custom-call(%g.1), custom_call_target="AsyncCollectiveStart"
}

%beside (p.2: s8[2,4], q.2: f32[8,8]) -> f32[8,8] {
  %p.2 = s8[2,4]{1,0} parameter(0)
  %q.2 = f32[8,8]{1,0} parameter(1)
  %g.2 = s8[8,4]{1,0} all-gather(%p.2), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, frontend_attributes={chain_id="0"}
  ROOT %dot.2 = f32[8,8]{1,0} dot(%q.2, %q.2)
}

%end (p.3: s8[2,4]) -> s8[8,4] {
  %p.3 = s8[2,4]{1,0} parameter(0)
  %g.3 = s8[8,4]{1,0} all-gather(%p.3), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, frontend_attributes={chain_id="0"}
  ROOT %c.3 = s8[8,4]{1,0} custom-call(%g.3), custom_call_target="AsyncCollectiveDone"
}

%all-reduce-scatter (p.4: f32[8,8]) -> f32[2,8] {
  %p.4 = f32[8,8]{1,0} parameter(0)
  %sum.4 = f32[8,8]{1,0} all-reduce(%p.4), channel_id=9, replica_groups={{0,1,2,3}}, to_apply=%add
  ROOT %d.4 = f32[2,8]{1,0} dynamic-slice(%sum.4), dynamic_slice_sizes={2,8}
}

ENTRY %main (p: s8[2,4], q: f32[8,8]) -> f32[2,8] {
  %p = s8[2,4]{1,0} parameter(0)
  %q = f32[8,8]{1,0} parameter(1)
  %waits = s8[8,4]{1,0} all-gather(%p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %async-collective-start = s8[8,4]{1,0} fusion(%p), kind=kCustom, calls=%go
  %fusion.9 = f32[8,8]{1,0} fusion(%p, %q), kind=kOutput, calls=%beside
  %async-collective-done = s8[8,4]{1,0} fusion(%p), kind=kCustom, calls=%end
  ROOT %r = f32[2,8]{1,0} fusion(%fusion.9), kind=kCustom, calls=%all-reduce-scatter
}
"""


def test_pieces_of_one_gather_are_one_and_a_tpu_s_reduce_scatter_is_one():
    waits, spread, scatter = read(PIECES, {"X": 4})  # both gathers have channel 1: the channel does not tell them apart
    assert (waits.kind, waits.behind, waits.pieces) == ("AllGather", None, 1)
    assert (spread.kind, spread.behind, spread.pieces) == ("AllGather", 1, 3)
    assert spread.ins == (("int8", (2, 4)),) and spread.bytes == 32 and spread.wire == 24
    assert (scatter.kind, scatter.outs, scatter.bytes) == ("ReduceScatter", (("f32", (2, 8)),), 256)


@pytest.fixture(scope="module")
def grid():
    return meshes.mesh((4, 2), ("X", "Y"))


def arr(grid, how, dtype="float32", shape=(N, N)):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(grid, how))


def product(grid, out):
    return jax.jit(jnp.matmul, out_shardings=NamedSharding(grid, out))


CASES = {  # the four sharded matmuls by XLA's partitioner on a CPU: kind, axes, bytes of V
    "1": (P("X"), P(None, "Y"), P("X", "Y"), None),
    "2": (P("X", "Y"), P(), P("X"), ("AllGather", ("Y",), 4 * N * N / 4)),
    "2 weights": (P("X"), P("X", "Y"), P("X", "Y"), ("AllGather", ("X",), 4 * N * N / 2)),
    "3": (P(None, "X"), P("X"), P(), ("AllReduce", ("X",), 4 * N * N)),
    "3 scattered": (P(None, "X"), P("X"), P(None, "X"), ("AllReduce", ("X",), 4 * N * N)),
    "4": (P("X"), P(None, "X"), P("X"), ("AllGather", ("X",), 4 * N * N)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sample(quick=3)
def test_the_four_matmuls_on_this_cpu(case, grid):
    a, b, out, wanted = CASES[case]
    p = made(product(grid, out), arr(grid, a), arr(grid, b))
    assert [(c.kind, c.axes, c.bytes) for c in p.collectives] == ([wanted] if wanted else [])
    assert p.target == "cpu" and p.sizes == {"X": 4, "Y": 2} and p.matmuls == 1


def hop(a):
    return lax.ppermute(a, "X", [(i, (i + 1) % 4) for i in range(4)])


ASKED = {  # per-device programs in f32 that XLA:CPU leaves as they are
    "gather": (lambda a: lax.all_gather(a, "X", tiled=True), P("X"), P()),
    "gather both ways round": (lambda a: lax.all_gather(a, ("Y", "X"), tiled=True), P(("Y", "X")), P()),
    "scatter": (lambda a: lax.psum_scatter(a, "X", tiled=True), P(None, "Y"), P("X", "Y")),
    "reduce": (lambda a: lax.psum(a, ("X", "Y")), P(("X", "Y")), P()),
    "permute": (hop, P("X"), P("X")),
    "loop": (lambda a: lax.fori_loop(0, 5, lambda _, x: hop(x) * 2, a), P("X"), P("X")),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.sample(quick=3)
def test_what_is_asked_for_in_shard_map_is_what_is_compiled(name, grid):
    f, ins, out = ASKED[name]
    program, given = meshes.sharded(f, grid, [ins], out), arr(grid, ins)
    (c,), sent = made(program, given).collectives, trace.sent(program, given)
    (asked,) = sent
    assert (c.kind, c.axes, c.times, c.wire) == (asked.kind, asked.axes, asked.times, sent.wire)
    assert (c.ins, c.outs) == (((asked.dtype, asked.shape),), ((asked.dtype, asked.out),))


def test_an_all_to_all_in_pieces_is_one_array(grid):
    program = meshes.sharded(lambda a: lax.all_to_all(a, "X", 1, 0, tiled=True), grid, [P("X")], P(None, "X"))
    given = arr(grid, P("X"))
    (c,) = made(program, given).collectives
    assert (c.kind, c.axes, c.bytes, c.wire) == ("AllToAll", ("X",), 4 * N * N, trace.sent(program, given).wire)


def test_records_survive_json_and_tables_show_them(grid):
    p = made(product(grid, P()), arr(grid, P(None, "X")), arr(grid, P("X")))
    again = compiled_program.from_json(json.loads(json.dumps(compiled_program.to_json(p))), "stored")
    assert again.collectives == p.collectives and again.memory == p.memory and again.note == "stored"
    assert "AllReduce_X" in str(p) and "stored" in str(again)
    html = p._repr_html_()
    assert html.count("<tr>") == html.count("</tr>") == 1 + len(p.rows()) and 'scope="row"' in html


def test_a_refusal_is_its_two_numbers_and_other_errors_are_not_refusals():
    said = "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required (104.00G) exceeds available HBM (15.75G)."
    assert compiled_program.refusal(said) == compiled_program.Refused(104 * 2**30, 15.75 * 2**30)
    assert "104.0 GiB" in str(compiled_program.refusal(said)) and "15.75 GiB" in str(compiled_program.refusal(said))
    assert compiled_program.refusal("INVALID_ARGUMENT: no") is None
