"""What the site shows of a check: cases that are visible anyway, and hashes that our answers match and wrong ones do not."""

import ast
import json
import math
import random
import re
from functools import cache

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.making import bank, in_process_grading, shown_cases, tried_numbers
from autograder.making.exercises import meta
from autograder.places import Tree
from tests.tiers import some

TOPICS = [path.stem for path in Tree().exercises]
ENOUGH = dict(ch01_rooflines=16, ch02_sharding=8, ch03_transformers=10, ch04_training=8, ch05_inference=15, ch06_attention=6,
              ch07_racks=6, ch08_experts=4)  # fmt: skip


@cache
def shown(topic: str) -> dict[str, dict]:
    """What the released check cells carry, by grade_id."""
    cells = json.loads(Tree().released(topic).read_text(encoding="utf-8"))["cells"]
    return {
        c["metadata"]["nbgrader"]["grade_id"]: c["metadata"]["course"]
        for c in cells
        if "answer" in c["metadata"].get("course", {})
    }


@cache
def scope(topic: str) -> dict:
    return in_process_grading.names(topic)


def value(text: str, names: dict):
    """What a printed value is."""
    if text in names:
        return names[text]
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        return int(text.replace(",", ""))
    return math.inf if text == "∞" else ast.literal_eval(text)


def tried(topic: str):
    """(grade_id, number of the draw, what the cell carries, the arguments) of everything that can be tried in a chapter."""
    for grade_id, found in shown(topic).items():
        for i, one in enumerate(found["numbers"]):
            yield grade_id, i, found, one, [value(text, scope(topic)) for text in one["given"]]


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.sample(quick=1)
def test_what_is_printed_leads_to_what_is_hashed(topic):
    """Printed inputs, our answer's numbers for them, three digits: nothing but the salt and the rounds comes from the module."""
    asked = 0
    for grade_id, i, found, one, args in tried(topic):
        result = tried_numbers.entries(scope(topic)[found["answer"]](*args))
        for name, stored in one["hashes"].items():
            assert tried_numbers.hashed(float(f"{result[name]:.2e}"), f"{grade_id} {i} {name}") == stored, grade_id
            asked += 1
    assert len({g for g, *_ in tried(topic)}) >= ENOUGH[topic] and asked > 2 * ENOUGH[topic]


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.sample(quick=1)
def test_no_answer_stands_beside_its_hash(topic):
    for grade_id, _, found, one, args in tried(topic):
        result = tried_numbers.entries(scope(topic)[found["answer"]](*args))
        beside = {t for n in found["numbers"] for t in n["given"]} | {
            t for c in found["cases"] for t in c["gives"].values()
        }
        for name in one["hashes"]:
            assert not {shown_cases.text(result[name], {}), str(result[name])} & beside, (grade_id, name)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.sample(quick=1)
def test_wrong_answers_do_not_match(topic):
    """Each wrong sample whose number differs by more than the page forgives, by the hashes alone; a fair part of them does."""
    source = {meta(c).get("grade_id"): c.source for c in in_process_grading.solved(topic).cells}
    can, told = 0, 0
    wrong = [m for m in bank.mutants(topic) if f"{m.grade_id}-check" in shown(topic)]
    for mutant in some(wrong, 24):
        names = dict(scope(topic))
        exec(mutant.apply(source[mutant.grade_id]), names)
        differs = False
        for grade_id, i, found, one, args in tried(topic):
            if not grade_id.startswith(mutant.grade_id):
                continue
            try:
                result = tried_numbers.entries(names[found["answer"]](*args))
            except Exception:
                differs = True
                continue
            right = tried_numbers.entries(scope(topic)[found["answer"]](*args))
            for name, stored in one["hashes"].items():
                got = result.get(name)
                if isinstance(got, (int, float)) and abs(got / right[name] - 1) > 0.02:
                    differs = True
                    assert tried_numbers.hashed(got, f"{grade_id} {i} {name}") != stored, mutant
        can, told = can + 1, told + differs
    assert can and told >= can / 4


