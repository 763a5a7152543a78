"""Constants of the step-time estimate: data only, each with what it stands for.

They come from `python -m tools.bench_estimate --fit`: least squares over the rows of book/data/published.json, each source
weighing alike, with what is known from kernels as the guess. No constant belongs to a source, and none is read from its name.
"""

from dataclasses import dataclass

from helpers.arguments import entries

GENERATIONS = {
    "A100": "ampere", "A100-40GB": "ampere",
    "H100": "hopper", "H100-500W": "hopper", "H200": "hopper",
    "B200": "blackwell", "GB200": "blackwell", "B300": "blackwell", "GB300": "blackwell",
    "v3": "v5", "v4p": "v5", "v5e": "v5", "v5p": "v5", "v6e": "v6", "v7": "v6",
}  # fmt: skip
"""Which share of peak a chip takes: those up to v5p alike, and v6e and v7, which have twice the FLOPs for a byte of HBM."""

WATTS = {"ampere": 400, "hopper": 700, "blackwell": 1000}
"""Power of the GPU whose share a generation's is: another one's clock, and FLOPs/s, go with the root of its power."""


@dataclass(frozen=True)
class Constants:
    """What hardware and software of one time reach. Shares are of the vendor's figure.

    ampere, hopper, blackwell, v5, v6  share of peak FLOPs/s of a large matrix product inside of a step, by generation:
               less than alone, for the chip is hot and its memory busy
    eight      share of what a product gains by narrower types that is seen: the rest goes into scaling and casting
    attention  share of peak FLOPs/s of fused attention over a long sequence, heads 128 wide
    half       tokens of a sequence with which fused attention has half of that, on an A100; on others in proportion to their FLOPs
    memory     share of HBM bytes/s of work that streams
    latency    seconds that a kernel, or a hop of a ring, takes at least, on a GPU
    link       share of the bytes/s of ICI, NVLink, or a tuned network
    network    share of the bytes/s of a network between hosts as it usually is
    tensor     share of collectives over tp, and to experts, that nothing hides on a GPU, where programs wait for them
    data       share of other collectives that nothing hides, even where there is time to
    usual      how much longer products and streams take in usual software than in tuned
    """

    ampere: float = 0.746
    hopper: float = 0.651
    blackwell: float = 0.551
    v5: float = 0.851
    v6: float = 0.652
    eight: float = 0.739
    attention: float = 0.615
    half: float = 1270
    memory: float = 0.63
    latency: float = 7.17e-06
    link: float = 0.681
    network: float = 0.445
    tensor: float = 0.743
    data: float = 0.293
    usual: float = 1.14

    def share(self, chip: str) -> float:
        """Share of peak of a large product; of a chip without measured steps that of Hopper, or of v5e and its like."""
        return getattr(self, GENERATIONS.get(chip, "v5" if chip.startswith("v") else "hopper"))


CONSTANTS = Constants()


entries(__name__)
