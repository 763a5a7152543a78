"""Sphinx extension: in boxes of code a long line goes on below, further in, and names, brackets and blanks are plain text.

Only outputs whose columns stand in line scroll sideways, on a phone.

On a phone of 360 pixels 700 boxes of the book scrolled: all code, and every line that a program printed.  A browser breaks a line
at the left edge, where Python's indents say something else, so each long line brings its own indent.  What is copied stays one line.
A printed table of more columns than a line of the page has is set smaller, so that a desktop shows its last column.
It costs chapter 5 1 KB.  Pygments puts names, brackets and blanks into boxes of their own, whose colour is that of the block: without
these the chapter weighs 10 KB less, and has a third fewer boxes.  Nothing of the theme matters to it; it reads what Pygments makes of
code, which closes its marks in each line, and tests/book/test_extensions.py holds the style sheet to it.
"""

import re
from html import unescape

LONG = 36  # letters, which a phone of 320 pixels has room for
BOX = re.compile(r'(<div class="highlight"><pre>)(.*?)(</pre>)', re.DOTALL)
MOST = 12  # letters, that what goes on has some room
CLASSES = ("n", "p", "w", "nn")  # of marks that go: none has a colour of its own
PLAIN = re.compile(rf'<span class="(?:{"|".join(CLASSES)})">([^<]*)</span>')
COLUMNS = re.compile(r"\S {2,}\S")
LINE = 82  # letters in a line of the page, as style sheet and column have it


def columns(printed: str) -> int:
    """Letters of the longest line that must not be broken, in a box of what was printed; 0 if there is none.

    >>> columns("a   1\\nb    2\\n" + "c" * 40), columns("one line")
    (6, 0)
    """
    wide = [len(text.rstrip()) for _, text in lines(printed) if COLUMNS.search(text)]
    return max(wide) if len(wide) > 1 else 0


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
    table = printed and columns(code) > 0
    return "\n".join(
        line if len(text) < LONG or (table and COLUMNS.search(text)) else _long(line, text)
        for line, text in lines(code)
    )


def _long(line: str, text: str) -> str:
    indent = min(len(text) - len(text.lstrip(" ")) + 4, MOST)
    return f'<span class="long" style="--in:{indent}">{line}</span>'


def foldable(body: str) -> str:
    """The body of a page with all its boxes of code so.

    >>> foldable('<div class="highlight"><pre><span class="n">x</span><span class="p">(</span><span class="mi">1</span></pre></div>')
    '<div class="highlight"><pre>x(<span class="mi">1</span></pre></div>'
    """
    kind = re.compile(r"highlight-(\S+) notranslate")

    def changed(box):
        printed = kind.findall(body, max(0, box.start() - 200), box.start())[-1:] == ["myst-ansi"]
        code = PLAIN.sub(r"\1", box[2])
        wide = columns(code) if printed else 0
        opens = box[1].replace("<pre>", f'<pre style="--columns:{wide}">') if wide > LINE else box[1]
        return opens + folded(code, printed) + box[3]

    return BOX.sub(changed, body)


def add(app, page, template, context, doctree) -> None:
    """Let the lines of one page break."""
    if "body" in context:
        context["body"] = foldable(context["body"])


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=905)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
