"""Distances and transfers on lines, rings and tori; stages in a row; what a GPU's SMs can hold (chapter 1).

W is bytes/s of one link in one direction; a hop takes `hop` seconds.
Source: Austin et al. 2025, Section 2; NVIDIA CUDA C++ Programming Guide (occupancy).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from .hardware import Slice
from .numeric import ceil, maximum, minimum

HOP = 1e-6
"""Seconds for the first byte to cross one ICI link (Austin et al. 2025, Section 2)."""


def line_distance(a: int, b: int, n: int, wraps: bool) -> int:
    """Hops from chip a to chip b of n in a row, the short way round if the row is a ring.

    >>> line_distance(0, 3, 4, wraps=False), line_distance(0, 3, 4, wraps=True)
    (3, 1)
    """
    if not (0 <= a < n and 0 <= b < n):
        raise ValueError(f"chips of an axis of {n} are numbered 0 to {n - 1}, got {a} and {b}")
    d = abs(a - b)
    return min(d, n - d) if wraps else d


def distance(src: Sequence[int], dst: Sequence[int], s: Slice) -> int:
    """Hops of a shortest path between two chips of a slice.

    >>> from .hardware import chip
    >>> distance((0, 0), (3, 3), Slice(chip("v5e"), (4, 4)))
    6
    """
    _check(s, src, dst)
    return sum(line_distance(a, b, n, w) for a, b, n, w in zip(src, dst, s.shape, s.wraps))


def diameter(s: Slice) -> int:
    """Hops between the two chips that are farthest apart: n//2 for each ring, n-1 for each line.

    >>> from .hardware import chip
    >>> diameter(Slice(chip("v5e"), (16, 16))), diameter(Slice(chip("v5e"), (4, 4)))
    (16, 6)
    """
    _check(s)
    return sum(n // 2 if w else n - 1 for n, w in zip(s.shape, s.wraps))


@dataclass(frozen=True)
class Transfer:
    """A message from chip to chip: `first` seconds until its first byte arrives, `total` until the last one has."""

    hops: int
    paths: int
    first: float
    total: float


def send(n_bytes: float, src: Sequence[int], dst: Sequence[int], s: Slice, hop: float = HOP) -> Transfer:
    """Send `n_bytes` from chip to chip, split over all shortest paths that share no link.

    There is one such path for each axis along which the two chips differ.
    (An even ring has two ways to its opposite chip, which doubles that axis.)

    >>> from .hardware import chip
    >>> t = send(2 * 8 * 128 * 8192, (0, 0), (3, 3), Slice(chip("v5e"), (4, 4)))
    >>> t.hops, t.paths, f"{t.first:.1e} {t.total:.4e}"
    (6, 2, '6.0e-06 1.9241e-04')
    """
    hops = distance(src, dst, s)
    if hops == 0:
        return Transfer(0, 0, 0.0, 0.0)
    paths = 0
    for a, b, n, wraps in zip(src, dst, s.shape, s.wraps):
        d = line_distance(a, b, n, wraps)
        paths += 0 if d == 0 else 2 if wraps and 2 * d == n and n > 2 else 1
    first = hops * hop
    return Transfer(hops, paths, first, first + n_bytes / (paths * s.chip.link_bandwidth))


def ports(where: Sequence[int], s: Slice) -> int:
    """Links of one chip: two on a ring of 3 or more, one at the end of a line.

    >>> from .hardware import chip
    >>> ports((0, 0), Slice(chip("v5e"), (4, 4))), ports((1, 1), Slice(chip("v5e"), (4, 4)))
    (2, 4)
    """
    _check(s, where)
    return sum((n > 1) + (n > 2 if w else 0 < a < n - 1) for a, n, w in zip(where, s.shape, s.wraps))


def gather_to_one(n_bytes: float, where: Sequence[int], s: Slice) -> float:
    """Seconds until one chip holds an array that was spread evenly over the slice: all its ports receive at once.

    It already has its own share. Latency (microseconds) is left out.

    >>> from .hardware import chip
    >>> f"{gather_to_one(2**34, (0, 0), Slice(chip('v5e'), (4, 4))):.3f}"
    '0.179'
    """
    if s.chips == 1:
        return 0.0
    return n_bytes * (s.chips - 1) / s.chips / (ports(where, s) * s.chip.link_bandwidth)


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
    """x[rows, D] · W[D, F] on chip 0, with W (w bytes each) in host memory spread over the slice.

    W crosses PCIe to all chips at once, ICI to chip 0, HBM into the matrix unit; x is small and left out.

    >>> from .hardware import chip
    >>> t = offloaded_matmul(8, 2**17, 2**17, Slice(chip("v5e"), (4, 4)))
    >>> " ".join(f"{name} {1e3 * x:.1f}ms" for name, x in t.seconds.items()), t.bottleneck
    ('pcie 71.6ms ici 179.0ms hbm 21.2ms math 1.4ms', 'ici')
    """
    n_bytes = w * D * F
    return Stages(
        {
            "pcie": n_bytes / (s.chips * s.chip.pcie_bandwidth),
            "ici": gather_to_one(n_bytes, (0,) * len(s.shape), s),
            "hbm": n_bytes / s.chip.hbm_bandwidth,
            "math": 2 * rows * D * F / s.chip.rate(dtype),
        }
    )


@dataclass(frozen=True)
class SM:
    """What one streaming multiprocessor can hold; the defaults are the A100's (CUDA compute capability 8.0)."""

    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    smem_bytes: int = 164 * 1024
    warp: int = 32

    def resident_blocks(self, threads: int, registers: int = 32, smem_bytes: int = 0) -> int:
        """Blocks of `threads` threads (`registers` each, `smem_bytes` a block) that fit on one SM at once.

        Registers are counted as used; the hardware rounds them up a little.

        >>> SM().resident_blocks(1024), SM().resident_blocks(256, registers=128), SM().resident_blocks(128, smem_bytes=65536)
        (2, 2, 2)
        """
        if threads < 1 or registers < 1 or smem_bytes < 0:
            raise ValueError(
                f"a block has 1 or more threads with 1 or more registers each, got {threads} and {registers}"
            )
        per_block = self.warp * ceil(threads / self.warp)
        limits = [self.blocks, self.threads // per_block, self.registers // (per_block * registers)]
        return minimum(*limits, *([self.smem_bytes // smem_bytes] if smem_bytes else []))

    def occupancy(self, threads: int, registers: int = 32, smem_bytes: int = 0) -> float:
        """Share of the SM's warp slots in use.

        >>> SM().occupancy(1024), SM().occupancy(256, registers=128)
        (1.0, 0.25)
        """
        warps = ceil(threads / self.warp) * self.resident_blocks(threads, registers, smem_bytes)
        return warps / (self.threads // self.warp)


def waves(blocks, sms, per_sm=1):
    """Rounds that `blocks` take on `sms` SMs with `per_sm` blocks on each at once.

    >>> waves(108, 108), waves(109, 108)
    (1, 2)
    """
    return ceil(blocks / (sms * per_sm))


def wave_efficiency(blocks, sms, per_sm=1):
    """Share of the SMs' block slots that are used over all waves; a wave with one block costs as much as a full one.

    >>> wave_efficiency(108, 108), round(wave_efficiency(109, 108), 3)
    (1.0, 0.505)
    """
    return blocks / (waves(blocks, sms, per_sm) * sms * per_sm)


GPU_LATENCY = {"SM": (1, 1), "L2": (2, 3), "HBM": (10, 10), "NVLink": (50, 60), "PCIe": (300, 300)}
"""Rough time of an access, (low, high), relative to the SM's own memory (shared memory and L1): orders of magnitude."""


def mxu_rate(clock=1.5e9, size=128, rows=8, cycles=8):
    """FLOPs/s of one systolic array: every `cycles` cycles it multiplies [rows, size] by [size, size].

    >>> f"{mxu_rate():.2e}", f"{4 * mxu_rate():.3e}"         # a v5e has four
    ('4.92e+13', '1.966e+14')
    """
    return 2 * rows * size * size / cycles * clock


def vpu_rate(clock=1.5e9, lanes=128, sublanes=8, alus=2):
    """Elementwise operations per second of one vector unit: `sublanes` x `lanes` positions with `alus` units each.

    alus  2 on a v4, 4 on a v5e and v5p

    >>> f"{vpu_rate():.2e}", f"{vpu_rate(alus=4):.2e}"
    ('3.07e+12', '6.14e+12')
    """
    return lanes * sublanes * alus * clock


def _check(s: Slice, *chips: Sequence[int]) -> None:
    if not s.chip.axes:
        raise ValueError(f"{s.chip.name}s hang on a switch, one hop from each other: they have no place on a torus")
    for c in chips:
        if len(c) != len(s.shape) or any(not 0 <= a < n for a, n in zip(c, s.shape)):
            raise ValueError(f"{tuple(c)} is no chip of a {'x'.join(map(str, s.shape))} slice of {prod(s.shape)}")
