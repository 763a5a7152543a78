"""What the live figure of chapter 7 computes: a collective on a cluster under each algorithm, its cut, and what would hide it.

Every number comes from `costs.racks`. `helpers.live.jaxpr_to_javascript` traces the functions below for the page, where
`collective_times.js` calls them, and tests hold the page against Python, and Python against `cluster_time` and `bottleneck`.
"""

from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf, nan

from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.cut import needs, rates_in
from helpers.costs.racks.tiered_collectives import (
    ALGORITHMS,
    HOP_DCN,
    SENT_BY,
    algorithms,
    alpha_beta,
    card_across_groups,
    moves_on_torus,
)
from helpers.costs.racks.training_over_tiers import HOSTS
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from helpers.live.jaxpr_to_javascript import javascript
from helpers.numeric import maximum, where

KINDS = ("AllGather", "AllReduce", "AllToAll")  # a ReduceScatter takes as long as an AllGather
ROW = ("in_bytes", "in_hops", "in_all", "out_bytes", "out_hops", "out_all", "lower")
SIZES = ("P", "A", "M", "X", "D", "k")
GROUP = HOSTS  # under one set of leaf switches, where uplinks are thin


@dataclass(frozen=True)
class Machine:
    """Domains of one kind.

    shape   of a domain
    domain  what one is called
    thin    oversubscription of the leaf switches of each group of GROUP domains; 1: none
    """

    chip_name: str
    shape: tuple[int, ...]
    domain: str
    thin: float = 1.0

    @property
    def chip(self) -> Chip:
        return chip(self.chip_name)

    @property
    def slice(self) -> Slice:
        return Slice(self.chip, self.shape)

    @property
    def g(self) -> int:
        return self.slice.chips

    @property
    def uplink(self) -> float:
        """Bytes/s that a chip has of the links out of a group."""
        return self.chip.dcn_bandwidth / self.thin

    def cluster(self, m: int) -> Cluster:
        """m of them.

        >>> Machine("H100", (8,), "host", 4.0).cluster(64).groups, Machine("GB200", (72,), "rack").cluster(64).groups
        (2, 1)
        """
        grouped = self.thin > 1 and m > GROUP
        return Cluster(self.slice, m, GROUP if grouped else 0, self.thin if grouped else 1.0)


@cache
def sides(of: Machine) -> tuple[list[tuple[str, int, float]], ...]:
    """What flows into each side of a cut, from the graph itself: in one domain, in several, and in several groups.

    >>> [len(some) for some in sides(Machine("H100", (8,), "host", 4.0))]
    [1, 2, 3]
    """
    return tuple(rates_in(of.cluster(m)) for m in (1, 2, 2 * GROUP if of.thin > 1 else 2))


def priced(moves, W, W_dcn, hop, hop_dcn) -> tuple:
    """ROW of an algorithm: seconds of its bytes and hops inside and across, each tier's bytes behind all hops; and the longer one.

    >>> from helpers.costs.rooflines.roofline import Move
    >>> priced((Move("ici", 8.0, 3), Move("dcn", 2.0, 1)), 4.0, 1.0, 1.0, 2.0)
    (2.0, 3.0, 7.0, 2.0, 2.0, 7.0, 7.0)
    """
    of_bytes = alpha_beta([replace(x, hops=0) for x in moves], W, W_dcn).parts
    of_hops = alpha_beta(moves, W, W_dcn, hop, hop_dcn).hops
    waits = of_hops["ici"] + of_hops["dcn"]
    tiers = [part for link in ("ici", "dcn") for part in (of_bytes[link], of_hops[link], waits + of_bytes[link])]
    return (*tiers, maximum(tiers[2], tiers[5]))


def switched(V, g, m, W, W_dcn, W_up, hop, hop_dcn) -> tuple:
    """`priced` for every algorithm of every kind, in sequence, in m domains of g GPUs."""
    card = card_across_groups(W_dcn, W_up, m, where(m > GROUP, m / GROUP, 1))
    rows = (
        priced(SENT_BY[a](kind, V, g, m), W, card if kind == "AllToAll" else W_dcn, hop, hop_dcn)
        for kind in KINDS
        for a in ALGORITHMS[kind]
    )
    return tuple(x for row in rows for x in row)


def torus(s: Slice, V, m, W, W_dcn, hop, hop_dcn) -> tuple:
    """The same on m slices."""
    return tuple(x for kind in KINDS for x in priced(moves_on_torus(s, m, kind, V), W, W_dcn, hop, hop_dcn))


def cut(V, inside, W, n) -> tuple:
    """Seconds that a side of a cut needs at least, for every kind: `inside` of n chips, into which W flows."""
    return tuple(V * (needs(kind, inside, n) / W) for kind in KINDS)


def load(P, A, M, X, D, k, b, n) -> tuple:
    """V of every entry of SENT on n chips of b tokens each, then the FLOPs of a chip that stand beside it, in bf16.

    P  parameters in the matrices of a layer, A those that a token meets
    M  those of its MLP, or of the experts that a token meets; X of its k routed experts alone
    """
    return 2 * P, 2 * P, 2 * P, 2 * b * n * D, 2 * b * n * k * D, 2 * A * b, 4 * A * b, 4 * A * b, 2 * M * b, X * b


def hiding(b, math, in_bytes, in_hops, out_bytes, out_hops, grows):
    """Tokens on each chip from which an algorithm hides behind arithmetic that takes `math` seconds with b tokens.

    grows  1 if its bytes grow with the tokens, as the arithmetic does, and only hops stay: then infinite, if bytes alone take longer

    >>> hiding(2048, 4.0, 1.0, 1.0, 2.0, 1.0, 0), hiding(2048, 4.0, 1.0, 1.0, 2.0, 1.0, 1), hiding(2048, 4.0, 5.0, 1.0, 2.0, 1.0, 1)
    (2048.0, 2048.0, inf)
    """
    moved, hops = maximum(in_bytes, out_bytes), in_hops + out_hops
    growing = where(math > moved, hops / where(math > moved, math - moved, 1.0), inf)
    return b * where(grows > 0, growing, (moved + hops) / math)


