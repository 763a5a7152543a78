"""Sphinx extension: `{ask}` is a question that the page checks.

helpers.check.questions says what stands in it.  Without JavaScript, and on paper, the question stands and its answer unfolds.
A page that has one names its scripts once.  Nothing of the theme matters but its colours, in course.css.
"""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import pending_xref
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from helpers.check.questions import WITHIN, Question, Reply, names, number, parse

FORMULA = re.compile(r"\$[^$]+\$")
SUBMIT = "<button>Check</button><output></output></fieldset>"


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


class Ask(SphinxDirective):
    has_content = True
    option_spec = {"unit": directives.unchanged, "within": float}

    def run(self) -> list[nodes.Node]:
        try:
            question = parse(list(self.content), self.options.get("unit"), self.options.get("within", WITHIN))
        except ValueError as e:
            raise ExtensionError(f"{self.env.docname}: {e}") from None
        serial = self.env.temp_data["ask"] = self.env.temp_data.get("ask", 0) + 1
        box = nodes.container(classes=["ask"])
        called = names(Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8"))
        box += self.form(question, serial, dict(enumerate(called, 1)).get(serial, ""))
        if serial == 1:
            root = "../" * self.env.docname.count("/")
            scripts = "typed_number.js", "ask.js"
            box += html("".join(f'<script defer src="{root}_static/{name}"></script>' for name in scripts))
        return [box]

    def form(self, question: Question, serial: int, name: str) -> list[nodes.Node]:
        """The question, where to answer, what mistakes are told (hidden), and the answer to unfold."""
        right = question.right
        known = f'id="ask-{serial}" data-name="{escape(name)}"'
        if question.unit is None:
            fields = self.choices(question, serial)
        else:
            known += f' data-right="{number(right.value)!r}" data-within="{question.within:g}" data-unit="{escape(question.unit)}"'
            fields = [html(f'<label>Your answer <input autocomplete="off" size="9"> {escape(question.unit)}</label> ')]
        told = [n for r in question.replies if not r.right for n in self.told(question, r)]
        shown = f"{right.value} {question.unit or ''}".strip()
        return [
            html(f"<form {known}><fieldset><legend>"), *self.inline(question.text), html("</legend>"), *fields, html(SUBMIT), *told,
            html("<details><summary>Answer</summary><p><b>"), *self.inline(shown), html("</b>: "), *self.inline(right.text),
            html("</p></details></form>"),
        ]  # fmt: skip

    def choices(self, question: Question, serial: int) -> list[nodes.Node]:
        out: list[nodes.Node] = []
        for i, reply in enumerate(question.replies):
            mark = " data-right" if reply.right else ""
            if FORMULA.fullmatch(reply.value):  # axe-core counts no label in a formula
                spoken = re.sub(r"[$\\{}]", "", reply.value)
                mark += f' aria-label="{escape(spoken)}"'
            field = html(f'<label><input type="radio" name="ask{serial}" value="{i}"{mark}> ')
            out += [field, *self.inline(reply.value), html("</label>")]
        return out

    def told(self, question: Question, reply: Reply) -> list[nodes.Node]:
        value = repr(number(reply.value)) if question.unit is not None else str(question.replies.index(reply))
        return [html(f'<p hidden data-for="{value}">'), *self.inline(reply.text), html("</p>")]

    def inline(self, text: str) -> list[nodes.Node]:
        found, messages = self.state.inline_text(" ".join(text.split()), self.lineno)
        if any(isinstance(n, pending_xref | nodes.reference) for n in found):
            found = [nodes.inline("", "", *found)]  # a link has to stand in a text
        return [*found, *messages]


def setup(app) -> dict:
    app.add_directive("ask", Ask)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
