"""The book's Sphinx extensions: examples in docstrings, repaired HTML, figures as files, lines and folds of code, plain code."""

import base64
import doctest
import re
from html import unescape

import pytest
from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode

from tests.book.conftest import ROOT, extension, page_names

NAMES = sorted(p.stem for p in (ROOT / "book/_ext").glob("*.py") if ">>>" in p.read_text(encoding="utf-8"))
assert NAMES


@pytest.mark.parametrize("name", NAMES)
def test_examples_hold(name):
    found = doctest.testmod(extension(name))
    assert found.attempted and not found.failed


page_body = extension("page_body")


@pytest.mark.parametrize("written, want", [
    ('<th class="head"></th>', "<td></td>"),
    ('<th class="head stub"><p></p></th>', "<td></td>"),
    ('<th class="head"><p>N</p></th>', '<th class="head"><p>N</p></th>'),
    ('<div role="list"><div role="doc-biblioentry" id="a">', '<div><div id="a">'),
])  # fmt: skip
def test_accessible_html(written, want):
    assert page_body.repaired(written) == want


def test_the_templates_have_their_effect(site):
    """A theme that renames a block or a part fails here."""
    for name in page_names():
        page = (site / name).read_text(encoding="utf-8")
        contents = re.search(r'<aside aria-label="Book">.*?</aside>', page, re.DOTALL)[0]
        assert contents.count("<summary aria-label=") == contents.count("<summary") > 5
        assert "search-button-field" in contents and ' aria-label="Search"' not in contents
        assert 'data-theme="light"' in page and page.count("<h1") == 1 and "jb-print" not in page, name
        assert page.count('name="viewport"') <= 2 and "fontawesome.js" not in page and 'rel="preload"' not in page, name


SVG = b'<svg width="300pt" height="150pt"><text>x</text></svg>'
CELL = f'<figure><img alt="What to see" src="data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"></figure>'


def test_a_figure_of_a_cell_becomes_a_file_once_and_keeps_its_room(tmp_path):
    body = page_body.enlargeable(CELL + CELL, "../_images/", tmp_path / "_images")
    (file,) = (tmp_path / "_images").iterdir()
    assert file.read_bytes() == SVG and body.count(f'<a class="enlarge" href="../_images/{file.name}"><img') == 2
    assert 'alt="What to see"' in body and 'width="400" height="200"' in body and "base64" not in body


def test_an_image_in_a_link_and_one_from_elsewhere_stay_as_they_are(tmp_path):
    body = '<a href="x.html"><img alt="a" src="../_images/a.png"></a><img alt="b" src="../_static/b.png">'
    assert page_body.enlargeable(body, "../_images/", tmp_path) == body
    assert page_body.enlargeable('<img alt="a" src="../_images/a.png">', "../_images/", tmp_path).startswith("<a class")


def test_every_figure_of_the_site_can_be_enlarged(site):
    pages = [p.read_text(encoding="utf-8") for p in site.glob("book/*.html")]
    figures = [image for page in pages for image in re.findall(r'<figure class="picture">.{0,60}', page)]
    assert len(figures) > 30 and all('<a class="enlarge" href="../_images/' in f for f in figures)
    named = {name for page in pages for name in re.findall(r'class="enlarge" href="../_images/([^"]+)', page)}
    assert named <= {path.name for path in (site / "_images").iterdir()}


code_boxes = extension("code_boxes")

PAGE = '<div class="highlight-{kind} notranslate"><div class="highlight"><pre><span></span>{text}\n</pre></div></div>'
LONG = "said " * 10


def indents(page: str) -> list[int]:
    return [int(n) for n in re.findall(r'class="long" style="--in:(\d+)"', page)]


def test_what_goes_on_stands_further_in_than_its_line_but_never_far():
    code = "\n".join([f"x = {LONG}", f"    <b>if</b> {LONG}", f"{' ' * 30}{LONG}", "short = 1"])
    assert indents(code_boxes.foldable(PAGE.format(kind="ipython3", text=code))) == [4, 8, 12]


