"""The same list from an exported program as from its jaxpr, over many programs."""

import itertools
import random

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.sharding import PartitionSpec as P

from helpers import trace
from helpers.costs.sharding.sharded_array import Mesh
from helpers.kernels import mesh as meshes
from helpers.kernels.mesh import mesh
from helpers.trace.jaxpr import collectives
from helpers.trace.stablehlo import collectives as stablehlo
from helpers.trace.stablehlo.collectives import permutes_before_products
from helpers.trace.stablehlo.replica_groups import group_axes

MESHES = {"4x2": {"X": 4, "Y": 2}, "2x2x2": {"X": 2, "Y": 2, "Z": 2}}


def arr(*shape, dtype="bfloat16"):
    return jax.ShapeDtypeStruct(shape, dtype)


def both(f, ins, out, *args, on, **k):
    """(from the jaxpr, from StableHLO); the program is wrapped in shard_map here."""
    m = mesh(tuple(on.values()), tuple(on))
    g = jax.shard_map(f, mesh=m, in_specs=ins, out_specs=out, **({"check_vma": False} | k))
    return trace.sent(g, *args), trace.sent_by(export.export(jax.jit(g))(*args), m)


def agree(f, ins, out, *args, on=MESHES["4x2"], doubts=True, **k):
    here, there = both(f, ins, out, *args, on=on, **k)
    assert here and here == there and here.sizes == there.sizes
    assert trace.merged(here) == trace.merged(there)
    assert not doubts or here.doubts == there.doubts
    return there


def orders(sizes):
    """Every choice of axes in every order."""
    return [axes for n in range(1, len(sizes) + 1) for axes in itertools.permutations(sizes, n)]


@pytest.mark.parametrize("name, axes", [(name, axes) for name, sizes in MESHES.items() for axes in orders(sizes)])
@pytest.mark.sample(quick=3, slow=3, kind="name")
def test_every_kind_over_every_choice_of_axes(name, axes):
    n = int(np.prod([MESHES[name][a] for a in axes]))
    shift = [(i, (i + 1) % n) for i in range(n)]

    def f(x):
        whole = lax.all_gather(x, axes, axis=1, tiled=True)
        part = lax.psum_scatter(whole, axes, scatter_dimension=0, tiled=True)
        part = lax.psum(part, axes) + lax.pmax(part, axes).astype(x.dtype)
        moved = lax.all_to_all(whole, axes, 0, 1, tiled=True)
        return lax.ppermute(part, tuple(sorted(axes)), shift), lax.psum((moved.sum(), moved), axes)

    assert len(agree(f, P(), P(), arr(16, 16), on=MESHES[name])) == 8


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "int32", "int4", "float8_e4m3fn"])
def test_types_are_kept(dtype):
    got = agree(
        lambda x: lax.ppermute(lax.all_gather(x, "X", tiled=True), "Y", [(0, 1)]), P("X"), P(), arr(16, 4, dtype=dtype)
    )
    assert {c.dtype for c in got} == {collectives.short(jnp.dtype(dtype))}


def test_loops_calls_and_functions_called_twice():
    twice = jax.jit(lambda x: lax.psum(lax.ppermute(x, "X", [(0, 1), (1, 0)]), "Y"))

    def f(x):
        x = lax.scan(lambda c, _: (twice(lax.fori_loop(0, 5, lambda i, d: lax.pmax(d, "X"), c)), None), x, length=7)[0]
        x = lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2, twice(c[1])), (1, x))[1]
        return twice(twice(x))

    got = agree(f, P("X"), P("X"), arr(16, 4))
    assert got.kinds == {"AllReduce": 35 + 7 + 4 + 2, "Permute": 7 + 4 + 2} and not got.doubts


def test_a_loop_over_layers_and_its_gradient():
    def loss(w, x):
        def layer(x, w):
            return jnp.tanh(x @ lax.all_gather(w, "X", tiled=True)), None

        return lax.psum((lax.scan(layer, x, w)[0] ** 2).sum(), "Y")

    args = arr(10, 16, 16, dtype="float32"), arr(8, 16, dtype="float32")
    got = agree(jax.grad(loss), (P(None, "X"), P("Y")), P(None, "X"), *args)
    assert got.kinds == {"AllGather": 10, "ReduceScatter": 10, "AllReduce": 1}
    got = agree(jax.grad(jax.checkpoint(loss)), (P(None, "X"), P("Y")), P(None, "X"), *args)
    assert got.kinds["ReduceScatter"] == 10 and got.kinds["AllGather"] >= 10


