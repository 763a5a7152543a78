"""Seconds that each operation of a training step takes on a chip, in software of a kind, and the constants of it (chapter 4).

Kernels take the root of the sum of squares of their arithmetic and their traffic: between full overlap and none.

The `Constants` come from `python -m tools.bench_estimate --fit`: least squares over the rows of book/data/published.json, each
source weighing alike, with what is known from kernels as the guess. No constant belongs to a source, and none is read from its name.
"""

from dataclasses import replace
from functools import cached_property

from helpers.arguments import formula, record
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.gpu_machine import wave_efficiency
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding.collective_prices import (
    CARD,
    IN_STEP,
    IN_STEP_TENSOR,
    IN_STEP_TOKENS,
    Group,
    Rates,
    Table,
    adjacent,
    collective_seconds,
    in_domains,
)
from helpers.costs.transformers.layer_products import Product
from helpers.numeric import ceil, maximum, minimum, nonzero, sqrt, where

from .step_operations import SCORES, Attention, Send

TILE = 128, 256  # of a product's result, which one core computes at a time
STEP = 32  # a head's width is rounded up to a multiple of this in a fused kernel, of twice this in a product
NARROW = 32  # of a head's width W, a fused kernel has W / (W + 32) of what it could: relative to W = 128, of which `attention` is
EAGER = 2.0  # all of them, in four bytes where 2 are counted, as norms and rotations are in float32; one row alone was looked at for it
BACKWARD = 5 / 2  # products of a fused backward pass, which makes the scores again, over those forward
STORED_KERNELS = 5  # of each pass, where weights are stored
FUSED = 0.6  # arrays that go through HBM where a compiler or a fused kernel joins them, of those counted in `step_operations`
OLD = 0.57  # FlashAttention-2's share on an H100, 35 %, over that of attention made for it (Shah et al. 2024, "FlashAttention-3")
WIDE = {"mxfp8": "fp8", "nvfp4": "fp4"}  # types whose rate stands under another name in `chips`
USUAL_CARD = 0.5  # of what a card reaches in a tuned network, in one as it usually is
# Kernels that a host launches forward in a layer with experts: norms, attention and router; dispatch, sorting, activation and
# combine; and for each expert, launched in a loop of C++ and not from Python, half a kernel. Counted from what programs call, not in
# a trace; of 0.5, 1 and 2 an expert the first had least error on sources left out. Their ratios alone count: `experts` is fitted.
LAUNCHES = 17, 13, 0.5
NARROWER = 19, 13, 1.0  # the same in 8 bits and fewer: what products read is quantized first
FITTED_EXPERTS = 8  # on a device, of the layer that `Constants.experts` is the seconds of
TORUS = 0.3  # of `half`, on a TPU, whose kernel works on whole rows of queries
STORED = {"bf16": 2, "fp8": 1, "mxfp8": 1, "int8": 1, "nvfp4": 0.5}  # bytes of a number that a product reads
A100_BF16 = 3.12e14  # FLOP/s, dense; NVIDIA A100 data sheet: constants of attention's half length were fitted on it
WATTS = {"ampere": 400, "hopper": 700, "blackwell": 1000}
"""Power of the GPU whose share a generation's is: another one's clock, and FLOPs/s, go with the root of its power."""


@record
class Constants:
    """What hardware and software of one time reach. Shares are of the vendor's figure.

    ampere, hopper, blackwell, v5, v6  share of peak FLOPs/s of a large matrix product inside of a step, by generation:
               less than alone, for the chip is hot and its memory busy
    eight      share of what a product gains by narrower types that is seen: the rest goes into scaling and casting
    attention  share of peak FLOPs/s of fused attention over a long sequence, heads 128 wide
    half       tokens of a sequence with which fused attention has half of that, on an A100; on others in proportion to their FLOPs
    memory     share of HBM bytes/s of work that streams
    latency    seconds that a kernel, or a hop of a ring, takes at least, on a GPU
    link       share of the bytes/s of ICI or NVLink
    tensor     share of collectives over tp, and to experts, that nothing hides on a GPU, where programs wait for them
    data       share of other collectives that nothing hides, even where there is time to
    usual      how much longer products and streams take in usual software than in tuned
    experts    seconds in which a host launches all of a layer with eight experts on a device, forward and backward, in bf16
    """

    ampere: float = 0.738
    hopper: float = 0.65
    blackwell: float = 0.55
    v5: float = 0.84
    v6: float = 0.648
    eight: float = 0.752
    attention: float = 0.617
    half: float = 1180
    memory: float = 0.632
    latency: float = IN_STEP.hop
    link: float = IN_STEP.link
    tensor: float = 0.743
    data: float = 0.176
    usual: float = 1.13
    experts: float = 0.00773

    def share(self, chip: Chip) -> float:
        """Share of peak of a large product; of a chip without measured steps that of its lender."""
        if not (chip.generation or chip.lender):
            raise ValueError(f"no share of peak of {chip.name} is measured, and its row of `chips` names no lender")
        share = getattr(self, chip.generation or CHIPS[chip.lender].generation)
        return minimum(share, chip.attains) if chip.attains < 1 else share


