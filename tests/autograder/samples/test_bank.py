"""Mutants and variants: read, applied once, refused with a sentence; those made by machine lose, or were found right."""

import re
from functools import cache
from pathlib import Path

import pytest

from autograder.making import bank, in_process_grading, mistakes
from autograder.places import ROOT, SourceError, Tree
from tests.tiers import repeats
from tools import hunt, mutation

CELL = "def f(a):\n    ### BEGIN SOLUTION\n    return a + 1\n    ### END SOLUTION\n\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION"


def test_mutant_replaces_once():
    assert "a - 1" in bank.Mutant("ch01-q01", "a + 1", "a - 1").apply(CELL)
    for text, n in (("a * 1", 0), ("BEGIN SOLUTION", 2)):
        with pytest.raises(SourceError, match=f"stands {n} times"):
            bank.Mutant("ch01-q01", text, "").apply(CELL)


def test_a_line_of_an_edit_begins_where_that_of_its_old_text_does():
    text = "def f(a):\n    for x in a:\n        y = x\n        z = y\n    return a"
    edit = bank.Mutant("ch01-q01", r"y = x\nz = y", r"if x:\n    z = x")
    assert edit.apply(text) == "def f(a):\n    for x in a:\n        if x:\n            z = x\n    return a"
    with pytest.raises(SourceError, match="stands 0 times"):
        bank.Mutant("ch01-q01", r"z = y\nreturn a", "").apply(text)


def test_variant_replaces_the_region():
    text = bank.Variant("ch01-q01", "v", "b = a\nreturn 1 + b\n").apply(CELL)
    assert text == "def f(a):\n    b = a\n    return 1 + b\n\n"
    with pytest.raises(SourceError, match="no solution region"):
        bank.Variant("ch01-q01", "v", "").apply("def f(): pass")


@pytest.mark.parametrize(("text", "said"), [
    ("- a", "must map grade_ids to lists"),
    ("ch01-q01: x", "ch01-q01 must be a list"),
    ("ch01-q01: [{replace: a, says: b}]", "needs replace, with as text and may have mistake, says, it has replace, says"),
    ("ch01-q01: [{replace: b, with: 1}]", "as text"),
    ("ch01-q01: [a -> b: 1]", "as text"),
    ("ch01-q01: [a: b]", 'must be an edit and what is said of it, "old -> new: sentence", it is "a"'),
    ("ch01-q01: [{replace: b, with: c, why: d}]", "it has replace, why, with"),
    ("ch01-q01: [b -> c: d, {replace: b, with: c, mistake: d}]", r"has b \| c \| d twice"),
])  # fmt: skip
def test_errors(tmp_path, text, said):
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "ch01_x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=said):
        bank.mutants("ch01_x", tmp_path)


def test_kth_of_every_exercise():
    found = [bank.Mutant("ch01-q01", "a", ""), bank.Mutant("ch01-q02", "b", ""), bank.Mutant("ch01-q01", "c", "")]
    assert [m.replace for m in bank.kth(found, 0)] == ["a", "b"]
    assert [m.replace for m in bank.kth(found, 1)] == ["c"]
    assert bank.kth(found, 2) == []


def test_every_wrong_answer_has_a_cause_that_is_told():
    """`says` is the cause, a part of what the learner reads; `test_chapters` holds it against the message."""
    assert [f"{m.grade_id} {m.name}" for path in Tree().exercises for m in bank.mutants(path.stem) if not m.says] == []


FORMED = (
    "use ppermute alone", "travels as bf16", "the limit is 300", "this is None", "incompatible shapes", "too many values",
    "IndexError", "raised ValueError", "triangular_solve", "returned [[0., 0.]]", "the FLOPs are not right", "value 3 of 5",
    "copied is None", "dk: every head", "q.reshape(", "every number is 1.0", "except where ", "they stand at",
    "the same whatever", "by exactly ", "a sum over ", "whole along",
)  # fmt: skip
"""What Python, JAX, or a check that fills in names says; only the check that runs can show these."""


def written(*files: Path) -> str:
    """Their text on one line, strings that stand one below the other joined."""
    joined = (re.sub(r'"\s*\n\s*f?"', "", f.read_text(encoding="utf-8")).replace("\\", "") for f in files)
    return " ".join(" ".join(joined).split())


@pytest.mark.parametrize("source", Tree().exercises, ids=lambda p: p.stem)
def test_four_words_of_what_a_sample_is_told_are_written_somewhere(source):
    """Most samples run with FULL=1 only, and messages are reworded more often."""
    messages = written(
        source, *sorted((ROOT / "helpers/check").glob("*.py")), *sorted((ROOT / "helpers/trace").rglob("*.py"))
    )
    mutants, lost = bank.mutants(source.stem), []
    messages += " ".join(m.mistake for m in mutants)  # another sample of the exercise may be what is named
    for m in mutants:
        if m.mistake:  # that is where it is written
            continue
        words = m.says.split()
        some = (" ".join(words[i : i + 4]) for i in range(max(1, len(words) - 3)))
        if not any(four in messages for four in some) and not any(f in m.says for f in FORMED):
            lost.append(f"{m.grade_id} {m.name}: {m.says}")
    assert not lost


KINDS = "bits: {mistake: a byte is 8 bits, replace: ' / 8', with: ''}\nrounded: {mistake: nothing is rounded}\n"


