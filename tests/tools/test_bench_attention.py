"""The benchmark of attention on a GPU, as far as it goes without one: cases, ratios."""

import pytest

from helpers.costs.rooflines.chips import chip
from tools import bench_attention as bench


def test_the_roofline_is_what_the_mask_leaves():
    """By hand, heads of 128 on an H100: 4·B·N·T²·H FLOPs over 9.89e14, half of it and a diagonal causal; heads of 64: exponentials."""
    B, N, T = 4, 16, 4096
    full, half = (bench.roofline(bench.Case(T, 128, causal), chip("H100")) for causal in (False, True))
    assert full == (pytest.approx(4 * B * N * T**2 * 128 / 9.89e14), "math")
    assert half[0] / full[0] == pytest.approx((T + 1) / (2 * T))
    assert bench.roofline(bench.Case(T, 64, True), chip("B200"))[1] == "exps"