CONSTANTS = Constants()


@formula
def published(chip: Chip, dtype: str) -> float:
    """FLOPs/s of a chip at a type: mxfp8 has the rate of fp8, nvfp4 that of fp4.

    >>> published(chip("B200"), "mxfp8") == chip("B200").rate("fp8")
    True
    """
    return chip.rate(WIDE.get(dtype, dtype))


@record
class Software:
    """What is known of the programs that run a step.

    tuned      kernels and network as their makers publish them after tuning, or as one usually has them
    attention  "fused"; "earlier": fused, and made before the chip was, as FlashAttention-2 for an H100; "unmasked": so, with what the
               mask hides computed too; "stored": T·S weights go through HBM
    overlaps   collectives run beside products where they can
    overlaps_tp  tp's run in pieces beside the products that wait for them, on GPUs
    logit      bytes that the loss holds of a logit: 6 if it is fused, bf16 and a softmax in float32; 10 with a gradient in float32 beside
               it, 16 if nothing is fused
    gathers    collectives in which fsdp gathers a layer: 1, or one for each of its matrices and vectors
    compiled   element-wise operations are joined, by a compiler or by hand; else each of them is a kernel
    graphs     CUDA graphs of a layer with experts: "none", "parts": all but experts, "whole"; "usual": parts in racks, none elsewhere
    """

    tuned: bool = True
    attention: str = "fused"
    overlaps: bool = True
    overlaps_tp: bool = False
    gathers: int = 1
    logit: float = 6
    graphs: str = "usual"
    compiled: bool = True

    def __post_init__(self):
        if self.attention not in ("fused", "earlier", "unmasked", "stored"):
            raise ValueError(f"attention is 'fused', 'earlier', 'unmasked' or 'stored', not {self.attention!r}")
        if self.graphs not in ("usual", "none", "parts", "whole"):
            raise ValueError(f"graphs are 'usual', 'none', 'parts' or 'whole', not {self.graphs!r}")


# All recipes with tp in it of which a GPU's maker publishes times run tp's collectives beside products (Megatron Bridge, tp_comm_overlap).
TUNED, USUAL = Software(overlaps_tp=True), Software(tuned=False)
KERNELS = {
    "tuned": TUNED,
    "usual": USUAL,
    "pytorch": Software(tuned=False, attention="earlier", logit=10),
    "eager": Software(tuned=False, attention="earlier", logit=16, compiled=False),
    "2021": Software(tuned=False, attention="stored", logit=16),
}
"""Sets of kernels by their names: as makers tune them; usual ones; torch.compile with SDPA; without it; before FlashAttention."""


