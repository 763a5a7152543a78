"""notebooks/README.md: the page that JupyterLab opens."""

import re
from pathlib import Path

import yaml

from autograder.places import Tree, reading_of
from helpers import prose
from helpers.check.progress import BY_HAND, with_state
from helpers.study_time import pages, spent

from .exercises import Exercise, core
from .further_down import PREFIX, further
from .links import TITLE, Links
from .myst_to_commonmark import translate


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


HEADS = ("chapter", "read", "do", "points", "passed", "begun", "left", "next")


def start_page(tree: Tree, texts: dict[Path, str], made: dict[str, list[Exercise]], links: Links) -> str:
    """Every chapter with its reading and its exercises, as nobody has begun any; `with_state` shows what a learner has done."""
    lines = [f"# {escaped(name(tree))}", "", FIRST, ""]
    lines += [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    sources = {path.stem: path for path in (*tree.exercises, *tree.chapters)}  # a chapter's own title wins
    chapters = {path.stem: path for path in tree.chapters}
    lists, minutes_read = [], 0.0
    order = tree.edition.get("chapters") or sorted(sources)
    for topic, path in sorted(sources.items(), key=lambda pair: order.index(pair[0])):
        title = TITLE.search(texts[path])
        number = int(re.match(r"ch(\d\d)", topic)[1])
        shown = re.sub(r"^(Chapter )?\d+[.:]? +", "", title[1].strip()) if title else topic
        read = "in preparation"
        if topic in chapters:
            minutes = pages(chapters[topic].read_text(encoding="utf-8"))
            read, minutes_read = f"[reading]({topic}/reading.ipynb), {spent(minutes)}", minutes_read + minutes
        below = _further(chapters[topic], texts) if topic in chapters else {}
        minutes_read += sum(below.values())
        found = made.get(topic, [])
        first = core(found, links)
        do = f"[{len(found)} exercises]({topic}/exercises.ipynb), {_long(found)}" if found else "no exercises"
        do += f"; {len(first)} of them core, {_long(first)}" if first else ""
        lines.append(f"| {number} · {shown} | {read} | {do} |{' – |' * 5}")
        lists += _listed(topic, f"{number} · {shown}", below, found, first) if found or below else []
    every = [ex for found in made.values() for ex in found]
    lines.append(f"| **in all** | {spent(minutes_read)} | {len(every)} exercises, {_long(every)} |{' – |' * 5}")
    book = tree.root / "book/intro.md"
    paths = PATHS.search(book.read_text(encoding="utf-8")) if book.is_file() else None
    times = [translate(prose.render(paths[1].strip(), "book/intro.md"), links, "notebooks/README.md")] if paths else []
    parts = [*lines, "", MEANING, "", *times, "", "## All pages and exercises", "", *lists]
    text = "\n".join(parts) + HOW
    # Of closed ones students do not have the hidden tests.
    if {path.stem for path in tree.exercises} & {*tree.edition.get("closed", [])}:
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("- `course check`"))
    return with_state(text, {})


def _long(found: list[Exercise]) -> str:
    return spent(sum(ex.data.minutes for ex in found))


def _further(chapter: Path, texts: dict[Path, str]) -> dict[str, float]:
    """A link to each further page of a chapter, and its minutes."""
    about = lambda page: escaped(TITLE.search(texts[page])[1].strip().removeprefix(PREFIX))  # noqa: E731
    return {
        f"[{about(page)}]({reading_of(page.stem)})": pages(page.read_text(encoding="utf-8"))
        for page in further(chapter).values()
    }


def _listed(topic: str, title: str, below: dict[str, float], found: list[Exercise], first: list[Exercise]) -> list[str]:
    """The further pages and the exercises of a chapter, to unfold; `first` are the core ones."""
    lines = [f"<details><summary>{title}</summary>", ""]
    pages_ = "; ".join(f"{link}, {spent(minutes)}" for link, minutes in below.items())
    lines += [f"Further down: {pages_}.", ""] * bool(below)
    lines += ["| exercise | of | how hard | importance | time | points | state |", "|---|---|---|---|---|---|---|"]
    for ex in found:
        link = f"{topic}/exercises.ipynb#ex-{ex.number.replace('.', '-')}"
        hard = "★" * ex.data.stars + "☆" * (3 - ex.data.stars)
        about = "core" if ex in first else "further", hard, f"{ex.data.importance}/5", f"{ex.data.minutes} min"
        cells = f"[{ex.number}]({link}) {ex.title}", *about, f"{ex.points:g}"
        lines.append(f"| {' | '.join(cells)} |{f' {BY_HAND} ' if ex.manual else ' '}|")
    return [*lines, "", "</details>", ""]


PATHS = re.compile(r"^\(sec-paths\)=\n(## .*?)(?=^\(|^## |\Z)", re.M | re.S)

FIRST = """Read a chapter, then do its exercises, or go by [the time that you have](#How-much-time-have-you-got?).
In a reading press **Run > Run All Cells** first: that draws its pictures.
In an exercise write your answer into its cell, and press Shift+Enter there and again on the check below it.
[How it works](#How-it-works) says more."""

MEANING = """Points and exercises are those that checks judge; what a person grades is not counted.
*Left* is the time of what has not passed, *begun* what has a try and has not passed.
Stars say how hard an exercise is, importance how much later chapters and real work rest on it.
Core exercises need no more than the core of the chapter; the others are for more practice."""

HOW = """

## How it works

- A link leads to its exercise or section; outside of JupyterLab to the top of the notebook.
- Run a cell with Shift+Enter; if one of a reading misses a name, press **Run > Run All Above Selected Cell** there.
- An exercise is a cell to fill in and, below it, a line that checks what you wrote.
- Shift+Enter in your answer goes on to the check, Shift+Enter again runs it, as often as you like.
- The check names the mistake and never the answer; each exercise has hints to unfold.
- **Run > Restart Kernel and Run All Cells** runs everything of a notebook from the top in a fresh kernel.
- What passes is kept with the day in `progress.json`, beside your notebooks: a restart forgets nothing.
- In `work/`, this page shows it whenever it is opened (close it and open it again), and each check that passes says what is next.
- In a terminal `course` opens all this where you were, `course next` says what is next on your path, and `course status` how far you are.
- `course review` asks again what you have read and passed, after 1, 3, 7 and 21 days, with other numbers: five minutes a day.
- `course check` grades your notebooks with the full tests and changes nothing in them.
- `course reset 1.4` gives you exercise 1.4 anew.
- These are your own copies, in `work/`, which git ignores: `course update` brings new text into them, and your answers and own cells stay.
- If you have written into `notebooks/` itself, `course rescue` brings your answers into `work/`, also after a conflict.
"""
