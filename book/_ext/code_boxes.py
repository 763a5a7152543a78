"""Sphinx extension: in boxes of code a long line goes on below, further in, and names, brackets and blanks are plain text.

On a phone of 360 pixels 700 boxes of the book scrolled; now only printed columns that stand in line do.  A browser breaks a line at the
left edge, where Python's indents say something else, so each long line brings its own indent: 1 KB in chapter 5.  What is copied stays
one line.  A printed table of more columns than a line of the page has is set smaller, so that a desktop shows its last column.
Pygments puts names, brackets and blanks into boxes of their own, whose colour is that of the block: without these chapter 5 weighs
10 KB less, and has a third fewer boxes.  Nothing of the theme matters; tests/book/test_extensions.py holds the style sheet to it.
"""

import re
from html import unescape

LONG = 36  # letters, which a phone of 320 pixels has room for
BOX = re.compile(r'(highlight-(\S+) notranslate"><div class="highlight"><pre)>(.*?)(?=</pre>)', re.DOTALL)
MOST = 12  # letters, that what goes on has some room
CLASSES = ("n", "p", "w", "nn")  # of marks that go: none has a colour of its own
PLAIN = re.compile(rf'<span class="(?:{"|".join(CLASSES)})">([^<]*)</span>')
COLUMNS = re.compile(r"\S {2,}\S")
LINE = 82  # letters in a line of the page, as style sheet and column have it


def foldable(body: str) -> str:
    """The body of a page whose boxes of code have lines that can be broken, but for printed columns.

    >>> box = '<div class="highlight-{} notranslate"><div class="highlight"><pre>{}</pre></div></div>'
    >>> foldable(box.format("py", '<span class="n">x</span><span class="p">(</span><span class="mi">1</span>'))
    '<div class="highlight-py notranslate"><div class="highlight"><pre>x(<span class="mi">1</span></pre></div></div>'
    >>> table = box.format("myst-ansi", "a   1\\nb   2\\n" + "c" * 40 + "  3")
    >>> foldable(table) == table
    True
    """
    return BOX.sub(_folded, body)


def _folded(box: re.Match) -> str:
    opens, kind, code = box[1], box[2], PLAIN.sub(r"\1", box[3])
    lines = [(line, unescape(re.sub(r"<[^>]*>", "", line))) for line in code.split("\n")]
    columns = [len(text.rstrip()) for _, text in lines if kind == "myst-ansi" and COLUMNS.search(text)]
    table = len(columns) > 1
    if table and max(columns) > LINE:
        opens += f' style="--columns:{max(columns)}"'
    stay = lambda text: len(text) < LONG or (table and COLUMNS.search(text))  # noqa: E731
    return f"{opens}>" + "\n".join(line if stay(text) else _long(line, text) for line, text in lines)


def _long(line: str, text: str) -> str:
    """
    >>> _long("    x + 1", "    x + 1")
    '<span class="long" style="--in:8">    x + 1</span>'
    """
    indent = min(len(text) - len(text.lstrip(" ")) + 4, MOST)
    return f'<span class="long" style="--in:{indent}">{line}</span>'


def add(app, page, template, context, doctree) -> None:
    """Let the lines of one page break."""
    if "body" in context:
        context["body"] = foldable(context["body"])


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=905)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
