"""The collectives, written with `jax.lax.ppermute` alone (chapter 2).

Each is a per-device function for use inside `jax.shard_map`: it sees its device's block and the names of the mesh axes.
Results are those of jax.lax (tiled): `all_gather`, `psum_scatter`, `psum`, `all_to_all`.

names   a mesh axis, "X", or several, ("X", "Y"), the first of them major; they are taken in turn
ways    2 sends both ways round at once, 1 only to the right; a link is two one-way wires
wraps   False for a line of chips: nothing crosses its ends, and both ways are needed
chunks  of an all_reduce along a line: pieces of the array that follow each other

Loops over the ring are Python loops, so a ring of n is unrolled into n - 1 permutes: a torus axis is short, an AllToAll
sends less in each step (a scan cannot), and the compiler may overlap each step with work beside it.

Source: Austin et al. 2025, Section 3; Chan et al., "Collective communication" (2007).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.kernels.machine import bar, runs
from helpers.kernels.mesh import put, sharded

RIGHT = 1
LEFT = -1


def all_gather(x: jax.Array, names, axis: int = 0, ways: int = 2, wraps: bool = True) -> jax.Array:
    """The blocks of all devices, side by side along `axis`, on every device.

    On a ring of n, n - 1 hops of one block with ways=1, n//2 with ways=2. On a line n - 1.
    """
    for name in reversed(_names(names)):  # the minor axis first: its blocks are neighbours
        x = in_order(dict(arrivals(x, name, ways, wraps)), name, axis, wraps)
    return x


def reduce_scatter(x: jax.Array, names, axis: int = 0, ways: int = 2, wraps: bool = True) -> jax.Array:
    """The sum over devices of one block of x: device i gets block i along `axis`. An all_gather run backwards."""
    for name in _names(names):
        x = ring_sum(lambda j, x=x, name=name: block(x, j, lax.axis_size(name), axis), name, ways, wraps)
    return x


def all_reduce(x: jax.Array, names, ways: int = 2, wraps: bool = True, chunks: int = 16) -> jax.Array:
    """The sum over devices of x, on every device.

    Round a ring a reduce_scatter, then an all_gather, of x as one row of numbers; along a line, and between two devices,
    `line_sum` in so many chunks. Several axes: the last one works on what the others have scattered.
    """
    *outer, last = _names(names)
    row = jnp.pad(x.reshape(-1), (0, -x.size % prod(lax.axis_size(name) for name in (*outer, last))))
    row = reduce_scatter(row, outer, 0, ways, wraps)
    if wraps and (lax.axis_size(last) > 2 or ways == 1):
        row = all_gather(reduce_scatter(row, last, 0, ways), last, 0, ways)
    else:
        _reach(last, ways, wraps)
        row = line_sum(row, last, chunks)
    return all_gather(row, outer, 0, ways, wraps)[: x.size].reshape(x.shape)


def all_to_all(x: jax.Array, names, split: int, concat: int, ways: int = 2, wraps: bool = True) -> jax.Array:
    """x is cut into n blocks along `split`, block j goes to device j; what arrives is put side by side along `concat`.

    On a ring of n a wire carries n(n-1)/2 blocks with ways=1 and n²/8 with ways=2 (even n above 2).
    """
    names = _names(names)
    sizes = [lax.axis_size(name) for name in names]
    _even(x, prod(sizes), split)
    parts = jnp.stack(jnp.split(x, prod(sizes), split))
    parts = parts.reshape(*sizes, *parts.shape[1:])  # one dimension for each axis: the destination's place
    for at, name in enumerate(names):
        first = jnp.moveaxis(parts, at, 0)
        first = _exchange_on_ring(first, name, ways) if wraps else _exchange_on_line(first, name, ways)
        parts = jnp.moveaxis(first, 0, at)  # now the source's place
    parts = parts.reshape(prod(sizes), *parts.shape[len(sizes) :])
    return jnp.concatenate(list(parts), concat)


# What the collectives, and the collective matmuls of kernels.sharding.sharded_matmul, are made of.


def arrivals(x: jax.Array, name: str, ways: int = 2, wraps: bool = True) -> Iterator[tuple[int, jax.Array]]:
    """(offset, block) as the blocks pass by: the block of the device `offset` places on; offset 0, its own, is first.

    Whoever looks at every block works while the next one is on its way. At the ends of a line, where an offset leads
    to nobody, the block is zeros.
    """
    n, (right, left) = lax.axis_size(name), _reach(name, ways, wraps)
    yield 0, x
    from_left = from_right = x
    for k in range(1, max(right, left) + 1):
        if k <= right:
            from_left = hop(from_left, name, RIGHT, None if wraps else range(k - 1, n - 1))
            yield -k, from_left
        if k <= left:
            from_right = hop(from_right, name, LEFT, None if wraps else range(1, n - k + 1))
            yield k, from_right


def in_order(blocks: dict[int, jax.Array], name: str, axis: int, wraps: bool = True) -> jax.Array:
    """Blocks by offset from this device, put side by side by the place of the device that they come from."""
    n, i, first = lax.axis_size(name), lax.axis_index(name), min(blocks)
    row = jnp.concatenate([blocks[d] for d in sorted(blocks)], axis)
    each, start = row.shape[axis] // len(blocks), -first - i  # where the block of device 0 lies
    if wraps:
        row, start = jnp.concatenate([row, row], axis), start % n  # a ring goes on from its end
    return lax.dynamic_slice_in_dim(row, start * each, n * each, axis)


def ring_sum(term: Callable, name: str, ways: int = 2, wraps: bool = True) -> jax.Array:
    """The sum over all devices of their term(i), on device i, where term(j) is what a device adds to device j's sum.

    Sums pass through the devices on the way to their owner, the farthest first, and each device adds its own term.
    """
    n, i, (right, left) = lax.axis_size(name), lax.axis_index(name), _reach(name, ways, wraps)
    to_right = to_left = None
    for k in range(max(right, left), 0, -1):
        if k <= right:
            to_right = _plus(to_right, term((i + k) % n))
            to_right = hop(to_right, name, RIGHT, None if wraps else range(n - k))
        if k <= left:
            to_left = _plus(to_left, term((i - k) % n))
            to_left = hop(to_left, name, LEFT, None if wraps else range(k, n))
    return _plus(_plus(to_right, term(i)), to_left)


def line_sum(row: jax.Array, name: str, chunks: int) -> jax.Array:
    """The sum over the devices of a line of a row of numbers, on every device, its chunks one hop apart.

    In step t device i sends chunk t - i to the right. In the left half that is the sum of what lies left of it and of its
    own partial sum; from the middle on it is the sum of all, on its way back. Chunk t - (n-1-i) goes to the left likewise.
    So each wire carries each chunk once, in n - 2 + chunks steps. Two devices have nothing to pass on: one chunk.
    """
    n, i = lax.axis_size(name), lax.axis_index(name)
    if n == 1:
        return row
    each = max(1, -(-row.size // (chunks if n > 2 else 1)))
    held = jnp.pad(row, (0, -row.size % each)).reshape(-1, each)
    m = len(held)
    for t in range(n - 2 + m):
        right, left = t - i, t - (n - 1 - i)
        from_left = hop(_chunk(held, right), name, RIGHT, [d for d in range(n - 1) if 0 <= t - d < m])
        from_right = hop(_chunk(held, left), name, LEFT, [d for d in range(1, n) if 0 <= t - (n - 1 - d) < m])
        held = _taken(held, from_left, right + 1, i > 0, i <= n // 2)
        held = _taken(held, from_right, left + 1, i < n - 1, n - 1 - i <= n // 2)
    return held.reshape(-1)[: row.size]


def _chunk(chunks: jax.Array, index) -> jax.Array:
    return lax.dynamic_index_in_dim(chunks, jnp.clip(index, 0, len(chunks) - 1), 0, keepdims=False)


def _taken(chunks: jax.Array, arrived: jax.Array, index, is_there, is_added) -> jax.Array:
    """The chunk of an index arrives, if it `is_there`: up to the middle it is added, beyond it is the whole sum."""
    here, own = jnp.clip(index, 0, len(chunks) - 1), _chunk(chunks, index)
    new = jnp.where(is_there & (index == here), jnp.where(is_added, own + arrived, arrived), own)
    return lax.dynamic_update_index_in_dim(chunks, new, here, 0)


def hop(x: jax.Array, name: str, direction: int, senders=None) -> jax.Array:
    """Send x to the next device on the right or left. Only `senders`, if given; who receives nothing gets zeros."""
    n = lax.axis_size(name)
    return lax.ppermute(x, name, [(j, (j + direction) % n) for j in (range(n) if senders is None else senders)])


def block(x: jax.Array, j, n: int, axis: int) -> jax.Array:
    """Block j of n along `axis`."""
    each = _even(x, n, axis)
    return lax.dynamic_slice_in_dim(x, j * each, each, axis)


def _even(x: jax.Array, n: int, axis: int) -> int:
    """How many numbers along `axis` each of n devices gets; ValueError if they do not come out even."""
    if x.shape[axis] % n:
        raise ValueError(f"{n} devices do not divide {x.shape[axis]}, the size of dimension {axis} of {x.shape}")
    return x.shape[axis] // n


def _exchange_on_ring(parts: jax.Array, name: str, directions: int) -> jax.Array:
    """parts[j] goes to device j; parts[j] of the result came from device j. Strips of blocks, one shorter after each hop.

    Going right, a strip holds the blocks for 1, 2, … places on, and its first one has arrived after each hop.
    Both ways, the block for the opposite device is cut in half, one half for each way (not on a ring of two: one link).
    """
    n, i, shape = lax.axis_size(name), lax.axis_index(name), parts.shape
    parts = parts.reshape(n, -1)
    mine = lax.dynamic_slice_in_dim(jnp.concatenate([parts, parts]), i, n)  # row d is for the device d places on
    each, away = mine.shape[1], mine[1:].reshape(-1)
    right, _ = _reach(name, directions)
    cut = right * each if n % 2 or n == 2 or directions == 1 else away.size - away.size // 2
    got_right = _strip(away[:cut], each, name, RIGHT)  # from 1, 2, … places to the left
    got_left = _strip(away[cut:][::-1], each, name, LEFT)  # from 1, 2, … places to the right, read backwards
    rows = jnp.concatenate([got_right, got_left[::-1]]).reshape(n - 1, each)
    blocks = {0: mine[:1], **{-d: rows[d - 1 : d] for d in range(1, n)}}
    return in_order(blocks, name, 0).reshape(shape)


def _strip(strip: jax.Array, rows: int, name: str, direction: int) -> jax.Array:
    """Everything that arrives here from one side."""
    got = [strip[:0]]
    while strip.size:
        strip = hop(strip, name, direction)
        got.append(strip[:rows])
        strip = strip[rows:]
    return jnp.concatenate(got)


def _exchange_on_line(parts: jax.Array, name: str, directions: int) -> jax.Array:
    """The same on a line. A block is sent on by those devices only whose block has somewhere to go."""
    n, i = lax.axis_size(name), lax.axis_index(name)
    _reach(name, directions, wraps=False)
    blocks = {d: block(parts, (i - d) % n, n, 0) for d in range(1 - n, n)}  # key: the offset back to the sender
    for k in range(1, n):
        for d in range(k, n):
            blocks[-d] = hop(blocks[-d], name, RIGHT, range(k - 1, n - 1 - d + k))
            blocks[d] = hop(blocks[d], name, LEFT, range(d - k + 1, n - k + 1))
    return in_order(blocks, name, 0, wraps=False)


def _reach(name: str, directions: int, wraps: bool = True) -> tuple[int, int]:
    """How many places a block travels to the right and to the left until everybody has seen it."""
    n = lax.axis_size(name)
    if directions not in (1, 2):
        raise ValueError(f"links are used one way or both ways, so ways is 1 or 2, not {directions}")
    if not wraps:
        if directions == 1:
            raise ValueError("along a line nothing comes round: without wraparound both ways are needed")
        return n - 1, n - 1
    return (n - 1, 0) if directions == 1 else (n // 2, (n - 1) // 2)


def _plus(a, b):
    return b if a is None else a if b is None else a + b


def _names(names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


# Collectives as matrices (chapter 2: the transpose of an AllGather is a ReduceScatter).


def matrix(f: Callable, name: str, mesh: jax.sharding.Mesh, n: int) -> np.ndarray:
    """The matrix of a linear per-device function on n numbers per device: rows are all results, columns all inputs.

    f     as under shard_map, of a vector [n] on each device
    name  the mesh axis that it runs over; the devices of the other axes all do the same

    An all_gather over p devices has shape [p·p·n, p·n], a reduce_scatter of p·n numbers [p·n, p·p·n].
    """
    p = mesh.shape[name]
    one = jax.P(name)
    run = jax.jit(jax.vmap(jax.shard_map(f, mesh=mesh, in_specs=one, out_specs=one, check_vma=False)))
    return np.asarray(run(jnp.eye(p * n))).T


# The four primitives of jax.lax, each as a whole program, and how long they take.

PRIMITIVES = {  # operand, result, what each device does
    "AllGather": ("A[I_{X}, J]", "A[I, J]", lambda a, x: lax.all_gather(a, x, axis=0, tiled=True)),
    "ReduceScatter": ("A[I, J] {U_{X}}", "A[I_{X}, J]", lambda a, x: lax.psum_scatter(a, x, tiled=True)),
    "AllReduce": ("A[I, J] {U_{X}}", "A[I, J]", lax.psum),
    "AllToAll": ("A[I_{X}, J]", "A[I, J_{X}]", lambda a, x: lax.all_to_all(a, x, 1, 0, tiled=True)),
}


@dataclass(frozen=True)
class Timed:
    """One primitive, run: V bytes (as in costs.sharding.collectives) in so many seconds; None where seconds would mean nothing."""

    kind: str
    bytes: int
    seconds: float | None


def primitive(kind: str, mesh: jax.sharding.Mesh, x: str) -> Callable[[jax.Array], jax.Array]:
    """The program of one primitive of jax.lax over mesh axis x. A {U_X} operand is its |X| partial sums, stacked in front."""
    before, after, f = PRIMITIVES[kind]
    return sharded(lambda a: f(a, x), mesh, [before.replace("{X}", x)], after.replace("{X}", x))


def bench(mesh: jax.sharding.Mesh, x: str, sizes: Iterable[int] = (2**16, 2**20, 2**24)) -> list[Timed]:
    """Run the four primitives on f32 arrays of about `sizes` bytes (V) and take the time of the best run.

    Simulated devices share one processor and its memory: there every program is run, but seconds are None.
    """
    n, real = mesh.shape[x], mesh.devices.flat[0].platform != "cpu"
    out = []
    for V in bar(sizes, "primitives"):
        for kind, (before, _, _) in PRIMITIVES.items():
            shape = (n * max(1, round(V / (4 * n * n))), n)
            stack = (n, *shape) if "U" in before else shape
            a = put(jnp.ones(stack, jnp.float32), mesh, before.replace("{X}", x))
            run = primitive(kind, mesh, x)
            jax.block_until_ready(run(a))
            out.append(Timed(kind, 4 * prod(shape), runs(lambda run=run, a=a: run(a))[0] if real else None))
    return out
