"""The errata of the sources: every row says what is so, what it computes or why not, and why it matters; what it shows is so.

Numbers in `HAND` were worked out on paper; the programs after them do what the sources print, and what is right.
"""

import ast
import json
import re

import numpy as np
import pytest

from helpers.prose import names
from tests.book.conftest import ROOT, extension
from tests.helpers.costs.tables import walks

errata = extension("errata")

DATA = json.loads((ROOT / "book/data/errata.json").read_text(encoding="utf-8"))
ERRATA = {e["id"]: e for e in DATA["errata"]}
SOURCES = list(dict.fromkeys(e["source"] for e in DATA["errata"]))
SCOPE = names()

# What the expressions of a row are worth, in their order: by hand, not by the expressions.
HAND = {
    "E002-6": [("X", "X"), (), 3, 0],
    "E000-4": [0.66524, 1 / 3],  # e²/(1 + e + e²) = 7.389/11.107
    "E000-8": [1920, 1920, 2880],
    "E001-3": [12, 12, 36],  # loss (2w)²/2 = 2w², gradient 4w
    "E001-4": [[0, 1, 2, 3], [0, 0, 1, 2]],
    "E001-5": [16384, True, False],
    "E001-6": [("bf,df->bd", "bd,bf->df"), 21, 49],
    "E001-18": [1, 8, 1.5],  # 12DF over 8DF
    "E001-19": ["In[B_X, D]", "W_in[D, F_Y]", "In[B_X, D]"],
    "E001-20": [3, 1, 8493465600, 5637144576],  # 3·5120·13824·40, 3·4096·14336·32
    "E001-21": [("bo,io->bi", "bi,bo->io"), (4, 4), (4, 5), (5, 5), (4, 5)],
    "E001-22": [(3, 3), (7, 5)],
    "E003-8": [2 * 16 * 2048 * 128, 2 * 16 * 2048 * 8 * 128, "AllGather_Y V[B_Z, S, K_Y, H] -> V[B_Z, S, K, H]"],
    "E003-9": [[0, 1], [0, 2], [0, 1], [0, 1]],
    "E003-10": [6710886400, 6710886400, 1.332e11, 1.332e11],  # 2·2·40·128·40·8192
    "E003-16": [6.454e-5, 0.04628],  # 1,658,880 and 1,189,478,400 over 25,703,219,200
    "E004-3": [3, 2, 30.193, 22.167],  # 20.086 + 2.718 + 7.389, 3·7.389
    "E004-4": [1.53788, 1.53788, 3],  # (e + 3)/(e + 1)
    "E004-8": [np.nan, 0, np.nan],
    "E004-14": [3.2e11, 5.12e11],
    "E004-18": [[1, 4, 12], [12, 12, 12]],
    "E004-19": [8192, 1024],
    "E004-20": [1, 3, 1, 0],
    "E004-21": [False, True],
    "E004-25": [96, 4096],
    "E004-26": [(4, 3), 1],
}


def test_every_row_computes_or_says_why_not():
    words = [i for i, e in ERRATA.items() if e.get("words", "").strip()]
    assert [i for i, e in ERRATA.items() if bool(e["computed"]) == (i in words)] == []
    assert len(words) <= 4, words


def test_no_expression_is_a_number_that_was_typed():
    told = [(i, c["expression"]) for i, e in ERRATA.items() for c in e["computed"]]
    does = (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute)
    assert [t for t in told if not any(isinstance(n, does) for n in ast.walk(ast.parse(t[1])))] == []


@walks(HAND)
def test_a_row_is_worth_what_a_hand_finds(row):
    found = [eval(c["expression"], SCOPE) for c in ERRATA[row]["computed"]]
    assert len(found) == len(HAND[row])
    for got, want in zip(found, HAND[row]):
        if isinstance(want, (int, float)):
            assert got == pytest.approx(want, rel=1e-4, nan_ok=True)
        else:
            assert (str(got) if isinstance(want, str) else got) == want


def said(row: dict, *parts: str) -> str:
    """Sentences of a row as the page shows them, as text."""
    own = errata.worked(row, SCOPE)
    return re.sub(r"<[^>]+>", "", " ".join(errata.marked(row[part], own) for part in parts))


def page() -> str:
    """What the directive of the page writes, without the page around it."""
    rows = [e for s in SOURCES for e in errata.ordered([e for e in DATA["errata"] if e["source"] == s])]
    return "".join(errata.erratum(e, ROOT / "book", SCOPE) for e in rows)


def shows_every_row(html: str) -> None:
    rows = {row.split('"')[0]: row for row in re.split(r"<h3 id=\"", html)[1:]}
    assert rows.keys() == ERRATA.keys() and html.count("<h3 id=") == len(ERRATA)
    seen = [(SOURCES.index(ERRATA[i]["source"]), list(errata.SEVERITIES).index(ERRATA[i]["severity"])) for i in rows]
    assert seen == sorted(seen)  # by source, and in each what changes a conclusion first
    for i, e in ERRATA.items():
        row = rows[i]
        fold = row[row.index("<details>") :]
        assert "<dt>" not in row[: row.index("<details>")] and i in fold and errata.SEVERITIES[e["severity"]] in fold
        assert fold.count("<dt>") == fold.count("<dd>") == fold.count("<code>") == len(e["computed"])
        assert ("<dl>" in fold) != ("words" in e)
        assert (
            re.search(rf'href="{e["chapter"]}\w*\.html#{e["section"]}"', row)
            and "<strong>Why it matters.</strong>" in row
        )
        assert not re.search(r"\{\{|`|\| ?[.,\d]*[df%]\b", row), "something is not computed or not marked"


def test_the_page_shows_every_row():
    shown = page()
    shows_every_row(shown)
    assert shown.count("<summary>Nothing to compute (") == 4


def test_the_top_of_the_page_counts_and_leads_to_the_worst_five():
    top = errata.summary(DATA, SOURCES, SCOPE)
    cells = [[int(n) for n in re.findall(r"<td>(\d+)</td>", row)] for row in top.split("<tr>")[2:]]
    assert len(cells) == len(SOURCES) + 1 and all(sum(row[:3]) == row[3] for row in cells)
    assert [sum(column) for column in zip(*cells[:-1])] == cells[-1] and cells[-1][3] == len(ERRATA)
    assert re.findall(r'<li><a href="#([\w-]+)">', top) == DATA["first"]
    assert re.findall(r'href="#source-(\d)"', top) == [str(n) for n in range(len(SOURCES))]


def test_the_search_takes_each_row_by_its_anchor_and_leaves_its_program_out():
    search = extension("section_search")
    found = {s.anchor: s for s in search.Sections("e.html", f'<section id="e"><h1>E</h1>{page()}</section>').found[1:]}
    assert found.keys() == ERRATA.keys()
    for i, s in found.items():
        assert search.called(s) == " ".join(said(ERRATA[i], "title").split()).replace("&lt;", "<").rstrip(".")
        assert i in s.text and "Why it matters." in s.text
    assert not any("critical_batch_limit(" in s.text or "kv_cache(" in s.text for s in found.values())


def test_the_built_page_shows_every_row(site):
    text = (site / "book/errata.html").read_text(encoding="utf-8")
    text = text[text.index("Errata of the sources</") :].partition("</article>")[0]
    for n, source in enumerate(SOURCES):
        assert re.search(rf'<section[^>]* id="source-{n}"', text) and source in text
    shows_every_row(text)
