"""What a check asks of an answer, in words: its statements are kept by stand-ins, and nothing is judged."""

import builtins
import textwrap
from collections.abc import Callable
from types import FunctionType, SimpleNamespace

from . import compare, random_inputs  # where a class is graded, compare is another, without these names
from .notebook_cells import given, read_by


class Asked:
    """In place of an answer's or a program's check: keeps its statements as sentences."""

    def __init__(self, answer, *_, **__):
        self.name, self.said, self.known = getattr(answer, "__name__", "your answer"), [], 0

    def gives(self, expected, *args, **kwargs) -> None:
        listed = [compare.shown(a) for a in args] + [f"{k}={compare.shown(v)}" for k, v in kwargs.items()]
        self.said.append(f"{self.name}({', '.join(listed)}) gives {compare.shown(expected)}")

    def refuses(self, *args, **__) -> None:
        self.said.append(f"{self.name}({', '.join(map(compare.shown, args))}) raises ValueError")

    def law(self, sentence: str, *_) -> None:
        self.said.append(sentence)

    def equals(self, *_, **draws) -> None:
        self.said.append(f"for drawn {', '.join(draws) or 'arrays'} it gives what ours gives")

    def carries(self, *_) -> None:
        self.said.append("the state that is handed in counts, and none is kept between calls")

    def wrong(self, *_, **__) -> None:
        self.known += 1

    def __getattr__(self, name: str) -> Callable:
        """A rule for programs: its name says it, with its numbers and words."""

        def rule(*args, **named):
            listed = [compare.shown(x) for x in args if isinstance(x, int | float | str)]
            listed += [f"{k} {compare.shown(v)}" for k, v in named.items() if isinstance(v, int | float | str)]
            self.said.append(f"{name.replace('_', ' ')} {', '.join(listed)}".strip())

        return rule


def told(check: Callable) -> str:
    """The statements of a check, one in a line; it may read answers that nobody has written."""
    made: list[Asked] = []

    def asked(*args, **kwargs) -> Asked:
        made.append(Asked(*args, **kwargs))
        return made[-1]

    ours, _ = given(check.__name__)
    course = {n: getattr(random_inputs, n) for n in ("anew", "choice", "floats", "ints", "moved")}
    stand_in = SimpleNamespace(
        **course, Answer=asked, Program=asked, report=lambda *_, **__: None, inputs=lambda *_, **__: iter(())
    )
    names = read_by(check.__code__) - ours.keys() - vars(builtins).keys()
    answers = {name: SimpleNamespace(__name__=name) for name in names}
    FunctionType(check.__code__, {**answers, **ours, "__builtins__": builtins, "check": stand_in}, check.__name__)()
    lines = ["What is asked of an answer, in a class of other numbers as well:"]
    lines += [f"- {line}" for line in dict.fromkeys(line for a in made for line in a.said)]
    if known := sum(a.known for a in made):
        lines.append(f"It knows {known} likely mistake{'s' * (known > 1)}.")
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False) for line in lines)
