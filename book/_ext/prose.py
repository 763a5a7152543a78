"""Sphinx extension: numbers in the book's prose are evaluated from `helpers.costs` before a page is parsed.

Without it 662 expressions stand in the pages as they were written.  Nothing of the theme matters to it.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from helpers import prose  # noqa: E402  (the path has to be set first)


def evaluate(app, docname: str, source: list[str]) -> None:
    """Replace `{{ expression | spec }}` in one page of book/; other pages have no numbers of their own."""
    if docname.startswith("book/"):
        source[0] = prose.render(source[0], where=f"{docname}.md")


def setup(app) -> dict:
    app.connect("source-read", evaluate)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
