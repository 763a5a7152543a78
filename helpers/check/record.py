"""What a learner has read, answered and reviewed: kept in progress.json beside what has passed, and on the site in the browser.

Either is carried to the other as one line of text, such as

    r2r1 3 e:1.3=333 q:sec-matmul.1=333+ s:sec-bounds=332

which says how many words follow, so that a line cut short is noticed, and in each word what, its name and a day, counted from the
first of 2026: a section read, a question answered (+ right, - not yet), an exercise passed, a card of review with its step and,
behind a dot, how often it was asked. What is brought is merged and replaces nothing, so that a line may be brought twice, in any order.
book/_static/record.js does the same; a test holds the two together.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from html import escape
from pathlib import Path
from typing import NamedTuple

from helpers import study_time

from . import progress

FIRST_DAY = date(2026, 1, 1)
DAYS = 100_000  # what a line of text has room for
GREEN = "#1a7f37"  # 4.8:1 on white and 4.0:1 on JupyterLab's dark ground, large enough for bold text
KINDS = {"s": "sections", "q": "questions", "e": "passed", "r": "reviews"}
WORD = re.compile(r"^([se]|(q)|(r)):([\w.:-]{1,80})=(\d{1,5})(?(2)([+-]))(?(3)@(\d)(?:\.(\d{1,3}))?)$")


class Entry(NamedTuple):
    """A day of the course (0 is the first of 2026), and what was so then: right, or the step of a review; how often it was asked."""

    day: int
    state: int = 0
    asked: int = 0


@dataclass
class Record:
    """What is known of a learner, by names of sections, questions, exercises and cards.

    sections   the day on which each was first read
    questions  the day of the last answer; state 1 once it was right
    passed     the day on which each exercise passed first
    reviews    the day of the last answer; state is the step, how often in a row it was known
    path       the path chosen, "" before that; last is the step done last; both are this folder's and not carried
    """

    sections: dict[str, Entry] = field(default_factory=dict)
    questions: dict[str, Entry] = field(default_factory=dict)
    passed: dict[str, Entry] = field(default_factory=dict)
    reviews: dict[str, Entry] = field(default_factory=dict)
    path: str = ""
    last: str = ""

    def bring(self, other: "Record") -> None:
        """Merge another one into this one: the first day of a reading or a pass, the last of an answer or a review."""
        for kind, entries in KINDS.items():
            own = getattr(self, entries)
            for name, entry in getattr(other, entries).items():
                own[name] = later(kind, own[name], entry) if name in own else entry

    def choose(self, path: str) -> None:
        """Take a path, from the first of its steps that is not done."""
        self.path, self.last = path, ""

    def done(self) -> set[str]:
        """Steps of paths that are done."""
        return {*self.sections, *self.passed}

    def next(self) -> study_time.Step | None:
        return study_time.following(self.path, self.done(), self.last)


def later(kind: str, a: Entry, b: Entry) -> Entry:
    """Of two entries of one name that which stays; of two reviews on a day the lower step, so that nothing is known by accident.

    >>> later("r", Entry(3, 2), Entry(4, 0)), later("q", Entry(3, 1), Entry(4, 0)), later("s", Entry(3), Entry(4))
    (Entry(day=4, state=0, asked=0), Entry(day=4, state=1, asked=0), Entry(day=3, state=0, asked=0))
    """
    if kind in "se":
        return min(a, b)
    if kind == "q":
        return Entry(max(a.day, b.day), max(a.state, b.state))
    return max(a, b, key=lambda entry: (entry.day, -entry.state, entry.asked))


def day_of(day: date) -> int:
    return max(0, (day - FIRST_DAY).days)


def iso(day: int) -> str:
    """
    >>> iso(0), iso(333)
    ('2026-01-01', '2026-11-30')
    """
    return str(FIRST_DAY + timedelta(days=day))


def as_line(record: Record) -> str:
    """The record as one line of text."""
    words = [f"s:{name}={entry.day}" for name, entry in record.sections.items()]
    words += [f"q:{name}={entry.day}{'+' if entry.state else '-'}" for name, entry in record.questions.items()]
    words += [f"e:{name}={entry.day}" for name, entry in record.passed.items()]
    words += [f"r:{name}={entry.day}@{entry.state}.{entry.asked}" for name, entry in record.reviews.items()]
    return " ".join(["r2r1", str(len(words)), *sorted(words)])


def of_line(line: str) -> Record:
    """What a line of text says; ValueError says what is wrong with it.

    >>> of_line("r2r1 2 s:sec-bounds=332 r:sec-matmul.1=333@2.4").reviews
    {'sec-matmul.1': Entry(day=333, state=2, asked=4)}
    >>> of_line("r2r1 2 s:sec-bounds=332")
    Traceback (most recent call last):
    ValueError: The line is cut short: it says that it has 2 words, and 1 is here. Copy all of it.
    """
    head, count, *words = line.split() if len(line.split()) > 1 else ("", "")
    if head != "r2r1" or not count.isdigit():
        raise ValueError('This is no line of the course: it begins with "r2r1" and a number.')
    if len(words) != int(count):
        there = f"{len(words)} {'is' if len(words) == 1 else 'are'} here"
        raise ValueError(f"The line is cut short: it says that it has {count} words, and {there}. Copy all of it.")
    found = Record()
    for word in words:
        if not (m := WORD.match(word)):
            raise ValueError(f"The line has a word that says nothing: {word[:40]!r}. Copy it again.")
        kind, _, _, name, day, right, step, asked = m.groups()
        entries, entry = getattr(found, KINDS[kind]), Entry(int(day), int(step or right == "+"), int(asked or 0))
        entries[name] = later(kind, entries[name], entry) if name in entries else entry
    return found


def _entries(content: dict, kind: str) -> dict[str, Entry]:
    """What of a file can be understood; the rest is nobody's record."""
    own = content.get(kind)
    pairs = own.items() if isinstance(own, dict) else ()
    fine = lambda e: isinstance(e, list) and len(e) in (2, 3) and all(isinstance(n, int) and 0 <= n < DAYS for n in e)  # noqa: E731
    return {str(name): Entry(*entry) for name, entry in pairs if fine(entry)}


