"""What one collective costs by each table of rates: a floor, a training step, a serving engine and measured runs.

A group is a slice, or several domains, all of whose chips take part, and `V` bytes are the whole array; of an exchange of tokens
all shards together, `COPIES` of each token.
"""

import random
from dataclasses import dataclass, replace

import pytest

from helpers.costs.racks.measured_collectives import measured_seconds
from helpers.costs.racks.tiered_collectives import hierarchical
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import Machine, tiers
from helpers.costs.sharding import collectives
from helpers.costs.sharding.collective_prices import (
    IN_ENGINE,
    IN_ENGINE_TOKENS,
    IN_STEP,
    IN_STEP_TENSOR,
    IN_STEP_TOKENS,
    PUBLISHED,
    Group,
    collective_seconds,
)
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training.layout import Layout, groups
from tests.tiers import repeats
from tests.twins.settings import FAMILIES, of_family, place

KINDS = ("AllReduce", "AllGather", "AllToAll")
COPIES = 8
ARRAYS = {"tp of a step": IN_STEP_TENSOR, "dp of a step": IN_STEP, "serving": IN_ENGINE}
TOKENS = {"step": IN_STEP_TOKENS, "serving": IN_ENGINE_TOKENS}
APART = {
    "TPU": 1.3,
    "GPU": 2.7,
}  # times that the dearest of a large collective is of the cheapest, at most: shares, measured networks


@dataclass(frozen=True)
class Question:
    """One collective of the chips of a place."""

    kind: str
    V: float
    place: Machine

    @property
    def chip(self) -> Chip:
        return self.place.slice.chip

    @property
    def group(self) -> Group:
        return groups(Layout(fsdp=self.place.chips, pods=self.place.pods), self.place.slice)("fsdp")


def drawn(seed: int, low: int = 16) -> Question:
    """A collective of 2 to 512 chips, and of 2^low bytes to 4 GiB, or of as many on each chip if all have something for all."""
    draw = random.Random(seed)
    group = place(draw, seed, least=2, most=512)
    kind, V = draw.choice(KINDS), 2.0 ** draw.randint(low, 32)
    return Question(kind, V * (group.chips if kind == "AllToAll" else 1), group)


def prices(q: Question, latency: bool = True) -> dict[str, float]:
    """By all tables that have it. Measured are GPUs, and exchanges in which every chip sends to each other one."""
    out = {}
    for name, table in (TOKENS if q.kind == "AllToAll" else ARRAYS).items():
        rates = table.on(q.chip)
        if not latency:
            rates = replace(rates, launch=0.0, hop=0.0, network_hop=0.0)
        out[name] = float(collective_seconds(q.kind, q.V, q.group, rates, COPIES))
    if latency and q.chip.links and not (q.kind == "AllToAll" and q.place.pods > 1):
        size = q.V / q.place.chips if q.kind == "AllToAll" else q.V
        out["measured"] = float(measured_seconds(q.kind, size, q.chip, q.place.chips, q.place.pods))
    return out


def floor(q: Question, in_turn: bool = True) -> float:
    """Seconds that links take, without a hop's latency; of domains one tier after the other, or both at once."""
    rates = replace(PUBLISHED.on(q.chip, hop=0.0), in_turn=in_turn)
    return float(collective_seconds(q.kind, q.V, q.group, rates, COPIES))


def seeds(family: str) -> range:
    return of_family(family, repeats(100, 2000))


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_of_a_large_collective_differ_by_their_shares(family):
    each = [prices(drawn(seed, low=26), latency=False).values() for seed in seeds(family)]
    assert max(max(x) / min(x) for x in each) < APART[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_price_is_below_the_floor(family):
    for seed in seeds(family):
        q = drawn(seed)
        n, found = q.place.chips, prices(q)
        if q.kind == "AllReduce" and "measured" in found:  # NVLink's switches may have added: V in and V out, no ring
            found["measured"] *= 2 * (n - 1) / n
        assert min(found.values()) > floor(q, in_turn=False) * (1 - 1e-9), q


def test_the_floor_on_a_torus_is_that_of_the_collectives_of_chapter_2():
    for seed in of_family("TPU", repeats(100, 1000)):
        q = drawn(seed)
        axes = tuple(Axis(n, wraps) for n, wraps in zip(q.place.slice.shape, q.place.slice.wraps))
        formula = {"AllReduce": collectives.all_reduce, "AllGather": collectives.all_gather}
        wanted = formula.get(q.kind, collectives.all_to_all)(q.V, axes)
        assert floor(q) == pytest.approx(wanted.bytes / q.chip.link_bandwidth, rel=1e-9), q


def test_the_floor_over_domains_is_that_of_the_hierarchical_collectives_of_chapter_7():
    """One tier after the other: inside, across, inside."""
    for seed in of_family("GPU", repeats(100, 1000)):
        q = drawn(seed)
        if q.kind == "AllToAll":
            continue
        inside, across = tiers(q.place.slice, q.place.pods)
        moves = hierarchical(q.kind, q.V, q.place.slice.chips, q.place.pods)
        links = q.group.links  # without a switch those to each other alone
        wanted = sum(m.bytes / (inside.W * links if m.link == "ici" else across.W) for m in moves)
        assert floor(q) == pytest.approx(wanted, rel=1e-9), q
