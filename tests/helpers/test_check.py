"""What a learner's answer is told: by value, by law, by mistake, and what is refused."""

import codecs
import math

import numpy as np
import pytest

from helpers import check
from helpers.check import solutions
from helpers.costs import hardware, roofline


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(solutions, "_tries", {})
    monkeypatch.setattr(solutions, "_passed", set())


def told(capsys, *answers, **kwargs):
    """(points, everything printed, on one line)."""
    earned = check.report("0.1", *answers, **kwargs)
    return earned, " ".join("".join(capsys.readouterr()).split())


def answer(f, expected, *args, rtol=1e-3, **kwargs):
    a = check.Answer(f, points=2, rtol=rtol)
    a.gives(expected, *args, **kwargs)
    return a


def double(x):
    return 2 * x


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("got", [6, 6.0, np.int32(6), np.float32(6), np.array(6.0), 6.002])
def test_any_kind_of_number_passes(got, capsys):
    assert told(capsys, answer(lambda: got, 6))[0] == 2


def test_jax_numbers_and_arrays_pass(capsys):
    jnp = pytest.importorskip("jax.numpy")
    assert told(capsys, answer(lambda: jnp.float32(6), 6.0))[0] == 2
    assert told(capsys, answer(lambda: (jnp.arange(3), jnp.bfloat16(2)), (np.arange(3), 2)))[0] == 2


@pytest.mark.parametrize(
    "got, expected, says",
    [
        (6.1, 6, "too large"),
        (-5.9, -6, "too large"),
        (float("nan"), 6, "not a number"),
        (math.inf, 6, "too large"),
        (6, math.inf, "too small"),
        (None, 6, "a number is asked for, this is None"),
        ("6", 6, "a number is asked for, this is a string"),
        (True, "compute", "a string is asked for, this is a truth value"),
        (1, True, "a truth value is asked for, this is a number"),
        ("memory", "compute", "that is not it"),
        ((1, 2), (1, 2, 3), "3 values are asked for, these are 2"),
        (1, (1, 2), "2 values are asked for, this is a number"),
        ((1, 3), (1, 2), "value 2 of 2: that is not it: too large"),
        ({"a": 1}, {"a": 1, "b": 2}, "the entry 'b' is missing"),
        ({"a": 1, "b": 3}, {"a": 1, "b": 2}, "in entry 'b', that is not it"),
        (3, {"a": 1}, "a dict with the entries a is asked for, this is a number"),
        (np.zeros((2, 3)), np.zeros((3, 2)), "the shape is (2, 3)"),
        (np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]), "1 of 3 numbers are off, the first at index (2,)"),
        (np.ones(1), 1.0, "the shape is (1,)"),
    ],
)
def test_wrong_values_are_described_without_giving_the_answer(got, expected, says, capsys):
    earned, out = told(capsys, answer(lambda: got, expected))
    assert earned == 0 and says in out


def test_a_tuple_may_be_a_list_or_an_array_and_a_dict_may_have_more(capsys):
    assert told(capsys, answer(lambda: [1, 2], (1, 2)))[0] == 2
    assert told(capsys, answer(lambda: np.array([1, 2]), (1, 2)))[0] == 2
    assert told(capsys, answer(lambda: {"b": 2, "a": 1}, {"a": 1}))[0] == 2
    assert told(capsys, answer(lambda: np.str_("memory"), "memory"))[0] == 2
    assert told(capsys, answer(lambda: np.bool_(True), True))[0] == 2


def test_dots_in_an_expected_value_match_anything(capsys):
    assert told(capsys, answer(lambda: (1, "whatever"), (1, ...)))[0] == 2


def test_a_plain_value_is_an_answer_too(capsys):
    assert told(capsys, answer(42, 42))[0] == 2
    assert "your answer is 41" in told(capsys, answer(41, 42))[1]


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_not_done_is_not_wrong(capsys):
    def stub(x):
        raise NotImplementedError

    for undone in (stub, lambda x: ..., ...):
        assert "is not done yet" in told(capsys, answer(undone, 1, 1))[1]


