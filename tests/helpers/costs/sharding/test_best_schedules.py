"""Prices against the best that any schedule can do: spanning trees, searches over steps, linear programs over routes."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from helpers.costs.sharding.collectives import all_reduce, chained, reduce_scatter, scramble
from helpers.costs.sharding.sharded_array import Axis
from tests.helpers.costs.tables import walks

LINE = [Axis(n, False) for n in range(2, 9)]
GRIDS = [(a,) for a in LINE] + [
    (Axis(2, False), Axis(2, False)), (Axis(2, False), Axis(3, False)), (Axis(4, False), Axis(2, False)),
    (Axis(2, False),) * 3, (Axis(3), Axis(2, False)), (Axis(4), Axis(2, False)), (Axis(3), Axis(2)),
]  # fmt: skip


def links(axes) -> list[tuple[int, int]]:
    """Every link of the grid once."""
    shape = [a.n for a in axes]
    number = {at: i for i, at in enumerate(product(*map(range, shape)))}
    out = set()
    for at in number:
        for d, a in enumerate(axes):
            there = at[d] + 1
            if there < a.n or (a.wraps and a.n > 2):
                out.add(tuple(sorted((number[at], number[(*at[:d], there % a.n, *at[d + 1 :])]))))
    return sorted(out)


def partitions(n: int):
    """Every way to put n chips into groups, as the group of each chip."""
    groups = [0] * n

    def place(i, used):
        if i == n:
            yield list(groups), used
            return
        for g in range(used + 1):
            groups[i] = g
            yield from place(i + 1, max(used, g + 1))

    yield from place(0, 0)


@walks(GRIDS)
def test_all_reduce_sends_what_the_best_spanning_trees_send(axes):
    """Parts of the array summed up one spanning tree each, and spread down it: Tutte and Nash-Williams' count of trees."""
    chips, wired = int(np.prod([a.n for a in axes])), links(axes)
    most = min(
        sum(groups[a] != groups[b] for a, b in wired) / (used - 1) for groups, used in partitions(chips) if used > 1
    )
    assert all_reduce(1.0, axes).bytes == pytest.approx(1 / most)


def spread(n: int, chunks: int) -> int:
    """Steps until the far end has every chunk of one end, one chunk over a wire in a step: no sum is known earlier."""
    have, steps = [set(range(chunks))] + [set() for _ in range(n - 1)], 0
    while len(have[-1]) < chunks:
        news = [(d + 1, min(have[d] - have[d + 1])) for d in range(n - 1) if have[d] - have[d + 1]]
        for d, c in news:
            have[d].add(c)
        steps += 1
    return steps


@walks(range(2, 9))
def test_a_chain_of_chunks_is_as_fast_as_news_can_travel(n):
    for chunks in (1, 2, 3, 8, 50):
        assert chained(1.0, n, chunks, 1.0, 0.0) == pytest.approx(spread(n, chunks) / chunks)
    W, hop, line = 4.5e10, 1e-6, Axis(n, False)
    for V in np.geomspace(1e3, 1e9, 13):
        best = min(chained(V, n, m, W, hop) for m in np.unique(np.geomspace(1, 1e5, 400).astype(int)))
        price = max(hop * all_reduce(V, line).hops, all_reduce(V, line).bytes / W)
        assert price <= best * (1 + 1e-9) and best <= price + hop * (n - 1)  # until the first is through
        halves = 2 * max(hop * reduce_scatter(V, line).hops, reduce_scatter(V, line).bytes / W)
        assert best <= halves * (1 + 1e-9)


def routed(n: int, to) -> float:
    """Arrays over the busiest wire of a ring, each device's sent in the best two parts: a linear program."""
    rows, held = [], []
    for wire in range(n):
        right, left = np.zeros(n + 1), np.zeros(n + 1)
        for s in range(n):
            far = (to[s] - s) % n
            right[s] = (wire - s) % n < far  # the share of s that goes right passes from `wire` to the next
            left[s] = -float(far > 0 and (s - wire - 1) % n < n - far)
        right[-1] = left[-1] = -1
        rows += [right, left]
        held += [0, left[:-1].sum()]
    best = linprog([0] * n + [1], A_ub=rows, b_ub=held, bounds=[(0, 1)] * n + [(0, None)])
    return best.fun


@pytest.mark.parametrize("n", [3, 4, 5, pytest.param(6, marks=pytest.mark.slow("720 linear programs"))])
def test_scramble_is_the_worst_of_all_permutations(n):
    assert scramble(1.0, Axis(n)).bytes == pytest.approx(max(routed(n, to) for to in permutations(range(n))))


@walks(range(2, 8))
def test_scramble_on_a_line_is_the_worst_of_all_permutations(n):
    worst = max(max(sum(s <= wire < to[s] for s in range(n)) for wire in range(n - 1)) for to in permutations(range(n)))
    assert scramble(1.0, Axis(n, False)).bytes == worst
    assert scramble(1.0, Axis(2)).bytes == 1
