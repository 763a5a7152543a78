"""A learner's folder of a small course, in which somebody sits before a notebook."""

import pytest

from helpers.check import progress

PAGE = """# A course

Read a chapter.

* Chapter 1: [Two times](ch01_rooflines/reading.ipynb#sec-bounds), [Exercise 1.1](ch01_rooflines/exercises.ipynb#ex-1-1)

| chapter | read | do | points | passed | begun | left | next |
|---|---|---|---|---|---|---|---|
| 1 · Rooflines \\| roofs | reading, 1 h | 3 exercises, 1 h | – | – | – | – | – |
| **in all** | 1 h | 3 exercises, 1 h | – | – | – | – | – |

| exercise | of | how hard | importance | time | points | state |
|---|---|---|---|---|---|---|
| [1.1](ch01_rooflines/exercises.ipynb#ex-1-1) Lines | core | ★☆☆ | 4/5 | 10 min | 2 | |
| [1.2](ch01_rooflines/exercises.ipynb#ex-1-2) Roofs \\| slopes | core | ★★☆ | 5/5 | 20 min | 4 | |
| [1.3](ch01_rooflines/exercises.ipynb#ex-1-3) Words | further | ★★☆ | 3/5 | 30 min | 4 | a person grades it |
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A course's folder in which somebody sits before work/ch01_rooflines."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/README.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "work/ch01_rooflines").mkdir(parents=True)
    (tmp_path / "work/README.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "work/ch01_rooflines")
    monkeypatch.setattr(progress, "attended", lambda: True)
    return tmp_path / "work"
