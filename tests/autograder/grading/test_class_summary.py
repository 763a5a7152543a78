"""The summary of a class: readable at 80 columns, nothing in it acts on a terminal; and pairs that are more alike than usual."""

import math
import random
import re
import unicodedata

import pytest

from autograder import likeness
from autograder.grading import class_summary
from autograder.grading.class_summary import Result, by_exercise, columns, complaints, mistake, plain, table

OFF = "that is exactly half: a multiply-add is 2 FLOPs. (f({0}) returned {0}.5.)"


def student(name, got=1.0, said=(), **more) -> Result:
    return Result(name, {"ch01-q01": (2.0, 2.0), "ch01-q02": (got, 3.0)}, said={"ch01-q02": list(said)}, **more)


@pytest.fixture
def few() -> list[Result]:
    return [
        student("ada", 3.0),
        student("bob", 1.0, [OFF.format(2), "g is not right yet: no."]),
        student("cyd", 0.0, [OFF.format(40)]),
        student("dan", 0.0, ["f is not done yet.", "entry 'x' is not done yet."]),
        student("eve", 0.0, open={"ch01-q02"}),
        Result("fay", {"ch01-q01": (0.0, 2.0), "ch01-q02": (0.0, 3.0)}, why="The submitted file is empty."),
        student("gus", 1.0, [OFF.format(7)], notes=["The cell ch01-q01-check was missing; it was put back."]),
    ]


def test_by_exercise(few):
    first, second = by_exercise(few, {"1.1": "A dot product", "1.2": "Between the bounds"}).split("\n\n")
    assert first.splitlines()[0] == f"{'1.1   A dot product':<65} mean 2.00 of 2"
    assert first.splitlines()[1].split("   ")[2:] == ["full 6", "part 0", "none 0", "not graded 1"]
    assert "points missing" not in first
    head, counts, failed, *said = second.splitlines()
    assert head.startswith("1.2   Between the bounds ") and head.endswith(" mean 1.00 of 3")  # of five: 5 of 15
    assert counts.split("   ")[2:] == ["full 1", "part 2", "none 1", "not begun 1", "not graded 1", "waits 1"]
    assert failed.strip() == "points missing: cyd, bob, gus"
    assert said == ["      3 x that is exactly half: a multiply-add is 2 FLOPs."]


def test_the_most_frequent_mistake_is_counted_once_a_student():
    sign = ["the sign is wrong."]
    said = [["too large by 3."] * 5, ["too large by 4.", *sign], sign, sign]
    assert mistake(said) == ("the sign is wrong.", 3)
    assert mistake([["f is not done yet."], []]) is None
    assert mistake([["too large by 3."], *[["too large by 4.5e-3."]] * 2]) == ("too large by 4.5e-3.", 3)


def test_table_of_a_small_class(few):
    lines = table(few).splitlines()
    assert lines[0].split() == ["student", "01", "02", "total"]
    assert lines[1].split() == ["points", "2", "3", "5"]
    assert lines[2].split() == ["ada", "2", "3", "5"]
    assert lines[6].split() == ["eve", "2", "?", "2"]
    assert lines[7].split() == ["fay", "0", "0", "0", "*"]
    assert "  fay: The submitted file is empty." in lines
    assert "  gus: The cell ch01-q01-check was missing; it was put back." in lines


def test_forty_have_rows_and_more_are_sent_to_the_file():
    assert len(table([student(f"s{i}") for i in range(40)]).splitlines()) == 42
    large = [student(f"s{i}", notes=["It was stopped."]) for i in range(41)] + [student("bad", why="It is empty.")]
    text = table(large, grades="course/grades.csv")
    assert text.splitlines()[0] == "42 students; their grades are in course/grades.csv."
    assert "bad: It is empty." in text  # everyone who could not be graded has a line
    assert text.count("It was stopped.") == 1 and "and 33 more: It was stopped." in text
    loud = student("loud", notes=[f"The answer ch01-q{i % 900} stood there twice." for i in range(2000)])
    assert len(table([loud]).splitlines()) < 20 and "There are 893 more notes." in table([loud])


