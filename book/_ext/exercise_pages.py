"""Sphinx extension: a page of exercises reads as exercises, not as the cells of their notebook.

Of a released notebook the page keeps what asks and what helps: statements, what is given, the signature of an answer with its docstring,
hints.  A check becomes a table of its first visible cases; where results are numbers, two more can be tried on the page, which holds
salted hashes of them (autograder/making/shown_cases.py).  Stubs that raise, checks, setup and plots of answers stay in the notebook,
to which each exercise links.  Of the theme only its class for tables that scroll matters.
"""

import json
import re
from html import escape

import colab_and_binder as places
from stub_text import given, signature

PAGE = re.compile(r"notebooks/ch\d\d_\w+/exercises")
HEADING = re.compile(r"^### Exercise (\d+\.\d+) ", re.M)
ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>\n+', re.M)
LINK = re.compile(r'<p class="answer-in">(\S+) (\S+)</p>')

HOW = """\
Read and think here, and answer in the notebook: it says at once whether an answer is right, and if not, which mistake it looks like.
The links above open it in Colab or Binder.
<span id="own-machine">On your own machine</span>, <span id="clone">clone the repository</span>,
install it by `make env`, type `.venv/bin/course`, and open `{path}`.
Most answers are Python functions: what goes in and what comes out stands under the question, often with a case or two.
Stars say how hard an exercise is, and importance how much later chapters and real work rest on it.
Core exercises need no more than the core of the chapter; the others are for more practice.
The link in that line leads to the section to have read."""

TRY = """\
In a column headed “try” the result is left to you.
Type it into its field, to three digits, and press Compare; this needs JavaScript, and nothing that you type leaves the page.
`1e5`, `100,000`, `1.5×10^5`, `1/3` and `inf` are all understood.<span id="cannot-try"></span>"""


def page(text: str, docname: str) -> str:
    """The notebook of the page, from the text of the released one: Markdown alone."""
    nb, cells, number, asks = json.loads(text), [], None, False
    for cell in nb["cells"]:
        source, marks = "".join(cell["source"]), cell["metadata"].get("nbgrader", {})
        code, found = cell["cell_type"] == "code", cell["metadata"].get("course", {})
        if not code and not marks:
            if heading := HEADING.search(source):
                number = heading[1]
            how_to = "remove-cell" in cell["metadata"].get("tags", ())
            cells.append(
                HOW.format(path=f"{docname.replace('notebooks', 'work', 1)}.ipynb") if how_to else labelled(source)
            )
        elif marks.get("grade"):
            link = f'<p class="answer-in">{number} {"-".join(marks["grade_id"].split("-")[:2])}</p>'
            cells = [c for c in cells if c != link]  # one for each exercise, behind its last check
            cells += [table(found, marks["grade_id"])] if "answer" in found else []
            cells.append(link)
            asks = asks or bool(found.get("numbers"))
        elif code and marks and number:
            shown = signature(source) if marks.get("solution") else given(source)
            cells += [f"```python\n{shown}\n```", picture(source)]
    if asks:
        cells = [f"{c}\n\n{TRY}" if 'id="own-machine"' in c else c for c in cells]
        root, names = "../" * docname.count("/"), ("typed_number.js", "try_numbers.js")
        cells.append("".join(f'<script defer src="{root}_static/{name}"></script>' for name in names))
    kept = [c for c in cells if c.strip()]
    made = [{"cell_type": "markdown", "id": f"part-{i}", "metadata": {}, "source": c} for i, c in enumerate(kept)]
    return json.dumps(nb | {"cells": made})


def labelled(source: str) -> str:
    """A statement whose anchors, all that JupyterLab and Colab know, are labels for the book's references.

    >>> labelled('<a id="ex-2-13"></a>\\n\\n<a id="ex-2-11"></a>\\n\\n### Exercise 2.11')  # the search takes the first one's name
    '(ex-2-11)=\\n(ex-2-13)=\\n### Exercise 2.11'
    """
    return "".join(f"({name})=\n" for name in reversed(ANCHOR.findall(source))) + ANCHOR.sub("", source)


