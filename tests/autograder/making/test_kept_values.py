"""What checks were filled with is made anew when what it is made of has changed; and the modules that a source gives to answers."""

import nbformat
import pytest

from autograder import release
from autograder.engine.bundle import bundle
from autograder.making import cells, in_process_grading, kept_values
from autograder.places import SourceError


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Asks for the text of a check; how often it was made."""
    monkeypatch.setattr(kept_values, "FOLDER", tmp_path / "values")
    made = []

    def ask(made_of: str) -> int:
        found = kept_values.filled("ch01-q01", made_of, lambda: (made.append(made_of) or f"text of {made_of}", [2]))
        assert found == (f"text of {made_of}", [2])
        return len(made)

    return ask


def test_the_same_is_made_once(asked):
    assert [asked("a"), asked("a"), asked("b"), asked("b"), asked("a")] == [1, 1, 2, 2, 3]


def test_another_module_of_the_course_makes_all_anew(asked, monkeypatch, tmp_path):
    assert asked("a") == 1
    monkeypatch.setattr(kept_values, "modules", lambda: "another")
    assert asked("a") == 2
    monkeypatch.undo()
    before = kept_values.modules()
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers/one.py").write_text("x = 1", encoding="utf-8")
    monkeypatch.setattr(kept_values, "ROOT", tmp_path)
    kept_values.modules.cache_clear()
    one = kept_values.modules()
    (tmp_path / "helpers/one.py").write_text("x = 2", encoding="utf-8")
    kept_values.modules.cache_clear()
    assert len({before, one, kept_values.modules()}) == 3
    kept_values.modules.cache_clear()


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"key": 1}'])
def test_a_broken_file_is_made_anew(asked, broken):
    assert asked("a") == 1
    (kept_values.FOLDER / "ch01-q01.json").write_text(broken, encoding="utf-8")
    assert asked("a") == 2 and asked("a") == 2


def test_a_folder_that_cannot_be_written_keeps_nothing(asked):
    kept_values.FOLDER.parent.joinpath("values").write_text("a file", encoding="utf-8")
    assert asked("a") == 1 and asked("a") == 2


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


@pytest.mark.parametrize(("line", "words"), [
    ("% uses helpers.costs.nothing\n", 'there is no "helpers.costs.nothing"'),
    ("% uses\n", 'there is no ""'),
    (LINE + LINE, "this source has 2"),
])  # fmt: skip
def test_a_list_that_means_nothing_is_refused(tree, line, words):
    with_line(tree, line)
    with pytest.raises(SourceError, match="solutions/ch01_sample.md") as error:
        in_process_grading.solved("ch01_sample", tree)
    assert words in str(error.value)
