"""What decides whether a mistake shows is the same for everybody, and nothing takes the name of an answer."""

import dis
import json

import pytest

from autograder.places import Tree
from helpers import check
from helpers.check import random_inputs
from helpers.check.edge_cases import traits
from tests.solutions import course

SUBMISSIONS = [("0", "spring-ada"), ("7", "spring-bob"), ("7", "autumn-eve")]  # (COURSE_SEED, COURSE_VALUES)
NUMBERS = "magnitude", "shape"  # of these traits a submission may have its own: seeds of arrays, and these


def decided(drawn: dict) -> set[tuple]:
    """What the settings of a draw are like, numbers apart."""
    return {t for t in traits("", drawn) if not {*NUMBERS} & {*t}}


def asked(checks, scope: dict, monkeypatch) -> dict[tuple, list]:
    """Of each loop over `check.inputs` in these checks, where it stands and its name: what each of its settings is like."""
    found: dict[tuple, list] = {}

    def recorded(n, name, draws, **how):
        settings = list(random_inputs.inputs(n, name, draws, **how))
        if not how.get("parts"):  # those have the class's edges
            kept = [*map(repr, settings)] if how.get("shapes") else [*map(decided, settings)]
            found.setdefault((at[0], name), []).extend(kept)
        return iter(settings)

    at = [""]
    monkeypatch.setattr(check, "inputs", recorded)
    for part in checks:
        at[0] = part[0]
        course.hold([part], scope)
    return found


@pytest.mark.parametrize("topic", [p.stem for p in Tree().exercises])
@pytest.mark.sample(quick=0, slow=2)
def test_no_seed_decides_what_is_tried(topic, monkeypatch):
    checks = [p for p in course.parts("".join(course.exercises(topic))) if "check.inputs(" in p[2]]
    scope, found = course.solved(topic), []
    for seed, values in SUBMISSIONS:
        monkeypatch.setenv("COURSE_SEED", seed)
        monkeypatch.setenv("COURSE_VALUES", values)
        found.append(asked(checks, scope, monkeypatch))
    own = sorted({name for drawn in found for name in drawn if drawn[name] != found[0].get(name)})
    assert not own, f"draw these by check.with_edges, for a mistake may show in some of them only: {own}"


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


@pytest.mark.parametrize("topic", [path.stem for path in Tree().exercises])
def test_no_check_takes_the_name_of_a_function_that_answers_are_given(topic):
    """Where stock nbgrader grades, checks and later answers share a kernel."""
    cells = json.loads((Tree().notebooks / "given_cells.json").read_text(encoding="utf-8"))
    functions = {
        name: key
        for key, statements in cells.items()
        if key.startswith(topic[:4])
        for statement in statements
        if statement.startswith("def ")
        for name in given(statement)
    }
    for grade_id, _, source in course.parts("".join(course.exercises(topic))):
        assert not given(source) & functions.keys(), grade_id
