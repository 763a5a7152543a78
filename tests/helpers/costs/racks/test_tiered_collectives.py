"""Bytes and hops by tier against programs that send every message, one by one."""

import random
from collections import Counter, defaultdict
from itertools import combinations

import pytest

from helpers.costs.racks import tiered_collectives as tiered
from helpers.costs.rooflines.roofline import Move
from helpers.costs.sharding.collective_steps import hierarchical_steps
from tests.helpers.costs.tables import refused, walks

SIZES = [(2, 2), (4, 2), (2, 4), (3, 3), (8, 2), (8, 3)]


class Sent:
    """Bytes out of every chip (domain, index) and into it, by tier."""

    def __init__(self):
        self.out, self.into = Counter(), Counter()

    def send(self, a, b, size):
        tier = "ici" if a[0] == b[0] else "dcn"
        if a != b:
            self.out[tier, a] += size
            self.into[tier, b] += size

    def most(self, tier):
        return max((n for x in (self.out, self.into) for (t, _), n in x.items() if t == tier), default=0)

    def is_as(self, moves):
        for x in moves:
            assert self.most(x.link) == pytest.approx(x.bytes), x


def around(sent, ring, pieces, size, rounds=1):
    """A ring of chips: every piece makes len(ring) - 1 hops in each round."""
    for piece in range(pieces):
        for hop in range(rounds * (len(ring) - 1)):
            sent.send(ring[(piece + hop) % len(ring)], ring[(piece + hop + 1) % len(ring)], size)


@walks(["AllGather", "ReduceScatter", "AllReduce"], [*SIZES, (4, 1)])
def test_a_flat_ring_on_every_rail(kind, g, m):
    sent, V, n = Sent(), 720.0, g * m
    for rail in range(g):  # ring `rail` leaves every domain at chip `rail`, and enters it at the next one
        ring = [(d, (rail + 1 + i) % g) for d in range(m) for i in range(g)]
        around(sent, ring, n, V / g / n, rounds=2 if kind == "AllReduce" else 1)
    moves = tiered.flat_ring(kind, V, g, m)
    sent.is_as(moves)
    assert sum(x.hops for x in moves) == (n - 1) * (2 if kind == "AllReduce" else 1)


@walks([*SIZES, (4, 1), (1, 4)])
def test_hierarchical_adds_the_right_numbers_with_the_bytes_it_says(g, m):
    """The steps, run on integers: every chip ends with the sums of all, and the messages are those of the formula."""
    rng, sent, hops = random.Random(g * m), Sent(), Counter()
    pieces = g * m  # of one byte each
    have = {(d, i): [rng.randrange(100) for _ in range(pieces)] for d in range(m) for i in range(g)}
    right = [sum(x[p] for x in have.values()) for p in range(pieces)]
    for step in hierarchical_steps(g, m):
        hops[step.link] += 1
        packets = [(x, [have[x.source][p] for p in x.pieces]) for x in step.messages]
        for x, numbers in packets:
            assert (x.source[0] == x.target[0]) is (step.link == "ici")
            sent.send(x.source, x.target, len(numbers))
            for p, number in zip(x.pieces, numbers):
                have[x.target][p] = number + have[x.target][p] * x.adds
    assert all(x == right for x in have.values())
    moves = tiered.hierarchical("AllReduce", float(pieces), g, m)
    sent.is_as(moves)
    assert all(hops[x.link] == x.hops for x in moves)


@walks([2, 4, 5, 8])
def test_the_switch_adds(g):
    V, sent = 40.0, Sent()
    switch = (0, "switch")
    for owner in range(g):
        for i in range(g):  # read: the switch pulls the owner's part from everyone and hands over one sum
            sent.send((0, i), switch, V / g)
        sent.send(switch, (0, owner), V / g)
        sent.send((0, owner), switch, V / g)  # store: once, and to everyone
        for i in range(g):
            sent.send(switch, (0, i), V / g)
    chips = max(n for x in (sent.out, sent.into) for (_, a), n in x.items() if a != switch)
    assert chips == pytest.approx(tiered.in_network("AllReduce", V, g)[0].bytes)
    W, algbw = 309e9, V / (chips / 309e9)
    assert tiered.bus_factor("AllReduce", g) * algbw == pytest.approx(tiered.nvls_bus_bandwidth(W, g))


@walks(SIZES, [False, True])
def test_blocks_of_an_all_to_all(g, m, aligned):
    sent, V, n = Sent(), 3600.0, g * m
    chips, messages = [(d, i) for d in range(m) for i in range(g)], defaultdict(set)
    for a in chips:
        for b in chips:
            over = (a[0], b[1]) if aligned and a[0] != b[0] else a
            sent.send(a, over, V / n**2)
            sent.send(over, b, V / n**2)
            if a[0] != b[0]:
                messages[over].add(b)
    moves = tiered.swap_tiers(V, g, m, aligned)
    sent.is_as(moves)
    assert max(map(len, messages.values())) == tiered.card_messages(g, m, aligned)
    assert [x.hops for x in moves] == [g > 1, m > 1]


@walks([(8, 4, 3, None), (8, 2, 4, None), (12, 4, 2, 2), (12, 3, 4, 2), (6, 6, 3, 3)])
def test_domains_that_a_token_reaches(E, m, k, limit):
    each = E // m
    choices = [
        c
        for some in combinations(range(m), limit or m)
        for c in combinations([e for e in range(E) if e // each in some], k)
    ]
    mean = sum(len({e // each for e in c}) for c in choices) / len(choices)
    assert tiered.domains_reached(k, m, E, limit) == pytest.approx(mean)


@walks([(1e-3, 2e-2), (1e-4, 5e-2), (2e-3, 1e-3)])
def test_sms_that_copy(math, comms):
    """Every number of SMs, tried."""
    sms = 132
    tried = {s: max(tiered.without_sms(math, s, sms), comms / s) for s in range(1, sms)}
    best = tiered.sms_to_take(math, comms, sms)
    assert abs(min(tried, key=tried.get) - best) <= 1
    assert min(tried.values()) >= math + comms / sms - 1e-15
    assert min(tried.values()) == pytest.approx(math + comms / sms, rel=0.12)
    refused((lambda: tiered.without_sms(1.0, 132, 132), "none would be left"))


def test_errors_say_what_would_be_right():
    refused(
        (lambda: tiered.bus_factor("Permute", 8), "bus_factor: kind is one of .*, 'AllToAll', not 'Permute'"),
        (lambda: tiered.domains_reached(9, 4, E=8), "9 experts are different ones, and 4 domains have 8"),
        (lambda: tiered.domains_reached(8, 8, E=8, limit=4), "8 experts are different ones, and 4 domains have 4"),
        (lambda: tiered.domains_reached(2.5, 4, E=8), "k is a whole number of 0 or more, got 2.5"),
        (lambda: tiered.alpha_beta((Move("pcie", 1.0),), 1.0, 1.0), "over ici and dcn, not over 'pcie'"),
        (lambda: tiered.alpha_beta(3, 1.0, 1.0), "each of it a Move, not 3"),
        (lambda: tiered.overtakes((1e-5, 2.0), (2e-5, 2.0)), "the second never overtakes: a byte takes it 2 s"),
        (lambda: tiered.overtakes(3, (2e-5, 2.0)), "low_alpha is a tuple of a number and a number, not 3"),
        (lambda: tiered.dispatch(1.0, 8, 8, 8, "all"), "reached is a number or None, not 'all'"),
    )
