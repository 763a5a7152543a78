"""A learner's term: three chapters, a restart a day, and a course that changes three times under the work (slow)."""

import re
from copy import deepcopy

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from autograder.engine.cell_names import defined
from autograder.making import cells, in_process_grading
from autograder.making.exercises import meta
from autograder.own_work.copies import NEWS, replace_file
from autograder.places import ROOT, Tree

from .course import Learner, answer, blocks, joined, released, shifted

TITLES = {
    "ch01_rooflines": ["The intensity of a dot product", "Between the bounds", "An int8 matrix multiplication",
                       "The exact critical batch", "Quantised weights", "The roofline against the batch"],
    "ch02_sharding": ["What one device holds", "Copies and partial sums", "Who holds what", "Legal or not",
                      "AllGather on a ring and on a line", "Reading the time off the notation"],
    "ch03_transformers": ["The FLOPs of an einsum", "The same product over a mesh", "The way back through a matmul",
                          "Count a model from its config", "What a layer computes", "Where attention wins"],
}  # fmt: skip
GONE = 3  # of these, the exercise that the last update leaves out


def words(chapter: str, source: NotebookNode) -> NotebookNode:
    """The first update: empty answers, statements and checks say something else; a hint is new, another is gone."""
    source = deepcopy(source)
    parts = blocks(source)
    for title in [*TITLES[chapter][::2], list(parts)[9]]:
        parts[title][0].source += "\n\nRead this twice."
        for cell in parts[title]:
            if meta(cell).get("solution"):
                cell.source = cell.source.replace('"""', '"""Said anew: ', 1)
            if meta(cell).get("grade"):
                cell.source = cell.source.replace("\ndef ", "\n# An update of the course was here.\ndef ", 1)
    parts[TITLES[chapter][1]].append(
        new_markdown_cell("<details><summary>New hint</summary>\n\n…\n\n</details>", id="hint")
    )
    parts[TITLES[chapter][5]].pop()
    source.cells = joined(parts)
    return source


def order(chapter: str, source: NotebookNode) -> NotebookNode:
    """The second: an exercise stands elsewhere, under its number; behind the third there is a new one, so others are renumbered."""
    source = deepcopy(source)
    parts = blocks(source)
    titles = list(parts)
    titles.insert(9, titles.pop(2))
    source.cells = joined({t: parts[t] for t in titles})
    source = shifted(source, 4)
    third = blocks(source)[TITLES[chapter][2]]
    new = deepcopy(third)
    name = next(iter(defined(answer(source, TITLES[chapter][2]).source)))
    for cell in new:
        cell.source = re.sub(rf"\b{name}\b", f"again_{name}", cell.source.replace(" — ", " — Once more: "))
        cell.source = re.sub(r"(Exercise \d\.)3 —", r"\g<1>4 —", cell.source)
        cell.id += "-new"
        if meta(cell):
            cell.metadata.nbgrader.grade_id = meta(cell)["grade_id"].replace("-q03", "-q04")
    at = next(i for i, c in enumerate(source.cells, 1) if c is third[-1])
    source.cells[at:at] = new
    return source


def fewer(chapter: str, source: NotebookNode) -> NotebookNode:
    """The third: an exercise leaves the course, those behind it move up, and every statement changes."""
    source = deepcopy(source)
    parts = blocks(source)
    gone = parts.pop(TITLES[chapter][GONE])
    number = int(re.search(r"Exercise \d+\.(\d+)", gone[0].source)[1])
    source.cells = joined(parts)
    source = shifted(source, number, -1)
    for cell in source.cells:
        if cell.source.startswith('<a id="ex-'):
            cell.source += "\n\nThis is the last edition."
    return source


UPDATES = (lambda chapter, source: source, words, order, fewer)


def publish(tree: Tree, sources: dict[str, NotebookNode], edition: int) -> None:
    """A release in notebooks/, as git would bring it; the reading gets a new cell in front, and another text, each time."""
    for chapter, source in sources.items():
        replace_file(tree.released(chapter), cells.dumps(released(source)).encode())
        reading = nbformat.read(ROOT / "notebooks" / chapter / "reading.ipynb", as_version=4)
        reading.cells[5].source += f"\n\nEdition {edition}."
        reading.cells[4:4] = [new_markdown_cell(f"News {n}", id=f"news-{n}") for n in range(edition)]
        replace_file(tree.notebooks / chapter / "reading.ipynb", cells.dumps(reading).encode())
    replace_file(tree.notebooks / "README.md", f"# Edition {edition}\n".encode())


