"""What a GPU's SM can hold at once, and how blocks fill SMs in waves (chapter 1).

Source: NVIDIA CUDA C++ Programming Guide (occupancy).
"""

from dataclasses import dataclass

from helpers.arguments import entries
from helpers.numeric import ceil, minimum

BLOCK = 1024
"""Threads of a block at most, on every compute capability so far."""


@dataclass(frozen=True)
class SM:
    """What one streaming multiprocessor can hold; the defaults are the A100's (CUDA compute capability 8.0)."""

    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    smem_bytes: int = 164 * 1024
    warp: int = 32
    most: int = 1024
    """Threads of one block."""

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
        if threads > BLOCK:
            raise ValueError(
                f"a block has at most {BLOCK:,} threads, not {threads:,}: an SM's others come from more blocks"
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


entries(__name__)
