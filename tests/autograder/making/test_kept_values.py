"""What checks were filled with is made again when anything that it is made of has changed, and only then."""

import pytest

from autograder.making import kept_values


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