@pytest.mark.slow("judges the exercises of three chapters at the end of a term")
def test_a_term_of_work_loses_nothing_and_every_total_is_right(tmp_path):
    tree, learner = Tree(tmp_path), Learner(Tree(tmp_path))
    sources = {chapter: in_process_grading.solved(chapter) for chapter in TITLES}
    typed = {(c, t): answered(sources[c], t) for c, titles in TITLES.items() for t in titles}
    days = iter([0, 1, 3, 2, 4, 5])  # which exercise a day is for; what the last update leaves out is done early
    for edition, change in enumerate(UPDATES):
        sources = {chapter: change(chapter, source) for chapter, source in sources.items()}
        publish(tree, sources, edition)
        for day in range(2 if edition < 2 else 1):
            said = learner.restarts()
            assert not learner.lost(), (edition, day, said)
            everything_is_where_it_belongs(learner, sources, edition)
            before = {p: p.read_bytes() for p in sorted(tree.root.rglob("*")) if p.is_file()}
            assert learner.restarts() == []
            assert before == {p: p.read_bytes() for p in sorted(tree.root.rglob("*")) if p.is_file()}
            which = next(days)
            for chapter, titles in TITLES.items():
                a_day(learner, chapter, titles[which], typed[chapter, titles[which]], f"{chapter}_{edition}_{day}")
    learner.restarts()
    assert not learner.lost()
    for chapter, titles in TITLES.items():
        score = learner.score(chapter, sources[chapter])
        assert len(score) >= len(titles) - 1  # one exercise is gone
        assert all(got == most for got, most in score.values()), score


def answered(source: NotebookNode, title: str) -> str:
    """Our answer as a learner would type it."""
    lines = answer(source, title).source.split("\n")
    return "\n".join(line for line in lines if line.strip() not in ("### BEGIN SOLUTION", "### END SOLUTION"))


def a_day(learner: Learner, chapter: str, title: str, text: str, mark: str) -> None:
    """An answer, a try of one's own below it, a note in the reading, and something changed in what the course says."""
    exercises, reading = f"{chapter}/exercises.ipynb", f"{chapter}/reading.ipynb"
    learner.answers_it(chapter, title, text)
    nb = learner.open(exercises)
    here = next(i for i, c in enumerate(nb.cells) if c.id == answer(nb, title).id)
    learner.adds(exercises, here, f"tried_{mark} = 1")
    learner.adds(reading, 5, f"Understood on day {mark}.", code=False)
    nb = learner.open(reading)
    cell = next(
        c for c in nb.cells[6:] if c.cell_type == "code" and "mine" not in c.source and c.id in RELEASED[chapter]
    )
    cell.source += f"\n# mine: {mark}"
    learner.own.append((reading, cell.source))
    learner.save(reading, nb)


RELEASED = {
    c: {x.id for x in nbformat.read(ROOT / "notebooks" / c / "reading.ipynb", as_version=4).cells} for c in TITLES
}


def everything_is_where_it_belongs(learner: Learner, sources: dict[str, NotebookNode], edition: int) -> None:
    for chapter, source in sources.items():
        new, copy = released(source), learner.open(f"{chapter}/exercises.ipynb")
        course = {c.id for c in new.cells}
        assert [c.id for c in copy.cells if c.id in course] == [c.id for c in new.cells]
        there = {c.id: c for c in copy.cells}
        for title, part in blocks(new).items():
            for cell in part:
                mine = learner.answers.get((chapter, title)) if meta(cell).get("solution") else None
                assert there[cell.id].source == (mine or cell.source)
                assert there[cell.id].metadata == cell.metadata
                if mine:
                    assert there[cell.id].outputs[0].text == f"ran {title}\n"
        gone = {t for c, t in learner.answers if c == chapter} - blocks(new).keys()
        assert gone == ({TITLES[chapter][GONE]} if edition == 3 else set())
        texts = [c.source for c in learner.open(f"{chapter}/reading.ipynb").cells]
        assert all(f"News {n}" in texts for n in range(edition))
        assert any(f"\n\nEdition {edition}." in t for t in texts)
    assert NEWS.sub("", learner.path("README.md").read_text()) == f"# Edition {edition}\n"
