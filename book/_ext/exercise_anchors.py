"""Sphinx extension: `<a id="ex-1-4"></a>` in a released notebook is a label that pages of the book can refer to, and an exercise's
link to a section of its reading leads to the chapter's page, as readings are no pages.

Notebooks carry plain HTML anchors, because JupyterLab and Colab know no `(label)=`.  Without it 197 references to exercises lead
nowhere.  Nothing of the theme matters to it, but Sphinx's table `anonlabels`.
"""

import re

from docutils import nodes

READING = re.compile(r"\]\((?:reading|further_\w+)\.ipynb#")
ANCHOR = re.compile(r'<a\s+id="([A-Za-z][\w-]*)"')


def register(app, doctree) -> None:
    """Tell Sphinx's own table of labels about every raw anchor of one page."""
    docname = app.env.docname
    if not docname.startswith("notebooks/"):
        return
    labels = app.env.get_domain("std").anonlabels
    for raw in doctree.findall(nodes.raw):
        for name in ANCHOR.findall(raw.astext()):
            if labels.get(name, (docname,))[0] != docname:
                raise ValueError(f"the anchor {name} stands in both {labels[name][0]} and {docname}; one must go")
            labels[name] = (docname, name)


def lead_to_pages(app, docname: str, source: list[str]) -> None:
    """A section's label is known to Sphinx by its name, wherever it stands."""
    if docname.startswith("notebooks/"):
        source[0] = READING.sub("](#", source[0])


def setup(app) -> dict:
    app.connect("source-read", lead_to_pages)
    app.connect("doctree-read", register)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
