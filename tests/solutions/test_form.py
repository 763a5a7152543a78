"""The form of exercises, of their checks and of their banks, chapter by chapter: what holds for all is said once."""

from dataclasses import dataclass

import pytest

from autograder.making import bank
from helpers.kernels import mesh
from tests.solutions import course

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer

OTHER_VALUES = (("spring", ""), ("0", "a secret"))  # (seed, secret): other inputs and shapes, then other values
BOTH = (("spring", "a secret"),)


@dataclass(frozen=True)
class Chapter:
    """A chapter of some 22 exercises, one of which a person may grade, and then those for more practice.

    told      beginnings of calls, or of lines of a table, by which its checks tell a learner something
    banks     wrong and right samples that each answer has at least
    named     of the wrong ones, how many have a sentence at least
    classes   other classes (seed, secret) whose hidden tests the solutions pass
    parts     ends of the grade ids of exercises that ask for several answers
    uncounted exercises after which no number is told
    skipped   words of checks that need more than their visible lines
    by_hand   the exercise that a person grades, 0 if none is
    """

    topic: str
    told: tuple[str, ...]
    banks: tuple[int, int]
    named: int = 0
    classes: tuple[tuple[str, str], ...] = BOTH
    parts: tuple[tuple[int, tuple[str, ...]], ...] = ()
    uncounted: tuple[int, ...] = ()
    skipped: tuple[str, ...] = ()
    by_hand: int = 22

    @property
    def exercises(self) -> list[str]:
        return course.exercises(self.topic)

    @property
    def numbers(self) -> list[int]:
        return [course.number(text) for text in self.exercises]

    @property
    def checked(self) -> list[tuple[str, str, str]]:
        """(grade id, answer cell, check cell) of all answers that a check looks at."""
        return course.parts("".join(self.exercises))

    @property
    def answers(self) -> list[str]:
        """Their grade ids, as the numbers of the exercises say."""
        several = dict(self.parts)
        return [
            f"{self.topic[:4]}-q{n:02}{part}"
            for n in self.numbers
            if n != self.by_hand
            for part in several.get(n, ("",))
        ]


SAYS = (".wrong(", ".law(", "within(")
PROGRAMS = ("check.Program(",)
CHAPTERS = [  # '": "', '", dense(' and '", dict(' stand in tables of what may go wrong and its sentence
    Chapter("ch01_rooflines", SAYS, (5, 2), named=2, parts=((16, ("", "-count")),), uncounted=(2, 22), by_hand=23),
    Chapter("ch02_sharding", SAYS, (5, 2), named=2, uncounted=(10, 12), skipped=PROGRAMS, by_hand=0,
            parts=((18, ("", "-all")), (21, ("-layout", "")), (23, ("", "-back")))),
    Chapter("ch03_transformers", SAYS, (5, 2), named=5, classes=OTHER_VALUES, uncounted=(11,)),
    Chapter("ch04_training", (*SAYS, ".sends", ".only(", ".fits(", ".equals("), (6, 2), classes=OTHER_VALUES),
    Chapter("ch05_inference", (*SAYS, ".sends", ".equals(", '": "'), (6, 3), skipped=PROGRAMS,
            parts=((13, ("-numbers", "-program")), (14, ("-experts", "-sharded")), (25, ("-numbers", "-program")))),
    Chapter("ch06_attention", (*SAYS, '", dense(', '", dict(', "good(cost("), (6, 3), skipped=(*PROGRAMS, "@cache")),
    Chapter("ch07_racks", (*SAYS, ".in_tiers(", ".equals("), (7, 2), classes=OTHER_VALUES, skipped=PROGRAMS, by_hand=17),
    Chapter("ch08_experts", (*SAYS, ".sends", ".equals("), (7, 2), classes=OTHER_VALUES, skipped=PROGRAMS, by_hand=0),
]  # fmt: skip
of_chapters = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.topic)


@of_chapters
def test_all_are_there(chapter):
    assert chapter.numbers == sorted(chapter.numbers)
    assert chapter.by_hand in chapter.numbers or not chapter.by_hand
    assert [p[0] for p in chapter.checked] == chapter.answers


@of_chapters
def test_form(chapter):
    for text in chapter.exercises:
        course.well_formed(text, told=chapter.told)
        assert course.computed(text) or course.number(text) in chapter.uncounted, text[:80]


@of_chapters
def test_check_calls_the_answer_by_position(chapter):
    for grade_id, answer, check in chapter.checked:
        assert course.by_position(answer, check), grade_id


@of_chapters
def test_every_answer_has_its_mutants_and_variants(chapter):
    wrong, right = bank.mutants(chapter.topic), bank.variants(chapter.topic)
    assert {c.grade_id for c in (*wrong, *right)} == {*chapter.answers}
    for answer in chapter.answers:
        mine = [m for m in wrong if m.grade_id == answer]
        assert len(mine) >= chapter.banks[0] and sum(bool(m.says) for m in mine) >= chapter.named, answer
        assert sum(v.grade_id == answer for v in right) >= chapter.banks[1], answer


@of_chapters
@pytest.mark.sample(quick=0, slow=2)
def test_hidden_tests_hold_for_another_class(chapter, monkeypatch):
    """Other seeds draw other inputs and other shapes, other values with a secret: the solutions pass them all."""
    solved = course.solved(chapter.topic)
    for seed, values in chapter.classes:
        monkeypatch.setenv("COURSE_SEED", seed)
        monkeypatch.setenv("COURSE_VALUES", values)
        course.hold(chapter.checked, solved)


@of_chapters
@pytest.mark.sample(quick=0, slow=2)
def test_visible_checks_alone_accept_the_solutions(chapter):
    kept = [p for p in chapter.checked if not any(word in p[2] for word in chapter.skipped)]
    assert len(kept) >= 10
    course.hold(kept, course.solved(chapter.topic), course.visible)