def test_an_exception_is_one_line(capsys):
    def broken(x):
        raise KeyError("first line\nsecond line")

    earned, out = told(capsys, answer(broken, 1, 1))
    assert earned == 0 and "broken raised KeyError" in out and "Traceback" not in out


@pytest.mark.parametrize(
    "factor, says",
    [
        (2, "exactly 2 times too much"),
        (0.5, "exactly half"),
        (8, "bits where bytes"),
        (1 / 8, "bytes where bits"),
        (1e3, "which prefix"),
        (1e-3, "which unit of time"),
        (1e6, "microseconds"),
        (1e9, "1e9 times too much"),
        (1e-9, "plain bytes and seconds"),
        (2**30 / 1e9, "GiB for GB"),
        (1e9 / 2**30, "GB for GiB"),
        (-1, "the sign is wrong"),
    ],
)
def test_generic_slips_are_named_though_the_expected_value_is_rounded(factor, says, capsys):
    assert says in told(capsys, answer(lambda: 123.456 * factor, 123.5))[1]


def test_named_mistakes_come_before_generic_ones_and_end_like_sentences(capsys):
    a = answer(lambda x: x, 6, 3)
    a.wrong("that is x itself. Did you double it?", lambda x: x)
    assert "points that is x itself. Did you double it? (<lambda>(3)" in told(capsys, a)[1]


def test_a_partly_stated_mistake_is_named_only_if_that_part_is_wrong(capsys):
    """What it states must differ from the right value, whatever else is wrong with the answer."""
    for got, says in (({"a": 1, "b": 9}, "b is off"), ({"a": 9, "b": 2}, "a is off")):
        a = answer(lambda got=got: got, {"a": 1, "b": 2})
        a.wrong("never", lambda: {"a": 1})
        a.wrong("never", lambda: (..., 2))
        a.wrong("a is off", lambda: {"a": 9})
        a.wrong("b is off", lambda: {"b": 9})
        out = told(capsys, a)[1]
        assert says in out and "never" not in out


def test_a_mistake_that_fails_is_passed_over(capsys):
    a = answer(lambda x: 5, 6, 3)
    a.wrong("never", lambda x: 1 / 0)
    a.wrong("five", lambda x: 5)
    assert "five" in told(capsys, a)[1]


def test_laws_and_refusals(capsys):
    a = check.Answer(double, points=2)
    a.law("it grows", lambda f: f(2) > f(1))
    a.law("it shrinks", lambda f: f(2) < f(1))
    earned, out = told(capsys, a)
    assert earned == 0 and "double breaks a rule: it shrinks." in out and "it grows" not in out

    def picky(x):
        if x < 0:
            raise ValueError("x is a size, so not negative")
        return x

    for f, points in ((picky, 2), (double, 0)):
        a = check.Answer(f, points=2)
        a.refuses(-1)
        assert told(capsys, a)[0] == points


def test_equals_draws_the_same_for_one_seed_and_others_for_another(monkeypatch):
    draws = dict(n=check.ints(1, 10**6, multiple=8), x=check.floats(1, 2), kind=check.choice("a", "b"))
    first = list(check.inputs(5, "f", draws))
    assert first == list(check.inputs(5, "f", draws)) != list(check.inputs(5, "g", draws))
    assert all(c["n"] % 8 == 0 and 1 <= c["x"] <= 2 and c["kind"] in "ab" for c in first)
    monkeypatch.setenv("COURSE_SEED", "another")
    assert first != list(check.inputs(5, "f", draws))


def test_equals_finds_a_rare_difference(capsys):
    a = check.Answer(lambda n: n if n < 500 else n + 1, points=2, rtol=1e-9)
    a.equals(lambda n: n, n=check.ints(1, 10**4))
    assert told(capsys, a)[0] == 0
    with pytest.raises(ValueError, match="range of positive numbers"):
        check.ints(0, 4)
    with pytest.raises(ValueError, match="range of positive numbers"):
        check.floats(2, 1)


