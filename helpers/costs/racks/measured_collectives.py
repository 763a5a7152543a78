"""What NCCL and DeepEP reach: bytes and hops of `tiered_collectives` at measured shares of the rates (chapter 7).

    T = launch + h·latency + x + 2·√(h·piece·x) + x·f/(x + f)      x = bytes/(share·W), h hops

A collective of h hops travels in p pieces. Each piece costs `piece` seconds beside its bytes, and the last one leaves the first
chip after all others: T = launch + h·latency + (p + h)·piece + (1 + h/p)·x, nearly. The best p makes that the line above (LogGP:
Alexandrov et al. 1995), so bandwidth is half of its peak at sizes of many latencies, and reaches it as a root does.

Where pieces cannot be as small as that, a pipeline fills in f seconds, or while x lasts if that is less. The NVSwitch adds in rounds
of one block of each of g chips: f is g·block bytes over a link, 9 times as long in a rack of 72 as in a host of 8. A tree over the
network adds `round_dcn` for each hop, since nothing comes down before something is up; a ring always has another shard to send.

The constants were fitted on 2026-11-27 by `python -m tools.bench_collectives --fit` to book/data/collectives.json, each source
weighing alike. `rates` makes a table of `sharding.collective_prices` of them.
"""

from dataclasses import replace
from typing import Literal

from helpers.arguments import formula, record
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding.collective_prices import CARD, Rates, collective_seconds, domains_reached, in_domains
from helpers.numeric import minimum, where

from .tiered_collectives import SENT_BY, Move, bus_factor, double_tree

ALGORITHMS = ("ring", "tree", "nvls", "collnet", "best")
NCCL = "nccl-tests"
TOOLS = (NCCL, "torch", "waits")  # the last: a program that calls one at a time, and waits for each
Method, Tool, Way = Literal[*ALGORITHMS], Literal[*TOOLS], Literal["dispatch", "combine"]
FP8_COPY = 1 + 4 / 128  # bytes of a number of a token in fp8, with its share of a float32 scale for 128 of them
EXPERTS, NODES = 256, 4  # of DeepSeek-V3, and domains that a token's lie in at most: DeepEP's README times these
TOKEN_BYTES = 16  # that DeepEP sends with each token's numbers


@record
class Reached:
    """Shares of published rates, and seconds.

    ring_ampere, ring_hopper, ring_blackwell, ring_cdna  share of a GPU's links that rings reach, by generation
    nvls_hopper, nvls_blackwell  share of them while the NVSwitch adds
    nvls_rack     the same in a domain of a rack, whose NVLinks lead to switches in other trays
    exchange      share of them that copies of tokens reach
    pairs_ampere, pairs_hopper, pairs_blackwell, pairs_cdna  share of them that an AllToAll of NCCL reaches, which is made of sends
                  from each chip to each other one
    own           copies of a chip's own shard beside what its links carry: those SMs copy it, too, from input to output
    block         bytes of each chip's part in a round, while the NVSwitch adds
    network       share of a network card
    launch        before the first byte moves, in nccl-tests, whose collectives follow one another
    waits         more, where a program calls one at a time, and waits for it
    deepep        before the first byte moves, in DeepEP
    latency, latency_dcn  of a hop over NVLink, and over the network
    piece         seconds that each piece costs beside its bytes, for a hop over NVLink
    round_dcn     seconds of a round of pieces over the network, in a tree
    """

    ring_ampere: float = 0.775
    ring_hopper: float = 0.89
    ring_blackwell: float = 0.843
    ring_cdna: float = 0.822
    nvls_hopper: float = 0.697
    nvls_blackwell: float = 0.558
    nvls_rack: float = 0.494
    exchange: float = 0.693
    pairs_ampere: float = 0.73
    pairs_hopper: float = 0.818
    pairs_blackwell: float = 0.688
    pairs_cdna: float = 0.8
    own: float = 0.468
    block: float = 3.3e06
    network: float = CARD
    launch: float = 1.43e-05
    waits: float = 2.66e-05
    deepep: float = 2.81e-05
    latency: float = 3.53e-07
    latency_dcn: float = 7.63e-05
    piece: float = 4.89e-07
    round_dcn: float = 0.000386


REACHED = Reached()
COUNTED = 1 / 0.92  # time that NCCL counts for a tree's bytes over a ring's: busBw * .92 in its src/graph/tuning.cc
CHANNEL = 1.7e10  # bytes/s of a card below which a tree's channel of an A100, 20 GB/s of NVLink, has more


def _tree_as_counted(kind: str, V, g, m) -> tuple[Move, ...]:
    """Two trees as NCCL counts them before it chooses: 2·V/g over a card whatever m is, and 8 % more, for they reach less."""
    inside, across = double_tree(kind, V, g, m)
    return inside, Move("dcn", where(m > 1, 2 * COUNTED * V / g, 0.0), across.hops)


@formula
def shares(chip: Chip, reached: Reached = REACHED) -> dict[str, float]:
    """Shares of its links that a chip reaches by "ring", "pairs", and "nvls" if its NVSwitch adds; ValueError if nobody measured it.

    >>> shares(chip("MI300X"))
    {'ring': 0.822, 'pairs': 0.8}
    """
    if not chip.links:
        measured = ", ".join(c.name for c in CHIPS.values() if c.links)
        raise ValueError(f"no collectives of {chip.name} are measured: there are those of {measured}")
    known = {name: getattr(reached, f"{name}_{chip.links}", None) for name in ("ring", "nvls", "pairs")}
    if known["nvls"] is not None and chip.pod[0] > 8:
        known["nvls"] = reached.nvls_rack
    return {name: share for name, share in known.items() if share is not None}


