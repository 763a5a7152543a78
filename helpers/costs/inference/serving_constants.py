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
    experts    seconds of a kernel of a layer's experts, of which a route has so many as `EXPERT_KERNELS` says
    grouped    share of peak of experts' products
    attention  seconds of attention
    indexer    seconds of an indexer
    keys       share of peak of attention to a cache
    prompt     share of peak of attention in a long prompt; `half` tokens of it have half of that on an A100
    others     seconds of all other kernels in a layer: norms, rotation, activation
    sums       seconds of an AllReduce
    exchange   seconds of an AllToAll
    link       share of links' bytes/s
    power      how waiting grows with requests that run at once
    group      other prompts that are read with one or just before it, where all requests have one length and come in groups
    """

    memory: float = 0.878
    torus: float = 0.94
    cached: float = 0.796
    bf16: float = 0.697
    gain: float = 0.658
    product: float = 5.65e-06
    quantise: float = 2.04e-06
    experts: float = 4.63e-06
    grouped: float = 0.177
    attention: float = 1.13e-05
    indexer: float = 7.67e-05
    keys: float = 0.566
    prompt: float = 0.627
    half: float = 1270.0
    others: float = 7.3e-06
    sums: float = IN_ENGINE.launch
    exchange: float = IN_ENGINE_TOKENS.launch
    link: float = IN_ENGINE.link
    power: float = 1.1
    group: float = 1.58


@record
class Engine:
    """What one program that serves adds to its kernels.

    host    seconds of a step besides: scheduling, sampling
    sequence  seconds of a step for each sequence in it
    launch  factor of kernels' own seconds: below 1 where several are one, above where the host launches each
    moe     factor of experts' kernels
    links   share of collectives that nothing hides
    seen    share of other requests' prompts that are read while a request gets its tokens; one half in a wave
    first   seconds of a request before its first pass
    queue   share of the others' prompts for which a request waits, with `Constants.power`
    budget  tokens of prompts in a pass, at most
    admits  share of an answer for which caches must have room when its request begins. Pages come as tokens do, and not all requests
            are near their end; 1 where none is ever paused for want of pages
    of_rest 1 where the reserve is a share of the memory that weights leave, and 0 where it is one of all
    whole   1 where layers with windows have pages for all of a sequence, and 0 for their windows
    prompts_first  whether all prompts that wait are read before any sequence gets its next token, and not in the same passes
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
    prompts_first: bool = False
    measured: bool = True

    @property
    def silent(self) -> "Engine":
        """The same without what its host adds to a step: drafts are made inside one."""
        return replace(self, host=0.0, sequence=0.0)


CONSTANTS = Constants()

EXPERT_KERNELS = {"rounded": 9, "as they are": 7, "fused, fp8": 6, "fused, fp4": 5, "fused, bf16": 4}
"""Kernels of a layer's experts beside the router's product. Up to Hopper, and for weights alone of fewer bits (Marlin): choice of
experts, two that sort, two products, activation, sum; two more make rows narrower (fused_moe.py and fused_marlin_moe.py in
vllm/model_executor/layers/fused_moe). On Blackwell: rows made narrower, choice and sort, two products, sum; an activation of its own
in fp8 alone, and in bf16 nothing is made narrower (csrc/trtllm_fused_moe_runner.cu in FlashInfer)."""

# Of three engines whole requests alone are measured, which do not show what a closed loop does: these three are the
# guess from which all engines' constants are fitted (tools/bench_serving.py).
LOOP_GUESS = dict(seen=0.9, first=0.1, queue=0.2)

ENGINES = {
    # Its scheduler never evicts by default (GUARANTEED_NO_EVICT, nvidia.github.io/TensorRT-LLM, Useful Runtime Options), and caches
    # have no windows unless they are typed (`max_attention_window` is None in KvCacheConfig, ibid.).
    "trtllm": Engine(
        4.59e-4, 1.71e-5, launch=0.694, moe=0.791, seen=0.952, first=0.0961, queue=0.0443, admits=1, of_rest=1, whole=1
    ),
    "vllm": Engine(0.000159, 1.08e-05, launch=1.05, moe=0.982, seen=0.897, first=0.0481, queue=0.0484),
    # Its scheduler asks for a batch of prompts before it decodes (get_next_batch_to_run in managers/scheduler.py), unless it is
    # started with --enable-mixed-chunk.
    "sglang": Engine(
        0.000376, 1.53e-05, launch=0.914, moe=1.19, seen=0.859, first=0.198, queue=0.0999, prompts_first=True
    ),
    "tensorrt": Engine(0.000471, 2.38e-05, launch=1.18, moe=0.658, admits=1, of_rest=1, whole=1, **LOOP_GUESS),
    "fastertransformer": Engine(0.000136, 8.26e-05, launch=2.79, **LOOP_GUESS),
    "eager": Engine(0.00123, 8.44e-05, launch=1.29, moe=0.903, **LOOP_GUESS),
    "jax": Engine(8.71e-05, 1.21e-06, launch=0.165, moe=2.68, links=0.63),
}
"""TensorRT-LLM, vLLM and SGLang with graphs; TensorRT-LLM of 2024, which ran what TensorRT had compiled: its other program, on PyTorch,
began with 0.17 (nvidia.github.io/TensorRT-LLM, PyTorch Backend); FasterTransformer; vLLM of 2023, eager: its host launches each
kernel; compiled JAX."""

GRAPHS = "trtllm", "vllm", "sglang"


@formula
def unknown(engines: dict[str, Engine]) -> Engine:
    """An engine with graphs of which no more is known: each constant is the geometric mean of the measured ones'.

    >>> unknown({name: Engine(1e-3 * n, 1e-5) for name, n in zip(GRAPHS, (1, 2, 4))}).host
    0.002
    """
    measured = [engines[name] for name in GRAPHS if name in engines]
    numbers = [f.name for f in fields(Engine) if f.type is float]
    mean = {name: prod(getattr(e, name) for e in measured) ** (1 / len(measured)) for name in numbers}
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
