"""notebooks/README.md: the page that JupyterLab opens."""

import re
from pathlib import Path

import yaml

from autograder.places import Tree

from .exercises import Exercise
from .links import TITLE


def name(tree: Tree) -> str:
    """What the book of this tree is called."""
    config = tree.root / "_config.yml"
    return yaml.safe_load(config.read_text(encoding="utf-8"))["title"] if config.is_file() else "Rooflines to Racks"


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(escaped("A & <B>, v_1"))
    A \& \<B>, v\_1
    """
    return re.sub(r"([\\`*_{\[\]<&$#|~])", r"\\\1", text)


def start_page(tree: Tree, texts: dict[Path, str], made: dict[str, list[Exercise]]) -> str:
    """Every chapter with its reading and its exercises, and how to check one's work."""
    lines = [f"# {escaped(name(tree))}", "", "Read a chapter, then do its exercises.", ""]
    lines += ["| chapter | read | do |", "|---|---|---|"]
    sources = {path.stem: path for path in (*tree.exercises, *tree.chapters)}  # a chapter's own title wins
    chapters = {path.stem for path in tree.chapters}
    for topic, path in sorted(sources.items()):
        title = TITLE.search(texts[path])
        number = int(re.match(r"ch(\d\d)", topic)[1])
        shown = re.sub(r"^(Chapter )?\d+[.:]? +", "", title[1].strip()) if title else topic
        read = f"[reading]({topic}/reading.ipynb)" if topic in chapters else "in preparation"
        found = made.get(topic, [])
        points = sum(ex.points for ex in found)
        do = f"[{len(found)} exercises]({topic}/exercises.ipynb), {points:g} points" if found else "no exercises"
        lines.append(f"| {number} · {shown} | {read} | {do} |")
    return "\n".join(lines) + HOW


HOW = """

## How it works

- Run a cell with Shift+Enter.
- An exercise is a cell to fill in and, folded below it, a cell that checks what you wrote.
- Shift+Enter in your answer goes on to the check, Shift+Enter again runs it, as often as you like.
- The check names the mistake and never the answer; each exercise has hints to unfold.
- **Validate**, in the toolbar of a notebook, runs everything from the top in a fresh kernel.
- `make check` (or `python -m autograder.grade_own`) in a terminal grades your notebooks with the full tests and changes nothing in them.
- Your answers live in these notebooks: a new release does not overwrite them unless told to.
"""
