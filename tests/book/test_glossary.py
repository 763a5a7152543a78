"""The glossary: in order, every term with its section, its other names, and its words in Korean and Chinese."""

import re
from collections import Counter

import pytest

from tests.book.conftest import ROOT

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
