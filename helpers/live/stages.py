"""A traced function in stages, for a page that calls it for thousands of arguments of which most stay the same.

A line is computed as soon as its arguments are known: what depends on the first group only is computed once for all
that follow. Names of the later stages are given in the order of their use, so functions that differ in the first
stage only, as those of two models do, share the text of the others; and `renamed` gives functions that are much alike the names of
the one before, so that they share their text once they are compressed. Only names change, no operation and no order.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain

from .jaxpr_to_javascript import NAME, Writer, constants, folded, traced


def staged(f: Callable, *groups: Sequence[float], brief: int) -> tuple[str, str]:
    """Two sources: the first group's numbers to an array, and that array to the function of the second group, and so on.

    f      takes the numbers of all groups and returns a tuple of numbers
    brief  how many of the results the last function returns, and computes, unless its last argument asks for all

    >>> early, late = staged(lambda a, b, x, y: ((a + b) * x, a * b * y), [1.0, 1.0], [1.0], [1.0], brief=1)
    >>> print(early, late, sep=chr(10))
    (a,b)=>{
    const e=a+b,
    h=a*b;
    return [e,h]}
    ([b,e])=>(a)=>{
    const c=b*a;
    return (d,all)=>{
    if(!all)return [c];
    const g=e*d;
    return [c,g]}}
    """
    writer, names, outs, _ = traced(f, [x for group in groups for x in group])
    own, begin = [], 0
    for group in groups:
        own.append(names[begin : begin + len(group)])
        begin += len(group)
    stage = {name: n for n, some in enumerate(own) for name in some}
    for name, (_, uses) in writer.lines.items():
        stage[name] = max((stage.get(u, 0) for u in uses), default=0)
    lines, soon = [{} for _ in (*groups, "all")], dict(writer.needed(outs[:brief]))
    for name, expression in writer.needed(outs):
        last = stage[name] == len(groups) - 1 and name not in soon
        lines[len(groups) if last else stage[name]][name] = expression
    asked, late = _later(own[1:], lines[1:], (outs[:brief], outs), {name for name, n in stage.items() if n == 0})
    return folded(f"({','.join(own[0])})=>{{\n{writer.body(asked)}return [{','.join(asked)}]}}"), folded(late)


def _later(arguments: Sequence, lines: Sequence[Mapping], outs: tuple, given: set[str]) -> tuple[list, str]:
    """What the later stages ask of the first one, and their text with new names."""
    fresh, new, asked = Writer(), {}, []

    def renamed(match: re.Match) -> str:
        name = match[0]
        if name in given and name not in new:
            asked.append(name)
            new[name] = fresh.name()
        return new.get(name, name)

    def result(outputs: Sequence[str]) -> str:
        return f"return [{','.join(NAME.sub(renamed, o) for o in outputs)}]"

    def written(assigned: Mapping[str, str]) -> str:
        lines = []
        for name, expression in assigned.items():
            right = NAME.sub(renamed, expression)
            new[name] = fresh.name()
            lines.append((new[name], right))
        return constants(lines)

    text = ""
    for n, (args, some) in enumerate(zip(arguments, lines)):
        new |= {name: fresh.name() for name in args}
        last = ",all" if n == len(arguments) - 1 else ""
        text += f"{'return ' if n else ''}({','.join(new[a] for a in args)}{last})=>{{\n{written(some)}"
    text += f"if(!all){result(outs[0])};\n{written(lines[-1])}{result(outs[1])}{'}' * len(arguments)}"
    return asked, f"([{','.join(new[n] for n in asked)}])=>{text}"


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
