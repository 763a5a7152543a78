"""The hardware table against a second source, and its shape."""

from dataclasses import fields

import pytest

from helpers.costs.rooflines.chips import CHIPS, OF_SOURCES, chip, menu
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.torus import HOP
from helpers.costs.training.operation_seconds import CONSTANTS
from tests.helpers.costs.tables import refused, walks


@walks(CHIPS.values())
def test_every_field_has_a_source(c):
    own = {*"name kind names neighbours sources generation lender links serving label menu".split()}
    assert {f.name for f in fields(Chip)} - own == {*c.sources, *OF_SOURCES}


@walks([
    ("v3", "TPU v3", 2), ("v4p", "TPU v4", 2), ("v5e", "TPU v5e", 1), ("v5p", "TPU v5p", 2), ("v6e", "TPU v6e", 1),
    ("v7", "TPU7x", 2),
])  # fmt: skip
def test_tpus_against_the_table_inside_jax(name, kind, cores):
    """JAX carries its own table for Pallas. Sources round differently, so 15 % apart is a different number."""
    tpu_info = pytest.importorskip("jax._src.tpu_info", reason="JAX 0.12 holds this table; 0.10 keeps it elsewhere")
    version = tpu_info.chip_version_from_device_kind(kind)
    info = tpu_info.get_tpu_info_for_chip(version, cores if cores == 1 else 1)
    per_chip = 1 if cores == 1 else 2
    c = chip(name)
    assert c.rate("bf16") == pytest.approx(info.bf16_ops_per_second * per_chip, rel=0.01)
    assert c.hbm_bandwidth == pytest.approx(info.mem_bw_bytes_per_second * per_chip, rel=0.15)
    assert c.hbm_bytes == pytest.approx(info.hbm_capacity_bytes * per_chip, rel=0.10)
    assert c.fast_bytes == info.vmem_capacity_bytes * per_chip
    for dtype in {"int8", "fp8"} & set(c.flops):
        theirs = getattr(info, f"{dtype}_ops_per_second")
        assert not theirs or c.rate(dtype) == pytest.approx(theirs * per_chip, rel=0.01)


# What frameworks divide by for MFU, and other people's tables: torchtitan `tools/utils.py`, verl `utils/flops_counter.py`,
# LLM-Prof `hardware_spec.md` (memory in GB, links both ways in GB/s), Lockwood's "Trainium2" (an instance of sixteen).
@walks([
    ("A100", 312e12), ("H100", 989e12), ("H100-PCIe", 756e12), ("H200", 989e12), ("B200", 2.25e15), ("GB200", 2.5e15),
    ("H800", 989e12), ("H20", 148e12), ("MI300X", 1300e12), ("Trn2", 20.8e15 / 16 / 2),
])  # fmt: skip
def test_rates_that_frameworks_divide_by(name, bf16):
    assert chip(name).rate() == pytest.approx(bf16, rel=0.03)


@walks([
    ("H20", 96, 4022, 900), ("H800", 80, 3350, 400), ("A100", 80, 2039, 600), ("H100", 80, 3350, 900),
    ("H200", 141, 4800, 900), ("Trn2", 1.5 * 1024**4 / 16 / 1e9, 3000, 1280 - 4 * 64),
])  # fmt: skip
def test_memory_and_links_against_other_tables(name, memory, bandwidth, both_ways):
    c = chip(name)
    assert (c.hbm_bytes, c.hbm_bandwidth) == pytest.approx((memory * 1e9, bandwidth * 1e9), rel=0.04)
    assert 2 * c.link_bandwidth == pytest.approx(both_ways * 1e9)


@walks([("H100-PCIe", 114, 1.62e9, 4096), ("MI300X", 8 * 38, 2.1e9, 2048), ("MI355X", 8 * 32, 2.4e9, 4096)])
def test_rates_are_cores_times_clock(name, cores, clock, each):
    """By hand from the makers' peak clocks; AMD's LDS read 128 bytes a clock, and 256 since CDNA 4."""
    c = chip(name)
    assert c.rate() == pytest.approx(cores * clock * each, rel=0.002)
    assert c.fast_bandwidth == pytest.approx(cores * clock * (256 if name == "MI355X" else 128), rel=0.002)