# -- points -----------------------------------------------------------------------------------------------------------


def test_partial_credit_is_by_answer(capsys):
    good, bad = answer(double, 6, 3), answer(double, 7, 3)
    earned, out = told(capsys, good, bad)
    assert earned == 2 and "2 of 4 points" in out and isinstance(earned, int)


def test_entries_share_the_points_in_quarters(capsys):
    e = check.Entries({"a": 1, "b": 4, "c": ...}, points=4, a=1, b=2, c=3, wrong={"b": {"twice too much": 4}})
    earned, out = told(capsys, e)
    assert earned == 1.25 and "entry 'b': twice too much." in out and "entry 'c' is not done yet" in out
    assert told(capsys, check.Entries({"a": 1}, points=4, a=1))[0] == 4


def test_entries_from_a_function(capsys):
    def guess():
        return {"a": 1}

    def stub():
        raise NotImplementedError

    def cheat():
        return {"a": roofline.critical_batch_limit(1, 1)}

    assert told(capsys, check.Entries(guess, points=1, a=1))[0] == 1
    assert "stub is not done yet" in told(capsys, check.Entries(stub, points=1, a=1))[1]
    assert "off limits" in told(capsys, check.Entries(cheat, points=1, a=1))[1]
    assert "the answer is a dict with the entries a, not a int" in told(capsys, check.Entries(3, points=1, a=1))[1]


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


# -- off limits -------------------------------------------------------------------------------------------------------


def refused(f, *args):
    a = check.Answer(f, points=1)
    a.gives(..., *args)
    points, messages = a.evaluate()
    return points == 0 and any("is off limits inside an answer: write it out" in m for m in messages)


def test_formulas_are_closed_under_every_name():
    from helpers.costs.roofline import critical_batch as mine

    def imported_inside(*args):
        from helpers.costs.topology import diameter

        return diameter(*args)

    assert refused(roofline.critical_batch, 512, 512, 1e14, 1e12)
    assert refused(lambda: mine(512, 512, 1e14, 1e12))
    assert refused(lambda: roofline.matmul(1, 2, 3).flops)
    assert refused(imported_inside, hardware.Slice(hardware.chip("v5e"), (4, 4)))


def test_methods_and_properties_are_closed():
    from helpers.costs.topology import SM

    assert refused(lambda: SM().resident_blocks(1024))
    assert refused(lambda: roofline.Work(1, 2).intensity)


def test_simulators_and_counters_are_closed():
    trace = pytest.importorskip("helpers.trace")
    from helpers.kernels.systolic import cycles, frames

    assert refused(lambda: cycles([1], 2, 3))
    assert refused(lambda: len(list(frames((np.ones((2, 2)), np.ones((2, 2)))))))  # a generator
    assert refused(lambda: trace.count(lambda x: x, 1.0))


def test_a_jitted_formula_is_closed():
    jax = pytest.importorskip("jax")
    assert refused(lambda: jax.jit(roofline.critical_batch_limit)(1e14, 1e12))


def test_data_and_arithmetic_stay_open_and_everything_opens_again(capsys):
    from helpers.costs.numeric import maximum

    assert told(capsys, answer(lambda: maximum(1.0, hardware.chip("v5e").alpha_hbm()), 243.2))[0] == 2
    assert told(capsys, answer(lambda: hardware.Slice(hardware.chip("v5e"), (16, 16)).hosts, 32))[0] == 2
    assert refused(lambda: roofline.critical_batch_limit(1e14, 1e12))
    assert roofline.critical_batch_limit(1e14, 1e12) == 100  # and again afterwards


def test_formulas_open_again_after_an_exception_and_for_references(capsys):
    def broken(C, W):
        raise RuntimeError

    a = check.Answer(broken, points=1)
    a.gives(1, 1.0, 1.0)
    assert "RuntimeError" in told(capsys, a)[1]
    a = check.Answer(lambda C, W: C / W, points=1)
    a.equals(roofline.critical_batch_limit, C=check.floats(1, 9), W=check.floats(1, 9))
    assert told(capsys, a)[0] == 1


