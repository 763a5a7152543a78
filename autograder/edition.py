"""An instructor's own edition of the course: `python -m autograder.edition edition.yml --into FOLDER`.

A full tree, with its own title, dates, seed and choice of exercises, from which `make book`, `make release` and `make lab` work.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from autograder.making.edition_text import blocks, cut, headed, needs, opened, unlinked
from autograder.making.further_down import further
from autograder.making.links import TITLE
from autograder.making.start_page import escaped
from helpers.check import progress

from .making import edition_extras
from .places import ROOT, SourceError, Tree
from .release import write

KEYS = ("title", "author", "seed", "leave-out", "add", "dates", "worked-solutions")
FILES = (
    ".gitignore",
    ".gitattributes",
    "LICENSE",
    "Makefile",
    "_config.yml",
    "_toc.yml",
    "pyproject.toml",
    "requirements.in",
    "requirements.txt",
)
FOLDERS = (".binder", ".devcontainer", "autograder", "book", "helpers", "solutions")
MADE = {
    "source",
    "release",
    "submitted",
    "autograded",
    "feedback",
    "exchange",
    "cache",
    "gradescope",
    ".grading",
    "collected",
}
RELEASE = """\
import sys
from pathlib import Path

from autograder.places import SourceError, Tree
from autograder.release import release

try:
    release(Tree(), Path(sys.argv[1]), database=False)
except SourceError as error:
    sys.exit(str(error))
"""
MARK = ".edition.yml"
"""Where an edition keeps what it was made from."""


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

    def due(self, topic: str) -> str | None:
        """The day by which a chapter's exercises are handed in, as readers see it."""
        return self.dates[topic][1].isoformat() if topic in self.dates else None


def read(text: str, tree: Tree, beside: Path = Path()) -> Edition:
    """The edition that a file in the folder `beside` describes; SourceError, one sentence, at the first thing that is wrong."""
    said = _loaded(text)
    names = {key: _line(key, said[key]) for key in ("title", "author") if key in said}
    if "<" in names.get("title", ""):
        raise SourceError('"title" is plain text, without "<": the pages would take it for HTML.')
    seed = said.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise SourceError(f'"seed" is a whole number from 0 on, not {seed!r}.')
    if type(worked := said.get("worked-solutions", False)) is not bool:
        raise SourceError(f'"worked-solutions" is true or false, not {worked!r}.')
    more = edition_extras.own(beside / _line("add", said["add"]), tree) if "add" in said else {}
    left_out, dates = _left_out(said.get("leave-out", []), tree), _dates(said.get("dates", {}), tree)
    _fit(left_out, dates, more, tree)
    return Edition(**names, seed=str(seed), left_out=left_out, dates=dates, more=more, worked=worked)


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
    for key in said:
        if key not in KEYS:
            raise SourceError(f'An edition has no key "{key}": there are {", ".join(KEYS)}.')
    return said


def _fit(left_out: tuple[str, ...], dates: dict, more: dict[str, str], tree: Tree) -> None:
    """What is added and dated goes with what is left out."""
    for topic, own in more.items():
        for number, wanted in needs(own).items():
            for gone in sorted(wanted & set(left_out), key=_order):
                raise SourceError(f"Your exercise {number} in {topic}.md needs {gone}, which is left out: keep {gone}.")
    for path in tree.exercises:
        if (
            path.stem in dates
            and path.stem not in more
            and set(needs(path.read_text(encoding="utf-8"))) <= set(left_out)
        ):
            raise SourceError(f'"dates" names {path.stem}, all of whose exercises are left out: take its dates away.')


