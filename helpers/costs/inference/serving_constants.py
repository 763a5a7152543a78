"""Constants of the estimate of serving: data only, each with what it stands for.

They come from `python -m tools.bench_serving --fit`: least squares over the rows of book/data/serving.json, those of one engine,
chip and model weighing as 25 at most, with what kernels measured alone reach as the guess (aiconfigurator-core 0.12.0, tables of
products, attention, experts and AllReduces on A100, H100, H200 and B200). No constant belongs to a source, and none is read from
its name.
"""

from dataclasses import fields, replace
from math import prod
from typing import NamedTuple

from helpers.arguments import formula, record
from helpers.costs.sharding.collective_prices import IN_ENGINE, IN_ENGINE_TOKENS


@record
class Constants:
    """What kernels of all engines reach. Shares are of the vendor's figure; seconds are those of a kernel beside its bytes and FLOPs.

    memory     share of HBM bytes/s, of weights; on a TPU `torus`
    cached     the same, of caches
    bf16       share of peak FLOPs/s of products
    gain       share of what narrower types gain that is seen
    product    seconds of a product with weights
    quantise   seconds more if its rows are made narrower before
    experts    seconds of a layer's experts, sorting of tokens included: up to Hopper
    blackwell  the same on Blackwell
    grouped    share of peak of experts' products
    attention  seconds of attention
    mixers     seconds more of linear attention or of an indexer
    keys       share of peak of attention to a cache
    prompt     share of peak of attention in a long prompt; `half` tokens of it have half of that on an A100
    others     seconds of all other kernels in a layer: norms, rotation, activation
    sums       seconds of an AllReduce
    exchange   seconds of an AllToAll
    link       share of links' bytes/s
    power      how waiting grows with requests that run at once
    """

    memory: float = 0.867
    torus: float = 0.942
    cached: float = 0.764
    bf16: float = 0.678
    gain: float = 0.61
    product: float = 4.52e-06
    quantise: float = 2.57e-06
    experts: float = 4.56e-05
    blackwell: float = 2.16e-05
    grouped: float = 0.181
    attention: float = 1.11e-05
    mixers: float = 4.24e-05
    keys: float = 0.563
    prompt: float = 0.568
    half: float = 1270.0
    others: float = 7.09e-06
    sums: float = IN_ENGINE.launch
    exchange: float = IN_ENGINE_TOKENS.launch
    link: float = IN_ENGINE.link
    power: float = 0.991


@record
class Engine:
    """What one program that serves adds to its kernels.

    host    seconds of a step besides: scheduling, sampling
    sequence  seconds of a step for each sequence in it
    launch  factor of kernels' own seconds: below 1 where several are one, above where the host launches each
    moe     factor of experts' kernels
    links   share of collectives that nothing hides
    seen    share of other requests' prompts that are read while a request gets its tokens: 1 where both share passes, one half
            where prompts go first and requests run in waves
    first   seconds of a request before its first pass
    queue   share of the others' prompts for which a request waits, with `Constants.power`
    budget  tokens of prompts in a pass, at most
    admits  share of an answer for which caches must have room when its request begins. Pages come as tokens do, and not all requests
            are near their end; 1 where none is ever paused for want of pages
    of_rest 1 where the reserve is a share of the memory that weights leave, and 0 where it is one of all
    whole   1 where layers with windows have pages for all of a sequence, and 0 for their windows
    measured  whether it was: if not, intervals are wider
    """

    host: float
    sequence: float
    launch: float = 1.0
    moe: float = 1.0
    links: float = 1.0
    seen: float = 1.0
    first: float = 0.03
    queue: float = 0.3
    budget: float = 8192.0
    admits: float = 0.75
    of_rest: float = 0.0
    whole: float = 0.0
    measured: bool = True

    @property
    def silent(self) -> "Engine":
        """The same without what its host adds to a step: drafts are made inside one."""
        return replace(self, host=0.0, sequence=0.0)


CONSTANTS = Constants()

ENGINES = {
    # Its scheduler never evicts by default (GUARANTEED_NO_EVICT, nvidia.github.io/TensorRT-LLM, Useful Runtime Options), and caches
    # have no windows unless they are typed (`max_attention_window` is None in KvCacheConfig, ibid.).
    "trtllm": Engine(
        0.00136, 1.6e-5, 0.566, 0.722, seen=0.849, first=0.117, queue=0.0869, admits=1, of_rest=1, whole=1
    ),
    "vllm": Engine(0.000163, 1.14e-05, launch=1.1, moe=0.915, seen=0.838, first=0.0477, queue=0.0778),
    "sglang": Engine(0.000241, 2.14e-05, launch=0.842, moe=1.14, seen=0.547, first=0.239, queue=0.29),
    "fastertransformer": Engine(0.000188, 7.97e-05, launch=2.98),
    "eager": Engine(0.00137, 8.2e-05, launch=1.28, moe=0.869),
    "jax": Engine(8.48e-05, 1.21e-06, launch=0.189, moe=2.52, links=0.576),
}
"""TensorRT-LLM, vLLM and SGLang with graphs; FasterTransformer; vLLM of 2023, eager: its host launches each kernel; compiled JAX."""

GRAPHS = "trtllm", "vllm", "sglang"


@formula
def unknown(engines: dict[str, Engine]) -> Engine:
    """An engine with graphs of which no more is known: each constant is the geometric mean of the measured ones'.

    >>> unknown({name: Engine(1e-3 * n, 1e-5) for name, n in zip(GRAPHS, (1, 2, 4))}).host
    0.002
    """
    measured = [engines[name] for name in GRAPHS if name in engines]
    mean = {f.name: prod(getattr(e, f.name) for e in measured) ** (1 / len(measured)) for f in fields(Engine)[:-1]}
    return Engine(**{name: float(f"{x:.4g}") for name, x in mean.items()}, measured=False)


ENGINES["unknown"] = unknown(ENGINES)

SPREAD = {"gap": 1.27, "first": 1.8, "experts": 1.12, "gap, engine": 1.1, "first, engine": 1.6, "chip": 1.3}
"""Factors by which an interval goes to either side, so that three of four measured values of a source that no constant has seen lie
inside: of a gap, of a first token; times that of experts, of an engine and of a chip that nobody measured."""


# What engines keep of a device's memory for themselves, and what is left for caches: activations, buffers of communication, graphs
# and the runtime need memory that no formula of weights and caches has. Engines set a share aside, and give the rest to weights
# and pages when they start.


class Reserve(NamedTuple):
    """An engine's default.

    share   that it leaves alone, of a device's memory; of TensorRT-LLM (`Engine.of_rest`) of what the weights leave
    source  where the default stands
    """

    share: float
    source: str


RESERVES = {
    "vLLM": Reserve(0.08, "gpu_memory_utilization = 0.92 in vllm/config/cache.py, commit 002f10e"),
    "vLLM before": Reserve(0.1, "gpu_memory_utilization = 0.90 in vllm/engine/arg_utils.py, 2024"),
    "SGLang": Reserve(0.1, "mem-fraction-static, 0.9, docs.sglang.io, Server Arguments"),
    "TensorRT-LLM": Reserve(0.1, "free_gpu_memory_fraction, 0.9, nvidia.github.io/TensorRT-LLM, KvCacheConfig"),
}
