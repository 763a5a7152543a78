"""What is said of wrong answers that no named mistake explains: mistakes are planted, and the sentence has to name them."""

import random
from itertools import product

import numpy as np
import pytest

from helpers import check
from helpers.check.edge_cases import edges
from helpers.check.how_off import Case, how_off
from tests.helpers.check.told import told


def seconds(chips, axes, mesh, V, W):
    """Something like a collective's time: of a ring of so many chips, or of a line where there is one axis."""
    links = 2 * len(axes)
    return V / W / links * (chips - 1) / chips if mesh else V / W / links


DRAWS = dict(
    chips=check.ints(2, 64), axes=check.choice("X", "XY", "XYZ"), mesh=check.choice(True, False),
    V=check.floats(1e6, 1e9), W=check.floats(1e9, 1e11),
)  # fmt: skip
PLANTED = {
    "it is the same whatever axes is": lambda n, axes, mesh, V, W: seconds(n, "X", mesh, V, W),
    "it is the same whatever mesh is": lambda n, axes, mesh, V, W: seconds(n, axes, True, V, W),
    "too large by exactly the factor chips": lambda n, *rest: seconds(n, *rest) * n,
    "too small by exactly the factor chips²": lambda n, *rest: seconds(n, *rest) / n**2,
    "with V and W exchanged": lambda n, axes, mesh, V, W: seconds(n, axes, mesh, W, V),
    "right except where mesh is True": lambda n, axes, mesh, *rest: (
        seconds(n, axes, mesh, *rest) * (1 - mesh / (n + 3))
    ),
    "a right answer gives with the first two of axes alone": lambda n, axes, *rest: seconds(n, axes[:2], *rest),
    "right except where chips is 2": lambda chips, *rest: seconds(chips, *rest) * (1 + (chips == 2)),
    "with chips - 1": lambda n, *rest: seconds(max(n - 1, 1), *rest),
    "with the opposite of mesh": lambda n, axes, mesh, *rest: seconds(n, axes, not mesh, *rest),
    "it is upside down": lambda *given: 1 / seconds(*given),
    "the sign is wrong": lambda *given: -seconds(*given),
    "right to four digits only": lambda *given: seconds(*given) * 1.00002,
}


