"""Steps of ours among nbgrader's: `nbgrader_config.py` puts them in their places."""

import functools
import html
import re
from pathlib import Path

import bleach
import nbformat
from jinja2 import pass_context
from nbconvert.filters import Highlight2HTML, strip_ansi
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from . import pictures


class HideTests(ClearHiddenTests):
    """Feedback shows neither hidden tests nor the lines of them that a traceback would show."""

    def preprocess_cell(self, cell, resources, cell_index):
        if cell.cell_type != "code" or not is_grade(cell) or is_solution(cell):
            return cell, resources  # a learner's: nbgrader would cut at its marks there, or make no page
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        for output in cell.outputs:
            if output.output_type == "error":
                output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources


SAME = 300  # cells that are kept as HTML: most of a notebook is the same for everybody
LONG = 10_000  # characters of text or HTML that are shown as written and not as meant
TAGS = set(bleach.ALLOWED_TAGS) | set(
    "br caption col colgroup dd details div dl dt figcaption figure h1 h2 h3 h4 h5 h6 hr img p pre s span sub summary "
    "sup table tbody td tfoot th thead tr".split()
)
PROTOCOLS = {"http", "https", "data"}
ATTACHED = re.compile(f"attachment-{pictures.NAME.pattern}")
TEXT_ATTRIBUTES = {"alt", "title", "colspan", "rowspan", "align", "open", "id", "width", "height"}


def allowed(tag: str, name: str, value: str) -> bool:
    """Attributes that cannot run anything: pictures are data, links lead to pages.

    >>> allowed("img", "src", "data:image/svg+xml,x"), allowed("img", "src", "http://x/y.png"), allowed("p", "onclick", "")
    (True, False, False)
    """
    if tag == "img" and name == "src":
        return value.startswith("data:image/") or bool(ATTACHED.fullmatch(value))
    if tag == "a" and name == "href":
        return value.startswith(("http://", "https://", "#"))
    return name in TEXT_ATTRIBUTES


@pass_context
def markdown_of_cell(context, source: str) -> str:
    """nbconvert's filter for every markdown cell and output, with the cell's own pictures."""
    return safe_markdown(source, (context.get("cell") or {}).get("attachments"))


def safe_markdown(source: str, attachments: dict | None = None) -> str:
    """Markdown as HTML that runs nothing and asks no other host; of attachments only what `pictures` took is shown.

    >>> print(safe_markdown("[x](javascript:1) ![y](http://h/y.png) <b onclick='1'>z</b>").strip())
    <p><a>x</a> <img alt="y"> <b>z</b></p>
    >>> print(safe_markdown("![a picture](attachment:none.png)").strip())
    <p><img alt="a picture"></p>
    """
    if len(source) > LONG:  # parsing it could take for ever
        return plain_text(source)
    return pictures.shown(_cleaned(source), attachments or {})


@functools.lru_cache(SAME)
def _cleaned(source: str) -> str:
    made = markdown2html_mistune(source.replace("attachment:", "attachment-"))  # a missing one would be an error
    return bleach.clean(made, tags=TAGS, attributes=allowed, protocols=PROTOCOLS)


CODE = 20_000  # characters of a cell that are coloured
LINE = 500  # and of one line of it: Pygments takes a second for 5,000 of "a.a.a.", four for twice as many
highlight = Highlight2HTML(pygments_lexer="ipython3")


def safe_code(source: str, language: str | None = None, metadata=None) -> str:
    """Code as HTML: nbconvert's filter, in colours only as far as that takes no time to speak of.

    >>> safe_code("a" * 501)[:46], safe_code("<")[-41:]
    ('<div class="highlight hl-ipython3"><pre>aaaaaa', '<span class="o">&lt;</span>\\n</pre></div>\\n')
    """
    if len(source) > CODE or any(len(line) > LINE for line in source.split("\n")):
        return plain_code(source)
    return _coloured(source, (metadata or {}).get("magics_language"))


@functools.lru_cache(SAME)
def _coloured(source: str, language: str | None) -> str:
    return highlight(source, language)


