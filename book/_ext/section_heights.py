"""Sphinx extension: about how tall each section will be, so that the scroll bar is right before all is laid out.

course.css lets a browser lay out a section when the reader comes near, which halves what blocks a phone as chapter 4 loads; until
then the section needs a height.  Guessed, a page is within a quarter as tall as it will be; with one height for all sections it would
be half as tall or twelve times, and text would jump in browsers that do not hold it.  It saves no byte and no time.  No theme matters
to it: it reads what Sphinx makes of a page's text.  With other sizes of type, PIXELS has to be fitted anew (test_section_heights).
"""

import re
from html.parser import HTMLParser

# Pixels for one of each, on a phone (390) and in the full column: fitted to the book's sections as Chromium lays them out.
PIXELS = {
    "letters": (0.88, 0.55),
    "lines": (20, 23),  # of code and of its output
    "words": (4.35, 2.83),  # in tables
    "rows": (21, 31),
    "formulas": (92, 84),
    "pictures": (260, 390),
    "folds": (30, 32),
}
SECTION = re.compile(r'<section(?=[^>]* id="([^"]+)")(?![^>]* style=)')
VOID = ("br", "col", "hr", "img", "input", "link", "meta", "source", "wbr")


class Sections(HTMLParser):
    """What fills each section of a page and those in it: id -> name -> how many. What is folded away does not count."""

    def __init__(self):
        super().__init__()
        self.found, self.path = {}, []  # of the path: (tag, id of a section or None, folded)

    def add(self, name: str, many: float) -> None:
        if any(folded for _, _, folded in self.path) and "summary" not in (tag for tag, _, _ in self.path):
            return
        for _, section, _ in self.path:
            if section:
                self.found[section][name] += many

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        section = attrs.get("id") if tag == "section" else None
        if section:
            self.found[section] = dict.fromkeys(PIXELS, 0)
        if tag not in VOID:
            self.path.append((tag, section, tag == "details" and "open" not in attrs))
        if tag == "img" or (tag == "figure" and "live" in (attrs.get("class") or "").split()):
            self.add("pictures", 1)
        elif tag == "div" and "math" in (attrs.get("class") or "").split():
            self.add("formulas", 1)
        elif tag in ("tr", "summary"):
            self.add("rows" if tag == "tr" else "folds", 1)

    def handle_endtag(self, tag):
        if tag in (opened for opened, _, _ in self.path):
            while self.path.pop()[0] != tag:
                pass

    def handle_data(self, data):
        tags = {tag for tag, _, _ in self.path}
        if tags & {"script", "style", "svg", "option"}:
            return
        if "pre" in tags:
            self.add("lines", data.count("\n"))
        elif tags & {"td", "th"}:
            self.add("words", len(data.split()))
        else:
            self.add("letters", len(" ".join(data.split())))


def guessed(page: str) -> str:
    """A page whose sections say how tall they will be.

    >>> guessed('<section id="a"><h2>Ten words</h2><pre>1\\n2\\n</pre></section>')
    '<section style="--narrow:48px;--wide:51px" id="a"><h2>Ten words</h2><pre>1\\n2\\n</pre></section>'
    """
    sections = Sections()
    sections.feed(page)

    def styled(match):
        narrow, wide = (
            round(sum(PIXELS[name][k] * many for name, many in sections.found[match[1]].items())) for k in (0, 1)
        )
        return f'<section style="--narrow:{narrow}px;--wide:{wide}px"'

    return SECTION.sub(styled, page)


def add(app, page, template, context, doctree) -> None:
    """Guess the heights of one page."""
    if "body" in context:
        context["body"] = guessed(context["body"])


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=920)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
