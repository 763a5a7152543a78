"""The page that searches, from its file: where the words of searches.yaml lead, what it shows, and what it says without JavaScript."""

import json
import re
from urllib.parse import quote

import pytest
import yaml

from tests.book.conftest import ROOT

SEARCHES = yaml.safe_load((ROOT / "tests/book/searches.yaml").read_text(encoding="utf-8"))
FIND = "asked => asked.map(text => Search.find(text).slice(0, 3).map(found => found.address))"


STACKED = re.compile(r"(?:^\([\w:.-]+\)=\n)+", re.M)  # labels of one heading: its address ends in any of them
SAME = {
    label: {*labels}
    for path in (ROOT / "book").glob("*.md")
    for stack in STACKED.findall(path.read_text(encoding="utf-8"))
    for labels in [re.findall(r"\((.+)\)=", stack)]
    for label in labels
}


def missed(found: list[str], right: list[str], first: int) -> bool:
    """Whether none of the first addresses ends in one of the labels or in another one of its heading, or is that page."""
    ends = tuple(f"#{label}" for one in right for label in SAME.get(one, {one}))
    return not any(address.endswith((*ends, *(f"/{page}.html" for page in right))) for address in found[:first])


def test_there_are_enough_words_in_three_languages():
    words = [*SEARCHES["first"], *SEARCHES["kept"]]
    assert len(set(words)) == len(words) >= 80 and not SEARCHES["first"].keys() & SEARCHES["kept"].keys()
    for letters in ("가-힣", "\u4e00-\u9fff"):
        assert sum(bool(re.search(f"[{letters}]", word)) for word in words) >= 15


def test_an_address_elsewhere_is_a_miss():
    assert missed(["book/a.html#sec-b", "book/c.html#sec-d"], ["sec-d"], 1) and missed([], ["sec-d"], 3)
    assert not missed(["book/a.html#sec-b", "book/c.html#sec-d"], ["sec-d"], 3)
    assert not missed(["book/c.html"], ["c"], 1)
    assert not missed(["book/ch05_inference.html#sec-small-batches"], ["sec-serving-estimate"], 1)


@pytest.mark.parametrize(("kind", "first"), [("first", 1), ("kept", 3)])
@pytest.mark.sample(quick=0, draw=2)
def test_words_lead_to_their_section(visit, kind, first):
    page = visit("search.html")
    found = page.evaluate(FIND, list(SEARCHES[kind]))
    led = zip(SEARCHES[kind].items(), found, strict=True)
    assert (
        {word: at for (word, right), at in led if missed(at, right, first)} == {}
        and visit.errors == []
        and visit.asked == []
    )


def test_every_result_leads_to_something_that_is_there(site):
    text = (site / "_static/search_sections.js").read_text(encoding="utf-8")
    found = json.loads(text.removeprefix("var SECTIONS=").removesuffix(";\n"))
    pages = {name: (site / name).read_text(encoding="utf-8") for name in found["pages"]}
    addresses = [(found["pages"][page], anchor) for page, anchor, *_ in found["sections"]]
    addresses += [("book/glossary.html", anchor) for anchor, *_ in found["terms"]]
    addresses += [tuple(address.partition("?")[0].split("#")) for _, address, *_ in found["things"]]
    assert len(addresses) > 600
    assert [(page, anchor) for page, anchor in addresses if f'id="{anchor}"' not in pages[page]] == []
    assert all(title and parent < n for n, (_, _, title, parent, *_) in enumerate(found["sections"]))


def test_a_phone_shows_where_the_words_stand_and_goes_there(visit):
    page = visit(f"search.html?q={quote('blocks of keys travel round the ring')}", width=390, height=800)
    first = page.locator("#search-results li").first
    assert first.locator("mark").count() >= 2 and " › " in first.locator(".search-trail").inner_text()
    assert re.fullmatch(
        r"(The best \d+ of )?\d+ places? for “blocks of keys travel round the ring”\.",
        page.locator("#search-status").inner_text(),
    )
    page.locator(".bd-search-container input").fill("pipline bubble")
    first = page.locator("#search-results li").first
    assert "Glossary" in first.inner_text() and "pipline" in page.url
    first.locator("> a").click()
    page.wait_for_url("**/ch04_training.html#sec-naive-pipeline")
    assert visit.errors == [] and visit.asked == []


