"""From work to seconds: the roofline (chapter 1).

`Work` says what an operation does, `time` says how long that takes at given rates, `on_chip` at a chip's rates.
Sizes: B rows of activations (tokens), D and F the sides of a weight matrix.
C is FLOPs/s, W bytes/s of memory, alpha = C/W.

Source: Williams, Waterman, Patterson, "Roofline" (2009); Austin et al. 2025, Section 1.
"""

from dataclasses import replace
from typing import Literal

from helpers.arguments import Count, formula, record
from helpers.moved import old_field
from helpers.numeric import maximum, minimum, nonzero, where

from .hardware import Chip

LINKS = ("ici", "dcn", "pcie", "fast")


@record
class Move:
    """`bytes` over one kind of link ("ici", "dcn", "pcie", or "fast" for VMEM and SMEM) in `hops` hops, one after the other.

    However few the bytes, a hop takes its time: the move is bound by bandwidth or by latency, whichever takes longer.
    """

    link: Literal[*LINKS]  # traffic of HBM is `Work.bytes`
    bytes: float
    hops: float = 0


@record
class Work:
    """What an operation does on one chip.

    flops   floating-point (or integer) operations
    bytes   bytes between HBM and the chip, each operand and result once
    moves   bytes over other links
    dtype   the type that the arithmetic runs in: it chooses the chip's rate

    Works add up: `layer = attention + mlp`, or `sum(works)`; `layer * 32` is 32 of them.
    """

    flops: float = 0.0
    bytes: float = 0.0
    moves: tuple[Move, ...] = ()
    dtype: str = "bf16"

    def __add__(self, other: "Work") -> "Work":
        if not isinstance(other, Work):
            return NotImplemented
        if self.dtype != other.dtype:
            raise ValueError(
                f"work in {self.dtype} and work in {other.dtype} run at different rates: price them apart and add the times"
            )
        return Work(self.flops + other.flops, self.bytes + other.bytes, self.moves + other.moves, self.dtype)

    def __radd__(self, other) -> "Work":
        """`sum` of several begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, n: float) -> "Work":
        moves = tuple(replace(m, bytes=m.bytes * n, hops=m.hops * n) for m in self.moves)
        return Work(self.flops * n, self.bytes * n, moves, self.dtype)

    @property
    def intensity(self) -> float:
        """FLOPs per byte of HBM traffic."""
        return self.flops / self.bytes


@record
class Time:
    """Seconds of one piece of work, resource by resource: {"math": …, "hbm": …, "ici": …}."""

    parts: dict[str, float]

    seconds, bottleneck = old_field("seconds", "parts"), old_field("bottleneck", "bound")

    @property
    def math(self) -> float:
        """Seconds of arithmetic alone."""
        return self.parts["math"]

    @property
    def comms(self) -> float:
        """Seconds of everything else, one after the other."""
        return self.upper - self.math

    @property
    def lower(self) -> float:
        """All resources busy at once: no program is faster."""
        return maximum(*self.parts.values())

    @property
    def upper(self) -> float:
        """The sum, one resource at a time: with two of them at most twice `lower`. Rates are peaks, so a real program may take longer."""
        return sum(self.parts.values())

    @property
    def bound(self) -> str:
        """The resource that takes longest, for plain numbers; the first one in a tie."""
        return max(self.parts, key=self.parts.get)

    def __add__(self, other: "Time") -> "Time":
        """One after the other, resource by resource (so `lower` lets the two overlap)."""
        names = dict.fromkeys((*self.parts, *other.parts))
        return Time({n: self.parts.get(n, 0.0) + other.parts.get(n, 0.0) for n in names})

    def __radd__(self, other) -> "Time":
        """`sum` of several begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented


@formula
def time(work: Work, C: float, W: float, *, hop: float = 0.0, **rates: float) -> Time:
    """Seconds of `work` at C FLOPs/s, W bytes/s of HBM and, by name, bytes/s of each link that it uses.

    hop  seconds that a hop takes at least.

    >>> t = time(matmul(256, 8192, 8192), C=1.97e14, W=8.1e11)
    >>> f"{t.lower:.3e} {t.upper:.3e} {t.bound}"
    '1.761e-04 3.505e-04 hbm'
    >>> time(Work(flops=1e12), C=9.89e14, W=3.35e12).math      # 1e12 FLOPs on an H100
    0.0010111223458038423
    """
    parts = {"math": work.flops / C, "hbm": work.bytes / W}
    for m in work.moves:
        if rates.get(m.link) is None:
            raise ValueError(f"this work moves bytes over {m.link}: give its bytes/s as {m.link}=…")
        parts[m.link] = parts.get(m.link, 0.0) + maximum(m.bytes / rates[m.link], hop * m.hops)
    return Time(parts)


@formula
def on_chip(work: Work, chip: Chip, *, hop: float | None = None) -> Time:
    """Seconds of `work` on one chip at its published rates; ICI is one link, one way.

    >>> on_chip(matmul(128, 8192, 8192), chip("v5e")).bound
    'hbm'
    """
    return time(
        work,
        chip.rate(work.dtype),
        chip.hbm_bandwidth,
        hop=chip.hop if hop is None else hop,
        ici=chip.link_bandwidth,
        dcn=chip.dcn_bandwidth,
        pcie=chip.pcie_bandwidth,
        fast=chip.fast_bandwidth,
    )


