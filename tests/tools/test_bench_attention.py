"""The benchmark of attention on a GPU, as far as it goes without one: cases, ratios."""

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.kernels.attention import pallas_flash_attention_gpu
from tools import bench_attention as bench


def test_the_roofline_is_what_the_mask_leaves():
    """By hand, heads of 128 on an H100: 4·B·N·T²·H FLOPs over 9.89e14, half of it and a diagonal causal; heads of 64: exponentials."""
    B, N, T = 4, 16, 4096
    full, half = (bench.roofline(bench.Case(T, 128, causal), chip("H100")) for causal in (False, True))
    assert full == (pytest.approx(4 * B * N * T**2 * 128 / 9.89e14), "math")
    assert half[0] / full[0] == pytest.approx((T + 1) / (2 * T))
    assert bench.roofline(bench.Case(T, 64, True), chip("B200"))[1] == "exps"


@pytest.mark.slow
@pytest.mark.parametrize("runs", [True, False])
def test_what_refuses_is_a_sentence_and_the_rest_is_timed(runs, monkeypatch):
    """A whole measurement of a tiny case on this machine: cuDNN is never here, and our kernel only interpreted."""
    monkeypatch.setattr(bench, "TOKENS", 32)
    monkeypatch.setattr(bench, "WIDTH", 16)
    monkeypatch.setattr(bench, "SHAPES", [(16, 16, 4, 2)])
    monkeypatch.setattr(bench.seconds, "__defaults__", (0.0,))
    flash = pallas_flash_attention_gpu.flash
    how = lambda *x: flash(*x[:-3], True, *x[-2:]) if runs else flash(*x)  # noqa: E731
    monkeypatch.setattr(pallas_flash_attention_gpu, "flash", how)
    got = bench.measured(bench.Case(20, 16, True), 1)
    assert got["xla"] > 0 and "cuDNN" in got["cudnn"]
    if runs:
        assert got["ours"] > 0 and got["off"] < 0.03 and got["shape"]["columns"] == 16
    else:
        assert "interpret mode" in got["ours"] and got["off"] is None
