"""Sharded matmuls: the four cases, matmuls that overlap with their collective, and any plan of `costs.sharding.matmul_plans` (chapter 2).

The cases and the overlapped matmuls are per-device functions for use inside `jax.shard_map`: A and B are the device's
blocks, x is a mesh axis or several, ("X", "Y"). The notation at the end of a line says what a device holds there.

Source: Austin et al. 2025, Section 3; Wang et al., "Overlap communication with dependent computation" (2023).
"""

from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.sharding.sharded_array import Mesh
from helpers.kernels.mesh import costs_mesh, sharded

from .collectives import arrivals, block, in_order, ring_sum


def case1(A, B):
    """A[I_X, J] · B[J, K_Y] -> C[I_X, K_Y]. No contracting dimension is sharded: nothing is sent."""
    return A @ B  # C[I_X, K_Y]


def case2(A, B, x):
    """A[I, J_X] · B[J, K] -> C[I, K]. One contracting dimension is sharded: gather it first."""
    A = lax.all_gather(A, x, axis=1, tiled=True)  # A[I, J]
    return A @ B  # C[I, K]


def case3(A, B, x):
    """A[I, J_X] · B[J_X, K] -> C[I, K]. Both are, over the same axis: multiply what is there, then add up."""
    C = A @ B  # C[I, K] {U_X}
    return lax.psum(C, x)  # C[I, K]


def case3_scattered(A, B, x, axis: int = 1):
    """A[I, J_X] · B[J_X, K] -> C[I, K_X], or C[I_X, K] with axis=0: half the bytes, if a shard of C is enough."""
    C = A @ B  # C[I, K] {U_X}
    return lax.psum_scatter(C, x, scatter_dimension=axis, tiled=True)  # C[I, K_X]


def case4_gather_b(A, B, x):
    """A[I_X, J] · B[J, K_X] -> C[I_X, K]. C[I_X, K_X] is illegal: device i holds only block (i, i) of it. Gather B."""
    B = lax.all_gather(B, x, axis=1, tiled=True)  # B[J, K]
    return A @ B  # C[I_X, K]


def case4_gather_a(A, B, x):
    """A[I_X, J] · B[J, K_X] -> C[I, K_X]. The other repair."""
    A = lax.all_gather(A, x, axis=0, tiled=True)  # A[I, J]
    return A @ B  # C[I, K_X]


# Matmuls that overlap with their collective: on a ring of n, n small matmuls and n - 1 permutes. While one block is
# multiplied the next one is on its way.


def all_gather_matmul(A, B, x: str, axis: int = 1, ways: int = 2):
    """AllGather_X(A) · B, each block of A multiplied as it passes by.

    axis=1   A[I, J_X] · B[J, K] -> C[I, K]: a block of A meets its rows of B, the products add up
    axis=0   A[I_X, J] · B[J, K_X] -> C[I, K_X]: a block of A gives its rows of C
    """
    n, i = lax.axis_size(x), lax.axis_index(x)
    if axis == 0:
        return in_order({d: a @ B for d, a in arrivals(A, x, ways)}, x, axis=0)  # C[I, K_X]
    return reduce(jnp.add, (a @ block(B, (i + d) % n, n, axis=0) for d, a in arrivals(A, x, ways)))  # C[I, K]


def matmul_reduce_scatter(A, B, x: str, axis: int = 1, ways: int = 2):
    """ReduceScatter_X(A · B), each block of the product made just before it is added to the sum that passes by.

    axis=1   A[I, J_X] · B[J_X, K] -> C[I, K_X]
    axis=0   A[I, J_X] · B[J_X, K] -> C[I_X, K]
    """
    n = lax.axis_size(x)
    if axis == 0:
        return ring_sum(lambda j: block(A, j, n, axis=0) @ B, x, ways)  # C[I_X, K]
    return ring_sum(lambda j: A @ block(B, j, n, axis=1), x, ways)  # C[I, K_X]


# Why blocks may be multiplied at all.


def block_matmul(A, B, rows: int, inner: int, cols: int):
    """A · B from blocks: A cut into rows x inner of them, B into inner x cols. A block of C is a row of A's times a column of B's.

    >>> A, B = jnp.arange(24).reshape(4, 6), jnp.arange(12).reshape(6, 2)
    >>> bool((block_matmul(A, B, 2, 3, 1) == A @ B).all())
    True
    """
    a = [jnp.split(row, inner, 1) for row in jnp.split(A, rows, 0)]
    b = [jnp.split(row, cols, 1) for row in jnp.split(B, inner, 0)]
    return jnp.block([[sum(a[i][j] @ b[j][k] for j in range(inner)) for k in range(cols)] for i in range(rows)])