def test_gradient_from_outside_with_vma():
    on = MESHES["4x2"]
    m = mesh((4, 2), ("X", "Y"))
    f = jax.shard_map(
        lambda w, x: lax.psum((x @ lax.all_gather(w, "X", tiled=True)).sum(), ("X", "Y")),
        mesh=m, in_specs=(P("X"), P(("X", "Y"))), out_specs=P(),
    )  # fmt: skip
    args = arr(16, 4, dtype="float32"), arr(8, 16, dtype="float32")
    here = trace.sent(jax.grad(f), *args)
    assert here.kinds["ReduceScatter"] == 1
    assert here == trace.sent_by(export.export(jax.jit(jax.grad(f)))(*args), on)


def test_untiled_collectives():
    def f(x):
        whole = lax.all_gather(x, "X", axis=1)
        return lax.all_to_all(lax.psum_scatter(whole, "X", scatter_dimension=1)[:2], "Y", 0, 1)

    assert len(agree(f, P("X"), P(), arr(16, 4))) == 3


def test_branches_and_loops_of_unknown_length():
    def f(x):
        x = lax.cond(x.sum() > 0, lambda x: x @ x.T @ x, lambda x: lax.psum(x, "X"), x)
        return lax.while_loop(lambda c: c.sum() < 9, lambda c: lax.psum(c, "Y"), x)

    got = agree(f, P("X"), P("X"), arr(16, 4))
    assert got.kinds == {"AllReduce": 2} and len(got.doubts) == 2


def test_what_nobody_uses_and_what_moves_nothing_is_in_neither():
    def f(x):
        lax.psum(x, "X")
        return lax.psum(lax.ppermute(x, "X", [(i, i) for i in range(4)]), "Y")

    assert len(agree(f, P("X"), P("X"), arr(16, 4))) == 1


@pytest.mark.parametrize(
    "groups, within", [([[0, 1], [2, 3]], 2), ([[0, 3], [2, 1]], 2), ([[1, 0, 2, 3]], None), ([[0, 1, 3], [2]], 3)]
)
def test_groups_along_an_axis(groups, within):
    got = agree(lambda x: lax.psum(x, "X", axis_index_groups=groups), P("X"), P("X"), arr(16, 4))
    assert got[0].axes == ("X",) and got[0].within == within and not got.doubts


def test_partly_manual():
    on = MESHES["2x2x2"]
    f = lambda x: lax.psum(lax.all_gather(x, "Z", tiled=True), "Y")  # noqa: E731
    got = agree(f, P(("Y", "Z")), P(), arr(16, 4), on=on, axis_names={"Y", "Z"}, doubts=False)
    assert [c.axes for c in got] == [("Z",), ("Y",)]


def test_axes_of_size_one_may_lose_their_names():
    on = {"X": 4, "Y": 1, "Z": 2}
    here, there = both(lambda x: lax.psum(lax.psum(x, "Y"), ("X", "Y")), P("X"), P(), arr(16, 4), on=on)
    assert [c.axes for c in here] == [("Y",), ("X", "Y")]
    assert there[0] == here[0] and there[1].axes in (("X",), ("X", "Y"))
    assert here.wire == there.wire


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample(quick=2)
def test_random_programs(seed):
    r = random.Random(seed)
    sizes = r.choice(list(MESHES.values()))

    def step():
        axes = r.choice(orders(sizes))
        n = int(np.prod([sizes[a] for a in axes]))
        perm = list(enumerate(r.sample(range(n), n)))
        if all(i == j for i, j in perm):
            perm = [(0, n - 1)]
        return r.choice(
            [
                lambda x: lax.psum(x, axes),
                lambda x: lax.all_gather(x, axes, tiled=True)[: x.shape[0]],
                lambda x: lax.psum_scatter(x, axes, scatter_dimension=1, tiled=True).repeat(n, 1),
                lambda x: lax.all_to_all(x, axes, 0, 0, tiled=True),
                lambda x: lax.ppermute(x, tuple(sorted(axes)), perm),  # newer versions refuse another order
                lambda x: lax.pmin(jnp.sin(x), axes),
            ]
        )

    steps, loop, trips = [step() for _ in range(6)], [step() for _ in range(2)], r.randint(1, 9)

    def f(x):
        for s in steps:
            x = jax.jit(s)(x) if r.random() < 0.3 else s(x)
        for _ in range(r.randint(0, 1)):
            x = x.astype("float32")

        def body(c, _):
            for s in loop:
                c = s(c)
            return c, None

        return lax.scan(body, x, length=trips)[0]

    state = r.getstate()
    m = mesh(tuple(sizes.values()), tuple(sizes))
    g = jax.shard_map(f, mesh=m, in_specs=P(), out_specs=P(), check_vma=False)
    here = trace.sent(g, arr(16, 16))
    r.setstate(state)  # the same choices when it is traced again
    assert here == trace.sent_by(export.export(jax.jit(lambda x: g(x)))(arr(16, 16)), sizes)


