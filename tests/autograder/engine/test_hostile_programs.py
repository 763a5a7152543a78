"""Bytes and values that somebody made by hand cost their sender, and never the checker, another student or another exercise."""

import json
import os
import random
import signal
import time

import jax
import jax.numpy as jnp
import pytest

from autograder.engine import run_submission as engines, wire
from autograder.engine.answer_process import lowered
from tests.autograder.attacks import kinds, protocol
from tests.autograder.engine.small import ANSWERS, cell, notebook
from tests.autograder.engine.test_run_submission import PRODUCT, SHARDED
from tests.autograder.engine.test_sandbox_forks import family
from tests.tiers import repeats

NESTED = [
    "module {{",
    "[",
    "tuple<",
    "callsite(",
    "(",
]  # texts that MLIR's parser follows for as long as it has a stack
SENDS = """
for s in [o for o in gc.get_objects() if type(o).__name__ == "Session"]:
    type(s).program = type(s).export = lambda *a, **k: {"program": data}
"""


def hostile(data: str) -> str:
    """An answer that sends other bytes than its program; data: an expression."""
    return f"import gc\ndata = {data}\n{SENDS}{PRODUCT}"


def graded(engine, answers: dict):
    nb = notebook(answers, checks={f"{name}-check": SHARDED for name in answers})
    return engine.grade(engines.bundle(nb), nb, "secret")


@pytest.mark.slow("forks a reader for each program that ends one")
def test_hostile_bytes_cost_their_sender_and_the_checker_nothing(engine):
    """Texts of 8 MB, and bytecode with a few bytes changed, of which one in twenty ends the process that reads it."""
    blob, chance = lowered(jax.jit(jnp.dot), [jax.ShapeDtypeStruct((4, 4), jnp.float32)] * 2), random.Random(5)
    datas = [f"({text!r} * {7_900_000 // len(text)}).encode()" for text in NESTED]
    datas += [repr(b"ML\xefR" + bytes(1000)), repr(blob[:-40]), "None", "bytes(9_000_000)"]
    for _ in range(repeats(20, 150)):
        spoilt = bytearray(blob)
        for _ in range(chance.choice([1, 2, 4, 16])):
            spoilt[chance.randrange(4, len(spoilt))] = chance.randrange(256)
        datas.append(repr(bytes(spoilt)))
    assert graded(engine, {"q1": PRODUCT}).scores == {"q1-check": 1}
    checker, said = engine.checker, []
    for start in range(0, len(datas), 8):
        names = {f"q{i}": hostile(data) for i, data in enumerate(datas[start : start + 8], 1)}
        got = graded(engine, names)
        assert not any(got.scores.values()) and not got.void, got
        said += [got.message(check) for check in got.scores]
    assert all(s.count("\n") < 4 and "Traceback" not in s for s in said), said
    assert sum("it is no bytecode" in " ".join(s.split()) for s in said) >= len(NESTED)
    assert engine.checker is checker, "nobody had to end it"
    assert graded(engine, {"q1": PRODUCT}).scores == {"q1-check": 1}


def test_a_reader_that_ends_costs_one_program(engine, monkeypatch):
    """The next program of the same submission has another; the checker, which has the tests, goes on."""
    graded(engine, {"q1": ANSWERS["q1"]})
    before, run = set(family(engine.checker.sandbox.process.pid)), engines.Run.cell

    def killed(self, id, source):
        if id == "q2-check":
            readers = set(family(engine.checker.sandbox.process.pid)) - before
            assert len(readers) == 2  # one waits for the other
            os.kill(max(readers), signal.SIGKILL)
        run(self, id, source)

    monkeypatch.setattr(engines.Run, "cell", killed)
    got = graded(engine, {"q1": PRODUCT, "q2": PRODUCT, "q3": PRODUCT})
    assert got.scores == {"q1-check": 1, "q2-check": 0, "q3-check": 1}
    assert "it ends the process that reads it" in " ".join(got.message("q2-check").split())


PRIME = 2**61 - 1  # whole numbers that differ by it have one hash


def tree(shape: str, n: int, m: int = 1) -> list | dict:
    """A message of keys that all have one hash: n in each of m dicts or sets, or in tuples as long as they may be."""
    keys = [k * PRIME for k in range(n)]
    if shape == "tuples":
        keys = [{"tuple": [*[0] * 8, k]} for k in keys]
    one = {"dict": [[k, 0] for k in keys]} if shape == "dict" else {"frozenset": keys}
    return [one] * m


@pytest.mark.parametrize(
    ("shape", "n", "m"),
    [("dict", 120_000, 1), ("set", 120_000, 1), ("dict", 1000, 60), ("set", 1000, 150), ("tuples", 1000, 20)],
)
@pytest.mark.sample(quick=2)
def test_keys_of_one_hash_cost_less_than_a_second(shape, n, m):
    text, began = json.dumps(tree(shape, n, m)).encode(), time.process_time()
    with pytest.raises(wire.WireError, match="keys"):
        wire.loads(text)
    assert time.process_time() - began < 1
    fits = json.dumps(tree(shape, 500)).encode()
    assert len(next(iter(wire.loads(fits)))) == 500


def test_what_has_too_many_keys_is_told_to_its_sender():
    for value in (set(range(1001)), dict.fromkeys(range(1001)), [{(k, 0): 0 for k in range(900)} for _ in range(5)]):
        with pytest.raises(wire.WireError, match="keys"):
            wire.dumps(value)


def test_nobody_knows_which_texts_have_one_hash_in_the_checker(engine):
    given = notebook({})
    given.cells.append(cell("import sys\nassert sys.flags.hash_randomization", "given"))
    engine.open_checker(engines.bundle(given))


LATE = f"""{protocol.FRAME}
import threading, time
def late():
    for _ in range(50):
        out(frame({protocol.WIN}))
        time.sleep(0.01)
threading.Thread(target=late, daemon=True).start()"""


@pytest.mark.parametrize("name", ["late", "one_reply_ahead", "replies_before_they_are_asked"])
def test_replies_that_nobody_asked_for_cost_nothing(engine, small, name):
    """Each reply has the number of its request, so that one that comes late is not taken for another's."""
    code = LATE if name == "late" else kinds.clean(protocol.WIRES[name])
    got = engine.grade(small, notebook(ANSWERS, code))
    assert sum(got.scores.values()) == 3, got


def test_objects_of_one_exercise_cost_no_other(engine):
    """What is handed out is counted for each check."""
    check = "a = check.Answer(double, points=1)\n    a.law('many', lambda f: len(f(9_000)) + len(f({})) > 9_000)"
    made = "def double(n):\n    return [lambda: 0 for _ in range(n)]"
    sizes = {"q1": 500, "q2": 9_000, "q3": 500, "q4": 900}
    nb = notebook(dict.fromkeys(sizes, made), checks={f"{q}-check": check.format(n) for q, n in sizes.items()})
    got = engine.grade(engines.bundle(nb), nb)
    assert got.scores == {"q1-check": 1, "q2-check": 0, "q3-check": 1, "q4-check": 1}
