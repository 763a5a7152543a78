"""A cluster as a graph: chips, switches and the links between them, tier by tier (chapter 7).

A domain is what NVLink or ICI joins: the eight GPUs of a host, the 72 of a rack, a slice of a TPU pod. A network of cards joins
domains. Chip i of a GPU domain has a card on rail i: the leaf switch that the chips i of all domains of a group share.
Spine switches join the leaf switches of all groups. TPUs reach the network through their hosts.

`wiring` is the description that cuts and flows are computed on, and that is drawn. W is bytes/s in ONE direction, and every
link carries as much the other way.

Source: NVIDIA, DGX SuperPOD reference architectures for H100 and GB200 (rails, leaf and spine switches); Google Cloud, TPU v5p.
"""

from collections.abc import Iterator
from itertools import product

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import Tier, tiers

# Domains under one set of leaf switches: a scalable unit of NVIDIA's SuperPOD has 32 hosts of H100, or 8 racks of GB200.
HOSTS, RACKS = 32, 8
KINDS = ("chip", "switch", "host", "leaf", "spine")


@record
class Node:
    """A chip, or what joins chips.

    kind   one of `KINDS`; "switch" is an NVSwitch
    tier   0 for chips, 1 for what joins the chips of a domain or host, 2 for leaf switches, 3 for spine switches
    place  where it stands: (domain, index) of a chip, or (domain, *coordinates) on a torus; (domain, index) of an NVSwitch or a
           host; (group, rail) of a leaf switch; (index,) of a spine switch
    """

    name: str
    kind: str
    tier: int
    place: tuple[int, ...]


@record
class Link:
    """A link between two nodes: W bytes/s in each direction.

    link  "ici" inside a domain, "dcn" between domains, as in `roofline.Move`; "pcie" from a TPU to its host
    """

    a: str
    b: str
    link: str
    W: float


@record
class Wiring:
    """Nodes, chips first, and links."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    @property
    def chips(self) -> tuple[str, ...]:
        """Names of the chips."""
        return tuple(n.name for n in self.nodes if n.kind == "chip")


@record
class Cluster:
    """`domains` copies of a slice, joined by a network.

    domain  chips that NVLink or ICI joins
    domains  how many
    group   domains under one set of leaf switches; 0: all
    oversubscription  bytes/s that come into a leaf switch from below over those that leave it upwards; 1: full bisection

    >>> c = hosts("H100", 128)
    >>> c.chips, c.groups, c.rails, [t.n for t in c.tiers]
    (1024, 4, 8, [8, 32, 4])
    """

    domain: Slice
    domains: int = 1
    group: int = 0
    oversubscription: float = 1.0

    def __post_init__(self):
        if self.domains < 1 or self.group < 0 or (self.group and self.domains % self.group):
            raise ValueError(f"{self.domains} domains do not make whole groups of {self.group}")
        if self.chip.axes and (self.group or self.oversubscription != 1):
            raise ValueError(
                f"slices of {self.chip.name} hang on one network here: groups and oversubscription are of GPUs"
            )
        if self.oversubscription < 1:
            raise ValueError(f"oversubscription is 1 (none) or more, not {self.oversubscription}")

    @property
    def chip(self) -> Chip:
        """What it is made of."""
        return self.domain.chip

    @property
    def chips(self) -> int:
        """All chips."""
        return self.domain.chips * self.domains

    @property
    def groups(self) -> int:
        """Sets of leaf switches."""
        return self.domains // (self.group or self.domains)

    @property
    def rails(self) -> int:
        """Leaf switches of a group: one for each GPU of a host; TPUs have one network."""
        return 1 if self.chip.axes else min(self.chip.chips_per_host, self.domain.chips)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Those of `rooflines.machines`, and the spine switches over groups, where a chip has its share of the leaf switches' uplinks.

        >>> [(t.link, t.n, t.W / 1e9) for t in hosts("H100", 8, group=4, oversubscription=2).tiers]
        [('ici', 8, 450.0), ('dcn', 4, 50.0), ('dcn', 2, 25.0)]
        """
        if self.domains == 1:
            return tiers(self.domain)
        lower = tiers(self.domain, self.group or self.domains)
        if self.groups == 1:
            return lower
        return (*lower, Tier("dcn", self.groups, self.chip.dcn_bandwidth / self.oversubscription))

    def egress(self, n: Count = 1) -> float:
        """Bytes/s, one way, that leave n whole domains of one group.

        >>> hosts("H100", 4).egress() / 1e9, racks("GB200", 2).egress() / 1e9
        (400.0, 3600.0)
        """
        if n > (self.group or self.domains):
            raise ValueError(f"a group has {self.group or self.domains} domains, fewer than {n}")
        if self.groups > 1 and n == self.group:
            return n * self.domain.chips * self.tiers[-1].W
        return n * self.domain.chips * self.chip.dcn_bandwidth if n < self.domains else 0.0


