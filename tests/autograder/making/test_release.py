"""Release: the same bytes each time, nothing of the solutions, and sentences for what is wrong in a source."""

import codecs
import json
from pathlib import Path

import nbformat
import pytest

from autograder import release
from autograder.grading import whole_files
from autograder.making import cells, first_cell, in_process_grading, review_cards
from autograder.making.exercises import meta
from autograder.places import ROOT, SourceError, Tree

SAMPLE = ROOT / "tests" / "autograder" / "sample"


def read(folder, name="exercises"):
    return nbformat.read(folder / "notebooks" / "ch01_sample" / f"{name}.ipynb", as_version=4)


def test_same_bytes_each_time(generated, tmp_path):
    release.generate(Tree(SAMPLE), tmp_path / "course", tmp_path / "notebooks", database=False)
    assert release.outdated(tmp_path / "notebooks", generated / "notebooks") == []
    assert len(list((tmp_path / "notebooks").rglob("*.*"))) == 6
    (tmp_path / "notebooks" / review_cards.NAME).write_text("[]")  # cards of review are made anew, too
    assert release.outdated(tmp_path / "notebooks", generated / "notebooks") == [Path(review_cards.NAME)]


def test_ids_and_metadata_do_not_vary(generated):
    nb = read(generated)
    assert nb.cells[2].id == "ch01-setup"
    assert {"ch01-q01", "ch01-q01-check", "exercise-1-2-which-of-two"} <= {c.id for c in nb.cells}
    assert dict(nb.metadata) == cells.METADATA
    raw = json.loads((generated / "notebooks/ch01_sample/exercises.ipynb").read_text(encoding="utf-8"))
    assert list(raw) == sorted(raw)
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in raw["cells"] if c["cell_type"] == "code")


def test_insight_moves_into_the_check(generated):
    nb = read(generated)
    text = "\n".join(c.source for c in nb.cells)
    assert "After you pass" not in text
    assert "nothing takes time" not in text
    verdicts = in_process_grading.judge(in_process_grading.solved("ch01_sample", Tree(SAMPLE)))
    assert (
        "At W → ∞ nothing takes time: so what else bounds it? Latency does.\nSee (1)."
        in verdicts["ch01-q01-check"].message
    )
    checks = (generated / "notebooks/ch01_sample/checks.json").read_text(encoding="utf-8")
    assert codecs.encode("so what else bounds it", "rot13") in checks


def test_no_solution_and_no_hidden_test(generated):
    text = "\n".join(c.source for c in read(generated).cells)
    text += (generated / "notebooks/ch01_sample/checks.json").read_text(encoding="utf-8")
    for secret in ("secret_name", "V / W)", "10**9", "whichever of its transfers", "BEGIN", "END"):
        assert secret not in text
    source = nbformat.read(generated / "course/source/ch01_sample/exercises.ipynb", as_version=4)
    assert "secret_name" in "\n".join(c.source for c in source.cells)  # so the test above can fail


