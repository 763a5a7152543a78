"""Chapters stay what readers asked for: pictures within three screens, a question and a sentence to keep in a section, little open code."""

import re

import pytest

from tools.text_measures import ROOT, measured, prose

CHAPTERS = sorted((ROOT / "book").glob("ch[0-9][0-9]_*.md"))
each = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
SCREENS = 680  # words: three screens of a desktop, with the formulas and questions that stand between them
HEAD = re.compile(r"^\((sec-[\w-]+)\)=\n#+ .*$", re.M)
LONG = 250  # words of a section that asks and ends in what to keep
AT_LEAST = 0.85  # of such sections ask a question; some measure, or are a table


def body(path) -> str:
    """A chapter up to its takeaways, of which problems and reading follow."""
    return re.split(r"^\(sec-ch\d\d-takeaways\)=", path.read_text(encoding="utf-8"), flags=re.M)[0]


def sections(path) -> dict[str, str]:
    _, *parts = HEAD.split(body(path))
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    return {label: text for label, text in found.items() if len(prose(text).split()) > LONG}


@each
def test_no_stretch_is_longer_than_three_screens_and_code_is_for_the_reader(path):
    m = measured(body(path))
    assert m.unbroken <= SCREENS
    assert m.questions >= 8
    assert m.open <= 80  # lines; a page has some 3,000


@each
def test_sections_ask_and_say_what_to_keep(path):
    found = sections(path)
    silent = [label for label, text in found.items() if not re.search(r"^:{3,}\{ask\}", text, re.M)]
    assert len(silent) <= (1 - AT_LEAST) * len(found), silent
    loose = [label for label, text in found.items() if "{admonition} To keep" not in text]
    assert len(loose) <= (1 - AT_LEAST) / 2 * len(found), loose


@each
def test_a_chapter_ends_with_takeaways_problems_and_where_to_read_on(path):
    text, n = path.read_text(encoding="utf-8"), path.stem[2:4]
    at = [text.index(f"(sec-ch{n}-{name})=") for name in ("takeaways", "problems", "reading")]
    assert at == sorted(at)
    assert len(re.findall(r"^:{3,}\{dropdown\}", text[at[1] : at[2]], re.M)) >= 3
    bib = (ROOT / "book/references.bib").read_text(encoding="utf-8")
    years = dict(re.findall(r"^@\w+\{([^,]+),.*?year = \{(\d{4})\}", bib, re.M | re.S))
    assert (
        max(int(years[key]) for keys in re.findall(r"\{cite\}`([^`]+)`", text[at[2] :]) for key in keys.split(","))
        >= 2025
    )


def test_what_is_measured():
    text = (
        "One two three.\n\n```{code-cell} ipython3\n:tags: [hide-input]\n\nplot.bars(1)\n```\n\nFour five six seven.\n"
    )
    text += "\n:::{ask}\nHow many?\n\n= {{ 2 }}: two.\n? 3: no.\n:::\n\n```{code-cell} ipython3\nx = 1\ny = 2\n```\n"
    m = measured(text)
    assert (m.words, m.pictures, m.questions, m.open, m.folded, m.unbroken) == (7, 1, 1, 2, 1, 4)
    assert m.sentence == 3.5
