"""The two trees of an edition: the lecturer's with all that grading needs, and the students' without what answers can be read from."""

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from autograder.places import MARK, ROOT, SourceError, Tree, topic_of

from . import edition_extras
from .edition_text import blocks, cut, headed, opened, weighed
from .links import EQUATION, LABELLED, TITLE
from .start_page import escaped

FILES = (
    ".gitignore", ".gitattributes", "LICENSE", "Makefile", "_config.yml", "_toc.yml", "pyproject.toml", "requirements.in",
    "requirements.txt",
)  # fmt: skip
FOLDERS = (".binder", ".devcontainer", "autograder", "book", "helpers", "solutions")
OF_A_CLASS = {
    "source", "release", "submitted", "autograded", "feedback", "exchange", "cache", ".grading", "collected", "alike",
    "extensions.csv", "accepted.csv", "class_config.py", "grades.csv", "canvas.csv", "moodle.csv",
}  # fmt: skip
"""What a class leaves in autograder/, which is not the course's."""
LIST = ".edition-files.json"
"""What an edition wrote, file -> digest: made again, it replaces these and leaves all others alone."""
ASIDE = "edition-before"
NOT_FOR_STUDENTS = ("__pycache__", "_build", "won.yaml", "edition.yml.example", "teaching.mk", MARK)
"""In _build lie values of checks, beside the checks that they are of."""
GONE = "not_in_this_edition"
RELEASE = """\
import sys
from pathlib import Path

from autograder.places import Tree
from autograder.release import release

release(Tree(), Path(sys.argv[1]), database=False)
"""


def students_of(into: Path) -> Path:
    """Where the students' tree lies, beside the lecturer's."""
    return into.with_name(f"{into.name}-students")


