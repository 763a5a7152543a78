"""A scratch course to attack: the sample chapter with four exercises more, whose checks trace, count and run programs."""

import json
import shutil
from pathlib import Path

from autograder.grade import Class
from autograder.places import Tree
from tools import demo

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "sample"
TOPIC = "ch01_sample"


def tree(folder: Path) -> Tree:
    """The sources."""
    shutil.copytree(SAMPLE, folder)
    chapter = folder / "solutions" / f"{TOPIC}.md"
    chapter.write_text(
        f"{chapter.read_text('utf-8').rstrip()}\n\n{(HERE / 'target_exercises.md').read_text('utf-8')}", "utf-8"
    )
    return Tree(folder)


def opened(folder: Path, seconds: int = 2) -> Class:
    """The course, released, with a gradebook of its own."""
    what = demo.open_class(TOPIC, tree(folder / "tree"), folder / "course")
    return Class(what.topic, what.scratch, timeout=seconds)


def released(what: Class) -> dict:
    """What learners got, with the text of each cell in one piece."""
    nb = json.loads(what.notebook("release").read_text("utf-8"))
    for cell in nb["cells"]:
        cell["source"] = "".join(cell["source"])
    return nb
