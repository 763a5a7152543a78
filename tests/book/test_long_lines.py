"""Lines of code break further in, columns of outputs stay in line, and what is copied is what was written."""

import re
from html import unescape

from tests.book.conftest import extension

long_lines = extension("long_lines")

PAGE = '<div class="highlight-{kind} notranslate"><div class="highlight"><pre><span></span>{text}\n</pre></div></div>'
LONG = "said " * 10


def indents(page: str) -> list[int]:
    return [int(n) for n in re.findall(r'class="long" style="--in:(\d+)"', page)]


def test_what_goes_on_stands_further_in_than_its_line_but_never_far():
    code = "\n".join([f"x = {LONG}", f"    <b>if</b> {LONG}", f"{' ' * 30}{LONG}", "short = 1"])
    assert indents(long_lines.foldable(PAGE.format(kind="ipython3", text=code))) == [4, 8, 12]


def test_columns_of_an_output_stay_in_line_and_its_sentences_do_not():
    table = f"name    {'1' * 40}\nother   {'2' * 40}\n{LONG}"
    assert indents(long_lines.foldable(PAGE.format(kind="myst-ansi", text=table))) == [4]
    assert len(indents(long_lines.foldable(PAGE.format(kind="ipython3", text=table)))) == 3  # code has no columns


def test_no_letter_is_added_or_lost():
    page = PAGE.format(kind="python", text=f"def f(x):\n    return &lt;{LONG}&gt;")
    read = lambda html: unescape(re.sub("<[^>]*>", "", html))  # noqa: E731
    assert read(long_lines.foldable(page)) == read(page) and long_lines.foldable(page) != page