@formula
def rates(chip: Chip, algorithm: str, tool: str = "nccl-tests", reached: Reached = REACHED) -> Rates:
    """What an algorithm reaches on a chip, as a tool times it."""
    name = algorithm if algorithm in ("nvls", "pairs") else "ring"
    if name not in (known := shares(chip, reached)):
        raise ValueError(f"no switch of {chip.name}s adds: they have rings alone")
    return Rates(
        known[name] * chip.link_bandwidth,
        reached.network * chip.dcn_bandwidth,
        launch=reached.launch + (reached.waits if tool == "waits" else 0.0),
        hop=reached.latency,
        network_hop=reached.latency_dcn,
        algorithm=SENT_BY.get(algorithm),
        piece=reached.piece,
        own=0.0 if algorithm == "nvls" else reached.own,
        block=reached.block if algorithm == "nvls" else 0.0,
        network_round=reached.round_dcn if algorithm in ("tree", "nvls", "collnet") else 0.0,
    )


@formula
def measured_seconds(
    kind, size, chip: Chip, chips, domains=1, algorithm: Method = "best", tool: Tool = NCCL, reached: Reached = REACHED
):
    """Seconds of a collective of `size` bytes over so many GPUs in so many domains; for an AllToAll `size` is what one of them sends.

    algorithm  "ring": one through all GPUs, for each rail; "tree": rings inside, two trees across, for an AllReduce; "nvls": the
               NVSwitch adds, and across domains trees do; "collnet": rings inside, and the network's switches add, for an AllReduce;
               "best": the fastest of the first three; on A100, whose switches do not add, what NCCL takes for faster
               (ncclTopoTuneModel in src/graph/tuning.cc): a tree over many domains if arrays are short, and over two for all
               arrays only where cards are slower than its channels. An AllToAll has one, whichever is named

    >>> f"{measured_seconds('AllReduce', 2**30, chip('H100'), 8) * 1e3:.1f} ms"
    '4.1 ms'
    >>> [round(bus_bandwidth("AllReduce", 2**31, chip("A100"), 16, 2, name) / 1e9) for name in ("ring", "tree", "best")]
    [165, 224, 165]
    """
    names, V = [algorithm], size
    if kind == "AllToAll":
        names, V = ["pairs"], size * chips
    elif kind != "AllReduce" and algorithm in ("tree", "collnet"):
        raise ValueError(f"{algorithm} is of an AllReduce, which is added on the way, not of {kind!r}")
    elif algorithm == "best":  # in one domain a tree is a ring
        usable = {"ring": True, "nvls": "nvls" in shares(chip, reached), "tree": kind == "AllReduce"}
        names = [name for name, there in usable.items() if there]
    group = in_domains(chips / domains, domains, chip.neighbours)
    took = [collective_seconds(kind, V, group, rates(chip, name, tool, reached)) for name in names]
    if names == ["ring", "tree"] and chip.links == "ampere":
        counted = replace(rates(chip, "tree", tool, reached), algorithm=_tree_as_counted)
        slow_cards = (domains <= 2) & (2 * chip.dcn_bandwidth < CHANNEL)  # at most two GPUs share a card
        counts_tree = collective_seconds(kind, V, group, counted) < took[0]
        return where(counts_tree | slow_cards, minimum(*took), took[0])
    return minimum(*took) if len(took) > 1 else took[0]


@formula
def bus_bandwidth(
    kind, size, chip: Chip, chips, domains=1, algorithm: Method = "best", tool: Tool = NCCL, reached: Reached = REACHED
):
    """busbw, as nccl-tests prints it, in bytes/s; arguments as of `measured_seconds`.

    >>> [round(bus_bandwidth("AllReduce", 2**33, chip("H100"), n, algorithm="nvls") / 1e9) for n in (4, 8)]
    [372, 481]
    """
    return bus_factor(kind, chips) * size / measured_seconds(kind, size, chip, chips, domains, algorithm, tool, reached)


@formula
def exchange(
    tokens, D, k, chip: Chip, domains=1, direction: Way = "dispatch", low_latency=False, reached: Reached = REACHED
):
    """(Seconds, bytes) of every GPU's tokens on their way to k of `EXPERTS` ("dispatch"), or back: `bytes` counts what stays in place too.

    Over cards a token has one copy for each domain that it reaches, at most `NODES` of them, and in one domain one for each GPU.
    DeepEP prints bytes/seconds: of m domains the own one has an m-th of the copies, which no card carries.

    direction    "dispatch" in fp8 with a float32 scale for 128 numbers and 16 bytes of its own, "combine" in bf16
    low_latency  each copy goes straight to its expert's GPU, by itself

    >>> seconds, sent = exchange(128, 7168, 8, chip("H800"), domains=8, low_latency=True)
    >>> f"{seconds * 1e6:.0f} us, {sent / seconds / 1e9:.0f} GB/s"
    '180 us, 42 GB/s'
    """
    shares(chip, reached)  # refuses a chip that nobody measured
    V, g = tokens * (D * FP8_COPY + TOKEN_BYTES if direction == "dispatch" else 2 * D), chip.pod[0]
    copies = across = k  # with low latency each travels alone
    if not low_latency:
        few = minimum(NODES, domains)
        copies = domains_reached(k, g * few, EXPERTS * few / domains)
        across = copies if domains == 1 else domains_reached(k, domains, EXPERTS, NODES)
    links, cards = reached.exchange * chip.link_bandwidth, reached.network * chip.dcn_bandwidth
    group, deepep = in_domains(g, domains, chip.neighbours), Rates(links, cards, launch=reached.deepep)
    return collective_seconds("AllToAll", V * copies * g * domains, group, deepep, copies, across), V * across
