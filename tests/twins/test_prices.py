"""What one collective costs: a floor, and the prices of a training step, of serving and of measured runs.

A group is a slice, or several domains, all of whose chips take part, and `V` bytes are the whole array; of an exchange of tokens
those that one chip sends, `COPIES` of each token.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import ROUTE, Server
from helpers.costs.inference.serving_operations import Batch, Deployment, operations
from helpers.costs.racks.measured_collectives import collective_seconds
from helpers.costs.racks.tiered_collectives import hierarchical
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.tiers import tiers
from helpers.costs.sharding import collectives
from helpers.costs.sharding.sharded_array import Axis
from helpers.costs.training.layout import Layout, wires
from helpers.costs.training.operation_seconds import Pace
from helpers.costs.transformers.public_models import model
from helpers.figures.training.layout_search.candidates import Place
from tests.tiers import repeats
from tests.twins.settings import FAMILIES, of_family, place

KINDS = ("AllReduce", "AllGather", "AllToAll")
DENSE, MIXTURE, COPIES = model("llama-3-70b"), model("deepseek-v3"), 8
LARGE = 2**26  # bytes from which bandwidth decides, and not latency, over which prices differ more
AGREE = 1.5  # prices that differ by less are one price with tables of rates
APART = {"TPU": 3.0, "GPU": 34.0}  # times that the dearest of a large collective is of the cheapest today, at most
BELOW = {"TPU": 0.18, "GPU": 0.64}  # of its floor that the cheapest is today, at least


@dataclass(frozen=True)
class Question:
    """One collective of the chips of a place."""

    kind: str
    V: float
    place: Place

    @property
    def chip(self) -> Chip:
        return self.place.slice.chip


def drawn(seed: int, low: int = 16) -> Question:
    """A collective of 2 to 512 chips, and of 2^low bytes to 4 GiB."""
    draw = random.Random(seed)
    group = place(draw, seed, least=2, most=512)
    return Question(draw.choice(KINDS), 2.0 ** draw.randint(low, 32), group)


def floor(q: Question) -> float:
    """Seconds that links take, without a hop's latency."""
    axis = wires(Layout(fsdp=q.place.chips, pods=q.place.pods), q.place.slice)["fsdp"]
    if q.kind == "AllToAll":
        return float(axis.swap(COPIES) * q.V * q.place.chips)
    return float(q.V * (axis.sum if q.kind == "AllReduce" else axis.gather))


def of_training(q: Question, name: str) -> float:
    """As tp's chips send it, or as those of dp and fsdp do: an AllReduce is two of the others."""
    pace, n = Pace(q.chip), q.place.chips
    if q.kind == "AllToAll":
        return float(pace.exchange(q.V, n, COPIES))
    once = pace.around(q.V, n) if name == "tp" else pace.ring(q.V, n, 1)
    return float(once * (2 if q.kind == "AllReduce" else 1))


def of_serving(q: Question) -> float:
    """An AllReduce of two bytes a number; half of it for an AllGather. Tokens go out and come back in ROUTE bytes a number."""
    n = q.place.chips
    if q.kind != "AllToAll":
        server = Server(DENSE, q.chip, Deployment(tp=n), ENGINES["vllm"])
        return float(server.around(q.V / 2, n)) / (1 if q.kind == "AllReduce" else 2)
    server = Server(MIXTURE, q.chip, Deployment(dp=n, ep=n), ENGINES["vllm"])
    layer = operations(MIXTURE, server.at, Batch(prefill=1.0), 1.0).layers[-1]
    return float(server.exchange(replace(layer, routed=q.V / ROUTE)))


PRICES: dict[str, Callable[[Question], float]] = {
    "tp of a step": lambda q: of_training(q, "tp"),
    "dp of a step": lambda q: of_training(q, "dp"),
    "serving": of_serving,
    "measured": lambda q: float(collective_seconds(q.kind, q.V, q.chip, q.place.chips, q.place.pods)),
}


def prices(q: Question) -> dict[str, float]:
    """All that price it. What is measured is measured of GPUs, and of exchanges in which every chip sends to each other one."""
    known = [
        name
        for name in PRICES
        if name != "measured" or not (q.chip.axes or (q.kind == "AllToAll" and q.place.pods > 1))
    ]
    return {name: PRICES[name](q) for name in known}


def spread(seed: int) -> float:
    """How many times the cheapest price of a large collective the dearest is."""
    each = prices(drawn(seed, low=26)).values()
    return max(each) / min(each)


def least(seed: int) -> float:
    """The cheapest price of a collective, of its floor."""
    q = drawn(seed)
    return min(prices(q).values()) / floor(q)


def seeds(family: str) -> range:
    return of_family(family, repeats(100, 2000))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.xfail(
    strict=True, reason="3 times on TPUs, 34 times over domains of GPUs: seven prices until they are one"
)
def test_prices_of_one_collective_agree(family):
    assert max(map(spread, seeds(family))) < AGREE


@pytest.mark.parametrize("family", FAMILIES)
def test_prices_are_no_further_apart_than_they_were(family):
    assert max(map(spread, seeds(family))) < APART[family]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.xfail(
    strict=True,
    reason="prices know no bisection of a torus and give a pair two links; over domains the floor adds tiers that overlap",
)
def test_no_price_is_below_the_floor(family):
    assert min(map(least, seeds(family))) > 1 - 1e-9


@pytest.mark.parametrize("family", FAMILIES)
def test_no_price_is_further_below_the_floor_than_it_was(family):
    assert min(map(least, seeds(family))) > BELOW[family]


def test_the_floor_on_a_torus_is_that_of_the_collectives_of_chapter_2():
    for seed in of_family("TPU", repeats(100, 1000)):
        q = drawn(seed)
        axes = tuple(Axis(n, wraps) for n, wraps in zip(q.place.slice.shape, q.place.slice.wraps))
        if q.kind == "AllToAll":
            wanted = collectives.all_to_all(q.V * q.place.chips, axes)
        else:
            wanted = {"AllReduce": collectives.all_reduce, "AllGather": collectives.all_gather}[q.kind](q.V, axes)
        assert floor(q) == pytest.approx(wanted.bytes / q.chip.link_bandwidth, rel=1e-9), q


def test_the_floor_over_domains_is_that_of_the_hierarchical_collectives_of_chapter_7():
    """One tier after the other: inside, across, inside."""
    for seed in of_family("GPU", repeats(100, 1000)):
        q = drawn(seed)
        if q.kind == "AllToAll":
            continue
        inside, across = tiers(q.place.slice, q.place.pods)
        moves = hierarchical(q.kind, q.V, q.place.slice.chips, q.place.pods)
        wanted = sum(m.bytes / (inside.W if m.link == "ici" else across.W) for m in moves)
        assert floor(q) == pytest.approx(wanted, rel=1e-9), q


def test_the_prices_are_finite_and_of_several_kinds():
    found = [prices(drawn(seed)) for seed in range(60)]
    assert all(0 < x < math.inf for each in found for x in each.values())
    assert {len(each) for each in found} == {3, 4}
