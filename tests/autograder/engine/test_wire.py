"""What crosses between processes: every type of the list comes back equal, anything else is one sentence."""

import json
import math
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from autograder.engine import wire
from autograder.places import ROOT
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice


def there_and_back(value):
    return wire.loads(*wire.dumps(value))


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -7, 2**200, 1.5, -0.0, math.inf, "", "ä\ud800", b"\x00\xff", 1 + 2j, Fraction(-3, 7), Decimal("1.10"),
        [], [1, [2.0, None]], (), (1, ("a",)), {}, {"a": 1, 2: (3,), (0, 1): None, 1.5: True}, {1, 2}, frozenset("a"),
        ..., NotImplemented, P("X", None, ("X", "Y")), P(), chip("v5e"), Slice(chip("v5p"), (4, 4, 4)), np.dtype("int8"),
        jax.ShapeDtypeStruct((3, 4), jnp.bfloat16),
    ],
    ids=lambda v: str(v)[:20].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_plain_values_come_back_equal(value):
    back = there_and_back(value)
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize("name", wire.DTYPES)
def test_arrays_come_back_with_their_type(name):
    values = np.array([[0, 1, 2], [3, 1, 0]]).astype(wire.DTYPES[name])
    back = there_and_back([values, values[0, 1], values[:0]])
    for got, sent in zip(back, [values, values[0, 1], values[:0]]):
        assert type(got) is type(sent) and got.dtype == sent.dtype and got.shape == sent.shape
        assert got.tobytes() == sent.tobytes()


def test_arrays_of_text_come_back():
    values = np.array([["a", "longer"], ["", "ä"]])
    back, one = there_and_back([values, values[0, 1]])
    assert back.dtype == values.dtype and back.shape == (2, 2) and (back == values).all()
    assert type(one) is np.str_ and one == "longer"


def test_an_array_as_wide_as_its_longest_text_may_be_too_large():
    text = json.dumps({"words": ["x" * 100_000, *["a"] * 10_000]})
    with pytest.raises(wire.WireError, match="An array of text is too large"):
        wire.loads(text.encode())


def test_a_jax_array_comes_back_as_one():
    back = there_and_back(jnp.ones((2, 3), jnp.bfloat16))
    assert isinstance(back, jax.Array) and back.dtype == jnp.bfloat16 and back.shape == (2, 3)


