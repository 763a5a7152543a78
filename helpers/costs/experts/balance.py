"""Balance: the fullest device exactly, choices that a capacity drops, a loss, and copies of hot experts placed by load (chapter 8).

The fullest device of many tokens is `costs.inference.serving_operations.expected_imbalance`; here it is counted exactly.

Source: derived here; copies and packing as in EPLB (github.com/deepseek-ai/EPLB, README at d52c72d), whose printed example is the
test; the loss as in Switch Transformers (arXiv 2101.03961), equation 4.
"""

from collections.abc import Sequence
from math import comb, exp, lgamma, log

from helpers.arguments import Count, formula
from helpers.costs.transformers.shares_and_thresholds import capacity

# By chance.


@formula
def fullest_distribution(tokens: Count, E: Count, k: Count, devices: Count) -> dict[int, float]:
    """Probability of each number of rows on the fullest device, if every token goes to k different experts of E at random.

    Token by token: a state is how many rows the devices have, in order of size, for which device is which does not matter.
    For a few tokens and devices; their states are many else.

    >>> fullest_distribution(2, 4, 1, 2)
    {1: 0.5, 2: 0.5}
    >>> round(sum(rows * p for rows, p in fullest_distribution(8, 4, 1, 4).items()), 4)
    3.5381
    """
    if k > E or E % devices:
        raise ValueError(f"a token goes to k={k} of E={E} experts, of which each of {devices} devices has as many")
    choices = _choices(k, E // devices, devices)
    states = {(0,) * devices: 1.0}
    for _ in range(tokens):
        after: dict[tuple[int, ...], float] = {}
        for state, p in states.items():
            for rows, ways in choices:
                reached = tuple(sorted(a + b for a, b in zip(state, rows)))
                after[reached] = after.get(reached, 0.0) + p * ways / comb(E, k)
        states = after
    found: dict[int, float] = {}
    for state, p in states.items():
        found[state[-1]] = found.get(state[-1], 0.0) + p
    return dict(sorted(found.items()))


def _choices(k: int, experts_each: int, devices: int) -> list[tuple[tuple[int, ...], int]]:
    """(rows on each device, ways to choose them) of a token's k experts, of which each device has `experts_each`."""
    if devices == 1:
        return [((k,), comb(experts_each, k))] if k <= experts_each else []
    return [
        ((n, *others), comb(experts_each, n) * ways)
        for n in range(min(k, experts_each) + 1)
        for others, ways in _choices(k - n, experts_each, devices - 1)
    ]


@formula
def dropped_share(tokens: Count, E: Count, k: Count, factor: float = 1.0) -> float:
    """Share of choices that find their expert full, exactly, over the binomial distribution of what it is sent.

    tokens  that are counted together: those of one device, if each device has a capacity of its own
    factor  of `capacity`: an expert takes factor·tokens·k/E of them, rounded up

    >>> [f"{dropped_share(T, 64, 2):.1%}" for T in (64, 512, 4096)]
    ['26.6%', '9.8%', '3.5%']
    """
    if k > E:
        raise ValueError(f"a token goes to k={k} of E={E} experts: k is at most E")
    if k == E:
        return max(0.0, 1 - capacity(tokens, E, k, factor) / tokens)
    room, log_p, log_q = capacity(tokens, E, k, factor), log(k / E), log(1 - k / E)
    dropped = 0.0
    for n in range(room + 1, tokens + 1):
        ways = lgamma(tokens + 1) - lgamma(n + 1) - lgamma(tokens - n + 1)
        dropped += (n - room) * exp(ways + n * log_p + (tokens - n) * log_q)
    return dropped * E / (tokens * k)


# By a loss.


@formula
def balance_loss(shares: Sequence[float], probabilities: Sequence[float]) -> float:
    """E·Σ f·P: 1 if even, at most E.

    shares         f, the share of all choices that went to each expert
    probabilities  P, the mean probability that the router gave each expert; gradients pass through it alone

    >>> balance_loss([0.25] * 4, [0.25] * 4), round(balance_loss([0.7, 0.1, 0.1, 0.1], [0.7, 0.1, 0.1, 0.1]), 2)
    (1.0, 2.08)
    """
    if len(shares) != len(probabilities):
        raise ValueError(f"each expert has a share and a probability, not {len(shares)} and {len(probabilities)}")
    return len(shares) * sum(f * P for f, P in zip(shares, probabilities))


# By copies and by where they lie.


@formula
def copied(loads: Sequence[float], slots: Count) -> tuple[int, ...]:
    """The expert of each slot: all once, then one more copy of that with most load a copy; of equal ones the first.

    >>> copied([90, 30, 40], 5)
    (0, 1, 2, 0, 0)
    """
    if slots < len(loads):
        raise ValueError(f"{len(loads)} experts need as many slots, or more, not {slots}")
    copies = [1] * len(loads)
    chosen = list(range(len(loads)))
    for _ in range(slots - len(loads)):
        hottest = max(range(len(loads)), key=lambda e: loads[e] / copies[e])
        copies[hottest] += 1
        chosen.append(hottest)
    return tuple(chosen)


@formula
def packed(loads: Sequence[float], n_packs: Count) -> tuple[tuple[int, ...], ...]:
    """What lies in each pack, as many in all: heaviest first, each to the lightest pack with room; of equal ones the first.

    >>> packed([5, 1, 4, 2], 2)
    ((0, 1), (2, 3))
    """
    if len(loads) % n_packs:
        raise ValueError(f"{n_packs} packs of as many each cannot hold {len(loads)}: take a divisor")
    room, weights, lying = len(loads) // n_packs, [0.0] * n_packs, [[] for _ in range(n_packs)]
    for i in sorted(range(len(loads)), key=lambda i: -loads[i]):
        lightest = min((p for p in range(n_packs) if len(lying[p]) < room), key=lambda p: weights[p])
        lying[lightest].append(i)
        weights[lightest] += loads[i]
    return tuple(map(tuple, lying))


@formula
def expert_placement(
    loads: Sequence[float], slots: Count, groups: Count, hosts: Count, devices: Count
) -> tuple[int, ...]:
    """The expert of each slot, device by device: groups are packed on hosts; each host copies its own, and packs copies on its devices.

    groups  of neighbouring experts, that stay on one host each; with groups = hosts = 1 all experts are free

    >>> expert_placement([90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86], 16, groups=4, hosts=2, devices=8)   # EPLB's README
    (5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1)
    """
    E = len(loads)
    if E % groups or groups % hosts or devices % hosts or slots % devices:
        raise ValueError(
            f"{groups} groups divide {E} experts, {hosts} hosts the groups and the {devices} devices, and devices the {slots} slots"
        )
    size, placed = E // groups, []
    sums = [sum(loads[size * i : size * (i + 1)]) for i in range(groups)]
    for chosen in packed(sums, hosts):
        numbered = [e for i in chosen for e in range(size * i, size * (i + 1))]
        copies = copied([loads[e] for e in numbered], slots // hosts)
        each = [loads[numbered[e]] / copies.count(e) for e in copies]
        placed += [numbered[copies[i]] for device in packed(each, devices // hosts) for i in device]
    return tuple(placed)


@formula
def placed_imbalance(loads: Sequence[float], placement: Sequence[int], devices: Count) -> float:
    """Load of the fullest device over the mean, if the copies of an expert share its load evenly.

    >>> loads = [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86]
    >>> [round(placed_imbalance(loads, expert_placement(loads, 16, n, hosts, 8), 8), 3) for n, hosts in ((4, 2), (1, 1))]
    [1.208, 1.073]
    """
    if set(placement) != set(range(len(loads))) or len(placement) % devices:
        raise ValueError(f"each of {len(loads)} experts has a slot, and each of {devices} devices as many slots")
    size = len(placement) // devices
    each = [loads[e] / placement.count(e) for e in placement]
    return max(sum(each[size * i : size * (i + 1)]) for i in range(devices)) * devices / sum(loads)
