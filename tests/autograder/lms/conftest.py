"""A course with one assignment, and nothing else."""

import pytest

from autograder import grade

from .platforms import TOPIC


@pytest.fixture
def what(tmp_path) -> grade.Class:
    made = grade.Class(TOPIC, tmp_path / "course")
    made.root.mkdir()
    with made.gradebook() as g:
        g.add_assignment(TOPIC)
        g.add_notebook("exercises", TOPIC)
    return made
