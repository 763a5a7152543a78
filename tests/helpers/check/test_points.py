"""Points, insights and solutions: how they are shared out, and when they open."""

import codecs

import numpy as np
import pytest

from helpers import check
from helpers.check import solutions
from tests.helpers.check.told import answer, double, told


def test_parts_of_unequal_points_come_in_quarters(capsys):
    parts = answer(double, 6, 3), answer(double, 7, 3)
    for a, points in zip(parts, (1.3, 2.7)):
        a.points = points
    assert told(capsys, *parts)[0] == 1.25
    assert told(capsys, parts[0])[0] == 1.3


def test_parts_are_asked_nearly_alike_in_a_class_and_a_whole_answer_is_not(capsys, monkeypatch):
    def asked(course: str, secret: str, parts: int) -> list:
        monkeypatch.setenv("COURSE_SEED", course)
        monkeypatch.setenv("COURSE_VALUES", secret)
        seen = []
        answers = [check.Answer(lambda x: seen.append(x) or x, points=1) for _ in range(parts)]
        for a in answers:
            a.equals(lambda x: x, x=check.floats(1, 1000))
        assert told(capsys, *answers)[0] == parts and len(set(seen)) == len(seen)
        return [x for a in range(parts) for x in seen[a * len(seen) // parts :][:6]]  # its own, before the edges

    one, another = asked("0", "class-one", 2), asked("0", "class-another", 2)
    assert one == asked("1", "class-one", 2) and not set(one) & set(another)
    assert all(0.9 < x / y < 1.1 for x, y in zip(one, another))
    assert one[0] / asked("0", "other class-one", 2)[0] != pytest.approx(1, abs=0.1)
    assert asked("0", "class-one", 1)[0] / asked("0", "class-another", 1)[0] != pytest.approx(1, abs=0.1)


def test_moved_cases_stay_on_their_side_of_each_edge_and_small_numbers_stay(capsys, monkeypatch):
    """An edge at each of the class's values that a result or a named mistake tells."""
    from helpers.check.random_inputs import inputs

    draws = dict(x=check.floats(1, 1000), n=check.ints(1, 9), big=check.ints(10**6, 10**9))
    monkeypatch.setenv("COURSE_VALUES", "class-one")
    edges = [d["x"] for d in inputs(40, "e", draws, parts=True)]
    side = lambda x, n, big: tuple(x > e for e in edges)  # noqa: E731
    found = []
    for own in range(20):
        monkeypatch.setenv("COURSE_VALUES", f"class-{own}")
        drawn = list(inputs(40, "e", draws, parts=True, is_alike=side))
        found.append([(side(**d), d["n"]) for d in drawn])
        assert len({d["big"] for d in drawn}) == 40
    assert all(f == found[0] for f in found)


def test_a_reference_may_read_what_the_draws_of_its_case_have_left(capsys):
    left = {}
    a = check.Answer(lambda x: 2 * x, points=1)
    a.equals(lambda x: 2 * left["x"], x=lambda r: left.update(x=r.random()) or left["x"])
    assert told(capsys, a)[0] == 1


def test_insight_is_printed_on_a_pass_only(capsys):
    secret = codecs.encode("Think of the memory.", "rot13")
    assert "Think of the memory." in told(capsys, answer(double, 6, 3), insight=secret)[1]
    assert "memory" not in told(capsys, answer(double, 7, 3), insight=secret)[1]


def test_solution_and_pictures_open_after_a_pass_or_three_tries(capsys):
    assert not check.passed("1.1")
    check.solution("1.1")
    assert "opens after a pass or 3 more tries" in "".join(capsys.readouterr())
    for left in (2, 1):
        check.report("1.1", answer(double, 7, 3))
        check.solution("1.1")
        assert f"{left} more tr" in "".join(capsys.readouterr())
    check.report("1.1", answer(double, 7, 3))
    assert "After three tries you may look: check.solution('1.1')" in "".join(capsys.readouterr())
    check.solution("1.1")
    assert "return flops / moved" in "".join(capsys.readouterr())
    assert not check.passed("1.1")
    check.report("1.1", answer(double, 6, 3))
    assert check.passed("1.1")


def test_only_an_answer_without_points_writes_to_stderr(capsys):
    check.report("0.1", answer(double, 6, 3), answer(double, 7, 3))
    assert capsys.readouterr().err == ""
    check.report("0.1", answer(double, 5, 3), answer(double, 7, 3))
    assert "0 of 4 points" in capsys.readouterr().err


def test_an_empty_stub_is_no_try(capsys):
    def stub():
        raise NotImplementedError

    for _ in range(3):
        told(capsys, answer(stub, 1))
    check.solution("0.1")
    assert "There is no exercise 0.1" in capsys.readouterr().out
    assert solutions._tries == {}


@pytest.mark.parametrize("name", [1.10, "1", "x.y"])
def test_solutions_are_asked_for_by_name(name, capsys):
    check.solution(name)
    assert 'a text, as in check.solution("1.10")' in capsys.readouterr().out


def test_a_copy_without_solutions_says_so_and_no_more(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(solutions, "__file__", str(tmp_path / "helpers" / "check" / "solutions.py"))
    check.solution("1.1")
    assert capsys.readouterr().out == "This copy of the course carries no solutions.\n"


def test_solutions_show_all_parts_and_texts(capsys, monkeypatch):
    monkeypatch.setattr(solutions, "_passed", {("1.16", "a"), ("1.16", "b")})
    check.solution("1.16")
    code = capsys.readouterr().out
    assert code.count("def ") >= 2 and "check.report" not in code and "### " not in code
    check.solution("1.23")
    text = capsys.readouterr().out
    assert "memory-bound" in text and "{{" not in text
    check.solution("1.99")
    assert "no exercise 1.99" in capsys.readouterr().out


def test_a_pass_of_one_part_does_not_open_the_other(capsys):
    for name, wait in (("one", True), ("two", False)):
        a = check.Answer(lambda x: x, points=1)
        a.name = name
        a.gives(1, 1)
        assert check.report("1.16", a) == 1
        capsys.readouterr()
        check.solution("1.16")
        assert ("opens after a pass of every part" in capsys.readouterr().out) == wait


def test_hidden_statements_show_no_numbers_to_a_class(capsys, monkeypatch):
    def stated(unseen):
        def odd(x):
            return 2 * x + 271 if x == 828 else 2 * x

        def checked():
            a = check.Answer(odd, points=2)
            if unseen:
                check.hidden()
            a.gives(1656, 828)
            return check.report("0.1", a)

        check.run(checked)
        return "".join(capsys.readouterr())

    def raising(x):
        raise ValueError(f"I was given {x}")

    def raised():
        a = check.Answer(raising, points=2)
        check.hidden()
        a.gives(1656, 828)
        a.refuses(828)
        return check.report("0.1", a)

    assert "828" in stated(unseen=True)
    monkeypatch.setenv("COURSE_VALUES", "a student's")
    assert "828" in stated(unseen=False)
    assert "828" not in (out := stated(unseen=True)) and "1927" not in out and "0 of 2" in out
    check.run(raised)
    out = "".join(capsys.readouterr())
    assert "raising raised ValueError for numbers that it has not seen" in out and "828" not in out


FORMS = {
    "shape": lambda k: np.zeros((k, 2)), "empty shape": lambda k: np.zeros((0, 10**9 + k)), "length": lambda k: [0] * k,
    "tuple": lambda k: (0,) * k, "text": lambda k: "x" * k, "bytes": bytes, "names": lambda k: {f"k{k}": k}, "keys": lambda k: {k: k},
    "dtype": lambda k: np.zeros(2, [(f"k{k}", float)]), "number": lambda k: 1e6 + k,
    "imaginary": lambda k: complex(1e6, k), "words": lambda k: np.array([f"k{k}"]), "none": lambda k: [None] * k,
    "deep": lambda k: {"a": np.zeros((k, k)), "b": [k] * k}, "numbers": lambda k: [1e6 + k] * 3, "array": lambda k: np.full(3, 1e6 + k),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", [3.5, [1.5, 2.5, 4.5], np.arange(3.0), {"a": 1.5, "b": [2.5]}, "memory", None])
def test_what_an_answer_gives_tells_a_class_no_number_of_its_own(form, wanted, capsys, monkeypatch):
    """It may be what another check has asked it: of two that differ in it the same is said."""
    monkeypatch.setenv("COURSE_VALUES", "a student's")
    assert len({told(capsys, answer(lambda x, k=k: FORMS[form](k), wanted, 2))[1] for k in (7, 1234)}) == 1


def test_what_is_hidden_ends_with_its_cell(capsys, monkeypatch):
    monkeypatch.setenv("COURSE_VALUES", "a student's")
    check.run(lambda: check.hidden() or 1)
    a = check.Answer(lambda x: x + 1, points=1)
    a.gives(828, 828)
    check.report("0.1", a)
    assert "(828)" in capsys.readouterr().err
