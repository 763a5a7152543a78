"""Sphinx extension: `{errata}` writes the rows of book/data/errata.json as a page: how many there are, and of each what is right and why.

Sources are sections, so that the list of contents leads to them; rows are headings inside, which the search finds by their anchors.
Computations are folded, as lists that the search does not read.  Of the theme only its tables matter.
"""

import json
import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from helpers import study_time
from helpers.prose import figure, names

SEVERITIES = {"conclusion": "changes a conclusion", "number": "changes a number", "label": "only a label"}
BOOK = "How To Scale Your Model, "
NUMBER = re.compile(r"\{\{(.+?)\}\}")
CODE = re.compile(r"`(.+?)`")


def marked(text: str, scope: dict) -> str:
    """A sentence of a row as HTML: its numbers computed, what stands in backticks as code.

    >>> marked("{{ c[0] / 4 | .1f }} is not `1 < 2`", {"c": [10]})
    '2.5 is not <code>1 &lt; 2</code>'
    """
    return CODE.sub(r"<code>\1</code>", escape(NUMBER.sub(lambda m: figure(m[1], scope), text), quote=False))


def worked(row: dict, scope: dict) -> dict:
    """The names that the sentences of a row may use: c[0], c[1] … are the values of its computations."""
    return scope | {"c": [eval(c["expression"], scope) for c in row["computed"]]}  # the course's own text


def ordered(rows: list[dict]) -> list[dict]:
    """What changes a conclusion first, what is only a label last; else as they stand."""
    return sorted(rows, key=lambda row: list(SEVERITIES).index(row["severity"]))


def page_of(row: dict) -> str:
    """The page of the section of ours that has it right: a chapter's core, or a page further down."""
    return study_time.sections()[row["section"]][0]


def heading(row: dict, book: Path) -> str:
    """The heading of that section."""
    page = (book / f"{page_of(row)}.md").read_text(encoding="utf-8")
    return re.search(rf"\({row['section']}\)=\n(?:\(.*\)=\n)*#+ (.+)", page)[1]


def folded(row: dict, scope: dict) -> str:
    """The computation behind a row, folded; in a row about words alone, why there is none."""
    label = f"({row['id']}, {escape(row['where'])}; {SEVERITIES[row['severity']]})"
    if not row["computed"]:
        return f"<details><summary>Nothing to compute {label}</summary><p>{escape(row['words'])}</p></details>"
    shown = "".join(
        f"<dt>{escape(c['what'])}</dt><dd><strong>{escape(figure(c['expression'] + ' | ' + c['format'], scope))}</strong>"
        f" = <code>{escape(c['expression'], quote=False)}</code></dd>"
        for c in row["computed"]
    )
    return f"<details><summary>The computation {label}</summary><dl>{shown}</dl></details>"


def erratum(row: dict, book: Path, scope: dict) -> str:
    """One row: what is so, what the source says, what is right, why it matters, and the computation behind it."""
    own = worked(row, scope)
    says, correct, matters = (marked(row[part], own) for part in ("says", "correct", "matters"))
    link = f'<a href="{page_of(row)}.html#{row["section"]}">{escape(heading(row, book))}</a>'
    return (
        f'<h3 id="{row["id"]}">{marked(row["title"], own)}</h3><p>{says} {correct}</p>'
        f"<p><strong>Why it matters.</strong> {matters} In this course: {link}.</p>{folded(row, scope)}"
    )


def summary(data: dict, sources: list[str], scope: dict) -> str:
    """How many rows each source has, by what they change, and the ones to know first."""
    rows = data["errata"]

    def line(name: str, rows: list[dict]) -> str:
        counts = [sum(row["severity"] == s for row in rows) for s in SEVERITIES]
        return f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{n}</td>" for n in (*counts, len(rows))) + "</tr>"

    head = "".join(f'<th scope="col">{h}</th>' for h in ("source", "a conclusion", "a number", "only a label", "all"))
    of = {s: [row for row in rows if row["source"] == s] for s in sources}
    links = [f'<a href="#source-{n}">{escape(s.removeprefix(BOOK))}</a>' for n, s in enumerate(sources)]
    body = "".join(map(line, links, of.values()))
    worst = [next(row for row in rows if row["id"] == name) for name in data["first"]]
    first = "".join(f'<li><a href="#{r["id"]}">{marked(r["title"], worked(r, scope))}</a></li>' for r in worst)
    return (
        f'<table class="table"><caption>{len(rows)} places, by what they change; sections are those of {BOOK[:-2]}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}{line('all', rows)}</tbody></table><p>These mislead most:</p><ul>{first}</ul>"
    )


class Errata(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        book = Path(self.env.srcdir, "book")
        data, scope = json.loads((book / "data/errata.json").read_text(encoding="utf-8")), names()
        chapters = {page_of(row) for row in data["errata"]}
        for path in (book / "data/errata.json", *(book / f"{chapter}.md" for chapter in chapters)):
            self.env.note_dependency(str(path))
        sources = list(dict.fromkeys(row["source"] for row in data["errata"]))
        out: list[nodes.Node] = [nodes.raw("", summary(data, sources, scope), format="html")]
        for n, source in enumerate(sources):
            rows = ordered([row for row in data["errata"] if row["source"] == source])
            section = nodes.section("", nodes.title(source, source), ids=[f"source-{n}"], names=[], classes=["errata"])
            section += nodes.raw("", "".join(erratum(row, book, scope) for row in rows), format="html")
            out.append(section)
        return out


def setup(app) -> dict:
    app.add_directive("errata", Errata)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
