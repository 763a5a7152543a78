"""Points for all who were told the same: given once, named, and never in the place of a person's."""

import pytest

from autograder.grading import accepted
from autograder.places import SourceError
from tests.autograder import classes
from tests.autograder.classes import TOPIC
from tests.autograder.grading.test_regrades import regrade
from tests.autograder.grading.test_resume import POINTS

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]


def write(what, *rows: str) -> None:
    (what.root / accepted.NAME).write_text("\n".join(["exercise,told,points", *rows]) + "\n", encoding="utf-8")


def test_whoever_was_told_so_has_the_points(graded):
    write(graded, "1.1,its inverse,1.5", "1.2,its inverse,3")
    points, said = regrade(graded)
    assert points == POINTS | {"bob": POINTS["bob"] + 1.5}
    assert said[-1] == 'accepted: 1.5 points in 1.1 for "its inverse" (bob).'
    assert classes.exports(graded)["bob"][0] == POINTS["bob"] + 1.5
    points, said = regrade(graded)
    assert points["bob"] == POINTS["bob"] + 1.5 and not said
    with graded.gradebook() as book:  # a person decides otherwise
        book.find_grade("ch01-q01-check", "exercises", TOPIC, "bob").manual_score = 0.5
        book.db.commit()
    assert regrade(graded)[0]["bob"] == POINTS["bob"] + 0.5


@pytest.mark.parametrize(
    "row, says", [("1.1,,2", "line 2, has no words"), ("1.1,its inverse,two", 'line 2, has "two" where points belong')]
)
def test_a_row_that_says_nothing_is_refused(graded, row, says):
    write(graded, row)
    with pytest.raises(SourceError, match=says):
        regrade(graded)
