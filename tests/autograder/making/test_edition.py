"""Editions: what an instructor may choose, what is refused, and what is cut; one is made in test_edition_works."""

import datetime
import re
from functools import partial
from pathlib import Path

import pytest

from autograder import edition
from autograder.making import edition_extras, edition_tree
from autograder.making.edition_text import blocks, cut, headed, needs, opened, weighed
from autograder.places import COURSE, MARK, ROOT, SourceError, Tree

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

★☆☆ · 10 min · 2 points · needs 1.1

Assume: W = 1.5e10.

After {ref}`1.1 <ex-1-1>`.

## Section
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/ch01_one.md").write_text(SOURCE)
    (tmp_path / "book").mkdir()
    (tmp_path / "book/ch01_one.md").write_text("# One\n")
    return Tree(tmp_path)


def test_a_cut_takes_one_exercise_and_changes_no_other_line():
    left = cut(SOURCE, ("1.1",))
    assert "Exercise 1.1" not in left and "a comment" not in left
    assert "% let kept = 3" in left and "After {ref}`1.1 <ex-1-1>`." in left
    hollow = SOURCE.replace("(ex-1-2)=", "## About two\n\nWords.\n\n(ex-1-2)=")
    assert "About two" in cut(hollow, ("1.1",)) and "Words" not in cut(hollow, ("1.2",))
    assert left.endswith("## Section\n") and cut(SOURCE, ()) == SOURCE
    assert "## Section" in cut(SOURCE, ("1.2",)) and "Exercise 1.2" not in cut(SOURCE, ("1.2",))
    assert headed(left, "2030-02-01").startswith("# Head\n\n**Due on 2030-02-01.**\n\n")


PARTS = """\
(ex-1-3)=
### Exercise 1.3 — Three

★☆☆ · 10 min · 3 points: 1 for a, 2 for b · after {ref}`sec-a`

```{code-cell} ipython3
---
nbgrader: {grade_id: ch01-q03-check, solution: false, grade: true, points: 3, task: false}
---
a, b = check.Answer(f, points=1), check.Answer(g, points=2)
```
"""


def test_points_are_given_anew_and_parts_keep_their_shares():
    text = weighed(SOURCE.replace("\n## Section", PARTS), {"1.3": 1.5})
    assert "· 1.5 points · after {ref}`sec-a`" in text and "points: 1.5, task" in text
    assert "points=0.5), check.Answer(g, points=1)" in text
    assert text.count("2 points") == 2, "the others stay"
    with pytest.raises(SourceError, match="1.3 cannot have 1 points: a part of it would get 0.333333"):
        weighed(PARTS, {"1.3": 1})


def test_a_chapter_counts_its_exercises():
    chapter = "## Exercises\n\n{ref}`Exercises 1 <ex-1-1>`: two that check themselves.\nMore.\n\n(sec)=\n## End\n"
    said = opened(chapter, cut(SOURCE, ("1.1",)), "2030-02-01")
    assert "{ref}`Exercises 1 <ex-1-2>`: 1 exercise, 2 points.\nDue on 2030-02-01.\nMore." in said
    by_hand = SOURCE + '+++ {"nbgrader": {"solution": true, "grade": true}}'
    assert "2 exercises, 4 points; a person grades one of them.\nMore." in opened(chapter, by_hand, None)
    none = opened(chapter, None, None)
    assert "no exercises for this chapter.\n\n(sec)=\n## End" in none and "More" not in none


def test_no_source_counts_exercises_outside_of_the_line_that_editions_write():
    words = "one|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty"
    counted = re.compile(rf"\b(?:\d+|(?:{words})(?:-\w+)?) (?:exercises|points|that check themselves)\b", re.I)
    for path in [*Tree().chapters, *Tree().exercises, *Tree().pages]:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            counts = counted.search(line) and not line.startswith(("★", "☆", "{ref}`Exercises ")) and "next" not in line
            assert not counts, f"{path.name}, line {number}: {line}"


def test_every_chapter_has_that_line():
    for path in Tree().exercises:
        chapter = (ROOT / "book" / path.name).read_text(encoding="utf-8")
        assert opened(chapter, path.read_text(encoding="utf-8"), None) != chapter, path.name


def test_needs_are_those_of_the_data_line():
    assert needs(SOURCE) == {"1.1": set(), "1.2": {"1.1"}}


