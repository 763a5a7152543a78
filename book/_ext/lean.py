"""Sphinx extension: a page asks for no script that it cannot use.

The theme puts the search index on every page for a search while typing, which this book has switched off, and
sphinx-design's tabs on pages that hold none.  Its script marks in a page's contents what comes next, and after a jump
nothing: under a new name it does not find them, and page.js marks where the reader is.  The patterns match pages of
sphinx-book-theme 1.3.
"""

import re
from pathlib import Path

SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>')
TABS = re.compile(r'\s*<script [^>]*src="[^"]*design-tabs\.js[^"]*"></script>')


def lighten(page: str, searches: bool = False) -> str:
    """The page without the files it cannot use; a page that searches keeps its index.

    >>> lighten('<p>x</p><script src="../searchindex.js"></script>')
    '<p>x</p>'
    """
    if not searches:
        page = SEARCH.sub("", page)
    if "sd-tab-set" not in page:
        page = TABS.sub("", page)
    return page.replace('id="pst-page-toc-nav"', 'id="page-contents"')


def finish(app, error) -> None:
    """Lighten every page of a site that was built."""
    if error or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        before = path.read_text(encoding="utf-8")
        after = lighten(before, searches=path.name == "search.html")
        if after != before:
            path.write_text(after, encoding="utf-8")


def setup(app) -> dict:
    app.connect("build-finished", finish, priority=910)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
