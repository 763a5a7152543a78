"""Stands for `helpers.check` where answers run: a learner's own cell may call it, and nothing is judged."""

from .compare import OffLimits

__all__ = [
    "Answer", "OffLimits", "Program", "all_ran", "anew", "choice", "contest", "exercise", "floats", "hidden", "in_full", "inputs", "ints",
    "judges", "look", "moved", "near", "own", "passed", "question", "ran", "report", "rng", "run", "solution",
    "threshold", "with_edges",
]  # fmt: skip


class Answer:
    """Takes every statement about an answer and does nothing with it."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return _nothing


class Program(Answer):
    """Likewise."""


def _nothing(*_, **__) -> None:
    pass


all_ran = anew = choice = contest = floats = hidden = in_full = inputs = ints = judges = look = moved = _nothing
near = own = question = ran = rng = threshold = with_edges = _nothing


def report(*_, **__) -> None:
    print("Checks run in another process, after this cell.")


run = exercise = report


def passed(*_, **__) -> bool:
    return False


def solution(*_, **__) -> None:
    print("Solutions are not shown while a class is graded.")
