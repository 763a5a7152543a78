"""Which submissions are more alike than is usual for their exercises: `make alike ASSIGNMENT=ch02_sharding`, after grading.

Answers are compared as parsed programs whose own names do not count, and what two have in common counts as it is rare: a text that
half of a class has, such as the course's own answer, says little of two who have it. Short answers are alike by nature, so what counts
of a pair is how few other pairs are as much alike in the same exercise, in bits, summed over exercises. That accuses nobody: who
learned together, or from the same page, is alike as well.
"""

import argparse
import ast
import html
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from pathlib import Path

import nbformat
from nbgrader.utils import is_solution

from autograder.engine.cell_names import parsed

from .grade import Class
from .grading.class_summary import number_of, plain, wrapped
from .grading.whole_files import replace
from .places import SourceError

FOLDER = "alike"
MOST = 20  # pairs that are listed
VERBATIM = 1.25  # times as alike where comments and names are the same too: before all that differ in one name
EXPECTED = 0.05  # pairs of a class that are listed by chance, if nobody saw another's work


@dataclass
class Pair:
    """Two students: how unusual their likeness is, in bits, and the exercises in which it is, the most unusual first."""

    students: tuple[str, str]
    bits: float = 0.0
    exercises: list[tuple[float, str]] = field(default_factory=list)


def grams(text: str) -> Counter:
    """Triples of neighbours in a parsed program; its own names are numbers, in the order in which they come.

    >>> grams("def f(a):\\n    'Docs.'\\n    b = 2 * a\\n    return b") == grams("def g(x):\\n    y = 2 * x  # mine\\n    return y")
    True
    >>> grams("x = 1") == grams("x = 2"), grams("not python at all")
    (False, Counter({('not', 'python', 'at'): 1, ('python', 'at', 'all'): 1}))
    """
    program = parsed(text)
    parts = text.split() if program is None else list(_parts(program))
    return Counter(zip(parts, parts[1:], parts[2:], strict=False))


def _parts(program: ast.Module) -> Iterator[tuple]:
    """The nodes of a program in the order of its text; a sum of a thousand terms is a thousand nodes deep."""
    own, waiting = {}, [program]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg):
            said = own.setdefault(getattr(node, "name", "") or getattr(node, "arg", ""), len(own))
        elif isinstance(node, ast.Name):
            said = own.setdefault(node.id, len(own)) if isinstance(node.ctx, ast.Store) else own.get(node.id, node.id)
        else:
            said = getattr(node, "attr", getattr(node, "value", "") if isinstance(node, ast.Constant) else "")
        yield type(node).__name__, type(said).__name__, said  # no repr: of a number of 5,000 digits Python makes none
        docs = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None
        waiting += [c for c in reversed([*ast.iter_child_nodes(node)]) if not (docs and c is node.body[0])]


def alike(a: Counter, b: Counter, rare: dict[tuple, float]) -> float:
    """The share of two programs' triples that they have in common, each with the bits that say how rare it is in the class."""
    return sum(n * rare[triple] for triple, n in (a & b).items()) / max(1, (a | b).total())


def unusual(answers: dict[str, dict[str, str]]) -> list[Pair]:
    """All pairs, the most unusual first.

    answers  exercise -> student -> text
    """
    found: dict[tuple[str, str], Pair] = defaultdict(lambda: Pair(("", "")))
    for exercise, texts in answers.items():
        programs = {text: grams(text) for text in texts.values()}
        having = Counter(triple for text in texts.values() for triple in programs[text])  # students
        rare = {triple: math.log2(len(texts) / n) for triple, n in having.items()}
        shares = {
            (a, b): alike(programs[a], programs[b], rare) for a, b in combinations_with_replacement(sorted(programs), 2)
        }
        own = {}
        for a, b in combinations(sorted(texts), 2):
            first, second = sorted((texts[a], texts[b]))
            own[a, b] = shares[first, second] * (VERBATIM if first == second else 1)
        counts, above, as_much = Counter(own.values()), 0, {}
        for share in sorted(counts, reverse=True):
            above += counts[share]
            as_much[share] = above
        for pair, share in own.items() if len(counts) > 1 else ():
            bits = math.log2(len(own) / as_much[share])
            found[pair].students = pair
            found[pair].bits += bits
            found[pair].exercises.append((bits, exercise))
    for pair in found.values():  # an exercise in which all are equally alike says nothing
        pair.exercises.sort(reverse=True)
    return sorted(found.values(), key=lambda pair: (-pair.bits, pair.students))


def listed(pairs: list[Pair]) -> list[Pair]:
    """Those that chance would hardly bring about in a class of independent students."""
    return [pair for pair in pairs[:MOST] if chance(pair) * len(pairs) < EXPECTED]


def chance(pair: Pair) -> float:
    """How often a pair of independent students is as much alike: a sum of k exponential surprises, which has Erlang's distribution.

    >>> round(chance(Pair(("a", "b"), 1.0, [(1.0, "1.1")])), 6)  # one bit: one pair of two
    0.5
    """
    nats = pair.bits * math.log(2)
    return math.exp(-nats) * sum(nats**i / math.factorial(i) for i in range(len(pair.exercises)))


def answers(what: Class) -> dict[str, dict[str, str]]:
    """Exercise -> student -> the code that was handed in and graded, without what nobody has changed."""
    found: dict[str, dict[str, str]] = defaultdict(lambda: defaultdict(str))
    given = {c.source for c in nbformat.read(what.notebook("release"), as_version=4).cells}
    for student in what.students:
        if (path := what.notebook("autograded", student)).is_file():
            for cell in nbformat.read(path, as_version=4).cells:
                if cell.cell_type == "code" and is_solution(cell) and cell.source not in given:
                    found[number_of(cell.metadata.nbgrader.grade_id[:8])][student] += f"{cell.source.strip()}\n"
    return found


def page(pair: Pair, texts: dict[str, dict[str, str]]) -> str:
    """Both students' texts side by side, the exercise that is most unusual first."""
    rows = []
    for bits, exercise in pair.exercises:
        cells = "".join(f"<td><pre>{html.escape(texts[exercise][student])}</pre></td>" for student in pair.students)
        rows.append(f"<tr><th>{exercise}<br>{bits:.1f} bits</th>{cells}</tr>")
    head = "".join(f"<th>{html.escape(student)}</th>" for student in pair.students)
    style = "td { vertical-align: top; border-top: 1px solid } pre { white-space: pre-wrap }"
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style><table><tr><th></th>{head}</tr>{"".join(rows)}</table>\n'


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.likeness", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", help="for example ch01_rooflines")
    what = Class(parser.parse_args(argv).assignment)
    try:
        texts = answers(what)
        if not texts:
            raise SourceError(f"No graded submission of {plain(what.topic)} is here: run `make grade` first.")
    except (SourceError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    found = listed(unusual(texts))
    folder = Path(what.root, FOLDER, what.topic)
    folder.mkdir(parents=True, exist_ok=True)
    for number, pair in enumerate(found, 1):
        replace(folder / f"{number}.html", page(pair, texts))
        names = " and ".join(plain(s, 40) for s in pair.students)
        said = ", ".join(exercise for bits, exercise in pair.exercises[:8] if bits)
        print(wrapped(f"{number}. {names}: {pair.bits:.0f} bits, most in {said}.", 0))
    if found:
        where = f"autograder/{FOLDER}/{what.topic}"
        print(wrapped(f"Both texts of each pair, side by side: {where}. Who learned together is alike as well.", 0))
    else:
        print("No two submissions are more alike than is usual in this class.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
