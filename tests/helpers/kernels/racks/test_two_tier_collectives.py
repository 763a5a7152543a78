"""Collectives in two tiers equal the flat ones bit for bit, and send as little between hosts as is said."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.racks import two_tier_collectives as two

TIERS = [(2, 4), (4, 2), (1, 8), (8, 1)]
ALL = P(("X", "Y"))
FLAT = {
    "all_reduce": lambda x: lax.psum(x, ("X", "Y")),
    "reduce_scatter": lambda x: lax.psum_scatter(x, ("X", "Y"), scatter_dimension=0, tiled=True),
    "all_gather": lambda x: lax.all_gather(x, ("X", "Y"), axis=0, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, ("X", "Y"), split_axis=0, concat_axis=0, tiled=True),
}


def on(tiers, f, *specs, out=ALL):
    """f on every device of a mesh, its results stacked."""
    return jax.shard_map(f, mesh=meshes.mesh(tiers, "XY"), in_specs=specs, out_specs=out, check_vma=False)


def integers(*shape):
    return np.random.default_rng(1).integers(-1000, 1000, shape).astype(np.int32)


@pytest.mark.parametrize("tiers", TIERS)
@pytest.mark.sample(quick=2)
def test_they_equal_the_flat_ones_bit_for_bit(tiers):
    x = integers(8 * 16, 3)
    for name, flat in FLAT.items():
        got = jax.jit(on(tiers, getattr(two, name) if name != "all_to_all" else _blocks(two.all_to_all), ALL))(x)
        assert np.array_equal(got, jax.jit(on(tiers, flat, ALL))(x)), (name, tiers)


def _blocks(f):
    """An AllToAll of 8 blocks of rows."""
    return lambda x: f(x.reshape(8, -1, *x.shape[1:])).reshape(x.shape)


def crossing(f, x, tiers):
    """(bytes, messages) by which one device sends between hosts, by the traced program, an axis as a ring."""
    sent = trace.sent(on(tiers, f, ALL), jax.ShapeDtypeStruct(x, jnp.int32))
    mesh = meshes.costs_mesh(meshes.mesh(tiers, "XY"))
    return sum(c.wire(mesh) for c in sent if "X" in c.axes)


@pytest.mark.parametrize(("H", "G"), [(2, 4), (4, 2)])
def test_what_crosses_is_what_is_said(H, G):
    rows, V = 64, 64 * 4  # of a device, int32
    assert crossing(two.all_reduce, (8 * rows,), (H, G)) == 2 * V / G * (H - 1) / H
    assert crossing(two.reduce_scatter, (8 * rows,), (H, G)) == V / G * (H - 1) / H
    after = 8 * V  # of the gathered array
    assert crossing(two.all_gather, (8 * rows,), (H, G)) == after / G * (H - 1) / H
    assert crossing(_blocks(two.all_to_all), (8 * rows,), (H, G)) == V * (H - 1) / H


def routed(T, k, experts_on, seed=0):
    """wanted[8 · T, 8]: k experts of 32 a token, four on each device."""
    rng = np.random.default_rng(seed)
    wanted = np.zeros((8 * T, 8), bool)
    for t in range(8 * T):
        wanted[t, rng.choice(32, k, replace=False) // 4] = True
    return wanted


@pytest.mark.parametrize("tiers", [(2, 4), (4, 2)])
@pytest.mark.sample(quick=1)
def test_each_device_gets_the_tokens_that_it_wants_and_a_host_gets_one_copy(tiers):
    T, D = 12, 5
    x, wanted = integers(8 * T, D), routed(T, 4, tiers)
    for f in (two.dispatch, two.dispatch_each):
        got, which = jax.jit(on(tiers, partial(f, capacity=T), ALL, ALL, out=(ALL, ALL)))(x, wanted)
        got, which = np.asarray(got).reshape(8, 8, -1, D), np.asarray(which).reshape(8, 8, -1)
        for to in range(8):
            for source in range(8):
                there = {int(i) for i in which[to, source] if i >= 0}
                assert there == {t for t in range(T) if wanted[source * T + t, to]}
                for row, i in zip(got[to, source], which[to, source]):
                    assert np.array_equal(row, x[source * T + i] if i >= 0 else np.zeros(D))
    once = on(tiers, partial(two.dispatch, capacity=T), ALL, ALL, out=(ALL, ALL))
    each = on(tiers, partial(two.dispatch_each, capacity=T), ALL, ALL, out=(ALL, ALL))
    tokens = [
        sum(c.shape[-2] * np.prod(c.shape[:-2]) for c in trace.sent(f, x, wanted) if "X" in c.axes and c.shape[-1] == D)
        for f in (once, each)
    ]
    assert tokens == [
        tiers[0] * T,
        8 * T,
    ]  # places for tokens that a device sends along X: one for a host, one for a device


def test_a_full_capacity_drops_the_later_tokens():
    x, wanted = integers(8 * 6, 2), np.ones((8 * 6, 8), bool)
    _, which = jax.jit(on((2, 4), partial(two.dispatch, capacity=4), ALL, ALL, out=(ALL, ALL)))(x, wanted)
    assert (np.asarray(which).reshape(8, 8, 4) == np.arange(4)).all()


@pytest.mark.parametrize("f", [two.dispatch, two.dispatch_each])
def test_what_is_wanted_has_a_column_for_each_device_and_a_capacity_is_a_number(f):
    for wanted, capacity, says in (((8 * 6, 4), 4, "n is 8"), ((8 * 5, 8), 4, "T is 6"), ((8 * 6, 8), -1, "capacity")):
        given = jax.ShapeDtypeStruct((8 * 6, 2), jnp.int32), jax.ShapeDtypeStruct(wanted, jnp.bool_)
        with pytest.raises(ValueError, match=says):
            jax.eval_shape(on((2, 4), partial(f, capacity=capacity), ALL, ALL, out=(ALL, ALL)), *given)


@pytest.mark.parametrize(("f", "rows", "said"), [
    (two.all_reduce, 6, "divisible by shard_count"),
    (two.reduce_scatter, 12, "reshape"),
    (two.all_to_all, 6, "8 devices, got 6"),
])  # fmt: skip
def test_rows_that_do_not_divide_are_refused(f, rows, said):
    with pytest.raises((ValueError, TypeError), match=said):
        jax.eval_shape(on((2, 4), f, ALL), jax.ShapeDtypeStruct((8 * rows,), jnp.int32))
