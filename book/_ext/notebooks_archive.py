"""Sphinx extension: all notebooks as one file beside the pages, notebooks.zip, the same bytes from the same sources.

Whoever has no git gets them in one download.  Nothing of the theme matters to it.
"""

import zipfile
from pathlib import Path

from released_exercises import ROOT, emptied, restore

NAME = "notebooks.zip"
README = """Rooflines to Racks: the notebooks

Open notebooks/README.md in JupyterLab, or any notebook in Jupyter with Python 3.11, 3.12, 3.13 or 3.14.
The first cell installs the course's package; JAX, NumPy and Matplotlib have to be there.
What else the course has (grading, tests, the book itself) comes with a clone.
"""


def files(root: Path = ROOT) -> dict[str, str]:
    """Place in the archive -> text: what was released, without outputs, whatever somebody has written since."""
    found = {"README.txt": README, "notebooks/README.md": (root / "notebooks/README.md").read_text(encoding="utf-8")}
    for path in sorted((root / "notebooks").glob("ch*/*.ipynb")):
        name = path.relative_to(root).as_posix()
        source = [path.read_text(encoding="utf-8")]
        restore(None, name.removesuffix(".ipynb"), source)
        found[name] = emptied(source[0])
    for path in sorted((root / "notebooks").glob("ch*/checks.json")):
        found[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return found


def write(to: Path, root: Path = ROOT) -> None:
    """The archive, with the same date on every file."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files(root).items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)


def finish(app, error) -> None:
    """Put it beside the pages of a site that was built."""
    if not error and app.builder.format == "html":
        write(Path(app.outdir) / NAME)


def setup(app) -> dict:
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
