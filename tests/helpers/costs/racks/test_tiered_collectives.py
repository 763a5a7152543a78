"""Bytes and hops by tier against programs that send every message, one by one."""

import random
from collections import Counter, defaultdict
from itertools import combinations, product

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


@walks([2, 8, 72])
def test_bus_factors_are_what_a_chip_sends_of_its_size(n):
    for kind, rounds in (("AllGather", 1), ("ReduceScatter", 1), ("AllReduce", 2)):
        sent = Sent()
        around(sent, [(0, i) for i in range(n)], n, 1 / n, rounds)
        assert tiered.bus_factor(kind, n) == pytest.approx(sent.most("ici"))
    sent = Sent()
    for other in range(n):  # nccl-tests: the size of an AllToAll is what one chip has, a block for each
        sent.send((0, 0), (0, other), 1 / n)
    assert tiered.bus_factor("AllToAll", n) == pytest.approx(sent.most("ici"))


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


def trees(m):
    """Parents of a binary tree in which odd places are inside, and of the same with every place moved by one (Sanders 2009)."""

    def parent(i):
        bit = i & -i if i else 1 << m.bit_length()
        if i == 0:
            return None
        up = (i ^ bit) | (bit << 1)
        return up if up < m else i ^ bit

    first = {i: parent(i) for i in range(m)}
    if m % 2:
        second = {(i + 1) % m: None if p is None else (p + 1) % m for i, p in first.items()}
    else:
        second = {m - 1 - i: None if p is None else m - 1 - p for i, p in first.items()}
    return first, second


@walks([2, 3, 4, 5, 8, 16, 31, 32])
def test_two_trees(m):
    V, g, sent = 64.0, 8, Counter()
    deepest = 0
    for tree in trees(m):
        assert sum(p is None for p in tree.values()) == 1
        for i, p in tree.items():
            if p is not None:
                sent[i] += V / g / 2  # up
                sent[p] += V / g / 2  # down
            depth, at = 0, i
            while tree[at] is not None:
                depth, at = depth + 1, tree[at]
            deepest = max(deepest, depth)
    move = tiered.double_tree("AllReduce", V, g, m)[1]
    assert max(sent.values()) == pytest.approx(move.bytes)
    assert 2 * deepest in (move.hops, move.hops + 2, move.hops - 2)


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


@walks([*SIZES, (4, 1)])
def test_gathers_by_the_switch(g, m):
    """Shards go round on each rail, and then each chip sends what its rail has once, and the switch hands it to all."""
    V, sent = 720.0, Sent()
    for i in range(g):
        around(sent, [(d, i) for d in range(m)], m, V / g / m)
    for d in range(m):
        for i in range(g):
            sent.send((d, i), (d, "switch"), V / g)
            for to in range(g):
                sent.send((d, "switch"), (d, to), V / g)
    for kind in ("AllGather", "ReduceScatter"):
        inside, across = tiered.in_network(kind, V, g, m)
        assert inside.bytes == pytest.approx(max(n for (_, a), n in sent.into.items() if a[1] != "switch"))
        assert across.bytes == pytest.approx(sent.most("dcn")) and (inside.hops, across.hops) == (1, m - 1)


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


@walks([(1, 4), (2, 3), (3, 4), (4, 2)])
def test_domains_of_experts_drawn_again_and_again(k, m):
    mean = sum(len(set(drawn)) for drawn in product(range(m), repeat=k)) / m**k
    assert tiered.domains_reached(k, m) == pytest.approx(mean)


def test_without_latency_bytes_alone_take_time():
    moves = Move("ici", 60.0, 7), Move("dcn", 12.0, 5), Move("ici", 40.0, 3)
    assert tiered.alpha_beta(moves, 10.0, 2.0).parts == {"ici": 10.0, "dcn": 6.0}
    assert tiered.alpha_beta(moves, 10.0, 2.0, 0.5, 3.0).parts == {"ici": 10.0 + 10 * 0.5, "dcn": 6.0 + 5 * 3.0}


@walks([(1.6e11, 8e9), (1e11, 7e9), (1.0, 3.0)])
def test_the_fewest_sms_that_copy_as_much(W, each):
    assert tiered.sms_for(W, each) == next(s for s in range(1, 100) if s * each >= W)


def test_one_copy_for_a_domain():
    g, m, k, E, tokens, rng = 4, 4, 4, 32, 20000, random.Random(0)
    alone, once = Sent(), Sent()
    for _ in range(tokens):
        home = (0, rng.randrange(g))
        experts = [(e // (g * 2), e // 2 % g) for e in rng.sample(range(E), k)]
        for b in experts:
            alone.send(home, b, 1)
        for d in {d for d, _ in experts}:
            once.send(home, (d, home[1]), 1)
        for d, i in experts:
            once.send((d, home[1]), (d, i), 1)
    for sent, reached in ((alone, None), (once, tiered.domains_reached(k, m, E))):
        moves = tiered.dispatch(1.0, k, g, m, reached)
        out = Counter()
        for (tier, _), n in sent.out.items():
            out[tier] += n / tokens
        for x in moves:
            assert out[x.link] == pytest.approx(x.bytes, rel=0.03), x


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
        (lambda: tiered.bus_factor("Permute", 8), "AllReduce or AllToAll, not of 'Permute'"),
        (lambda: tiered.domains_reached(9, 4, E=8), "9 experts are different ones, and 4 domains have 8"),
        (lambda: tiered.domains_reached(8, 8, E=8, limit=4), "8 experts are different ones, and 4 domains have 4"),
        (lambda: tiered.domains_reached(2.5, 4, E=8), "k is a whole number of 0 or more, got 2.5"),
        (lambda: tiered.alpha_beta((Move("pcie", 1.0),), 1.0, 1.0), "over ici and dcn, not over 'pcie'"),
        (lambda: tiered.alpha_beta(3, 1.0, 1.0), "each of it a Move, not 3"),
        (lambda: tiered.overtakes((1e-5, 2.0), (2e-5, 2.0)), "the second never overtakes: a byte takes it 2 s"),
        (lambda: tiered.overtakes(3, (2e-5, 2.0)), "short is a tuple of a number and a number, not 3"),
        (lambda: tiered.dispatch(1.0, 8, 8, 8, "all"), "reached is a number or None, not 'all'"),
    )
