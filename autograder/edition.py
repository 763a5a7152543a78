"""An instructor's own edition of the course: `python -m autograder.edition edition.yml --into FOLDER`.

A full tree, with its own title, dates, seed and choice of exercises, from which `make book`, `make release` and `make lab` work.
"""

import argparse
import datetime
import json
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from . import edition_more
from .links import TITLE
from .places import ROOT, SourceError, Tree
from .release import release

KEYS = ("title", "author", "seed", "leave-out", "add", "dates", "worked-solutions")
FILES = ("LICENSE", "Makefile", "_config.yml", "_toc.yml", "pyproject.toml", "requirements.in", "requirements.txt")
FOLDERS = ("autograder", "book", "helpers", "solutions")
MADE = {"source", "release", "submitted", "autograded", "feedback", "exchange", "cache", "gradescope", ".grading"}
MARK = ".edition.yml"
"""Where an edition keeps what it was made from."""

START = re.compile(r"^\(ex-(\d+)-(\d+)\)=\s*$")
FENCE = re.compile(r"^(`{3,}|:{3,})")


@dataclass(frozen=True)
class Edition:
    """What an instructor chose; `dates` maps a topic to its (release, due), `more` a topic to own exercises."""

    title: str = "Rooflines to Racks"
    author: str = "The authors of Rooflines to Racks"
    seed: str = "0"
    left_out: tuple[str, ...] = ()
    dates: dict[str, tuple[datetime.date, datetime.date]] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    worked: bool = False


def read(text: str, tree: Tree, beside: Path = Path()) -> Edition:
    """The edition that a file in the folder `beside` describes; SourceError, one sentence, at the first thing that is wrong."""
    try:
        said = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError) as error:
        raise SourceError(f"The edition is not YAML: {str(error).splitlines()[0]}.") from error
    if not isinstance(said, dict):
        raise SourceError(f"An edition is a list of keys with values, such as {', '.join(KEYS)}.")
    for key in said:
        if key not in KEYS:
            raise SourceError(f'An edition has no key "{key}": there are {", ".join(KEYS)}.')
    names = {key: _line(key, said[key]) for key in ("title", "author") if key in said}
    seed = said.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise SourceError(f'"seed" is a whole number from 0 on, not {seed!r}.')
    if type(worked := said.get("worked-solutions", False)) is not bool:
        raise SourceError(f'"worked-solutions" is true or false, not {worked!r}.')
    more = edition_more.own(beside / _line("add", said["add"]), tree) if "add" in said else {}
    return Edition(**names, seed=str(seed), left_out=_left_out(said.get("leave-out", []), tree),
                   dates=_dates(said.get("dates", {}), tree), more=more, worked=worked)  # fmt: skip


