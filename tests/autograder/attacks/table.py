"""The table of a classmate: answers that record what they are called with, and answers that look it up.

table = chapter("ch01_rooflines").recorded("ch01-q04-check", "class-ada")
chapter("ch01_rooflines").replayed("ch01-q04-check", table, "class-bob")
"""

import os
from collections import Counter
from copy import deepcopy
from dataclasses import fields, is_dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from autograder.engine.cell_names import free_names
from autograder.grading.rebuild import defined
from autograder.making import in_process_grading
from autograder.making.exercises import meta
from helpers.check import judged_program, sharded_program

MISSES = ("refused", "raised", "usual")
"""What a table does with what does not stand in it: a ValueError, another error, or its most frequent result."""


def key(x):
    """Of equal values the same, whatever holds them."""
    if isinstance(x, np.ndarray | jax.Array | np.generic):
        x = np.asarray(x)
        return "array", x.shape, x.dtype.str, x.tobytes()
    if isinstance(x, dict):
        return "dict", frozenset((key(k), key(v)) for k, v in x.items())
    if isinstance(x, list | tuple):
        return type(x).__name__, *map(key, x)
    if is_dataclass(x):
        return type(x).__name__, *(key(getattr(x, f.name)) for f in fields(x))
    return getattr(x, "__name__", "function") if callable(x) else repr(x)


def tracers(args) -> list:
    return [x for x in jax.tree.leaves(args) if isinstance(x, jax.core.Tracer)]


class Table:
    """given     what functions gave, by name and arguments; programs, by shapes of arguments: on what they ran, what they gave
    compared  arrays on which sharded programs were held against the right result
    """

    def __init__(self, given=None):
        self.given, self.compared = {k: list(v) for k, v in (given or {}).items()}, set()

    def recorder(self, name: str, f):
        def recorded(*args, **kwargs):
            if tracers((args, kwargs)):
                return f(*args, **kwargs)
            asked = key(args), key(kwargs)
            rows = self.given.setdefault((name, asked), [])
            try:
                result = f(*args, **kwargs)
            except Exception as e:
                rows.append(e)
                raise
            rows.append(... if callable(result) else deepcopy(result))
            return self.recorder(f"{name}/{asked}", result) if callable(result) else result

        recorded.__name__ = name
        return recorded

    def record_programs(self, monkeypatch) -> None:
        """Write down programs that checks run, with what they run on, which no answer gets to know."""
        ran, draw = judged_program.all_ran, sharded_program._random

        def recorded(f, cases, right, rtol=1e-3):
            programs = ran(f, cases, right, rtol)
            for program, arrays in zip(programs, cases):
                out = right(*arrays)
                row = list(map(np.asarray, arrays)), program(*arrays) if out is ... else out
                self.given.setdefault(("program", _shapes(program.like)), []).append(row)
            return programs

        def seen(*how):
            made = draw(*how)
            self.compared.add(key(made))
            return made

        monkeypatch.setattr(judged_program, "all_ran", recorded)
        monkeypatch.setattr(sharded_program, "_random", seen)

    def player(self, name: str, miss: str):
        firsts = [rows[0] for (n, _), rows in self.given.items() if n == name]
        often = Counter(str(key(r)) for r in firsts).most_common(1)
        usual = next((r for r in firsts if str(key(r)) == often[0][0]), None)

        def looked_up(*args, **kwargs):
            if tracers((args, kwargs)):
                return self.program(tracers((args, kwargs)))
            asked = key(args), key(kwargs)
            rows = self.given.get((name, asked), [usual])
            if (name, asked) not in self.given and miss != "usual":
                raise ValueError("no such row") if miss == "refused" else KeyError("no such row")
            result = rows.pop(0) if len(rows) > 1 else rows[0]  # some answers keep a state
            if result is ...:
                return self.player(f"{name}/{asked}", miss)
            if isinstance(result, Exception):
                raise result
            return deepcopy(result)

        looked_up.__name__ = name
        return looked_up

    def program(self, given: list):
        """A program: the recorded result for the same arrays, else any of these shapes."""
        (_, out), *rows = self.given[("program", _shapes(given))]
        for arrays, result in rows:
            same = jnp.all(jnp.array([jnp.all(x == a) for x, a in zip(given, arrays)]))
            out = jax.tree.map(partial(jnp.where, same), result, out)
        return jax.tree.map(jnp.asarray, out)


def _shapes(arrays) -> tuple:
    return tuple((x.shape, str(x.dtype)) for x in arrays)


class Chapter:
    """A chapter's own answers and its checks."""

    def __init__(self, topic: str):
        self.scope = in_process_grading.names(topic, lambda cell: "picture()" not in cell.source)
        code = [c for c in in_process_grading.solved(topic).cells if c.cell_type == "code"]
        self.cells = {meta(c).get("grade_id"): c for c in code}
        self.checks = {i: c for i, c in self.cells.items() if meta(c).get("grade")}
        self.made = set().union(*(defined(c.source) for c in code if meta(c).get("solution")))

    def functions(self, check: str) -> list[str]:
        """Names of the learner's that a check calls."""
        return sorted(n for n in free_names(self.checks[check].source) & self.made if callable(self.scope.get(n)))

    def judged(self, check: str, values: str, **names) -> tuple[float, str]:
        """Points of a check under a submission's seeds, if these names are the learner's, and what it said."""
        os.environ.update(COURSE_SEED="0", COURSE_VALUES=values)
        cell = self.checks[check]
        value, said, fault = in_process_grading.execute(cell.source, f"<{check}>", self.scope | names)
        return in_process_grading.grade(0 if fault else value, said, fault, float(meta(cell)["points"]))

    def recorded(self, check: str, values: str, monkeypatch) -> Table:
        """The table that our own answers make as this submission."""
        table = Table()
        with monkeypatch.context() as patch:
            table.record_programs(patch)
            won, said = self.judged(
                check, values, **{n: table.recorder(n, self.scope[n]) for n in self.functions(check)}
            )
        assert won == meta(self.checks[check])["points"], said
        return table

    def replayed(self, check: str, table: Table, values: str) -> float:
        """The most that a table wins as this submission, whatever it does with what does not stand in it."""
        won = []
        for miss in MISSES:
            mine = Table(table.given)
            won.append(self.judged(check, values, **{n: mine.player(n, miss) for n in self.functions(check)})[0])
        return max(won)


chapter = cache(Chapter)
