"""An instructor's own edition of the course: `python -m autograder.edition edition.yml --into FOLDER`.

FOLDER           a full tree with its own title, chapters, exercises, points, dates and seed, for whoever teaches
FOLDER-students  the same without what answers can be read from, to hand out

Made again into the same folder, an edition takes the course as it is now, and keeps what belongs to the class.
"""

import argparse
import datetime
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from autograder.making import edition_extras, edition_tree
from autograder.making.edition_text import by_hand, needs
from helpers.check import progress

from .places import SourceError, Tree, topic_of

LINES = ("title", "author", "class", "term", "course_id", "repository")
KEYS = (*LINES, "seed", "chapters", "keep", "leave-out", "points", "add", "dates", "solutions")
SOLUTIONS = ("never", "after-due", "always")
Dates = dict[str, tuple[datetime.date, datetime.date]]


@dataclass(frozen=True)
class Edition:
    """What an instructor chose; an empty `chapters` means all.

    dates      topic -> (release, due)
    points     exercise -> points
    repository  where students get it, for the buttons of pages and the first cell of notebooks; "" for the course's own
    more       topic -> source of own exercises
    solutions  when students get our answers
    """

    title: str = "Rooflines to Racks"
    author: str = "The authors of Rooflines to Racks"
    class_: str = ""
    term: str = ""
    course_id: str = "rooflines"
    repository: str = ""
    seed: str = "0"
    chapters: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    points: dict[str, float] = field(default_factory=dict)
    dates: Dates = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    solutions: str = "never"

    def due(self, topic: str) -> str | None:
        """The day by which a chapter's exercises are handed in, as readers see it."""
        return self.dates[topic][1].isoformat() if topic in self.dates else None

    def is_open(self, topic: str, today: datetime.date) -> bool:
        """Whether students may see our answers to a chapter's exercises on this day."""
        past = topic in self.dates and self.dates[topic][1] < today
        return self.solutions == "always" or self.solutions == "after-due" and past

    def said(self) -> dict:
        """What was chosen, for the file that an edition keeps of it."""
        dates = {topic: {"release": first, "due": last} for topic, (first, last) in self.dates.items()}
        return {"title": self.title, "author": self.author, "class": self.class_, "term": self.term, "seed": int(self.seed),
                "course_id": self.course_id, "repository": self.repository, "chapters": list(self.chapters),
                "leave-out": list(self.left_out), "points": self.points, "added": sorted(self.more), "dates": dates,
                "solutions": self.solutions}  # fmt: skip


def read(text: str, tree: Tree, beside: Path = Path()) -> Edition:
    """The edition that a file in the folder `beside` describes; SourceError, one sentence, at the first thing that is wrong."""
    said = _loaded(text)
    names = {key: _line(key, said[key]) for key in LINES if key in said}
    names["class_"] = names.pop("class", "")
    if not re.fullmatch(r"(https://git(hub|lab)\.com/[\w.-]+/[\w.-]+)?", names.get("repository", "")):
        raise SourceError(
            f'"repository" is an address such as https://github.com/ada/cs448, not {names["repository"]!r}.'
        )
    if not names.get("course_id", "a").replace("-", "").replace("_", "").isalnum():
        raise SourceError(f'"course_id" has letters, digits, - and _, not {names["course_id"]!r}.')
    seed = said.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise SourceError(f'"seed" is a whole number from 0 on, not {seed!r}.')
    if (solutions := said.get("solutions", "never")) not in SOLUTIONS:
        raise SourceError(f'"solutions" is {", ".join(SOLUTIONS[:-1])} or {SOLUTIONS[-1]}, not {solutions!r}.')
    chapters = _chapters(said.get("chapters", []), tree)
    more = edition_extras.own(beside / _line("add", said["add"]), tree) if "add" in said else {}
    left_out = _left_out(said, tree, chapters)
    dates = _dates(said.get("dates", {}), [p.stem for p in tree.exercises if not chapters or p.stem in chapters])
    points = _points(said.get("points", {}), tree, left_out)
    _fit(chapters, left_out, dates, more, tree)
    if solutions == "after-due" and not dates:
        raise SourceError('"solutions: after-due" waits for days in "dates", and there are none.')
    return Edition(
        **names, seed=str(seed), chapters=chapters, left_out=left_out, points=points, dates=dates, more=more,
        solutions=solutions,
    )  # fmt: skip


