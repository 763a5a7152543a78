"""Seconds of single operations: on a perfect machine what they are by definition, and never less on a worse one."""

from dataclasses import replace
from math import inf

import pytest

from helpers.costs.racks.measured_collectives import REACHED
from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.sharding.collective_prices import CARD
from helpers.costs.training.operation_seconds import CONSTANTS, OLD, TUNED, USUAL, Constants, Pace, Software
from helpers.costs.training.step_operations import Attention
from helpers.costs.transformers.layer_products import Product
from tests.helpers.costs.tables import refused, walks

PERFECT = Constants(
    ampere=1, hopper=1, blackwell=1, v5=1, v6=1, eight=1, attention=1, half=0, memory=inf, latency=0, link=1, usual=1, experts=0
)  # fmt: skip
WAVE = Product("mlp", 128 * 108, 256, 8192)  # a tile for each SM of an A100


def test_a_full_wave_takes_its_flops():
    assert Pace(chip("A100"), k=PERFECT).product(WAVE) == pytest.approx(WAVE.flops / 3.12e14)
    assert Pace(chip("v5e"), k=PERFECT).product(WAVE) == pytest.approx(WAVE.flops / 1.97e14)


def test_a_tile_more_is_a_wave_more():
    more = replace(WAVE, m=WAVE.m + 1)
    on = Pace(chip("A100"), k=PERFECT)
    assert on.product(more) == pytest.approx(2 * on.product(WAVE), rel=1e-3)


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
    kinds = ("fused", "earlier", "unmasked")
    new, masked, old = (Pace(chip("H100"), Software(attention=a), k=PERFECT).attention(long)[0] for a in kinds)
    assert masked == pytest.approx(new / OLD) and old == pytest.approx(2 * new / OLD)
    same = [Pace(chip("A100"), Software(attention=a), k=PERFECT).attention(long) for a in kinds[:2]]
    assert same[0] == same[1]  # FlashAttention-2 was made for it


def test_stored_attention_reads_its_scores():
    a, k = Attention(2048, 16, 1024, 2048, 128), replace(PERFECT, memory=1, ampere=inf)
    forward, backward = Pace(chip("A100"), Software(attention="stored"), k=k).attention(a)
    assert forward == pytest.approx(6 * 2 * 2048 * 2048 * 16 / 2.039e12)
    assert backward / forward == pytest.approx(10 / 6)


def test_rates_of_rings():
    a100, v5e, rack = (Pace(chip(c), k=PERFECT) for c in ("A100", "v5e", "GB200"))
    assert a100.rate(8, 1) == 3e11  # one host: NVLink
    assert a100.rate(32, 8) == CARD * 2.5e10  # a network card each
    assert a100.rate(32, 1) == 8 * CARD * 2.5e10  # all eight cards of a host carry one ring
    assert v5e.rate(16, 1) == 9e10 and v5e.rate(256, 1) == 1.8e11
    assert rack.rate(64, 1) == 9e11 and rack.rate(64, 8) < 9e11  # 72 GPUs behind a rack's switches


def test_usual_software_is_slower():
    assert Pace(chip("H100"), USUAL).product(WAVE) == pytest.approx(CONSTANTS.usual * Pace(chip("H100")).product(WAVE))
    usual, tuned = (Pace(chip("H100"), software).rates().network for software in (USUAL, TUNED))
    assert usual < tuned == CARD * 5e10 == REACHED.network * 5e10
    compiled, eager = (
        Pace(chip("H100"), Software(compiled=c), k=replace(PERFECT, memory=1)).stream(1e9) for c in (True, False)
    )
    assert eager == 1e9 * 4 / 3.35e12 > compiled  # four bytes of each number, whatever may be fused


def test_more_power_is_a_faster_clock():
    full, capped = (Pace(chip(c)).peak for c in ("H100", "H100-500W"))
    assert capped / full == pytest.approx((5 / 7) ** 0.5)


def test_a_chip_without_a_generation_borrows_one():
    """Of these no step is among the measured ones: another maker's, or tensor cores that do not go with the clock."""
    borrow = {c.name for c in CHIPS.values() if not c.generation}
    assert borrow >= {"H100-PCIe", "H800", "H20", "MI300X", "MI355X", "Trn2"}
    for of in map(chip, borrow):
        assert CONSTANTS.share(of) == min(CONSTANTS.hopper, of.attains) and Pace(of).power == 1
    assert Pace(chip("MI300X")).peak == pytest.approx(7.08e14)  # AMD, Measuring Max-Achievable FLOPs
    nobody = replace(chip("Trn2"), lender="")
    said = "no share of peak of Trn2 is measured, and its row of `chips` names no lender"
    refused((lambda: CONSTANTS.share(nobody), said))


def test_errors_say_what_would_be_right():
    refused(
        (lambda: Pace(chip("A100"), products="mxfp8").product(WAVE), "A100 has no published rate for 'fp8'"),
        (lambda: Software(attention="flash"), "attention is 'fused', 'earlier', 'unmasked' or 'stored', not 'flash'"),
        (lambda: Software(graphs="some"), "graphs are 'usual', 'none', 'parts' or 'whole', not 'some'"),
    )