def test_a_permission_error_of_ones_own_is_not_ours(capsys):
    def locked():
        raise PermissionError("no entry")

    assert "locked raised PermissionError: no entry" in told(capsys, answer(locked, 1))[1]


def test_only_an_answer_without_points_writes_to_stderr(capsys):
    check.report("0.1", check.Entries({"a": 1, "b": 3}, points=2, a=1, b=2))
    assert capsys.readouterr().err == ""
    check.report("0.1", check.Entries({"a": 2, "b": 3}, points=2, a=1, b=2))
    assert "0 of 2 points" in capsys.readouterr().err


def test_hidden_draws_do_not_ask_for_parameter_names(capsys):
    for f in (lambda a, b: a / b, lambda *both: both[0] / both[1]):
        a = answer(f, 2, 4, 2)
        a.equals(lambda D, W: D / W, D=check.ints(1, 9), W=check.floats(1, 2))
        assert told(capsys, a)[0] == a.points


def test_a_rule_that_cannot_be_asked_does_not_blame_the_answer_for_raising(capsys):
    a = check.Answer(lambda x: None, points=2)
    a.law("a batch is positive", lambda f: f(3) > 0)
    said = told(capsys, a)[1]
    assert "a batch is positive." in said and "raised" not in said
    a = check.Answer(lambda x: x / 0, points=2)
    a.law("a batch is positive", lambda f: f(3) > 0)
    assert "raised ZeroDivisionError" in told(capsys, a)[1]


def test_short_arrays_are_shown_and_fractions_are_numbers(capsys):
    from fractions import Fraction

    assert "[1., 2., 4.]" in told(capsys, answer(lambda: np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])))[1]
    assert told(capsys, answer(lambda: Fraction(1, 2), 0.5))[0]
    assert "(3,)" in told(capsys, answer(lambda x: x, 1, (3,)))[1]


def test_an_empty_stub_is_no_try(capsys):
    def stub():
        raise NotImplementedError

    for _ in range(3):
        told(capsys, answer(stub, 1))
    check.solution("0.1")
    assert "no solutions" in capsys.readouterr().out
    assert solutions._tries == {}


@pytest.mark.parametrize("name", [1.10, "1", "x.y"])
def test_solutions_are_asked_for_by_name(name):
    with pytest.raises(ValueError, match='a string such as "1.10"'):
        check.solution(name)


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


def test_an_answer_that_changes_its_input_changes_its_own(capsys):
    shared = {"n": 3}
    a = check.Answer(lambda d: d.pop("n"), points=1)
    a.gives(3, shared)
    a.gives(3, shared)
    assert told(capsys, a)[0] == 1 and shared == {"n": 3}


def test_a_check_before_its_answer_says_what_to_do(capsys):
    assert check.run(lambda: check.report("0.1", check.Answer(not_there_yet, points=1))) == 0  # noqa: F821
    assert "Run the cell above first: name 'not_there_yet' is not defined." in capsys.readouterr().err
    assert check.run(lambda: 3) == 3


def test_a_pass_of_one_part_does_not_open_the_other(capsys):
    for name, wait in (("one", True), ("two", False)):
        a = check.Answer(lambda x: x, points=1)
        a.name = name
        a.gives(1, 1)
        assert check.report("1.16", a) == 1
        capsys.readouterr()
        check.solution("1.16")
        assert ("opens after a pass of every part" in capsys.readouterr().out) == wait


def test_private_formulas_are_closed_too(capsys):
    from helpers.costs.collectives import _steps
    from helpers.costs.sharding import Axis

    a = check.Answer(lambda n: _steps(Axis(n), 2), points=1)
    a.gives(2, 4)
    earned, said = told(capsys, a)
    assert earned == 0 and "off limits inside an answer" in said
