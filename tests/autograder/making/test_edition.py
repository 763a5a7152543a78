"""Editions: what an instructor may choose, what is refused, and what is cut; one is made in test_edition_works."""

import datetime
import re
from functools import partial

import pytest

from autograder import edition
from autograder.making import edition_extras
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

★☆☆ · 10 min · 2 points · needs 1.1

Assume: W = 1.5e10.

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
    hollow = SOURCE.replace("(ex-1-2)=", "## About two\n\nWords.\n\n(ex-1-2)=")
    assert "About two" in edition.cut(hollow, ("1.1",)) and "Words" not in edition.cut(hollow, ("1.2",))
    assert left.endswith("## Section\n") and edition.cut(SOURCE, ()) == SOURCE
    assert "## Section" in edition.cut(SOURCE, ("1.2",)) and "Exercise 1.2" not in edition.cut(SOURCE, ("1.2",))


HEAD = """\
# Head

Units are plain.

(ex-1-1)=
### Exercise 1.1 — One

(ex-1-2)=
### Exercise 1.2 — Two

A question.

```{code-cell} ipython3
a.wrong("a whole shard, as in 1.1: nothing is saved", 1.1)
```
:::{dropdown} After you pass
It is 1.1's bound, not {{ 1.1 }}, $1.1$, 1.15 or 21.1; see the next exercise.
:::

(ex-1-3)=
### Exercise 1.3 — Three
"""


def test_words_say_what_is_not_there():
    left = edition.cut(HEAD, ("1.1", "1.3"))
    assert "It is 1.1 (not in this edition)'s bound, not {{ 1.1 }}, $1.1$, 1.15 or 21.1" in left
    assert "see the next exercise (not in this edition)." in left and '"a whole shard: nothing is saved", 1.1)' in left
    assumes = edition.cut(HEAD.replace("A question.", "Assume: hops as in 1.1."), ("1.1", "1.3"))
    assert "\nAssume: hops as in 1.1 (not in this edition).\n" in assumes
    assert edition.headed(left, "2030-02-01").startswith("# Head\n\n**Due on 2030-02-01.**\n\n")


@pytest.mark.parametrize(
    "words", ["Take 1.1 again.", "Do the next exercise first.", '```\nif check.passed("1.3"):\n```']
)
def test_a_question_about_an_exercise_that_is_gone_is_refused(words):
    text = HEAD.replace("A question.", words)
    with pytest.raises(SourceError, match=r"Exercise 1.2 is about 1.[13] \(x.md, line 1[123]\): leave it out as well"):
        edition.cut(text, ("1.1", "1.3"), "x.md")


def test_a_chapter_counts_its_exercises():
    chapter = "## Exercises\n\n{ref}`Exercises 1 <ex-1-1>`: two that check themselves.\nMore.\n\n(sec)=\n## End\n"
    said = edition.opened(chapter, edition.cut(SOURCE, ("1.1",)), "2030-02-01")
    assert "{ref}`Exercises 1 <ex-1-2>`: 1 exercise, 2 points.\nDue on 2030-02-01.\nMore." in said
    by_hand = SOURCE + '+++ {"nbgrader": {"solution": true, "grade": true}}'
    assert "2 exercises, 4 points; a person grades one of them.\nMore." in edition.opened(chapter, by_hand, None)
    none = edition.opened(chapter, None, None)
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
        assert edition.opened(chapter, path.read_text(encoding="utf-8"), None) != chapter, path.name


def test_needs_are_those_of_the_data_line():
    assert edition.needs(SOURCE) == {"1.1": set(), "1.2": {"1.1"}}


@pytest.mark.parametrize(
    "text, says",
    [
        ("tittle: x", 'no key "tittle"'),
        ("a: [", "not YAML"),
        ("\ntitle: A: B", "line 2: .* needs quotation marks"),
        ("[1]", "list of keys"),
        ("title: [x]", '"title" is one line'),
        ("title: a <b>", "plain text"),
        ("seed: -1", "whole number"),
        ("seed: true", "whole number"),
        ("leave-out: [1.2]", "quotation marks"),
        ('leave-out: ["1.9"]', 'no exercise "1.9" to leave out: its chapter has 1.1 to 1.2'),
        ('leave-out: ["ch09"]', 'no exercise "ch09" to leave out: chapters are ch01_one'),
        ("leave-out: [ch01_one]", "no exercise left"),
        ('leave-out: ["1.1"]', "1.1 is needed by 1.2"),
        ('leave-out: ["1.1", "1.2"]', "no exercise left"),
        ("worked-solutions: 1", "true or false"),
        ("add: nowhere", "no folder"),
        ("add: [x]", '"add" is one line'),
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
    assert read.left_out == ("1.22", "2.26") and read.seed == "7"
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
    page = edition_extras.worked(edition.blocks(ANSWER), "Chapter")
    assert "# Chapter: worked solutions" in page and "```python\ndef one():\n    return 1\n```" in page
    assert "{ref}`here <ex-1-1>`" in page
    assert not any(word in page for word in ("BEGIN", "END", "graders", "hidden", "nbgrader"))


def test_an_exercise_of_another_chapter_may_need_it(tree):
    other = SOURCE.replace("1-", "2-").replace("Exercise 1.", "Exercise 2.")
    (tree.root / "solutions/ch02_two.md").write_text(other)
    for wish in ("ch01_one", "1.1"):
        with pytest.raises(SourceError, match="1.1 is needed by .*2.2: leave these out"):
            edition.read(f'leave-out: ["{wish}"]', tree)
    assert edition.read("leave-out: [ch02_two]", tree).left_out == ("2.1", "2.2")
    with pytest.raises(SourceError, match="names ch02_two, all of whose exercises are left out"):
        edition.read("{leave-out: [ch02_two], dates: {ch02_two: {release: 2030-01-01, due: 2030-01-02}}}", tree)


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
    assert [n for n, _ in edition.blocks(text) if n] == ["1.1", "1.2", "1.90"]
    own = SOURCE.replace("1-1", "1-91").replace("1-2", "1-92").replace("needs 1.1", "needs 1.2")
    (folder / "ch01_one.md").write_text(own)
    with pytest.raises(SourceError, match="Your exercise 1.92 in ch01_one.md needs 1.2, which is left out"):
        edition.read('{add: own, leave-out: ["1.2"]}', tree, tmp_path)


def test_all_that_hang_on_an_exercise_are_named_at_once(tree):
    more = "(ex-1-3)=\n### Exercise 1.3 — Three\n\n★☆☆ · 10 min · 2 points · needs 1.2\n"
    (tree.root / "solutions/ch01_one.md").write_text(SOURCE + more)
    with pytest.raises(SourceError, match=r"1.1 is needed by 1.2, 1.3: leave these out as well, or keep 1.1"):
        edition.read('leave-out: ["1.1"]', tree)
