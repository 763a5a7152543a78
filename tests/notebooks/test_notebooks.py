"""The notebooks that learners open: only what JupyterLab and Colab render, and exactly what the sources give."""

import json
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import nbformat
import pytest

from autograder.making import cells
from autograder.places import ROOT, Tree
from autograder.making.bank import REGION

TREE = Tree(ROOT)
NOTEBOOKS = sorted(TREE.notebooks.glob("ch*/*.ipynb"))
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.S)
MYST = re.compile(r":::|```\{|^\([\w:.-]+\)=\s*$|(?<!`)\{[a-z]+\}`|\{\{", re.M)


def name(path):
    return "/".join(path.parts[-2:])


@cache
def cells_of(path):
    return nbformat.read(path, as_version=4).cells


@cache
def anchors(path):
    return {a for cell in cells_of(path) for a in re.findall(r'<a id="([^"]+)"', cell.source)}


def own_process(*words: str) -> str:
    """What Python prints, where JAX has not started and so compiles quickly."""
    found = subprocess.run([sys.executable, *words], cwd=TREE.root, capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.slow("makes every notebook: a minute and a half of a processor")
def test_up_to_date():
    assert own_process("-m", "autograder.release", "--check") == ""


def test_one_chapter_is_up_to_date():
    """That whose values take least time: no program over devices."""
    code = "from autograder import places, release; release.compile_quickly(); print(*release.check(places.Tree(), 'ch03'))"
    assert own_process("-c", code) == ""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_no_myst_is_left(path):
    for cell in cells_of(path):
        if cell.cell_type == "markdown":
            text = re.sub(r"`[^`\n]+`", "", cell.source)  # code spans may speak of anything
            assert not MYST.search(text), f"{cell.id}: {MYST.search(text)[0]}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_valid_clean_and_the_same_everywhere(path):
    nb = nbformat.read(path, as_version=4)
    nbformat.validate(nb)
    course = nb.metadata.get("course", {})  # what answers may use
    assert {key: value for key, value in nb.metadata.items() if key != "course"} == cells.METADATA
    assert [*course] == (["helpers"] if path.stem == "exercises" else [])
    assert all(find_spec(module) for module in course.get("helpers", ()))
    assert path.read_text(encoding="utf-8") == nbformat.writes(nb, version=nbformat.NO_CONVERT) + "\n"
    for cell in nb.cells:
        assert not cell.get("outputs")
        assert not cell.get("execution_count")
        shown = (
            {"course"} if cell.metadata.get("nbgrader", {}).get("grade") else set()
        )  # what the site shows of a check
        assert set(cell.metadata) <= {"nbgrader", "jupyter", "deletable", "editable", "tags"} | shown
        assert set(cell.metadata.get("tags", [])) <= cells.FOLDING  # no tag that changes what runs


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_links_lead_somewhere(path):
    for cell in cells_of(path):
        if cell.cell_type != "markdown":
            continue
        for href in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", cell.source)):
            page, _, anchor = href.partition("#")
            if re.match(r"[a-z]+:", href):
                continue
            target = (path.parent / page).resolve() if page else path
            assert target.is_file(), f"{cell.id}: {href}"
            assert not anchor or target not in NOTEBOOKS or anchor in anchors(target), f"{cell.id}: {href}"


@pytest.mark.parametrize("source", TREE.exercises, ids=lambda p: p.stem)
def test_no_solution_and_no_hidden_test_leaks(source):
    text = source.read_text(encoding="utf-8")
    regions = [m[2] for m in REGION.finditer(text)] + HIDDEN.findall(text)
    secret = {line.split("  #")[0].strip() for region in regions for line in region.splitlines()} | {"check.hidden()"}
    public = HIDDEN.sub("", REGION.sub("", text))
    shown = {line.split("  #")[0].strip() for line in public.splitlines()}
    said = re.compile(r"""f?(["']).*\1,?""")  # a mistake is named in the part that is seen, and again on hidden inputs
    secret = {s for s in secret - shown if len(s) > 12 and not (said.fullmatch(s) and s.rstrip(",") in public)}
    assert secret
    notebook = TREE.released(source.stem)
    checks = json.loads(notebook.with_name("checks.json").read_text(encoding="utf-8"))
    text = "\n".join([c.source for c in cells_of(notebook)] + [line for check in checks.values() for line in check])
    assert {s for s in secret if s in text} == set()
    assert "BEGIN SOLUTION" not in text
    assert "HIDDEN TESTS" not in text


def test_start_page_links_to_every_notebook():
    text = (TREE.notebooks / "README.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"({name(path)})" in text
