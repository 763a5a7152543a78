"""Sphinx extension: `<a id="ex-1-4"></a>` in a released notebook is a label that pages of the book can refer to.

Notebooks carry plain HTML anchors, because JupyterLab and Colab know no `(label)=`.  Without it 197 references to exercises lead
nowhere.  Nothing of the theme matters to it, but Sphinx's table `anonlabels`.
"""

import re

from docutils import nodes

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


def setup(app) -> dict:
    app.connect("doctree-read", register)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