def _line(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
        raise SourceError(f'"{key}" is one line of text, not {value!r}.')
    return value.strip()


def _left_out(said: object, tree: Tree) -> tuple[str, ...]:
    """Exercises to leave out, by number or by chapter: none that a remaining one needs, and not all."""
    if not isinstance(said, list) or not all(isinstance(n, str) for n in said):
        raise SourceError(
            '"leave-out" is a list of exercises or chapters in quotation marks, such as ["2.7", "ch04_training"].'
        )
    of = {path.stem: needs(path.read_text(encoding="utf-8")) for path in tree.exercises}
    needed = {number: wanted for chapter in of.values() for number, wanted in chapter.items()}
    said = [name for name in said if name not in progress.REPLACED_BY]  # an edition.yml may be older
    for name in said:
        if name not in needed and name not in of:
            there = of.get(next((t for t in of if t.startswith(f"ch0{name.partition('.')[0]}_")), ""), {})
            known = (
                f"its chapter has {next(iter(there))} to {list(there)[-1]}"
                if there
                else f"chapters are {', '.join(of)}"
            )
            raise SourceError(f'There is no exercise "{name}" to leave out: {known}.')
    gone = {number for name in said for number in of.get(name, [name])}
    for number in sorted(gone, key=_order):
        users: set[str] = set()
        while more := {n for n, wanted in needed.items() if wanted & {number, *users}} - gone - users:
            users |= more  # and those that need these
        if users:
            raise SourceError(
                f"Exercise {number} is needed by {', '.join(sorted(users, key=_order))}: leave these out as well, or keep {number}."
            )
    if gone and gone == set(needed):
        raise SourceError("The edition would have no exercise left: keep one of them.")
    return tuple(sorted(gone, key=_order))


def _order(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))


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
        made = Path(folder).resolve() / "edition"
        made.mkdir()
        _copy(root, made)
        _choose(edition, made)
        _released(made)
        edition_extras.judged(edition.more, Tree(made))
        shutil.copytree(made, into, dirs_exist_ok=True)


