"""What a learner wrote or printed runs nothing and asks no other host, in feedback and in the Formgrader."""

from html.parser import HTMLParser

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder import course
from autograder.grading.nbgrader_steps import safe_output

ATTACKS = [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x]( java&#9;script:alert(1))",
    "[x](data:text/html,<script>1</script>)",
    "[x][1]\n\n[1]: vbscript:1",
    "![x](http://elsewhere.example/x.png)",
    "<img src=x onerror=alert(1)>",
    "<a href='javascript:1'>x</a>",
]


class Attributes(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self):
        super().__init__()
        self.found, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.found += [(k, v or "") for k, v in attrs]


def page(*cells) -> str:
    """The body of the page that nbgrader's exporter makes of these cells."""
    c = course.config()
    html = HTMLExporter(config=c, template_name="basic").from_notebook_node(new_notebook(cells=list(cells)))[0]
    return html.lower()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("text", ATTACKS)
def test_markdown_of_a_learner(text):
    output = new_output("display_data", {"text/markdown": text})
    seen = Attributes()
    seen.feed(page(new_markdown_cell(text), new_code_cell("", outputs=[output])))
    leads = [v for k, v in seen.found if k in ("href", "src")]
    assert all(v.startswith(("http://", "https://", "#", "data:image/")) and "elsewhere" not in v for v in leads), leads
    assert not [k for k, _ in seen.found if k.startswith("on")] and "script" not in seen.tags


def test_outputs_carry_sizes_and_base64_only():
    out = new_output(
        "display_data",
        {"image/png": "iVBORw0KGgo="},
        metadata={"image/png": {"width": "1 onerror=x", "height": 5}, "x": 1},
    )
    assert safe_output(out).metadata == {"image/png": {"height": 5}}
    assert "image/png" not in safe_output(new_output("display_data", {"image/png": '" onerror="x'})).data


@pytest.mark.filterwarnings("default")
def test_the_courses_own_text_keeps_its_markup():
    cell = new_markdown_cell("<a id='ex-1-1'></a>\n\n<details><summary>Hint</summary>\n\n$a < b$, `x`\n\n</details>")
    cell.metadata = nbformat.from_dict({"released": True})
    html = page(cell)
    assert "<details>" in html and 'id="ex-1-1"' in html and "<code>x</code>" in html and "a &lt; b" in html
