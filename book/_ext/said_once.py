"""Sphinx extension: where stored results come from is said once a page; the outputs after it say that they are stored, too.

Chapter 2 said six times when its programs were compiled and with what.  A notebook still says it under each output, since a reader
may run any cell alone.  It costs no byte, and no theme matters to it.
"""

import re

PROVENANCE = re.compile(r"<p>Stored: [^<]*</p>")
AGAIN = "<p>Stored, as above.</p>"


def once(body: str) -> str:
    """The body of a page with each provenance at its first place.

    >>> once("<p>Stored: on Monday.</p> <p>Stored: on Monday.</p> <p>Stored: on Tuesday.</p>")
    '<p>Stored: on Monday.</p> <p>Stored, as above.</p> <p>Stored: on Tuesday.</p>'
    """
    there = set()

    def said(match):
        again = match[0] in there
        there.add(match[0])
        return AGAIN if again else match[0]

    return PROVENANCE.sub(said, body)


def add(app, page, template, context, doctree) -> None:
    if "body" in context:
        context["body"] = once(context["body"])


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=907)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
