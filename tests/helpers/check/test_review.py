"""Review: cards from the chapters and exercises with other numbers each time, when they come, and two weeks of it."""

import random
import re
import shutil
from collections import Counter

import pytest
import yaml

from autograder.own_work import commands
from autograder.own_work.copies import Work
from autograder.places import Tree
from helpers.check import record, review
from helpers.check.questions import number
from helpers.check.record import Entry, Record
from tests.helpers.check.told import by_scripts
from tests.scratch import ROOT
from tests.tiers import repeats

CARDS = review.deck(ROOT / "notebooks")
QUESTIONS = [card for card in CARDS if "call" not in card]
EXERCISES = [card for card in CARDS if "call" in card]


def test_there_are_enough_cards_each_with_numbers_that_differ():
    assert len(QUESTIONS) >= 80 and len(EXERCISES) >= 40
    assert len({card["name"] for card in CARDS}) == len(CARDS)
    rules = yaml.safe_load((ROOT / "book/data/review.yaml").read_text(encoding="utf-8"))
    assert {card["name"] for card in QUESTIONS} == {*rules}  # each is asked in some chapter
    for card in CARDS:
        assert len(card["fills"]) == len({tuple(fill) for fill in card["fills"]})


def test_every_chapter_has_both_kinds_and_numbers_change_which_bound_wins():
    for kind in (QUESTIONS, EXERCISES):
        assert {card["where"].partition(" ")[0] for card in kind} == {*"12345678"}
    assert sum(len({*card.get("right", ())}) > 1 for card in CARDS if "unit" not in card) >= 11


def settings(card):
    """A card with each of its settings."""
    return [review.shown(card, asked) for asked in range(len(card["fills"]))]


@pytest.mark.parametrize("card", QUESTIONS, ids=lambda card: card["name"])
def test_the_right_answer_is_right_and_each_mistake_is_told(card):
    for one in settings(card):
        assert not re.search(r"[{}$\\\x01]|None", one.text.replace("{X: 4, Y: 2}", "").replace("{U_Z}", "")), one.text
        for i, (value, told) in enumerate(one.replies):
            answer = value if one.kind == "number" else chr(ord("a") + i)
            assert review.judged(one, answer) == (i == one.right, told)
        if one.kind == "number":
            assert review.judged(one, f"{number(one.replies[one.right][0]) * 1.3} ")[0] is False
        assert review.judged(one, "no idea") is None or one.kind == "choice"


@pytest.mark.parametrize("card", EXERCISES, ids=lambda card: card["name"])
@pytest.mark.sample(quick=1, slow=11)
def test_an_exercise_takes_what_our_answer_gives(card):
    from autograder.making import in_process_grading
    from autograder.making.shown_cases import labels
    from autograder.making.tried_numbers import entries
    from tests.autograder.making.test_shown_cases import value

    topic = next(p.stem for p in Tree().exercises if int(p.stem[2:4]) == int(card["name"].split(".")[0]))
    names = in_process_grading.names(topic)
    for one in settings(card):
        arguments = [value(text, names) for text in card["fills"][one.index]]
        result = entries(names[card["call"]](*arguments))
        label = dict(zip(labels(list(result), names[card["call"]].__doc__ or ""), result.values()))
        right = label.get(card["asks"], [*result.values()][0])
        assert review.judged(one, f"{right:.5e}") == (True, "")
        assert review.judged(one, f"{right * 1.02:.5e}")[0] is False  # three digits tell at least these apart


@pytest.mark.parametrize("away", [(), range(303, 306)])
def test_two_weeks_of_review(away):
    """Somebody reads three sections and passes an exercise a day, asks twice unless away, and knows four of five answers."""
    draw, record_, history = random.Random(52), Record(), {}
    sections = list(dict.fromkeys(card["name"].rpartition(".")[0] for card in QUESTIONS))
    for day in range(300, 314):
        record_.sections |= {label: Entry(day) for label in sections[3 * (day - 300) :][:3]}
        record_.passed[EXERCISES[day - 300]["name"]] = Entry(day)
        asked = []
        for _ in range(2 * (day not in away)):
            for card in review.waiting(CARDS, record_, day):
                right = draw.random() < 0.8
                asked.append(card)
                index = review.shown(card, review.times(record_, card["name"])).index
                history.setdefault(card["name"], []).append((day, right, index))
                review.answered(record_, card["name"], right, day)
        assert sum(100 if "call" in card else 25 for card in asked) <= 300  # five minutes, however often one asks
        record_ = record.of_line(record.as_line(record_))  # carried to the phone and back each night
    assert len(history) > 30 - len(away)
    reached = set()
    for name, answers in history.items():
        begun = record_.passed.get(name) or record_.sections[name.rpartition(".")[0]]
        assert answers[0][0] > begun.day  # the day after it was read, or later
        row = 0
        assert len({index for *_, index in answers[:4]}) == min(4, len(answers))  # with other numbers each time
        for (day, right, _), (then, *_) in zip(answers, answers[1:]):
            row = row + 1 if right else 0
            assert then - day >= (1, 3, 7, 21)[row], name
            reached.add(row)
    assert away or reached == {0, 1, 2}  # 1, then 3, then 7 days fit into two weeks
    waits = [day for card in CARDS if (day := review.due(card, record_)) is not None]
    assert away or sum(day <= 314 for day in waits) <= 36  # no heap of work, beside five minutes a day