@pytest.mark.parametrize("text, says", [
    ("{tittle: x, order: y}", "no key tittle, order"),
    ("a: [", "not YAML"),
    ("\ntitle: A: B", "line 2: .* needs quotation marks"),
    ("[1]", "list of keys"),
    ("title: [x]", '"title" is one line'),
    ("title: a <b>", "plain text"),
    ("seed: -1", "whole number"),
    ("seed: true", "whole number"),
    ("leave-out: [1.2]", "quotation marks"),
    ('leave-out: ["1.9"]', 'no exercise "1.9" in "leave-out": its chapter has 1.1 to 1.2'),
    ('keep: ["ch09"]', 'no exercise "ch09" in "keep": chapters are ch01_one'),
    ('{keep: ["1.1"], leave-out: ["1.2"]}', "in two ways"),
    ("keep: []", "no exercise left"),
    ("leave-out: [ch01_one]", "no exercise left"),
    ('leave-out: ["1.1", "1.2"]', "no exercise left"),
    ("solutions: yes", "never, after-due or always, not True"),
    ("solutions: after-due", "there are none"),
    ("chapters: 1", "is a list"),
    ("chapters: [1, 9]", "9, which is no chapter or stands twice: there are ch01_one"),
    ("chapters: [1, ch01_one]", "stands twice"),
    ("points: [1]", "gives exercises their points"),
    ('points: {"1.1": 0}', "gives exercises their points"),
    ('points: {"1.9": 1}', "no exercise of this edition"),
    ("course_id: a b", "letters, digits"),
    ("repository: ada/cs448", "is an address such as https://github.com/ada/cs448"),
    ("add: nowhere", "no folder"),
    ("add: [x]", '"add" is one line'),
    ("dates: {ch09: {}}", 'chapter "ch09"'),
    ("dates: {ch01_one: {due: 2027-01-01}}", "release and due"),
    ("dates: {ch01_one: {release: soon, due: 2027-01-01}}", "is a day"),
    ("dates: {ch01_one: {release: 2027-13-01, due: 2027-01-01}}", "not YAML"),
    ("dates: {ch01_one: {release: 2027-02-01, due: 2027-01-01}}", "before its release"),
])  # fmt: skip
def test_refused(tree, text, says):
    with pytest.raises(SourceError, match=says):
        edition.read(text, tree)


