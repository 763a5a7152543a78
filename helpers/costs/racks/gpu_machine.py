"""A GPU as a machine: its memories, what has to be in flight to keep them busy, and tiles of a product on its SMs (chapter 7).

Little's law: what is in flight is rate times latency. A memory that answers after `latency` seconds delivers W bytes/s only while
W·latency bytes have been asked for; HBM's are asked for by all SMs together, by loads of many warps or by copies into
shared memory that no thread waits for.

`rooflines.occupancy` has the SM, what it can hold at once, and waves; here are the rest of the GPU and the tiles.
Source: NVIDIA, CUDA C++ Programming Guide, A100, H100 and Blackwell whitepapers; Little 1961; Volkov 2010 (parallelism in place of
occupancy).
"""

from dataclasses import dataclass

from helpers.arguments import Count, entries
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.occupancy import SM, wave_efficiency, waves
from helpers.numeric import ceil, minimum

CYCLES = {"registers": 1, "shared": 25, "L2": 275, "HBM": 675}
"""Clock cycles until a load answers on Hopper, rounded, with nothing else in the way; busy memories take longer.

Source: one load after another, each at the address that the last one found: H800 23, 273 and 673 (github.com/chanzhennan/
ChipBenchmarker); GH200 281 and 690 (github.com/markdewing/AI_kernels, latency).
"""
HBM_CYCLES = {"A100": 500, "A100-40GB": 500, "B200": 860, "GB200": 860}
"""The last one, where it is another: A100 499, B200 860 (as above)."""
L2_BYTES = {"A100": 40e6, "A100-40GB": 40e6, "H100": 50e6, "H200": 50e6, "B200": 126e6, "GB200": 126e6}
"""Bytes of L2 of the whole chip (NVIDIA's whitepapers; B200: Austin et al. 2025, section 12)."""
PER_CLOCK = {"A100": 2048, "A100-40GB": 2048, "H100": 4096, "H200": 4096, "B200": 8192, "GB200": 8192}
"""Dense bf16 FLOPs of an SM's four tensor cores in a clock cycle."""


@dataclass(frozen=True)
class Machine:
    """A GPU and its SMs.

    >>> g = gpu("H100")
    >>> round(g.clock / 1e9, 2), g.tensor_cores, round(g.register_bytes / 1e6, 1), round(g.chip.fast_bytes / 1e6, 1)
    (1.83, 528, 34.6, 30.8)
    """

    chip: Chip
    sm: SM
    l2_bytes: float

    @property
    def clock(self) -> float:
        """Cycles/s at which its tensor cores have the published rate."""
        return self.chip.rate() / PER_CLOCK[self.chip.name] / self.chip.cores

    @property
    def tensor_cores(self) -> int:
        """Four of each SM."""
        return 4 * self.chip.cores

    @property
    def register_bytes(self) -> int:
        """Of all SMs, four bytes each."""
        return 4 * self.sm.registers * self.chip.cores

    def latency(self, memory: str) -> float:
        """Seconds until a load answers: `CYCLES`, at this clock, of this chip's HBM.

        >>> [round(gpu(name).latency("HBM") * 1e9) for name in ("A100", "H100", "B200")]
        [354, 369, 463]
        """
        if memory not in CYCLES:
            raise ValueError(f"loads are from {', '.join(CYCLES)}, not from {memory!r}")
        cycles = HBM_CYCLES.get(self.chip.name, CYCLES["HBM"]) if memory == "HBM" else CYCLES[memory]
        return cycles / self.clock


def gpu(name: str) -> Machine:
    """The machine of an NVIDIA GPU whose L2 is published.

    >>> gpu("A100").sm.smem_bytes // 1024, gpu("B200").sm.smem_bytes // 1024
    (164, 228)
    """
    c = chip(name)
    if c.name not in L2_BYTES:
        raise ValueError(f"of {c.name} no L2 is listed here: there are {', '.join(L2_BYTES)}")
    return Machine(c, SM(smem_bytes=round(c.fast_bytes / c.cores)), L2_BYTES[c.name])


