"""The form of exercises, of their checks and of their banks, chapter by chapter: what holds for all is said once."""

from dataclasses import dataclass

import pytest

from autograder.samples import bank
from helpers.kernels import mesh
from tests.solutions import course

mesh.devices(8)  # while tests are collected: another chapter's tests may start JAX with fewer

OTHER_VALUES = (("spring", ""), ("0", "a secret"))  # (seed, secret): other inputs and shapes, then other values
BOTH = (("spring", "a secret"),)


@dataclass(frozen=True)
class Chapter:
    """A chapter of some 22 exercises, the last of which a person grades, and then those for more practice.

    told      beginnings of calls, or of lines of a table, by which its checks tell a learner something
    banks     wrong and right samples that each answer has at least
    named     of the wrong ones, how many have a sentence at least
    classes   other classes (seed, secret) whose hidden tests the solutions pass
    parts     ends of the grade ids of exercises that ask for several answers
    uncounted exercises after which no number is told
    skipped   words of checks that need more than their visible lines
    by_hand   the exercise that a person grades, if it is not the 22nd
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
    def answers(self) -> list[str]:
        """Grade ids of all answers that a check looks at."""
        several = dict(self.parts)
        return [
            f"{self.topic[:4]}-q{n:02}{part}"
            for n in self.numbers
            if n != self.by_hand
            for part in several.get(n, ("",))
        ]


SAYS = (".wrong(", ".law(", "within(")
CHAPTERS = [
    Chapter("ch03_transformers", SAYS, (5, 2), named=5, classes=OTHER_VALUES, uncounted=(11,)),
    Chapter(
        "ch04_training",
        (*SAYS, ".sends", ".only(", ".fits(", ".equals("),
        (6, 2),
        classes=OTHER_VALUES,
    ),
    Chapter(  # '": "' stands in a table of what may go wrong and its sentence, for answers that are run through a story
        "ch05_inference",
        (*SAYS, ".sends", ".equals(", '": "'),
        (6, 3),
        parts=((13, ("-numbers", "-program")), (14, ("-experts", "-sharded")), (25, ("-numbers", "-program"))),
        skipped=("check.Program(",),
    ),
    Chapter(  # '", dense(' and '", dict(' stand in such tables too
        "ch06_attention",
        (*SAYS, '", dense(', '", dict(', "good(cost("),
        (6, 3),
        skipped=("check.Program(", "@cache"),
    ),
    Chapter(
        "ch07_racks",
        (*SAYS, "tiers(a", ".equals("),
        (7, 2),
        classes=OTHER_VALUES,
        skipped=("check.Program(",),
        by_hand=17,
    ),
]
of_chapters = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.topic)


def each(rows):
    """One test for each (chapter, thing, its name)."""
    return pytest.mark.parametrize("chapter, it", [r[:2] for r in rows], ids=[r[2] for r in rows])


EXERCISES = [(c, text, f"{c.topic[:4]}-{course.number(text)}") for c in CHAPTERS for text in c.exercises]
PARTS = [(c, part, part[0]) for c in CHAPTERS for part in course.parts("".join(c.exercises))]
ANSWERS = [(c, answer, answer) for c in CHAPTERS for answer in c.answers]


@of_chapters
def test_all_are_there(chapter):
    texts = chapter.exercises
    assert chapter.by_hand in chapter.numbers and chapter.numbers == sorted(chapter.numbers)
    assert [p[0] for p in course.parts("".join(texts))] == chapter.answers


@each(EXERCISES)
def test_form(chapter, it):
    course.well_formed(it, told=chapter.told)
    assert course.computed(it) or course.number(it) in chapter.uncounted


@each(PARTS)
def test_check_calls_the_answer_by_position(chapter, it):
    course.by_position(*it[1:])


@each(ANSWERS)
def test_mutants_and_variants(chapter, it):
    mine = [m for m in bank.mutants(chapter.topic) if m.grade_id == it]
    assert len(mine) >= chapter.banks[0] and sum(bool(m.says) for m in mine) >= chapter.named
    assert len([v for v in bank.variants(chapter.topic) if v.grade_id == it]) >= chapter.banks[1]


@pytest.mark.parametrize(
    "chapter",
    CHAPTERS,
    ids=lambda c: c.topic,
)
@pytest.mark.sample(quick=0, slow=2)
def test_hidden_tests_hold_for_another_class(chapter, monkeypatch):
    """Other seeds draw other inputs and other shapes, other values with a secret: the solutions pass them all."""
    solved = course.solved(chapter.topic)
    for seed, values in chapter.classes:
        monkeypatch.setenv("COURSE_SEED", seed)
        monkeypatch.setenv("COURSE_VALUES", values)
        course.hold(course.parts("".join(chapter.exercises)), solved)


@pytest.mark.slow
@of_chapters
@pytest.mark.sample(quick=0, slow=2)
def test_visible_checks_alone_accept_the_solutions(chapter):
    parts = course.parts("".join(chapter.exercises))
    kept = [p for p in parts if not any(word in p[2] for word in chapter.skipped)]
    assert len(kept) >= 10
    course.hold(kept, course.solved(chapter.topic), course.visible)
