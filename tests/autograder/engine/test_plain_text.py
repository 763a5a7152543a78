"""What an answer says is shown without marks of direction, without any part of an escape sequence, and without folders of the grader."""

import os
import random
import sys
import unicodedata

import pytest
from nbformat.v4 import new_output

from autograder.engine.cell_outputs import cleaned
from autograder.engine.plain_text import clean, places
from tests.autograder.engine.small import ANSWERS, notebook

DRAWN = random.Random(os.environ.get("SEED", "0"))
ESCAPES = (
    "\x1b[31m|\x1b[1;38;5;9m|\x1b[2K|\x9b31m|\x1b]0;title\x07|\x1b]8;;http://h\x1b\\|\x1bP1q\x1b\\|\x1b(B|\x1bc".split(
        "|"
    )
)
KINDS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = [*"\u200e\u200f\u061c", *(c for c in map(chr, range(0x3000)) if unicodedata.bidirectional(c) in KINDS)]
FOLDERS = [sys.prefix, os.path.realpath(sys.prefix), os.path.dirname(os.__file__), os.path.expanduser("~"), os.getcwd()]
ANSWER = """class Odd(ValueError):
    pass


def double(x):
    raise Odd(text)  # \u202eline


double.__name__ = text
print(text, sys.prefix, jnp.__file__)
jnp.ones(3) @ jnp.ones(4)"""


def hostile() -> str:
    parts = [DRAWN.choice(DRAWN.choice([ESCAPES, MARKS, ["\x00", "\x08", "\x7f", "\ud800"]])) for _ in range(4)]
    return "evil".join(["", *parts, ""])


def test_any_mixture_is_cleaned():
    assert len(MARKS) == 12
    for text in [hostile() for _ in range(300)]:
        assert set(clean(text).replace("evil", "")) <= {"?"}, ascii(text)
    assert clean(kept := "שלום 👩‍👧 naïve\ta\r\nb") == kept


@pytest.mark.parametrize("folder", FOLDERS)
def test_places_are_relative(folder):
    places.cache_clear()  # another test's home may be kept
    frame = new_output("error", ename="E", evalue=f'File "{folder}/a.py"; {folder}', traceback=[f"\x1b[32m{folder}/b"])
    [shown] = cleaned([frame])
    assert (shown.evalue, shown.traceback) == ('File "a.py"; ', ["b"]) and clean(f"x{folder}") == f"x{folder}"


def test_what_an_answer_raises_prints_and_is_called(engine, small):
    """Through the sandbox: in the check's message and the line it names, in what cells print, in frames of JAX."""
    said = f"import sys\n\ntext = ''.join(map(chr, {[*map(ord, hostile())]}))"
    result = engine.grade(small, notebook(ANSWERS | {"q2": ANSWER}, said))
    message = " ".join(result.message("q2-check").split())
    assert "raised Odd: evil" in message and "`raise Odd(text) # line`" in message
    everything = str([o for found in result.outputs.values() for o in found])
    assert "jax/" in everything and "evil" in everything and not [f for f in FOLDERS if f"{f}/" in everything]
    rests = [*MARKS, *(ascii(mark)[1:-1] for mark in MARKS), "\x1b", "\\x1b", "\x9b", "[31m", "title"]
    assert not [rest for rest in rests if rest in everything]
