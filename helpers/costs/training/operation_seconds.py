"""Seconds that each operation of a training step takes on a chip, in software of a kind (chapter 4).

Kernels take the root of the sum of squares of their arithmetic and their traffic, as `roofline.Calibration` does.
A ring over GPUs of several hosts goes over as many network cards as it has members in a host.
"""

from dataclasses import dataclass
from functools import cached_property

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.occupancy import wave_efficiency
from helpers.numeric import ceil, maximum, minimum, sqrt, where

from .step_estimate_constants import CONSTANTS, GENERATIONS, WATTS, Constants
from .step_operations import SCORES, Attention, Product

TILE = 128, 256  # of a product's result, which one core computes at a time
STEP = 32  # a head's width is rounded up to a multiple of this in a fused kernel, of twice this in a product
NARROW = 32  # of a head's width W, a fused kernel has W / (W + 32) of what it could, and 1.25 of that is 1 at 128
FUSED = 0.6  # arrays that go through HBM where a compiler or a fused kernel joins them, of those counted in `step_operations`
OLD = 0.57  # FlashAttention-2's share on an H100, 35 %, over that of attention made for it (Shah et al. 2024, "FlashAttention-3")
WIDE = {"mxfp8": "fp8", "nvfp4": "fp4"}  # types whose rate stands under another name in `chips`
TORUS = 0.3  # of `half`, on a TPU, whose kernel works on whole rows of queries
STORED = {"bf16": 2, "fp8": 1, "mxfp8": 1, "int8": 1, "nvfp4": 0.5}  # bytes of a number that a product reads


def published(chip: Chip, dtype: str) -> float:
    """FLOPs/s of a chip at a type: mxfp8 has the rate of fp8, nvfp4 that of fp4.

    >>> from helpers.costs.rooflines.chips import chip
    >>> published(chip("B200"), "mxfp8") == chip("B200").rate("fp8")
    True
    """
    return chip.rate(WIDE.get(dtype, dtype))


@dataclass(frozen=True)
class Software:
    """What is known of the programs that run a step.

    tuned      kernels and network as their makers publish them after tuning, or as one usually has them
    attention  "fused"; "unmasked": fused, and made before the chip was, with what the mask hides computed too; "stored": T·S weights
               go through HBM
    overlaps   collectives run beside products where they can
    overlaps_tp  tp's run in pieces beside the products that wait for them
    gathers    collectives in which fsdp gathers a layer: 1, or one for each of its matrices and vectors
    """

    tuned: bool = True
    attention: str = "fused"
    overlaps: bool = True
    overlaps_tp: bool = False
    gathers: int = 1

    def __post_init__(self):
        if self.attention not in ("fused", "unmasked", "stored"):
            raise ValueError(f"attention is 'fused', 'unmasked' or 'stored', not {self.attention!r}")


TUNED, USUAL = Software(), Software(tuned=False)


