"""What a collective costs: one function of its kind, its bytes, the chips that take part, and rates (chapters 2, 4, 5 and 7).

    seconds = collective_seconds("AllReduce", V, group, IN_STEP.on(chip))

A `Group` says what each byte of the array puts on the busiest link inside a slice or an NVLink domain, and over how many domains
the chips lie. A `Table` says what software makes of links: shares of the published bytes/s, and seconds that no byte takes. All
tables stand here, one below the other, so what a floor, a training step, a serving engine and measured runs differ in can be
seen; `racks.measured_collectives` makes those of NCCL and DeepEP, which depend on the generation of a GPU.

V  bytes of the array on one chip where it is whole, as in `collectives`; for an AllToAll of all shards together
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import Move
from helpers.numeric import maximum, minimum, nonzero, plain, sqrt, where

from .collectives import all_gather, all_reduce, all_to_all, domains_reached, scramble
from .sharded_array import Axis

TIMES = {"AllGather": 1, "ReduceScatter": 1, "AllReduce": 2}
"""How often a ring goes round."""
RING_HOPS = 16  # of a pass, at most: two rings of 16 chips, a v5e's pod, that turn both ways
NETWORK_HOPS = 2  # a card, a switch, a card: two links follow each other between domains


@record
class Group:
    """Chips that take part in a collective, as the busiest link of a chip sees them.

    inside   chips in each of the domains
    domains  slices or NVLink domains, over the network; all their chips are n
    gather   bytes that an AllGather or ReduceScatter puts on that link, in one direction, for each byte of V
    reduce   the same of an AllReduce
    swap     of an AllToAll
    shift    of a send from each chip to the next one
    hops     one after the other, inside; an AllReduce has `reduce_hops`
    links    share of a chip's links that lead to the others: 1 but where GPUs are joined without a switch
    """

    inside: float
    domains: float
    gather: float
    reduce: float
    swap: float
    shift: float
    hops: float
    reduce_hops: float
    links: float = 1.0

    @property
    def n(self):
        return self.inside * self.domains


@formula
def on_torus(axes: tuple[Axis, ...], slices=1) -> Group:
    """The chips along axes of a torus: what `collectives` says of one byte; or such axes of several slices on a network.

    Over slices an AllReduce is a ReduceScatter inside, a sum across, and an AllGather inside; an AllToAll goes to the counterpart in
    the other slice first, and what has come is spread inside.

    >>> group = on_torus((Axis(4), Axis(4)))
    >>> group.n, group.gather == all_gather(1.0, (Axis(4), Axis(4))).bytes
    (16, True)
    """
    once, total, swap = (price(1.0, axes) for price in (all_gather, all_reduce, all_to_all))
    n, shift = 1, 0.0
    for axis in axes:
        n, shift = n * axis.n, maximum(shift, where(axis.n > 1, axis.stride, 0))
    more = slices > 1
    reduce, hops = where(more, 2 * once.bytes, total.bytes), where(more, 2 * once.hops, total.hops)
    return Group(n, slices, once.bytes, reduce, swap.bytes / slices, where(more, 0, shift), once.hops, hops)


@formula
def in_domains(chips_inside, domains=1, neighbours=0) -> Group:
    """So many chips in each of several domains.

    neighbours  chips to which one has links, where no switch joins them: of fewer chips a part of its links is idle

    >>> in_domains(8, 4).gather, in_domains(8, 4).n, round(in_domains(2, neighbours=7).gather, 9)
    (0.875, 32, 3.5)
    """
    links = 1.0
    if not plain(neighbours) or neighbours:  # pages trace them
        links = where(
            neighbours > 0, where(chips_inside > 1, minimum(1.0, (chips_inside - 1) / nonzero(neighbours)), 1.0), 1.0
        )
    load = (1 - 1 / chips_inside) / links
    # A chip hands its bytes to the next one over NVLink, unless that is in another domain.
    shift = where(domains > 1, 0.0, where(chips_inside > 1, 1.0, 0.0))
    n, hops = chips_inside * domains, where(chips_inside > 1, 1, 0)
    return Group(chips_inside, domains, load, 2 * load, load / n, shift / links, hops, 2 * hops, links)


@formula
def adjacent(chip: Chip, n, whole_slice: bool = False) -> Group:
    """n neighbours of which only their number is known: those of a domain first; on a torus a block of rings.

    whole_slice  they are all chips there are, as in serving, so the block has as many axes as the torus; else an axis is left
                 only when it is full, as an axis of a layout would

    >>> adjacent(chip("H100"), 32).domains, adjacent(chip("v5p"), 8).gather, adjacent(chip("v5p"), 64, whole_slice=True).gather
    (4.0, 0.4375, 0.1640625)
    """
    if chip.kind != "tpu":  # the planner traces `axes`, which no `if` can ask then
        inside = minimum(n, chip.pod[0])
        return in_domains(inside, n / inside, chip.neighbours)
    # Pages trace a step's chip with the sides of its pod, 1 where it has none, and a server's with its axes.
    every = chip.axes if whole_slice else sum(where(side > 1, 1.0, 0.0) for side in chip.sides)
    if whole_slice:
        axes = where(n >= 2**every, every, 1)
    else:
        axes, full = 1.0, 1
        for side in chip.sides[:-1]:
            full = full * side
            axes = axes + where(n > full, 1.0, 0.0)
    side = n ** (1 / axes)
    links = axes * where(side < 2.5, 1, 2)  # two chips of an axis have one link; sides are rounded, so not `== 2`
    gather = (1 - 1 / n) / links
    hops = axes * (side - 1) if whole_slice else minimum(n - 1, RING_HOPS)
    most = where(n >= 2**every, every, 1)  # tokens may lie as a cube: what the best slice would take
    # On a link of a ring of up to four chips, or of a pair, is half of what a chip sends; larger rings pass more on.
    swap = maximum(1 / 2, n ** (1 / most) / 8) / n
    return Group(n, 1, gather, 2 * gather, swap, 1.0, hops, 2 * hops)


@formula
def flat_ring(kind: str, V, g, m=1) -> tuple[Move, ...]:
    """One ring through all chips, domain by domain, once for each rail: a g-th of V leaves a domain through each card.

    Each of the g rings has every chip, and leaves a domain at another one, so a chip's NVLink carries g-1 of the rings and its
    card one. A piece that starts at the first chip of a domain makes n-1 hops, m-1 of them over the network, and one that starts
    inside a domain m; an AllReduce goes round twice.

    >>> [(x.link, x.bytes, x.hops) for x in flat_ring("AllReduce", 1024.0, g=8, m=2)]
    [('ici', 1680.0, 28), ('dcn', 240.0, 2)]
    """
    n, times = g * m, passes(kind)
    sent = times * V * (n - 1) / n
    outside = where(m > 1, 1 / g, 0.0)
    return Move("ici", sent * (1 - outside), times * (n - m)), Move("dcn", sent * outside, times * (m - 1))


@formula
def short_ring(kind: str, V, g, m=1) -> tuple[Move, ...]:
    """The bytes of `flat_ring`, over cards in one round each way: short arrays of 16 and of 32 chips waited as long."""
    links, cards = flat_ring(kind, V, g, m)
    return links, replace(cards, hops=passes(kind) * where(m > 1, 1, 0))


@formula
def passes(kind: str) -> int:
    """How often the array goes through the links: twice for an AllReduce.

    >>> passes("AllReduce"), passes("AllGather")
    (2, 1)
    """
    if kind not in TIMES:
        raise ValueError(f"over tiers there are {', '.join(TIMES)}, not {kind!r}")
    return TIMES[kind]


@record
class Rates:
    """What a chip's links and cards reach in software of a kind: bytes/s one way, and seconds.

    link, network  bytes/s of one ICI link or of all a GPU's NVLinks, and of its network card
    launch         seconds of a call before its first byte; `stages` calls follow each other where cards take part
    hop, network_hop  seconds of a hop; of one pass no more than `most_hops` count, for trees and switches take fewer
    algorithm      what is sent over each tier, by kind, V, chips of a domain and domains; None: as the group's links have it
    in_turn        links and cards work one after the other, not on different pieces at once
    hops_hide      latency lies beside the bytes, not before them
    piece, own, block, network_round  as in `racks.measured_collectives.Reached`
    """

    link: float
    network: float
    launch: float = 0.0
    stages: float = 1
    hop: float = 0.0
    network_hop: float = 0.0
    most_hops: float | None = None
    algorithm: Callable | None = None
    in_turn: bool = False
    hops_hide: bool = False
    piece: float = 0.0
    own: float = 0.0
    block: float = 0.0
    network_round: float = 0.0


@record
class Table(Rates):
    """What software makes of published rates, with the source of its numbers. The fields of `Rates`, but for:

    link, network     shares of the published bytes/s
    hop, network_hop  seconds behind switches; left out: the chip's, and `NETWORK_HOPS` of them over the network

    On a torus nothing is launched, hops are the chip's, and every axis has its rings.
    """

    hop: float | None = None
    network_hop: float | None = None
    source: str = ""
    date: str = ""

    def on(self, chip: Chip, hop: float | None = None) -> Rates:
        """The rates of a chip; `hop` in place of the chip's own.

        >>> f"{PUBLISHED.on(chip('H100')).link:.3g} {IN_STEP.on(chip('H100')).link:.3g} {IN_ENGINE.on(chip('H100')).link:.3g}"
        '4.5e+11 3e+11 2.55e+11'
        """
        link, network = chip.link_bandwidth * self.link, chip.dcn_bandwidth * self.network
        own = chip.hop if hop is None else hop
        how = self.most_hops, None if chip.kind == "tpu" else self.algorithm, self.in_turn, self.hops_hide
        inside = own if self.hop is None else self.hop
        across = NETWORK_HOPS * own if self.network_hop is None else self.network_hop
        if chip.kind == "tpu":  # and between slices no latency was seen
            return Rates(link, network, 0.0, 1, own, across if self.network_hop is None else 0.0, *how)
        return Rates(link, network, self.launch, self.stages, inside, across, *how)


PUBLISHED = Table(
    link=1.0,
    network=1.0,
    source="data sheets: `Chip.sources` has each, with its year",
    date="2021 to 2025",
    # Inside, across, inside, as chapter 7's hierarchical collective is written down: over several domains a sum of tiers, which a
    # program that cuts the array into pieces beats. So it is a floor inside a domain alone, or where a step has one collective.
    in_turn=True,
    hops_hide=True,  # a link that is full has sent its first byte: chapter 2's larger of bandwidth and latency
)
CARD = 0.874  # share of a network card that large arrays reach: `tools.bench_collectives --fit`, book/data/collectives.json
IN_STEP = Table(
    source="python -m tools.bench_estimate --fit: training steps of book/data/published.json",
    date="2026-12-01",
    link=0.666,  # of NVLink and ICI
    network=CARD,
    hop=7.58e-6,  # seconds: each member of a ring waits for a kernel of its neighbour's
    network_hop=7.58e-6,
    algorithm=flat_ring,  # NCCL's choice for the arrays of megabytes that a step sends
)
IN_STEP_TENSOR = replace(IN_STEP, most_hops=4)  # neighbours: trees and switches take no hop for each
IN_STEP_TOKENS = replace(IN_STEP, hop=0.0, network_hop=0.0)  # hundreds of MB go to all at once: no latency was seen
IN_ENGINE = Table(
    source="python -m tools.bench_serving --fit: engines of book/data/serving.json; aiconfigurator-core 0.12.0 as the guess",
    date="2026-12-01",
    link=0.567,  # arrays of kilobytes: far from the rate of large ones
    network=0.874,  # as of a card in nccl-tests (`racks.measured_collectives.REACHED`): no row of the fit has two hosts
    launch=1.13e-05,  # seconds of an AllReduce, `Engine.launch` times
    hop=0.0,  # all in `launch`
    network_hop=5e-5,  # seconds of a round over cards: FastTransformer's tp = 16 and 32 over hosts of 8 A100
    algorithm=short_ring,
)
# An AllToAll: all chips send to all at once. Where cards take part, its launch and hop are DeepEP's 28.1 µs of racks.
IN_ENGINE_TOKENS = replace(IN_ENGINE, launch=8.6e-06, network_hop=1.95e-5)


@formula
def over_tiers(kind: str, V, members_per_tier: Sequence, copies=1.0, reached=None) -> tuple:
    """Bytes that a chip sends over each of several tiers, of which a group has `members_per_tier`, the innermost tier first.

    A gather goes outside first, so of V bytes a chip sends V·(1 - 1/n) over a tier, shared by the members in all lower ones. Of an
    AllToAll each chip's share of all shards goes over its links, and along rails one copy to each other domain that has an expert.
    A Permute goes over the highest tier between two neighbours: of the domains of a group one is at the border to the next group.

    >>> over_tiers("AllGather", 1024.0, (8, 4, 2)), over_tiers("AllReduce", 1024.0, (8, 4))
    ((896.0, 96.0, 16.0), (1792.0, 192.0))
    """
    inside, *outer = members_per_tier
    domains = prod(outer)
    if kind == "AllToAll":
        once = reached is None and plain(copies) and copies == 1  # each byte goes to one place
        share = 1.0 if once else (domains_reached(copies, domains) if reached is None else reached) / copies
        sent = V / (inside * domains)
        return sent * (1 - 1 / inside), *(sent * share * (n - 1) / prod(outer[i:]) for i, n in enumerate(outer))
    if kind == "Permute":
        left = where(domains > 1, V * 1.0, 0.0)
        out = [where(domains > 1, 0.0, where(inside > 1, V * 1.0, 0.0))]
        for i, n in enumerate(outer):  # what goes on to a higher tier is no more in this one
            higher = where(prod(outer[i + 1 :]) > 1, left / n, 0.0)
            out, left = [*out, left - higher], higher
        return tuple(out)
    times = passes(kind)
    return tuple(times * V * (1 - 1 / n) / prod(members_per_tier[:i]) for i, n in enumerate(members_per_tier))


@formula
def tier_moves(
    kind: str, V, group: Group, algorithm: Callable | None = None, copies=1.0, reached=None
) -> tuple[Move, Move]:
    """What the busiest chip sends, in one direction: over its links, and over its network card.

    copies   of each token among the V bytes of an AllToAll: over cards one goes to each domain that has some of its experts
    reached  those domains, its own among them; left out: as many as chance gives

    >>> tier_moves("AllReduce", 1024.0, in_domains(8, 2))
    (Move(link='ici', bytes=1792.0, hops=2), Move(link='dcn', bytes=128.0, hops=2))
    """
    m, inside, crosses = group.domains, group.inside, where(group.domains > 1, 1, 0)
    if algorithm is not None and kind in TIMES:
        links, cards = algorithm(kind, V, inside, m)
        idle = not plain(group.links) or group.links != 1  # arrays are long, so they are divided only where it matters
        return (replace(links, bytes=links.bytes / group.links) if idle else links), cards
    _, across = over_tiers(kind, V, (inside, m), copies, reached)
    if kind == "AllToAll":
        return Move("ici", V * group.swap, group.hops), Move("dcn", across, crosses)
    if kind == "Permute":
        return Move("ici", V * group.shift, group.shift * group.links), Move("dcn", across, crosses)
    times = passes(kind)
    load, hops = (group.reduce, group.reduce_hops) if times == 2 else (group.gather, group.hops)
    return Move("ici", V * load, hops), Move("dcn", across, times * crosses)


@formula
def in_two_tiers(kind: str, V, ici_axes, slices) -> tuple[Move, Move]:
    """A collective over axes inside slices, and over so many slices: what it puts on ICI links, and on a chip's network.

    kind, V   as in `collectives`; of a Permute V is what each device holds, and any of them may have to go anywhere
    ici_axes  the axes inside, an `Axis` or several; of one chip each if there is none

    The chips that differ only along axes of the network are counterparts: each sends over its own share of the network, and with its
    counterparts exchanges only its own part of what a slice holds. The network is a switch, so its hops are not counted.

    >>> in_two_tiers("AllGather", 1024.0, Axis(8), 4)
    (Move(link='ici', bytes=512.0, hops=4), Move(link='dcn', bytes=96.0, hops=0))
    >>> [in_two_tiers(kind, 1024.0, Axis(1), 4)[1].bytes for kind in ("AllGather", "AllReduce", "AllToAll", "Permute")]
    [768.0, 1536.0, 192.0, 1024.0]
    """
    axes = (ici_axes,) if isinstance(ici_axes, Axis) else tuple(ici_axes)
    links, network = tier_moves(kind, V, on_torus(axes, slices))
    if kind == "Permute":
        anywhere, more = scramble(V, axes), slices > 1
        links = Move("ici", where(more, 0.0, anywhere.bytes), where(more, 0, anywhere.hops))
    return links, replace(network, hops=0)


@formula
def parted(axes) -> tuple[tuple[Axis, ...], int]:
    """The axes inside slices, at least one of one chip, and the slices along all others.

    >>> parted((Axis(4), Axis(8, False, "dcn")))
    ((Axis(n=4, wraps=True),), 8)
    """
    inside = tuple(a for a in axes if a.link == "ici")
    return inside or (Axis(1),), prod(a.n for a in axes if a.link == "dcn")


@formula
def collective_seconds(kind: str, V, group: Group, rates: Rates, copies=1.0, reached=None):
    """Seconds of a collective of V bytes; `copies` and `reached` of tokens are as in `tier_moves`.

    >>> h100 = chip("H100")
    >>> [f"{1e6 * collective_seconds('AllReduce', 2**26, adjacent(h100, 8), t.on(h100)):.0f} us" for t in (PUBLISHED, IN_STEP, IN_ENGINE)]
    ['261 us', '498 us', '472 us']
    """
    if plain(group.n) and group.n == 1:
        return 0.0 * V
    inside, across = tier_moves(kind, V, group, rates.algorithm, copies, reached)
    links, cards = inside.bytes / rates.link, across.bytes / rates.network
    if _is_there(rates.own):  # SMs copy a chip's own shard as well, from input to output
        shard = V / group.n / (group.n if kind == "AllToAll" else 1)
        links = links + rates.own * shard / group.links / rates.link
    if plain(group.domains) and group.domains == 1:
        moves, across = links, Move("dcn", 0.0, 0)  # nothing crosses, and pages need not say so
    else:
        moves = links + cards if rates.in_turn else maximum(links, cards)
    if plain(rates.hop, rates.network_hop) and rates.hop == rates.network_hop:
        waits = (inside.hops + across.hops) * rates.hop if rates.hop else 0.0
    else:
        waits = inside.hops * rates.hop + across.hops * rates.network_hop
    if rates.most_hops is not None:
        waits = minimum(waits, TIMES.get(kind, 1) * rates.most_hops * rates.hop)
    if _is_there(rates.launch):
        waits = waits + rates.launch * (where(group.domains > 1, rates.stages, 1) if rates.stages != 1 else 1)
    seconds = maximum(moves, waits) if rates.hops_hide else moves + waits
    if _is_there(rates.piece):  # the best number of pieces; below 1 MiB NCCL's LL, a flag beside every four bytes
        pieces = 2 * sqrt(inside.hops * rates.piece * moves)
        seconds = seconds + where(V < 2**20, minimum(pieces, moves), pieces)
    fills = _is_there(rates.block) or _is_there(rates.network_round)
    if fills:  # a pipeline: the switch's in rounds of a block, a tree's level by level
        fill = group.inside * rates.block / rates.link + across.hops * rates.network_round
        seconds = seconds + moves * fill / nonzero(moves + fill)
    return where(group.n > 1, seconds, 0.0)


def _is_there(seconds) -> bool:
    """Whether a rate's part is other than zero, as far as can be seen: fits price arrays of constants."""
    return not plain(seconds) or seconds != 0