def test_no_heading_has_a_number():
    """So links are known before numbers are computed, and one chapter's notebook needs no other chapter's numbers."""
    tree = Tree(ROOT)
    headings = {
        path: [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        for path in (*tree.chapters, *tree.exercises)
    }
    assert all(headings.values())
    assert [(path.name, line) for path, lines in headings.items() for line in lines if "{{" in line] == []


def test_check_names_what_is_out_of_date(tree, tmp_path):
    release.release(tree, tmp_path / "course", database=False)
    assert release.check(tree) == []
    source = tree.exercises[0]
    source.write_text(source.read_text(encoding="utf-8").replace("What bounds", "What else bounds"), encoding="utf-8")
    assert [p.as_posix() for p in release.check(tree)] == ["ch01_sample/exercises.ipynb"]


def test_chapter_that_is_gone_is_removed(tree, tmp_path):
    release.release(tree, tmp_path / "course", database=False)
    for source in tree.chapters:
        source.unlink()
    text = tree.exercises[0].read_text(encoding="utf-8")
    text = text.replace("{ref}`how long <sec-time>` and {eq}`eq-time` first", "on").replace("See {eq}`eq-time`.", "")
    tree.exercises[0].write_text(text, encoding="utf-8")
    release.release(tree, tmp_path / "course", database=False)
    assert not (tree.notebooks / "ch01_sample" / "reading.ipynb").exists()


def test_a_learners_answers_are_not_overwritten(tree, tmp_path):
    release.release(tree, tmp_path / "course", database=False)
    mine = tree.released("ch01_sample")
    released = mine.read_text(encoding="utf-8")
    mine.write_text(released.replace("raise NotImplementedError()", "return V / W", 1), encoding="utf-8")
    before = mine.read_bytes()
    with pytest.raises(SourceError, match="holds answers .ch01-q01. .*FORCE=1"):
        release.release(tree, tmp_path / "course", database=False)
    assert mine.read_bytes() == before
    release.release(tree, tmp_path / "course", database=False, force=True)
    assert mine.read_text(encoding="utf-8") == released


WRONG = [
    ("grade_id: ch01-q02,", "grade_id: ch01-q01,", "the grade_id ch01-q01 stands twice"),
    ("grade_id: ch01-q02-check", "grade_id: ch01-q02-test", "the answer ch01-q02 has no check cell ch01-q02-check"),
    (
        "grade_id: ch01-q01, solution: true",
        "grade_id: ch01-q01b, solution: true",
        "the check ch01-q01-check has no answer cell",
    ),
    ("grade_id: ch01-q02, ", "grade_id: ch01-q07, ", "ch01-q07 stands in exercise 1.2"),
    ("10 min · 3 points", "10 min · 4 points", "exercise 1.2 says 4 points, its cells have 3"),
    ("points: 3, task", "points: 5, task", "ch01-q02-check is worth 5 points, its answers' points= sum to 3"),
    ("longer(x, y)[0], points=1", "longer(x, y)[0], points=2", "its answers' points= sum to 4"),
    ('check.report("1.2", a, b)', 'check.report("1.1", a, b)', 'must report exercise "1.2"'),
    ('check.report("1.2", a, b)', "print(a)", 'must end in check.report("1.2"'),
    ("b.gives(2, 8, 4)", "b.gives(2, 8", "the check ch01-q02-check is not Python"),
    ("★★☆ · 10 min", "two stars", "exercise 1.2 needs a data line"),
    ("(ex-1-2)=\n", "", "needs the line (ex-1-2)= before its heading"),
    ("locked: true, points: 3", "locked: false, points: 3", "the check ch01-q02-check must be locked"),
    ("    ### END SOLUTION\n```", "```", "has a solution region that is not closed"),
    ("{ref}`how long <sec-time>`", "{ref}`sec-nowhere`", 'No source has the label "sec-nowhere"'),
    ("{{ chip_of_choice.hbm_bytes | bytes }}", "{{ chip_of_joice }}", "chip_of_joice"),
    (":::{dropdown} Where", ":::{figure} Where", "solutions/ch01_sample.md:48: the directive {figure}"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), WRONG, ids=[w[2] for w in WRONG])
def test_errors_in_a_source(tree, old, new, sentence):
    source = tree.exercises[0]
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SourceError) as error:
        in_process_grading.solved("ch01_sample", tree)
    assert sentence in str(error.value)
    assert "solutions/ch01_sample.md" in str(error.value)


def test_setup_cell_is_locked_in_exercises_only(generated):
    assert meta(read(generated).cells[2])["locked"] is True
    assert not meta(read(generated, "reading").cells[1])
    assert read(generated).cells[2].source == read(generated, "reading").cells[1].source == first_cell.setup()


def test_answers_to_a_chapter_that_is_gone_are_kept(tree, tmp_path):
    release.release(tree, tmp_path / "course", database=False)
    mine = tree.released("ch01_sample")
    mine.write_text(
        mine.read_text(encoding="utf-8").replace("raise NotImplementedError()", "return V / W", 1), encoding="utf-8"
    )
    mine.parent.rename(tree.notebooks / "ch09_sample")
    with pytest.raises(SourceError, match="ch09_sample/exercises.ipynb holds answers"):
        release.refuse_to_overwrite(tree)


def test_a_broken_notebook_is_named(tree, tmp_path):
    release.release(tree, tmp_path / "course", database=False)
    tree.released("ch01_sample").write_text("{", encoding="utf-8")
    with pytest.raises(SourceError, match="exercises.ipynb of ch01_sample is not a notebook any more"):
        release.refuse_to_overwrite(tree)


@pytest.mark.parametrize("file", [3, 11, 13])
def test_a_release_that_is_cut_is_whole_after_the_next(tree, generated, tmp_path, monkeypatch, file):
    """While it makes the notebooks, and while it puts them into their place."""
    written = whole_files._written

    def cut(number, text):
        if not left:
            with open(number, "w") as opened:
                opened.write(text[: len(text) // 2])
            raise KeyboardInterrupt
        left.pop()
        written(number, text)

    left = [None] * file
    with monkeypatch.context() as patch:
        patch.setattr(whole_files, "_written", cut)
        with pytest.raises(KeyboardInterrupt):
            release.release(tree, tmp_path / "course", database=False)
    release.release(tree, tmp_path / "course", database=False)
    assert release.outdated(generated / "notebooks", tree.notebooks) == []
