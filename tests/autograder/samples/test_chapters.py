"""Every chapter, and the sample: blank is 0, solved is full, mutants lose their points, variants keep them."""

from functools import cache

import pytest

from autograder.making import bank, in_process_grading
from autograder.places import ROOT, Tree
from helpers.check import answer_checks, likely_mistakes, sending_rules, sharded_program
from tests.tiers import repeats

SAMPLE = ROOT / "tests" / "autograder" / "sample"

# (COURSE_SEED, COURSE_VALUES) of submissions: nothing secret, and two of each class
SEEDS = [("0", ""), *((course, f"{course}-{one}") for course in ("spring", "7", "autumn") for one in ("ada", "bob"))]
COURSES = [(Tree(SAMPLE), SAMPLE), (Tree(ROOT), bank.SAMPLES)]
LONG = ("ch02", "ch04", "ch06", "ch07", "ch08")
CHAPTERS = [(tree, path.stem, folder) for tree, folder in COURSES for path in tree.exercises]


@cache
def solved(tree: Tree, topic: str):
    return in_process_grading.solved(topic, tree)


@pytest.fixture(params=CHAPTERS, ids=[c[1] for c in CHAPTERS])
def chapter(request):
    tree, topic, folder = request.param
    return solved(tree, topic), topic, folder


@pytest.mark.sample(quick=1, draw=2)
def test_blank_earns_nothing(chapter):
    for name, verdict in in_process_grading.judge(in_process_grading.blank(chapter[0])).items():
        assert verdict.score == 0, f"{name}: {verdict.message}"


@pytest.mark.sample(quick=1, slow=3)
def test_solved_earns_everything(chapter):
    verdicts = in_process_grading.judge(chapter[0])
    assert verdicts
    for name, verdict in verdicts.items():
        assert verdict.score == verdict.points, f"{name}: {verdict.message}"


def changes(kind: str) -> list:
    """Every change of every answer."""
    marks = lambda topic: [pytest.mark.slow("the chapter takes ten seconds")] * (topic[:4] in LONG)  # noqa: E731
    return [
        pytest.param(tree, topic, c, id=f"{c.grade_id}-{c.name}" + "-sample" * (folder == SAMPLE), marks=marks(topic))
        for tree, topic, folder in CHAPTERS
        for c in getattr(bank, kind)(topic, folder)
    ]


@pytest.fixture
def named(monkeypatch):
    """The mistakes that a check names, while it does."""
    found, either = [], likely_mistakes.either
    for module in (answer_checks, sending_rules, sharded_program):
        monkeypatch.setattr(module, "either", lambda messages: (found.extend(messages), either(messages))[1])
    return found


@pytest.mark.parametrize(("tree", "topic", "mutant"), changes("mutants"))
@pytest.mark.sample(quick=1, slow=30, draw=4, kind="topic")
def test_mutant_loses_points_and_is_told_its_cause(tree, topic, mutant, monkeypatch, named):
    """Whatever the seed of the course and the secret of a submission are; and no check names another mistake alone.

    A mistake costs everybody in a class the same, at every attempt.
    """
    earned = {}
    for seed, secret in SEEDS[: repeats(3, 7)][::-1]:
        monkeypatch.setenv("COURSE_SEED", seed)
        monkeypatch.setenv("COURSE_VALUES", secret)
        named.clear()
        verdicts = in_process_grading.judge(bank.applied(solved(tree, topic), [mutant]), mutant.grade_id)
        mine = [v for name, v in verdicts.items() if name.startswith(f"{mutant.grade_id}-check")]
        assert mine
        assert sum(v.score for v in mine) < sum(v.points for v in mine), mine[0].message
        earned.setdefault(secret.partition("-")[0], set()).add(sum(v.score for v in mine))
    assert all(len(points) == 1 for points in earned.values()), f"what is drawn decides what it costs: {earned}"
    said, says = (" ".join(text.split()) for text in (" ".join(v.message for v in mine), mutant.says))
    assert says in said
    assert not named or says and says.rstrip(".") in " — or: ".join(" ".join(m.rstrip(".").split()) for m in named), (
        f"a mistake is named that this answer does not make: {named}"
    )


@pytest.mark.parametrize(("tree", "topic", "variant"), changes("variants"))
@pytest.mark.sample(quick=1, slow=12, draw=2, kind="topic")
def test_variant_keeps_points(tree, topic, variant):
    verdicts = in_process_grading.judge(bank.applied(solved(tree, topic), [variant]), variant.grade_id)
    assert verdicts
    for name, verdict in verdicts.items():
        assert verdict.score == verdict.points, f"{name}: {verdict.message}"