@formula
def attainable(intensity, C, W):
    """FLOPs/s at that many FLOPs per byte: the roofline itself, min(C, W·I).

    >>> attainable(100.0, 1.97e14, 8.1e11)
    81000000000000.0
    """
    return minimum(C, W * intensity)


@formula
def dot(N: Count, bytes_each=2) -> Work:
    """x[N] · y[N]: N products and N-1 additions; two vectors read, one number written.

    >>> dot(1).intensity == 1 / 6
    True
    """
    return Work(2 * N - 1, bytes_each * (2 * N + 1))


@formula
def matmul(B, D, F, x=2, w=2, out=2, dtype="bf16") -> Work:
    """X[B, D] · W_in[D, F] -> [B, F], with x, w and out bytes for each element of the three.

    A multiply and an add are two FLOPs: 2BDF of them. Each matrix crosses HBM once.

    >>> matmul(512, 4096, 16384).flops
    68719476736
    >>> round(matmul(1, 8192, 32768).intensity, 3)      # one row: about one FLOP per byte
    1.0
    """
    return Work(2 * B * D * F, x * B * D + w * D * F + out * B * F, dtype=dtype)


@formula
def batched_matmul(B, D, F, x=2, w=2, out=2, dtype="bf16") -> Work:
    """B rows, each times a weight matrix of its own: the intensity is near 2/w whatever B.

    >>> round(batched_matmul(4096, 8192, 8192, 1, 1, 1).intensity, 3)
    2.0
    """
    return Work(2 * B * D * F, x * B * D + w * B * D * F + out * B * F, dtype=dtype)


@formula
def elementwise(n, reads=1, ops=1, bytes_each=2) -> Work:
    """`ops` operations for each of n results, `reads` operands read, one result written.

    >>> elementwise(1000).intensity       # bf16 ReLU: one operation, four bytes
    0.25
    """
    return Work(ops * n, bytes_each * (reads + 1) * n)


@formula
def critical_batch(D, F, C, W, x=2, w=2, out=2):
    """Smallest B at which X[B, D] · W_in[D, F] is compute-bound, exactly; infinity if no batch is.

    2BDF / (xBD + wDF + outBF) = C/W, solved for B. For B much smaller than D and F it is `critical_batch_limit`.

    >>> round(critical_batch(8192, 32768, 1.97e14, 8.1e11), 1)
    252.6
    >>> round(critical_batch(8192, 32768, 1.97e14, 8.2e11), 1)
    249.4
    >>> round(critical_batch(4096, 16384, 3.94e14, 8.1e11, 1, 1, 1), 1)    # int8 from HBM
    262.7
    >>> critical_batch(8192, 32768, 9.2e14, 1.5e10)      # over PCIe no batch suffices
    inf
    """
    alpha = C / W
    room = 2 * D * F - alpha * (x * D + out * F)
    return where(room > 0, alpha * w * D * F / nonzero(room), float("inf"))


@formula
def critical_batch_limit(C, W, w=2):
    """The critical batch for B much smaller than D and F: (bytes of a weight / 2) · C/W.

    C is the rate that the arithmetic really runs at: int8 weights times bf16 activations run at the bf16 rate.

    >>> round(critical_batch_limit(1.97e14, 8.2e11), 1), round(critical_batch_limit(1.97e14, 8.1e11), 1)
    (240.2, 243.2)
    >>> round(critical_batch_limit(3.94e14, 8.1e11, w=1), 1), round(critical_batch_limit(1.97e14, 8.1e11, w=1), 1)
    (243.2, 121.6)
    """
    return w / 2 * (C / W)


@formula
def split_matmul(B, D, F, bytes_each=2, dtype="bf16") -> Work:
    """One of two chips that share X[B, D] · W_in[D, F] by halves of D, then exchange partial sums.

    Each does half the products, BDF FLOPs, and sends its [B, F] partial sums once.

    >>> f"{split_D(1.97e14, 4.5e10):.1f}"
    '8755.6'
    """
    read = bytes_each * (B * D + D * F + 2 * B * F) / 2
    return Work(B * D * F, read, (Move("ici", bytes_each * B * F, hops=1),), dtype)


@formula
def split_D(C, W, bytes_each=2):
    """Smallest D at which `split_matmul` is bound by arithmetic, not by W bytes/s of link: bytes_each · C/W.

    For every B whose partial sums take longer than a hop; a smaller message takes the hop's time, whatever D is.
    """
    return bytes_each * C / W


@formula
def weight_load(params, bytes_each, chips, W):
    """Seconds to read every weight once, shared evenly over the chips: the floor under one step of sampling.

    >>> f"{weight_load(200e9, 2, 32, 1.2e12):.4f}"        # 200B parameters in bf16 on 32 v4p
    '0.0104'
    """
    return params * bytes_each / (chips * W)


@formula
def bound_by(t: Time, launch: float = 0.0) -> str:
    """ "compute", "memory" or "overhead": what a measured or predicted kernel waits for.

    launch  seconds that the host needs to launch it; the kernel is overhead-bound when its work takes less.
    """
    if t.lower < launch:
        return "overhead"
    return "compute" if t.math >= t.lower else "memory"
