"""Sphinx extension: a page asks for no script that it cannot use, for none twice, and reads itself before it runs one.

Without it a phone shows the first text of the start page 0.6 s later (Lighthouse).  No pattern is matched in a page: Sphinx lists
the scripts, and takes this list.  A theme that lists others gets them deferred as well; one that must not wait shows as an error in
the console (test_pages).  Of the search index the template layout.html keeps pages free, and search.html names it.
"""

USED_BY = {
    "design-tabs": ("sd-tab-set",),
    "record.js": ('id="sec-', 'id="ch-', 'id="ex-', 'class="ask', 'id="review-cards', 'id="live-day"'),
}
"""What a page has that can use a script."""


def kept(scripts: list, body: str) -> list:
    """The scripts that a page with this body can use, each once, to be run when the page is read.

    Inline ones of the theme fill a table for parts that this book has not, and could not wait for the script that makes the table.
    """
    found = {}
    for script in scripts:
        inline = script.attributes.get("body") or ""
        users = next((marks for part, marks in USED_BY.items() if part in str(script.filename)), None)
        if inline.startswith("DOCUMENTATION_OPTIONS.") or users and not any(mark in body for mark in users):
            continue
        if script.filename:
            script.attributes["defer"] = "defer"
        found.setdefault((script.filename, inline), script)
    return list(found.values())


def add(app, page, template, context, doctree) -> None:
    """Choose the scripts of one page."""
    context["script_files"] = kept(context["script_files"], context.get("body", ""))


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=910)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
