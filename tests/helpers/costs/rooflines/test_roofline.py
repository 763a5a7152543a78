"""Rooflines against brute force, and against the laws that any cost must obey."""

import math

import pytest
from hypothesis import given, strategies as st

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import (
    Move,
    Work,
    attainable,
    bound_by,
    critical_batch,
    dot,
    elementwise,
    matmul,
    on_chip,
    split_D,
    split_matmul,
    time,
)
from tests.helpers.costs.tables import refused, walks

sizes = st.integers(1, 20_000)
rates = st.floats(1e9, 1e16)


def matmul_by_hand(B, D, F):
    """(FLOPs, elements moved), counted one by one: the first product of a sum needs no addition, so we count it as one."""
    flops, touched = 0, set()
    for b in range(B):
        for f in range(F):
            for d in range(D):
                touched |= {("x", b, d), ("w", d, f)}
                flops += 2
            touched.add(("out", b, f))
    return flops, len(touched)


@walks([(1, 1, 1), (2, 3, 4), (5, 1, 7), (4, 6, 3)])
def test_matmul_counts_every_operation_and_element(B, D, F):
    flops, elements = matmul_by_hand(B, D, F)
    assert matmul(B, D, F).flops == flops
    assert matmul(B, D, F, 2, 2, 2).bytes == 2 * elements


@walks([1, 2, 17])
def test_dot_counts_products_and_additions(N):
    assert dot(N).flops == sum(1 for _ in range(N)) + sum(1 for _ in range(N - 1))
    assert dot(N).intensity == (2 * N - 1) / (4 * N + 2)


@given(st.floats(0, 1e18), st.floats(1, 1e15), rates, rates)
def test_two_resources_take_at_most_twice_the_lower_bound(flops, n_bytes, C, W):
    t = time(Work(flops, n_bytes), C, W)
    assert t.lower <= t.upper <= 2 * t.lower
    assert t.parts[t.bound] == t.lower


@given(sizes, sizes, sizes, rates, rates)
def test_compute_bound_exactly_when_intensity_exceeds_C_over_W(B, D, F, C, W):
    work = matmul(B, D, F)
    t = time(work, C, W)
    if abs(work.intensity / (C / W) - 1) > 1e-9:
        assert (t.math > t.parts["hbm"]) == (work.intensity > C / W)
    assert attainable(work.intensity, C, W) == pytest.approx(work.flops / t.lower)


@given(sizes, sizes, rates, rates, st.sampled_from([0.5, 1, 2, 4]), st.sampled_from([1, 2]))
def test_critical_batch_is_where_the_bound_flips(D, F, C, W, w, x):
    B = critical_batch(D, F, C, W, x=x, w=w, out=x)
    if math.isinf(B):
        limit = 2 * D * F / (x * (D + F))  # the intensity of an endless batch
        assert limit <= C / W * (1 + 1e-9)
    else:
        assert time(matmul(B * 1.001, D, F, x, w, x), C, W).bound == "math" or B > 1e12
        assert time(matmul(B * 0.999, D, F, x, w, x), C, W).bound == "hbm" or B > 1e12


@given(st.integers(1, 10**5), st.integers(1, 10**5))
def test_two_chips_over_a_network_do_not_depend_on_the_batch(B, F):
    C, W = 1.97e14, 4.5e10
    for D, bound in ((8755, "ici"), (8756, "math")):
        t = time(split_matmul(B, D, F), C, 1e99, ici=W)
        assert t.bound == bound
    assert split_D(C, W) == pytest.approx(8755.6, abs=0.05)


def test_work_adds_up():
    two = matmul(3, 5, 7) + Work(10, 20, (Move("ici", 5, 2),))
    assert (two * 3).flops == 3 * (2 * 3 * 5 * 7 + 10)
    assert (two * 3).moves == (Move("ici", 15, 6),)
    assert time(two * 3, 1.0, 1.0, ici=1.0, hop=0.5).parts["ici"] == 15  # bound by bandwidth
    assert time(two * 3, 1.0, 1.0, ici=1.0, hop=5.0).parts["ici"] == 5.0 * 6  # by latency
    t = time(two, 1.0, 1.0, ici=1.0)
    assert (t + t).upper == 2 * t.upper


def test_on_chip_uses_the_rate_of_the_dtype():
    v5e = chip("v5e")
    assert on_chip(matmul(1, 1, 1, dtype="int8"), v5e).math * 2 == on_chip(matmul(1, 1, 1), v5e).math
    with pytest.raises(ValueError, match="v5e has no published rate for 'fp8'; it has bf16, int8"):
        on_chip(matmul(1, 1, 1, dtype="fp8"), v5e)


def test_errors_say_what_would_be_right():
    refused(
        (lambda: matmul(1, 1, 1, dtype="int8") + matmul(1, 1, 1), "different rates"),
        (lambda: time(Work(1, 1, (Move("dcn", 1),)), 1, 1), "give its bytes/s as dcn"),
        (lambda: Move("usb", 1), "Move: link is one of 'ici', 'dcn', 'pcie', 'fast', not 'usb'"),
    )


def test_classification_flips_at_the_crossovers():
    a100 = chip("A100-40GB")
    B = critical_batch(8192, 8192, a100.rate(), a100.hbm_bandwidth)
    assert bound_by(on_chip(matmul(math.floor(B), 8192, 8192), a100)) == "memory"
    assert bound_by(on_chip(matmul(math.ceil(B), 8192, 8192), a100)) == "compute"
    small = on_chip(elementwise(1000), a100)
    assert bound_by(small, launch=5e-6) == "overhead"
    assert bound_by(small, launch=0.99 * small.lower) == "memory"