@pytest.mark.parametrize("n", [0, 1, 11, 26, 60])
def test_eighty_columns(n):
    scores = {f"ch02-q{i:02}": (0.25, 4.0) for i in range(1, n + 1)}
    said = {e: ["a very long sentence of a check, with many words in it, that says what is wrong " * 3] for e in scores}
    names = ["x" * 60, "\u5f20\u4f1f" * 20, "o'neill \u00e9t\u00e9", "z"]
    found = [Result(s, scores, said=said, why="It is empty. " * 9, notes=["Put back. " * 12]) for s in names]
    found += [Result(f"{s}-2", scores, said=said) for s in names]
    titles = {f"2.{i}": "A long title of an exercise " * 4 for i in range(n + 1)}
    for text in (table(found), by_exercise(found, titles)):
        assert all(columns(line) <= class_summary.WIDE for line in text.splitlines()), text
    body = table(found)
    for exercise in scores:
        assert re.search(rf"\b{exercise[-2:]}\b", body)


HOSTILE = "a\x1b[2J\x1b]52;c;aGk=\x07\x1b(0\x9b31m\r\n\t\x00\x08\u202e\u2028\ud800\u200bb"


def test_nothing_acts_on_a_terminal():
    r = Result(HOSTILE, {"ch01-q01": (0.0, 1.0)}, said={"ch01-q01": [HOSTILE]})
    bad = Result(HOSTILE, {"ch01-q01": (0.0, 1.0)}, why=HOSTILE, notes=[HOSTILE])
    for results in ([r, bad], [r, bad] * 30):
        for text in (table(results), by_exercise(results, {"1.1": HOSTILE})):
            text.encode("utf-8")  # no half of a pair
            assert all(c == "\n" or unicodedata.category(c)[0] != "C" for c in text), ascii(text)
            assert "[2J" not in text and "52;c" not in text
    assert plain(HOSTILE) == "a b"
    assert plain("x" * 1000) == "x" * 297 + "..."


def test_long_and_odd_complaints_take_no_time():
    odd = "(" * 20_000, "(" * 5000 + ")" * 5000, "\x1b[" * 20_000, "\x1b]" * 5_000, ". (" * 20_000, "1" * 20_000
    for text in odd:
        assert len(mistake([[text]]) or ("", 0)) == 2 and len(plain(text)) <= 300


def test_complaints_are_those_of_the_check(capsys):
    from helpers import check

    def double(x):
        return x + 2

    a, b = check.Answer(double, points=2), check.Answer(lambda: 1, points=1)
    a.gives(6, 3)
    a.wrong(f"that adds two, right for two only; multiply by two, as the {'statement says ' * 6}"[:-1], lambda x: x + 2)
    b.gives(1)
    check.report("1.1", a, b)
    said = complaints([{"output_type": "stream", "name": "stdout", "text": capsys.readouterr().out}])
    assert len(said) == 1 and said[0].endswith("statement says. (double(3) returned 5.)")
    assert "  " not in said[0]
    a = check.Answer(lambda x: 2 * x, points=2)
    a.gives(6, 3)
    check.report("1.1", a, insight="Naq abj: jul?")
    assert complaints([{"output_type": "stream", "name": "stdout", "text": capsys.readouterr().out}]) == []


def test_who_is_absent_is_named_up_to_forty():
    said = class_summary.absent([f"u{i:02}" for i in range(52)])
    assert said.startswith("No submission: u00, u01,") and "u39 and 12 more;" in " ".join(said.split())
    assert "u40" not in said and all(len(line) <= 80 for line in said.splitlines())
    assert "\x1b" not in class_summary.absent(["a\x1b[31m"])


OPERATIONS = "+-*/"


