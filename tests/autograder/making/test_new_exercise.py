"""A new exercise: its skeleton, where it goes, and the build that waits until it is filled in."""

import re

import pytest

from autograder.making import bank, in_process_grading
from autograder.places import SourceError, Tree
from tools import new_exercise

FILES = (
    "solutions/ch01_sample.md",
    "autograder/samples/wrong/ch01_sample.yaml",
    "autograder/samples/right/ch01_sample.yaml",
)


def texts(tree: Tree) -> list[str]:
    return [(tree.root / file).read_text(encoding="utf-8") for file in FILES]


def next_of(tree: Tree) -> str:
    """The number that the next exercise gets."""
    *_, last = re.findall(r"^\(ex-1-(\d+)\)=$", texts(tree)[0], re.M)
    return f"1.{int(last) + 1}"


def test_a_skeleton_goes_behind_the_last_exercise_and_into_both_samples(tree, capsys):
    before, number = texts(tree), next_of(tree)
    assert new_exercise.main([number], tree) == 0
    grade_id = f"ch01-q{int(number[2:]):02}"
    for old, new, parts in zip(
        before, texts(tree), (["★★☆ · importance", "a.cases(", "a.equals("], [" -> "], ["- in-floats: |"])
    ):
        added = new.removeprefix(old)
        assert added != new and grade_id in added and all(part in added for part in parts)
    said = capsys.readouterr().out
    assert all(file in said for file in FILES) and f"make exercise TRY={number}" in said


def test_the_build_says_in_a_sentence_each_what_is_to_be_filled_in(tree):
    number = next_of(tree)
    new_exercise.add(number, tree)
    with pytest.raises(SourceError) as error:
        in_process_grading.solved("ch01_sample", tree)
    lines = str(error.value).split("\n")
    assert len(lines) == len(set(lines)) > 8
    assert all(
        re.fullmatch(rf'solutions/ch01_sample\.md: exercise {number} still has "TODO.*": fill it in\.', s)
        for s in lines
    )
    for read in (bank.mutants, bank.variants):
        with pytest.raises(SourceError, match=r'ch01_sample.yaml: ch01-q\d\d still has "TODO: .*": fill it in'):
            read("ch01_sample", tree.root / "autograder" / "samples")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("1.1", "1.1 is taken: the next exercise of chapter 1 is {next}."),
        ("1.77", "1.77 would leave a gap after {last}: the next exercise of chapter 1 is {next}."),
        ("2.1", "There is no chapter 2: there are 1."),
        ("one", 'An exercise is named by chapter and number, as in 4.27, not "one".'),
        ("1.0", 'An exercise is named by chapter and number, as in 4.27, not "1.0".'),
    ],
)
def test_another_number_is_refused_and_nothing_is_written(tree, capsys, number, said):
    before, following = texts(tree), next_of(tree)
    assert new_exercise.main([number], tree) == 1
    said = said.format(next=following, last=f"1.{int(following[2:]) - 1}")
    assert capsys.readouterr().err == said + "\n" and texts(tree) == before


def test_a_number_that_was_replaced_is_not_given_again(tree, monkeypatch):
    monkeypatch.setattr(new_exercise, "REPLACED_BY", {next_of(tree): "1.1"})
    with pytest.raises(SourceError, match="is taken: the next exercise"):
        new_exercise.add(next_of(tree), tree)


def test_samples_that_are_there_already_are_kept(tree):
    number = next_of(tree)
    file = tree.root / FILES[1]
    file.write_text(f"{file.read_text(encoding='utf-8')}ch01-q{int(number[2:]):02}:\n", encoding="utf-8")
    before = texts(tree)
    with pytest.raises(SourceError, match="has samples of ch01-q"):
        new_exercise.add(number, tree)
    assert texts(tree) == before