@record
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
        usual = WATTS.get(self.chip.generation)
        return sqrt(self.chip.watts / usual) if usual and self.chip.watts else 1.0

    @cached_property
    def peak(self) -> float:
        """FLOPs/s of a large bf16 product inside of a step."""
        return self.chip.rate("bf16") * self.power * self.k.share(self.chip)

    @cached_property
    def memory(self) -> float:
        """Bytes/s of HBM."""
        return self.chip.hbm_bandwidth * self.k.memory

    def rates(self, table: Table = IN_STEP) -> Rates:
        """What collectives reach; those of tp and tokens have tables of their own."""
        network = CARD if self.software.tuned else CARD * USUAL_CARD
        hop = 0.0 if table.hop == 0 else self.k.latency
        return replace(table, link=self.k.link, network=network, hop=hop, network_hop=hop).on(self.chip)

    @cached_property
    def launch(self) -> float:
        """Seconds of a kernel that does nothing."""
        return self.k.latency if self.gpu else 0.0

    def host(self, experts):
        """Seconds in which a host launches what no graph holds of a layer with so many experts on a device.

        `Constants.experts` is that of a layer of `FITTED_EXPERTS`, whatever the chip: it is the host's own.
        """
        rest, theirs, each = LAUNCHES if STORED.get(self.products, 2) == 2 else NARROWER
        host_of_eight = where(self.chip.pod[0] <= 8, 1.0, 0.0)  # a rack's programs have graphs, unless it is said
        alone = {"none": 1.0, "parts": 0.0}.get(self.software.graphs, host_of_eight)
        made = 0.0 if self.software.graphs == "whole" else alone * rest + theirs + each * experts
        return self.k.experts * made / (LAUNCHES[0] + LAUNCHES[1] + LAUNCHES[2] * FITTED_EXPERTS)

    @cached_property
    def usual(self) -> float:
        """How much longer kernels take than tuned ones."""
        return 1.0 if self.software.tuned else self.k.usual

    def product(self, product: Product, dtype: str | None = None):
        """One product, or a group of them in one kernel: FLOPs, with tiles and waves that are not full, and bytes."""
        dtype = self.products if dtype is None else dtype
        gain = published(self.chip, dtype) / self.chip.rate("bf16")
        tiles = ceil(product.m / TILE[0]) * ceil(product.n / TILE[1]) * product.groups
        full = product.m * product.n * product.groups / (TILE[0] * TILE[1] * tiles)
        waves = wave_efficiency(tiles, self.chip.cores) if self.gpu else 1.0
        math = product.flops / (self.peak * (1 + (gain - 1) * self.k.eight) * full * waves)
        read = STORED.get(dtype, 2) * (product.m * product.k + product.k * product.n) + 2 * product.m * product.n
        return self.usual * (sqrt(math**2 + (read * product.groups / self.memory) ** 2) + self.launch)

    def passes(self, product: Product, dtype: str | None = None):
        """A product forward, and the two of its backward pass."""
        return self.product(product, dtype), sum(self.product(b, dtype) for b in product.backward)

    def attention(self, attention: Attention):
        """Forward and backward; a fused backward pass makes the scores again. Short blocks of keys leave a kernel few tiles."""
        width, hops = attention.width, attention.hops
        if self.software.attention == "stored":
            math = attention.flops(masked=False) / (self.peak * width / (2 * STEP * ceil(width / (2 * STEP))))
            moved = 2 * attention.scores / self.memory
            passes = (sqrt((n * math) ** 2 + (s * moved) ** 2) for n, s in zip((1, 2), SCORES))
            return tuple(seconds + STORED_KERNELS * self.launch for seconds in passes)
        half = self.k.half * self.chip.rate("bf16") / A100_BF16 * (1.0 if self.gpu else TORUS)
        rate = self.chip.rate("bf16") * self.power * self.k.attention / (1 + half * hops / attention.every)
        rate = rate * width / (STEP * ceil(width / STEP)) * (128 + NARROW) / 128 * width / (width + NARROW)
        unmasked = self.software.attention == "unmasked"
        if (unmasked or self.software.attention == "earlier") and self.chip.generation != "ampere":
            rate = rate * OLD
        forward = attention.flops(masked=not unmasked) / rate
        return forward + hops * self.launch, BACKWARD * forward + 2 * hops * self.launch

    def stream(self, numbers, kernels=0):
        """Arrays of two bytes a number through HBM, in so many kernels."""
        fused = 1.0 if self.software.attention == "stored" else FUSED if self.software.compiled else EAGER
        return self.usual * fused * 2 * numbers / self.memory + kernels * self.launch

    def send(self, send: Send, group: Group):
        """One run of a collective over a group of chips."""
        rates = self.rates(
            IN_STEP_TOKENS if send.role == "tokens" else IN_STEP_TENSOR if send.axes == ("tp",) else IN_STEP
        )
        calls = self.software.gathers if "fsdp" in send.axes else 1
        return calls * collective_seconds(send.kind, send.bytes / calls, group, rates, send.copies, send.reached(group))

    def rate(self, chips, distance):
        """Bytes/s, one way, that each of so many chips gets in a ring, if neighbours in it are `distance` chips apart."""
        group = adjacent(self.chip, chips)
        if self.gpu:
            members = maximum(1.0, minimum(chips, self.chip.pod[0] / distance))
            group = in_domains(members, chips / members, self.chip.neighbours)
        rates = self.rates()
        seconds = collective_seconds("AllGather", 1.0, group, replace(rates, hop=0.0, network_hop=0.0))
        return where(chips > 1, (1 - 1 / chips) / nonzero(seconds), rates.link)
