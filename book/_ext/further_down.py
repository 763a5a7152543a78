"""Sphinx extension: a chapter's core lists its pages further down, and keeps every address that it had as one page.

autograder.making.further_down says how; notebooks get the same.  Nothing of the theme matters to it.
"""

from pathlib import Path

from autograder.making.further_down import expanded, further


def expand(app, docname: str, source: list[str]) -> None:
    """The list, and anchors of sections that moved, in the source of one page."""
    if docname.startswith("book/ch"):
        path = Path(app.srcdir, f"{docname}.md")
        source[0] = expanded(path, source[0])
        for page in (path.parent / "data/addresses.json", *further(path).values()):
            app.env.note_dependency(str(page))


def setup(app) -> dict:
    app.connect("source-read", expand, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