def _line(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise SourceError(f'"{key}" is one line of text, not {value!r}.')
    return value.strip()


def _left_out(said: object, tree: Tree) -> tuple[str, ...]:
    """Exercises to leave out: none that a remaining one needs, and not all of a chapter."""
    if not isinstance(said, list) or not all(isinstance(n, str) for n in said):
        raise SourceError('"leave-out" is a list of exercises in quotation marks, such as ["2.7", "3.1"].')
    for path in tree.exercises:
        needed = needs(path.read_text(encoding="utf-8"))
        gone = set(said) & set(needed)
        for number in sorted(gone):
            users = [n for n, wanted in needed.items() if number in wanted and n not in said]
            if users:
                raise SourceError(f"Exercise {number} is needed by {', '.join(users)}: leave these out as well.")
        if gone and gone == set(needed):
            raise SourceError(f"{path.stem} would have no exercise left: keep one of them.")
        said = [n for n in said if n not in gone] + [f" {n}" for n in gone]  # marked as found
    for number in said:
        if not number.startswith(" "):
            raise SourceError(f'There is no exercise "{number}" to leave out.')
    return tuple(sorted(n.strip() for n in said))


def _dates(said: object, tree: Tree) -> dict[str, tuple[datetime.date, datetime.date]]:
    topics = [path.stem for path in tree.exercises]
    if not isinstance(said, dict):
        raise SourceError(
            '"dates" gives each chapter its days, such as ch02_sharding: {release: 2027-03-01, due: 2027-03-15}.'
        )
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


def blocks(text: str) -> list[tuple[str | None, list[str]]]:
    """Lines of a source in order, with the exercise that they belong to, if any.

    >>> blocks("a\\n(ex-1-2)=\\nb\\n## c")
    [(None, ['a']), ('1.2', ['(ex-1-2)=', 'b']), (None, ['## c'])]
    """
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    fence = None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            fence = None if line.strip() == fence else fence
        elif mark:
            fence = mark[1]
        elif m := START.match(line):
            found.append((f"{m[1]}.{m[2]}", []))
        elif line.startswith("## "):
            found.append((None, []))
        found[-1][1].append(line)
    return found


def needs(text: str) -> dict[str, set[str]]:
    """For each exercise of a source, those that its data line says it needs."""
    found = {}
    for number, lines in blocks(text):
        if number:
            data = next((line for line in lines if re.match(r"[★☆]{3} · ", line)), "")
            found[number] = set(re.findall(r"(?<![\d.])\d\.\d{1,2}(?![\d.e])", data.partition("needs")[2]))
    return found


def cut(text: str, left_out: tuple[str, ...]) -> str:
    """A source without these exercises; what they name by `% let` stays, for later ones may use it."""
    lines = []
    for number, block in blocks(text):
        lines += [line for line in block if line.startswith("% let ")] if number in left_out else block
    return unlinked("\n".join(lines).rstrip("\n") + "\n", left_out)


def unlinked(text: str, left_out: tuple[str, ...]) -> str:
    """Text in which nothing points to an exercise that is not there.

    >>> unlinked("Practice: {ref}`Exercise 2.1 <ex-2-1>`.\\nSee {ref}`2.1 <ex-2-1>`.", ("2.1",))
    'See 2.1 (not in this edition).'
    """
    gone = "|".join(f"ex-{n.replace('.', '-')}" for n in left_out)
    if not gone:
        return text
    link = re.compile(r"\{ref\}`([^`<]*\S)\s*<(?:" + gone + r")>`")
    kept = []
    for line in text.split("\n"):
        if line.startswith("Practice: ") and link.search(line) and "{ref}" not in link.sub("", line):
            continue
        kept.append(link.sub(r"\1 (not in this edition)", line))
    return "\n".join(kept)


def make(edition: Edition, into: Path, root: Path = ROOT) -> None:
    """Write the edition's tree, its notebooks included; nothing of `root` is changed.

    SourceError if `root` is an edition itself, or `into` is not empty or lies within `root`.
    """
    into = into.resolve()
    if (root / MARK).exists():
        raise SourceError("This is an edition already: make another one from the course itself.")
    if into.is_relative_to(root.resolve()):
        raise SourceError(f"{into} lies in the course's own folder: name one outside of it.")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise SourceError(f"{into} is not an empty folder: name one that is, or a new one.")
    with tempfile.TemporaryDirectory() as folder:  # a refusal half-way leaves nothing behind
        made, scratch = Path(folder).resolve() / "edition", Path(folder).resolve() / "course"
        made.mkdir()
        _copy(root, made)
        _choose(edition, made)
        release(Tree(made), scratch, database=False)
        shutil.copytree(made, into, dirs_exist_ok=True)


def _copy(root: Path, made: Path) -> None:
    def ignored(folder: str, names: list[str]) -> set[str]:
        own = (
            {n for n in names if n in MADE or n.startswith("gradebook.db")}
            if Path(folder) == root / "autograder"
            else set()
        )
        return own | {n for n in names if n in ("__pycache__", ".ipynb_checkpoints", "_build", ".nbgrader.log")}

    for name in FILES:
        shutil.copy(root / name, made / name)
    for name in FOLDERS:
        shutil.copytree(root / name, made / name, ignore=ignored)


def _choose(edition: Edition, made: Path) -> None:
    """Title, author, seed, dates and exercises, in a fresh copy."""
    for path in sorted([*(made / "book").rglob("*.md"), *(made / "solutions").glob("*.md")]):
        text = cut(path.read_text(encoding="utf-8"), edition.left_out)
        for number in edition.left_out:
            if re.search(rf"\bex-{number.replace('.', '-')}\b", text):
                raise SourceError(
                    f"{path.name} points to exercise {number} in a way that cannot be cut: keep {number}."
                )
        path.write_text(text, encoding="utf-8", newline="\n")
    _add(edition, made)
    for path in (made / "autograder").glob("*ants/ch*.yaml"):  # sample answers, which make demo grades
        _drop_samples(path, edition.left_out)
    table = made / "book/data/methods.json"
    methods = json.loads(table.read_text(encoding="utf-8"))
    for row in methods["methods"]:
        row["exercises"] = [n for n in row["exercises"] if n not in edition.left_out]
    table.write_text(json.dumps(methods, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _replace(made / "_config.yml", r"^title: .*$", f"title: {json.dumps(edition.title, ensure_ascii=False)}")
    _replace(made / "_config.yml", r"^author: .*$", f"author: {json.dumps(edition.author, ensure_ascii=False)}")
    _replace(made / "book/intro.md", r"^# .*$", f"# {edition.title}")
    _replace(made / "autograder/startpage.py", r'"# Rooflines to Racks"', repr(f"# {edition.title}"))
    _replace(
        made / "Makefile",
        r"^export JUPYTER_CONFIG_PATH",
        f"export COURSE_SEED ?= {edition.seed}\nexport JUPYTER_CONFIG_PATH",
    )
    if edition.dates:
        rows = "".join(f"| {topic} | {first} | {due} |\n" for topic, (first, due) in sorted(edition.dates.items()))
        _replace(
            made / "book/intro.md",
            r"^## Predict",
            f"## Dates\n\n| exercises | released | due |\n|---|---|---|\n{rows}\n## Predict",
        )
    out = f"Exercises left out: {', '.join(edition.left_out)}.\n" if edition.left_out else ""
    (made / "README.md").write_text(
        f"# {edition.title}\n\nAn edition of Rooflines to Racks, made by `python -m autograder.edition`, without its tests.\n"
        f"{out}`make lab`, `make book` and `make release` work here; {MARK} says what was chosen.\n", encoding="utf-8")  # fmt: skip
    chosen = {"title": edition.title, "author": edition.author, "seed": int(edition.seed), "leave-out": list(edition.left_out),
              "dates": {t: {"release": a, "due": b} for t, (a, b) in edition.dates.items()}, "added": sorted(edition.more),
              "worked-solutions": edition.worked}  # fmt: skip
    (made / MARK).write_text(yaml.safe_dump(chosen, allow_unicode=True, sort_keys=False), encoding="utf-8")


def _add(edition: Edition, made: Path) -> None:
    """Own exercises behind a chapter's, and pages of worked solutions, in a folder of their own."""
    for path in sorted((made / "solutions").glob("ch*.md")):
        text = path.read_text(encoding="utf-8")
        if path.stem in edition.more:
            text = edition_more.added(text, edition.more[path.stem])
            path.write_text(text, encoding="utf-8", newline="\n")
        if edition.worked:
            chapter = TITLE.search((made / "book" / path.name).read_text(encoding="utf-8"))[1].strip()
            (made / "worked").mkdir(exist_ok=True)
            page = edition_more.worked(blocks(text), chapter)
            (made / "worked" / path.name).write_text(page, encoding="utf-8", newline="\n")
            entry = f"          - file: notebooks/{path.stem}/exercises"
            _replace(made / "_toc.yml", f"^{entry}$", f"{entry}\n          - file: worked/{path.stem}")


def _drop_samples(path: Path, left_out: tuple[str, ...]) -> None:
    gone = tuple("ch{:02d}-q{:02d}".format(*map(int, n.split("."))) for n in left_out)
    samples = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    kept = {k: v for k, v in samples.items() if not k.startswith(gone)}
    if len(kept) < len(samples):
        path.write_text(yaml.safe_dump(kept, allow_unicode=True, sort_keys=False), encoding="utf-8", newline="\n")


def _replace(path: Path, pattern: str, by: str) -> None:
    text, n = re.subn(pattern, lambda _: by, path.read_text(encoding="utf-8"), count=1, flags=re.M)
    if not n:
        raise SourceError(f"{path.name} has no place for {by!r}: is this the course's own folder?")
    path.write_text(text, encoding="utf-8", newline="\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.edition", description=__doc__.split("\n")[0])
    parser.add_argument("edition", type=Path, help="a file such as autograder/edition.yml.example")
    parser.add_argument("--into", type=Path, required=True, help="a folder that is new or empty")
    options = parser.parse_args(argv)
    try:
        if not options.edition.is_file():
            raise SourceError(f"There is no file {options.edition}: copy autograder/edition.yml.example.")
        make(read(options.edition.read_text(encoding="utf-8"), Tree(), options.edition.parent), options.into)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The edition lies in {options.into}: go there and type make lab, make book or make release.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
