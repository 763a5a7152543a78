"""Every number that the sources of chapter 1 state, computed again by `helpers`; values are typed here with where they stand.

RF is section 1 ("roofline") and TP section 2 ("tpus") of How To Scale Your Model (2025), KT the survey of inference methods (2024).
Where a source is wrong, book/data/errata.json computes the corrected value and says why; examples of docstrings have others.
"""

import json

import pytest

from helpers.costs.rooflines import gpu_machine, roofline, torus
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.roofline import critical_batch, critical_batch_limit, matmul, time, weight_load
from tests.book.conftest import ROOT
from tests.book.stated import near
from tests.helpers.costs.tables import walks

V5E_44 = Slice(chip("v5e"), (4, 4))
MESSAGE = torus.send(2 * 8 * 128 * 8192, (0, 0), (3, 3), V5E_44)


CLAIMS = {
    # RF, the two times
    "RF: 1e12 FLOPs on an H100": (time(roofline.Work(1e12), 9.89e14, 3.35e12).math, 1.011e-3),
    "RF: dot product, N=1": (roofline.dot(1).intensity, 0.1667),
    "RF: dot product, N=4096": (roofline.dot(4096).intensity, 0.4999),
    "RF: exact, D=8192, F=32768, 8.2e11": (critical_batch(8192, 32768, 1.97e14, 8.2e11), 249.4),
    "RF: per-example product, B=1": (roofline.batched_matmul(1, 8192, 8192, 1, 1, 1).intensity, 2.0),
    # RF, questions
    "RF Q2: int8 weights, bf16 arithmetic": (critical_batch_limit(1.97e14, 8.1e11, 1), 121.6),
    "RF Q4: intensity": (roofline.batched_matmul(64, 4096, 4096, 1, 1, 1).intensity, 2.0),
    # TP, the chip
    "TP: VPU, 8 x 128 lanes, two ALUs, 1.5 GHz": (gpu_machine.vpu_rate(), 3.07e12),
    "TP: VMEM over HBM": (chip("v5e").fast_bandwidth / chip("v5e").hbm_bandwidth, 22.0),
    # TP, questions
    "TP Q1: 200B bf16 on 32 v4p": (weight_load(200e9, 2, 32, 1.2e12), 1.04e-2),
    "TP Q1: with 1.23e12 bytes/s": (weight_load(200e9, 2, 32, 1.23e12), 1.02e-2),
    "TP Q2: v5e cores": (Slice(chip("v5e"), (16, 16)).cores, 256),
    "TP Q2: v5e FLOPs/s": (Slice(chip("v5e"), (16, 16)).rate(), 5.04e16),
    "TP Q2: v5e HBM": (Slice(chip("v5e"), (16, 16)).hbm_bytes, 4.1e12),
    "TP Q2: v5p cores": (Slice(chip("v5p"), (16, 20, 28)).cores, 17920),
    "TP Q2: v5p FLOPs/s": (Slice(chip("v5p"), (16, 20, 28)).rate(), 4.1e18),
    "TP Q2: v5p HBM": (Slice(chip("v5p"), (16, 20, 28)).hbm_bytes, 860e12),
    "TP Q4: from VMEM": (critical_batch(4096, 16384, 3.94e14, 22 * 8.1e11, 1, 1, 1), 11.09),
    "TP Q5: first byte": (MESSAGE.first, 6e-6),
    "TP Q5: on the links (188 with rounded bytes)": (MESSAGE.total - MESSAGE.first, 1.864e-4),
    # KT
    "KT: warps of a block of 1024": (1024 / gpu_machine.SM().warp, 32),
    "KT: threads of an SM": (gpu_machine.SM().threads, 2048),
}


@walks(CLAIMS)
def test_numbers_of_the_sources(claim):
    got, stated = CLAIMS[claim]
    near(got, stated)


# The table of chips: bf16, int8, HBM, HBM bytes/s, ICI one way, C/W of HBM, C/W of one ICI axis both ways.
CHIPS = {
    "v3": (1.4e14, 1.4e14, 32e9, 9.0e11, 1e11, 156, 700),
    "v4p": (2.75e14, 2.75e14, 32e9, 1.2e12, 4.5e10, 229, 3056),
    "v5p": (4.59e14, 9.18e14, 96e9, 2.8e12, 9e10, 164, 2550),
    "v5e": (1.97e14, 3.94e14, 16e9, 8.1e11, 4.5e10, 243, 2189),
    "v6e": (9.20e14, 1.84e15, 32e9, 1.6e12, 9e10, 575, 5111),
}


@walks(CHIPS)
def test_table_of_chips(name):
    c, stated = chip(name), CHIPS[name]
    assert (c.rate(), c.rate("int8"), c.hbm_bytes, c.hbm_bandwidth, c.link_bandwidth) == stated[:5]
    near(c.alpha_hbm(), stated[5])
    near(c.alpha_ici(), stated[6])


@pytest.mark.parametrize("name, most", [("v5e", 1.15), ("v6e", 1.3)])
def test_stored_opinion_of_a_compiler_agrees_with_the_roofline(name, most):
    """The page says of the v5e: within about 15 percent everywhere, with the compiler's own rates."""
    stored = json.loads((ROOT / "book/results/ch01_compiler.json").read_text(encoding="utf-8"))
    assert (
        stored["command"]
        and stored["date"]
        and stored["machine"]
        and set(stored["versions"]) == {"jax", "jaxlib", "libtpu"}
    )
    c = stored["chips"][name]
    for B, seconds in c["seconds"].items():
        assert 0.99 <= seconds / time(matmul(int(B), stored["D"], stored["F"]), c["C"], c["W"]).lower <= most
