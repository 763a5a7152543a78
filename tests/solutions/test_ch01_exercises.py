"""Exercises of chapter 1: the sources' numbers from the solved functions."""

import math

import numpy as np
import pytest

from tests.solutions import course
from tests.solutions.course import agree

TOPIC = "ch01_rooflines"


@pytest.fixture(scope="module")
def solved():
    """Every answer of the solved notebook, by name."""
    return course.solved(TOPIC, lambda cell: "picture()" not in cell.source)


# (row of the sources, answer, arguments, expected): roofline.md (RF), tpus.md (TP) and the rows of the table of systems, errata corrected.
NUMBERS = [
    ("A2: N = 1", "dot_intensity", (1,), 1 / 6),
    ("A2: N to infinity", "dot_intensity", (10**9,), 0.5),
    ("A1: 1e12 FLOPs on an H100", "bounds", (1e12, 0, 9.89e14, 3.35e12), (1.011e-3, 1.011e-3, "compute")),
    (
        "RF 1: int8 intensity for large sizes",
        "int8_matmul",
        (128, 10**6, 10**6, 3.94e14, 8.1e11),
        {"bytes": 1e12, "ops": 2.56e14, "intensity": 255.93, "lower": 1.2349, "upper": 1.8846},
    ),
    ("A3: exact", "critical_batch", (8192, 32768, 1.97e14, 8.2e11), 249.4),
    ("A3: approximate", "critical_batch", (10**8, 10**8, 1.97e14, 8.2e11), 240.2),
    ("A3: approximate, 8.1e11", "critical_batch", (10**8, 10**8, 1.97e14, 8.1e11), 243.2),
    ("RF 2: int8 weights, bf16 arithmetic", "quantised_batch", ("bf16", "int8", {"bf16": 1.97e14}, 8.1e11), 121.6),
    ("A4: int8 both", "quantised_batch", ("int8", "int8", {"int8": 3.94e14}, 8.1e11), 243.2),
    (
        "RF 3: slope and roof",
        "attainable_rate",
        (np.array([1, 4096]), 10**7, 10**7, 1.97e14, 8.1e11),
        np.array([1.62e12, 1.97e14]),
    ),
    ("RF 4: a matrix of its own for each row", "per_row_intensity", (64, 10**5, 10**5), 2.0),
    ("RF 5: H100", "spec_sheet_batch", (1979, 3.35, True, 2), 295.4),
    ("RF 5: with 1e15 FLOPs/s", "spec_sheet_batch", (2000, 3.35, True, 2), 298.5),
    ("A8: A100-80GB", "spec_sheet_batch", (312, 2.039, False, 2), 153.0),
    ("A8: A100-40GB", "spec_sheet_batch", (312, 1.555, False, 2), 200.6),
    (
        "A7",
        "two_chips",
        (1, 8192, 1, 1.97e14, 4.5e10),
        {"math": 8192 / 1.97e14, "comms": 2 / 4.5e10, "bound": "comms", "smallest_D": 8755.6},
    ),
    ("TP 1: 200B bf16 on 32 v4p", "sampling_floor", (200e9, 2, 32, 1.2e12), (0.010417, 96.0, math.inf)),
    (
        "TP 2: v5e",
        "pod",
        ((16, 16), 8, 1, 1.97e14, 16e9, 8.1e11, 2.5e10),
        {"hosts": 32, "cores": 256, "flops": 5.0432e16, "hbm": 4.096e12, "sweep": 0.0197531, "fill": 5.12},
    ),
    (
        "TP 2: v5p",
        "pod",
        ((16, 20, 28), 4, 2, 4.59e14, 96e9, 2.8e12, 2.5e10),
        {"hosts": 2240, "cores": 17920, "flops": 4.11264e18, "hbm": 8.6016e14, "sweep": 0.0342857, "fill": 15.36},
    ),
    (
        "TP 3, ETP-5: none at D = 8192, unless D > 76,667",
        "pcie_batch",
        (8192, 9.2e14, 1.5e10, 1),
        (61333.3, math.inf, 1.87174),
    ),
    (
        "TP 4",
        "from_memory",
        (128, 4096, 16384, 3.94e14, 8.1e11, 0.5, 22),
        {"seconds": 4.46616e-5, "needed": 0.512768},
    ),
    ("TP 5", "transfer", (2 * 8 * 128 * 8192, (0, 0), (3, 3), (4, 4), (False, False), 4.5e10), (6e-6, 192.4e-6)),
    ("A13: ring of 16, farthest", "transfer", (0, (0,), (8,), (16,), (True,), 4.5e10), (8e-6, 8e-6)),
    ("A13: line of 16, farthest", "transfer", (0, (0,), (15,), (16,), (False,), 4.5e10), (15e-6, 15e-6)),
    (
        "TP 6",
        "offloaded",
        (8, 2**17, 2**17, 1, 16, 2, 1.97e14, 1.5e10, 4.5e10, 8.1e11),
        {
            "pcie": 71.583e-3,
            "ici": 178.957e-3,
            "hbm": 21.21e-3,
            "math": 1.3953e-3,
            "bottleneck": "ici",
            "lower": 178.957e-3,
            "upper": 273.145e-3,
        },
    ),
    ("A10: rows and fill", "cycles", (128, 128, 128), 382),
    (
        "A18: 1024 threads are 32 warps",
        "launch",
        (108, 1024, 32, 0, 108, dict(warp=32, threads=2048, blocks=32, registers=65536, smem=167936)),
        {"warps": 32, "resident": 2, "waves": 1, "efficiency": 0.5},
    ),
    (
        "TP 2, ETP-2: the expression as printed is 8960",
        "mended",
        ((16, 20, 28), (2, 2), 0, 1, 0, 1),
        {"hosts": 2240, "load": 0, "exchange": 0, "hops": 32},
    ),
]


@course.of_the_sources(NUMBERS)
def test_numbers_of_the_sources(solved, name, args, expected):
    agree(solved[name](*args), expected)


def test_forecast_has_the_intensities_of_the_sources(solved):
    """A19: bf16 ReLU does one operation for four bytes."""
    flops, moved = solved["forecast"]()["relu"]
    assert flops / moved == 0.25


def test_verdict_flips_exactly_at_the_crossovers(solved):
    """A20."""
    layer = (2048, 2048, 3.12e14, 2.039e12, 4.3e-6)
    _, awake, fed = solved["waits_for"](1, *layer)
    assert [solved["waits_for"](B, *layer)[0] for B in (awake - 1, awake, fed - 1, fed)] == [
        "overhead",
        "memory",
        "memory",
        "compute",
    ]