def own_program(r: random.Random) -> str:
    """What one student may write: statements of its own in an order of its own."""
    names = r.sample(["a", "b", "c", "x", "y", "flops", "seconds", "rate", "total"], 5)
    lines = [f"    {n} = {r.choice(names)} {r.choice(OPERATIONS)} {r.randrange(2, 9)}" for n in r.choices(names, k=8)]
    return f"def answer({', '.join(names)}):\n" + "\n".join(lines) + f"\n    return {r.choice(names)}"


def a_class(r: random.Random, students: int = 30, exercises: int = 6) -> dict:
    """One short answer that all share, and long ones of their own."""
    found = {"1.1": {f"s{i:02d}": "def seconds(V, W):\n    return V / W" for i in range(students)}}
    for e in range(2, exercises):
        found[f"1.{e}"] = {f"s{i:02d}": own_program(r) for i in range(students)}
    return found


@pytest.mark.parametrize("seed", range(3))
def test_independent_answers_list_nobody_and_a_copy_is_first(seed):
    r = random.Random(seed)
    texts = a_class(r)
    assert likeness.listed(likeness.unusual(texts)) == []
    for e in ("1.2", "1.3", "1.4"):  # other names and a comment
        texts[e]["s07"] = texts[e]["s21"].replace("answer", "mine").replace("seconds", "t") + "  # my own"
    found = likeness.listed(likeness.unusual(texts))
    assert [p.students for p in found] == [("s07", "s21")]
    assert {e for _, e in found[0].exercises[:3]} == {"1.2", "1.3", "1.4"}


def test_a_copy_is_found_where_others_have_public_answers():
    r = random.Random(0)
    public = {f"1.{e}": [own_program(r) for _ in range(4)] for e in range(8)}
    texts = {e: {f"s{i:02d}": r.choice(few) for i in range(30)} for e, few in public.items()}
    assert likeness.listed(likeness.unusual(texts)) == []
    for e in texts:
        texts[e]["s07"] = own_program(r)
        texts[e]["s21"] = texts[e]["s07"].replace("answer", "mine").replace("seconds", "t")
    assert [p.students for p in likeness.listed(likeness.unusual(texts))] == [("s07", "s21")]


def test_chance_is_that_of_drawn_surprises():
    """Against 20,000 sums of three exponential draws."""
    r, pair = random.Random(0), likeness.Pair(("a", "b"), 8.0, [(0.0, e) for e in "123"])
    drawn = [sum(-math.log2(1 - r.random()) for _ in range(3)) for _ in range(20_000)]
    assert sum(bits >= 8 for bits in drawn) / len(drawn) == pytest.approx(likeness.chance(pair), rel=0.1)


def test_a_text_that_python_cannot_follow_stops_nobody():
    """All of a class are compared by whoever grades it."""
    deep = {"sum": f"x = {'1 + ' * 900}1", "minus": f"{'-' * 50_000}1", "digits": f"0x{'f' * 5000}", "no program": "\0"}
    texts = deep | {"a": "y = 2", "b": "z = 2"}
    assert likeness.unusual({"1.1": texts})[0].students == ("a", "b")


def test_what_all_share_counts_nothing_and_more_alike_counts_more():
    texts = {"1.1": dict.fromkeys("abcd", "x = 1")}
    assert likeness.unusual(texts) == []
    texts["1.2"] = {"a": "x = 1 + 2", "b": "y = 1 + 2", "c": "z = [1]", "d": "import os"}
    first = likeness.unusual(texts)[0]
    assert first.students == ("a", "b") and first.bits == pytest.approx(2.585, abs=1e-3)  # one pair of six


def test_a_page_shows_both_texts_and_runs_neither():
    texts = {"1.1": {"a": "x = '<script>'", "b": "y = 2"}}
    page = likeness.page(likeness.Pair(("a", "b"), 1.0, [(1.0, "1.1")]), texts)
    assert "&lt;script&gt;" in page and "y = 2" in page and "<script" not in page
