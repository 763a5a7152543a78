"""The benchmark of attention on a GPU, as far as it goes without one: cases, ratios."""

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.kernels.attention import pallas_flash_attention_gpu
from tools import bench_attention as bench


def stand_in(case):
    """No measurement: numbers to compute with."""
    if case.T == 32768:
        return {
            "ours": 4e-3,
            "xla": "XlaRuntimeError: out of memory",
            "cudnn": 3e-3,
            "shape": {"rows": 128},
            "off": 0.01,
        }
    return {"ours": 2e-3, "xla": 8e-3, "cudnn": 1e-3 if case.H == 64 else 1.5e-3, "shape": {"rows": 128}, "off": 0.01}


@pytest.fixture
def found(capsys):
    return bench.rows(bench.CASES, stand_in, chip("H100"))


def test_the_cases_are_those_that_are_asked_for():
    assert {c.T for c in bench.CASES} == {1024, 2048, 4096, 8192, 16384, 32768} and {c.H for c in bench.CASES} == {
        64,
        128,
    }
    assert len(bench.CASES) == 24 and all(c.N * c.H == 2048 and c.B * c.T == max(c.T, 16384) for c in bench.CASES)


def test_ratios_are_of_one_run(found):
    """Speed beside another is its seconds over ours; what did not run has none, and its reason is kept."""
    row = next(r for r in found if (r["T"], r["H"], r["causal"]) == (4096, 128, True))
    assert row["speed"]["xla"] == 4 and row["speed"]["cudnn"] == 0.75
    assert row["speed"]["roofline"] == row["seconds"]["roofline"] / 2e-3
    long = next(r for r in found if r["T"] == 32768)
    assert "xla" not in long["speed"] and long["seconds"]["xla"].endswith("memory") and "none" in bench.line(long)


def test_the_roofline_is_what_the_mask_leaves():
    """By hand, heads of 128 on an H100: 4·B·N·T²·H FLOPs over 9.89e14, half of it and a diagonal causal; heads of 64: exponentials."""
    B, N, T = 4, 16, 4096
    full, half = (bench.roofline(bench.Case(T, 128, causal), chip("H100")) for causal in (False, True))
    assert full == (pytest.approx(4 * B * N * T**2 * 128 / 9.89e14), "math")
    assert half[0] / full[0] == pytest.approx((T + 1) / (2 * T))
    assert bench.roofline(bench.Case(T, 64, True), chip("B200"))[1] == "exps"


def test_the_verdict_looks_at_long_texts_and_wide_heads(found):
    assert (
        bench.verdict(found)
        == "Heads of 128, 4,096 tokens and more: 0.75 of cuDNN's speed or more, at least the 0.6 aimed at."
    )
    slow = [r | {"speed": {"cudnn": 0.5}} for r in found if r["T"] >= 4096]
    assert "0.50 of cuDNN's speed or more, short of" in bench.verdict(slow)
    assert "nothing is said" in bench.verdict([r | {"speed": {}} for r in found])


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


@pytest.mark.skipif(bench.accelerator("gpu") is not None, reason="a GPU is here, and would be measured")
def test_without_a_gpu_it_says_so(capsys):
    assert bench.main([]) == 0
    assert capsys.readouterr().out == bench.NONE + "\n"
