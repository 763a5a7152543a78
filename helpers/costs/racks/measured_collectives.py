"""What NCCL and DeepEP reach: bytes and hops of `tiered_collectives` at measured shares of the rates (chapter 7).

    T = launch + h·latency + x + 2·√(h·piece·x)      x = bytes/(share·W), h hops

A collective of h hops travels in p pieces. Each piece costs `piece` seconds beside its bytes, and the last one leaves the first
chip after all others: T = launch + h·latency + (p + h)·piece + (1 + h/p)·x, nearly. The best p makes that the line above (LogGP:
Alexandrov et al. 1995), so bandwidth is half of its peak at sizes of many latencies, and reaches it as a root does.

The constants are fitted by `python -m tests.bench_collectives --fit` to book/data/collectives.json, each source weighing alike.
"""

from dataclasses import dataclass

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.step_estimate_constants import GENERATIONS
from helpers.numeric import maximum, minimum, sqrt

from .tiered_collectives import bus_factor, dispatch, domains_reached, flat_ring, in_network

ALGORITHMS = ("ring", "nvls", "best")
TOOLS = ("nccl-tests", "torch")


@dataclass(frozen=True)
class Reached:
    """Shares of published rates, and seconds.

    ring_ampere, ring_hopper, ring_blackwell, ring_cdna  share of a GPU's links that rings reach, by generation
    nvls_hopper, nvls_blackwell  share of them while the NVSwitch adds
    nvls_rack     the same in a domain of a rack, whose NVLinks lead to switches in other trays
    exchange      share of them that copies of tokens reach
    network       share of a network card
    launch        before the first byte moves, in nccl-tests, whose collectives follow one another
    torch         more, where a program calls and waits for one at a time
    latency, latency_dcn  of a hop over NVLink, and over the network
    piece         seconds that each piece costs beside its bytes
    """

    ring_ampere: float = 0.799
    ring_hopper: float = 0.849
    ring_blackwell: float = 0.826
    ring_cdna: float = 0.763
    nvls_hopper: float = 0.693
    nvls_blackwell: float = 0.599
    nvls_rack: float = 0.462
    exchange: float = 0.683
    network: float = 0.903
    launch: float = 2.75e-06
    torch: float = 5.16e-05
    latency: float = 8.41e-07
    latency_dcn: float = 4.77e-05
    piece: float = 7.66e-07


REACHED = Reached()


def _generation(chip: Chip) -> str:
    return "cdna" if chip.neighbours else GENERATIONS.get(chip.name, "hopper")


def _links(chip: Chip, g):
    """Bytes/s one way that g GPUs of a domain can use: where no switch joins them, only the links to each other."""
    return chip.link_bandwidth * (minimum(1.0, (g - 1) / chip.neighbours) if chip.neighbours else 1.0)


def _share(chip: Chip, algorithm: str, k: Reached) -> float:
    if algorithm == "nvls" and chip.pod[0] > 8:
        return k.nvls_rack
    name = f"{algorithm}_{_generation(chip)}"
    if not hasattr(k, name):
        raise ValueError(f"no switch of {chip.name}s adds: they have rings alone")
    return getattr(k, name)


def collective_seconds(
    kind: str,
    size,
    chip: Chip,
    chips,
    domains=1,
    algorithm: str = "best",
    tool: str = "nccl-tests",
    k: Reached = REACHED,
):
    """Seconds of a collective of `size` bytes over so many GPUs in so many domains.

    algorithm  "ring": one through all GPUs, for each rail; "nvls": the NVSwitch adds, and across domains trees do; "best": the
               faster one
    tool       "nccl-tests", where collectives follow one another, or "torch", where a program waits for each

    >>> from helpers.costs.rooflines.chips import chip
    >>> f"{collective_seconds('AllReduce', 2**30, chip('H100'), 8) * 1e3:.1f} ms"
    '4.0 ms'
    """
    if algorithm not in ALGORITHMS or tool not in TOOLS:
        raise ValueError(
            f"algorithms are {', '.join(ALGORITHMS)} and tools {', '.join(TOOLS)}, not {algorithm!r} and {tool!r}"
        )
    if algorithm == "best":
        known = ("ring", "nvls") if hasattr(k, f"nvls_{_generation(chip)}") else ("ring",)
        return minimum(*(collective_seconds(kind, size, chip, chips, domains, a, tool, k) for a in known))
    g = chips / domains
    moves = (flat_ring if algorithm == "ring" else in_network)(kind, size, g, domains)
    rates = _links(chip, g) * _share(chip, algorithm, k), chip.dcn_bandwidth * k.network
    x = maximum(*(move.bytes / rate for move, rate in zip(moves, rates)))
    hops = sum(move.hops for move in moves)
    waits = moves[0].hops * k.latency + moves[1].hops * k.latency_dcn
    start = k.launch + (k.torch if tool == "torch" else 0.0)
    return start + waits + x + 2 * sqrt(hops * k.piece * x)


def bus_bandwidth(
    kind: str,
    size,
    chip: Chip,
    chips,
    domains=1,
    algorithm: str = "best",
    tool: str = "nccl-tests",
    k: Reached = REACHED,
):
    """busbw, as nccl-tests prints it, in bytes/s; arguments as of `collective_seconds`.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [round(bus_bandwidth("AllReduce", 2**33, chip("H100"), n, algorithm="nvls") / 1e9) for n in (4, 8)]
    [369, 478]
    """
    seconds = collective_seconds(kind, size, chip, chips, domains, algorithm, tool, k)
    return bus_factor(kind, chips) * size / seconds


def exchange(
    tokens,
    D,
    k,
    chip: Chip,
    domains=1,
    way: str = "dispatch",
    low_latency: bool = False,
    E=256,
    limit=4,
    reached: Reached = REACHED,
):
    """(Seconds, bytes) of every GPU's tokens on their way to k of E experts, or back: `bytes` counts what stays in place too.

    Over cards a token has one copy for each domain that it reaches, at most `limit` of them, and in one domain one for each GPU.
    DeepEP prints bytes/seconds: of m domains the own one has an m-th of the copies, which no card carries.

    way          "dispatch" in fp8 with a float32 scale for 128 numbers and 16 bytes of its own, "combine" in bf16
    low_latency  each copy goes straight to its expert's GPU, by itself

    >>> from helpers.costs.rooflines.chips import chip
    >>> seconds, sent = exchange(128, 7168, 8, chip("H800"), domains=8, low_latency=True)
    >>> f"{seconds * 1e6:.0f} us, {sent / seconds / 1e9:.0f} GB/s"
    '197 us, 38 GB/s'
    """
    if way not in ("dispatch", "combine"):
        raise ValueError(f"tokens are on their way in a dispatch or a combine, not in {way!r}")
    V, g = tokens * (D + 4 * D / 128 + 16 if way == "dispatch" else 2 * D), chip.pod[0]
    if low_latency:
        copies, moves = k, dispatch(V, k, g, domains)
    else:
        few = minimum(limit, domains)
        gpus = domains_reached(k, g * few, E * few / domains)
        copies = gpus if domains == 1 else domains_reached(k, domains, E, limit)
        moves = dispatch(V, gpus, g, domains, copies)
    inside, across = moves
    x = maximum(
        inside.bytes / (_links(chip, g) * reached.exchange), across.bytes / (chip.dcn_bandwidth * reached.network)
    )
    return reached.launch + (reached.latency_dcn if low_latency else reached.latency) + x, V * copies


entries(__name__)