@dataclass(frozen=True)
class Sent:
    """A collective and what it sends.

    kind    one of `tiered_collectives.ALGORITHMS`
    what    it sends
    work    arithmetic that could hide it
    grows   whether V is larger with more tokens
    """

    kind: str
    what: str
    work: str
    grows: bool = False

    @property
    def row(self) -> int:
        """Its number in KINDS."""
        return KINDS.index("AllGather" if self.kind == "ReduceScatter" else self.kind)


SENT = {
    "AllGather of a layer's weights (FSDP)": Sent("AllGather", "A layer's weights", "the layer's forward pass"),
    "ReduceScatter of a layer's gradients (FSDP)": Sent(
        "ReduceScatter", "A layer's gradients", "the layer's backward pass"
    ),
    "AllReduce of a layer's gradients (DP)": Sent("AllReduce", "A layer's gradients", "the layer's backward pass"),
    "AllReduce of activations (TP)": Sent("AllReduce", "Activations", "the MLP's forward pass", True),
    "AllToAll of tokens to experts (EP)": Sent("AllToAll", "Tokens", "half of the experts' forward pass", True),
}


def sizes(name: str) -> dict[str, int]:
    """SIZES of a layer of a model, of a mixture one with experts; and E, 0 where there are none.

    >>> sizes("llama-3-70b")
    {'P': 855638016, 'A': 855638016, 'M': 704643072, 'X': 0, 'D': 8192, 'k': 0, 'E': 0}
    """
    c = model(name)
    p, moe, mixed = parameters(c), c.moe, sum(n for kind, n in c.groups if kind.moe)
    attention = p.attention // c.L
    if not moe:
        mlp = p.mlp // c.L
        return {"P": attention + mlp, "A": attention + mlp, "M": mlp, "X": 0, "D": c.D, "k": 0, "E": 0}
    one, rest = p.experts // mixed // moe.E, (p.shared + p.router) // mixed
    M = moe.k * one + p.shared // mixed
    P, A = attention + moe.E * one + rest, attention + moe.k * one + rest
    return {"P": P, "A": A, "M": M, "X": moe.k * one, "D": c.D, "k": moe.k, "E": moe.E}


@dataclass(frozen=True)
class Found:
    """What the page shows of one setting.

    rows   ROW of each algorithm, `names` in the order of `tiered_collectives.algorithms`
    side   what the tightest cut goes around, `bound` seconds that it takes at least
    own    whether V is the reader's and not the model's
    have   FLOPs of the work beside it on each chip; `need` as many as would hide it
    tokens  on each chip, from which it hides; not a number where V is the reader's
    """

    V: float
    n: int
    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    side: str
    bound: float
    own: bool
    have: float
    need: float
    tokens: float

    @property
    def first(self) -> int:
        """Which algorithm is fastest; the first one in a tie."""
        lower = [row[-1] for row in self.rows]
        return lower.index(min(lower))

    @property
    def wins(self) -> bool:
        """Whether some algorithm takes longer than the first."""
        return len(self.rows) == 1 or any(row[-1] > self.rows[self.first][-1] for row in self.rows)


def loaded(name: str, machine: Machine, m: int, b: int) -> tuple:
    """`load` of a model."""
    some = sizes(name)
    return load(*(float(some[x]) for x in SIZES), float(b), float(m * machine.g))


def find(name: str, machine: Machine, m: int, sent: str, b: int, V: float | None) -> Found:
    """All numbers of one setting. `sent` is a name of SENT; V left out: the model's."""
    of, g, n = machine.chip, machine.g, m * machine.g
    one, place = SENT[sent], list(SENT).index(sent)
    each = loaded(name, machine, m, b)
    own, V = V is not None and V != each[place], each[place] if V is None else float(V)
    rates = (of.link_bandwidth, of.dcn_bandwidth)
    if of.axes:
        every, counts = torus(machine.slice, V, float(m), *rates, of.hop, HOP_DCN), [1] * len(KINDS)
    else:
        every = switched(V, float(g), float(m), *rates, machine.uplink, of.hop, HOP_DCN)
        counts = [len(ALGORITHMS[kind]) for kind in KINDS]
    begin, width = sum(counts[: one.row]), len(ROW)
    rows = tuple(tuple(every[width * k : width * (k + 1)]) for k in range(begin, begin + counts[one.row]))
    some = sides(machine)[0 if m == 1 else 1 if m <= GROUP else 2]
    cuts = [(cut(V, float(a), W, float(n))[one.row], -a, side) for side, a, W in some]
    bound, _, side = max(cuts, key=lambda x: x[:2])
    best, have = min(rows, key=lambda row: row[-1]), each[len(SENT) + place]
    names = algorithms(machine.cluster(1), one.kind)
    parts = (best[k] for k in (0, 1, 3, 4))
    tokens = nan if own else hiding(float(b), have / of.rate(), *parts, float(one.grows))
    return Found(V, n, names, rows, side, bound, own, have, best[-1] * of.rate(), tokens)


def functions(s: Slice) -> list[str]:
    """The JavaScript of `switched`, of `torus` on slices of this shape, of `cut`, of `load` and of `hiding`."""
    some = ((switched, 8), (partial(torus, s), 6), (cut, 4), (load, len(SIZES) + 2), (hiding, 7))
    return [javascript(f, *[8.0] * n) for f, n in some]
