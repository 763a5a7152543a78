"""The systolic array against NumPy, against its cycle formula, and against what a PE may know."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from helpers.kernels.rooflines import systolic_array

SIDES = st.integers(1, 7)


@st.composite
def runs(draw):
    K, N, seed = draw(SIDES), draw(SIDES), draw(st.integers(0, 2**32 - 1))
    rows = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    rng = np.random.default_rng(seed)
    return [(rng.integers(-9, 9, (b, K)), rng.integers(-9, 9, (K, N))) for b in rows]


@given(runs())
@settings(max_examples=80, deadline=None)
def test_results_equal_numpy_and_cycles_equal_the_formula(pairs):
    K, N = pairs[0][1].shape
    rows = [len(X) for X, _ in pairs]
    r = systolic_array.run(*pairs)
    for out, (X, W) in zip(r.results, pairs, strict=True):
        assert np.array_equal(out, X @ W)
    assert r.cycles == systolic_array.cycles(rows, K, N)
    assert r.utilization == pytest.approx(sum(rows) / r.cycles)


@given(runs())
@settings(max_examples=30, deadline=None)
def test_every_pe_sees_only_its_neighbours(pairs):
    """Each frame follows from the one before by local rules: what was on the left, what was above, one's own weight."""
    last = None
    for f in systolic_array.frames(*pairs):
        busy = f.row != systolic_array.IDLE
        if last is not None:
            assert np.array_equal(f.row[:, 1:], last.row[:, :-1])
            assert np.array_equal(f.activation[:, 1:], last.activation[:, :-1], equal_nan=True)
            above = np.nan_to_num(last.partial[:-1])
            assert np.allclose(f.partial[1:][busy[1:]], (above + f.weight[1:] * f.activation[1:])[busy[1:]])
        assert np.allclose(f.partial[0][busy[0]], (f.weight[0] * f.activation[0])[busy[0]])
        assert f.busy == busy.mean()
        last = f


def test_a_second_matmul_adds_its_rows_and_no_new_fill():
    rng = np.random.default_rng(1)
    K, N, B = 4, 5, 6
    a, b = ((rng.integers(0, 9, (B, K)), rng.integers(0, 9, (K, N))) for _ in range(2))
    one, two = systolic_array.run(a), systolic_array.run(a, b)
    assert one.cycles == B + K + N - 2 and two.cycles == one.cycles + B
    assert two.utilization > one.utilization
    busy = [f.busy for f in systolic_array.frames(a, b)]
    assert all(share == 1 for share in busy[K + N - 2 : 2 * B])  # full from end to end: no bubble at the change


def test_a_short_matmul_cannot_hide_the_next_weights():
    rng = np.random.default_rng(2)
    K, N = 5, 3
    a, b = ((rng.integers(0, 9, (2, K)), rng.integers(0, 9, (K, N))) for _ in range(2))
    assert systolic_array.run(a, b).cycles == K + 2 + K + N - 2  # the second starts after K cycles, not after 2


def test_the_next_weights_slide_in_k_cycles():
    rng = np.random.default_rng(3)
    pair = rng.standard_normal((6, 4)), rng.standard_normal((4, 2))
    assert all(not f.loading.any() for f in systolic_array.frames(pair))
    assert [int(f.loading[0, 0]) for f in systolic_array.frames(pair, pair)][:7] == [0, 0, 1, 1, 1, 1, 0]


def test_a_tpu_array():
    rng = np.random.default_rng(4)
    X, W = rng.standard_normal((128, 128)), rng.standard_normal((128, 128))
    r = systolic_array.run((X, W))
    assert r.cycles == 382 and np.allclose(r.results[0], X @ W)
    assert r.utilization == pytest.approx(128 / 382)


@pytest.mark.parametrize(
    "pairs", [[], [((2, 3), (4, 5))], [((2, 3), (3, 4)), ((2, 3), (3, 5))], [((0, 3), (3, 4))], [((3,), (3, 4))]]
)
def test_wrong_shapes_are_one_sentence(pairs):
    with pytest.raises(ValueError, match=r"X\[B, K\] and W\[K, N\]"):
        systolic_array.run(*((np.ones(x), np.ones(w)) for x, w in pairs))
