"""Collectives made of permutes: the results of jax.lax's, the bytes and hops of helpers.costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from helpers.costs.sharding import collectives as costs
from helpers.costs.sharding.sharded_array import Axis
from helpers.kernels import mesh as meshes
from helpers.kernels.sharding import collectives as ours
from tests import ppermute_traffic

WAYS = {"one way": {"ways": 1}, "both ways": {"ways": 2}, "a line": {"wraps": False}}


def pairs(names, **how):
    """(ours, JAX's) for every collective and every dimension, as functions of a block of a matrix."""
    for axis in (0, 1):
        yield (
            lambda x, axis=axis: ours.all_gather(x, names, axis, **how),
            lambda x, axis=axis: lax.all_gather(x, names, axis=axis, tiled=True),
        )
        yield (
            lambda x, axis=axis: ours.reduce_scatter(x, names, axis, **how),
            lambda x, axis=axis: lax.psum_scatter(x, names, scatter_dimension=axis, tiled=True),
        )
    # n does not divide it.
    yield (lambda x: ours.all_reduce(x[:, 1:], names, **how, chunks=3), lambda x: lax.psum(x[:, 1:], names))
    for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        yield (
            lambda x, s=split, c=concat: ours.all_to_all(x, names, s, c, **how),
            lambda x, s=split, c=concat: lax.all_to_all(x, names, s, c, tiled=True),
        )


def results(fs, mesh, x):
    """What each per-device function gives, all devices' results side by side; one program for all of them."""
    cut = jax.P(mesh.axis_names)
    run = jax.shard_map(lambda x: [f(x) for f in fs], mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
    return [np.asarray(r, np.float64) for r in jax.jit(run)(x)]


def numbers(rows, cols, dtype=np.int32):
    return np.random.default_rng(rows * cols).integers(-99, 99, (rows, cols)).astype(dtype)


def ring(n):
    return jax.make_mesh((n,), ("X",), axis_types=(jax.sharding.AxisType.Auto,), devices=meshes.devices(8)[:n])


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_whole_numbers_exactly_as_jax(n):
    both = [pair for how in WAYS.values() for pair in pairs("X", **how)]
    x = numbers(n * n, 3 * n)
    for mine, theirs in zip(results([m for m, _ in both], ring(n), x), results([t for _, t in both], ring(n), x)):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("names", [("Y", "X"), ("X", "Y"), "Y"])
@pytest.mark.sample(quick=1)
def test_several_axes_in_their_order(names):
    mesh = meshes.mesh((4, 2), ("X", "Y"))
    lines = list(pairs(names, wraps=False))
    both = list(pairs(names)) + [lines[0], lines[4]]  # a gather, and a sum
    x = numbers(64, 8)
    for mine, theirs in zip(results([m for m, _ in both], mesh, x), results([t for _, t in both], mesh, x)):
        assert np.array_equal(mine, theirs)


# Hops and bytes.


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("n", [8, 2, 3, 4, 5, 6, 7, 16])
@pytest.mark.sample(quick=3, slow=2, kind="how")
def test_hops_and_bytes_are_those_of_costs(n, how):
    way, axis = WAYS[how], Axis(n, WAYS[how].get("wraps", True))
    ways, b = way.get("ways", 2), 4 * 6  # 6 numbers of 4 bytes in a block
    programs = [
        (costs.all_gather(n * b, axis, ways), lambda x: ours.all_gather(x, "X", 1, **way), (1, 6)),
        (costs.reduce_scatter(n * b, axis, ways), lambda x: ours.reduce_scatter(x, "X", 0, **way), (n, 6)),
        (costs.all_reduce(n * b, axis, ways), lambda x: ours.all_reduce(x, "X", **way, chunks=1), (n, 6)),
        (costs.all_to_all(n * n * b, axis, ways), lambda x: ours.all_to_all(x, "X", 0, 0, **way), (n, 6)),
    ]
    for move, f, shape in programs:
        sent = ppermute_traffic.read(f, n, shape)
        assert (sent.busiest, sent.hops) == (pytest.approx(move.bytes), move.hops)
        assert set(sent.kinds) == {"ppermute"}
        for s, t in sent.links:  # neighbours only, and on a line nothing over its ends
            assert (t - s) % n in ((1,) if ways == 1 else (1, n - 1)) and (axis.wraps or abs(t - s) == 1)


@pytest.mark.parametrize("n", [5, 2, 3, 4, 8])
@pytest.mark.sample(quick=2)
def test_chunks_along_a_line_keep_every_wire_busy(n):
    """However many chunks, every wire of every link carries the whole array once; they follow each other one step apart."""
    wires = {(i, i + 1) for i in range(n - 1)} | {(i + 1, i) for i in range(n - 1)}
    for chunks in (1, 3, 12):
        sent = ppermute_traffic.read(lambda x, m=chunks: ours.all_reduce(x, "X", wraps=False, chunks=m), n, (n, 24))
        assert sent.links == dict.fromkeys(wires, 4 * 24 * n)
        assert sent.hops == (n - 2 + chunks if n > 2 else 1)
        if n > 2:
            assert costs.chained(1.0, n, chunks, 1.0, 0.0) == pytest.approx(sent.hops / chunks)


# Transposes.


def test_gather_and_scatter_are_transposes_by_kronecker_products():
    """AllGather = broadcast ⊗ I_p and ReduceScatter = reduce ⊗ I_p, with broadcast = u ⊗ I_n and reduce its transpose."""
    n, p = 2, 3
    broadcast, reduce = np.kron(np.ones((p, 1)), np.eye(n)), np.kron(np.ones((1, p)), np.eye(n))
    for ag, rs in (
        (lambda x: lax.all_gather(x, "X", tiled=True), lambda x: lax.psum_scatter(x, "X", tiled=True)),
        (lambda x: ours.all_gather(x, "X"), lambda x: ours.reduce_scatter(x, "X")),
    ):
        ag, rs = ours.matrix(ag, "X", ring(p), n), ours.matrix(rs, "X", ring(p), p * n)
        assert np.array_equal(ag, np.kron(broadcast, np.eye(p)))
        assert np.array_equal(rs, np.kron(reduce, np.eye(p)))
        assert np.array_equal(ag.T, rs)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.sample(quick=2)
def test_gradients_are_those_of_jax(how):
    """The pull-back of a gather is a scatter, ours through our permutes as JAX's through its own primitive."""
    n, way = 4, WAYS[how]
    gather = lambda x: ours.all_gather(x, "X", **way)  # noqa: E731
    scatter = lambda x: ours.reduce_scatter(x, "X", **way)  # noqa: E731

    def back(f, shape):
        return lambda ct: jax.vjp(f, jnp.zeros((shape(ct), *ct.shape[1:]), ct.dtype))[1](ct)[0]

    x = numbers(n * n, 3, np.float32)
    fs = [back(gather, lambda ct: 1), lambda ct: lax.psum_scatter(ct, "X", tiled=True)]
    fs += [back(scatter, lambda ct: 4 * n), lambda ct: lax.all_gather(ct, "X", tiled=True)]
    fs += [lambda ct: jax.vjp(lambda x: ours.all_to_all(x, "X", 0, 1, **way), ct)[1](ours.all_to_all(ct, "X", 0, 1))[0]]
    fs += [
        lambda ct: ct,
        back(lambda x: ours.all_reduce(x, "X", **way, chunks=3), lambda ct: 4),
        lambda ct: lax.psum(ct, "X"),
    ]
    got = results(fs, ring(n), x)
    for mine, theirs in zip(got[::2], got[1::2]):
        assert np.array_equal(mine, theirs)


# The primitives.


def test_primitives_mean_what_numpy_says():
    mesh, a = ring(4), numbers(8, 4, np.float32)
    stack = np.stack([numbers(8, 4, np.float32) + i for i in range(4)])
    wanted = {"AllGather": (a, a), "AllToAll": (a, a)} | dict.fromkeys(
        ("ReduceScatter", "AllReduce"), (stack, stack.sum(0))
    )
    for kind, (operand, result) in wanted.items():
        out = ours.primitive(kind, mesh, "X")(operand)
        assert np.array_equal(out, result)
        for shard in out.addressable_shards:
            assert np.array_equal(shard.data, result[shard.index])


def test_simulated_devices_are_not_timed():
    runs = ours.bench(ring(4), "X", [100, 5000])
    assert [r.kind for r in runs] == list(ours.PRIMITIVES) * 2
    assert all(r.seconds is None for r in runs)
    assert {r.bytes for r in runs} == {128, 4992}  # whole rows for 4 devices, nearest to what was asked for
