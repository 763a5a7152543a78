"""The page that searches: what is read out of pages, where the words of searches.yaml lead, and what it says without JavaScript."""

import json
import re
from urllib.parse import quote

import pytest
import yaml

from tests.book.conftest import ROOT, extension

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


search = extension("section_search")

PAGE = """
<section id="training"><span id="ch-training"></span><h1>4. Training<a class="headerlink" href="#training">#</a></h1>
 <p>One model.</p>
 <section style="--narrow:1px" id="four-designs"><span id="sec-designs"></span><h2>Four designs</h2>
  <p>Which <math><mi>T</mi></math>?</p>
  <div class="math notranslate"><span class="eqno">(4.7)<a class="headerlink" href="#e">#</a></span><math><mi>unseen</mi></math></div>
  <p id="sec-batched"><strong>Batched.</strong> Pad <strong>all</strong>.</p>
  <p id="sec-plain">No word in bold.</p>
  <p>After them.</p>
  <div class="cell"><div class="cell_input"><pre><span>ppermute</span>(x)</pre></div>
   <div class="cell_output"><pre>1.5</pre><table><tr><td>9</td></tr></table></div></div>
  <details><div class="cell_input"><pre>folded_name</pre></div></details></section>
 <section id="exercise-4-1"><span id="ex-4-1"></span><h3>Exercise 4.1</h3><script>no()</script><form>not this</form></section>
</section>"""


def test_sections_of_a_page_with_their_anchors_their_prose_and_what_is_around_them():
    found = search.Sections("a.html", PAGE).found
    assert [(s.anchor, search.called(s), " ".join(s.text.split()), s.parent and s.parent.anchor) for s in found] == [
        ("ch-training", "4. Training", "One model.", None),
        ("sec-designs", "Four designs", "Which T? After them.", "ch-training"),
        ("sec-batched", "Batched", "Batched. Pad all.", "sec-designs"),
        ("sec-plain", "Four designs", "No word in bold.", "sec-designs"),
        ("ex-4-1", "Exercise 4.1", "", "ch-training"),
    ]
    assert found[1].code == {"ppermute"} and found[1].equations == ["equation 4.7"]


def test_a_section_is_found_by_each_of_its_labels():
    html = (
        '<section id="used-once"><span id="sec-b"></span><span id="sec-a"></span><h2>Used once</h2><p>x</p></section>'
    )
    (found,) = search.Sections("a.html", f'<section id="t"><h1>T</h1>{html}</section>').found[1:]
    assert (found.anchor, found.labels) == ("sec-a", ["used-once", "sec-b", "sec-a"])


def test_headings_that_a_cell_wrote_go_on_to_the_next():
    found = search.Sections(
        "a.html", '<section id="a"><h1>A</h1><h2 id="b">B</h2><h3 id="c">C</h3><p>c</p><h2 id="d">D</h2>d</section>e'
    ).found
    assert [(s.anchor, s.text, s.parent and s.parent.anchor) for s in found] == [
        ("a", "", None), ("b", "", "a"), ("c", "c", "b"), ("d", "d", "a")
    ]  # fmt: skip


@pytest.mark.parametrize("also, names", [("", []), ("also: RingAttention, KV ring · ", ["RingAttention", "KV ring"])])
def test_an_entry_of_the_glossary(also, names):
    page = (
        '<dt id="term-ring">ring<a class="headerlink" href="#term-ring">#</a></dt><dd><p>Devices in a <em>circle</em>.\n'
        f'<a class="reference internal" href="ch06.html#sec-ring"><span>A ring</span></a> · {also}<span lang="ko">링, 고리*</span>'
        ' · <span lang="zh">环*</span></p>\n</dd>'
    )
    assert search.entries(page) == [
        {
            "anchor": "term-ring",
            "term": "ring",
            "definition": "Devices in a circle.",
            "names": [*names, "링", "고리", "环"],
            "section": ("ch06.html", "sec-ring"),
        }
    ]


def test_chips_and_models_lead_to_their_row_and_to_the_planner():
    hardware = (
        '<thead><tr><th scope="col">chip</th><th scope="col">HBM</th><th scope="col">fp4</th></tr></thead>'
        '<tr id="chip-h200"><th scope="row">H200</th><td>141 GB</td><td>–</td></tr>'
    )
    planner = (
        '<select id="live-planner-chip" name="chip"><option value="H200">H200</option></select>'
        '<select id="live-planner-model"><option value="llama-3-70b" selected>llama-3-70b</option></select>'
    )
    row, chip, model = search.things(hardware, planner)
    assert row[:2] == ["H200", "book/hardware.html#chip-h200"] and row[3] == "FLOPs/s in HBM: 141 GB"
    assert {"NVIDIA H200", "Hopper"} <= set(row[2])
    assert chip[:2] == ["H200 in the planner", "book/planner.html#live-planner?chip=H200"]
    assert model[1] == "book/planner.html#live-planner?model=llama-3-70b" and "llama-3.1-70b" in model[2]