@formula
def hosts(name: str, n: Count, group: int = HOSTS, oversubscription: float = 1.0, chips: int = 8) -> Cluster:
    """n GPU hosts, each an NVLink domain, under leaf switches for `group` of them; for fewer hosts one group.

    >>> hosts("H100", 2).chips, hosts("B200", 64).groups
    (16, 2)
    """
    return Cluster(Slice(chip(name), (chips,)), n, group if n > group else 0, oversubscription)


@formula
def racks(name: str, n: Count, group: int = RACKS, oversubscription: float = 1.0) -> Cluster:
    """n racks of one NVLink domain each, such as GB200 NVL72.

    >>> racks("GB200", 8).chips, racks("GB200", 8).rails
    (576, 4)
    """
    return hosts(name, n, group, oversubscription, chip(name).pod[0])


@formula
def slices(name: str, shape: tuple[int, ...], n: Count = 1) -> Cluster:
    """n slices of TPUs on the data-centre network.

    >>> slices("v5p", (4, 4, 8), 2).chips
    256
    """
    return Cluster(Slice(chip(name), shape), n)


@formula
def wiring(cluster: Cluster, switches: Count = 1, spines: Count = 1) -> Wiring:
    """Nodes and links of a cluster.

    switches  NVSwitches of a domain, among which the links of a GPU are shared evenly: 4 in an H100 host, 18 in an NVL72
    spines    spine switches, among which the uplinks of a leaf switch are shared

    >>> w = wiring(hosts("H100", 2))
    >>> len(w.nodes), len(w.links), len(w.chips)            # 16 GPUs, 2 NVSwitches, 8 leaf switches
    (26, 32, 16)
    >>> len(wiring(hosts("H100", 2), switches=4).links)
    80
    """
    build = _torus if cluster.chip.axes else _switched
    nodes, links = build(cluster, switches)
    if cluster.domains > 1:
        _network(cluster, spines, nodes, links)
    order = {kind: i for i, kind in enumerate(KINDS)}
    return Wiring(tuple(sorted(nodes, key=lambda n: order[n.kind])), tuple(links))


def _switched(cluster: Cluster, switches: int) -> tuple[list[Node], list[Link]]:
    nodes, links, W = [], [], cluster.chip.link_bandwidth / switches
    for d in range(cluster.domains):
        nodes += [Node(f"switch {d}.{s}", "switch", 1, (d, s)) for s in range(switches)]
        for i in range(cluster.domain.chips):
            nodes.append(Node(f"chip {d}.{i}", "chip", 0, (d, i)))
            links += [Link(f"chip {d}.{i}", f"switch {d}.{s}", "ici", W) for s in range(switches)]
            if cluster.domains > 1:
                rail = f"leaf {d // (cluster.group or cluster.domains)}.{i % cluster.rails}"
                links.append(Link(f"chip {d}.{i}", rail, "dcn", cluster.chip.dcn_bandwidth))
    return nodes, links


def _neighbours(slice: Slice) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The two chips of each ICI link; an axis of two chips has one link, whether or not it wraps."""
    for at in product(*(range(n) for n in slice.shape)):
        for axis, n in enumerate(slice.shape):
            if at[axis] + 1 < n or (slice.wraps[axis] and n > 2):
                yield at, (*at[:axis], (at[axis] + 1) % n, *at[axis + 1 :])


def _torus(cluster: Cluster, switches: int) -> tuple[list[Node], list[Link]]:
    nodes, links, s = [], [], cluster.domain
    rate = cluster.chip.chips_per_host * cluster.chip.dcn_bandwidth  # of a host's cards
    for d in range(cluster.domains):
        for i, at in enumerate(product(*(range(n) for n in s.shape))):
            host = i // cluster.chip.chips_per_host
            nodes.append(Node(_name(d, at), "chip", 0, (d, *at)))
            if cluster.domains > 1:
                if i % cluster.chip.chips_per_host == 0:
                    nodes.append(Node(f"host {d}.{host}", "host", 1, (d, host)))
                    links.append(Link(f"host {d}.{host}", "leaf 0.0", "dcn", rate))
                links.append(Link(_name(d, at), f"host {d}.{host}", "pcie", cluster.chip.pcie_bandwidth or rate))
        links += [Link(_name(d, a), _name(d, b), "ici", cluster.chip.link_bandwidth) for a, b in _neighbours(s)]
    return nodes, links


def _name(d: int, coordinates: tuple[int, ...]) -> str:
    return f"chip {d}." + ",".join(map(str, coordinates))


def _network(cluster: Cluster, spines: int, nodes: list[Node], links: list[Link]) -> None:
    """Leaf switches and, over several groups, spine switches."""
    leaves = [(g, r) for g in range(cluster.groups) for r in range(cluster.rails)]
    nodes += [Node(f"leaf {g}.{r}", "leaf", 2, (g, r)) for g, r in leaves]
    if cluster.groups == 1:
        return
    nodes += [Node(f"spine {s}", "spine", 3, (s,)) for s in range(spines)]
    up = cluster.group * cluster.domain.chips * cluster.tiers[-1].W / cluster.rails / spines
    links += [Link(f"leaf {g}.{r}", f"spine {s}", "dcn", up) for (g, r), s in product(leaves, range(spines))]
