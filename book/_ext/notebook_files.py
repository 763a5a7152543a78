"""Sphinx extension: what the site takes from notebooks/: exercises as they were released, an archive, cards for review.

Pages of exercises show the release, whatever somebody has written into notebooks/ since: who has solved the exercises in place and builds
the book publishes no answer and no output, nor in the copies under _sources.
An exercise's link to a section of its reading leads to the chapter's page, as readings are no pages.
notebooks.zip has all notebooks, the same bytes from the same sources: who has no git gets them in one download.
review_cards.js has the cards of the page for review, which `make release` writes, as a script that also works from a file.
Nothing of the theme matters to it.
"""

import json
import re
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READING = re.compile(r"\]\((?:reading|further_\w+)\.ipynb#")
NAME, CARDS = "notebooks.zip", "review_cards.js"
README = """Rooflines to Racks: the notebooks

Open notebooks/README.md in JupyterLab, or any notebook in Jupyter with Python 3.11, 3.12, 3.13 or 3.14.
The first cell installs the course's package; JAX, NumPy and Matplotlib have to be there.
What else the course has (grading, tests, the book itself) comes with a clone.
"""


def checksums(text: str) -> list:
    """nbgrader's marks of a release; filling in answers leaves them as they are."""
    marks = [cell["metadata"].get("nbgrader") for cell in json.loads(text)["cells"]]
    return [mark.get("checksum") for mark in marks if mark is not None]


def released(name: str, text: str) -> str:
    """A notebook without outputs; of exercises nbgrader's copy of the same release, where there is one."""
    made = ROOT / "autograder/release" / f"{name.removeprefix('notebooks/')}.ipynb"
    if (
        name.endswith("/exercises")
        and made.is_file()
        and checksums(made.read_text(encoding="utf-8")) == checksums(text)
    ):
        text = made.read_text(encoding="utf-8")
    nb = json.loads(text)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(nb)


def restore(app, docname: str, source: list[str]) -> None:
    """A page of exercises is the release; its links to sections are labels, which Sphinx knows wherever they stand."""
    if docname.startswith("notebooks/"):
        source[0] = READING.sub("](#", released(docname, source[0]))


def files(root: Path = ROOT) -> dict[str, str]:
    """Place in the archive -> text: what was released, without outputs, whatever somebody has written since."""
    found = {"README.txt": README, "notebooks/README.md": (root / "notebooks/README.md").read_text(encoding="utf-8")}
    for path in sorted((root / "notebooks").glob("ch*/*.ipynb")):
        name = path.relative_to(root).with_suffix("").as_posix()
        found[f"{name}.ipynb"] = released(name, path.read_text(encoding="utf-8"))
    for path in sorted((root / "notebooks").glob("ch*/checks.json")):
        found[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return found


def archive(to: Path, root: Path = ROOT) -> None:
    """The archive, with the same date on every file."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files(root).items():
            packed.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)


def finish(app, error) -> None:
    """The archive, the cards, and the copies that pages offer to download, beside the pages of a site that was built."""
    if error or app.builder.format != "html":
        return
    out, cards = Path(app.outdir), Path(app.srcdir, "notebooks/review.json")
    archive(out / NAME)
    if cards.is_file():
        text = json.dumps(json.loads(cards.read_text(encoding="utf-8")), ensure_ascii=False, separators=(",", ":"))
        (out / "_static" / CARDS).write_text(f"const reviewCards = {text};\n", encoding="utf-8")
    for path in (out / "_sources").glob("notebooks/*/exercises.ipynb"):
        name = path.relative_to(out / "_sources").with_suffix("").as_posix()
        path.write_text(released(name, path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app) -> dict:
    app.connect("source-read", restore, priority=400)
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
