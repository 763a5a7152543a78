"""A traced function in stages, for a page that calls it for thousands of arguments of which most stay the same.

A line is computed as soon as its arguments are known: what depends on the first group only is computed once for all
that follow. Names of the later stages are given in the order of their use, so functions that differ in the first
stage only, as those of two models do, share the text of the others.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from .inlining import folded
from .jaxpr_to_javascript import Writer, constants, traced

_NAME = re.compile(r"(?<![\w.$])[a-z]+(?![\w$])")


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
        return f"return [{','.join(_NAME.sub(renamed, o) for o in outputs)}]"

    def written(assigned: Mapping[str, str]) -> str:
        lines = []
        for name, expression in assigned.items():
            right = _NAME.sub(renamed, expression)
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