def test_folders_refused(tree, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    with pytest.raises(SourceError, match="neither empty nor an edition"):
        edition_tree.make(edition.Edition(), tmp_path / "full")
    with pytest.raises(SourceError, match="own folder"):
        edition_tree.make(edition.Edition(), ROOT / "_build/edition")
    (tmp_path / MARK).write_text("")
    with pytest.raises(SourceError, match="edition already"):
        edition_tree.make(edition.Edition(), tmp_path / "new", root=tmp_path)


def test_the_example_is_an_edition():
    read = edition.read((COURSE / "edition.yml.example").read_text(encoding="utf-8"), Tree())
    assert read.chapters == ("ch01_rooflines", "ch02_sharding", "ch05_inference") and read.points == {
        "1.1": 1,
        "1.4": 6,
    }
    assert {"1.5", "5.2", "3.1"} <= {*read.left_out} and not {"1.4", "2.26", "5.3"} & {*read.left_out}
    assert read.dates["ch01_rooflines"] == (datetime.date(2027, 3, 1), datetime.date(2027, 3, 15))


ANSWER = """\
(ex-1-1)=
### Exercise 1.1 — One

```{code-cell} ipython3
---
nbgrader: {grade_id: ch01-q01, solution: true}
---
def one():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION
### BEGIN MARK SCHEME
# graders alone read this
### END MARK SCHEME
```

```{code-cell} ipython3
---
nbgrader: {grade_id: ch01-q01-check, solution: false, grade: true}
---
hidden = 1
```
"""


def test_worked_pages_hold_answers_and_nothing_for_graders():
    page = edition_extras.worked(blocks(ANSWER), "Chapter")
    assert "# Chapter: worked solutions" in page and "```python\ndef one():\n    return 1\n```" in page
    assert "{ref}`here <ex-1-1>`" in page
    assert not any(word in page for word in ("BEGIN", "END", "graders", "hidden", "nbgrader"))


def test_what_an_exercise_builds_on_and_is_gone_is_named(tree):
    other = SOURCE.replace("1-", "2-").replace("Exercise 1.", "Exercise 2.")
    (tree.root / "solutions/ch02_two.md").write_text(other)
    (tree.root / "book/ch02_two.md").write_text("# Two\n")
    read = edition.read('{chapters: [2], keep: ["2.2"]}', tree)
    assert read.left_out == ("1.1", "1.2", "2.1") and edition.missing(read, tree) == {"2.2": ["1.1"]}
    assert edition.read("leave-out: [ch02_two]", tree).left_out == ("2.1", "2.2")
    with pytest.raises(SourceError, match="names ch02_two, all of whose exercises are left out"):
        edition.read("{leave-out: [ch02_two], dates: {ch02_two: {release: 2030-01-01, due: 2030-01-02}}}", tree)


def test_answers_open_after_the_day():
    day = datetime.date(2030, 1, 2)
    dates = {"ch01_one": (day, day)}
    after = edition.Edition(dates=dates, solutions="after-due")
    assert [after.is_open("ch01_one", day + datetime.timedelta(n)) for n in (0, 1)] == [False, True]
    assert not after.is_open("ch02_two", datetime.date(2040, 1, 1)) and not edition.Edition().is_open("ch01_one", day)
    assert edition.Edition(solutions="always").is_open("ch01_one", day)


def test_made_again_a_tree_replaces_its_own_files_and_no_others(tmp_path, monkeypatch):
    made, into = tmp_path / "made", tmp_path / "into"
    for name, text in (("a", "1"), ("sub/b", "1"), ("gone", "1")):
        edition_tree._write(made / name, text)
    assert edition_tree.lay(made, into) == []
    (into / "gradebook.db").write_text("grades")
    (into / "a").write_text("by hand")
    (made / "gone").unlink()
    (made / "a").write_text("2")
    assert edition_tree.lay(made, into) == ["a"]
    assert (into / "a").read_text() == "2" and (into / edition_tree.ASIDE / "a").read_text() == "by hand"
    assert (into / "gradebook.db").read_text() == "grades" and not (into / "gone").exists()
    real, left = edition_tree.shutil.copy, [1]

    def cut(source, to):
        if left.pop():
            left.append(0)
            return real(source, to)
        Path(to).write_text("x")
        raise KeyboardInterrupt

    for folder in (into, tmp_path / "new"):  # what is stopped is whole after the next, and nobody has changed it
        edition_tree._write(made / "sub/b", folder.name)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(edition_tree.shutil, "copy", cut)
            edition_tree.lay(made, folder)
        left[:] = [1]
        assert (folder / edition_tree.LIST).is_file() and edition_tree.lay(made, folder) == []
        assert [(folder / name).read_text() for name in ("a", "sub/b")] == ["2", folder.name]


@pytest.mark.parametrize(
    "score, says",
    [({"": 1.0}, "gives its own answer 1 of 2 points: too small"), ({}, "gives no answer 2 of 2 points: too small")],
)
def test_own_exercises_are_tried(tree, monkeypatch, score, says):
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ""}
    solved, blank = {"cells": [cell], "is": ""}, {"cells": [], "is": "blank"}
    monkeypatch.setattr(edition_extras.in_process_grading, "solved", lambda *_: solved)
    monkeypatch.setattr(edition_extras.in_process_grading, "blank", lambda _: blank)
    verdict = partial(edition_extras.in_process_grading.Verdict, points=2.0, message="Exercise 1.90\n  too small")
    given = lambda nb, *_: {"ch01-q90-check": verdict(score.get(nb["is"], 2.0))}  # noqa: E731
    monkeypatch.setattr(edition_extras.in_process_grading, "judge", given)
    with pytest.raises(SourceError, match=f"The check ch01-q90-check in ch01_one.md {says}"):
        edition_extras.judged({"ch01_one": "(ex-1-90)=\n"}, tree)


def test_own_exercises_stand_behind_the_chapters(tree, tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    for name, text, says in (
        (None, "", "has no file"),
        ("ch07_x.md", "(ex-7-1)=", "belongs to no chapter"),
        ("ch01_one.md", "text", "has no exercise"),
        ("ch01_one.md", "(ex-2-90)=", "begin with ex-1-"),
    ):
        if name:
            (folder / name).write_text(text)
        with pytest.raises(SourceError, match=says):
            edition.read("add: own", tree, tmp_path)
        (folder / name).unlink() if name else None
    (folder / "ch01_one.md").write_text(ANSWER)
    read = edition.read("add: own", tree, tmp_path)
    with pytest.raises(SourceError, match="exercise 1.1 already"):
        edition_extras.added(SOURCE, read.more["ch01_one"])
    text = edition_extras.added(SOURCE, ANSWER.replace("1-1", "1-90").replace("1.1", "1.90"))
    assert [n for n, _ in blocks(text) if n] == ["1.1", "1.2", "1.90"]
