"""The drawn cases of a reference: arguments, and what is right for them.

Some of them are the submission's own; the edges of what is drawn are one for everybody, and so is what is right there.
"""

from collections.abc import Callable, Iterator
from operator import is_

from . import compare
from .class_values import identity, once
from .edge_cases import edges
from .likely_mistakes import Mistakes
from .random_inputs import Draw, inputs

OWN = 6
"""Cases of the submission alone: a table of what others were asked fails in one of them."""


class Reference:
    """A function that is right, and what it gives in the case that it was asked last."""

    def __init__(self, function: Callable, mistakes: Mistakes):
        self.function, self.mistakes = function, mistakes
        self.last: tuple[dict, object] = {}, None

    def __call__(self, named: dict):
        """What is right."""
        asked, expected = self.last
        if asked and all(map(is_, asked.values(), named.values())):
            return expected
        return self.function(**compare.copied(named))

    def side(self, **named) -> tuple:
        """Of the edges a case is on: all that its result says besides numbers, and what mistakes it finds."""
        self.last = {}, None
        self.last = named, self(named)
        return compare.sides(self.last[1]), self.mistakes.found(self.last[1], tuple(named.values()))


def drawn(
    function: Callable, draws: dict[str, Draw], name: str, statement: int, parts: bool, mistakes: Mistakes
) -> list[tuple[object, dict]]:
    """(what is right, arguments by name) of settings that are the submission's own, and of edges.

    name       what they are drawn by
    statement  which statement of an answer this is
    parts      parts of the answer have points of their own, and its settings are near the class's
    """
    reference = Reference(function, mistakes)
    basis = identity(function, draws, mistakes.rtol, mistakes.functions)
    of_class = lambda key, make: once((name, statement, key), basis, make)  # noqa: E731
    own = inputs(OWN, name, draws, parts=parts, alike=reference.side, once=of_class)
    cases = [(reference(named), named) for named in own]
    at_edges = of_class("edges", lambda: [(function(**compare.copied(named)), named) for named in edges(name, draws)])
    return cases + [(expected, compare.copied(named)) for expected, named in at_edges]


def with_edges(name: str, draws: dict[str, Draw], right: Callable | None = None) -> Iterator[dict | tuple]:
    """Settings of the draws for a check that makes cases of them itself: the submission's own, and the edges.

    right  a function of a setting; then each comes with what that gives, which a class's edges share
    """
    case = (lambda named: (named, right(**compare.copied(named)))) if right else lambda named: named
    yield from map(case, inputs(OWN, name, draws))
    for drawn in once((name, "with_edges"), identity(draws, right), lambda: [*map(case, edges(name, draws))]):
        yield compare.copied(drawn)
