"""Exercises of a source: their parts are checked against each other, their insight goes into the check."""

import ast
import builtins
import codecs
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from autograder.engine.cell_names import free_names
from autograder.engine.importable_helpers import modules
from autograder.places import SourceError, Tree
from helpers import study_time

from . import bank
from .cells import AFRESH, function_name, meta, notebook, setup_cell, translated
from .data_line import ASSUME, LIKE, DataLine, data_line
from .how_to_answer import how_to_answer
from .links import Links
from .myst_to_commonmark import plain

HEADING = re.compile(r"^### Exercise (\d+)\.(\d+) — (.+)$", re.M)
USES = re.compile(r"^% uses\b(.*)$", re.M)
INSIGHT = re.compile(r"<details><summary>After you pass</summary>\n(.*?)\n</details>", re.S)


@dataclass
class Exercise:
    """The cells from one `### Exercise` heading to the next."""

    number: str  # "1.4"
    title: str
    data: DataLine
    grade_id: str  # "ch01-q04"
    cells: list[NotebookNode] = field(default_factory=list)

    @property
    def points(self) -> float:
        return self.data.points

    def _marked(self, solution: bool, grade: bool) -> list[NotebookNode]:
        return [
            c for c in self.cells
            if (m := meta(c)) and (bool(m.get("solution")), bool(m.get("grade"))) == (solution, grade)
        ]  # fmt: skip

    @property
    def answers(self) -> list[NotebookNode]:
        """Cells that the learner fills and a check cell judges."""
        return self._marked(True, False)

    @property
    def checks(self) -> list[NotebookNode]:
        return self._marked(False, True)

    @property
    def manual(self) -> list[NotebookNode]:
        """Answers that a person grades."""
        return self._marked(True, True)


def by_exercise(text: str) -> dict[str, str]:
    """The text of each exercise of a source, from its labels on, by number.

    >>> by_exercise("# Chapter\\n(ex-1-3)=\\n(ex-1-4)=\\n### Exercise 1.4 — A\\n...").keys()
    dict_keys(['1.4'])
    """
    label = r"^(?<!\)=\n)(?=\(ex-\d+-\d+\)=$)"  # the first, where one that replaces another has two
    pieces = re.split(label, text, flags=re.M)[1:]
    return {f"{m[1]}.{m[2]}": piece for piece in pieces if (m := HEADING.search(piece))}


def refuse_unfilled(pieces: dict[str, str], name: str) -> None:
    """Stop at an exercise that is still a skeleton, with a sentence for each thing to fill in."""
    wrote = [(number, what) for number, piece in pieces.items() for what in bank.unfilled(piece)]
    if wrote:
        raise SourceError("\n".join(f'{name}: exercise {n} still has "{what}": fill it in.' for n, what in wrote))


def exercises(cells: list[NotebookNode], name: str) -> list[Exercise]:
    """The exercises among the cells of a source, each one checked for its form."""
    found: list[Exercise] = []
    for cell in cells:
        heading = HEADING.search(cell.source) if cell.cell_type == "markdown" and not meta(cell) else None
        if heading:
            number, data = f"{heading[1]}.{heading[2]}", data_line(cell.source)
            if not data:
                raise SourceError(
                    f'{name}: exercise {number} needs a data line such as "{LIKE}"; what else it says goes below, "{ASSUME}…".'
                )
            grade_id = f"ch{int(heading[1]):02d}-q{int(heading[2]):02d}"
            found.append(Exercise(number, heading[3].strip(), data, grade_id))
            if f'<a id="ex-{heading[1]}-{heading[2]}"></a>' not in cell.source:
                anchor = f"(ex-{heading[1]}-{heading[2]})="
                raise SourceError(f"{name}: exercise {number} needs the line {anchor} before its heading.")
        if found:
            found[-1].cells.append(cell)
        elif meta(cell):
            raise SourceError(f"{name}: the cell {meta(cell).get('grade_id')} stands before the first exercise.")
    return found


