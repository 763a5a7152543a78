"""All cells of a chapter share one notebook: no answer or check may give a name of another answer a new meaning."""

import dis

import pytest

from autograder.places import Tree
from tests.solutions import course


def given(cell: str) -> set[str]:
    """Names that the cell gives a meaning to in the notebook: not those inside its functions and comprehensions."""
    # The bytecode, not the symbol table: from Python 3.12 that one lists a comprehension's own names too.
    steps = dis.get_instructions(compile(cell, "<cell>", "exec"))
    return {step.argval for step in steps if step.opname in ("STORE_NAME", "STORE_GLOBAL")}


def clashes(parts: list[tuple[str, str, str]]) -> list[str]:
    """Each name of an answer that another answer, or any check, gives a meaning to as well."""
    answers = {grade_id: given(answer) for grade_id, answer, _ in parts}
    cells = [(f"{grade_id}-check", given(check)) for grade_id, _, check in parts] + list(answers.items())
    return [
        f"{name} of {owner} in {where}"
        for where, names in cells
        for owner, mine in answers.items()
        if where != owner
        for name in sorted(names & mine)
    ]


@pytest.mark.parametrize("topic", [path.stem for path in Tree().exercises])
def test_nothing_takes_the_name_of_an_answer(topic):
    assert clashes(course.parts("".join(course.exercises(topic)))) == []
