"""Seconds of single operations: on a perfect machine what they are by definition, and never less on a worse one."""

from dataclasses import replace
from math import inf

import pytest

from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.sharding import collectives
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training.operation_seconds import OLD, USUAL, Pace, Software
from helpers.costs.training.step_estimate_constants import CONSTANTS, GENERATIONS, Constants
from helpers.costs.training.step_operations import Attention, Product
from tests.helpers.costs.tables import refused, walks

PERFECT = Constants(
    ampere=1, hopper=1, blackwell=1, v5=1, v6=1, eight=1, attention=1, half=0, memory=inf, latency=0, link=1, network=1, usual=1
)  # fmt: skip
WAVE = Product("mlp", 128 * 108, 256, 8192)  # a tile for each SM of an A100


def test_a_full_wave_takes_its_flops():
    assert Pace(chip("A100"), k=PERFECT).product(WAVE) == pytest.approx(WAVE.flops / 3.12e14)
    assert Pace(chip("v5e"), k=PERFECT).product(WAVE) == pytest.approx(WAVE.flops / 1.97e14)


def test_a_tile_more_is_a_wave_more():
    more = replace(WAVE, m=WAVE.m + 1)
    on = Pace(chip("A100"), k=PERFECT)
    assert on.product(more) == pytest.approx(2 * on.product(WAVE), rel=1e-3)


def test_a_group_is_one_kernel():
    """A hundred products of a tile each fill a chip that one of them does not."""
    one, many = (Pace(chip("A100"), k=PERFECT).product(Product("experts", 128, 256, 4096, n)) for n in (1, 108))
    assert many == pytest.approx(one)


@walks([("H100", 2), ("B200", 2), ("v7", 2)])
def test_narrow_types_gain_what_the_chip_says_at_best(of, gain):
    wide, narrow = (Pace(chip(of), products=t, k=PERFECT).product(WAVE) for t in ("bf16", "fp8"))
    assert wide / narrow == pytest.approx(gain, rel=2e-3)
    half = Pace(chip(of), products="fp8", k=replace(PERFECT, eight=0.5)).product(WAVE)
    assert wide / half == pytest.approx(1 + (gain - 1) / 2, rel=2e-3)


def test_a_product_with_few_rows_waits_for_its_weights():
    thin, k = Product("mlp", 1, 256 * 132, 8192), replace(PERFECT, memory=1)
    assert Pace(chip("H100"), k=k).product(thin) == pytest.approx(2 * 256 * 132 * 8192 / 3.35e12, rel=0.1)


def test_long_fused_attention_takes_its_pairs_and_short_attention_longer():
    long, k = Attention(2**20, 8, 2**19, 2**20, 128), replace(PERFECT, half=1000)
    assert Pace(chip("A100"), k=PERFECT).attention(long)[0] == pytest.approx(long.flops() / 3.12e14)
    short = Attention(1000, 8, 500, 1000, 128)
    assert Pace(chip("A100"), k=k).attention(short)[0] == pytest.approx(2 * short.flops() / 3.12e14)
    forward, backward = Pace(chip("A100"), k=PERFECT).attention(long)
    assert backward == pytest.approx(2.5 * forward)


def test_blocks_that_a_ring_brings_are_attention_on_as_many_keys():
    pace = Pace(chip("H100"))
    ring, block = Attention(2048, 8, 4096, 8192, 128, hops=4), Attention(2048, 8, 1024, 2048, 128)
    assert pace.attention(ring) == pytest.approx([4 * seconds for seconds in pace.attention(block)])
    assert pace.attention(ring)[0] > pace.attention(replace(ring, hops=1))[0]


def test_an_older_kernel_computes_what_the_mask_hides():
    long = Attention(2**20, 8, 2**19, 2**20, 128)
    new, old = (Pace(chip("H100"), Software(attention=a), k=PERFECT).attention(long)[0] for a in ("fused", "unmasked"))
    assert old == pytest.approx(2 * new / OLD)