def problems(found: list[Exercise]) -> list[str]:
    """Everything that is wrong with the exercises of one source, a sentence each."""
    wrong = []
    seen: set[str] = set()
    for ex in found:
        for cell in ex.cells:
            grade_id = meta(cell).get("grade_id")
            if meta(cell) and not grade_id:
                wrong.append(f"exercise {ex.number} has a graded cell without grade_id.")
            elif grade_id in seen:
                wrong.append(f"the grade_id {grade_id} stands twice.")
            elif grade_id and not re.fullmatch(ex.grade_id + r"(-[a-z0-9-]+)?", grade_id):
                wrong.append(f"{grade_id} stands in exercise {ex.number}, whose grade_ids begin with {ex.grade_id}.")
            seen |= {grade_id} - {None}
        wrong += _pairs(ex)
        # The data line, the cells' metadata and the `points=` of the checks agree.
        if (total := sum(float(meta(c).get("points", 0)) for c in ex.checks + ex.manual)) != ex.points:
            wrong.append(f"exercise {ex.number} says {ex.points:g} points, its cells have {total:g}.")
        for cell in ex.cells:
            wrong += _marks(cell, ex)
        for cell in ex.checks:
            wrong += _check_cell(cell, ex)
        for cell in ex.answers + ex.manual:
            if cell.source.count("### BEGIN SOLUTION") != cell.source.count("### END SOLUTION"):
                wrong.append(f"{meta(cell)['grade_id']} has a solution region that is not closed.")
    return wrong


def _pairs(ex: Exercise) -> list[str]:
    """Every answer has a check and every check an answer."""
    if not (ex.answers or ex.manual):
        return [f"exercise {ex.number} has no answer cell."]
    answers = [meta(c)["grade_id"] for c in ex.answers]
    checks = [meta(c)["grade_id"] for c in ex.checks]
    lonely = [a for a in answers if not any(c.startswith(f"{a}-check") for c in checks)]
    orphans = [c for c in checks if not any(c.startswith(f"{a}-check") for a in answers)]
    wrong = [f"the answer {a} has no check cell {a}-check." for a in lonely]
    wrong += [f"the check {c} has no answer cell {c.split('-check')[0]}." for c in orphans]
    wrong += [f"the check {meta(c)['grade_id']} must be locked." for c in ex.checks if not meta(c).get("locked")]
    return wrong


def _check_cell(cell: NotebookNode, ex: Exercise) -> list[str]:
    """A check cell judges its points, and ends in `check.report` of its exercise."""
    grade_id = meta(cell)["grade_id"]
    if "### BEGIN SOLUTION" in cell.source:
        return [f"the check {grade_id} holds a solution region."]
    try:
        body = ast.parse(cell.source).body
    except SyntaxError as error:
        return [f"the check {grade_id} is not Python: {error.msg} in its line {error.lineno}."]
    calls = [n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Call)]
    points = [k.value.value for c in calls for k in c.keywords
              if k.arg == "points" and isinstance(k.value, ast.Constant)]  # fmt: skip
    wrong = []
    if sum(points) != float(meta(cell).get("points", 0)):
        worth = meta(cell).get("points", 0)
        wrong.append(f"{grade_id} is worth {worth} points, its answers' points= sum to {sum(points)}.")
    last = _report(body)
    if cell.source.rstrip().endswith(";"):
        wrong.append(f"the check {grade_id} ends in a semicolon, which hides its points from nbgrader.")
    if last is None:
        wrong.append(f'the check {grade_id} must end in check.report("{ex.number}", …).')
    elif not (last.args and isinstance(last.args[0], ast.Constant) and last.args[0].value == ex.number):
        wrong.append(f'the check {grade_id} must report exercise "{ex.number}".')
    return wrong


def _report(body: list[ast.stmt]) -> ast.Call | None:
    """The `check.report(...)` that ends a check cell."""
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    return last if isinstance(last, ast.Call) and ast.unparse(last.func) == "check.report" else None


def move_insight(ex: Exercise, name: str) -> None:
    """Take the dropdown "After you pass" out of the text and hand it to the check, by rot13."""
    for cell in ex.cells:
        m = INSIGHT.search(cell.source) if cell.cell_type == "markdown" else None
        if not m:
            continue
        if not ex.checks:
            raise SourceError(f'{name}: exercise {ex.number} has no check that could print "After you pass".')
        cell.source = INSIGHT.sub("", cell.source).strip("\n")
        _add_insight(ex.checks[-1], plain(m[1]))


HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS\n?", re.S)
PART = re.compile(r"ch(\d+)-q(\d+)-?(.*?)-check")


def enclosed(source: str, name: str) -> str:
    """A check as a function, so that its names are not the learner's, nor the learner's names its own.

    >>> print(enclosed("a = 1\\ncheck.report('1.1', a)", "ch01_q01_check"))
    def ch01_q01_check():
        a = 1
        return check.report('1.1', a)
    """
    lines = source.rstrip().split("\n")
    last = ast.parse(source).body[-1]
    lines[last.lineno - 1] = f"return {lines[last.lineno - 1]}"
    return f"def {name}():\n{textwrap.indent(chr(10).join(lines), '    ')}"


def visible(cell: NotebookNode) -> list[str]:
    """The lines of a check, as a function, that a learner may see: `checks.json` has them beside the notebook."""
    return enclosed(HIDDEN.sub("", cell.source), function_name(cell)).split("\n")


def call(cell: NotebookNode) -> str:
    """What a learner's notebook has for a check.

    >>> from nbformat import from_dict
    >>> call(from_dict({"metadata": {"nbgrader": {"grade_id": "ch02-q24-b-check"}}}))
    'check.exercise("2.24", "b")  # check.judges("2.24", "b") says what it tests'
    """
    chapter, number, part = PART.fullmatch(meta(cell)["grade_id"]).groups()
    given = f'"{int(chapter)}.{int(number)}"' + (f', "{part}"' if part else "")
    return f"check.exercise({given})  # check.judges({given}) says what it tests"


