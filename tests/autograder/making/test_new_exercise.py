"""A new exercise: its skeleton and where it goes; tried alone, what is made of it, how its samples are judged, what is said."""

import re
import subprocess
import sys

import pytest

from autograder.making import bank, in_process_grading
from autograder.places import SourceError, Tree
from tools import new_exercise, one_exercise, try_exercise

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


@pytest.mark.parametrize(("number", "said"), [
    ("1.1", "1.1 is taken: the next exercise of chapter 1 is {next}."),
    ("1.77", "1.77 would leave a gap after {last}: the next exercise of chapter 1 is {next}."),
    ("2.1", "There is no chapter 2: there are 1."),
    ("one", 'An exercise is named by chapter and number, as in 4.27, not "one".'),
    ("1.0", 'An exercise is named by chapter and number, as in 4.27, not "1.0".'),
])  # fmt: skip
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


SEED = ("0", "")
WRONG, RIGHT = FILES[1:]


def replace(tree: Tree, file: str, *pairs: tuple[str, str]) -> None:
    path = tree.root / file
    text = path.read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def number(tree) -> str:
    """A skeleton that is filled in."""
    number = next_of(tree)
    new_exercise.add(number, tree)
    replace(tree, FILES[0], ("{ref}`TODO: label of a section`", "{ref}`sec-time`"), ("TODO_name", "product"))
    for file in FILES:
        path = tree.root / file
        path.write_text(re.sub(r"TODO: ", "", path.read_text(encoding="utf-8")), encoding="utf-8")
    return number


