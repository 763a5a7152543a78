"""The built site, the checker that judges it, and what its pages may weigh."""

import json
import re

import yaml

from tests.book.conftest import ROOT, page_names
from tools import weight
from tools.check_site import check

SECRET = re.compile(r"### BEGIN (?:SOLUTION|HIDDEN TESTS)(.*?)### END (?:SOLUTION|HIDDEN TESTS)", re.S)


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
        for block in SECRET.findall(source.read_text(encoding="utf-8"))
        for line in block.splitlines()
    }
    secret = {line for line in secret if len(line) > 40 and not re.match(r"(from|import) ", line)}
    published = (p for p in site.rglob("*") if p.suffix in (".html", ".js", ".ipynb", ".md", ".txt"))
    public = "\n".join(p.read_text(encoding="utf-8", errors="ignore") for p in published)
    chapters = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "book").glob("*.md"))
    assert [line for line in secret if line in public and line not in chapters] == []


def test_chapters_were_executed(site):
    """Every code cell of a chapter has run, and none of them failed."""
    for path in (site / "book").glob("ch*.html"):
        text = path.read_text(encoding="utf-8")
        assert "cell_output" in text and "Traceback" not in text and "✗" not in text
    assert not (site / "reports").exists()


def test_pages_come_from_the_sources_that_learners_get(site):
    """The copies under _sources of released notebooks are the released notebooks."""
    for copy in (site / "_sources/notebooks").rglob("*.ipynb"):
        released = ROOT / copy.relative_to(site / "_sources")
        assert json.loads(copy.read_text(encoding="utf-8")) == json.loads(released.read_text(encoding="utf-8"))


def test_solutions_and_grading_are_not_in_the_contents():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert config["only_build_toc_files"] and {"solutions", "autograder"} <= set(config["exclude_patterns"])
    assert all(name.startswith(("book/", "notebooks/")) for name in page_names())
    assert not (ROOT / "_static").exists(), "Jupyter Book loads every script of a _static at the root on every page"


# KB with all a page names, 15 % over the heaviest of its kind: chapters, exercises, the page that searches with all prose of the
# book beside it, everything else
BOUNDS = {"book/ch": 259, "notebooks/": 126, "search": 345, "": 170}


def test_no_page_is_heavier_than_its_kind_may_be(site):
    found = weight.report(site, site.parent / "reports/weight.json")
    bound = {name: next(b for start, b in BOUNDS.items() if name.startswith(start)) for name in found}
    assert {name: size for name, size in found.items() if size > 1000 * bound[name]} == {}