MARKS = {f"### {edge} {what}" for edge in ("BEGIN", "END") for what in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME")}


def _marks(cell: NotebookNode, ex: Exercise) -> list[str]:
    """nbgrader's marks are spelled as it reads them, in pairs; another spelling would publish what it should hide."""
    wrong, open_ = [], None
    for line in (s.strip() for s in cell.source.split("\n")):
        if not re.match(r"#+\s*(begin|end)\s+(solution|hidden|mark)", line, re.I):
            continue
        if line not in MARKS:
            wrong.append(f"exercise {ex.number} has a mark that nbgrader does not know: {line!r}.")
        elif line.startswith("### BEGIN") == (open_ is not None) or (open_ and line.split(" ", 2)[2] != open_):
            wrong.append(f"exercise {ex.number} has marks that are not in pairs, at {line!r}.")
        open_ = line.split(" ", 2)[2] if line.startswith("### BEGIN") else None
    return wrong + ([f"exercise {ex.number} has {open_!r} without an end."] if open_ else [])


def call_checks(ex: Exercise) -> dict[str, list[str]]:
    """Make a call of each check cell; the whole check stands in it as a hidden test. The lines that learners see of it, by its name.

    The metadata says which names these lines read, so that an answer is found that stands in a cell of the learner's own.
    """
    seen = {}
    for cell in ex.checks:
        name = function_name(cell)
        seen[name] = visible(cell)
        names = free_names("\n".join(seen[name])) - {*dir(builtins), name, "check"}
        cell.metadata["course"] = {"reads": sorted(names)}
        whole = enclosed(HIDDEN.sub(r"check.hidden()\n\1", cell.source), name)
        begin, end = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
        cell.source = "\n".join([AFRESH, begin, "@check.in_full", whole, end, call(cell)])
    return seen


def open_alone(ex: Exercise) -> None:
    """Let cells that show what an answer does begin in a new kernel as checks do."""
    for cell in ex.cells:
        if cell.cell_type == "code" and not meta(cell) and "check." in cell.source:
            comments, code = re.match(r"((?:#[^\n]*\n)*)(.*)", cell.source, re.S).groups()
            cell.source = f"{comments}{AFRESH}\n\n{code}"


def _add_insight(cell: NotebookNode, text: str) -> None:
    call = _report(ast.parse(cell.source).body)
    if call is None:
        return  # `problems` says so
    if any(k.arg == "insight" for k in call.keywords):
        raise SourceError(f"{meta(cell)['grade_id']} already has an insight; keep the dropdown only.")
    pieces = []
    for part in text.split("\n"):
        pieces += [line + " " for line in textwrap.wrap(part, 90, break_on_hyphens=False)]
        pieces[-1] = pieces[-1][:-1] + "\n"
    pieces[-1] = pieces[-1].rstrip()
    body = "\n".join(f"    {codecs.encode(piece, 'rot13')!r}" for piece in pieces)
    code = cell.source.split("\n")
    row = call.end_lineno - 1
    column = len(code[row].encode()[: call.end_col_offset - 1].decode())  # ast counts bytes
    code[row] = f"{code[row][:column].rstrip(', ')}, insight=(\n{body}\n)" + code[row][column:]
    cell.source = "\n".join(code)


def source_notebook(
    path: Path, text: str, links: Links, root: Path
) -> tuple[NotebookNode, list[Exercise], dict[str, list[str]]]:
    """nbgrader's source version, solutions and hidden tests in it; its exercises; the lines of its checks that learners see, by name."""
    name = f"{path.parent.name}/{path.name}"
    refuse_unfilled(by_exercise(text), name)
    cells = translated(path, text, links, root)
    found = exercises(cells, name)
    mark_core(found, cells[0], links)
    unseen, checks = complete(found, cells, name, bank.mutants(path.stem))
    if unseen:
        from . import mistakes

        raise SourceError("\n".join(map(mistakes.nowhere, unseen)))
    listed = uses(text, name)
    example = next((ex.number for ex in found if ex.checks), "")
    is_closed = path.stem in Tree(root).edition.get("closed", [])
    cells[1:1] = [how_to_answer(example, listed, is_closed), setup_cell(f"{path.stem[:4]}-setup")]
    return notebook([c for c in cells if c.source.strip()], listed), found, checks


def complete(
    made: list[Exercise], cells: list[NotebookNode], name: str, mutants: list[bank.Mutant]
) -> tuple[list[bank.Mutant], dict[str, list[str]]]:
    """Make exercises of a source what notebooks have; which mutants show in no case, and the lines of the checks, by name.

    cells    theirs, and those that they need
    mutants  wrong answers to them
    """
    if wrong := problems(made):
        raise SourceError("\n".join(f"{name}: {sentence}" for sentence in wrong))
    from . import mistakes  # brings JAX, which a process that reads submissions does without

    unseen = mistakes.fill(cells, mutants)
    checks: dict[str, list[str]] = {}
    for ex in made:
        move_insight(ex, name)
        checks |= call_checks(ex)
        open_alone(ex)
    return unseen, checks


def core(found: list[Exercise], links: Links) -> list[Exercise]:
    """The core exercises among those of a chapter."""
    in_cores = {label for label, (target, _) in links.labels.items() if target.endswith("/reading.ipynb")}
    numbers = study_time.core({ex.number: ex.data for ex in found}, in_cores)
    return [ex for ex in found if ex.number in numbers]


def mark_core(found: list[Exercise], head: NotebookNode, links: Links) -> None:
    """Say of each exercise of a chapter whether it is core or further, and list the core ones in the chapter's first cell."""
    first = core(found, links)
    for ex in found:
        stars, part = "★" * ex.data.stars + "☆" * (3 - ex.data.stars), "**core**" if ex in first else "further"
        ex.cells[0].source = re.sub(rf"^{stars} · ", f"{stars} · {part} · ", ex.cells[0].source, count=1, flags=re.M)
    if first:
        listed = ", ".join(f"[{ex.number}](#ex-{ex.number.replace('.', '-')})" for ex in first)
        minutes = study_time.spent(sum(ex.data.minutes for ex in first))
        head.source += f"\n\nCore exercises, {minutes} in all: {listed}."


def uses(text: str, name: str) -> list[str]:
    """The modules of `helpers` that a source's line `% uses` gives to answers.

    >>> uses("% uses helpers.costs.rooflines.hardware, helpers.show", "ch01.md")
    ['helpers.costs.rooflines.hardware', 'helpers.show']
    """
    lines = USES.findall(text)
    if len(lines) > 1:
        raise SourceError(f"{name}: one line says what answers use, this source has {len(lines)}.")
    listed = [m.strip() for m in lines[0].split(",")] if lines else []
    for module in listed:
        if module not in modules():
            raise SourceError(f'{name}: "% uses" lists modules, as in helpers.show, and there is no "{module}".')
    return sorted(set(listed))
