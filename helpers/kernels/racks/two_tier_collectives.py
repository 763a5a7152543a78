"""Collectives over hosts and the chips in them, so that little crosses between hosts (chapter 7).

The mesh has two axes: X counts hosts, Y the chips of a host. Every function is for use inside `jax.shard_map`, and gives what one
collective of JAX over ("X", "Y") gives; what differs is how many bytes go along X, where links are slow. With V bytes on each
device, H hosts and G chips in each, the bytes of a device that cross hosts on a ring:

                    flat, over H·G devices               in two tiers
    AllReduce       a ring of all passes every host       2 · (V/G) · (H-1)/H
    ReduceScatter   likewise                              (V/G) · (H-1)/H
    AllGather       likewise (V after it)                 (V/G) · (H-1)/H
    AllToAll        V · (H-1)/H in (H-1)·G messages       V · (H-1)/H in H-1 messages

Source: Cho et al., "BlueConnect" (2019); Rajbhandari et al., "DeepSpeed-MoE" (2022) for the AllToAll;
DeepSeek-AI, "DeepEP" (2025) for one copy of a token to a host.
"""

import jax.numpy as jnp
from jax import lax

from helpers.kernels.operands import fit, whole


def all_reduce(x):
    """x[I] {U_XY} -> x[I], the sum over all devices: scatter inside a host, add between hosts, gather inside.

    I must be a multiple of the chips of a host.
    """
    part = lax.psum_scatter(x, "Y", scatter_dimension=0, tiled=True)  # [I_Y] {U_X}
    part = lax.psum(part, "X")  # [I_Y]: a G-th of the bytes crosses
    return lax.all_gather(part, "Y", axis=0, tiled=True)  # [I]


def reduce_scatter(x):
    """x[I] {U_XY} -> x[I_XY]: first inside a host, so that a G-th of the bytes is left for the way between hosts.

    I must be a multiple of all devices.
    """
    hosts, chips = lax.axis_size("X"), lax.axis_size("Y")
    blocks = x.reshape(hosts, chips, -1, *x.shape[1:])  # by the host and the chip that will hold them
    mine = lax.psum_scatter(blocks, "Y", scatter_dimension=1)  # [hosts, …] {U_X}
    return lax.psum_scatter(mine, "X", scatter_dimension=0)  # [I_XY]


def all_gather(x):
    """x[I_XY] -> x[I]: first between hosts, where every chip fetches for its own place, then inside a host."""
    placed = lax.all_gather(x, "X")  # [hosts, I_XY]: what chip y of every host has
    whole = lax.all_gather(placed, "Y", axis=1)  # [hosts, chips, I_XY]
    return whole.reshape(-1, *x.shape[1:])


def all_to_all(x):
    """x[n, …], a block for each device -> [n, …], the blocks that each device had for this one.

    First inside a host each chip collects what the host has for its own place on any host; then one message goes to each
    other host, to the chip at the same place: along a rail. The bytes are those of the flat one, in G times fewer messages.
    """
    hosts, chips = lax.axis_size("X"), lax.axis_size("Y")
    if len(x) != hosts * chips:
        raise ValueError(f"AllToAll needs a block for each of {hosts * chips} devices, got {len(x)}")
    blocks = x.reshape(hosts, chips, *x.shape[1:])  # by host and chip that they go to
    railed = lax.all_to_all(blocks, "Y", split_axis=1, concat_axis=1)  # [hosts they go to, chips they come from]
    return lax.all_to_all(railed, "X", split_axis=0, concat_axis=0).reshape(x.shape)


def dispatch(x, is_wanted, capacity: int):
    """Tokens to the devices that want them, with one copy to a host: (got[n, C, D], which[n, C]).

    x          [T, D], the tokens of this device
    is_wanted  [T, n], whether a device has an expert that the token goes to
    capacity   C, the most tokens that one device may send to one host; what is over is dropped
    got        by the device that the tokens come from; rows that are not wanted here are 0
    which      their places among the tokens of that device, -1 where there is none

    A token that k experts of one host want crosses once instead of k times; inside the host all chips get it and keep what they want.
    """
    hosts, chips = lax.axis_size("X"), lax.axis_size("Y")
    fit({"x[T, D]": x, "wanted[T, n]": is_wanted}, {"n": hosts * chips})
    whole(capacity=capacity)
    is_wanted = is_wanted.reshape(len(x), hosts, chips)
    any_chip = is_wanted.any(2)  # [T, hosts]
    order = jnp.argsort(~any_chip, axis=0, stable=True)  # [T, hosts]: tokens that the host wants, then others
    first = order[:capacity].T  # [hosts, C]
    real = jnp.take_along_axis(any_chip.T, first, axis=1)
    sends = (
        x[first] * real[..., None],
        jnp.where(real, first, -1),
        is_wanted[first, jnp.arange(hosts)[:, None]] & real[..., None],
    )
    sends = [lax.all_to_all(a, "X", split_axis=0, concat_axis=0) for a in sends]  # [hosts they come from, C, …]
    rows, which, keeps = (lax.all_gather(a, "Y", axis=1) for a in sends)  # [hosts, chips, C, …]: all of the host's
    mine = keeps[..., lax.axis_index("Y")]  # [hosts, chips, C]
    flat = (hosts * chips, rows.shape[2])
    return (rows * mine[..., None]).reshape(*flat, -1), jnp.where(mine, which, -1).reshape(flat)


def dispatch_each(x, is_wanted, capacity: int):
    """`dispatch` with one copy for each device that wants the token, and C of them to each: what a flat AllToAll does."""
    n = lax.axis_size(("X", "Y"))
    fit({"x[T, D]": x, "wanted[T, n]": is_wanted}, {"n": n})
    whole(capacity=capacity)
    first = jnp.argsort(~is_wanted, axis=0, stable=True)[:capacity].T  # [n, C]
    real = jnp.take_along_axis(is_wanted.T, first, axis=1)
    sends = x[first] * real[..., None], jnp.where(real, first, -1)
    got, which = (lax.all_to_all(a, ("X", "Y"), split_axis=0, concat_axis=0) for a in sends)
    return got.reshape(n, -1, x.shape[1]), which
