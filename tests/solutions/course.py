"""What the tests of every chapter's exercises share: their text in parts and the solved functions."""

import ast
import re
from functools import cache

from autograder.making import bank, in_process_grading, mistakes
from autograder.making.data_line import ASSUME
from autograder.places import ROOT, Tree


def exercises(topic: str) -> list[str]:
    """The exercises of solutions/<topic>.md, each from its anchor to the next one's."""
    text = (ROOT / "solutions" / f"{topic}.md").read_text(encoding="utf-8")
    return re.split(r"^(?=\(ex-\d+-\d+\)=$)", text, flags=re.M)[1:]


def number(exercise: str) -> int:
    """4 for exercise 1.4."""
    return int(re.match(r"\(ex-\d+-(\d+)\)=", exercise)[1])


def parts(text: str) -> list[tuple[str, str, str]]:
    """(grade id, answer cell, check cell) of every answer that a check cell follows."""
    cells = r"grade_id: (ch\d\d-q\d\d(?:-[a-z]+)*?), solution: true.*?\n---\n(.*?)^```.*?grade_id: \1-check,.*?\n---\n(.*?)^```"
    return re.findall(cells, text, re.S | re.M)


def dropdowns(exercise: str) -> list[str]:
    """Titles of its dropdowns."""
    return re.findall(r"^:::\{dropdown\} (.+)$", exercise, re.M)


def statement(exercise: str) -> list[str]:
    """Its data line and the lines of its statement, without what it assumes, empty ones and tables."""
    return [line for line in _head(exercise) if line[0] != "|" and not line.startswith(ASSUME)]


def assumed(exercise: str) -> str:
    """What it says to assume, in the paragraph under its data line; "" if nothing."""
    second = _head(exercise)[1]
    return second if second.startswith(ASSUME) else ""


def _head(exercise: str) -> list[str]:
    """Its lines from the data line to the first cell, without empty ones."""
    head = re.split(r"^```\{code-cell\}|^\+\+\+", exercise, flags=re.M)[0].strip().split("\n")
    return [line for line in head[3:] if line]


def well_formed(text: str, told: tuple[str, ...]) -> None:
    """Two dropdowns that name a confusion, six lines of statement; with a check an insight and a hidden part, too.

    told  beginnings of calls by which a check tells a learner something: four of them at least, with what the bank's mistakes are told
    """
    titles, lines, where = dropdowns(text), statement(text), text[:80]
    says = [line for line in text.split("\n") if line.startswith(ASSUME)]
    assert says == [assumed(text)] * len(says) and len(says) < 2, f"one sentence, under the data line: {where}"
    assert all(re.fullmatch(r".+[^.]\.", s) and ". " not in s for s in says), where
    if "graded by hand" in lines[0]:
        assert len(titles) == 2, where
        return
    assert len(titles) == 3 and titles[-1] == "After you pass", where
    assert len(lines) <= 7, f"a data line and at most six lines of statement: {where}"
    assert sum(text.count(t) for t in told) + len(named(text)) >= 4, where
    assert "### BEGIN HIDDEN TESTS" in text, where


def named(text: str) -> list[bank.Mutant]:
    """The bank's wrong answers to an exercise that are told what is wrong, one for each sentence."""
    chapter, number = re.match(r"\(ex-(\d+)-(\d+)\)=", text).groups()
    answers = f"ch{int(chapter):02}-q{int(number):02}"
    mine = [m for m in mutants(answers[:4]) if m.grade_id.startswith(answers)]
    return list({m.mistake or m.says: m for m in mine if m.mistake or m.says}.values())


@cache
def mutants(chapter: str) -> list[bank.Mutant]:
    """The wrong answers of a chapter, such as ch01."""
    return bank.mutants(next(p.stem for p in Tree().exercises if p.stem.startswith(chapter)))


def computed(text: str) -> bool:
    """What is said after a pass has a number in it that is computed; nothing is where a person grades."""
    return "graded by hand" in text or "{{" in text.split("After you pass")[1]


def by_position(answer: str, check: str) -> bool:
    """Whether draws stand in the order of the stub's parameters, the hidden part draws each of them, and no case names one.

    Sizes that a sharded program is drawn have names of their own.
    """
    (function,) = functions(answer)
    names, found = [a.arg for a in function.args.args], calls(check)
    drawn = [[k.arg for k in c.keywords if k.arg != "n"] for c in found if c.func.attr == "equals"]
    named = [c for c in found if c.func.attr == "gives" and c.keywords]
    return not named and ("check.Program(" in check or all(words == names for words in drawn))


def with_values(grade_id: str, answer: str, check: str, scope: dict) -> str:
    """A check cell as notebooks have it, with what its cases give."""
    return mistakes.filled(check, answer, scope, [m for m in mutants(grade_id[:4]) if m.grade_id == grade_id])[0]


def functions(answer: str) -> list[ast.FunctionDef]:
    """The functions that an answer cell defines."""
    return [n for n in ast.parse(answer).body if isinstance(n, ast.FunctionDef)]


def calls(check: str) -> list[ast.Call]:
    """The calls of methods in a check cell: `a.gives(…)`, `a.equals(…)`."""
    return [n for n in ast.walk(ast.parse(check)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]


def visible(cell: str) -> str:
    """The cell as learners get it, without hidden tests."""
    return re.sub(r"[ \t]*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS\n", "", cell, flags=re.S)


solved = in_process_grading.names


def hold(checks: list[tuple[str, str, str]], scope: dict, part=lambda check: check) -> None:
    """Each check of `parts` gives these answers all of its points and complains of nothing; `part` may cut it."""
    for grade_id, answer, check in checks:
        check = part(with_values(grade_id, answer, check, scope))
        value, said, fault = in_process_grading.execute(check, f"<{grade_id}>", scope)
        scored = re.match(r"Exercise \S+: \S+ of (\S+) points?\n(?!  )", said)
        assert not fault and scored and value == float(scored[1]), f"{grade_id}: {said}{fault}"
