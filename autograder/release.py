"""From sources to notebooks: `python -m autograder.release [--check | --course]`.

book/chNN_topic.md       -> notebooks/chNN_topic/reading.ipynb
book/chNN_topic_NAME.md  -> notebooks/chNN_topic/further_NAME.ipynb
solutions/chNN_topic.md  -> autograder/source, nbgrader's generate_assignment, autograder/release
                         -> notebooks/chNN_topic/exercises.ipynb and checks.json, what learners see of its checks
                         -> notebooks/given_cells.json, what they give to their checks
both, book/data/review.yaml -> notebooks/review.json, questions and exercises with other numbers
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import nbformat

from autograder.engine import jax_internals, sandbox
from autograder.making.exercises import source_notebook
from autograder.making.links import Links
from autograder.making.start_page import start_page
from helpers.check import shown_checks

from . import course
from .grading.whole_files import replace
from .making import cells, given_cells, review_cards, shown_cases
from .places import COURSE, NOTEBOOK, SourceError, Tree, is_reading, reading_of

GIVEN = "given_cells.json"


def generate(tree: Tree, scratch: Path, into: Path, database: bool, chapter: str = "") -> None:
    """Write every notebook under `into`, by way of nbgrader's folders under `scratch`; of one chapter, "ch02", nothing else."""
    texts = cells.sources(tree)
    links = Links.of(tree, texts)
    for path in chosen(tree.readings, chapter):
        write(into / reading_of(path.stem), cells.dumps(cells.reading(path, texts[path], links, tree.root)))
    made, given, cards = {}, {}, []
    for path in chosen(tree.exercises, chapter):
        nb, made[path.stem], checks = source_notebook(path, texts[path], links, tree.root)
        cards += review_cards.done(path.stem, nb, shown_cases.add(nb))
        given |= given_cells.given(nb)
        write(scratch / "source" / path.stem / f"{NOTEBOOK}.ipynb", cells.dumps(nb))
        for folder in (scratch / "source", into):
            write(folder / path.stem / shown_checks.NAME, json.dumps(checks, indent=1, ensure_ascii=False) + "\n")
    api = None
    for topic in made:
        c = course.config(None if scratch == COURSE else scratch, database)
        api = api or course.api(c)
        worked, why = course.run(api.generate_assignment, topic, force=True)
        if not worked:
            raise SourceError(f"nbgrader could not release {topic}: {why}")
        released = scratch / "release" / topic / f"{NOTEBOOK}.ipynb"
        text = cells.dumps(cells.normal(nbformat.read(released, as_version=4)))
        write(released, text)
        write(into / topic / f"{NOTEBOOK}.ipynb", text)
    if not chapter:
        write(into / "README.md", start_page(tree, texts, made, links))
        cards = [*review_cards.asked(tree, texts, links), *cards]
        write(into / review_cards.NAME, json.dumps(cards, indent=1, ensure_ascii=False) + "\n")
        write(into / GIVEN, json.dumps(given, indent=1, ensure_ascii=False) + "\n")


def chosen(sources: list[Path], chapter: str) -> list[Path]:
    """Those of one chapter; all where none is named."""
    return [path for path in sources if path.stem.startswith(chapter)]


def write(path: Path, text: str) -> None:
    """As a whole: of a notebook that is cut nobody could tell whether it holds answers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, text)


def own_answers(released: Path) -> list[str]:
    """grade_ids of the answers in a notebook that differ from what was released."""
    from nbgrader.utils import compute_checksum, is_solution

    if not released.is_file():
        return []
    try:
        nb = nbformat.read(released, as_version=4)
    except Exception as error:
        where = f"{released.name} of {released.parent.name}"
        raise SourceError(f"{where} is not a notebook any more: move it away first.") from error
    return [
        c.metadata.nbgrader.grade_id
        for c in nb.cells
        if is_solution(c) and c.metadata.nbgrader.get("checksum") not in (None, compute_checksum(c))
    ]


def refuse_to_overwrite(tree: Tree) -> None:
    """Stop before a learner's answers get lost."""
    for path in sorted(tree.notebooks.glob(f"ch*/{NOTEBOOK}.ipynb")):  # also those whose source is gone
        if done := own_answers(path):
            shown = ", ".join(done[:3]) + (f" and {len(done) - 3} more" if len(done) > 3 else "")
            raise SourceError(
                f"{path.relative_to(tree.root)} holds answers ({shown}) that a release would "
                "overwrite: `course rescue` brings them into work/; or set FORCE=1."
            )


def release(tree: Tree, scratch: Path, database: bool = True, force: bool = False) -> None:
    """Bring `notebooks/` up to date; everything is made before anything is replaced."""
    if not force:
        refuse_to_overwrite(tree)
    with tempfile.TemporaryDirectory() as folder:
        generate(tree, scratch, Path(folder), database)
        for old in outdated(Path(folder), tree.notebooks):
            if (Path(folder) / old).exists():
                write(tree.notebooks / old, (Path(folder) / old).read_text(encoding="utf-8"))
            else:
                (tree.notebooks / old).unlink()


def outdated(fresh: Path, notebooks: Path) -> list[Path]:
    """Generated files that differ between two folders, or are in one of them only."""

    def files(folder: Path) -> set[Path]:
        alone = ("README.md", GIVEN, review_cards.NAME)
        found = [*map(folder.joinpath, alone), *folder.glob("ch[0-9][0-9]_*/*.*")]
        ours = (*alone, shown_checks.NAME, f"{NOTEBOOK}.ipynb")
        return {p.relative_to(folder) for p in found if p.is_file() and (p.name in ours or is_reading(p.name))}

    every = sorted(files(fresh) | files(notebooks))
    return [
        p for p in every
        if not ((fresh / p).is_file() and (notebooks / p).is_file())
        or (fresh / p).read_bytes() != (notebooks / p).read_bytes()
    ]  # fmt: skip


def check(tree: Tree, chapter: str = "") -> list[Path]:
    """Generated files, of one chapter or all, that are not what the sources say; nothing is written outside of a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        scratch, fresh = Path(folder).resolve() / "course", Path(folder).resolve() / "notebooks"
        generate(tree, scratch, fresh, database=False, chapter=chapter)
        old = outdated(fresh, tree.notebooks)
        return [path for path in old if path.parts[0].startswith(chapter)]


def compile_quickly() -> None:
    """Save half of XLA's time, where JAX has not started: what is compiled to make values runs once.

    Some values are rounded otherwise, for which there is `kept_values.settled`.
    """
    flags = sandbox.ENVIRONMENT["XLA_FLAGS"], os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = " ".join(["--xla_llvm_disable_expensive_passes=true", *flags]).strip()
    jax_internals.share_context()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.release", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only name the files that are out of date")
    parser.add_argument("--course", action="store_true", help="only fill nbgrader's folders; notebooks/ stays as it is")
    options = parser.parse_args(argv)
    tree = Tree()
    compile_quickly()
    try:
        if options.course:
            with tempfile.TemporaryDirectory() as folder:
                generate(tree, COURSE, Path(folder), database=True)
            return 0
        if options.check:
            old = check(tree)
            for path in old:
                print(f"notebooks/{path.as_posix()} is not what the sources give: run `make release`.")
            return 1 if old else 0
        release(tree, COURSE, force=os.environ.get("FORCE") == "1")
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Released {len(tree.exercises)} assignment(s) and {len(tree.readings)} reading notebook(s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