def test_any_kind_of_mesh_and_a_program_that_was_sent_over():
    pytest.importorskip("flatbuffers")
    m = mesh((4, 2), ("X", "Y"))
    g = jax.shard_map(lambda x: lax.psum(x, "Y"), mesh=m, in_specs=P("X"), out_specs=P("X"), check_vma=False)
    e = export.deserialize(export.export(jax.jit(g))(arr(16, 4)).serialize())
    assert len({trace.sent_by(e, on) for on in (m, Mesh({"X": 4, "Y": 2}))} | {trace.sent(g, arr(16, 4))}) == 1
    with pytest.raises(ValueError, match="for 8 devices, more or fewer than the mesh"):
        trace.sent_by(e, {"X": 4})


def test_the_largest_array_of_a_device():
    m = mesh((4, 2), ("X", "Y"))
    f = lambda x: lax.psum_scatter(lax.all_gather(x, "X", axis=1, tiled=True) @ x.T.repeat(4, 0), "Y", tiled=True)  # noqa: E731
    g = jax.shard_map(f, mesh=m, in_specs=P(None, "X"), out_specs=P("Y"), check_vma=False)
    e = export.export(jax.jit(g))(arr(16, 512))
    assert (
        stablehlo.device_program(e, m).largest
        == collectives.device_program(jax.make_jaxpr(g)(arr(16, 512))).largest
        == 16 * 512 * 2
    )


def test_one_reading_sees_what_a_branch_makes_that_sends_less():
    m = mesh((8,), ("X",))
    hop = lambda x: lax.ppermute(x, "X", [(i, (i + 3) % 8) for i in range(8)])  # noqa: E731
    f = lambda x: lax.cond(x[0, 0] > 0, hop, lambda x: (x.T @ x)[:1], x)  # noqa: E731
    e = export.export(jax.jit(jax.shard_map(f, mesh=m, in_specs=P("X"), out_specs=P("X"), check_vma=False)))(
        arr(8, 512)
    )
    told = stablehlo.device_program(e, m)
    assert (told.sent, told.far) == (trace.sent_by(e, m), 3) and told.sent.kinds == {"Permute": 1}
    assert told.flops == 2 * 512 * 512  # of the branch that sends nothing
    assert told.largest == 512 * 512 * 2 and ((512, 512), "bf16") in told.made


@pytest.mark.parametrize("sizes", [*MESHES.values(), {"X": 2, "Y": 4}, {"X": 2, "Y": 1, "Z": 4}])
def test_groups_written_as_device_numbers_name_their_axes(sizes):
    wide = {a: n for a, n in sizes.items() if n > 1}
    for axes in orders(wide):
        ids = np.arange(8).reshape(list(sizes.values()))
        at = [list(sizes).index(a) for a in axes]
        rows = np.moveaxis(ids, at, range(-len(at), 0)).reshape(-1, int(np.prod([sizes[a] for a in axes])))
        assert group_axes(np.random.default_rng(0).permutation(rows), sizes) == (axes, True)


NEXT = [(i, (i + 1) % 4) for i in range(4)]


def waits(f) -> list[int]:
    mesh, P = meshes.mesh((4,), ("X",)), jax.P
    program = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("X"), out_specs=P("X"), check_vma=False))
    return permutes_before_products(jax.export.export(program)(jax.ShapeDtypeStruct((16, 4), "float32")))


def blocks(a):
    out = [a]
    for _ in range(3):
        out.append(jax.lax.ppermute(out[-1], "X", NEXT))
    return out


def in_a_loop(a):
    return jax.lax.fori_loop(0, 4, lambda _, s: (s[0] + s[1] @ s[1], jax.lax.ppermute(s[1], "X", NEXT)), (0 * a, a))[0]


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda a: sum(b @ b for b in blocks(a)), [0, 1, 2, 3]),
        (lambda a: sum(b @ b for b in jax.lax.optimization_barrier(blocks(a))), [3, 3, 3, 3]),
        (in_a_loop, [0, 1, 2, 3]),
        (lambda a: jax.lax.cond(a[0, 0] > 0, lambda b: b @ b, lambda b: b, blocks(a)[1]), [1]),
    ],
    ids=["each as it comes", "all wait for the last", "a loop", "a branch"],
)
def test_waits(f, wanted):
    assert sorted(waits(f)) == wanted