def test_the_inputs_to_try_are_no_cases_and_no_draws_of_the_tests(monkeypatch):
    """Neither those of the visible part, nor hidden fixed ones; and another COURSE_SEED draws the same."""
    nb = in_process_grading.solved("ch01_rooflines")
    checks = {meta(c)["grade_id"]: c.source for c in nb.cells if meta(c).get("grade") and c.cell_type == "code"}
    names = shown_cases.defined(nb.cells)
    for grade_id, _, _, _, args in tried("ch01_rooflines"):
        for one in shown_cases.recorded(checks[grade_id], names, "any"):
            seen = [said.args[1:] for said in one.of_kind("gives") if not said.unseen]
            assert tuple(args) not in seen, grade_id
    before = shown("ch01_rooflines")["ch01-q04-check"]["numbers"]
    monkeypatch.setenv("COURSE_SEED", "spring")
    again = shown_cases.of_check(checks["ch01-q04-check"], "ch01-q04-check", names)
    assert again["numbers"] == before


CHECK = """\
@check.in_full
def ch09_q01_check():
    a = check.Answer(f, points=1)
    a.gives({shown}, 4)
    ### BEGIN HIDDEN TESTS
    check.hidden()
    a.gives({shown}, 99)
    a.equals(f, x=check.ints(100, 9000))
    return check.report("9.1", a)

check.exercise("9.1")
"""


def made(answer: str, shown: str) -> dict | None:
    solution = dict(schema_version=3, grade_id="ch09-q01", solution=True, grade=False, locked=False, task=False)
    check = {**solution, "grade_id": "ch09-q01-check", "solution": False, "grade": True, "points": 1}
    nb = new_notebook(cells=[
        new_code_cell(answer, metadata={"nbgrader": solution}),
        new_code_cell(CHECK.format(shown=shown), metadata={"nbgrader": check}),
    ])  # fmt: skip
    shown_cases.add(nb)
    return nb.cells[1].metadata.get("course")


def test_a_number_can_be_tried_and_a_hidden_case_is_not_shown():
    found = made("def f(x):\n    return 3 * x", "12")
    assert found["cases"] == [{"given": ["4"], "gives": {"": "12"}}] and found["given"] == ["x"]
    assert [[*one["hashes"]] for one in found["numbers"]] == [[""], [""]]
    x = int(found["numbers"][0]["given"][0].replace(",", ""))
    assert found["numbers"][0]["hashes"][""] == tried_numbers.hashed(3 * x, "ch09-q01-check 0 ")


@pytest.mark.parametrize(
    "body", ["x > 500", "x % 5 * 100", "len(str(x))", "'odd' if x % 2 else 'even'", "1 / 0", "[x]", "x"]
)
def test_what_few_guesses_would_find_is_not_asked(body):
    found = made(f"def f(x):\n    return {body}", "12")
    assert found["numbers"] == [] or body == "[x]" and found is None or all(one["hashes"] for one in found["numbers"])
    if body != "[x]":
        assert found["numbers"] == []


@pytest.mark.parametrize(
    "answer", ["def f(x: 'np.ndarray') -> float:\n    return 1.5 * x", "f = 12", "def g(x):\n    return 3 * x"]
)
def test_arrays_and_other_things_show_nothing(answer):
    assert made(answer, "12") is None


def test_three_digits_as_a_browser_writes_them():
    for seed in range(200):
        x = math.exp(random.Random(seed).uniform(-40, 40)) * random.Random(-seed).choice((1, -1))
        digits, power = tried_numbers.canonical(x).split("e")
        assert abs(float(digits)) < 10 and len(digits.lstrip("-")) == 4 and str(int(power)) == power
        assert abs(float(f"{digits}e{power}") / x - 1) <= 0.005


def test_nothing_is_printed_while_notebooks_are_made(capsys):
    """What a learner sees of the first `make lab` is JupyterLab, not tables of exercises."""
    cell = new_code_cell("rows = [1, 2]\nfor row in rows:\n    print(row)\ndouble = [2 * row for row in rows]")
    assert shown_cases.defined([cell])["double"] == [2, 4]
    assert capsys.readouterr().out == ""