def of_file(content: dict, page: str) -> Record:
    """What progress.json holds, as `progress.content` reads it; what has passed by what the start page says it is worth."""
    record = Record(*(_entries(content, kind) for kind in ("sections", "questions")))
    record.reviews = _entries(content, "reviews")
    if content.get("path") in (*study_time.PATHS, study_time.ALL):
        record.path = content["path"]
    record.last = str(content.get("last", ""))
    for standing in progress.standings(page, content["exercises"]):
        if standing.passed:
            own = content["exercises"][standing.number].values()
            days = [part["passed"] for part in own if part.get("passed")] or [part["begun"] for part in own]
            record.passed[standing.number] = Entry(day_of(date.fromisoformat(max(days))))
    return record


def read(path: Path) -> Record:
    """What a file of a learner's holds; one that is broken is put aside, and that is said."""
    return of_file(progress.content(path), progress.page_text(path))


def change(path: Path, edit: Callable[[Record], None]) -> Record:
    """Read the file, change the record and write it, with no other process in between; the record as it is then."""
    with progress.alone(path):
        content = progress.content(path)
        record = of_file(content, progress.page_text(path))
        passed = set(record.passed)
        edit(record)
        for number in record.passed.keys() - passed:  # only a line of text brings one
            day = iso(record.passed[number].day)
            there = {"won": 0, "of": 0, "tries": 0, "begun": day, "passed": day}
            content["exercises"].setdefault(number, {})[progress.ELSEWHERE] = there
        for kind in ("sections", "questions", "reviews"):
            content[kind] = {name: list(entry) for name, entry in sorted(getattr(record, kind).items())}
        progress.put(path, content | {"path": record.path, "last": record.last})
    return record


def today() -> int:
    return day_of(date.today())


def note_sections(path: Path, labels: Iterable[str]) -> Record:
    """Sections that a learner has read by today."""

    def edit(record: Record) -> None:
        for label in labels:
            if label in study_time.sections():
                record.sections.setdefault(label, Entry(today()))
                record.last = label

    return change(path, edit)


