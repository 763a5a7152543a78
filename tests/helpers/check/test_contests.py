"""Design contests: ours is the best of all designs, every other has a place among them, and what is none has a sentence."""

import pytest

from autograder.making import in_process_grading
from helpers import check
from helpers.check.contests import CONTESTS, MICROBATCHES, STAGES, layouts

ANSWERS = {"2.26": ("ch02_sharding", "design"), "4.18": ("ch04_training", "golf"), "7.15": ("ch07_racks", "lay_out")}


@pytest.mark.slow
@pytest.mark.parametrize("number", CONTESTS)
@pytest.mark.sample(quick=1)
def test_ours_is_the_best_of_all(number, capsys):
    topic, name = ANSWERS[number]
    ours, (problem, _, every, *_) = in_process_grading.names(topic)[name], CONTESTS[number]
    check.contest(number, ours)
    said, bars, mark = capsys.readouterr().out.splitlines()
    assert "and none is faster" in said and f"of all {len(every()):,} " in said and bars[mark.index("▲")] != " "
    assert every() == sorted(every()) and len(every()) > 10
    if number == "7.15":
        assert layouts()[ours(*problem)["tp"], ours(*problem)["how"]] == pytest.approx(1 / ours(*problem)["share"])


def one_at_a_time(p, m):
    return [[(kind, i) for i in range(m) for kind in "FBW"]] * p


def test_any_other_has_a_place_among_them(capsys):
    every = CONTESTS["4.18"].every()
    assert every[0] == 3 * MICROBATCHES + STAGES - 1 and every[-1] > 20
    check.contest("4.18", one_at_a_time)
    said, bars, mark = capsys.readouterr().out.splitlines()
    share = 100 * sum(x > 20 for x in every) // len(every)
    assert said == f"20 slots: faster than {share} % of all {len(every):,} schedules that fit, 53.8 % above the best."
    assert len(mark) < len(bars)
    check.contest("7.15", lambda *_: {"tp": 64, "how": "fsdp"})
    assert "faster than 0 % of all 14 layouts" in capsys.readouterr().out


def not_done(*_):
    raise NotImplementedError


@pytest.mark.parametrize("number", CONTESTS)
def test_what_is_no_design_has_a_sentence(number, capsys):
    for design in (None, {"tp": 3}, [[1]], {"In": "X", "W_in": "", "W_out": 3}):
        check.contest(number, lambda *_, design=design: design)
        assert capsys.readouterr().out == "What <lambda> returns is no design that fits: the check above says why.\n"
    check.contest(number, not_done)
    assert capsys.readouterr().out == "not_done is not done yet.\n"
    check.contest("4.18", lambda p, m: [order[::-1] for order in one_at_a_time(p, m)])  # waits for ever
    assert "no design" in capsys.readouterr().out
