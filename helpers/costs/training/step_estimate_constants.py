"""Constants of the step-time estimate: data only, each with what it stands for.

The fitted ones come from `python -m tests.bench_estimate --fit`, which sees the rows of those sources in
book/data/published.json whose `suggested_split` is "calibration", and no others. The set ones (hop, spread) are published
or usual figures, and were not fitted.
"""

from dataclasses import dataclass

from helpers.arguments import entries


@dataclass(frozen=True)
class Constants:
    """What hardware and software of one time reach. Shares are of the vendor's figure.

    gpu     share of peak FLOPs/s of a large matrix product, on a GPU, whose clock sinks under load
    tpu     the same on a TPU
    memory  share of HBM bytes/s of work that streams
    link    share of the bytes/s of ICI or NVLink, in collectives
    network share of the bytes/s between hosts (GPU) or pods (TPU), and between a host and its chip
    launch  seconds that a kernel takes at least
    hop     seconds that a step round a ring takes at least
    tensor_gpu  share of tensor parallelism's collectives that nothing hides, where programs wait for them (Megatron-LM)
    tensor_tpu  the same where a compiler runs them beside products (XLA)
    data    share of FSDP's collectives and of the host's traffic that nothing hides, even where there is time to
    reduce  share of the sum of gradients over copies of the model that nothing hides
    skew    exponent: a step over n hosts waits for the slowest of them, n**skew times as long
    spread  factor between the estimate and either end of its interval, besides overlap: the root of 1.26, the ratio of two
            published times of one plan (530B parameters on 2,240 A100s, in two software stacks)
    """

    gpu: float = 0.792
    tpu: float = 0.93
    memory: float = 0.706
    link: float = 0.743
    network: float = 0.712
    launch: float = 5.26e-6
    hop: float = 3e-6
    tensor_gpu: float = 0.757
    tensor_tpu: float = 0.101
    data: float = 0.172
    reduce: float = 0.735
    skew: float = 0.0114
    spread: float = 1.12

    def math(self, kind: str) -> float:
        """Share of peak FLOPs/s of that kind of chip."""
        return self.tpu if kind == "tpu" else self.gpu

    def tensor(self, kind: str) -> float:
        """Share of tensor parallelism's collectives that is seen on that kind of chip."""
        return self.tensor_tpu if kind == "tpu" else self.tensor_gpu


CONSTANTS = Constants()


entries(__name__)