def of_kinds(folder: Path, text: str) -> list[bank.Mutant]:
    (folder / "wrong").mkdir()
    (folder / "wrong" / "ch01_x.yaml").write_text(text, encoding="utf-8")
    (folder / "kinds.yaml").write_text(KINDS, encoding="utf-8")
    return bank.mutants("ch01_x", folder)


def test_a_kind_has_the_sentence_and_may_have_the_edit(tmp_path):
    found = of_kinds(
        tmp_path,
        "ch01-q01:\n- {kind: bits}\n- b / 8 -> b: {kind: bits, entry: kv}\n- a / b -> round(a / b): {kind: rounded}\n",
    )
    assert found == [
        bank.Mutant("ch01-q01", " / 8", "", *["a byte is 8 bits"] * 2),
        bank.Mutant("ch01-q01", "b / 8", "b", *["kv: a byte is 8 bits"] * 2),
        bank.Mutant("ch01-q01", "a / b", "round(a / b)", *["nothing is rounded"] * 2),
    ]


@pytest.mark.parametrize(("entry", "said"), [
    ("{kind: bit}", r"an entry of ch01-q01 names the kind bit, which kinds.yaml does not have: bits\?"),
    ("{kind: hop}", r"names the kind hop, which kinds.yaml does not have\."),
    ("{kind: bits, mistake: a}", "is of the kind bits, whose sentence stands in kinds.yaml"),
    ("{kind: bits, says: a}", "is of the kind bits, whose sentence stands in kinds.yaml"),
    ("{kind: rounded, replace: a}", 'the kind rounded has no edit that is always the same, so write "old -> new: {kind: rounded}"'),
    ("{kind: bits}, {kind: bits}", r"ch01-q01 has a byte is 8 bits \|  / 8 \|  twice"),
    ("{kind: bits", r"ch01_x.yaml, line \d: this is no YAML"),
    ("a -> b: 'TODO: why'", 'ch01_x.yaml: ch01-q01 still has "TODO: why": fill it in'),
])  # fmt: skip
def test_what_is_wrong_with_a_kind_is_said(tmp_path, entry, said):
    with pytest.raises(SourceError, match=said):
        of_kinds(tmp_path, f"ch01-q01: [{entry}]")


def test_kinds_are_sentences_of_their_own_and_nobody_writes_one_again():
    """A sentence that begins small and ends without a full stop, once in the file; chapters whose samples name kinds write none out."""
    kinds = bank._read(bank.SAMPLES / "kinds.yaml", "kinds to sentences")
    sentences = [kind["mistake"] for kind in kinds.values()]
    assert len(set(sentences)) == len(sentences)
    for name, kind in kinds.items():
        assert kind.keys() in ({"mistake"}, {"mistake", "replace", "with"}), name
        assert not kind["mistake"].endswith(".") and re.fullmatch(r"[a-z][\w-]*|NH-is-D", name), name
    for topic in ("ch01_rooflines", "ch03_transformers"):
        entries = [e for own in bank._read(bank.SAMPLES / "wrong" / f"{topic}.yaml", "").values() for e in own]
        assert not [e for e in entries if any(v in sentences for v in e.values())], topic


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


def test_each_answer_was_hunted_and_is_listed_once_and_in_order(monkeypatch):
    monkeypatch.setattr(in_process_grading, "_made", {})
    monkeypatch.setattr(mistakes, "fill", lambda cells, mutants: [])  # no check runs, and values take half a minute
    listed = [line.split(":")[0] for line in hunt.WON.read_text(encoding="utf-8").splitlines() if line[0] not in "#- "]
    assert listed == sorted(set(listed))
    assert set(listed) == set(hunt.answers()), "python -m tools.hunt --write has to be run for these"


@pytest.mark.parametrize(("line", "among"), [
    ("return -(-a // b)", ["-(-a // b) → -a // b", "-a // b → -a / b", "-a → a"]),
    ("return a if a < b else b", ["a < b → a <= b", "a < b → a > b", "a if a < b else b → b"]),
    ("return max(a, 1)", ["max(a, 1) → min(a, 1)", "max(a, 1) → a", "1 → 2"]),
    ("return math.ceil(a / b)", ["math.ceil(a / b) → math.floor(a / b)", "math.ceil(a / b) → a / b", "a / b → a * b"]),
    ("return a[1:b].sum(axis=0)", ["a[1:b] → a[1:b + 1]", "a[1:b] → a[1 + 1:b]", "a[1:b].sum(axis=0) → a[1:b].sum(axis=1)"]),
    ("return a and not b", ["a and (not b) → a or not b", "not b → b", "a and (not b) → a"]),
])  # fmt: skip
def test_every_kind_of_change_is_made(line, among):
    cell = f"def f(a, b):\n    ### BEGIN SOLUTION\n    {line}\n    ### END SOLUTION\n"
    made = {str(c) for c in mutation.changes(cell)}
    assert set(among) <= made
    assert len({c.source for c in mutation.changes(cell)}) == len(mutation.changes(cell))


def test_only_the_solution_is_changed():
    cell = "def f(a, b=2):\n    'twice 2'\n    ### BEGIN SOLUTION\n    return a\n    ### END SOLUTION\n"
    assert mutation.changes(cell) == []