def note_question(name: str, right: bool) -> None:
    """A question of the reading that a learner has answered, where somebody sits before this notebook."""
    if name and progress.attended():
        change(progress.place(), lambda record: record.bring(Record(questions={name: Entry(today(), int(right))})))


GO_ON = re.compile(r"^\*\*(?:Go on|Begin): .*\n\n", re.M)
PATH_LINK = re.compile(r"(?:✓ )?(\[[^\]\n]*\]\(ch\d\d_\w+/\w+\.ipynb#([\w.:-]+)\))")


def start_page(text: str, parts: progress.Parts, record: Record) -> str:
    """A start page, with or without another state, with this one: what has passed, ticks along the paths, a link to what is next."""
    text = GO_ON.sub("", progress.with_state(text, parts))
    done = record.done()

    def marked(match: re.Match) -> str:
        name = re.sub(r"^ex-(\d+)-(\d+)$", r"\1.\2", match[2])
        return f"✓ {match[1]}" if name in done else match[1]

    text = re.sub(r"^\* .*$", lambda line: PATH_LINK.sub(marked, line[0]), text, flags=re.M)
    if not (step := record.next()):
        return text
    begin = "Go on" if done else "Begin"
    return below_title(text, f"**{begin}: [{step.title}]({step.link})**, {study_time.spent(step.minutes)}.\n\n")


def below_title(page: str, text: str) -> str:
    """A page with a text below its title."""
    title, _, rest = page.partition("\n\n")
    return f"{title}\n\n{text}{rest}"


def refresh(folder: Path) -> None:
    """Bring a learner's start page up to date with progress.json beside it; OSError if it cannot be written."""
    page = folder / progress.PAGE
    if not page.is_file():
        return
    text, path = page.read_text(encoding="utf-8"), folder / progress.NAME
    new = start_page(text, progress.kept(path), read(path))
    if new != text:
        progress.write(page, new)


@dataclass(frozen=True)
class Place:
    """Where a learner stands behind a check: a sentence, how far the chapter is, and what is next on the path."""

    sentence: str
    passed: int
    exercises: int
    next: study_time.Step | None


def standing_after(exercise: str, passed: bool) -> Place | None:
    """Where the learner stands in the exercise's chapter, for the end of a check; None where nobody keeps that."""
    if not progress.attended():
        return None
    path = progress.place()
    try:
        text = progress.page_text(path)
        known = change(path, lambda r: setattr(r, "last", exercise)) if passed and text else read(path)
        refresh(path.parent)
    except OSError as error:
        progress.say(f"The start page cannot be brought up to date ({error.strerror}).")
        return None
    own = [s for s in progress.standings(text, progress.kept(path)) if s.number.split(".")[0] == exercise.split(".")[0]]
    if not own:
        return None
    step = known.next()
    sentence = progress.total(own, exercise=step.title.removeprefix("Exercise ") if step else None)
    return Place(sentence, sum(s.passed for s in own), len(own), step)


def show_pass(exercise: str, points: str, paragraphs: Sequence[str], standing: Place) -> None:
    """Below a check that passed: a tick, what to think about next, the chapter's bar, and a link to what is next on the path.

    Links are relative to a chapter's folder in work/; what shows no HTML gets the same as text.
    """
    from IPython.display import display

    plain = "\n".join([f"✓ Exercise {exercise}: {points}", "", *paragraphs, "", standing.sentence])
    insight = "".join(f"<p>{escape(text)}</p>" for text in paragraphs if text.strip())
    step = standing.next
    after = f'<br>Next: <a href="../{escape(step.link)}">{escape(step.title)}</a>' if step else ""
    bar = progress.bar(standing.passed, standing.exercises)
    html = (
        f'<div style="border-left: 4px solid {GREEN}; padding: 0.2em 1em; max-width: 46em">'
        f'<p><b style="color: {GREEN}; font-size: 1.15em">✓ Exercise {escape(exercise)}: {escape(points)}</b></p>{insight}'
        f'<p>Chapter {exercise.split(".")[0]} <span style="color: {GREEN}" aria-hidden="true">{bar}</span> '
        f"{standing.passed} of {standing.exercises} exercises passed{after}</p></div>"
    )
    display({"text/plain": plain, "text/html": html}, raw=True)