def outer_products(A, B):
    """A · B as a sum of outer products: column j of A with row j of B. Whoever holds some of the j has a partial sum.

    >>> A, B = jnp.arange(6).reshape(2, 3), jnp.arange(6).reshape(3, 2)
    >>> bool((outer_products(A, B) == A @ B).all())
    True
    """
    return sum(A[:, j, None] * B[j, None, :] for j in range(A.shape[1]))


# Plans.


def program(plan, mesh: jax.sharding.Mesh) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The program that carries out a plan of `costs.sharding.matmul_plans`, step by step, of the whole arrays A and B.

    A result that the plan leaves unreduced, C[I, K] {U_X}, is returned as its |X| partial sums, stacked in front.
    """
    if plan.mesh.sizes != dict(mesh.shape):
        raise ValueError(f"the plan is for a {plan.mesh}, and these devices are {costs_mesh(mesh)}")
    A, B, C = plan.operands
    return sharded(lambda a, b: carry_out(plan, a, b), mesh, (A, B), C)


def carry_out(plan, A: jax.Array, B: jax.Array) -> jax.Array:
    """What each device does in a plan: its blocks of A and B in, its block of C out."""
    a, b, c = plan.operands
    held = {a.name: A, b.name: B}
    for step in plan.steps:
        if step.kind == "Matmul":
            held = {step.operand: multiply(held[a.name], held[b.name], *plan.product)}
        else:
            held[step.operand] = carry_out_collective(held[step.operand], step, plan.mesh)
    return held[c.name]


def multiply(A, B, a, b, c):
    """The product of two local blocks, by the names of their dimensions: those that C has not are summed over."""
    letters = {d: chr(ord("a") + n) for n, d in enumerate(dict.fromkeys(a.dims + b.dims))}
    a, b, c = ("".join(letters[d] for d in m.dims) for m in (a, b, c))
    return jnp.einsum(f"{a},{b}->{c}", A, B)


def carry_out_collective(x, step, grid):
    """What a step that sends makes of a device's block."""
    dims, axes = step.before.dims, step.axes
    if step.kind == "AllReduce":
        return lax.psum(x, axes)
    if step.kind == "Permute":
        return lax.ppermute(x, axes, moves(step.before, step.after, axes, grid))
    dim = dims.index(step.dim)
    if step.kind == "AllGather":
        return lax.all_gather(x, axes, axis=dim, tiled=True)
    if step.kind == "AllToAll":
        return lax.all_to_all(x, axes, split_axis=dims.index(step.to), concat_axis=dim, tiled=True)
    if step.kind == "ReduceScatter":
        return lax.psum_scatter(x, axes, scatter_dimension=dim, tiled=True)
    # Slice: where the array is the same along the axes, each device keeps its own part, and nothing is sent.
    return x if grid.size(axes) == 1 else block(x, lax.axis_index(axes), grid.size(axes), dim)


def moves(source, target, axes: tuple[str, ...], grid: Mesh) -> list[tuple[int, int]]:
    """Who sends its block to whom, so that everybody gets the block of `target`: (sender, receiver), numbered along `axes`.

    Whoever already has the block that it needs keeps it.

    >>> from helpers.costs.sharding.sharded_array import parse
    >>> moves(parse("A[I_XY]"), parse("A[I_YX]"), ("X", "Y"), Mesh({"X": 2, "Y": 2}))
    [(0, 0), (2, 1), (1, 2), (3, 3)]
    """
    groups: dict[tuple, list] = {}  # the devices that differ along the axes only, and their places along them
    for at in grid.coordinates():
        place = sum(at[a] * grid.size(axes[i + 1 :]) for i, a in enumerate(axes))
        others = tuple(v for a, v in at.items() if a not in axes)
        groups.setdefault(others, []).append((place, source.block(at, grid), target.block(at, grid)))
    pairs = [_matched(sorted(group)) for group in groups.values()]
    if any(p != pairs[0] for p in pairs):
        raise ValueError(f"{source} -> {target} is not the same permutation along {''.join(axes)} everywhere")
    return pairs[0]


def _matched(group) -> list[tuple[int, int]]:
    """Receivers in order, each with a sender of the block that it needs; nobody sends twice."""
    free = {place: have for place, have, _ in group}
    keep = {place for place, have, need in group if have == need}
    out = []
    for place, _, need in group:
        sender = place if place in keep else next((s for s, b in free.items() if b == need and s not in keep), None)
        if sender is None:
            raise ValueError(f"nobody along these axes holds block {need} that device {place} needs")
        free.pop(sender)
        out.append((sender, place))
    return out