def bytes_in_flight(W, latency):
    """Bytes that have to be asked for at any time, so that a memory of this latency delivers W bytes/s (Little's law).

    >>> round(bytes_in_flight(3.35e12, 4e-7) / 1e6, 2), round(bytes_in_flight(3.35e12, 4e-7) / 132 / 1024, 1)
    (1.34, 9.9)
    """
    return W * latency


def rate_in_flight(n_bytes, latency, W):
    """Bytes/s that a memory delivers while so many bytes are in flight: they come in `latency`, and W at most.

    >>> rate_in_flight(132 * 2048 * 4, 4e-7, 3.35e12) / 1e12                # one float a thread, all threads of an H100
    2.70336
    """
    return minimum(n_bytes / latency, W)


def warps_in_flight(W, latency, sms, bytes_each=16, loads=1):
    """Warps of an SM that keep W bytes/s coming, if each of their 32 threads has `loads` loads of `bytes_each` bytes in flight.

    >>> [warps_in_flight(3.35e12, 4e-7, 132, size, loads) for size, loads in ((4, 1), (16, 1), (16, 4))]
    [80, 20, 5]
    """
    return ceil(bytes_in_flight(W, latency) / sms / (32 * loads * bytes_each))


def stages_in_flight(W, latency, sms, tile_bytes):
    """Buffers of a tile's operands in shared memory: one is multiplied while those that keep HBM busy are on their way.

    >>> stages_in_flight(3.35e12, 1e-6, 132, 2 * (128 + 256) * 64)
    2
    """
    return 1 + ceil(bytes_in_flight(W, latency) / sms / tile_bytes)


@dataclass(frozen=True)
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


def tiled(m, n, sms, tile_m=128, tile_n=256) -> Tiles:
    """Tiles and waves of a product whose result is [m, n].

    One row of the result more than fits can cost a whole wave:

    >>> a, b = tiled(8192, 8448, 132), tiled(8193, 8448, 132)
    >>> (a.waves, round(a.efficiency, 2)), (b.waves, round(b.efficiency, 2))
    ((16, 1.0), (17, 0.94))
    """
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    return Tiles(tiles, waves(tiles, sms), wave_efficiency(tiles, sms), m * n / (tiles * tile_m * tile_n))


def tile_intensity(tile_m, tile_n, bytes_each=2):
    """FLOPs for each byte that a tile reads from L2: 2·m·n·k over bytes_each·(m + n)·k, whatever k.

    >>> tile_intensity(128, 256), round(tile_intensity(64, 64), 1)
    (85.33333333333333, 32.0)
    """
    return 2 * tile_m * tile_n / (bytes_each * (tile_m + tile_n))


def l2_rate(C, tile_m, tile_n, bytes_each=2):
    """Bytes/s that L2 has to deliver so that tiles multiply at C FLOPs/s, if no two SMs share what they read.

    An H100's L2 was measured at 5.5e12, so its SMs work in clusters, and get what they have in common once (multicast).

    >>> f"{l2_rate(9.89e14, 128, 256):.3g} {l2_rate(9.89e14, 64, 64):.3g}"
    '1.16e+13 3.09e+13'
    """
    return C / tile_intensity(tile_m, tile_n, bytes_each)


def tile_fits(sm: SM, tile_m: Count, tile_n: Count, tile_k: Count, stages: Count = 3, bytes_each: int = 2) -> bool:
    """Whether a tile's sums, in float32, leave half of the registers, and its stages of operands fit into shared memory.

    >>> [tile_fits(gpu("H100").sm, m, n, 64, s) for m, n, s in ((128, 256, 4), (256, 256, 3), (128, 256, 5))]
    [True, False, False]
    """
    sums, operands = tile_m * tile_n, stages * (tile_m + tile_n) * tile_k * bytes_each
    return sums <= sm.registers / 2 and operands <= sm.smem_bytes


entries(__name__)
