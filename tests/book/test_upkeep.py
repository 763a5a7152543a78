"""The page on upkeep names the modules that use what others do not promise to keep."""

import re

from autograder.places import ROOT

PAGE = (ROOT / "book/instructor_upkeep.md").read_text(encoding="utf-8")


def using(pattern: str) -> set[str]:
    """Modules of the course whose text has this."""
    files = [p for folder in ("helpers", "autograder") for p in (ROOT / folder).rglob("*.py")]
    return {p.relative_to(ROOT).as_posix() for p in files if re.search(pattern, p.read_text(encoding="utf-8"))}


def listed(heading: str) -> set[str]:
    """Modules in the table of a section."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return set(re.findall(r"^\| `([\w/]+\.py)` \|", section, re.M))


def test_modules_that_reach_into_jax():
    assert listed("JAX") == using(r"from jax\._src|import jax\._src") and len(listed("JAX")) == 5


def test_modules_that_change_nbgrader():
    """Those that put something of ours in the place of what nbgrader calls."""
    assert listed("nbgrader") == using(
        r"(?m)^\s*(?:Autograde|Validator)\.\w+(?:, [\w.]+)* = |mock\.patch\.object\(step"
    )


def test_commands_name_files_that_are_there():
    for path in re.findall(r"\b(?:tests|autograder|book)/[\w./]+", PAGE):
        assert (ROOT / path.rstrip(".")).exists(), path
