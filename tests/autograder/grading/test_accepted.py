"""Points for all who were told the same, by a check or by a person: named, as the row says now, never in the place of a person's."""

import pytest

from autograder.grading import accepted
from autograder.grading.class_summary import number_of
from autograder.grading.gradebook_writer import Writer
from autograder.making.in_process_grading import exercise_of
from autograder.places import SourceError
from tests.autograder import classes
from tests.autograder.classes import TOPIC
from tests.autograder.grading.test_regrades import regrade
from tests.autograder.grading.test_resume import POINTS

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]


def write(what, *rows: str) -> None:
    """As Excel does where a comma is that of a number."""
    text = "\n".join(["exercise,told,points", *rows, "1.1,größer,0"]) + "\n"
    (what.root / accepted.NAME).write_text(text.replace(",", ";"), encoding="cp1252")


def test_whoever_was_told_so_has_the_points(graded):
    write(graded, "1.1,its inverse,1.5", "1.2,its inverse,3")
    would = regrade(graded, dry=True)
    points, said = regrade(graded)
    assert would == (points, said)
    assert points == POINTS | {"bob": POINTS["bob"] + 1.5}
    assert said[-1] == 'accepted: 1.5 points in 1.1 for "its inverse" (bob).'
    assert classes.exports(graded)["bob"][0] == POINTS["bob"] + 1.5
    points, said = regrade(graded)
    assert points["bob"] == POINTS["bob"] + 1.5 and not said
    with graded.gradebook() as book:  # a person decides otherwise
        book.find_grade("ch01-q01-check", "exercises", TOPIC, "bob").manual_score = 0.5
        book.db.commit()
    assert regrade(graded)[0]["bob"] == POINTS["bob"] + 0.5


def test_points_change_and_go_with_their_row(graded):
    write(graded, "1.1,its inverse,1.5")
    regrade(graded)
    write(graded, "1.1,its inverse,1")
    points, said = regrade(graded)
    assert points["bob"] == POINTS["bob"] + 1 and said == ['accepted: 1 points in 1.1 for "its inverse" (bob).']
    write(graded)
    points, said = regrade(graded)
    assert points == POINTS and said == ["not accepted any more, in 1.1: bob."]


@pytest.mark.parametrize("saved", [0, 1])
def test_a_grading_that_is_stopped_knows_whose_points_these_are(graded, monkeypatch, saved):
    """Before the gradebook has them, or behind that: they change and go with their row all the same."""
    for rows, gives in ((("1.1,its inverse,1.5",), 1.5), (("1.1,its inverse,1",), 1), ((), 0)):
        write(graded, *rows)
        with monkeypatch.context() as patch:
            patch.setattr(accepted, "replace", stopping(accepted.replace, saved))
            with pytest.raises(KeyboardInterrupt):
                regrade(graded)
        assert regrade(graded)[0] == POINTS | {"bob": POINTS["bob"] + gives}


def stopping(write, after: int):
    """What writes so many files, and is stopped at the next."""

    def stopped(*words):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        write(*words)

    left = [None] * after
    return stopped


@pytest.mark.parametrize("held", ["", '{"ada": {"ch01', "[1]", '{"ada": 1}'])
def test_a_note_that_is_not_whole_is_a_sentence(graded, held):
    (graded.root / ".grading" / f"accepted-{TOPIC}.json").write_text(held)
    with pytest.raises(SourceError, match="is not whole"):
        regrade(graded)


def test_an_item_of_a_rubric_is_priced_for_all_whose_comment_names_it(graded):
    """The points of all items together, until a person gives a score."""
    cell = next(c for c, g in grades(graded, "ada").items() if g.waits)
    exercise = number_of(exercise_of(cell))
    with graded.gradebook() as book:
        book.find_comment(cell, "exercises", TOPIC, "ada").manual_comment = "[latency] yes; [bytes] no; [why] yes"
        book.db.commit()
    before = grades(graded, "ada")[cell]
    write(graded, f"{exercise},[latency] yes,1", f"{exercise},[why] yes,0.5", f"{exercise},[bytes] yes,1")
    points, said = regrade(graded)
    assert points == POINTS | {"ada": POINTS["ada"] + 1.5} and len(said) == 2
    assert before.waits and not grades(graded, "ada")[cell].waits
    write(graded, f"{exercise},[latency] yes,2")
    assert regrade(graded)[0]["ada"] == POINTS["ada"] + 2
    write(graded)
    assert regrade(graded)[0] == POINTS and grades(graded, "ada")[cell].waits


def grades(what, student: str) -> dict:
    return Writer(what.root, TOPIC, what.config()).grades()[student]