def test_stored_attention_reads_its_scores():
    a, k = Attention(2048, 16, 1024, 2048, 128), replace(PERFECT, memory=1, ampere=inf)
    forward, backward = Pace(chip("A100"), Software(attention="stored"), k=k).attention(a)
    assert forward == pytest.approx(6 * 2 * 2048 * 2048 * 16 / 2.039e12)
    assert backward / forward == pytest.approx(10 / 6)


@walks([4, 8, 16])
def test_a_ring_costs_what_chapter_2_says(n):
    """Both ways round an even ring; chapter 2 does not cut the farthest shard in two, which is 1/n."""
    v5e = chip("v5e")
    exact = collectives.all_gather(1e12, Axis(n)).bytes / v5e.link_bandwidth
    assert Pace(v5e, k=PERFECT).ring(1e12, n, 1) == pytest.approx(exact * (n - 1) / n, rel=1e-4)


def test_tensor_parallelism_gathers_among_neighbours():
    """Each GPU receives what the others have; a TPU's ring brings it from both sides."""
    a100, v5e = (Pace(chip(c), k=PERFECT).around(1e12, 8) for c in ("A100", "v5e"))
    assert a100 == pytest.approx(7 / 8 * 1e12 / 3e11) and v5e == pytest.approx(7 / 8 * 1e12 / 9e10, rel=1e-4)
    assert Pace(chip("A100")).around(1e12, 1) == 0


def test_rates_of_rings():
    a100, v5e, rack = (Pace(chip(c), k=PERFECT) for c in ("A100", "v5e", "GB200"))
    assert a100.rate(8, 1) == 3e11  # one host: NVLink
    assert a100.rate(32, 8) == 2.5e10  # a network card each
    assert a100.rate(32, 1) == 8 * 2.5e10  # all eight cards of a host carry one ring
    assert v5e.rate(16, 1) == 9e10 and v5e.rate(256, 1) == 1.8e11
    assert rack.rate(64, 1) == 9e11 and rack.rate(64, 8) < 9e11  # 72 GPUs behind a rack's switches


def test_an_alltoall_sends_a_domain_one_copy():
    on = Pace(chip("H100"), k=PERFECT)
    assert on.exchange(1e9, 8, 8) == pytest.approx(7 / 8 * 1e9 / 4.5e11)
    few, many = on.exchange(1e9, 16, 1), on.exchange(8e9, 16, 8)  # of one token: one copy, and eight
    assert few == pytest.approx(0.5 * 1e9 / 5e10) and many == pytest.approx((1 - 0.5**8) * 1e9 / 5e10)


def test_usual_software_is_slower():
    assert Pace(chip("H100"), USUAL).product(WAVE) == pytest.approx(CONSTANTS.usual * Pace(chip("H100")).product(WAVE))
    assert Pace(chip("H100"), USUAL).network < Pace(chip("H100")).network


def test_more_power_is_a_faster_clock():
    full, capped = (Pace(chip(c)).peak for c in ("H100", "H100-500W"))
    assert capped / full == pytest.approx((5 / 7) ** 0.5)


def test_every_chip_has_a_generation_or_borrows_one():
    """Of these no step is among the measured ones: another maker's, or tensor cores that do not go with the clock."""
    borrow = {"H100-PCIe", "H800", "H20", "MI300X", "MI355X", "Trn2"}
    assert set(GENERATIONS) | borrow == set(CHIPS) and not set(GENERATIONS) & borrow
    assert all(CONSTANTS.share(name) == CONSTANTS.hopper and Pace(chip(name)).power == 1 for name in borrow)


def test_errors_say_what_would_be_right():
    refused(
        (lambda: Pace(chip("A100"), products="mxfp8").product(WAVE), "A100 has no published rate for 'fp8'"),
        (lambda: Software(attention="flash"), "attention is 'fused', 'unmasked' or 'stored', not 'flash'"),
    )
