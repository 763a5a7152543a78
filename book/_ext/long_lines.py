"""Sphinx extension: a long line of code goes on below, further in; only outputs whose columns stand in line scroll sideways.

On a phone of 360 pixels 700 boxes of the book scrolled: all code, and every line that a program printed.  A browser breaks a line
at the left edge, where Python's indents say something else, so each long line brings its own indent.  What is copied stays one line.
It costs chapter 5 1 KB.  Nothing of the theme matters to it; it reads what Pygments makes of code, which closes its marks in each line.
"""

import re
from html import unescape

LONG = 36  # letters, which a phone of 320 pixels has room for
BOX = re.compile(r'(<div class="highlight"><pre>)(.*?)(</pre>)', re.DOTALL)
MOST = 12  # letters, that what goes on has some room
COLUMNS = re.compile(r"\S {2,}\S")


def lines(code: str) -> list[tuple[str, str]]:
    """Each line of a box as it is marked up, and as it reads."""
    return [(line, unescape(re.sub(r"<[^>]*>", "", line))) for line in code.split("\n")]


def folded(code: str, printed: bool = False) -> str:
    """A box of code, or of what was printed, whose long lines can be broken.

    >>> folded("    " + "x + " * 10)
    '<span class="long" style="--in:8">    x + x + x + x + x + x + x + x + x + x + </span>'
    >>> folded("a   1\\nb   2\\n" + "c" * 40 + "  3", printed=True) == "a   1\\nb   2\\n" + "c" * 40 + "  3"
    True
    """
    found = lines(code)
    table = printed and sum(bool(COLUMNS.search(text)) for _, text in found) > 1
    return "\n".join(
        line if len(text) < LONG or (table and COLUMNS.search(text)) else _long(line, text) for line, text in found
    )


def _long(line: str, text: str) -> str:
    indent = min(len(text) - len(text.lstrip(" ")) + 4, MOST)
    return f'<span class="long" style="--in:{indent}">{line}</span>'


def foldable(body: str) -> str:
    """The body of a page with all its boxes of code so."""
    kind = re.compile(r"highlight-(\S+) notranslate")

    def changed(box):
        last = kind.findall(body, max(0, box.start() - 200), box.start())
        return box[1] + folded(box[2], printed=last[-1:] == ["myst-ansi"]) + box[3]

    return BOX.sub(changed, body)


def add(app, page, template, context, doctree) -> None:
    """Let the lines of one page break."""
    if "body" in context:
        context["body"] = foldable(context["body"])


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=905)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
