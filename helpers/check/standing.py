"""Where a learner stands, in one sentence: the same after a check, in Validate, from `make check` and on the start page."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """What is known of one exercise that a check judges.

    points  it is worth now
    won     of them, the most so far
    begun   whether an answer was tried
    """

    number: str
    points: float
    won: float = 0
    begun: bool = False

    @property
    def passed(self) -> bool:
        return self.won >= self.points


def following(standings: Sequence[Standing]) -> str:
    """The first exercise that has not passed; "" if all have."""
    return next((s.number for s in standings if not s.passed), "")


def total(standings: Sequence[Standing], what: str = "") -> str:
    """Points, exercises passed, and what is next.

    what  the exercises are of, if it is not one chapter

    >>> total([Standing("3.1", 3, 3), Standing("3.2", 2, 1, begun=True), Standing("3.3", 4)])
    'Chapter 3: 4 of 9 points, 1 of 3 exercises passed; next: 3.2.'
    """
    what = what or f"Chapter {standings[0].number.split('.')[0]}"
    won, points = sum(min(s.won, s.points) for s in standings), sum(s.points for s in standings)
    after = following(standings)
    said = (
        f"{what}: {won:g} of {points:g} points, {sum(s.passed for s in standings)} of {len(standings)} exercises passed"
    )
    return f"{said}; next: {after}." if after else f"{said}."