def test_amd_links_one_by_one():
    """128 and 153.6 GB/s both ways between any two of eight: seven links of each."""
    for name, both_ways in (("MI300X", 128e9), ("MI355X", 153.6e9)):
        assert 2 * chip(name).link_bandwidth == pytest.approx(7 * both_ways) and chip(name).pod == (8,)
        assert "no switch" in chip(name).sources["axes"] and not any("NV" in s for s in chip(name).sources.values())


def test_menus_are_made_of_rows():
    """So that a new chip is one row."""
    assert menu().items() < menu("planner").items() and all(label for label in menu("planner").values())
    assert {"v5p", "H100"} <= menu().keys() and not {"v3", "v4p", "H100-500W"} & menu("planner").keys()


@walks([
    ("mi300", "MI300X"), ("trainium2", "Trn2"), ("h100-sxm", "H100"), ("tpu-v5p", "v5p"), ("TPU v5 lite", "v5e"),
    ("NVIDIA H100 80GB HBM3", "H100"), ("h100_pcie", "H100-PCIe"), ("tpu7x", "v7"), ("GB200-NVL72", "GB200"),
])  # fmt: skip
def test_names_by_meaning(asked, name):
    assert chip(asked) is CHIPS[name]


def test_chip_is_found_by_any_case_and_answers_typos():
    assert chip("V5E") is chip("v5e")
    assert chip("ironwood") is chip("v7")
    refused(
        (lambda: chip("v5f"), "no chip is called 'v5f'; did you mean v5p, v5e"),
        (lambda: chip("H10"), "did you mean .*H100"),
        (lambda: chip("h100-nvl"), "no chip is called 'h100-nvl'; did you mean .*H100-PCIe"),
        (lambda: chip("zzz"), "no chip is called 'zzz'; did you mean v3, v4p"),
    )


def test_axes_of_a_switch_are_refused():
    refused(
        (lambda: chip("H100").alpha_ici(), "H100 is one of a domain of 8, not of a torus"),
        (lambda: chip("v5e").alpha_ici(3), "2 torus axes, so 1 to 2, not 3"),
    )


@walks([
    ("v5e", (16, 16), (True, True)), ("v5e", (8, 16), (False, True)), ("v5e", (4, 4), (False, False)),
    ("v3", (32, 16), (True, False)), ("v4p", (4, 4, 4), (True, True, True)), ("v5p", (8, 4, 12), (True, True, True)),
    ("v4p", (2, 2, 4), (False, False, False)),
])  # fmt: skip
def test_when_an_axis_wraps(name, shape, wraps):
    assert Slice(chip(name), shape).wraps == wraps


@walks([
    ((4,), "has 2 axes"), ((4, 4, 4), "has 2 axes"), ((0, 4), "1 or more"), ((4.0, 4), "1 or more"),
    ((4, 32), "larger than a v5e pod"),
])  # fmt: skip
def test_impossible_slices_are_refused(shape, message):
    refused(
        (lambda: Slice(chip("v5e"), shape), message),
        (lambda: Slice(chip("v5e"), (4, 4), wraps=(True,)), "one truth value for each of the 2 axes"),
    )


def test_shared_memory_of_a_gpu_reads_32_words_a_clock_in_each_sm():
    """By hand from NVIDIA's boost clocks, 1.41 GHz of an A100 and 1.83 GHz of an H100 at its peak."""
    assert chip("A100").fast_bandwidth == pytest.approx(108 * 32 * 4 * 1.41e9, rel=0.005)
    assert chip("H100").fast_bandwidth == pytest.approx(132 * 32 * 4 * 1.83e9, rel=0.005)
    assert all(c.fast_bandwidth > 4 * c.hbm_bandwidth for c in CHIPS.values() if c.kind == "gpu")


def test_a_step_between_gpus_takes_no_longer_than_in_a_training_step():
    (hop,) = {c.hop for c in CHIPS.values() if c.kind == "gpu"}
    assert CONSTANTS.latency / 3 < hop < CONSTANTS.latency
    assert {c.hop for c in CHIPS.values() if c.kind == "tpu"} == {HOP}
