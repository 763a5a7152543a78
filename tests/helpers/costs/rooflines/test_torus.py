"""Distances against a breadth-first search, transfers against a count of disjoint paths, occupancy against a greedy packer."""

from collections import deque
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.gpu_machine import SM, wave_efficiency, waves
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.torus import diameter, distance, gather_to_one, line_distance, send
from tests.helpers.costs.tables import refused, walks

SLICES = [
    Slice(chip("v5e"), (4, 4)), Slice(chip("v5e"), (4, 16)), Slice(chip("v4p"), (4, 4, 4)),
    Slice(chip("v4p"), (2, 2, 4)), Slice(chip("v5e"), (3, 5), wraps=(True, False)),
    Slice(chip("v5e"), (2, 6), wraps=(True, True)), Slice(chip("v5e"), (1, 8)),
]  # fmt: skip


def neighbours(at, s):
    """Chips one link away, straight from the definition of a torus."""
    for axis, n in enumerate(s.shape):
        for step in (-1, 1):
            to = at[axis] + step
            if s.wraps[axis] or 0 <= to < n:
                yield at[:axis] + (to % n,) + at[axis + 1 :]


def bfs(src, s):
    seen, queue = {src: 0}, deque([src])
    while queue:
        at = queue.popleft()
        for to in neighbours(at, s):
            if to not in seen:
                seen[to] = seen[at] + 1
                queue.append(to)
    return seen


@walks(SLICES)
def test_distance_and_diameter_are_those_of_the_graph(s):
    chips = list(product(*map(range, s.shape)))
    found = {src: bfs(src, s) for src in chips[:: max(1, len(chips) // 8)]}
    for src, far in found.items():
        assert all(distance(src, dst, s) == far[dst] for dst in chips)
    assert diameter(s) == max(max(bfs(c, s).values()) for c in chips)


def shortest_disjoint_paths(src, dst, s):
    """Maximum flow over the links that lie on shortest paths (Ford and Fulkerson, unit capacities)."""
    to_dst = bfs(dst, s)
    free = {(a, b) for a in product(*map(range, s.shape)) for b in set(neighbours(a, s)) if to_dst[b] == to_dst[a] - 1}
    flow = 0
    while True:
        parent, queue = {src: None}, deque([src])
        while queue and dst not in parent:
            at = queue.popleft()
            for a, b in free:
                if a == at and b not in parent:
                    parent[b] = a
                    queue.append(b)
        if dst not in parent:
            return flow
        at = dst
        while parent[at] is not None:
            free.remove((parent[at], at))
            free.add((at, parent[at]))
            at = parent[at]
        flow += 1


@walks(SLICES)
def test_paths_are_the_most_shortest_paths_without_a_common_link(s):
    chips = list(product(*map(range, s.shape)))
    for src, dst in zip(chips[::5], chips[::-3]):
        if src != dst:
            assert send(1.0, src, dst, s).paths == shortest_disjoint_paths(src, dst, s), (src, dst)


def test_transfer_across_a_4x4():
    t = send(2 * 8 * 128 * 8192, (0, 0), (3, 3), Slice(chip("v5e"), (4, 4)))
    assert t.first == pytest.approx(6e-6)
    assert t.total == pytest.approx(192.4e-6, rel=1e-3)


@given(st.integers(2, 50), st.data())
def test_rings_are_no_longer_than_lines(n, data):
    a, b = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
    assert line_distance(a, b, n, True) == min(abs(a - b), n - abs(a - b)) <= n // 2
    assert line_distance(a, b, n, True) <= line_distance(a, b, n, False) <= n - 1


def least_seconds(where, s: Slice) -> float:
    """A linear program: flows over every wire, each chip's bytes reach one chip, the busiest wire is as idle as can be."""
    chips = list(product(*map(range, s.shape)))
    wires = sorted({(a, b) for a in chips for b in neighbours(a, s) if a != b})
    leaves = np.zeros((len(chips), len(wires) + 1))
    for k, (a, b) in enumerate(wires):
        leaves[chips.index(a), k] += 1
        leaves[chips.index(b), k] -= 1
    others = [i for i, c in enumerate(chips) if c != tuple(where)]
    load = np.hstack([np.eye(len(wires)), -np.ones((len(wires), 1))])
    best = linprog(
        [0] * len(wires) + [1], load, np.zeros(len(wires)), leaves[others], np.full(len(others), 1 / len(chips))
    )
    return best.fun / s.chip.link_bandwidth


FLAT = [(8, 1), (1, 5), (8, 2), (7, 3), (4, 4), (2, 2), (16, 2)]
DEEP = [(2, 2, 1), (4, 4, 1), (4, 2, 2), (5, 3, 2), (8, 2, 1)]


@walks([*(Slice(chip("v5e"), s) for s in FLAT), *(Slice(chip("v5p"), s) for s in DEEP), *SLICES])
def test_gathering_to_one_chip_is_the_best_flow(s):
    for where in list(product(*map(range, s.shape)))[:: 1 if s.chips < 20 else 5]:
        assert gather_to_one(1e12, where, s) == pytest.approx(1e12 * least_seconds(where, s)), where


def test_chips_outside_a_slice_are_refused():
    refused(
        (lambda: distance((4, 0), (0, 0), SLICES[0]), r"\(4, 0\) is no chip of a 4x4 slice of 16"),
        (lambda: line_distance(0, 4, 4, True), "numbered 0 to 3"),
    )


@given(st.integers(1, 1024), st.integers(1, 255), st.integers(0, 160 * 1024))
def test_resident_blocks_fill_the_sm_and_no_more(threads, registers, smem):
    sm, n = SM(), SM().resident_blocks(threads, registers, smem)
    warps = -(-threads // 32)

    def fits(k):
        return k <= 32 and k * warps * 32 <= 2048 and k * warps * 32 * registers <= 65536 and k * smem <= 164 * 1024

    assert fits(n) and not fits(n + 1)
    assert 0 <= sm.occupancy(threads, registers, smem) <= 1


def test_warps_and_waves():
    assert 1024 // SM().warp == 32
    assert (waves(96 * 8, 108), waves(1, 108)) == (8, 1)
    assert wave_efficiency(216, 108) == 1
    assert wave_efficiency(217, 108) == pytest.approx(217 / 324)
    refused((lambda: SM().resident_blocks(0), "1 to 1024 threads"))


def test_gpus_are_on_no_torus():
    for ask in (lambda s: diameter(s), lambda s: distance((0,), (3,), s), lambda s: send(1.0, (0,), (3,), s)):
        with pytest.raises(ValueError, match="H100s hang on a switch"):
            ask(Slice(chip("H100"), (8,)))
