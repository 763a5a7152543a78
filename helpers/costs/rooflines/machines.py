"""Machines that one can have: a slice of a TPU pod or several alike, a domain of GPUs or several on a network.

Everything that asks how many chips of which there are asks here: the planner in a shell, the menus of the live figures, and the
sentences that say how many chips would do.

Layouts, estimates and clusters all read the same tiers of a machine: who is joined at which height, and how many bytes/s each chip
has there. A torus has one tier for each of its axes. Chips behind a switch have two: their NVLink domain, and the network between
domains. W is bytes/s of one chip, in ONE direction.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import prod

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Chip, Slice

CUBE = 4  # chips along each side of what optical switches join to slices of v4p, v5p and v7 (Google Cloud, "TPU v5p", slices)

LARGEST = 8192  # chips that a search for enough of them tries, one after the other; a search over more takes seconds


@record
class Machine:
    """Chips of one kind that work together.

    slice  a slice of a TPU pod; of GPUs the domain that NVLink or its like joins
    pods   how many of them
    """

    slice: Slice
    pods: int = 1

    @property
    def chips(self) -> int:
        """All of them."""
        return self.slice.chips * self.pods

    def __str__(self) -> str:
        """What these chips are.

        >>> [str(next(ways(chip(of), n))) for of, n in (("v5e", 16), ("v5p", 8192), ("H100", 32), ("H100", 4))]
        ['4x4', '2 slices of 16x16x16', '4 domains of 8', 'one domain']
        """
        if self.slice.chip.axes:
            shape = "x".join(map(str, self.slice.shape))
            return f"{self.pods} slices of {shape}" if self.pods > 1 else shape
        return f"{self.pods} domains of {self.slice.chips}" if self.pods > 1 else "one domain"


@formula
def machines(chip: Chip, max_chips: Count = LARGEST) -> Iterator[Machine]:
    """1, 2, 4, … chips: of TPUs up to the largest slice, of GPUs up to so many chips in domains.

    >>> [m.slice.shape for m in machines(chip("v5e"))]
    [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8), (16, 8), (16, 16)]
    >>> [(m.slice.chips, m.pods) for m in machines(chip("GB200"), 256)][-3:]
    [(64, 1), (64, 2), (64, 4)]
    """
    for power in range(max_chips.bit_length()):
        machine = next(ways(chip, 2**power), None)
        if machine is None or (chip.axes and machine.pods > 1):
            return
        yield machine


@formula
def ways(chip: Chip, n: Count) -> Iterator[Machine]:
    """Ways to have n chips, as one slice or as several alike, the largest first; none if nobody has so many.

    >>> [(m.slice.shape, m.pods) for m in (next(ways(chip("v5p"), 6144)), *ways(chip("GB200"), 576), *ways(chip("v5e"), 9))]
    [((16, 16, 24), 1), ((72,), 8), ((64,), 9), ((48,), 12), ((36,), 16)]
    """
    if not chip.axes:
        domain = chip.pod[0]
        trays = chip.chips_per_host if domain % chip.chips_per_host == 0 else domain  # a rack may be used in part
        sizes = range(domain, domain // 2 - 1, -trays) if n > domain else (n,)
        yield from (Machine(Slice(chip, (size,)), n // size) for size in sizes if n % size == 0)
        return
    for pods in divisors(n):
        # of several slices each has whole hosts
        if (pods == 1 or n // pods >= chip.chips_per_host) and (shape := _shape(chip, n // pods)):
            yield Machine(Slice(chip, shape), pods)


@formula
def divisors(n: Count) -> list[int]:
    """What divides n, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return low + [n // d for d in reversed(low) if d * d != n]


def _shape(chip: Chip, n: int) -> tuple[int, ...] | None:
    """The slice of n chips that vendors sell: one whose sides were doubled in turn, or of whole cubes the most compact."""
    shape = [1] * chip.axes
    while prod(shape) < n:
        grow = [i for i, longest in enumerate(chip.sides) if 2 * shape[i] <= longest]
        if not grow:
            break
        shape[min(grow, key=lambda i: (shape[i], i))] *= 2
    if prod(shape) == n:
        return tuple(shape)
    if chip.axes < 3:
        return None
    most = chip.sides[::-1]
    sides = [side for side in range(CUBE, most[-1] + 1, CUBE) if n % side == 0]
    fit = (
        x
        for x in combinations_with_replacement(sides, chip.axes)
        if prod(x) == n and all(a <= b for a, b in zip(x, most))
    )
    return min(fit, key=sum, default=None)


@record
class Tier:
    """`n` units of the tier below, joined; in the first tier a unit is a chip.

    link   "ici" between the chips of a slice or an NVLink domain, "dcn" over network cards, as in `roofline.Move`
    n      units
    W      bytes/s, one way, that each chip has into this tier: of one link of a torus axis, of all its NVLinks, of its card
    wraps  whether the units stand in a ring; behind a switch they do not
    """

    link: str
    n: int
    W: float
    wraps: bool = False


@formula
def tiers(slice: Slice, domains=None) -> tuple[Tier, ...]:
    """The axes of a torus; behind a switch the domain. Then the network, if it is said how many such slices or domains it joins.

    >>> [(t.link, t.n, t.W) for t in tiers(Slice(chip("H100"), (8,)), domains=4)]
    [('ici', 8, 450000000000.0), ('dcn', 4, 50000000000.0)]
    >>> [(t.n, t.wraps) for t in tiers(Slice(chip("v5p"), (4, 4, 8)))]
    [(4, True), (4, True), (8, True)]
    """
    c = slice.chip
    if c.axes:
        inside = tuple(Tier("ici", n, c.link_bandwidth, wraps) for n, wraps in zip(slice.shape, slice.wraps))
    else:
        inside = (Tier("ici", slice.chips, c.link_bandwidth),)
    return inside if domains is None else (*inside, Tier("dcn", domains, c.dcn_bandwidth))