def make(edition, into: Path, root: Path = ROOT) -> list[str]:
    """Write both trees, notebooks included; the files that had been changed by hand, which are put aside.

    SourceError if `root` is an edition itself, or `into` lies within `root`, or is neither empty nor an edition.
    """
    into = into.resolve()
    if (root / MARK).exists():
        raise SourceError("This is an edition already: make another one from the course itself.")
    if into.is_relative_to(root.resolve()):
        raise SourceError(f"{into} lies in the course's own folder: name one outside of it.")
    for folder in (into, students_of(into)):
        if folder.exists() and not (folder / LIST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
            raise SourceError(f"{folder} is neither empty nor an edition: name a new folder, or that of an edition.")
    _same_course(edition, into)
    with tempfile.TemporaryDirectory() as folder:  # a refusal half-way leaves nothing behind
        made = Path(folder).resolve() / "edition"
        made.mkdir()
        _copy(root, made)
        today = datetime.date.today()
        closed = [p.stem for p in Tree(made).exercises if not edition.is_open(p.stem, today)]
        _choose(edition, made, closed)
        _released(made)
        edition_extras.judged(edition.more, Tree(made))
        handed = Path(folder).resolve() / "students"
        hand_out(made, handed, closed)
        named = [f"{students_of(into).name}/{name}" for name in lay(handed, students_of(into))]
        return lay(made, into) + named


def _same_course(edition, into: Path) -> None:
    """Grades stay with the name that they were given under."""
    before = yaml.safe_load((into / MARK).read_text(encoding="utf-8")) if (into / MARK).is_file() else {}
    was = before.get("course_id", edition.course_id)
    if was != edition.course_id and (into / "autograder/gradebook.db").exists():
        raise SourceError(
            f'{into} has grades of the course "{was}": keep that "course_id", or make the new class in a folder of its own.'
        )


def lay(made: Path, into: Path) -> list[str]:
    """Put a tree where it is to lie; what else lies there stays, and a file that was changed by hand is put aside and named."""
    into.mkdir(parents=True, exist_ok=True)
    if not (into / LIST).is_file():
        _write_list(into, {})  # one that is stopped half-way is an edition as well
    kept = json.loads((into / LIST).read_text(encoding="utf-8"))
    files = {p.relative_to(made).as_posix(): p for p in sorted(made.rglob("*")) if p.is_file()}
    new = {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in files.items()}
    aside = []
    for name, digest in kept.items():
        old = into / name
        now = hashlib.sha256(old.read_bytes()).hexdigest() if old.is_file() else ""
        if now and now not in (digest, new.get(name)):
            (into / ASIDE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(old, into / ASIDE / name)
            aside.append(name)
        if now and name not in new:
            old.unlink()
    for name, path in files.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, part := into / f"{name}.part")
        os.replace(part, into / name)  # a file that is cut would count as changed by hand
    _write_list(into, new)
    return aside


def _write_list(into: Path, files: dict[str, str]) -> None:
    _write(part := into / f"{LIST}.part", json.dumps(files, indent=0))
    os.replace(part, into / LIST)


def hand_out(made: Path, into: Path, closed: list[str]) -> None:
    """The students' tree: no solution, sample, hidden test or lecturer's file of a chapter whose answers they do not get."""
    shutil.copytree(made, into, ignore=shutil.ignore_patterns(*NOT_FOR_STUDENTS))
    for path in [*(into / "solutions").glob("*.md"), *(into / "autograder/samples").glob("*/ch*.yaml")]:
        if path.stem in closed:
            path.unlink()
    if not Tree(into).exercises:
        for folder in ("solutions", "autograder/samples"):
            shutil.rmtree(into / folder)
    title = yaml.safe_load((into / "_config.yml").read_text(encoding="utf-8"))["title"]
    told = "Type `make env` once, then `.venv/bin/course`: it makes your own copies of the notebooks in `work/` and opens JupyterLab.\n"
    (into / "README.md").write_text(f"# {escaped(title)}\n\n{told}", encoding="utf-8")


def _released(made: Path) -> None:
    """The edition's notebooks, by its own program: the prose counts the exercises and minutes of the folder it lies in."""
    program, env = [sys.executable, "-c", RELEASE, str(made.parent / "course")], os.environ | {"PYTHONPATH": str(made)}
    done = subprocess.run(program, cwd=made, env=env, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().split("\n")[-1]
        raise SourceError(last.removeprefix("autograder.places.SourceError: "))  # any other keeps its name


def _copy(root: Path, made: Path) -> None:
    def ignored(folder: str, names: list[str]) -> set[str]:
        left = {n for n in names if n in ("__pycache__", ".ipynb_checkpoints", "_build", ".nbgrader.log")}
        if Path(folder) == root / "autograder":
            left |= {n for n in names if n in OF_A_CLASS or n.startswith("gradebook.db")}
        return left

    for name in FILES:
        shutil.copy(root / name, made / name)
    for name in FOLDERS:
        shutil.copytree(root / name, made / name, ignore=ignored)


def _choose(edition, made: Path, closed: list[str]) -> None:
    """Title, dates, chapters, exercises and points, in a fresh copy."""
    chapters = edition.chapters or tuple(p.stem for p in Tree(made).chapters)
    said = edition.said() | {"closed": closed}
    (made / MARK).write_text(yaml.safe_dump(said, allow_unicode=True, sort_keys=False), encoding="utf-8")
    gone = _left_out(edition, made, chapters)
    tree = Tree(made)
    for path in tree.exercises:
        text = weighed(path.read_text(encoding="utf-8"), edition.points)
        if path.stem in edition.more:
            text = edition_extras.added(text, edition.more[path.stem])
        _exercises(path, text, edition.due(path.stem), tree)
        if edition.solutions != "never" and path.stem not in closed and path.is_file():
            title = TITLE.search((made / "book" / path.name).read_text(encoding="utf-8"))[1].strip()
            _write(made / "worked" / path.name, edition_extras.worked(blocks(text), title))
    for path in (made / "autograder/samples").glob("*/ch*.yaml"):  # sample answers, of which checks know mistakes
        _drop_samples(path, edition.left_out, chapters)
    _drop_rows(made / "book/data", gone)
    _contents(tree, edition.chapters)
    _name(edition, made, tree.exercises[0].stem)


def _left_out(edition, made: Path, chapters: tuple[str, ...]) -> set[str]:
    """Take away exercises and chapters; their labels, which stand on a page that says what is not there."""
    tree, about, labels = Tree(made), {}, set()
    for path in tree.exercises:
        for number, lines in blocks(path.read_text(encoding="utf-8")):
            if number in edition.left_out:
                title = next(line.removeprefix("### ") for line in lines if line.startswith("### "))
                about.setdefault(path.stem, []).append(f"(ex-{number.replace('.', '-')})=\n### {title}\n")
    for path in [p for p in tree.readings if topic_of(p.stem) not in chapters]:
        text = path.read_text(encoding="utf-8")
        found = [f"({m[1]})=\n" + (f"### {m[2]}\n" if m[2] else "") for m in LABELLED.finditer(text)]
        math = re.findall(r"^```\{math\}\n.*?^```$", text, re.M | re.S)
        about.setdefault(topic_of(path.stem), [])[:0] = found + [m for m in math if EQUATION.search(m)]
        labels |= {m[1] for m in LABELLED.finditer(text)}
        path.unlink()
    for path in tree.exercises:
        text = cut(path.read_text(encoding="utf-8"), edition.left_out)
        path.write_text(text, encoding="utf-8", newline="\n")
    addresses = made / "book/data/addresses.json"
    known = json.loads(addresses.read_text(encoding="utf-8"))
    kept = {topic: ids for topic, ids in known.items() if topic in chapters}
    _write(addresses, json.dumps(kept, indent=1, ensure_ascii=False))
    if about:
        begin = "(not-{})=\n## Chapter {}\n\n"
        parts = [begin.format(t[:4], int(t[2:4])) + "\n".join(said) for t, said in sorted(about.items())]
        where = yaml.safe_load((made / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
        head = f"# Not in this edition\n\nWhat a link to this page is about is left out here; [the whole course]({where}) has it.\n"
        _write(made / f"book/{GONE}.md", "\n".join([head, *parts]))
    page = re.compile(r"\{doc\}`(?:([^`<]*\S)\s*<)?((ch\d\d)_[a-z]+)>?`")  # a chapter, and no page further down
    for path in [*tree.readings, *tree.exercises, *tree.pages]:
        text = path.read_text(encoding="utf-8")
        _write(path, page.sub(lambda m: m[0] if m[2] in chapters else f"{{ref}}`{m[1] or m[2]} <not-{m[3]}>`", text))
    return labels


def _exercises(path: Path, text: str, due: str | None, tree: Tree) -> None:
    """A chapter's exercises, and what the chapter says of them; without any left, no page and no notebook of them."""
    chapter = tree.root / "book" / path.name
    some = any(number for number, _ in blocks(text))
    if some:
        _write(path, headed(text, due))
    else:
        path.unlink()
    if chapter.is_file():
        _write(chapter, opened(chapter.read_text(encoding="utf-8"), text if some else None, due))


def _contents(tree: Tree, chosen: tuple[str, ...]) -> None:
    """The table of contents: chapters in their order, their numbers kept, and the pages that are new here."""
    path = tree.root / "_toc.yml"
    toc = yaml.safe_load(path.read_text(encoding="utf-8"))
    of = {Path(entry["file"]).stem: entry for entry in toc["parts"][0]["chapters"]}
    there = {p.stem for p in tree.exercises}
    if chosen:
        of = {topic: of[topic] for topic in chosen}
        toc["parts"][0].pop("numbered", None)
    for topic, entry in of.items():
        own = [s for s in entry.get("sections", []) if topic in there or s["file"] != f"notebooks/{topic}/exercises"]
        own[1:1] = [{"file": f"worked/{topic}"}] * (tree.root / f"worked/{topic}.md").is_file()
        entry.pop("sections", None)
        entry |= {"sections": own} if own else {}
        if chosen:
            text = (tree.root / f"book/{topic}.md").read_text(encoding="utf-8")
            entry["title"] = f"{int(topic[2:4])} · {TITLE.search(text)[1]}"
    toc["parts"][0]["chapters"] = list(of.values())
    if (tree.root / f"book/{GONE}.md").is_file():
        toc["parts"][-2]["chapters"].append({"file": f"book/{GONE}"})
    path.write_text(yaml.safe_dump(toc, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _drop_rows(data: Path, gone: set[str]) -> None:
    """Tables of methods and errata without rows that lead to a section that is not there."""
    for name, key in (("methods", "methods"), ("errata", "errata")):
        table = json.loads((data / f"{name}.json").read_text(encoding="utf-8"))
        table[key] = [row for row in table[key] if row["section"] not in gone]
        if "first" in table:
            table["first"] = [i for i in table["first"] if any(row["id"] == i for row in table[key])]
        _write(data / f"{name}.json", json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def _name(edition, made: Path, first: str) -> None:
    """The edition's own title, author, class, seed and dates, where the course's stand."""
    title = json.dumps(edition.title, ensure_ascii=False)
    of = " · ".join(filter(None, (edition.class_, edition.term)))
    _replace(made / "_config.yml", r"^title: .*$", f"title: {title}")
    _replace(made / "_config.yml", r"^author: .*$", f"author: {json.dumps(edition.author, ensure_ascii=False)}")
    if edition.repository:
        _replace(made / "_config.yml", r"(?<=^repository: \{url: )[^,}]*", edition.repository)
    _replace(made / ".devcontainer/devcontainer.json", r'"name": .*,$', f'"name": {title},')
    _replace(made / "book/intro.md", r"^# .*$", f"# {escaped(edition.title)}" + (f"\n\n{escaped(of)}" if of else ""))
    _replace(made / "Makefile", r"^ASSIGNMENT \?= .*$", f"ASSIGNMENT ?= {first}")
    seed = f"export COURSE_SEED ?= {edition.seed}\nexport JUPYTER_CONFIG_PATH"
    _replace(made / "Makefile", r"^export JUPYTER_CONFIG_PATH", seed)
    for config in ("autograder/nbgrader_config.py", "autograder/students/nbgrader_config.py"):
        _replace(made / config, r'course_id = "rooflines"', f'course_id = "{edition.course_id}"')
    if edition.dates:
        rows = "".join(
            f"| {{doc}}`exercises {int(topic[2:4])} <../notebooks/{topic}/exercises>` | {start} | {due} |\n"
            for topic, (start, due) in sorted(edition.dates.items(), key=lambda pair: pair[1])
        )
        dates = f"## Dates\n\n| exercises | released | due |\n|---|---|---|\n{rows}\n## Predict"
        _replace(made / "book/intro.md", r"^## Predict", dates)
    _write(
        made / "README.md",
        f"# {escaped(edition.title)}\n\n{escaped(of)}\n\nAn edition of Rooflines to Racks for whoever teaches it, made by "
        f"`python -m autograder.edition`, without the course's tests. {MARK} says what was chosen.\nIt holds answers and hidden "
        "tests: students get the folder beside it, whose name ends in `-students`.\n",
    )  # fmt: skip


def _drop_samples(path: Path, left_out: tuple[str, ...], chapters: tuple[str, ...]) -> None:
    if path.stem not in chapters:
        path.unlink()
        return
    gone = tuple("ch{:02d}-q{:02d}".format(*map(int, n.split("."))) for n in left_out)
    samples = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    kept = {k: v for k, v in samples.items() if not k.startswith(gone)}
    if len(kept) < len(samples):
        _write(path, yaml.safe_dump(kept, allow_unicode=True, sort_keys=False))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _replace(path: Path, pattern: str, by: str) -> None:
    text, n = re.subn(pattern, lambda _: by, path.read_text(encoding="utf-8"), count=1, flags=re.M)
    if not n:
        raise SourceError(f"{path.name} has no place for {by!r}: is this the course's own folder?")
    path.write_text(text, encoding="utf-8", newline="\n")