def picture(source: str) -> str:
    """What a given cell draws, in which case the question is about it."""
    if "plot." not in source:
        return ""
    from helpers import plot

    scope: dict = {"plot": plot}
    *first, last = source.rstrip().split("\nplot.")
    exec("\nplot.".join(first), scope)
    return eval(f"plot.{last}", scope)._repr_html_()


def table(check: dict, grade_id: str) -> str:
    """Cases of a check, a column each, and behind them those whose results are to be tried.

    >>> shown = {"answer": "double", "given": ["x"], "results": [["", "result"]], "cases": [{"given": ["2"], "gives": {"": "4"}}],
    ...          "numbers": [{"given": ["51"], "hashes": {"": "0a1b"}}]}
    >>> lines = table(shown, "ch01-q01-check").splitlines()
    >>> print(*lines[4:6], sep="\\n")
    <tr><th scope="row"><code>x</code></th><td>2</td><td>51</td></tr>
    <tr class="gives"><th scope="row"><code>result</code></th><td>4</td><td data-hash="0a1b" data-salt="ch01-q01-check 0 ">?</td></tr>
    """
    cases, tried = check["cases"], check["numbers"]
    heads = [f"case {i + 1}" for i in range(len(cases))] + [f"try {i + 1}" for i in range(len(tried))]
    rows = [
        _row(name, [f"<td>{escape(column['given'][i])}</td>" for column in [*cases, *tried]])
        for i, name in enumerate(check["given"])
    ]
    for i, (entry, label) in enumerate(check["results"]):
        told = [f"<td>{escape(case['gives'].get(entry, '–'))}</td>" for case in cases]
        asked = [_asked(one["hashes"].get(entry), f"{grade_id} {j} {entry}") for j, one in enumerate(tried)]
        rows.append(_row(label, told + asked, "" if i else ' class="gives"'))
    kind = "cases cases-tried" if len(cases) == 2 and tried else "cases"
    return "\n".join([
        f'<form class="{kind}"><div class="pst-scrollable-table-container"><table class="table">',
        f'<caption class="visually-hidden">Cases of {escape(check["answer"])}</caption>',
        "<thead><tr><td></td>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead>",
        "<tbody>", *rows, "</tbody></table></div></form>",
    ])  # fmt: skip


def _row(name: str, cells: list[str], kind: str = "") -> str:
    return f'<tr{kind}><th scope="row"><code>{escape(name)}</code></th>{"".join(cells)}</tr>'


def _asked(hashed: str | None, salt: str) -> str:
    return f'<td data-hash="{hashed}" data-salt="{escape(salt)}">?</td>' if hashed else "<td>–</td>"


def turn(app, docname: str, source: list[str]) -> None:
    """Behind notebook_files, which has put back the release."""
    if PAGE.fullmatch(docname):
        source[0] = page(source[0], docname)


def link(app, name, template, context, doctree) -> None:
    """Where each exercise is answered: at its cell in Colab, or wherever else notebooks open."""
    if not PAGE.fullmatch(name) or "body" not in context:
        return
    service, address = next(iter(places.opened(app, name).items()), (None, None))

    def words(m) -> str:
        own = f'<a href="#own-machine">{"" if service else "Answer " + m[1] + " "}on your own machine</a>'
        if not service:
            return f'<p class="answer-in">{own}</p>'
        at = f"{address}#scrollTo={m[2]}" if service == "Colab" else address
        return f'<p class="answer-in"><a href="{escape(at)}">Answer {m[1]} in {service}</a> or {own}</p>'

    context["body"] = LINK.sub(words, context["body"])


def setup(app) -> dict:
    app.connect("source-read", turn, priority=450)
    app.connect("html-page-context", link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
