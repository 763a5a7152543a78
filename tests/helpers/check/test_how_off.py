"""What is said of wrong answers that no named mistake explains: mistakes are planted, and the sentence has to name them."""

import random

import numpy as np
import pytest

from helpers import check
from helpers.check.how_off import Case, how_off
from helpers.check.random_inputs import edges
from tests.helpers.check.told import told


def seconds(chips, axes, mesh, V, W):
    """Something like a collective's time: of a ring of so many chips, or of a line where there is one axis."""
    links = 2 * len(axes)
    return V / W / links * (chips - 1) / chips if mesh else V / W / links


DRAWS = dict(
    chips=check.ints(2, 64),
    axes=check.choice("X", "XY", "XYZ"),
    mesh=check.choice(True, False),
    V=check.floats(1e6, 1e9),
    W=check.floats(1e9, 1e11),
)
PLANTED = {
    "it is the same whatever axes is": lambda n, axes, mesh, V, W: seconds(n, "X", mesh, V, W),
    "it is the same whatever mesh is": lambda n, axes, mesh, V, W: seconds(n, axes, True, V, W),
    "too large by exactly the factor chips": lambda n, *rest: seconds(n, *rest) * n,
    "too small by exactly the factor chips²": lambda n, *rest: seconds(n, *rest) / n**2,
    "right but where mesh is True": lambda n, axes, mesh, V, W: (
        seconds(n, axes, mesh, V, W) * (n / (n + 3) if mesh else 1)
    ),
    "right but where axes is 'XYZ'": lambda n, axes, *rest: seconds(n, axes[:2], *rest),
    "right but where chips is 2": lambda chips, *rest: seconds(chips, *rest) * (1 + (chips == 2)),
    "the sign is wrong": lambda *given: -seconds(*given),
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


@pytest.mark.parametrize("drawn", range(5))
def test_what_is_said_holds_in_every_case(drawn):
    """A sentence is a fact about the cases: where it says "but where", all others are right."""
    r = random.Random(drawn)
    cases = [
        Case({"n": n, "m": m}, n + (n % 3 == 0) * m, n)
        for n, m in ((r.randint(1, 40), r.randint(1, 40)) for _ in range(25))
    ]
    said = how_off(cases, 1e-9) or ""
    assert "but where" not in said or "n does not divide" in said or "does not divide n" in said, said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: e[::-1], "in reverse order along axis 0"),
        (lambda e: np.roll(e, 1, 1), "one place off along axis 1"),
        (lambda e: np.where(np.arange(5) > 2, 0, e), "0 that should not be"),
        (lambda e: np.where(np.arange(4)[:, None] == 3, 2 * e, e), "only at place 3, the last"),
        (lambda e: np.where(np.arange(5) >= 2, e + 1, e), "along axis 1 from place 2 on"),
        (lambda e: np.random.default_rng(0).permutation(e.ravel()).reshape(e.shape), "in another order"),
    ],
)
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
