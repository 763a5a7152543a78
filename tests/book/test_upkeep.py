"""The page on upkeep names what uses that which others do not promise to keep, in one module each."""

import ast
import re

from autograder.places import ROOT

PAGE = (ROOT / "book/instructor_upkeep.md").read_text(encoding="utf-8")


def using(pattern: str) -> set[str]:
    """Modules of the course whose text has this."""
    files = [p for folder in ("helpers", "autograder") for p in (ROOT / folder).rglob("*.py")]
    return {p.relative_to(ROOT).as_posix() for p in files if re.search(pattern, p.read_text(encoding="utf-8"))}


def listed(heading: str) -> set[str]:
    """Names in the table of a section."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+)\|", section, re.M))))


def made(module: str) -> set[str]:
    """Functions and classes of a module that others may use."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name[0] != "_"}


def test_one_module_reaches_into_jax():
    home = "autograder/engine/jax_internals.py"
    assert using(r"jax\._src|jax import _src") == {home} and home in PAGE
    assert listed("JAX") == made(home)


def test_one_module_changes_nbgrader():
    """It puts something of ours in the place of what nbgrader calls."""
    home = "autograder/grading/nbgrader_internals.py"
    changes = r"(?m)^\s*(?:Autograde|Validator)\.\w+(?:, [\w.]+)* = |mock\.patch\.object\(step|nbgrader\.converters"
    assert using(changes) == {home} and home in PAGE
    assert listed("nbgrader") <= made(home)


def test_commands_name_files_that_are_there():
    for path in re.findall(r"\b(?:tests|autograder|book)/[\w./]+", PAGE):
        assert (ROOT / path.rstrip(".")).exists(), path
