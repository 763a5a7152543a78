"""A product whose weights lie in host memory: PCIe, ICI, HBM and the matrix unit in a row (chapter 1).

Source: Austin et al. 2025, Section 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.arguments import entries
from helpers.numeric import maximum

from .hardware import Slice
from .torus import gather_to_one


@dataclass(frozen=True)
class Stages:
    """Stages that data passes through in a row, in seconds by name.

    lower  all stages stream at once: the slowest one decides
    upper  each stage waits for the one before: their sum
    """

    seconds: Mapping[str, float]

    @property
    def lower(self) -> float:
        return maximum(*self.seconds.values())

    @property
    def upper(self) -> float:
        return sum(self.seconds.values())

    @property
    def bottleneck(self) -> str:
        return max(self.seconds, key=self.seconds.get)


def offloaded_matmul(rows: int, D: int, F: int, s: Slice, w: float = 1, dtype: str = "bf16") -> Stages:
    """x[rows, D] · W_in[D, F] on chip 0, with W (w bytes each) in host memory spread over the slice.

    W crosses PCIe to all chips at once, ICI to chip 0, HBM into the matrix unit; x is small and left out.

    >>> from .chips import chip
    >>> t = offloaded_matmul(8, 2**17, 2**17, Slice(chip("v5e"), (4, 4)))
    >>> " ".join(f"{name} {1e3 * x:.1f}ms" for name, x in t.seconds.items()), t.bottleneck
    ('pcie 71.6ms ici 179.0ms hbm 21.2ms math 1.4ms', 'ici')
    """
    if s.chip.pcie_bandwidth is None:
        raise ValueError(f"{s.chip.name} has no published bandwidth to its host: replace(chip, pcie_bandwidth=…)")
    n_bytes = w * D * F
    return Stages(
        {
            "pcie": n_bytes / (s.chips * s.chip.pcie_bandwidth),
            "ici": gather_to_one(n_bytes, (0,) * len(s.shape), s),
            "hbm": n_bytes / s.chip.hbm_bandwidth,
            "math": 2 * rows * D * F / s.chip.rate(dtype),
        }
    )


entries(__name__)
