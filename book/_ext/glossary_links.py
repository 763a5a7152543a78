"""Sphinx extension: a chapter's prose leads to the glossary where it first uses one of its terms, and says there what it means.

The forms that lead there stand in the glossary's source, in a line `% linked: collective, collectives`: a word with another meaning, as
"block" or "key", has none.  Headings, code, formulas, captions, links and folds stay as they are.  The entry's first sentence travels in
the link, 0.7 KB in chapter 1; course.css shows it where pointer or focus rests, without JavaScript.  Nothing of the theme matters.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

ENTRY = re.compile(r"^(\S.*)\n  % linked: (.+)\n  (.+)$", re.M)
CHAPTER = re.compile(r"book/ch\d\d_\w+")
CLOSED = (
    nodes.title,
    nodes.caption,
    nodes.legend,
    nodes.reference,
    nodes.literal,
    nodes.math,
    nodes.raw,
    nodes.rubric,
    nodes.table,
)


class Term(nodes.reference):
    """A link to an entry; `meaning` is its first sentence."""


def visit(translator, link: Term) -> None:
    translator.body.append(translator.starttag(link, "a", "", href=link["refuri"], **{"data-meaning": link["meaning"]}))


def depart(translator, link: Term) -> None:
    translator.body.append("</a>")


def linked(glossary: str) -> dict[str, tuple[str, str]]:
    """Form -> the term whose entry it leads to, and what the entry says of it.

    >>> linked("hop\\n  % linked: hop, hops\\n  A step.\\n\\nkey\\n  A vector.\\n")
    {'hop': ('hop', 'A step.'), 'hops': ('hop', 'A step.')}
    """
    return {form: (term, says) for term, forms, says in ENTRY.findall(glossary) for form in forms.split(", ")}


def anchor(term: str) -> str:
    """What Sphinx calls the entry of a term.

    >>> anchor("axis of a mesh"), anchor("KV cache")
    ('term-axis-of-a-mesh', 'term-KV-cache')
    """
    return "term-" + re.sub(r"[^\w-]+", "-", term)


def pattern(forms) -> re.Pattern:
    """Whole words; a form in small letters also where it begins a sentence, the longest form first.

    >>> pattern(["ring attention", "attention", "HBM"]).findall("Ring attention, attention-like; HBM, hbm")
    ['Ring attention', 'HBM']
    """
    each = [f"[{f[0]}{f[0].upper()}]{re.escape(f[1:])}" for f in sorted(forms, key=len, reverse=True)]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(each)})(?![\w-])")


def open_prose(text: nodes.Text) -> bool:
    """Whether a reader meets this text as prose, without opening a box or a cell, before the list of further reading."""
    above = [text.parent]
    while above[-1].parent is not None:
        above.append(above[-1].parent)
    for node in above:
        reading = any(name.endswith("-reading") for name in node.get("ids", ()))
        folded = "cell" in node.get("classes", ()) or type(node).__name__.startswith("dropdown")
        if reading or folded or isinstance(node, CLOSED):
            return False
    return any(isinstance(node, nodes.paragraph) for node in above)


def add(document: nodes.document, forms: dict[str, tuple[str, str]], glossary: str) -> None:
    """Link the first use of each term to its entry on the page `glossary`."""
    find, met = pattern(forms), set()
    for text in [text for text in document.findall(nodes.Text) if open_prose(text)]:
        pieces, end = [], 0
        for match in find.finditer(text):
            term, meaning = forms.get(match[0]) or forms[match[0][0].lower() + match[0][1:]]
            if term not in met:
                met.add(term)
                address = f"{glossary}#{anchor(term)}"
                link = Term("", match[0], refuri=address, internal=True, classes=["term"], meaning=meaning)
                pieces += [nodes.Text(text[end : match.start()]), link]
                end = match.end()
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(text[end:])])


class Links(SphinxPostTransform):
    default_priority = 700  # when references are resolved
    formats = ("html",)

    def run(self, **kwargs) -> None:
        here = self.env.docname
        if CHAPTER.fullmatch(here):
            forms = linked(Path(self.env.srcdir, "book/glossary.md").read_text(encoding="utf-8"))
            add(self.document, forms, self.app.builder.get_relative_uri(here, "book/glossary"))


def setup(app) -> dict:
    app.add_node(Term, html=(visit, depart))
    app.add_post_transform(Links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