@pytest.mark.parametrize("sentence", PLANTED)
@pytest.mark.parametrize("secret", ["", "a class-ada", "a class-bob"])
def test_planted_mistakes_are_found(sentence, secret, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_VALUES", secret)
    answer = PLANTED[sentence]
    a = check.Answer(answer, points=1, rtol=1e-9)
    a.gives(seconds(4, "XY", True, 1e8, 1e10), 4, "XY", True, 1e8, 1e10)
    a.equals(seconds, **DRAWS)
    points, said = told(capsys, a)
    assert points == 0 and sentence in said


def test_a_mistake_is_told_where_ours_never_ends_for_exchanged_arguments(capsys):
    def chips(budget, price, P):
        n = 0
        while (n + 1) * price <= budget:
            n += 1
        return n / P

    a = check.Answer(lambda budget, price, P: chips(budget, price, P) * price, points=1)
    a.equals(chips, budget=check.floats(10, 100), price=check.floats(2, 5), P=check.floats(1e12, 1e14))
    assert "too large by exactly the factor price" in told(capsys, a)[1]


WHERE = {
    "n is odd": lambda n, m, text: n % 2 == 1,
    "n is 1": lambda n, m, text: n == 1,
    "n is no power of two": lambda n, m, text: n not in (1, 2, 4, 8, 16, 32),
    "text is ''": lambda n, m, text: not text,
    "text has more than one entry": lambda n, m, text: len(text) > 1,
    "text has an entry twice": lambda n, m, text: len(set(text)) < len(text),
    "n is less than m": lambda n, m, text: n < m,
    "m does not divide n": lambda n, m, text: n % m != 0,
}


@pytest.mark.parametrize("rule", WHERE)
@pytest.mark.parametrize("drawn", range(3))
def test_where_an_answer_is_wrong_is_found(rule, drawn):
    """A sentence is a fact about the cases: where it says "except where", all others are right."""
    r, wrong = random.Random(drawn), WHERE[rule]
    args = [
        {
            "n": r.choice([1, 2, r.randint(3, 40)]),
            "m": r.choice([r.randint(1, 6), r.randint(7, 40)]),
            "text": "".join(r.choices("ab", k=r.randint(0, 3))),
        }
        for _ in range(40)
    ]
    assert f"except where {rule}" in how_off(
        [Case(a, (7.3 if wrong(**a) else 2) * a["m"] ** 2, 2 * a["m"] ** 2) for a in args], 1e-9
    )
    alone = next(i for i, a in enumerate(args) if wrong(**a))
    once = [Case(a, (7.3 if i == alone else 2) * a["m"] ** 2, 2 * a["m"] ** 2) for i, a in enumerate(args)]
    assert "except where" not in (how_off(once, 1e-9) or ""), "of one case nothing general is known"


@pytest.mark.parametrize(("change", "said"), [
    (lambda e: e[::-1], "in reverse order along dimension 0"),
    (lambda e: np.roll(e, 1, 1), "one place off along dimension 1"),
    (lambda e: np.where(np.arange(5) > 2, 0, e), "zeros stand where numbers belong"),
    (lambda e: np.where(np.arange(4)[:, None] == 3, 2 * e, e), "they stand at 3 of 4 along dimension 0"),
    (lambda e: np.where(np.arange(5) >= 2, e + 1, e), "they stand at 2 to 4 of 5 along dimension 1"),
    (lambda e: np.random.default_rng(0).permutation(e.ravel()).reshape(e.shape), "in another order"),
])  # fmt: skip
def test_an_array_is_described(change, said):
    expected = np.random.default_rng(1).normal(size=(4, 5))
    assert said in how_off([Case({}, change(expected), expected)], 1e-6)


def test_no_seed_decides_an_edge(monkeypatch):
    """The smallest, the largest, the shortest and the longest of each draw are tried, whatever is drawn besides."""
    for secret in ("", "one-ada", "two-bob"):
        monkeypatch.setenv("COURSE_VALUES", secret)
        tried = list(edges("0.1", DRAWS))
        for name, ends in {"chips": (2, 64), "axes": ("X", "XYZ"), "mesh": (True, False), "V": (1e6, 1e9)}.items():
            assert all(
                any(case[name] == pytest.approx(end, rel=0.02) if name == "V" else case[name] == end for case in tried)
                for end in ends
            )


def test_a_mistake_explains_the_first_entry_that_is_wrong(capsys):
    right = {"rates": 3.0, "best": "slice"}
    for got, named in (({"rates": 3.0, "best": "pod"}, True), ({"rates": 4.0, "best": "pod"}, False)):
        a = check.Answer(lambda got=got: got, points=1)
        a.wrong("by money, not by rate", {"best": "pod"})
        a.gives(right)
        assert ("by money" in told(capsys, a)[1]) == named


def test_a_text_is_named_and_not_counted():
    settings = product(("inputs", "matmuls", "products"), (3, 8, 20))
    said = how_off([Case({"policy": p, "n": n}, n + (p != "inputs"), n) for p, n in settings], 1e-6)
    assert "policy is 'matmuls' or 'products'" in said and "len(" not in said


def test_a_dict_may_have_other_entries_in_each_case():
    models = [{"D": 1.5, "F": 2.5}, {"E": 3.5}, {"D": 4.5, "F": 6.5}]
    assert (
        how_off([Case({"model": m}, n, 3 * n) for n, m in enumerate(models, 1)], 1e-6)
        == "it is 0.3333 times what it should be"
    )


def test_a_case_with_a_default_is_among_those_that_are_looked_at(capsys):
    def seconds(n, hop=2):
        return n * hop + 1

    a = check.Answer(seconds, points=1)
    for n in (2, 4, 6):
        a.gives(n * 2, n)
    a.equals(lambda n, hop: n * hop + (hop > 2), n=check.ints(1, 9), hop=check.choice(2, 3))
    assert "it is right except where hop is 2" in told(capsys, a)[1]


def test_cases_of_arrays_are_looked_at(capsys):
    a = check.Answer(lambda A, n: {0: A[:n]}, points=1)
    for n in (1, 2):
        a.gives({0: 2 * np.arange(1.0, 5)[:n]}, np.arange(1.0, 5), n)
    assert "in entry 0" in told(capsys, a)[1]
