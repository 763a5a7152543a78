"""The modules that a source gives to answers: in the notebooks' metadata, told to learners, and known."""

import nbformat
import pytest

from autograder import release
from autograder.engine.bundle import bundle
from autograder.making import cells, in_process_grading
from autograder.places import SourceError

LINE = "% uses helpers.show, helpers.costs.rooflines.hardware\n"


def with_line(tree, line: str) -> None:
    source = tree.exercises[0]
    head, title, rest = source.read_text(encoding="utf-8").partition("\n# ")
    source.write_text(f"{head}\n{line}{title}{rest}", encoding="utf-8")


def test_a_release_keeps_the_list_and_tells_it(tree, tmp_path):
    with_line(tree, LINE)
    for name in ("one", "two"):
        release.generate(tree, tmp_path / name / "course", tmp_path / name / "notebooks", database=False)
    assert release.outdated(tmp_path / "one" / "notebooks", tmp_path / "two" / "notebooks") == []
    for folder in ("source", "release"):
        nb = nbformat.read(tmp_path / "one" / "course" / folder / "ch01_sample" / "exercises.ipynb", as_version=4)
        assert dict(nb.metadata.course) == {"helpers": ["helpers.costs.rooflines.hardware", "helpers.show"]}
        assert nb.cells[1].source.endswith(
            "Of `helpers`, an answer may use `costs.rooflines.hardware` and `show`; "
            "the rest is off limits, and is not there when it is graded."
        )
        assert "% uses" not in "".join(c.source for c in nb.cells)
        assert bundle(nb).helpers == ("helpers.costs.rooflines.hardware", "helpers.show")


def test_without_the_line_nothing_is_said(tree):
    nb = in_process_grading.solved("ch01_sample", tree)
    assert dict(nb.metadata) == cells.METADATA
    assert "an answer may use" not in nb.cells[1].source


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("% uses helpers.costs.nothing\n", 'there is no "helpers.costs.nothing"'),
        ("% uses\n", 'there is no ""'),
        (LINE + LINE, "this source has 2"),
    ],
)
def test_a_list_that_means_nothing_is_refused(tree, line, words):
    with_line(tree, line)
    with pytest.raises(SourceError, match="solutions/ch01_sample.md") as error:
        in_process_grading.solved("ch01_sample", tree)
    assert words in str(error.value)
