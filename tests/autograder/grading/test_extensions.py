"""A later deadline for one student: read at each grading, named, and gone with its row."""

import pytest

from autograder import grade
from autograder.grading import extensions
from autograder.places import SourceError
from tests.autograder import classes
from tests.autograder.classes import TOPIC, checks_run
from tests.autograder.grading.test_regrades import regrade
from tests.autograder.grading.test_resume import scores

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("resume")]


def write(what, *rows: str) -> None:
    (what.root / extensions.NAME).write_text("\n".join(["student,assignment,until", *rows]) + "\n", encoding="utf-8")


def test_an_extension_counts_is_named_and_goes(graded, capsys):
    for student in ("ada", "bob"):
        classes.stamp(graded, student, "2030-02-01 13:30:00 UTC")
    scores(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 2, "eve": 0} and checks_run()
    write(graded, f"bob,{TOPIC},2030-02-01 14:00", f"nan,{TOPIC},2030-02-03")
    with graded.gradebook() as book:
        before = book.find_submission(TOPIC, "bob").extension
    regrade(graded, dry=True)
    assert classes.penalties(graded)["bob"] == 2 and before is None
    _, said = regrade(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 0, "eve": 0} and checks_run() == {"bob": set()}
    assert said[-1] == "since the last grading: 1 gained 2 points for the time of submission (bob)."
    with graded.gradebook() as book:  # nbgrader's own pages know it, too
        assert book.find_submission(TOPIC, "bob").total_seconds_late == 0
    grade.print_results(graded, [])
    assert (
        "extensions: bob until 2030-02-01 14:00 UTC, nan until 2030-02-03 23:59 UTC (has\n  not handed in)."
        in capsys.readouterr().out
    )
    write(graded, f"bob,{TOPIC},2030-02-01 13:00")
    scores(graded)
    assert classes.penalties(graded)["bob"] == 1
    write(graded)
    scores(graded)
    assert classes.penalties(graded) == {"ada": 2, "bob": 2, "eve": 0}


@pytest.mark.parametrize(
    "text, says",
    [
        ("who,until\n", "has no column student: its first line is student,assignment,until"),
        (f"student,assignment,until\nbob,{TOPIC},soon\n", 'line 2, has "soon" where a day such as 2027-03-20'),
        ("student,assignment,until\n\nbob,ch99,2030-02-02\n", 'line 3, names "ch99", which is no released assignment'),
    ],
)
def test_a_file_that_cannot_be_read_stops_the_grading(graded, text, says):
    (graded.root / extensions.NAME).write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=says):
        regrade(graded)
