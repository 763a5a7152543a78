"""A GPU as a machine, and a TPU's units: what an SM holds, waves of blocks, memories that are kept busy, tiles (chapters 1 and 7).

Little's law: what is in flight is rate times latency. A memory that answers after `latency` seconds delivers W bytes/s only while
W·latency bytes have been asked for; HBM's are asked for by all SMs together, by loads of many warps or by copies into
shared memory that no thread waits for.

Source: NVIDIA, CUDA C++ Programming Guide, A100, H100 and Blackwell whitepapers; Little 1961; Volkov 2010 (parallelism in place of
occupancy); Austin et al. 2025, Section 2 (MXU, VPU).
"""

from typing import Literal

from helpers.arguments import Count, formula, record
from helpers.numeric import ceil, minimum

from .chips import CHIPS, chip
from .hardware import Chip


@record
class SM:
    """What one streaming multiprocessor can hold; the defaults are the A100's (CUDA compute capability 8.0)."""

    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    smem_bytes: int = 164 * 1024
    warp: int = 32
    most: int = 1024  # threads of one block, on every compute capability so far

    def resident_blocks(self, threads: int, registers: int = 32, smem_bytes: int = 0) -> int:
        """Blocks of `threads` threads (`registers` each, `smem_bytes` a block) that fit on one SM at once.

        Registers are counted as used; the hardware rounds them up a little.

        >>> SM().resident_blocks(1024), SM().resident_blocks(256, registers=128), SM().resident_blocks(128, smem_bytes=65536)
        (2, 2, 2)
        """
        if not 1 <= threads <= self.most or registers < 1 or smem_bytes < 0:
            raise ValueError(
                f"a block has 1 to {self.most} threads with 1 or more registers each, got {threads} and {registers}"
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


@formula
def waves(blocks, sms, blocks_per_sm=1):
    """Rounds that `blocks` take on `sms` SMs with `blocks_per_sm` blocks on each at once.

    >>> waves(108, 108), waves(109, 108)
    (1, 2)
    """
    return ceil(blocks / (sms * blocks_per_sm))


@formula
def wave_efficiency(blocks, sms, blocks_per_sm=1):
    """Share of the SMs' block slots that are used over all waves; a wave with one block costs as much as a full one.

    >>> wave_efficiency(108, 108), round(wave_efficiency(109, 108), 3)
    (1.0, 0.505)
    """
    return blocks / (waves(blocks, sms, blocks_per_sm) * sms * blocks_per_sm)


GPU_LATENCY = {"SM": (1, 1), "L2": (2, 3), "HBM": (10, 10), "NVLink": (50, 60), "PCIe": (300, 300)}
"""Rough time of an access, (low, high), relative to the SM's own memory (shared memory and L1): orders of magnitude, as texts
on GPUs have them; `CYCLES` are measured."""


@formula
def mxu_rate(clock=1.5e9, size=128, rows=8, cycles=8):
    """FLOPs/s of one systolic array: every `cycles` cycles it multiplies [rows, size] by [size, size].

    >>> f"{mxu_rate():.2e}", f"{4 * mxu_rate():.3e}"         # a v5e has four
    ('4.92e+13', '1.966e+14')
    """
    return 2 * rows * size * size / cycles * clock


@formula
def vpu_rate(clock=1.5e9, lanes=128, sublanes=8, alus=2):
    """Elementwise operations per second of one vector unit: `sublanes` x `lanes` positions with `alus` units each.

    alus  2 on a v4, 4 on a v5e and v5p

    >>> f"{vpu_rate():.2e}", f"{vpu_rate(alus=4):.2e}"
    ('3.07e+12', '6.14e+12')
    """
    return lanes * sublanes * alus * clock


CYCLES = {"registers": 1, "shared": 25, "L2": 275, "HBM": 675}
"""Clock cycles until a load answers on Hopper, rounded, with nothing else in the way; busy memories take longer. Of another chip's
HBM the row of `rooflines.chips` may have its own.

Source: one load after another, each at the address that the last one found: H800 23, 273 and 673 (github.com/chanzhennan/
ChipBenchmarker); GH200 281 and 690 (github.com/markdewing/AI_kernels, latency).
"""


@record
class Machine:
    """A GPU and its SMs.

    >>> g = gpu("H100")
    >>> round(g.clock / 1e9, 2), round(g.register_bytes / 1e6, 1), round(g.chip.fast_bytes / 1e6, 1)
    (1.83, 34.6, 30.8)
    """

    chip: Chip
    sm: SM
    l2_bytes: float

    @property
    def clock(self) -> float:
        """Cycles/s at which its tensor cores have the published rate."""
        return self.chip.rate() / self.chip.clock_flops / self.chip.cores

    @property
    def register_bytes(self) -> int:
        """Of all SMs, four bytes each."""
        return 4 * self.sm.registers * self.chip.cores

    def latency(self, memory: Literal[*CYCLES]) -> float:
        """Seconds until a load answers: `CYCLES`, at this clock, of this chip's HBM.

        >>> [round(gpu(name).latency("HBM") * 1e9) for name in ("A100", "H100", "B200")]
        [354, 369, 463]
        """
        cycles = self.chip.hbm_cycles if memory == "HBM" and self.chip.hbm_cycles else CYCLES[memory]
        return cycles / self.clock


@formula
def gpu(name: str) -> Machine:
    """The machine of an NVIDIA GPU whose L2 is published.

    >>> gpu("A100").sm.smem_bytes // 1024, gpu("B200").sm.smem_bytes // 1024
    (164, 228)
    """
    c = chip(name)
    if not c.l2_bytes:
        listed = ", ".join(c.name for c in CHIPS.values() if c.l2_bytes)
        raise ValueError(f"of {c.name} no L2 is listed here: there are {listed}")
    return Machine(c, SM(smem_bytes=round(c.fast_bytes / c.cores)), c.l2_bytes)


@formula
def bytes_in_flight(W, latency):
    """Bytes that have to be asked for at any time, so that a memory of this latency delivers W bytes/s (Little's law).

    >>> round(bytes_in_flight(3.35e12, 4e-7) / 1e6, 2), round(bytes_in_flight(3.35e12, 4e-7) / 132 / 1024, 1)
    (1.34, 9.9)
    """
    return W * latency


@formula
def rate_in_flight(n_bytes, latency, W):
    """Bytes/s that a memory delivers while so many bytes are in flight: they come in `latency`, and W at most.

    >>> rate_in_flight(132 * 2048 * 4, 4e-7, 3.35e12) / 1e12                # one float a thread, all threads of an H100
    2.70336
    """
    return minimum(n_bytes / latency, W)


@formula
def warps_in_flight(W, latency, sms, bytes_each=16, loads=1):
    """Warps of an SM that keep W bytes/s coming, if each of their 32 threads has `loads` loads of `bytes_each` bytes in flight.

    >>> [warps_in_flight(3.35e12, 4e-7, 132, size, loads) for size, loads in ((4, 1), (16, 1), (16, 4))]
    [80, 20, 5]
    """
    return ceil(bytes_in_flight(W, latency) / sms / (32 * loads * bytes_each))


@formula
def stages_in_flight(W, latency, sms, tile_bytes):
    """Buffers of a tile's operands in shared memory: one is multiplied while those that keep HBM busy are on their way.

    >>> stages_in_flight(3.35e12, 1e-6, 132, 2 * (128 + 256) * 64)
    2
    """
    return 1 + ceil(bytes_in_flight(W, latency) / sms / tile_bytes)


@record
class Tiles:
    """A product of [m, k] and [k, n] cut into tiles of [tile_m, tile_n], one for each SM at a time.

    tiles       in all
    waves       rounds that they take
    used        share of the SMs' time that tiles fill: the last wave may be short
    full        share of the tiles' numbers that are numbers of the result: those at the edges may be short
    """

    tiles: int
    waves: int
    used: float
    full: float

    @property
    def efficiency(self):
        """Share of the peak FLOPs/s that is left."""
        return self.used * self.full


@formula
def tiled(m, n, sms, tile_m=128, tile_n=256) -> Tiles:
    """Tiles and waves of a product whose result is [m, n].

    One row of the result more than fits can cost a whole wave:

    >>> a, b = tiled(8192, 8448, 132), tiled(8193, 8448, 132)
    >>> (a.waves, round(a.efficiency, 2)), (b.waves, round(b.efficiency, 2))
    ((16, 1.0), (17, 0.94))
    """
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    return Tiles(tiles, waves(tiles, sms), wave_efficiency(tiles, sms), m * n / (tiles * tile_m * tile_n))


@formula
def tile_intensity(tile_m, tile_n, bytes_each=2):
    """FLOPs for each byte that a tile reads from L2: 2·m·n·k over bytes_each·(m + n)·k, whatever k.

    >>> tile_intensity(128, 256), round(tile_intensity(64, 64), 1)
    (85.33333333333333, 32.0)
    """
    return 2 * tile_m * tile_n / (bytes_each * (tile_m + tile_n))


@formula
def l2_rate(C, tile_m, tile_n, bytes_each=2):
    """Bytes/s that L2 has to deliver so that tiles multiply at C FLOPs/s, if no two SMs share what they read.

    An H100's L2 was measured at 5.5e12, so its SMs work in clusters, and get what they have in common once (multicast).

    >>> f"{l2_rate(9.89e14, 128, 256):.3g} {l2_rate(9.89e14, 64, 64):.3g}"
    '1.16e+13 3.09e+13'
    """
    return C / tile_intensity(tile_m, tile_n, bytes_each)


@formula
def tile_fits(sm: SM, tile_m: Count, tile_n: Count, tile_k: Count, stages: Count = 3, bytes_each: int = 2) -> bool:
    """Whether a tile's sums, in float32, leave half of the registers, and its stages of operands fit into shared memory.

    >>> [tile_fits(gpu("H100").sm, m, n, 64, s) for m, n, s in ((128, 256, 4), (256, 256, 3), (128, 256, 5))]
    [True, False, False]
    """
    sums, operands = tile_m * tile_n, stages * (tile_m + tile_n) * tile_k * bytes_each
    return sums <= sm.registers / 2 and operands <= sm.smem_bytes
