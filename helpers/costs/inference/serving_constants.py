"""Constants of the estimate of serving: data only, each with what it stands for.

They come from `python -m tests.bench_serving --fit`: least squares over the rows of book/data/serving.json, each source weighing
alike, with what kernels measured alone reach as the guess (aiconfigurator-core 0.12.0, tables of products, attention, experts and
AllReduces on A100, H100, H200 and B200). No constant belongs to a source, and none is read from its name.
"""

from dataclasses import dataclass, fields
from math import prod

from helpers.arguments import entries


@dataclass(frozen=True)
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

    memory: float = 0.828
    torus: float = 0.942
    cached: float = 0.805
    bf16: float = 0.708
    gain: float = 0.694
    product: float = 4.4e-06
    quantise: float = 1.77e-06
    experts: float = 6.27e-05
    blackwell: float = 3.14e-05
    grouped: float = 0.15
    attention: float = 1.04e-05
    mixers: float = 4.21e-05
    keys: float = 0.478
    prompt: float = 0.575
    half: float = 1270.0
    others: float = 6.41e-06
    sums: float = 1.19e-05
    exchange: float = 1.05e-05
    link: float = 0.543
    power: float = 0.987


@dataclass(frozen=True)
class Engine:
    """What one program that serves adds to its kernels.

    host    seconds of a step besides: scheduling, sampling
    each    seconds of a step for each sequence in it
    launch  factor of kernels' own seconds: below 1 where several are one, above where the host launches each
    moe     factor of experts' kernels
    links   share of collectives that nothing hides
    seen    share of other requests' prompts that are read while a request gets its tokens: 1 where both share passes, one half
            where prompts go first and requests run in waves
    first   seconds of a request before its first pass
    queue   share of the others' prompts for which a request waits, with `Constants.power`
    budget  tokens of prompts in a pass, at most
    measured  whether it was: if not, intervals are wider
    """

    host: float
    each: float
    launch: float = 1.0
    moe: float = 1.0
    links: float = 1.0
    seen: float = 1.0
    first: float = 0.03
    queue: float = 0.3
    budget: float = 8192.0
    measured: bool = True


CONSTANTS = Constants()

ENGINES = {
    "trtllm": Engine(0.000938, 1.84e-05, launch=0.748, moe=0.598, seen=0.897, first=0.117, queue=0.0941),
    "vllm": Engine(0.000117, 1.18e-05, launch=1.08, moe=0.868, seen=0.772, first=0.0478, queue=0.078),
    "sglang": Engine(0.000247, 2.29e-05, launch=0.824, moe=1.05, seen=0.565, first=0.234, queue=0.311),
    "fastertransformer": Engine(0.00021, 8.44e-05, launch=3.04),
    "launched": Engine(0.00127, 8.6e-05, launch=1.29, moe=0.815),
    "jax": Engine(8.41e-05, 1.23e-06, launch=0.195, moe=2.43, links=0.619),
}
"""TensorRT-LLM, vLLM and SGLang with graphs; FasterTransformer, and an engine of 2023 whose host launches each kernel; compiled JAX."""

GRAPHS = "trtllm", "vllm", "sglang"


def unknown(engines: dict[str, Engine]) -> Engine:
    """An engine with graphs of which no more is known: each constant is the geometric mean of the measured ones'.

    >>> unknown({name: Engine(1e-3 * n, 1e-5) for name, n in zip(GRAPHS, (1, 2, 4))}).host
    0.002
    """
    some = [engines[name] for name in GRAPHS if name in engines]
    mean = {f.name: prod(getattr(e, f.name) for e in some) ** (1 / len(some)) for f in fields(Engine)[:-1]}
    return Engine(**{name: float(f"{x:.3g}") for name, x in mean.items()}, measured=False)


ENGINES["unknown"] = unknown(ENGINES)

SPREAD = {"gap": 1.27, "first": 1.8, "experts": 1.12, "gap, engine": 1.1, "first, engine": 1.6, "chip": 1.3}
"""Factors by which an interval goes to either side, so that three of four measured values of a source that no constant has seen lie
inside: of a gap, of a first token; times that of experts, of an engine and of a chip that nobody measured."""

entries(__name__)