@dataclass(frozen=True)
class Pace:
    """What a chip, software and the constants make of operations: rates that they reach, and seconds of each.

    products  the type in which products with weights multiply
    """

    chip: Chip
    software: Software = TUNED
    products: str = "bf16"
    k: Constants = CONSTANTS

    @property
    def gpu(self) -> bool:
        """Whether kernels are launched and collectives go through switches."""
        return self.chip.axes == 0

    @cached_property
    def power(self) -> float:
        """FLOPs/s that a chip reaches go with its clock, and that with the root of its power: relative to its generation's."""
        usual = WATTS.get(GENERATIONS.get(self.chip.name, ""))
        return sqrt(self.chip.watts / usual) if usual and self.chip.watts else 1.0

    @cached_property
    def peak(self) -> float:
        """FLOPs/s of a large bf16 product inside of a step."""
        return self.chip.rate("bf16") * self.power * self.k.share(self.chip.name)

    @cached_property
    def memory(self) -> float:
        """Bytes/s of HBM."""
        return self.chip.hbm_bandwidth * self.k.memory

    @cached_property
    def link(self) -> float:
        """Bytes/s one way of an ICI link, or of a GPU's NVLinks."""
        return self.chip.link_bandwidth * self.k.link

    @cached_property
    def network(self) -> float:
        """Bytes/s of a chip's network card."""
        return self.chip.dcn_bandwidth * (self.k.link if self.software.tuned else self.k.network)

    @cached_property
    def launch(self) -> float:
        """Seconds of a kernel that does nothing."""
        return self.k.latency if self.gpu else 0.0

    @cached_property
    def usual(self) -> float:
        """How much longer kernels take than tuned ones."""
        return 1.0 if self.software.tuned else self.k.usual

    def product(self, p: Product, dtype: str | None = None):
        """One product, or a group of them in one kernel: FLOPs, with tiles and waves that are not full, and bytes."""
        dtype = self.products if dtype is None else dtype
        gain = published(self.chip, dtype) / self.chip.rate("bf16")
        tiles = ceil(p.m / TILE[0]) * ceil(p.n / TILE[1]) * p.groups
        full = p.m * p.n * p.groups / (TILE[0] * TILE[1] * tiles)
        waves = wave_efficiency(tiles, self.chip.cores) if self.gpu else 1.0
        math = p.flops / (self.peak * (1 + (gain - 1) * self.k.eight) * full * waves)
        read = STORED.get(dtype, 2) * (p.m * p.k + p.k * p.n) + 2 * p.m * p.n
        return self.usual * (sqrt(math**2 + (read * p.groups / self.memory) ** 2) + self.launch)

    def passes(self, p: Product, dtype: str | None = None):
        """A product forward, and the two of its backward pass."""
        return self.product(p, dtype), sum(self.product(b, dtype) for b in p.backward)

    def attention(self, a: Attention):
        """Forward and backward; a fused backward pass makes the scores again. Short blocks of keys leave a kernel few tiles."""
        if self.software.attention == "stored":
            math = a.flops(masked=False) / (self.peak * a.width / (2 * STEP * ceil(a.width / (2 * STEP))))
            moved = 2 * a.scores / self.memory
            return tuple(sqrt((n * math) ** 2 + (s * moved) ** 2) + 5 * self.launch for n, s in zip((1, 2), SCORES))
        half = self.k.half * self.chip.rate("bf16") / 3.12e14 * (1.0 if self.gpu else TORUS)
        rate = self.chip.rate("bf16") * self.power * self.k.attention / (1 + half * a.hops / a.every)
        rate = rate * a.width / (STEP * ceil(a.width / STEP)) * 1.25 * a.width / (a.width + NARROW)
        old = self.software.attention == "unmasked"
        if old and GENERATIONS.get(self.chip.name) != "ampere":
            rate = rate * OLD
        each = a.flops(masked=not old) / rate
        return each + a.hops * self.launch, 2.5 * each + 2 * a.hops * self.launch

    def stream(self, numbers, kernels=0):
        """Arrays of two bytes a number through HBM, in so many kernels."""
        fused = 1.0 if self.software.attention == "stored" else FUSED
        return self.usual * fused * 2 * numbers / self.memory + kernels * self.launch

    def rate(self, n, inside):
        """Bytes/s, one way, that each of n chips gets in a ring of them, if neighbours in it are `inside` chips apart."""
        chip = self.chip
        if self.gpu:
            members = maximum(1.0, minimum(n, chip.pod[0] / inside))
            return where(n * inside <= chip.pod[0], self.link, minimum(self.link, self.network * members))
        longest, spanned, size = chip.sides, 1.0, 1
        for axis in longest[:-1]:
            size = size * axis
            spanned = spanned + where(n > size, 1.0, 0.0)
        return 2 * self.link * spanned

    def ring(self, V, n, inside, calls=1):
        """An AllGather or ReduceScatter of V bytes over n chips, in so many collectives: a hop takes its time, whatever it carries."""
        hops = (n - 1) * self.k.latency if self.gpu else self.chip.hop * minimum(n - 1, 16.0)
        return where(n > 1, (n - 1) / n * V / self.rate(n, inside) + calls * hops, 0.0)

    def around(self, V, n):
        """The same over tp's chips, which are neighbours: trees and switches take no hop for each."""
        hops = (self.k.latency if self.gpu else self.chip.hop) * minimum(n - 1, 4.0)
        rate = self.rate(n, 1) if self.gpu else 2 * self.link
        return where(n > 1, (n - 1) / n * V / rate + hops, 0.0)

    def exchange(self, V, n, k):
        """An AllToAll of V bytes of tokens, k copies of each, over n neighbours: over links, and one copy to each other domain."""
        inner = V * (n - 1) / n / (self.link if self.gpu else 2 * self.link)
        if not self.gpu:
            return where(n > 1, inner, 0.0)
        domains = maximum(1.0, n / self.chip.pod[0])
        other = (domains - 1) * (1 - (1 - 1 / domains) ** k)  # domains that a token's copies reach, its own apart
        return where(n > 1, maximum(inner, V / k * other / self.network), 0.0)


entries(__name__)
