"""The same names in functions of JavaScript that are much alike, so that they share their text once they are compressed.

Two models' prices differ in a few lines, but `jaxpr_to_javascript` gives names in order, so that one line more changes all names after it.
Here a function takes the names of the one before that it resembles most: only names change, no operation and no order.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain

from .inlining import NAME
from .jaxpr_to_javascript import Writer

# Names that JavaScript or `jaxpr_to_javascript` gives.
KEPT = {"const", "return", "if", "all", "length", "true", "false", *Writer.RESERVED}
_END = re.compile(r"(?<=[,;{])\n")


def renamed(sources: Sequence[str]) -> list[str]:
    r"""The same functions with other names inside; ValueError for one that returns an object, since its keys are no names.

    >>> renamed(["(a,b)=>{\nconst d=a*b;\nreturn [d,d]}", "(a,b)=>{\nconst h=a+a,\nd=h*b;\nreturn [d,d]}"])[1]
    '(b,c)=>{\nconst d=b+b,\na=d*c;\nreturn [a,a]}'
    """
    done: list[tuple[list[str], list[str]]] = []  # of each function its lines, and these without names
    for source in sources:
        if "return {" in source:
            raise ValueError("renamed is for functions that return a number or a row, not an object: return a tuple")
        lines = _END.split(source)
        shapes = [_put(line, dict.fromkeys(_found(line), "_")) for line in lines]
        new = _names(lines, shapes, done)
        done.append(([_put(line, new) for line in lines], shapes))
    return ["\n".join(lines) for lines, _ in done]


def _names(lines: list[str], shapes: list[str], done: Sequence) -> dict[str, str]:
    """New names for those in `lines`: as in the like lines of the function that has most of them, else short ones."""
    votes: Counter[tuple[str, str]] = Counter()
    if done:
        matches = [SequenceMatcher(None, other, shapes, autojunk=False) for _, other in done]
        best = max(range(len(done)), key=lambda n: matches[n].ratio())
        for a, b, count in matches[best].get_matching_blocks():
            pairs = zip(lines[b : b + count], done[best][0][a : a + count])
            votes.update(chain.from_iterable(zip(_found(ours), _found(theirs)) for ours, theirs in pairs))
    new: dict[str, str] = {}
    for (name, like), _ in votes.most_common():
        if name not in new and like not in new.values():
            new[name] = like
    free = _free(set(new.values()))
    for name, _ in Counter(_found("\n".join(lines))).most_common():  # the shortest for what is used most
        if name not in new:
            new[name] = next(free)
    return new


def _put(text: str, new: Mapping[str, str]) -> str:
    return NAME.sub(lambda m: new.get(m[0], m[0]), text)


def _found(text: str) -> list[str]:
    return [name for name in NAME.findall(text) if name not in KEPT]


def _free(taken: set[str]) -> Iterator[str]:
    names = Writer()
    while True:
        if (name := names.name()) not in taken | KEPT:
            yield name
