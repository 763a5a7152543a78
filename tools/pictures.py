"""Drawings of the chapters as files for slides: `make pictures`, or `CHAPTER=ch04 make pictures` for one chapter's.

Each notebook to read is run in a kernel; what it draws lies in _build/pictures, a folder for each chapter, numbered as on the page.
"""

import base64
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from autograder.places import ROOT, Tree, reading_of

SLIDE = 'width="1280" height="720"'  # of 16 to 9; the viewBox keeps each drawing's own proportions
DRAWN = re.compile(r'<figure class="picture"><img alt="[^"]*" src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"')
SECTION = re.compile(r'<a id="(sec-[\w-]+)">')


def drawings(nb: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """The label of the section that each drawing of a notebook stands in, "" above the first, and its SVG at the size of a slide.

    >>> svg = base64.b64encode(b'<svg width="9" height="4" viewBox="0 0 9 4"></svg>').decode()
    >>> shown = {"text/html": f'<figure class="picture"><img alt="x" src="data:image/svg+xml;base64,{svg}" style="">'}
    >>> text = nbformat.v4.new_markdown_cell('<a id="sec-dot"></a>')
    >>> code = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", shown)])
    >>> drawings(nbformat.v4.new_notebook(cells=[text, code]))
    [('sec-dot', '<svg width="1280" height="720" viewBox="0 0 9 4"></svg>')]
    """
    found, section = [], ""
    for cell in nb.cells:
        section = ([section] + SECTION.findall(cell.source))[-1] if cell.cell_type == "markdown" else section
        for output in cell.get("outputs", []):
            for svg in DRAWN.findall("".join(output.get("data", {}).get("text/html", ""))):
                text = base64.b64decode(svg).decode("utf-8")
                root = re.search(r"<svg\b[^>]*>", text)[0]
                sized = re.sub(r'\s(?:width|height)="[^"]*"', "", root).replace("<svg", f"<svg {SLIDE}", 1)
                found.append((section, text.replace(root, sized, 1)))
    return found


def main() -> int:
    tree, into, wanted = Tree(), ROOT / "_build/pictures", os.environ.get("CHAPTER", "")
    paths = [p for p in tree.readings if p.stem.startswith(wanted)]
    for path in paths:
        notebook = tree.notebooks / reading_of(path.stem)
        nb = nbformat.read(notebook, as_version=4)
        where, quiet = {"metadata": {"path": str(notebook.parent)}}, ["--IPKernelApp.log_level=40"]
        NotebookClient(nb, timeout=600, resources=where, extra_arguments=quiet).execute()
        folder = into / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        found = drawings(nb)
        for number, (section, svg) in enumerate(found, 1):
            (folder / f"{number:02d}-{section or 'top'}.svg").write_text(svg, encoding="utf-8")
        print(f"{len(found)} drawings in {Path(folder).relative_to(ROOT)}", flush=True)
    if not paths:
        print(f'There is no chapter "{wanted}".', file=sys.stderr)
    return 0 if paths else 1


if __name__ == "__main__":
    sys.exit(main())