def test_subclasses_lose_their_behaviour():
    class Liar(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert there_and_back(Liar(3)) != 4
    assert type(there_and_back(Liar(3))) is int


def deep(n):
    x = []
    for _ in range(n):
        x = [x]
    return x


@pytest.mark.parametrize(
    "value",
    [object(), lambda: 0, deep(100), deep(100_000), 1 << 10_000, [None] * 500_000, "x" * 5_000_000, np.array([None]),
     np.zeros(200_000_000, np.int8), [np.zeros(100_000_000, np.int8)] * 2],
    ids=["object", "function", "deep", "deeper", "long", "many", "text", "objects", "array", "arrays"],
)  # fmt: skip
def test_what_cannot_travel_is_a_sentence(value):
    with pytest.raises(wire.WireError) as e:
        wire.dumps(value)
    assert str(e.value).endswith(".") and len(str(e.value)) < 120


@pytest.mark.parametrize(
    "text",
    [
        '{"array": ["float32", [1000000000, 1000000000, 1000000000]]}', '{"array": ["object", [1]]}', '{"array": ["int8", [-1]]}',
        '{"array": ["int8", [1.5]]}', '{"bytes": 5}', '{"bytes": -1}', '{"bytes": true}', '{"record": ["os.system", ["true"]]}',
        '{"record": ["helpers.costs.rooflines.hardware.Slice", []]}', '{"record": ["helpers.costs.rooflines.hardware.dataclass", [1]]}',
        '{"spec": [1]}', '{"dict": [[[1], 2]]}', '{"dict": [1]}', '{"dict": {"a": 1}}', '{"a": 1, "b": 2}', "{}", '{"py/object": "x"}',
        '{"handle": {"id": 1}}', '{"decimal": 1}', '{"fraction": "1/0"}', '{"fraction": "1e9999"}', '{"mark": "x"}', '{"complex": ["x"]}',
        '{"words": [1]}', '{"words": [["a"], ["b", "c"]]}', '{"words": {"tuple": ["a"]}}',
        "1" * 2000, "[" * 100_000, '"' + "x" * 5_000_000 + '"', "nope", '{"dtype": "object"}', '{"shape": [[1], 3]}', '{"set": [[1]]}',
    ],
    ids=lambda t: t[:40],
)  # fmt: skip
def test_forged_messages_are_a_sentence(text):
    with pytest.raises(wire.WireError):
        wire.loads(text.encode())


def test_handles_are_named_by_who_sends_and_made_by_who_reads():
    text, raw = wire.dumps({"f": len}, handle=lambda f: {"name": f.__name__})
    assert wire.loads(text, raw, handle=lambda d: f"stands for {d['name']}") == {"f": "stands for len"}


def test_fuzz_never_raises_anything_else():
    """Valid messages with random damage, and random trees: a value or a WireError."""
    r = random.Random(4)
    tags = "tuple set frozenset dict array jax scalar bytes mark complex fraction decimal dtype spec shape record handle".split()

    def tree(depth=0):
        pick = r.randrange(9 if depth < 5 else 6)
        if pick < 6:
            return r.choice([None, True, r.randint(-9, 99), r.uniform(-9, 9), "int8", "...", "1/2", math.nan])
        if pick == 6:
            return [tree(depth + 1) for _ in range(r.randrange(4))]
        return {r.choice(tags): tree(depth + 1) for _ in range(r.choice([1, 1, 1, 2]))}

    text, raw = wire.dumps([(1, 2), {"a": np.ones(3, np.int8)}, P("X"), chip("v5e"), b"xyz", Fraction(1, 3)])
    for i in range(6000):
        if i % 2:
            candidate = json.dumps(tree()).encode(), bytes(r.randrange(256) for _ in range(r.randrange(20)))
        else:
            spoilt = bytearray(text)
            for _ in range(r.randint(1, 4)):
                spoilt[r.randrange(len(spoilt))] = r.choice(b'0123456789[]{}",:-e.xa')
            candidate = bytes(spoilt), raw
        try:
            wire.loads(*candidate)
        except wire.WireError as e:
            assert len(str(e)) < 200


def test_frames_cross_a_socket_and_end_cleanly():
    a, b = socket.socketpair()
    with a, b:
        wire.send(a, {"n": 1, "x": np.arange(5)})
        got = wire.receive(b, 5)
        assert got["n"] == 1 and got["x"].tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(TimeoutError):
            wire.receive(b, 0.05)
        a.sendall(wire.HEAD.pack(1 << 60, 0))
        with pytest.raises(wire.WireError):
            wire.receive(b, 5)
        a.close()
        with pytest.raises(wire.Closed):
            wire.receive(b, 5)


@pytest.mark.parametrize("sent", [1, 7, wire.HEAD.size, wire.HEAD.size + 3])
def test_a_message_that_has_begun_is_read_to_its_end(sent, monkeypatch):
    """Who asks again after a time-out would take the rest of it for the head of another."""
    a, b = socket.socketpair()
    text, _ = wire.dumps("whole")
    frame = wire.HEAD.pack(len(text), 0) + text
    with a, b:
        a.sendall(frame[:sent])
        rest = threading.Timer(0.2, a.sendall, [frame[sent:]])
        rest.start()
        assert wire.receive(b, 0.05) == "whole"
        rest.join()
        monkeypatch.setattr(wire, "REST", 0.05)
        a.sendall(frame[:sent])
        with pytest.raises(wire.WireError, match="does not end"):
            wire.receive(b, 0.05)


SERVES = """
    import dataclasses, socket, sys
    from autograder.engine import answer_process, sandbox
    answer_process.serve(socket.socket(fileno=int(sys.argv[1])), dataclasses.asdict(sandbox.Limits()))"""


@pytest.mark.slow
def test_an_interrupt_cuts_no_message_in_two():
    """Hundreds of them, at any moment: every request still has one reply, and the last one a right one."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-B", "-c", textwrap.dedent(SERVES), str(theirs.fileno())]
    with ours, subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        try:
            wire.send(ours, {"op": "run", "source": "text = 'x' * 100_000", "name": "first"})
            assert wire.receive(ours, 60)["ok"]
            stopped = 0
            for k in range(150):
                wire.send(ours, {"op": "run", "source": f"print({k})\nprint(text)", "name": "one"})
                for _ in range(k % 4):
                    time.sleep(k / 1e6)
                    process.send_signal(signal.SIGINT)
                reply = wire.receive(ours, 60)
                stopped += not reply.get("ok")
                assert not reply.get("ok") or reply["outputs"][0]["text"].startswith(f"{k}\n")
            wire.send(ours, {"op": "get", "name": "text", "number": "7"})
            assert wire.receive(ours, 60) == {"found": True, "value": "x" * 100_000, "number": "7"}
            assert stopped  # some of them hit a cell
        finally:
            process.kill()
