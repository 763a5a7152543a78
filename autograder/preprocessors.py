"""Steps of ours among nbgrader's: `nbgrader_config.py` puts them in their places."""

import re
from pathlib import Path

import bleach
import nbformat
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from .rebuild import rebuild

LARGEST = 20_000_000  # bytes of a submitted notebook


def refusal(path: Path) -> str | None:
    """Why a submitted file cannot be graded at all: one sentence, or None."""
    if path.is_symlink():
        return "The submitted notebook is a link, not a file."
    if not path.is_file():
        return f"There is no notebook {path.name} in the submission."
    if path.stat().st_size > LARGEST:
        return f"The submitted notebook has {path.stat().st_size / 1e6:.0f} MB; at most {LARGEST / 1e6:.0f} are read."
    try:
        nb = nbformat.read(path, as_version=4)
    except RecursionError:
        return "The submitted file is nested too deep to be a notebook."
    except Exception as error:
        return f"The submitted file is not a notebook ({type(error).__name__})."
    return None if isinstance(nb.get("cells"), list) else "The submitted file is not a notebook (it has no cells)."


class Rebuild(NbGraderPreprocessor):
    """First step of autograde: the released notebook with the learner's answers in it."""

    def preprocess(self, nb, resources):
        course = self.parent.parent.coursedir  # exporter -> converter
        names = resources["nbgrader"]
        submitted = Path(course.root, course.format_path(
            course.submitted_directory, names["student"], names["assignment"]), f"{names['notebook']}.ipynb")  # fmt: skip
        if why := refusal(submitted):
            raise ValueError(why)
        released = Path(course.root, course.format_path(
            course.release_directory, ".", names["assignment"]), submitted.name)  # fmt: skip
        if not released.is_file():
            raise FileNotFoundError(f"{released} is missing: release the assignment first.")
        nb, notes = rebuild(nb, nbformat.read(released, as_version=4))
        for note in notes:
            self.log.warning(note)
        return nb, resources


class HideTests(ClearHiddenTests):
    """Feedback shows neither hidden tests nor the lines of them that a traceback would show."""

    def preprocess_cell(self, cell, resources, cell_index):
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.cell_type == "code" and is_grade(cell) and not is_solution(cell):
            for output in cell.outputs:
                if output.output_type == "error":
                    output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources


TAGS = set(bleach.ALLOWED_TAGS) | set(
    "br caption col colgroup dd details div dl dt figcaption figure h1 h2 h3 h4 h5 h6 hr img p pre s span sub summary "
    "sup table tbody td tfoot th thead tr".split()
)
TEXT_ATTRIBUTES = {"alt", "title", "colspan", "rowspan", "align", "open", "id", "width", "height"}


def allowed(tag: str, name: str, value: str) -> bool:
    """Attributes that cannot run anything: pictures are data, links lead to pages.

    >>> allowed("img", "src", "data:image/svg+xml,x"), allowed("img", "src", "http://x/y.png"), allowed("p", "onclick", "")
    (True, False, False)
    """
    if tag == "img" and name == "src":
        return value.startswith("data:image/")
    if tag == "a" and name == "href":
        return value.startswith(("http://", "https://", "#"))
    return name in TEXT_ATTRIBUTES


def safe_markdown(source: str) -> str:
    """Markdown as HTML that runs nothing and asks no other host: nbconvert's filter, for every markdown cell and output.

    >>> print(safe_markdown("[x](javascript:1) ![y](http://h/y.png) <b onclick='1'>z</b>").strip())
    <p><a>x</a> <img alt="y"> <b>z</b></p>
    """
    return bleach.clean(
        markdown2html_mistune(source), tags=TAGS, attributes=allowed, protocols={"http", "https", "data"}
    )


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
        return bleach.clean(html_str, tags=TAGS, attributes=allowed, protocols={"http", "https", "data"})