def results(tree: Tree, number: str, tmp_path) -> dict[str, try_exercise.Row]:
    trial = one_exercise.made(number, tree)
    judged = try_exercise.judged(trial, SEED, tmp_path / "jax")
    found = [try_exercise.Row(a, (score,), (said,)) for a, (score, said) in zip(try_exercise.answers(trial), judged)]
    return {row.answer.name: row for row in found}


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What judging sets is the tests' own again."""
    for name in ("COURSE_SEED", "COURSE_VALUES"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(try_exercise.checker, "keep_compiled", lambda folder: None)


def test_a_skeleton_that_is_filled_in_is_judged_as_it_has_to_be(tree, number, tmp_path):
    found = results(tree, number, tmp_path)
    assert list(found) == ["our answer", "untouched", "2 * B * D * D -> B * D * D", "in-floats"]
    assert [row.scores for row in found.values()] == [(3,), (0,), (0,), (3,)]
    assert not any(row.fault for row in found.values())


def test_samples_that_are_not_judged_as_they_have_to_be_are_named(tree, number, tmp_path, monkeypatch):
    grade_id = f"ch01-q{int(number[2:]):02}"
    samples = """
- 2 * B * D * D -> D * 2 * B * D: {says: never}
- 2 * B * D * D -> 7 * B * D * D: {says: never}
- 2 * B * D * D -> 5 * B * D * D:
- {replace: "    return", with: "    while True: pass\\n    return", says: "has not ended"}
"""
    (tree.root / WRONG).write_text(f"{grade_id}:{samples}", encoding="utf-8")
    replace(tree, RIGHT, ("D * (B + B + D)", "D * (B + D)"))
    monkeypatch.setattr(try_exercise, "SECONDS", 1)
    found = results(tree, number, tmp_path)
    assert {name: row.fault for name, row in found.items() if row.fault} == {
        "2 * B * D * D -> D * 2 * B * D": "is wrong, and loses nothing",
        "2 * B * D * D -> 7 * B * D * D": "is not told: never",
        "2 * B * D * D -> 5 * B * D * D": "has neither a mistake, nor says what it is told by something else",
        "in-floats": "is right, and loses points",
    }
    assert "the answer has not ended after 1 s" in found["return -> while True: pass return"].said[0]
    printed = list(try_exercise.table(found.values(), 60))
    assert (
        "    WRONG: 2 * B * D * D -> D * 2 * B * D is wrong, and loses nothing" in printed
        and max(map(len, printed)) < 120
    )


def test_a_mistake_that_shows_in_no_case_is_named_and_the_others_are_judged(tree, number, tmp_path):
    with (tree.root / WRONG).open("a", encoding="utf-8") as file:
        file.write("- 2 * B * D * D -> D * 2 * B * D: none\n")
    assert [m.name for m in one_exercise.made(number, tree).unseen] == ["2 * B * D * D -> D * 2 * B * D"]
    assert results(tree, number, tmp_path)["2 * B * D * D -> B * D * D"].scores == (0,)


@pytest.mark.parametrize(("file", "old", "new", "said"), [
    (WRONG, "- 2 * B * D * D ->", "- 2 * B * D * D * D ->", "stands 0 times there, not once"),
    (WRONG, "- 2 * B", "- {2 * B", r"ch01_sample.yaml, line \d+: this is no YAML: "),
    (
        WRONG,
        '"five mistakes or more, each with a sentence"',
        "{kind: one-flap}",
        "names the kind one-flap, which kinds.yaml does not have",
    ),
    (FILES[0], "our answer\n", "our answer\n    return (\n", "A cell is no Python: "),
    (FILES[0], "points=3", "points=4", "is worth 3.* points, its answers' points= sum to 4"),
    (FILES[0], "{ref}`sec-time`", "{ref}`sec-none`", 'No source has the label "sec-none"'),
])  # fmt: skip
def test_what_is_wrong_is_said_in_a_sentence(tree, number, file, old, new, said):
    replace(tree, file, (old, new))
    with pytest.raises(SourceError, match=said) as error:
        one_exercise.made(number, tree)
    assert "\n" not in str(error.value)


def test_only_the_cells_that_it_needs_are_made():
    """Of its chapter's answers 1.4 takes none but its own."""
    ids = [c.metadata.get("nbgrader", {}).get("grade_id", "") for c in one_exercise.made("1.4", Tree()).notebook.cells]
    assert set(ids) == {"", "ch01-q04", "ch01-q04-check"}


def test_the_check_is_that_of_the_whole_chapter():
    whole = {c.id: c.source for c in in_process_grading.solved("ch01_rooflines").cells}
    alone = {c.id: c.source for c in one_exercise.made("1.4", Tree()).notebook.cells if "ch01-q04" in c.id}
    assert len(alone) == 2 and alone.items() <= whole.items()


def test_what_a_learner_gets_is_shown(tree, number):
    said = "\n".join(try_exercise.shown(one_exercise.made(number, tree)))
    assert "def product(B: int, D: int)" in said and "YOUR CODE HERE" in said and "a.gives(" in said
    assert "by_hand" not in said and "2 * B * D * D" not in said  # hidden tests and the solution
    assert re.search(r"product\(B=7, D=20\) gives flops 5600, bytes 1360", said) and "is to try: " in said


STUCK = """
import sys
from pathlib import Path
from tools import one_exercise, try_exercise
from autograder.places import Tree

if __name__ == "__main__":
    tree = Tree(Path(sys.argv[1]))
    try_exercise.SECONDS = 1
    try_exercise.judged(one_exercise.made(sys.argv[2], tree), ("0", ""), tree.root / "jax")
"""


@pytest.mark.slow("waits for what never ends")
def test_compiled_code_that_never_ends_ends_the_process_with_a_sentence(tree, number):
    replace(
        tree,
        RIGHT,
        (
            "flops = 2.0",
            "import jax; jax.lax.while_loop(lambda x: x > 0, lambda x: x + 1, 1.0).block_until_ready(); flops = 2.0",
        ),
    )
    command = [sys.executable, "-c", STUCK, str(tree.root), number]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "in-floats does not end after 3 s, and nothing but" in done.stderr


@pytest.mark.slow("a second process judges under the other seed")
def test_the_command_judges_under_two_seeds(tree, number, capsys):
    assert try_exercise.main([number], tree) == 0
    out = capsys.readouterr().out
    assert "All 4 answers are judged as they have to be." in out and "0 of 3" in out
    replace(tree, WRONG, ("-> B * D * D", "-> D * 2 * B * D"))
    assert try_exercise.main([number], tree) == 1
    assert "add one in which it shows" in capsys.readouterr().out
