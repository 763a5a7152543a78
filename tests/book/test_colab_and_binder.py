"""Links that open a chapter's notebooks elsewhere: the right notebook, the right repository, on those pages only."""

import re
from types import SimpleNamespace

import pytest
import yaml

from tests.book.conftest import ROOT, extension, page_names

launch = extension("colab_and_binder")

BOOK = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
PAGES = [name.removesuffix(".html") for name in page_names()]


def made(page, monkeypatch, **environment) -> list[str]:
    """The addresses on a page of the book."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    theme = {"repository_url": BOOK["url"], "repository_branch": BOOK["branch"]}
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options=theme))
    launch.add(app, page, "page.html", context := {"body": "<h1>Title</h1><h1>Next</h1>"}, None)
    assert re.match(r'<h1>Title</h1>(\n<p class="launch">.*</p>)?<h1>Next</h1>$', context["body"])
    return re.findall(r'<a href="([^"]+)"', context["body"])


def test_chapters_and_exercises_open_what_is_released_and_no_source(monkeypatch):
    opened = {page: made(page, monkeypatch) for page in PAGES}
    notebooks = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "notebooks").glob("ch*/*.ipynb"))
    for service, cut in (("colab.research.google.com/", "/blob/main/"), ("mybinder.org/", "/main?urlpath=lab/tree/")):
        found = [a.split(cut)[1] for each in opened.values() for a in each if service in a]
        assert sorted(found) == notebooks
    assert {page for page, each in opened.items() if each} == {p for p in PAGES if re.search(r"/ch\d\d_", p)}
    assert all("ch01_rooflines" in a for page in PAGES if "ch01_rooflines" in page for a in opened[page])


def test_a_fork_opens_the_fork(monkeypatch):
    colab, binder = made("book/ch01_rooflines", monkeypatch, GITHUB_REPOSITORY="ada/course")
    assert "/github/ada/course/blob/main/" in colab and "/gh/ada/course/main?" in binder
    elsewhere = {"GITHUB_REPOSITORY": 'a"/c', "GITHUB_SERVER_URL": "https://git.example.edu"}
    assert made("book/ch01_rooflines", monkeypatch, **elsewhere)[0].startswith(
        "https://mybinder.org/v2/git/https%3A%2F%2Fgit.example.edu%2Fa%22%2Fc/main?"
    )


@pytest.mark.parametrize("page", ["book/ch01_rooflines.html", "notebooks/ch01_rooflines/exercises.html"])
def test_the_links_stand_under_the_title_for_hands_and_keys_but_not_on_paper(visit, page):
    opened = visit(page)
    links = opened.locator("h1 + p.launch a")
    kind = "reading" if page.startswith("book/") else "exercises"
    assert links.count() == opened.locator(".launch a").count() == 2
    assert all(a.get_attribute("href").endswith(f"/ch01_rooflines/{kind}.ipynb") for a in links.all())
    links.first.focus()
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.textContent").endswith("in Binder")
    assert not visit.asked
    opened.emulate_media(media="print")
    assert not links.first.is_visible()


def test_the_start_page_leads_to_the_repository(monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    start = (ROOT / "book/intro.md").read_text(encoding="utf-8")
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options={"repository_url": BOOK["url"]}))
    launch.add(app, "book/intro", "page.html", context := {"body": start}, None)
    assert f'<a href="{BOOK["url"]}">clone the repository</a>' in context["body"]
    assert 'id="clone"' not in context["body"]
