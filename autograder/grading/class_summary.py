"""What a class got, for a terminal of 80 columns: a table of students by exercises, and what each exercise went like.

Names, reasons and complaints hold what students wrote, so they are printed as plain text: no escapes, no control characters.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nbformat import NotebookNode

from autograder.engine.cell_names import exercise_number
from autograder.engine.plain_text import ESCAPE

WIDE = 80  # columns
ROWS = 40  # students in a table; a larger class looks into grades.csv
NAMES = 8  # students named for an exercise, and for a note


@dataclass
class Result:
    """One row of the table."""

    student: str
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)  # exercise -> (points, of so many)
    open: set[str] = field(default_factory=set)  # exercises that a person still has to grade
    why: str = ""  # why it could not be graded
    notes: list[str] = field(default_factory=list)
    said: dict[str, list[str]] = field(default_factory=dict)  # exercise -> what its checks complained of
    late: float = 0.0  # points that lateness costs
    fault: bool = False  # not graded, through no fault of the student's

    @property
    def total(self) -> float:
        return sum(got for got, _ in self.scores.values())


def plain(text: str, longest: int = 300) -> str:
    r"""Text on one line that no terminal acts on: escape sequences, control and invisible characters are gone.

    >>> plain("a\x1b[31mb\x1b]0;title\x07c\r\nd\u202ee\ud800")
    'abc de'
    """
    text = ESCAPE.sub("", text)
    text = "".join(" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    text = re.sub(" +", " ", text).strip()
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def columns(text: str) -> int:
    """Columns of a terminal that a plain text takes.

    >>> columns("ada"), columns("\u5f20\u4f1f")
    (3, 4)
    """
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fitted(text: str, width: int) -> str:
    """A plain text cut or filled to so many columns.

    >>> fitted("ada", 5), fitted("a-very-long-name", 8)
    ('ada  ', 'a-very..')
    """
    if columns(text) > width:
        while columns(text) > width - 2:
            text = text[:-1]
        text += ".."
    return text + " " * (width - columns(text))


def number_of(exercise: str) -> str:
    """`ch01-q04` -> `1.4`, as the learner knows it.

    >>> number_of("ch01-q04"), number_of("ch12-q11"), number_of("extra")
    ('1.4', '12.11', 'extra')
    """
    return exercise_number(exercise) or plain(exercise)


def titles(released: NotebookNode) -> dict[str, str]:
    """Number of an exercise -> its title, from a released notebook."""
    own = [c for c in released.cells if c.metadata.get("released") is False or c.id.startswith("own-")]
    text = "\n".join(c.source for c in released.cells if c.cell_type == "markdown" and c not in own)
    return dict(re.findall(r"^### Exercise (\S+) — (.+)$", text, re.M))


def complaints(outputs: Iterable[Mapping]) -> list[str]:
    """What a check complained of, from its cell's outputs: a line each, none of a check that passed.

    >>> said = "Exercise 1.4: 0 of 3 points\\n  f(2) is\\n    too large.\\n  g is not done yet."
    >>> complaints([{"output_type": "stream", "name": "stderr", "text": said}])
    ['f(2) is too large.', 'g is not done yet.']
    >>> complaints([{"output_type": "error", "ename": "TimeoutError", "evalue": "the cell did not end", "traceback": []}])
    ['TimeoutError: the cell did not end']
    """
    found: list[str] = []
    for output in outputs:
        if output["output_type"] == "stream":
            found += _complaints("".join(output["text"]))
        elif output["output_type"] == "error":
            found.append(f"{output['ename']}: {output['evalue']}")
    return found


def _complaints(text: str) -> list[str]:
    found: list[str] = []
    for line in text.strip("\n").split("\n"):
        if score := re.fullmatch(r"Exercise \S+: (\S+) of (\S+) points?", line.strip()):
            if score[1] == score[2]:  # what follows is no complaint
                break
        elif line.startswith("    ") and found:  # a line that `report` broke
            found[-1] += ("" if found[-1].endswith("-") else " ") + line.strip()
        elif line.strip() and not line.strip().startswith("After three tries you may look"):
            found.append(line.strip())
    return found


def table(results: list[Result], who: str = "student", grades: str = "autograder/grades.csv") -> str:
    """Students by exercises with totals, then what could not be graded, and what was put right.

    grades  where the rows of a class stand that is too large for a screen
    """
    lines = _rows(results, who) if len(results) <= ROWS else [f"{len(results)} students; their grades are in {grades}."]
    if failed := [r for r in results if r.why]:
        lines += ["", "* could not be graded:"]
        lines += [wrapped(f"{plain(r.student)}: {plain(r.why)}", 2) for r in failed]
    if any(r.notes for r in results):
        lines += ["", "put right, or stopped:", *_notes(results)]
    if late := [f"{plain(r.student)} {-r.late:g}" for r in results if r.late]:
        lines += ["", wrapped(f"late, points off the total: {', '.join(late[:ROWS])}{' …' * (len(late) > ROWS)}", 0)]
    if waiting := sum(bool(r.open) for r in results):
        said = f"? waits for a person, in the Formgrader: {waiting} of them; in the exports it counts as 0 until then."
        lines += ["", wrapped(said, 0) if who == "student" else "? is graded by hand, in a class."]
    return "\n".join(lines)


def _rows(results: list[Result], who: str) -> list[str]:
    """The table itself, its columns in as many equal parts below each other as the width of a terminal asks for."""
    most = {e: m for r in results for e, (_, m) in r.scores.items()}
    exercises = sorted(most)
    rows = [(who, {e: e.split("-q")[-1] for e in exercises}, f"{'total':>6}")]
    rows.append(("points", {e: f"{most[e]:g}" for e in exercises}, f"{sum(most.values()):>6g}"))
    for r in results:
        cells = {e: "?" if e in r.open else f"{r.scores.get(e, (0, 0))[0]:g}" for e in exercises}
        rows.append((plain(r.student), cells, f"{r.total:>6g}{' *' * bool(r.why)}"))
    name = min(24, max(columns(first) for first, *_ in rows))
    wide = max([2, *(len(c) for _, cells, _ in rows for c in cells.values())])
    parts = max(1, math.ceil(len(exercises) / ((WIDE - name - 12) // (wide + 1))))
    each = math.ceil(len(exercises) / parts)
    lines = []
    for i in range(parts):
        lines += [""] * (i > 0)
        for first, cells, total in rows:
            part = " ".join(f"{cells[e]:>{wide}}" for e in exercises[i * each : (i + 1) * each])
            lines.append(f"{fitted(first, name)}  {part}  {total if i == parts - 1 else ''}".rstrip())
    return lines


def _few(notes: list[str]) -> list[str]:
    """As many as a person reads: a student who doubles all cells has a thousand."""
    return notes if len(notes) <= NAMES else [*notes[: NAMES - 1], f"There are {len(notes) - NAMES + 1} more notes."]


def _notes(results: list[Result]) -> list[str]:
    """A line for each note in a small class; in a large one a line for each kind of note, the most frequent first."""
    pairs = [(plain(r.student), note) for r in results for note in _few([*dict.fromkeys(map(plain, r.notes))])]
    if len(results) <= ROWS:
        return [wrapped(f"{student}: {note}", 2) for student, note in pairs]
    by_text = defaultdict(list)
    for student, note in pairs:
        by_text[note].append(student)
    frequent = sorted(by_text.items(), key=lambda item: -len(item[1]))
    lines = [wrapped(f"{named(students)}: {note}", 2) for note, students in frequent[:ROWS]]
    return lines + [f"  and {len(frequent) - ROWS} other notes"] * (len(frequent) > ROWS)


def by_exercise(results: list[Result], titles: Mapping[str, str] = {}) -> str:  # noqa: B006  (never changed)
    """What each exercise went like: how many have it, who failed it, and the most frequent mistake.

    titles  number of an exercise -> its title
    """
    exercises = sorted({e for r in results for e in r.scores})
    return "\n\n".join("\n".join(_exercise(e, results, titles)) for e in exercises)


KINDS = ("full", "part", "none", "not begun", "not graded", "waits")


def standing(result: Result, exercise: str) -> str:
    """Where a student stands in an exercise: one of KINDS."""
    if result.why:
        return "not graded"
    if exercise in result.open:
        return "waits"
    got, most = result.scores.get(exercise, (0.0, 0.0))
    if got >= most:
        return "full"
    said = result.said.get(exercise, [])
    if not got and said and all(_undone(s) for s in said):
        return "not begun"
    return "part" if got > 0 else "none"


def _exercise(exercise: str, results: list[Result], titles: Mapping[str, str]) -> list[str]:
    rows = [r for r in results if exercise in r.scores]
    groups = defaultdict(list)
    for r in rows:
        groups[standing(r, exercise)].append(r)
    most = max(r.scores[exercise][1] for r in rows)
    judged = [r.scores[exercise][0] for k in ("full", "part", "none", "not begun") for r in groups[k]]
    number = number_of(exercise)
    head = f"{number:<5} {plain(titles.get(number, ''))}"
    known = len(judged) > len(groups["waits"])
    mean = f"mean {sum(judged) / len(judged):.2f} of {most:g}" if known else f"of {most:g}"
    lines = [f"{fitted(head, WIDE - len(mean) - 1)} {mean}"]
    lines.append("      " + "   ".join(f"{k} {len(groups[k])}" for k in KINDS if groups[k] or k in KINDS[:3]))
    if failed := [r.student for k in ("none", "part") for r in groups[k]]:
        lines.append(wrapped(f"points missing: {named(failed)}", 6))
    if found := mistake(r.said.get(exercise, []) for k in ("none", "part") for r in groups[k]):
        text, times = found
        lines.append(wrapped(f"{times} x {text}", 6))
    return lines


def mistake(said: Iterable[list[str]]) -> tuple[str, int] | None:
    """The most frequent complaint in those of several students, and how many got it; values of a single student play no part.

    >>> mistake([["That is half. (f(2) returned 1.)"], ["That is half. (f(4) returned 2.)"], ["f is not done yet."] * 2])
    ('That is half.', 2)
    """
    variants: dict[str, Counter] = defaultdict(Counter)
    for each in said:
        found = {}
        for text in each:
            shown = plain(bare(text))
            if shown and not _undone(text):
                found.setdefault(re.sub(r"[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?", "#", shown), shown)
        for key, shown in found.items():
            variants[key][shown] += 1
    if not variants:
        return None
    best = max(variants.values(), key=lambda v: v.total())
    return best.most_common(1)[0][0], best.total()


def bare(text: str) -> str:
    """A complaint without what stands in parentheses: the arguments and the value of one student.

    >>> bare("The sign is wrong. (f(x=(1, 2)) returned ':-('.)"), bare("entry 'a' (in bytes) is off.")
    ('The sign is wrong.', "entry 'a' is off.")
    """
    text = re.sub(r"(?<=[.?!]) \(.*\)$", "", text.strip(), flags=re.S)
    before = None
    while text != before:
        before, text = text, re.sub(r"\s*\([^()]*\)", "", text)
    return text


def _undone(text: str) -> bool:
    return text.strip().endswith("not done yet.")


def named(students: list[str]) -> str:
    """Up to eight names, then a count."""
    shown = ", ".join(plain(s, 40) for s in students[:NAMES])
    return shown + (f" and {len(students) - NAMES} more" if len(students) > NAMES else "")


def absent(students: list[str]) -> str:
    """Who has no submission: up to forty names, then a count.

    >>> absent(["ada", "bob"]), absent([])
    ('No submission: ada, bob.', '')
    """
    if not students:
        return ""
    more = f" and {len(students) - ROWS} more; in canvas.csv their points are empty" if len(students) > ROWS else ""
    return wrapped(f"No submission: {', '.join(plain(s, 40) for s in students[:ROWS])}{more}.", 0)


def wrapped(text: str, indent: int) -> str:
    """A text broken to the width of the terminal, its first line `indent` columns in, the others two more."""
    lines, at = [" " * indent], WIDE - indent
    for word in text.split(" "):
        word = fitted(word, min(columns(word), WIDE - indent - 2))
        if columns(word) > at:
            lines.append(" " * (indent + 2))
            at = WIDE - indent - 2
        lines[-1] += f"{word} "
        at -= columns(word) + 1
    return "\n".join(line.rstrip() for line in lines)
