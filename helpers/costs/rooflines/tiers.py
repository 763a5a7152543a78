"""The tiers of a machine of many chips: who is joined at which height, and how many bytes/s each chip has there (chapter 1).

Layouts, estimates and clusters all read the same tiers. A torus has one tier for each of its axes. Chips behind a switch have
two: their NVLink domain, and the network between domains. W is bytes/s of one chip, in ONE direction.
"""

from dataclasses import dataclass

from helpers.arguments import entries

from .hardware import Slice


@dataclass(frozen=True)
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


def tiers(s: Slice, domains=None) -> tuple[Tier, ...]:
    """The axes of a torus; behind a switch the domain. Then the network, if it is said how many such slices or domains it joins.

    >>> from .chips import chip
    >>> [(t.link, t.n, t.W) for t in tiers(Slice(chip("H100"), (8,)), domains=4)]
    [('ici', 8, 450000000000.0), ('dcn', 4, 50000000000.0)]
    >>> [(t.n, t.wraps) for t in tiers(Slice(chip("v5p"), (4, 4, 8)))]
    [(4, True), (4, True), (8, True)]
    """
    c = s.chip
    if c.axes:
        inside = tuple(Tier("ici", n, c.link_bandwidth, wraps) for n, wraps in zip(s.shape, s.wraps))
    else:
        inside = (Tier("ici", s.chips, c.link_bandwidth),)
    return inside if domains is None else (*inside, Tier("dcn", domains, c.dcn_bandwidth))


entries(__name__)