def _loaded(text: str) -> dict:
    """The keys of an edition's file with their values."""
    try:
        said = yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise SourceError(
            f"The edition is not YAML, {line}{error.problem}; text with a colon or a quotation mark needs quotation marks around it."
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise SourceError(f"The edition is not YAML: {str(error).splitlines()[0]}.") from error
    if not isinstance(said, dict):
        raise SourceError(f"An edition is a list of keys with values, such as {', '.join(KEYS)}.")
    if unknown := [str(key) for key in said if key not in KEYS]:
        raise SourceError(f"An edition has no key {', '.join(unknown)}: there are {', '.join(KEYS)}.")
    return said


def _line(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise SourceError(f'"{key}" is one line of text, not {value!r}.')
    if "<" in value:
        raise SourceError(f'"{key}" is plain text, without "<": the pages would take it for HTML.')
    return value.strip()


def _chapters(said: object, tree: Tree) -> tuple[str, ...]:
    """Topics in the edition's order, given by name or by number."""
    known = [path.stem for path in tree.chapters]
    if not isinstance(said, list):
        raise SourceError('"chapters" is a list in the order of your term, such as [2, 5, 7].')
    found = []
    for one in said:
        topic = next((t for t in known if one == t or (type(one) is int and int(t[2:4]) == one)), None)
        if topic is None or topic in found:
            there = ", ".join(known)
            raise SourceError(f'"chapters" has {one!r}, which is no chapter or stands twice: there are {there}.')
        found.append(topic)
    return tuple(found)


def _left_out(said: dict, tree: Tree, chapters: tuple[str, ...]) -> tuple[str, ...]:
    """Exercises that are left out: those named by "leave-out" or not named by "keep", and those of chapters that are not there."""
    if "keep" in said and "leave-out" in said:
        raise SourceError('"keep" and "leave-out" say the same in two ways: use one of them.')
    key = "keep" if "keep" in said else "leave-out"
    names = said.get(key, [])
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise SourceError(f'"{key}" is a list of exercises or chapters in quotation marks: ["2.7", "ch04_training"].')
    of = {path.stem: list(needs(path.read_text(encoding="utf-8"))) for path in tree.exercises}
    every = {number for numbers in of.values() for number in numbers}
    names = [progress.REPLACED_BY.get(n, n) if key == "keep" else n for n in names]  # an edition.yml may be older
    names = [n for n in names if n not in progress.REPLACED_BY]
    for name in names:
        if name not in every and name not in of:
            there = of.get(next((t for t in of if t.startswith(f"ch0{name.partition('.')[0]}_")), ""), [])
            known = f"its chapter has {there[0]} to {there[-1]}" if there else f"chapters are {', '.join(of)}"
            raise SourceError(f'There is no exercise "{name}" in "{key}": {known}.')
    listed = {number for name in names for number in of.get(name, [name])}
    gone = every - listed if key == "keep" else listed
    gone |= {number for topic in of if chapters and topic not in chapters for number in of[topic]}
    if gone == every:
        raise SourceError("The edition would have no exercise left: keep one of them.")
    return tuple(sorted(gone, key=_order))


def _order(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))


def _points(said: object, tree: Tree, left_out: tuple[str, ...]) -> dict[str, float]:
    """Points of exercises that are worth something else here; parts of an answer keep their shares, in quarters of a point."""
    if not isinstance(said, dict) or not all(type(n) in (int, float) and n > 0 for n in said.values()):
        raise SourceError('"points" gives exercises their points, such as {"4.1": 2, "4.2": 1.5}.')
    texts = [path.read_text(encoding="utf-8") for path in tree.exercises]
    there = {number for text in texts for number in needs(text)} - set(left_out)
    written = {number for text in texts for number in by_hand(text)}
    for number in said:
        if number not in there:
            raise SourceError(f'"points" names {number!r}, which is no exercise of this edition.')
        if number in written:
            raise SourceError(f"A person grades exercise {number} by a rubric that has points: they stay as they are.")
    return {number: float(n) for number, n in said.items()}


def _dates(said: object, topics: list[str]) -> Dates:
    if not isinstance(said, dict):
        raise SourceError('"dates" are days by chapter, as in ch02_sharding: {release: 2027-03-01, due: 2027-03-15}.')
    found = {}
    for topic, days in said.items():
        if topic not in topics:
            raise SourceError(f'"dates" names a chapter "{topic}": there are {", ".join(topics)}.')
        if not isinstance(days, dict) or set(days) != {"release", "due"}:
            raise SourceError(f"The dates of {topic} are two: release and due.")
        for what, day in days.items():
            if type(day) is not datetime.date:
                raise SourceError(f"{what} of {topic} is a day such as 2027-03-15, not {day!r}.")
        if days["due"] < days["release"]:
            raise SourceError(f"{topic} is due on {days['due']}, before its release on {days['release']}.")
        found[topic] = (days["release"], days["due"])
    return found


def _fit(chapters: tuple[str, ...], left_out: tuple[str, ...], dates: Dates, more: dict[str, str], tree: Tree) -> None:
    """What is added and dated goes with what is there."""
    for topic in more:
        if chapters and topic not in chapters:
            raise SourceError(f'You add exercises to {topic}, which is not in "chapters".')
    for path in tree.exercises:
        gone = set(needs(path.read_text(encoding="utf-8"))) <= set(left_out)
        if path.stem in dates and path.stem not in more and gone:
            raise SourceError(f'"dates" names {path.stem}, all of whose exercises are left out: take its dates away.')


def missing(edition: Edition, tree: Tree) -> dict[str, list[str]]:
    """Exercises that stay, each with those that it builds on and that are left out: students have not done these."""
    found, gone = {}, set(edition.left_out)
    texts = [path.read_text(encoding="utf-8") for path in tree.exercises] + list(edition.more.values())
    for number, wanted in [pair for text in texts for pair in needs(text).items()]:
        if wanted & gone and number not in gone:
            found[number] = sorted(wanted & gone, key=_order)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.edition", description=__doc__.split("\n")[0])
    parser.add_argument("edition", type=Path, help="a file such as autograder/edition.yml.example")
    parser.add_argument(
        "--into", type=str.strip, required=True, help="a new folder, or that of an edition to make again"
    )
    options = parser.parse_args(argv)
    try:
        if not options.into:  # what `make edition` hands on without INTO
            raise SourceError("Say where the edition is to lie: --into ../ours, or make edition INTO=../ours.")
        into = Path(options.into).expanduser()
        if not options.edition.is_file():
            raise SourceError(f"There is no file {options.edition}: copy autograder/edition.yml.example.")
        wanted = read(options.edition.read_text(encoding="utf-8"), Tree(), options.edition.parent)
        aside = edition_tree.make(wanted, into)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    for number, gone in missing(wanted, Tree()).items():
        print(f"Exercise {number} builds on {', '.join(gone)}, not in this edition.")
    for topic, (_, due) in sorted(wanted.dates.items()):
        if due < datetime.date.today():
            print(f"Mind the year: {topic_of(topic)} was due on {due}, which is past.")
    if aside:
        print(f"You had changed these by hand; yours lie in {edition_tree.ASIDE} there: {', '.join(aside)}.")
    print(f"The edition lies in {into}: go there and type make release, then .venv/bin/course or make book.")
    print(f"To hand out: {edition_tree.students_of(into)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