def test_what_is_known_moves_back_and_what_is_not_comes_tomorrow():
    card, own = {"name": "sec-a.1"}, Record(questions={"sec-a.1": Entry(100, 0)})
    days = [review.due(card, own)]
    for right in (True, True, True, False, True, True, True, True):
        review.answered(own, "sec-a.1", right, days[-1])
        days.append(review.due(card, own))
    assert days == [101, 104, 111, 132, 133, 136, 143, 164, None]


def test_the_page_decides_alike(tmp_path):
    draw, cases = random.Random(3), []
    for _ in range(repeats(10, 100)):
        day, own = draw.randrange(300, 400), Record()
        for card in draw.sample(CARDS, 60):
            name = card["name"]
            if draw.random() < 0.5:
                own.reviews[name] = Entry(draw.randrange(270, day + 1), draw.randrange(5), draw.randrange(9))
            (own.passed if "call" in card else own.questions)[name] = Entry(draw.randrange(270, day + 1))
        cases.append((day, own))
    program = """
        const { cases, cards } = JSON.parse(require("fs").readFileSync(0));
        console.log(JSON.stringify(cases.map(([today, line]) => { const record = courseRecord.parse(line);
          return [courseReview.waiting(cards, record, today).map(card => [card.name, courseReview.step(record, card.name, true)]),
                  cards.map(card => { const s = courseReview.shown(card, courseReview.times(record, card.name));
                                      return [s.call ?? s.text, s.replies, s.right ?? 0, s.salt ?? ""]; })];
        })));"""
    given = {"cases": [(day, record.as_line(own)) for day, own in cases], "cards": CARDS}
    there = by_scripts(tmp_path, ("record", "review"), program, given)
    for (day, own), (names, cards) in zip(cases, there, strict=True):
        waits = review.waiting(CARDS, own, day)
        seen = [review.shown(card, review.times(own, card["name"])) for card in CARDS]
        for card in waits:
            review.answered(own, card["name"], True, day)
        assert names == [[card["name"], own.reviews[card["name"]].state] for card in waits]
        for card, one, (text, replies, right, salt) in zip(CARDS, seen, cards, strict=True):
            assert one.text.endswith(text) and [list(r) for r in one.replies] == replies and one.right == right
            assert "hashes" not in card or card["hashes"][one.index][1] == salt


def test_the_command_asks_judges_and_keeps(tmp_path, capsys):
    root = tmp_path / "Meine Kurse ü"
    (root / "notebooks").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks/review.json", root / "notebooks")
    work = Work(Tree(root))
    commands.review_today(work, today=300)
    assert work.said == ["Nothing waits for review: what you read and pass comes the next day."]
    path = root / "work/progress.json"
    record.change(path, lambda r: r.sections.update({"sec-matmul": Entry(299), "sec-quantised": Entry(299)}))
    shown = {card["name"]: review.shown(card, 0) for card in CARDS}
    right = shown["sec-matmul.2"].replies[shown["sec-matmul.2"].right][0]
    answers = iter(["x", chr(ord("a") + shown["sec-matmul.1"].right), "many", right, ""])
    work.said.clear()
    commands.review_today(work, lambda wants: next(answers), today=300)
    assert record.read(path).reviews == {
        "sec-matmul.1": Entry(300, 1, 1), "sec-matmul.2": Entry(300, 1, 1), "sec-quantised.1": Entry(300, 0, 1)
    }  # fmt: skip
    out = capsys.readouterr().out
    assert "Write one of the letters." in out and "That is no answer" in out and "It is " in out
    assert work.said == ["2 of 3 known. Next review: 2026-10-29, 1 of them."]

    def stops(wants):
        raise KeyboardInterrupt

    commands.review_today(work, stops, today=301)
    assert work.said[-1].startswith("0 of 0 known; 1 are left for today.")
    assert Counter(entry.state for entry in record.read(path).reviews.values()) == {1: 2, 0: 1}
