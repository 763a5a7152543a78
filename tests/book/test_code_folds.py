"""Code behind what it drew: where its fold stands, what it is called, and that it unfolds without JavaScript."""

import re

import pytest
from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode

from tests.book.conftest import extension

folds = extension("code_folds")


def part(kind: str) -> nodes.container:
    return nodes.container(nb_element=kind)


def fold(*kinds: str) -> HideCodeCellNode:
    return HideCodeCellNode("", *map(part, kinds))


@pytest.mark.parametrize(
    "held, called",
    [
        (["cell_code_source"], "code"),
        (["cell_code_output"], "output"),
        (["cell_code_source", "cell_code_output"], "code and output"),
    ],
)
def test_a_fold_is_called_by_what_it_holds(held, called):
    assert folds.summary(fold(*held)) == called


@pytest.mark.parametrize(
    "code, called",
    [
        ("# Chunks & the state: k < s\nx = 1", "code and output: Chunks &amp; the state: k &lt; s"),
        ("x = 1  # one\n# two", "code and output"),
    ],
)
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