def test_nothing_found_is_said_and_marks_of_patterns_are_words(visit):
    page = visit("search.html?q=zzzzqqqq")
    assert page.locator("#search-status").inner_text().startswith("Nothing for “zzzzqqqq”")
    for odd in ("(", "C++ [", "<b>", "a.b*", "\\", "%", "6.17", " "):
        page.locator(".bd-search-container input").fill(odd)
        assert page.locator("#search-results b").count() == 0
    assert visit.errors == []


def test_a_word_is_replaced_by_a_near_one_only_and_the_page_says_so(visit):
    page = visit("search.html", width=360)
    field, status = page.locator(".bd-search-container input"), page.locator("#search-status")
    field.fill("pipline bubble")
    assert status.inner_text().startswith("Nothing for “pipline”; shown: “pipeline”. ")
    for word in ("cooling", "citation", "beam"):  # not bool, notation, beat
        field.fill(word)
        assert status.inner_text().startswith(f"Nothing for “{word}”. Try")
    field.fill("x" * 300)
    assert f"“{'x' * 60}…”" in status.inner_text() and visit.errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_chip_and_a_model_open_the_planner_with_it(visit):
    page = visit("search.html?q=deepseek-v3")
    page.locator("#search-results a").first.click()
    page.wait_for_function("document.querySelector('#live-planner-model')?.value === 'deepseek-v3'")
    assert "ignored" not in page.locator("#live-planner [role=status]").inner_text() and visit.errors == []


def test_without_javascript_it_says_where_else_to_look(visit):
    page = visit("search.html", javascript=False)
    assert not page.locator(".bd-search-container input").is_visible()
    assert {"book/glossary.html", "book/methods.html", "book/hardware.html"} <= {
        a.get_attribute("href") for a in page.locator(".bd-search-container p a").all() if a.is_visible()
    }


def test_the_search_of_any_page_leads_there(visit):
    page = visit("notebooks/ch01_rooflines/exercises.html")
    page.keyboard.press("Control+k")
    page.locator("#pst-search-dialog input").fill("링 어텐션")
    page.keyboard.press("Enter")
    page.locator("#search-results a[href$='#sec-ring']").first.wait_for()
    assert visit.errors == [] and visit.asked == []


def test_a_name_of_the_glossary_or_of_a_method_and_a_title_of_an_exercise_lead_there(visit, site):
    """Every fifth of what the sources list; where they lead is read from them, and not from what the search was given."""
    entry = re.compile(r"^(\S.*)\n(?:  %.*\n)?.*\n  \{ref\}`(?:[^`<]+ <)?([\w-]+)>?` · (.*)$", re.M)
    wanted = {
        name: label
        for term, label, more in entry.findall((ROOT / "book/glossary.md").read_text(encoding="utf-8"))
        for name in [term, *re.split(r", | · ", re.sub(r"<[^>]+>|\\\*|also: ", "", more))]
    }
    methods = json.loads((ROOT / "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
    wanted |= {m["name"]: m["section"] for m in methods}
    for source in (ROOT / "solutions").glob("ch*.md"):
        found = re.findall(r"^### Exercise (\d+)\.(\d+) — (.+)$", source.read_text(encoding="utf-8"), re.M)
        wanted |= {f"{k}.{n} {title}": f"ex-{k}-{n}" for k, n, title in found}
    assert len(wanted) > 1_100
    some = dict(list(wanted.items())[::5])
    found = visit("search.html").evaluate(FIND, list(some))
    assert {name: at for (name, label), at in zip(some.items(), found, strict=True) if missed(at, [label], 3)} == {}