def plain_code(source: str, language: str | None = None, metadata=None) -> str:
    return f'<div class="highlight hl-ipython3"><pre>{html.escape(source)}</pre></div>'


def plain_text(source: str) -> str:
    """Text as it is written, whatever it was meant to be.

    >>> plain_text("*a* <b>")
    '<pre>*a* &lt;b&gt;</pre>'
    """
    return f"<pre>{plain_ansi(source)}</pre>"


def as_it_is(source: str) -> str:
    """In place of nbconvert's search for links to `files/`, which takes minutes for a cell of brackets; ours have none."""
    return source


def plain_ansi(source: str) -> str:
    """What a terminal would show, without its colours."""
    return html.escape(strip_ansi(source))


class Plain(NbGraderPreprocessor):
    """Outputs as text, a screen or two of each: for a page that would take too long."""

    def preprocess_cell(self, cell, resources, cell_index):
        for output in cell.get("outputs", []):
            if "data" in output:
                text = "".join(output.data.get("text/plain", "(not shown)"))
                output.data, output.metadata = nbformat.from_dict({"text/plain": text[:LONG]}), nbformat.from_dict({})
            elif output.output_type == "stream":
                output.text = "".join(output.text)[:LONG]
            else:
                output.traceback = ["\n".join(output.traceback)[:LONG]]
        return cell, resources


def safe_output(output):
    """An output whose metadata are sizes and whose pictures are base64: nbconvert writes both into attributes unquoted."""
    data = output.get("data", {})
    for mime in [m for m in data if m.startswith("image/") and m != "image/svg+xml"]:
        if not re.fullmatch(r"[A-Za-z0-9+/=\s]*", "".join(data[mime])):
            del data[mime]
    if "metadata" in output:
        sizes = {
            m: {k: v for k, v in d.items() if k in ("width", "height") and type(v) is int}
            for m, d in output.metadata.items()
            if isinstance(d, dict)
        }
        output.metadata = nbformat.from_dict(sizes)
    return output


MARKS = re.compile(r"^### (?:BEGIN|END) [A-Z ]+\n?", re.M)  # of nbgrader, around what it cuts out


class Rubrics(NbGraderPreprocessor):
    """In the Formgrader, and nowhere else, our answer with its rubric unfolds above each answer that a person grades."""

    def preprocess(self, nb, resources):
        if "submission_id" not in resources:  # only the Formgrader says which submission it shows
            return nb, resources
        course = CourseDirectory(parent=self)
        folder = course.format_path(course.source_directory, ".", resources["assignment_id"])
        source = Path(course.root, folder, f"{resources['notebook_id']}.ipynb")
        ours = nbformat.read(source, as_version=4).cells if source.is_file() else []
        ours = [c for c in ours if is_grade(c) and is_solution(c)]
        answers = {c.metadata.nbgrader.grade_id: MARKS.sub("", c.source) for c in ours}
        cells = []
        for cell in nb.cells:
            if is_grade(cell) and (text := answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"))):
                folded = f"<details><summary>Our answer, and its rubric</summary>\n\n{text}\n\n</details>"
                cells.append(nbformat.v4.new_markdown_cell(folded, metadata={"released": True}))
            cells.append(cell)
        nb.cells = cells
        return nb, resources


class Sanitize(SanitizeHTML):
    """Feedback and formgrader show what learners wrote and printed, and run none of it.

    The course's own text (marked by Rebuild) is left alone: its details, anchors and quotes are markup.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        if cell.cell_type == "code":
            cell.outputs = self.sanitize_code_outputs([safe_output(o) for o in cell.outputs])
        elif cell.cell_type != "markdown" or not cell.metadata.get("released"):
            # A tag's "<" has a letter, "/", "!" or "?" behind it; "a < b", quotes and formulas stay as they are.
            cell.source = re.sub(r"<(?=[A-Za-z/!?])", "< ", cell.source)
        return cell, resources

    def sanitize_html_tags(self, html_str):
        if len(html_str) > LONG:
            return f"<pre>{html.escape(html_str)}</pre>"
        return bleach.clean(html_str, tags=TAGS, attributes=allowed, protocols=PROTOCOLS)