def test_columns_of_an_output_stay_in_line_and_its_sentences_do_not():
    table = f"name    {'1' * 40}\nother   {'2' * 40}\n{LONG}"
    assert indents(code_boxes.foldable(PAGE.format(kind="myst-ansi", text=table))) == [4]
    assert len(indents(code_boxes.foldable(PAGE.format(kind="ipython3", text=table)))) == 3  # code has no columns


def test_no_letter_is_added_or_lost():
    page = PAGE.format(kind="python", text=f"def f(x):\n    return &lt;{LONG}&gt;")
    read = lambda html: unescape(re.sub("<[^>]*>", "", html))  # noqa: E731
    assert read(code_boxes.foldable(page)) == read(page) and code_boxes.foldable(page) != page


@pytest.mark.slow
def test_no_class_that_goes_has_a_colour_of_its_own(site):
    sheet = (site / "_static/site.css").read_text(encoding="utf-8")
    for theme in ("light", "dark"):
        of = lambda cls, theme=theme: re.search(  # noqa: E731
            rf'html\[data-theme="{theme}"\] \.highlight{cls}\{{[^}}]*?(?<!-)color: (#\w+)', sheet
        )
        base = of("")[1]
        assert [c for c in code_boxes.CLASSES if (found := of(rf" \.{c}")) and found[1] != base] == []
        assert of(r" \.k")[1] != base  # a keyword has one, so the pattern finds what there is


@pytest.mark.slow
def test_pages_have_none_of_them_and_keep_the_others(site):
    page = (site / "book/ch01_rooflines.html").read_text(encoding="utf-8")
    code = "".join(re.findall(r'<div class="highlight"><pre>.*?</pre>', page, re.S))
    assert not code_boxes.PLAIN.search(code) and '<span class="k">' in code


folds = extension("code_folds")


def part(kind: str) -> nodes.container:
    return nodes.container(nb_element=kind)


def fold(*kinds: str) -> HideCodeCellNode:
    return HideCodeCellNode("", *map(part, kinds))


@pytest.mark.parametrize("held, called", [
    (["cell_code_source"], "code"),
    (["cell_code_output"], "output"),
    (["cell_code_source", "cell_code_output"], "code and output"),
])  # fmt: skip
def test_a_fold_is_called_by_what_it_holds(held, called):
    assert folds.summary(fold(*held)) == called


@pytest.mark.parametrize("code, called", [
    ("# Chunks & the state: k < s\nx = 1", "code and output: Chunks &amp; the state: k &lt; s"),
    ("x = 1  # one\n# two", "code and output"),
])  # fmt: skip
def test_a_cell_folded_whole_is_called_by_the_comment_that_it_begins_with(code, called):
    source = part("cell_code_source")
    source += nodes.literal_block(code, code)
    assert folds.summary(HideCodeCellNode("", source, part("cell_code_output"))) == called


def test_code_goes_behind_its_outputs_and_a_cell_folded_whole_stays():
    drawing, whole, page = part("cell_code"), part("cell_code"), nodes.document(None, None)
    drawing += [fold("cell_code_source"), part("cell_code_output")]
    whole += fold("cell_code_source", "cell_code_output")
    page += [drawing, whole]
    folds.move_behind(page)
    assert [type(n) for n in drawing] == [nodes.container, HideCodeCellNode] and len(whole) == 1


def test_no_drawing_has_a_bar_before_it_and_its_code_unfolds_without_javascript(visit, site):
    for path in site.glob("book/*.html"):
        assert not re.search(r'class="admonition hide|<details class="code">(?:(?!</details>).)*</details>\s*<div class="cell_output',
                             path.read_text(encoding="utf-8"), re.S), path.name  # fmt: skip
    page = visit("book/ch01_rooflines.html", javascript=False)
    code = page.locator("figure.picture").nth(2).locator("xpath=ancestor::div[contains(@class, 'cell ')]/details")
    code.scroll_into_view_if_needed()
    assert not code.locator("pre").is_visible() and code.locator("summary").bounding_box()["height"] < 30
    code.locator("summary").press("Enter")
    assert code.locator("pre").is_visible()
