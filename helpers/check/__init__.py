"""What a learner's answer is told.

A check cell states what must hold of an answer, and ends in `report`, which prints what it found and returns the points:

>>> def double(x):
...     return x + 2
>>> a = Answer(double, points=2)
>>> a.gives(6, 3)
>>> a.wrong("that adds 2; multiply by 2", lambda x: x + 2)
>>> import contextlib, sys
>>> with contextlib.redirect_stderr(sys.stdout):
...     points = report("0.1", a)
Exercise 0.1: 0 of 2 points
  that adds 2; multiply by 2. (double(3) returned 5.)

Statements are collected and evaluated by `report`, so one failure hides no other answer.
Checks judge values and traced programs, never attributes of a learner's objects and never time.
Messages name the likely mistake and never the expected value.

`answer_checks` judges answers and reports, `compare` holds values against each other, `random_inputs` draws them;
`likely_mistakes` finds what leads to a wrong value and `how_off` what wrong cases have in common,
`raised` says what an exception in an answer was and where, `notebook_cells`
which answer is an old one, `given_names` which names a check reads, `in_time` that it speaks and ends;
`judged_program` and `sharded_program` judge programs, with `program_arrays`, `traced_program`, `same_program`, `sending_rules`,
`sharded_results` and `wrong_blocks`;
`small_run` shows one on a few devices;
`questions` replies to guesses; `solutions` opens ours, `own_answers` brings a learner's own to a later chapter;
`progress` keeps what passed across days, `standing` says it in a sentence, `start_page` on a page; `replaced` knows exercises that
are gone.
May import: helpers.trace and what that may. Tests: tests/helpers/check.
"""

from .answer_checks import Answer, hidden, report, run
from .own_answers import own
from .questions import question
from .random_inputs import anew, choice, floats, inputs, ints, moved
from .solutions import passed, solution

__all__ = [
    "Answer",
    "Program",
    "all_ran",
    "anew",
    "choice",
    "floats",
    "hidden",
    "inputs",
    "ints",
    "look",
    "moved",
    "own",
    "passed",
    "question",
    "ran",
    "report",
    "run",
    "solution",
]


def __getattr__(name: str):
    """`Program`, `look`, `ran` and `all_ran`, when they are first asked for: they need JAX, which other checks do without."""
    if name not in ("Program", "all_ran", "look", "ran"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .judged_program import all_ran, ran
    from .sharded_program import Program
    from .small_run import look

    return {"Program": Program, "all_ran": all_ran, "look": look, "ran": ran}[name]
