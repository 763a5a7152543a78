"""Sphinx extension: a page of the book as it is parsed: its list of pages further down, its old addresses, and its numbers.

autograder.making.further_down has the list, and every address that a chapter had as one page; notebooks get the same.  helpers.prose
computes: without it expressions stand in the pages as they were written.  Nothing of the theme matters to it.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from autograder.making.further_down import expanded, further  # noqa: E402  (the path has to be set first)
from helpers import prose  # noqa: E402


def written(app, docname: str, source: list[str]) -> None:
    """One page of book/; other pages have no numbers of their own."""
    if docname.startswith("book/ch"):
        path = Path(app.srcdir, f"{docname}.md")
        source[0] = expanded(path, source[0])
        for page in (path.parent / "data/addresses.json", *further(path).values()):
            app.env.note_dependency(str(page))
    if docname.startswith("book/"):
        source[0] = prose.render(source[0], where=f"{docname}.md")


def setup(app) -> dict:
    app.connect("source-read", written, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
