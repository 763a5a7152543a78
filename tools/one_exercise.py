"""One exercise of a chapter by itself: made as notebooks have it, with the cells that it needs and its samples."""

import ast
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.making import bank, cells
from autograder.making.exercises import Exercise, by_exercise, complete, exercises, meta, refuse_unfilled
from autograder.making.in_process_grading import exercise_of
from autograder.making.links import Links
from autograder.places import SourceError, Tree

from .new_exercise import chapter_of


@dataclass(frozen=True)
class Trial:
    """An exercise by itself, solved."""

    exercise: Exercise
    notebook: NotebookNode
    wrong: list[bank.Mutant]
    right: list[bank.Variant]
    unseen: list[bank.Mutant]  # those of `wrong` whose mistake shows in no case
    checks: dict[str, list[str]]  # lines that learners see of its checks, by name


def made(number: str, tree: Tree) -> Trial:
    """The exercise as notebooks have it, and its samples; SourceError if something of it is not as it has to be."""
    path, chapter, _ = chapter_of(number, tree)
    texts = cells.sources(tree, path)
    pieces, name = by_exercise(texts[path]), f"{path.parent.name}/{path.name}"
    if number not in pieces:
        numbers = list(pieces)
        raise SourceError(f"There is no exercise {number}: chapter {chapter} has {numbers[0]} to {numbers[-1]}.")
    refuse_unfilled({number: pieces[number]}, name)
    links = Links.of(tree, texts)
    own = cells.translated(path, pieces[number], links, tree.root)
    found = exercises(own, name)
    front = cells.translated(path, texts[path].partition(next(iter(pieces.values())))[0], links, tree.root)
    before = [cell for n in list(pieces)[: list(pieces).index(number)] for cell in cells.read(pieces[n])]
    given = [cell for cell in before if cell.cell_type == "code" and meta(cell) and not meta(cell).get("grade")]
    samples, grade_id = tree.root / "autograder" / "samples", found[0].grade_id
    wrong = [m for m in bank.mutants(path.stem, samples) if exercise_of(m.grade_id) == grade_id]
    right = [v for v in bank.variants(path.stem, samples) if exercise_of(v.grade_id) == grade_id]
    kept = [*front, *needed(given, own), *own]
    unseen, checks = complete(found, kept, name, wrong)
    return Trial(found[0], cells.notebook(kept), wrong, right, unseen, checks)


def needed(given: list[NotebookNode], exercise: list[NotebookNode]) -> list[NotebookNode]:
    """Those of the given cells that define what the exercise's own use, and what these use in turn."""
    used = {name for cell in exercise if cell.cell_type == "code" for name in _names(cell.source, ast.Load)}
    kept: list[NotebookNode] = []
    for cell in reversed(given):
        if used & _names(cell.source, ast.Store):
            used |= _names(cell.source, ast.Load)
            kept.insert(0, cell)
    return kept


def _names(source: str, context: type) -> set[str]:
    """Names that a cell uses (Load) or gives (Store)."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError as error:
        raise SourceError(f"A cell is no Python: {error.msg} in its line {error.lineno}, {error.text!r}.") from None
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
    if context is ast.Store:
        found |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return found
