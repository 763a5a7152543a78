"""What a learner's answer is told.

A check states what must hold of an answer, and ends in `report`, which prints what it found and returns the points; a notebook's
cell calls it by the number of its exercise, `exercise("0.1")`:

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

answer_checks     judges answers and reports             compare            holds values against each other, refuses our formulas
random_inputs     draws arguments                        likely_mistakes    what leads to a wrong value
edge_cases        draws the edges, one for everybody,    class_values       what is one for a class, worked out once
                  and all cases with what is right
how_off           what wrong cases have in common        raised             what an exception in an answer was, and where; ends it
notebook_cells    which names a check reads, which are   questions          replies to guesses
                  of an old answer
solutions         opens ours, brings a learner's own     progress           what passed, kept across days, and where a learner
                  to a later chapter                                        stands, on a page as well
contests          where a design stands among all designs
shown_checks      an exercise's check by its number, and what it asks, in words

`judged_program` and `sharded_program` judge programs, and show one on a few devices, with `traced_program`, `sending_rules`,
`wrong_blocks` and `dependence`.
May import: helpers.trace and what that may. Tests: tests/helpers/check.
"""

from helpers.numeric import threshold

from .answer_checks import Answer, hidden, report, run
from .compare import near
from .edge_cases import with_edges
from .questions import question
from .random_inputs import anew, choice, floats, inputs, ints, moved, rng
from .shown_checks import exercise, in_full, judges
from .solutions import own, passed, solution

__all__ = [
    "Answer", "Program", "all_ran", "anew", "choice", "contest", "exercise", "floats", "hidden", "in_full", "inputs", "ints", "judges",
    "look", "moved", "near", "own", "passed", "question", "ran", "report", "rng", "run", "solution", "threshold", "with_edges",
]  # fmt: skip


def __getattr__(name: str):
    """What needs JAX or the cost formulas, which other checks do without: imported when it is first asked for."""
    if name == "contest":
        from .contests import contest

        return contest
    if name not in ("Program", "all_ran", "look", "ran"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .judged_program import all_ran, ran
    from .sharded_program import Program, look

    return {"Program": Program, "all_ran": all_ran, "look": look, "ran": ran}[name]