def _released(made: Path) -> None:
    """The edition's notebooks, by its own program: the prose counts the exercises and minutes of the folder it lies in."""
    env = {**os.environ, "PYTHONPATH": str(made)}
    program = [sys.executable, "-c", RELEASE, str(made.parent / "course")]
    done = subprocess.run(program, cwd=made, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SourceError(done.stderr.strip().split("\n")[-1])  # a sentence, or the end of a traceback


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
    tree = Tree(made)
    _cut(edition, tree)
    _add(edition, tree)
    _name(edition, tree)
    for path in (made / "autograder/samples").glob("*/ch*.yaml"):  # sample answers, which make demo grades
        _drop_samples(path, edition.left_out)
    table = made / "book/data/methods.json"
    methods = json.loads(table.read_text(encoding="utf-8"))
    for row in methods["methods"]:
        row["exercises"] = [n for n in row["exercises"] if n not in edition.left_out]
    table.write_text(json.dumps(methods, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    chosen = {"title": edition.title, "author": edition.author, "seed": int(edition.seed), "leave-out": list(edition.left_out),
              "dates": {t: {"release": a, "due": b} for t, (a, b) in edition.dates.items()}, "added": sorted(edition.more),
              "worked-solutions": edition.worked}  # fmt: skip
    (made / MARK).write_text(yaml.safe_dump(chosen, allow_unicode=True, sort_keys=False), encoding="utf-8")


def _cut(edition: Edition, tree: Tree) -> None:
    """Exercises go, and with them what the text says of them."""
    for path in sorted([*tree.readings, *tree.exercises, *tree.pages]):
        text, name = path.read_text(encoding="utf-8"), f"{path.parent.name}/{path.name}"
        text = unlinked(text, edition.left_out) if path in tree.pages else cut(text, edition.left_out, name)
        write(path, text)


def _add(edition: Edition, tree: Tree) -> None:
    """Own exercises behind a chapter's, what each chapter says of its exercises, and pages of worked solutions."""
    for path in tree.exercises:
        text, due = path.read_text(encoding="utf-8"), edition.due(path.stem)
        if path.stem in edition.more:
            text = edition_extras.added(text, edition.more[path.stem])
        if not any(number for number, _ in blocks(text)):
            _forget(path, tree)
            continue
        write(path, headed(text, due))
        chapter = tree.root / "book" / path.name
        write(chapter, opened(chapter.read_text(encoding="utf-8"), text, due))
        if edition.worked:
            title = TITLE.search(chapter.read_text(encoding="utf-8"))[1].strip()
            write(tree.root / "worked" / path.name, edition_extras.worked(blocks(text), title))
            entry = f"          - file: notebooks/{path.stem}/exercises"
            _replace(tree.root / "_toc.yml", f"^{entry}$", f"{entry}\n          - file: worked/{path.stem}")
    for path in [*tree.readings, *tree.exercises, *tree.pages]:
        for number in edition.left_out:
            text = path.read_text(encoding="utf-8")
            if m := re.search(rf"\bex-{number.replace('.', '-')}\b", text):
                line = text.count("\n", 0, m.start()) + 1
                raise SourceError(
                    f"{path.name}, line {line} in the edition, points to exercise {number} in a way that cannot be cut: "
                    f"keep {number}."
                )


def _forget(path: Path, tree: Tree) -> None:
    """A chapter that has no exercise left: neither a notebook nor a page of exercises."""
    topic, root = path.stem, tree.root
    path.unlink()
    shutil.rmtree(root / "notebooks" / topic, ignore_errors=True)
    chapter = root / "book" / path.name
    write(chapter, opened(chapter.read_text(encoding="utf-8"), None, None))
    left = "        sections:\n" if further(chapter) else ""
    _replace(root / "_toc.yml", rf"^        sections:\n +- file: notebooks/{topic}/exercises\n", left)
    link = rf"\{{doc\}}`[^`<]*<\.\./notebooks/{topic}/exercises>`"
    intro = (root / "book/intro.md").read_text(encoding="utf-8")
    write(root / "book/intro.md", re.sub(rf" and {link}", "", re.sub(rf"\| {link} \|", "| |", intro)))
    if left := tree.exercises:
        _replace(root / "Makefile", r"^ASSIGNMENT \?= .*$", f"ASSIGNMENT ?= {left[0].stem}")


def _name(edition: Edition, tree: Tree) -> None:
    """The edition's own title, author, seed and dates, where the course's stand."""
    made, title = tree.root, json.dumps(edition.title, ensure_ascii=False)
    _replace(made / "_config.yml", r"^title: .*$", f"title: {title}")
    _replace(made / "_config.yml", r"^author: .*$", f"author: {json.dumps(edition.author, ensure_ascii=False)}")
    _replace(made / ".devcontainer/devcontainer.json", r'"name": .*,$', f'"name": {title},')
    _replace(made / "book/intro.md", r"^# .*$", f"# {escaped(edition.title)}")
    _replace(
        made / "Makefile",
        r"^export JUPYTER_CONFIG_PATH",
        f"export COURSE_SEED ?= {edition.seed}\nexport JUPYTER_CONFIG_PATH",
    )
    if edition.dates:
        rows = "".join(
            f"| {{doc}}`exercises {int(topic[2:4])} <../notebooks/{topic}/exercises>` | {first} | {due} |\n"
            for topic, (first, due) in sorted(edition.dates.items())
        )
        _replace(
            made / "book/intro.md",
            r"^## Predict",
            f"## Dates\n\n| exercises | released | due |\n|---|---|---|\n{rows}\n## Predict",
        )
    out = f"Exercises left out: {', '.join(edition.left_out)}.\n" if edition.left_out else ""
    (made / "README.md").write_text(
        f"# {escaped(edition.title)}\n\nAn edition of Rooflines to Racks, made by `python -m autograder.edition`, without its tests.\n"
        f"{out}`make lab`, `make book` and `make release` work here; {MARK} says what was chosen.\n"
        "Before you publish it, let `repository` in `_config.yml` name the place where this folder is, and run `make release`:\n"
        "the site's buttons for Colab and Binder, and each notebook's first cell, look there.\n", encoding="utf-8")  # fmt: skip


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


def _folder(said: str) -> Path | None:
    """None for an empty word, which is what `make edition` hands on without INTO."""
    return Path(said).expanduser() if said.strip() else None


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.edition", description=__doc__.split("\n")[0])
    parser.add_argument("edition", type=Path, help="a file such as autograder/edition.yml.example")
    parser.add_argument("--into", type=_folder, required=True, help="a folder that is new or empty")
    options = parser.parse_args(argv)
    try:
        if not options.into:
            raise SourceError("Say where the edition is to lie: --into ../ours, or make edition INTO=../ours.")
        if not options.edition.is_file():
            raise SourceError(f"There is no file {options.edition}: copy autograder/edition.yml.example.")
        wanted = read(options.edition.read_text(encoding="utf-8"), Tree(), options.edition.parent)
        make(wanted, options.into)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    for topic, (_, due) in sorted(wanted.dates.items()):
        if due < datetime.date.today():
            print(f"Mind the year: {topic} was due on {due}, which is past.")
    print(f"The edition lies in {options.into}: go there and type make lab, make book or make release.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
