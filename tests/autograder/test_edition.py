"""Editions: what an instructor may choose, what is refused, and what is cut."""

import datetime
import json

import pytest
import yaml

from autograder import bank, edition
from autograder.places import COURSE, ROOT, SourceError, Tree

SOURCE = """\
# Head

(ex-1-1)=
### Exercise 1.1 — One

★☆☆ · 10 min · 2 points

```{code-cell} ipython3
## a comment, no section
```
% let kept = 3

(ex-1-2)=
### Exercise 1.2 — Two

★☆☆ · 10 min · 2 points · W = 1.5e10; needs 1.1

After {ref}`1.1 <ex-1-1>`.

## Section
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/ch01_one.md").write_text(SOURCE)
    return Tree(tmp_path)


def test_a_cut_takes_one_exercise_and_what_points_to_it():
    left = edition.cut(SOURCE, ("1.1",))
    assert "Exercise 1.1" not in left and "a comment" not in left and "ex-1-1" not in left
    assert "% let kept = 3" in left and "After 1.1 (not in this edition)." in left
    assert left.endswith("## Section\n") and edition.cut(SOURCE, ()) == SOURCE
    assert "## Section" in edition.cut(SOURCE, ("1.2",)) and "Exercise 1.2" not in edition.cut(SOURCE, ("1.2",))


def test_needs_are_those_of_the_data_line():
    assert edition.needs(SOURCE) == {"1.1": set(), "1.2": {"1.1"}}


@pytest.mark.parametrize(
    "text, says",
    [
        ("tittle: x", 'no key "tittle"'),
        ("a: [", "not YAML"),
        ("[1]", "list of keys"),
        ("title: [x]", '"title" is one line'),
        ("seed: -1", "whole number"),
        ("seed: true", "whole number"),
        ("leave-out: [1.2]", "quotation marks"),
        ('leave-out: ["1.9"]', 'no exercise "1.9"'),
        ('leave-out: ["1.1"]', "1.1 is needed by 1.2"),
        ('leave-out: ["1.1", "1.2"]', "no exercise left"),
        ("dates: {ch09: {}}", 'chapter "ch09"'),
        ("dates: {ch01_one: {due: 2027-01-01}}", "release and due"),
        ("dates: {ch01_one: {release: soon, due: 2027-01-01}}", "is a day"),
        ("dates: {ch01_one: {release: 2027-13-01, due: 2027-01-01}}", "not YAML"),
        ("dates: {ch01_one: {release: 2027-02-01, due: 2027-01-01}}", "before its release"),
    ],
)
def test_refused(tree, text, says):
    with pytest.raises(SourceError, match=says):
        edition.read(text, tree)


def test_folders_refused(tree, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    with pytest.raises(SourceError, match="not an empty folder"):
        edition.make(edition.Edition(), tmp_path / "full")
    with pytest.raises(SourceError, match="own folder"):
        edition.make(edition.Edition(), ROOT / "_build/edition")
    (tmp_path / edition.MARK).write_text("")
    with pytest.raises(SourceError, match="edition already"):
        edition.make(edition.Edition(), tmp_path / "new", root=tmp_path)


def test_the_example_is_an_edition():
    read = edition.read((COURSE / "edition.yml.example").read_text(encoding="utf-8"), Tree())
    assert read.left_out == ("1.23", "2.26") and read.seed == "7"
    assert read.dates["ch01_rooflines"] == (datetime.date(2027, 3, 1), datetime.date(2027, 3, 15))


@pytest.mark.slow
def test_an_edition_is_made(tmp_path):
    before = {p: p.read_bytes() for p in (ROOT / "notebooks").rglob("*.ipynb")}
    chosen = edition.read('{title: "Ours: \\"1\\"", seed: 7, leave-out: ["2.26"]}', Tree())
    edition.make(chosen, tmp_path / "own")
    own = tmp_path / "own"
    made = (own / "notebooks/ch02_sharding/exercises.ipynb").read_text(encoding="utf-8")
    ids = {c["metadata"].get("nbgrader", {}).get("grade_id") for c in json.loads(made)["cells"]}
    assert "ch02-q25" in ids and "ch02-q26" not in ids and "BEGIN SOLUTION" not in made
    assert yaml.safe_load((own / "_config.yml").read_text(encoding="utf-8"))["title"] == 'Ours: "1"'
    assert "export COURSE_SEED ?= 7\n" in (own / "Makefile").read_text(encoding="utf-8")
    assert before == {p: p.read_bytes() for p in (ROOT / "notebooks").rglob("*.ipynb")}
    for kind in (bank.mutants, bank.variants):
        kept = [change for change in kind("ch02_sharding") if change.grade_id != "ch02-q26"]
        assert kind("ch02_sharding", own / "autograder") == kept
    for page in (own / "book").rglob("*.md"):
        assert "ex-2-26" not in page.read_text(encoding="utf-8")
