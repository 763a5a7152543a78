"""The built site, and the checker that judges it."""

import json
import re
import subprocess
import sys

import pytest
import yaml

from tests.book.check_site import Fault, check
from tests.book.conftest import ROOT, extension, page_names

GOOD = '<html><head><title>t</title><meta name="description" content="d"></head><body>{}</body></html>'


def test_the_site_is_sound(site):
    assert check(site) == []


def test_every_page_of_the_contents_is_built_and_no_other(site):
    built = {p.relative_to(site).as_posix() for p in site.rglob("*.html") if "_static" not in p.relative_to(site).parts}
    assert built == {*page_names(), "index.html", "search.html", "genindex.html"}


def test_nothing_of_the_solutions_is_published(site):
    """No line of an answer: neither in pages, nor in the search index, nor in the sources that Sphinx copies."""
    assert not any(p.name == "solutions" for p in site.rglob("*"))
    secret = {
        line.strip()
        for source in (ROOT / "solutions").glob("*.md")
        for line in _secret_lines(source.read_text(encoding="utf-8"))
    }
    secret = {line for line in secret if len(line) > 40 and not re.match(r"(from|import) ", line)}
    published = (p for p in site.rglob("*") if p.suffix in (".html", ".js", ".ipynb", ".md", ".txt"))
    public = "\n".join(p.read_text(encoding="utf-8", errors="ignore") for p in published)
    chapters = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "book").glob("*.md"))
    assert [line for line in secret if line in public and line not in chapters] == []


def _secret_lines(text: str):
    inside = False
    for line in text.splitlines():
        if re.search(r"### BEGIN (SOLUTION|HIDDEN TESTS)", line):
            inside = True
        elif re.search(r"### END (SOLUTION|HIDDEN TESTS)", line):
            inside = False
        elif inside:
            yield line


def test_chapters_were_executed(site):
    """Every code cell of a chapter has run, and none of them failed."""
    for path in (site / "book").glob("ch*.html"):
        text = path.read_text(encoding="utf-8")
        assert "cell_output" in text and "Traceback" not in text
    assert not (site / "reports").exists()


def test_where_results_come_from_is_said_once_a_page(site):
    page = (site / "book/ch02_sharding_compiler.html").read_text(encoding="utf-8")
    assert page.count("<p>Stored: compiled on") == 1 and page.count(extension("said_once").AGAIN) > 3


def test_pages_come_from_the_sources_that_learners_get(site):
    """The copies under _sources of released notebooks are the released notebooks."""
    for copy in (site / "_sources/notebooks").rglob("*.ipynb"):
        released = ROOT / copy.relative_to(site / "_sources")
        assert json.loads(copy.read_text(encoding="utf-8")) == json.loads(released.read_text(encoding="utf-8"))


@pytest.mark.parametrize("body, kind", [
    ('<a href="gone.html">x</a>', "missing target"),
    ('<a href="#nowhere">x</a>', "missing anchor"),
    ('<a href="other.html#nowhere">x</a>', "missing anchor"),
    ('<img alt="a red line that rises" src="gone.svg">', "missing target"),
    ('<img src="other.svg">', "picture without words"),
    ('<img alt="../_images/other.svg" src="other.svg">', "picture without words"),
    ('<script src="https://cdn.example.org/x.js"></script>', "load from another host"),
    ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "load from another host"),
    ('<i id="a"></i><b id="a"></b>', "id used twice"),
    ("<p>see {eq}`eq-x`</p>", "untranslated"),
    ("<p>is {{ v5e.rate() }}</p>", "untranslated"),
    ("<p>### BEGIN HIDDEN TESTS</p>", "leak"),
])  # fmt: skip
def test_the_checker_finds_a_planted_fault(tmp_path, body, kind):
    (tmp_path / "other.html").write_text(GOOD.format("fine"))
    (tmp_path / "other.svg").write_text("<svg></svg>")
    (tmp_path / "page.html").write_text(GOOD.format('<a href="other.html">o</a>'))
    assert check(tmp_path) == []
    (tmp_path / "page.html").write_text(GOOD.format(body))
    assert {fault.kind for fault in check(tmp_path)} == {kind}


def test_the_checker_finds_faults_in_files_that_are_no_pages(tmp_path):
    (tmp_path / "page.html").write_text("<html><body>x</body></html>")
    (tmp_path / "x.css").write_text("@import url(https://example.org/f.css);")
    (tmp_path / "x.js").write_text('import("https://example.org/f.js")')
    (tmp_path / "index.js").write_text('{"text": "### BEGIN SOLUTION"}')
    assert sorted(f.kind for f in check(tmp_path)) == sorted(
        ["no title", "no description", "code that loads from another host", "code that loads from another host", "leak"]
    )


def test_the_checker_as_a_command(tmp_path):
    (tmp_path / "page.html").write_text(GOOD.format('<a href="gone.html">x</a>'))
    command = [sys.executable, "-m", "tests.book.check_site"]
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "page.html: missing target: gone.html" in done.stdout
    assert subprocess.run([*command, "/nowhere"], cwd=ROOT, capture_output=True).returncode == 2
    assert check(tmp_path / "empty") == [Fault(str(tmp_path / "empty"), "empty site", "there is no page")]


def test_solutions_and_grading_are_not_in_the_contents():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert config["only_build_toc_files"] and {"solutions", "autograder"} <= set(config["exclude_patterns"])
    assert all(name.startswith(("book/", "notebooks/")) for name in page_names())
    assert not (ROOT / "_static").exists(), "Jupyter Book loads every script of a _static at the root on every page"
