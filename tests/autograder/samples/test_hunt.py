"""Wrong answers made by machine lose, but for those that were looked at and found right."""

from functools import cache

import pytest

from tests.tiers import repeats
from tools import hunt, mutation

KNOWN = hunt.known()
answers = cache(hunt.answers)  # not on import: it makes the notebooks of all chapters


@pytest.mark.parametrize("grade_id", KNOWN)
@pytest.mark.sample(quick=0, slow=4)
@pytest.mark.slow("starts a process that judges some fifty answers under two seeds and more")
def test_what_wins_is_known(grade_id, monkeypatch):
    """Two seeds say what wins; further ones only count how often, for the message."""
    monkeypatch.setattr(hunt, "MORE", hunt.MORE[: repeats(2, 20)])
    n, winners = hunt.hunt(answers()[grade_id], grade_id)
    assert n and not [f"{w.change} ({w.won} of {w.of} seeds)" for w in winners if str(w.change) not in KNOWN[grade_id]]


def test_each_answer_was_hunted_and_is_listed_once_and_in_order():
    listed = [line.split(":")[0] for line in hunt.WON.read_text(encoding="utf-8").splitlines() if line[0] not in "#- "]
    assert listed == sorted(set(listed))
    assert set(listed) == set(answers()), "python -m tools.hunt --write has to be run for these"


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("return -(-a // b)", ["-(-a // b) → -a // b", "-a // b → -a / b", "-a → a"]),
        ("return a if a < b else b", ["a < b → a <= b", "a < b → a > b", "a if a < b else b → b"]),
        ("return max(a, 1)", ["max(a, 1) → min(a, 1)", "max(a, 1) → a", "1 → 2"]),
        (
            "return math.ceil(a / b)",
            ["math.ceil(a / b) → math.floor(a / b)", "math.ceil(a / b) → a / b", "a / b → a * b"],
        ),
        (
            "return a[1:b].sum(axis=0)",
            ["a[1:b] → a[1:b + 1]", "a[1:b] → a[1 + 1:b]", "a[1:b].sum(axis=0) → a[1:b].sum(axis=1)"],
        ),
        ("return a and not b", ["a and (not b) → a or not b", "not b → b", "a and (not b) → a"]),
    ],
)
def test_every_kind_of_change_is_made(line, among):
    cell = f"def f(a, b):\n    ### BEGIN SOLUTION\n    {line}\n    ### END SOLUTION\n"
    made = {str(c) for c in mutation.changes(cell)}
    assert set(among) <= made
    assert len({c.source for c in mutation.changes(cell)}) == len(mutation.changes(cell))


def test_only_the_solution_is_changed():
    cell = "def f(a, b=2):\n    'twice 2'\n    ### BEGIN SOLUTION\n    return a\n    ### END SOLUTION\n"
    assert mutation.changes(cell) == []
