"""The bottleneck cut of a collective: the chips that get, over all links into them, least of what they need (chapter 7).

Some chips X of N, with whatever switches help them most, are a side of a cut. What X needs from the others comes over the links
of the cut, whose bytes/s are those of a largest flow from the others to X (max-flow min-cut). So for every X

    T >= bytes that X needs / bytes/s into X

and the largest of these is a time that no program beats. AllGathers reach it: spanning trees that share the links do
(Edmonds 1973; over switches, Zhao et al. 2024, "ForestColl").

Bytes that X needs of an array of V, from outside: (1 - |X|/N)·V of an AllGather, as much out of X for a ReduceScatter, both for
an AllReduce made of the two; |X|·(N-|X|)/N²·V of an AllToAll, as V is all shards together.
"""

from collections import deque
from collections.abc import Collection, Iterable
from functools import cache
from itertools import product
from math import inf
from typing import Literal

from helpers.arguments import formula, record
from helpers.costs.sharding.collective_prices import TIMES
from helpers.numeric import plain

from .cluster import Cluster, Link, Wiring, wiring

Kind = Literal[*TIMES, "AllToAll"]


@formula
def max_flow(links: Iterable[Link], sources: Collection[str], sinks: Collection[str]) -> float:
    """Bytes/s that nodes `sources` can send to nodes `sinks` together, over links that carry W each way (Edmonds and Karp 1972).

    A node without a link sends nothing.

    >>> from .cluster import wiring
    >>> w = wiring(hosts("H100", 2))
    >>> max_flow(w.links, w.chips[:8], w.chips[8:]) / 1e9, max_flow(w.links, w.chips[:1], w.chips[1:]) / 1e9
    (400.0, 500.0)
    """
    for side in (sources, sinks):
        if isinstance(side, str):
            raise ValueError(f"sources and sinks are several names: write [{side!r}]")
    if set(sources) & set(sinks):
        raise ValueError(f"{sorted(set(sources) & set(sinks))[0]!r} is on both sides: a node sends or receives")
    left: dict[str, dict[str, float]] = {}
    for x in links:
        for a, b in ((x.a, x.b), (x.b, x.a)):
            left.setdefault(a, {})[b] = left.get(a, {}).get(b, 0.0) + x.W
    left["from"], left["to"] = dict.fromkeys(sources, inf), dict.fromkeys(sinks, 0.0)
    for name in sources:
        left.setdefault(name, {})["from"] = 0.0
    for name in sinks:
        left.setdefault(name, {})["to"] = inf
    total = 0.0
    while path := _shortest(left):
        W = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= W
            left[b][a] += W
        total += W
    return total


def _shortest(residual) -> list[tuple[str, str]]:
    """Links of a shortest path from the sources to the sinks that can carry more, found from the sinks, which are few."""
    after, queue = {"to": ""}, deque(["to"])
    while queue and "from" not in after:
        b = queue.popleft()
        for a in residual[b]:
            if a not in after and residual[a][b] > 0:
                after[a] = b
                queue.append(a)
    path, a = [], "from"
    while b := after.get(a):
        path.append((a, b))
        a = b
    return path


@record
class Cut:
    """A side of a cut.

    name     what it is: "a chip", "a domain", "a group", or "half of axis 0" of a torus
    chips    how many
    W        bytes/s into it, and out of it
    seconds  that each byte of V takes at least
    """

    name: str
    chips: int
    W: float
    seconds: float


@formula
def needs(kind: Kind, side_chips, chips):
    """Bytes, of one byte of V, that cross into a side of `side_chips` chips of `chips`, or out of it, in the fuller direction.

    >>> needs("AllGather", 8, 16), needs("AllReduce", 8, 16), needs("AllToAll", 8, 16)
    (0.5, 1.0, 0.25)
    """
    if plain(side_chips, chips) and side_chips > chips:
        raise ValueError(f"a side of a cut of {chips} chips has at most as many, not {side_chips}")
    if kind == "AllToAll":
        return side_chips * (chips - side_chips) / chips**2
    return TIMES[kind] * (1 - side_chips / chips)


@formula
def sides(cluster: Cluster, wiring: Wiring) -> list[tuple[str, list[str]]]:
    """The sides that can be tightest: a chip, at a corner if there is one; a domain; a group; half of a torus along an axis."""
    place = {n.name: n.place for n in wiring.nodes if n.kind == "chip"}
    first = [n for n, at in place.items() if at[0] == 0]
    out = [("a chip", first[:1])]
    if cluster.domains > 1:
        out.append(("a domain", first))
    if cluster.groups > 1:
        out.append(("a group", [n for n, at in place.items() if at[0] < cluster.group]))
    if cluster.chip.axes:
        for axis, n in enumerate(cluster.domain.shape):
            if n > 1:
                out.append((f"half of axis {axis}", [x for x in first if place[x][1 + axis] < n // 2]))
    return out


@formula
def rates_in(cluster: Cluster) -> list[tuple[str, int, float]]:
    """Each of the sides that `sides` lists: its name, how many chips, and the bytes/s that can flow into it.

    >>> rates_in(hosts("H100", 4))
    [('a chip', 1, 500000000000.0), ('a domain', 8, 400000000000.0)]
    """
    w, found = wiring(cluster), []
    for name, inside in sides(cluster, w):
        if others := sorted(set(w.chips) - set(inside)):
            found.append((name, len(inside), max_flow(w.links, others, inside)))
    return found


@formula
def bottleneck(cluster: Cluster, kind: Kind) -> Cut:
    """The tightest of the sides that `sides` lists, for a collective over all chips of a cluster.

    >>> for some in (hosts("H100", 2), hosts("H100", 16), racks("GB200", 8)):
    ...     cut = bottleneck(some, "AllGather")
    ...     print(f"{cut.name}, {1 / cut.seconds / 1e9:.0f} GB/s")
    a chip, 533 GB/s
    a domain, 427 GB/s
    a chip, 952 GB/s
    """
    n = cluster.chips
    if n < 2:
        raise ValueError("one chip alone has nobody to send to: give a cluster of 2 or more")
    found = [Cut(name, inside, W, needs(kind, inside, n) / W) for name, inside, W in rates_in(cluster)]
    return max(found, key=lambda x: (x.seconds, -x.chips))


@formula
def every_cut(cluster: Cluster, kind: Kind) -> Cut:
    """The same by trying every set of chips: 2^chips of them, so for small clusters.

    >>> every_cut(hosts("H100", 2, chips=3), "AllGather").chips
    3
    """
    chips = len(wiring(cluster).chips)
    if chips > 12:
        raise ValueError(f"{chips} chips have 2^{chips} sides: try up to 12, or `bottleneck`")
    best = None
    for few, W in _every_flow(cluster):
        for inside in (few, chips - few):  # links carry as much either way: into a side and out of it
            cut = Cut("some chips", inside, W, needs(kind, inside, chips) / W)
            best = cut if best is None or cut.seconds > best.seconds * (1 + 1e-9) else best
    return best


@cache
def _every_flow(cluster: Cluster) -> list[tuple[int, float]]:
    """Chips of each side without the first chip, and bytes/s into it: no kind of collective changes them."""
    w, flows = wiring(cluster), []
    for bits in product((0, 1), repeat=len(w.chips) - 1):
        inside = [x for x, bit in zip(w.chips[1:], bits) if bit]
        if inside:
            flows.append((len(inside), max_flow(w.links, [x for x in w.chips if x not in inside], inside)))
    return flows
