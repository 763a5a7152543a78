"""The edges of what is drawn: settings that are the same for everybody, so that no seed decides what a wrong answer meets.

A draw may be made of others, however deep, so nobody lists what it can give. It is asked often, with numbers that lean towards
their ends, and what comes is looked at: how long, which of a few, how large, whether two are equal. Few of these settings have
each such trait several times, beside others. `drawn` gives these cases, and some of the submission's own, with what is right.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral, Number
from operator import is_

from . import compare
from .class_values import identity, once
from .likely_mistakes import Mistakes
from .random_inputs import Draw, inputs

# Styles of a draw: the share of its numbers at their low end, and at their high one.
LOW, HIGH, PLAIN = (1, 0), (0, 1), (0, 0)
STYLES = LOW, HIGH, (0.4, 0), (0, 0.4), (0.4, 0.4), PLAIN, PLAIN
CONSTANT = 30  # numbers of a draw that lean; after that any, for a draw may try again until it likes what it has
MOST = 400  # settings to choose from
SETTLED = 40  # settings without a new trait, until no more are drawn
FEW = 8  # numbers up to here are told apart, larger ones by their order of magnitude


class Leaning(random.Random):
    """Numbers of which a share is the lowest that may be drawn, and a share the highest."""

    def __init__(self, style: tuple[float, float], name: str):
        super().__init__(name)
        self.style, self.left = style, CONSTANT

    def _end(self) -> int | None:
        """0 for the low end, 1 for the high one, None for any number."""
        self.left -= 1
        at, (low, high) = super().random(), self.style if self.left >= 0 else (0, 0)
        return 0 if at < low else 1 if at >= 1 - high else None

    def random(self) -> float:
        # Not quite the end: of round numbers it would be chance on which side of a threshold rounding leaves them.
        end, beside = self._end(), super().random()
        return beside if end is None else (1000 * end + (1 - 2 * end) * beside) / 1000

    def _randbelow(self, n: int) -> int:  # what `random.Random` chooses by, and lets subclasses define
        end = self._end()
        return int(super().random() * n) if end is None else end * (n - 1)


def traits(name: object, value: object) -> Iterator[tuple]:
    """What a value is like, as far as a mistake may depend on it.

    >>> sorted(t[-2:] for t in traits("cuts", ("XY", "")))
    [('equal', False), ('length', 0), ('length', 2), ('length', 2), ('text', ''), ('text', 'XY')]
    """
    if isinstance(value, Mapping):
        yield name, "keys", tuple(value)
        for k, x in value.items():
            yield from traits((name, k), x)
    elif isinstance(value, tuple | list):
        yield name, "length", len(value)
        yield name, "equal", len(set(map(repr, value))) < len(value)
        for i, x in enumerate(value[:4]):
            yield from traits((name, i) if len(value) > 1 else (name, "alone"), x)
    elif getattr(value, "shape", ()):
        yield name, "shape", len(value.shape), min(value.shape)
    elif isinstance(value, str):
        yield name, "length", len(value)
        yield "text", value[:3]
    elif value is None or isinstance(value, bool):
        yield name, "is", value
    elif isinstance(value, Number) and (abs(value) == math.inf or abs(value) <= FEW and value * 8 % 1 == 0):
        yield name, "is", float(value)
    elif isinstance(value, Integral):
        yield name, "magnitude", int(value).bit_length() // 3, value % 2


def lowest(name: str, draws: dict[str, Draw]) -> dict:
    """All draws at their lowest: the first of the edges."""
    return {k: draw(Leaning(LOW, f"{name}/{k}/0")) for k, draw in draws.items()}


def edges(name: str, draws: dict[str, Draw]) -> Iterator[dict]:
    """All draws at their lowest, all at their highest, each at either beside one of the others, and settings that have every trait
    which these lack.

    >>> draws = {"n": lambda r: r.randint(2, 64), "axes": lambda r: r.choice(["X", "XY", "XYZ"])}
    >>> tried = list(edges("0.1", draws))
    >>> tried[:2], sorted({case["axes"] for case in tried})
    ([{'n': 2, 'axes': 'X'}, {'n': 64, 'axes': 'XYZ'}], ['X', 'XY', 'XYZ'])
    """
    ends = 2 * len(draws) + 2 if len(draws) > 1 else 2

    def setting(i: int) -> tuple[dict, set]:
        """The i-th, and how the numbers of its draws lean: behind the ends, of every other one they do not."""
        r = random.Random(f"{name}/{i}")
        styles = {k: STYLES[i] if i < 2 else PLAIN if i < ends or i % 2 else r.choice(STYLES) for k in draws}
        if 2 <= i < ends:
            styles[[*draws][i // 2 - 1]] = STYLES[i % 2]
        beside = 0 if i < ends else i
        return {k: draw(Leaning(styles[k], f"{name}/{k}/{beside}")) for k, draw in draws.items()}, {*styles.items()}

    pool: dict[int, set] = {}
    known, drawn, quiet = set(), set(), 0
    for i in range(MOST):
        given, styles = setting(i)
        numbers = [x for x in given.values() if isinstance(x, Number)]
        found = styles | {*traits("", given), ("equal", len(set(numbers)) < len(numbers))}
        # Ends may hide a mistake: on the last place of a mesh all digits are the highest, whatever their order.
        found = {(trait, i < ends or i % 2 == 0) for trait in found}
        quiet = quiet + 1 if found <= known else 0
        if quiet > SETTLED:
            break
        known |= found
        if repr(given) not in drawn:  # what is drawn together leans together
            pool[i] = found
        drawn.add(repr(given))
    lacking = set().union(*pool.values())
    for i in [i for i in pool if i < ends]:
        lacking -= pool.pop(i)
        yield setting(i)[0]  # drawn again: a reference may read what the draws of its case have left
    while lacking:
        best = max(pool, key=lambda i: len(pool[i] & lacking))  # of equals the first
        lacking -= pool.pop(best)
        yield setting(best)[0]


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
    own = inputs(OWN, name, draws, parts=parts, is_alike=reference.side, class_cache=of_class)
    cases = [(reference(named), named) for named in own]
    at_edges = of_class("edges", lambda: [(function(**compare.copied(named)), named) for named in edges(name, draws)])
    return cases + [(expected, compare.copied(named)) for expected, named in at_edges]


def with_edges(name: str, draws: dict[str, Draw], reference: Callable | None = None) -> Iterator[dict | tuple]:
    """Settings of the draws for a check that makes cases of them itself: the submission's own, and the edges.

    reference  a function of a setting; then each comes with what that gives, which a class's edges share
    """
    case = (lambda named: (named, reference(**compare.copied(named)))) if reference else lambda named: named
    yield from map(case, inputs(OWN, name, draws))
    for drawn in once((name, "with_edges"), identity(draws, reference), lambda: [*map(case, edges(name, draws))]):
        yield compare.copied(drawn)
