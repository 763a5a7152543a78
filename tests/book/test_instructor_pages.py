"""Upkeep names what uses that which others do not promise to keep, in one module each; lectures fit their time and chapter."""

import ast
import re

import pytest

from autograder.places import ROOT, Tree

UPKEEP = (ROOT / "book/instructor_upkeep.md").read_text(encoding="utf-8")


def using(pattern: str) -> set[str]:
    """Modules of the course whose text has this."""
    files = [p for folder in ("helpers", "autograder") for p in (ROOT / folder).rglob("*.py")]
    return {p.relative_to(ROOT).as_posix() for p in files if re.search(pattern, p.read_text(encoding="utf-8"))}


def listed(heading: str) -> set[str]:
    """Names in the table of a section."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", UPKEEP, re.M | re.S)[1]
    return set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+)\|", section, re.M))))


def made(module: str) -> set[str]:
    """Functions and classes of a module that others may use."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name[0] != "_"}


def test_one_module_reaches_into_jax():
    home = "autograder/engine/jax_internals.py"
    assert using(r"jax\._src|jax import _src") == {home} and home in UPKEEP
    assert listed("JAX") == made(home)


def test_one_module_changes_nbgrader():
    """It puts something of ours in the place of what nbgrader calls."""
    home = "autograder/grading/nbgrader_internals.py"
    changes = r"(?m)^\s*(?:Autograde|Validator)\.\w+(?:, [\w.]+)* = |mock\.patch\.object\(step|nbgrader\.converters"
    assert using(changes) == {home} and home in UPKEEP
    assert listed("nbgrader") <= made(home)


def test_commands_name_files_that_are_there():
    for path in re.findall(r"\b(?:tests|autograder|book)/[\w./]+", UPKEEP):
        assert (ROOT / path.rstrip(".")).exists(), path


LECTURES = (ROOT / "book/instructor_lectures.md").read_text(encoding="utf-8")
PARTS = LECTURES.split("\n## ")[1:]


@pytest.mark.parametrize("number", range(1, len(Tree().chapters) + 1))
def test_a_lecture_fits_its_time_and_its_chapter(number):
    part, core = PARTS[number - 1], Tree().chapters[number - 1].read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d*) ?\| (\d+) \| (.*?) \| (.*) \|$", part, re.M)[1:]
    assert len(rows) == part.count("\n| ") - 1 <= 10  # and two lines of a head
    short, long = (sum(int(row[i] or 0) for row in rows) for i in (0, 1))
    assert short == 45 and long == 90
    exercises = re.findall(r"<ex-(\d+)-\d+>", part)
    assert exercises == [str(number)] * 2
    for section, live in re.findall(r"\{ref\}`(sec-[\w-]+)`([^|]*)", part):
        text = core.partition(f"({section})=")[2].lstrip().partition("\n## ")[0]
        text = re.split(r"\n#{2,3} ", re.sub(r"\A(?:\(sec-[\w-]+\)=\n)*#+ .*\n", "", text))[0]
        assert text and ("{live}" in text) == bool(re.search(r"live|film", live)), section
        assert "plot." in text or "{live}" in text or "{math}" in text or "|---" in text, section


def test_every_chapter_has_one():
    assert len(PARTS) == len(Tree().chapters)
