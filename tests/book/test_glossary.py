"""The glossary: in order, every term with its section, other names and languages; what chapters link to it, and what not."""

import re
from collections import Counter

import pytest
from docutils import nodes

from autograder.places import Tree, topic_of
from tests.book.conftest import ROOT, extension

TEXT = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(
    r"^(?P<term>\S.*)\n(?:  % linked: (?P<linked>.+)\n)?  (?P<says>.+)\n"
    r"  \{ref\}`(?:[^`<]+ <)?(?P<label>[\w-]+)>?` · (?:also: (?P<also>.+?) · )?"
    r'<span lang="ko">(?P<ko>.+?)</span> · <span lang="zh">(?P<zh>.+?)</span>$',
    re.M,
)
FOUND = [m.groupdict(default="") for m in ENTRY.finditer(TEXT)]
CHAPTERS = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "book").glob("ch*.md"))]
# Of names that are the same everywhere.
LATIN = {*"VMEM pod logits softmax NCCL NVLink PCIe InfiniBand Pallas XLA ZeRO Transformer MoE token Roofline".split()}


def words(entry: dict, *kinds: str) -> list[str]:
    return [w for kind in kinds for w in entry[kind].replace("\\*", "").split(", ") if w]


def test_every_entry_is_whole_and_in_order():
    body = TEXT.split("```{glossary}\n")[1].removesuffix("```\n").strip()
    assert len(FOUND) == len(body.split("\n\n")) > 130
    terms = [e["term"].lower() for e in FOUND]
    assert terms == sorted(set(terms))


def test_every_letter_leads_to_its_first_word():
    first = {}
    for e in FOUND:
        first.setdefault(e["term"][0].upper(), e["term"])
    assert re.findall(r"\{term\}`(\w) <(.+)>`", TEXT) == list(first.items())


def test_every_term_leads_to_a_section_that_says_it():
    """The section that an entry names uses the term's first word, or the file does so before it."""
    letters = [re.sub(r"[^a-z]", "", c.lower()) for c in CHAPTERS]
    for e in FOUND:
        (n,) = [n for n, c in enumerate(CHAPTERS) if f"({e['label']})=" in c]
        word = re.sub(r"[^a-z]", "", e["term"].lower().split()[0])[:6]
        assert word in letters[n], e["term"]


def test_no_name_leads_to_two_entries():
    names = Counter(name for e in FOUND for name in {w.lower() for w in (e["term"], *words(e, "also", "ko", "zh"))})
    shared = {w.lower() for w in LATIN}  # in Korean and Chinese texts
    assert [name for name, times in names.items() if times > 1 and name not in shared] == []


@pytest.mark.parametrize(("place", "letters"), [("ko", "가-힣"), ("zh", "\u4e00-\u9fff")])
def test_words_are_of_their_language(place, letters):
    assert [w for e in FOUND for w in words(e, place) if not re.search(f"[{letters}]", w) and w not in LATIN] == []
    assert all(e["ko"] and e["zh"] for e in FOUND)


def test_forms_that_chapters_link_are_of_one_entry_and_stand_in_a_chapter():
    forms = Counter(form for e in FOUND for form in words(e, "linked"))
    assert [form for form, times in forms.items() if times > 1] == [] and len(forms) > 120
    text = "\n".join(CHAPTERS).lower()
    assert [e["term"] for e in FOUND if e["linked"] and not any(f.lower() in text for f in words(e, "linked"))] == []


links = extension("glossary_links")

CORES = {path.stem for path in Tree().chapters}
TERMS = {"hop": "hop", "hops": "hop", "ring attention": "ring attention", "attention": "attention", "HBM": "HBM"}
FORMS = {form: (term, f"What {term} is.") for form, term in TERMS.items()}


def linked(*pieces, around) -> str:
    """A paragraph as text, its links in brackets."""
    document, paragraph = nodes.document(None, None), nodes.paragraph()
    paragraph += [nodes.Text(p) if isinstance(p, str) else p for p in pieces]
    around += paragraph
    document += around
    links.add(document, FORMS, "glossary.html")
    made = list(paragraph.findall(nodes.reference))
    assert all(r["refuri"].startswith("glossary.html#term-") for r in made if "term" in r["classes"])
    return "".join(
        f"[{n.astext()}]" if isinstance(n, nodes.reference) and "term" in n["classes"] else n.astext()
        for n in paragraph.children
    )


@pytest.mark.parametrize("pieces, want", [
    (["Hops, and one hop."], "[Hops], and one hop."),
    (["Ring attention, then attention; attention."], "[Ring attention], then [attention]; attention."),
    (["A hop-count, hbm, an attentional thing."], "A hop-count, hbm, an attentional thing."),
    (
        [nodes.literal("", "hop"), nodes.reference("", "a hop", refuri="#x"), nodes.math("", "hop"), " HBM"],
        "hopa hophop [HBM]",
    ),
])  # fmt: skip
def test_the_first_of_each_term_is_linked_in_prose(pieces, want):
    assert linked(*pieces, around=nodes.container()) == want


@pytest.mark.parametrize(
    "around",
    [nodes.caption(), nodes.legend(), nodes.container(classes=["cell"]), nodes.table()],
    ids=["caption", "legend", "cell", "table"],
)
def test_captions_cells_and_tables_stay_as_they_are(around):
    assert linked("A hop of HBM.", around=around) == "A hop of HBM."


def test_a_meaning_is_one_plain_line():
    meanings = {says for _, says in links.linked((ROOT / "book/glossary.md").read_text(encoding="utf-8")).values()}
    assert len(meanings) > 90 and [says for says in meanings if re.search(r"[`$*{\[\\]", says) or len(says) > 150] == []


def test_a_chapter_leads_to_each_entry_at_most_once_and_other_pages_to_none(site):
    entries = set(re.findall(r'<dt id="(term-[^"]+)"', (site / "book/glossary.html").read_text(encoding="utf-8")))
    for path in (*site.glob("book/*.html"), *site.glob("notebooks/*/*.html")):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r'<a class="term" data-meaning="[^"]+" href="glossary\.html#([^"]+)"', text)
        assert len(found) == len(set(found)) and set(found) <= entries, path.name
        assert len(found) >= 20 if path.stem in CORES else not found or topic_of(path.stem) in CORES, path.name
        assert not re.search(r'<(h\d|figcaption|pre|summary)\b(?:(?!</\1>).)*class="term"', text, re.DOTALL), path.name


def test_a_term_says_what_it_means_where_pointer_or_focus_rests(visit):
    """Within the window, without JavaScript, and away with Esc."""
    box = """a => { const s = getComputedStyle(a, "::after"); return [s.content, s.display] }"""
    for width, javascript in ((1280, True), (390, True), (1280, False)):
        page = visit("book/ch01_rooflines.html", width=width, javascript=javascript)
        term = page.locator("a.term").first
        assert term.evaluate(box)[0] == "none"
        term.scroll_into_view_if_needed()
        page.keyboard.press("Tab")
        term.focus()
        content, display = term.evaluate(box)
        assert content.strip('"') == term.get_attribute("data-meaning") and display == "block"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if javascript:
            page.keyboard.press("Escape")
            assert term.evaluate(box)[1] == "none"
