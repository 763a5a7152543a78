"""The statements of a check cell about an answer, the likely mistakes by which a wrong one is told, and the report with its points."""

import codecs
import copy
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cache
from inspect import Parameter, isfunction, signature
from itertools import takewhile, zip_longest
from operator import is_
from typing import TYPE_CHECKING

from . import progress, raised, record
from .compare import as_before, closed, copied, near, same, selected, shown
from .edge_cases import drawn
from .how_off import CAUSES, Case, how_off
from .likely_mistakes import Mistake, Mistakes, either
from .notebook_cells import Points, apart, broken, judged, missing, notebook, watch
from .raised import NOT_JUDGED, Changed, Unclear
from .random_inputs import secret
from .solutions import TRIES, carries, tried

if TYPE_CHECKING:
    from .sharded_program import Program


CASE_SECONDS = 3  # of this thread, for the cases of slow answers, to see what wrong ones have in common


class Answer:
    """A learner's function (or value) and what must hold of it; all or nothing for its points.

    rtol   relative tolerance of every comparison
    twice  what may have been counted twice, or once too few, where a value is off by exactly 2; "" if nothing can
    state  arguments are a state, such as a cache, which may be changed in place
    only   names of a dict's entries that are judged, where the others belong to other parts; all if none is named
    """

    def __init__(self, answer, points: float, rtol: float = 1e-3, twice: str = CAUSES, state: bool = False, only=()):
        self.state, self.only = state, only
        self.answer, self.points, self.rtol = answer, points, rtol
        self.name = getattr(answer, "__name__", "your answer")
        self.part = False  # until `report` is given others beside it: then all are asked the same in a class
        self.draws = self.name  # until `report` gives the exercise: a learner must not choose what is drawn
        self.todo: list[Callable[[], str | None]] = []
        self.mistakes, self.twice = Mistakes(rtol), twice
        self.asked: tuple = ()
        self.parameters = signature(answer).parameters if isfunction(answer) else {}
        self.names = [*self.parameters]
        self.ours: Callable | None = None  # what `equals` compares with
        self.given: list[tuple] = []  # (what is right, arguments) of single cases
        self.settings: list[Callable] = []  # each gives (what is right, draws by name) of its cases
        self.ahead: list[tuple] = []  # (arguments, value) of the next calls that are known, the last one first
        self.shown: list[tuple] = []  # the arguments of visible cases
        self.returned = False  # the answer has given a value to the statement that is evaluated

    def gives(self, expected, *args, **kwargs) -> None:
        """For these arguments the value is `expected`, to within rtol; `...` in it matches anything."""
        unseen, expected = _Hidden.now, selected(expected, self.only)
        if not unseen:
            self.shown.append((args, kwargs))
        self.given.append((expected, args))
        case = None if kwargs else args
        self._state(lambda: self._compare(expected, args, kwargs, is_hidden=unseen), unseen, case)

    def equals(self, reference: Callable, **draws) -> None:
        """On random settings of the draws, and on their edges, the answer equals `reference`.

        Draws stand in the order of the answer's parameters, whose names are the learner's own affair.
        """
        statement, only = len(self.todo), self.only
        ours = (lambda **args: selected(reference(**args), only)) if only else reference
        settings = cache(lambda: drawn(ours, draws, self.draws, statement, self.part, self.mistakes))

        def run():
            self.ahead = self._several([tuple(named.values()) for _, named in settings()])
            for expected, named in settings():
                if message := self._compare(expected, tuple(named.values()), {}, named, is_hidden=True):
                    return message

        self.names, self.ours = list(draws), ours
        self.settings.append(settings)
        self._state(run, is_hidden=True)

    def _several(self, cases: list[tuple]) -> list[tuple]:
        """What the first of these calls give, where the answer is in another process, the last one first."""
        several = getattr(type(self.answer), "several", None)
        return [*zip(cases, several(self.answer, cases))][::-1] if several and len(cases) > 1 else []

    def law(self, sentence: str, holds: Callable) -> None:
        """`holds(f)` is true. If not, or if f raises, the learner reads the sentence; `holds` may give a text in its place."""
        unseen = _Hidden.now

        def run():
            self.returned = False
            try:
                kept = holds(self._call)
            except Exception as e:
                if raised.is_ours(e):
                    raise
                if raised.by_answer(e):
                    said = self._raised(e, unseen)
                    if said.endswith(NOT_JUDGED):  # a name that is not known is no matter of this law
                        return said
                    return self._raised_anyway() or f"{said} It was asked for this: {_sentence(sentence)}"
                if raised.of_machine(e) or not self.returned:
                    raise
                return f"{_sentence(sentence)} What {self.name} returns has another form, so this could not be checked."
            why = kept if isinstance(kept, str) and kept else sentence
            return None if kept and why is sentence else f"{self.name} is not right yet: {_sentence(why)}"

        self._state(run, unseen)

    def unlike(self, result: Callable, *mistakes: tuple, rtol: float = 1e-3) -> None:
        """What `result(f)` gives is near none of these: (sentence, array that a mistake leads to)."""
        for sentence, array in mistakes:
            self.law(sentence, lambda f, array=array: not near(result(f), array, rtol))

    def carries(self, call: Callable, reference: Callable, *sequences: tuple) -> None:
        """The state that is handed in counts, and the answer keeps none between calls.

        call       (function, state, input) -> (what is judged, the state after it), of the answer and of the reference
        reference  a function that does what is asked for
        sequences  (first state, inputs) of sequences

        The answer is given states that it has not made, those of the reference: of all sequences in turn, and once more, the last first.
        """
        self.state = True

        def run():
            asked = []
            for state, given in sequences:
                asked.append([])
                for x in given:
                    expected, after = call(reference, copy.deepcopy(state), x)
                    asked[-1].append((state, x, expected))
                    state = after
            in_turn = [step for steps in zip_longest(*asked) for step in steps if step]
            for state, x, expected in (*in_turn, *reversed(in_turn)):
                got, _ = call(self._call, copy.deepcopy(state), x)
                if same(got, expected, self.rtol):
                    return (
                        f"{self.name} does not use the state that it is given: the same state may come twice,"
                        " and the next one may belong to another sequence, so keep nothing between calls."
                    )
            return None

        self._state(run, _Hidden.now)

    def refuses(self, *args, **kwargs) -> None:
        """For these arguments the answer raises ValueError."""

        unseen = _Hidden.now

        def run():
            try:
                got = self._call(*args, **kwargs)
            except ValueError:
                return None
            return f"This input makes no sense, so raise a ValueError that says why.{self._said(args, kwargs, got, unseen)}"

        self._state(run, unseen)

    def wrong(self, message: str, mistake, *case) -> None:
        """A named mistake, by the value it leads to: tried whenever a value is off.

        mistake  the value for the visible case with the arguments `case`, or for any case that is seen; or a function of the
                 arguments, in the hidden part or where it does not hold the answer

        `...` matches anything. An entry that a dict leaves out is not looked at, unless it comes first: then it has to be right.
        """
        self.mistakes.named.append(Mistake(message, mistake, case))

    def evaluate(self) -> tuple[float, list[str]]:
        """Points earned and the first complaint."""
        self.ahead = []
        for i, run in enumerate(self.todo):
            if not self.ahead:
                cases = takewhile(lambda case: case is not None, (statement.case for statement in self.todo[i:]))
                self.ahead = self._several(list(cases))
            message, fault = raised.attempt(run, self.name)
            if message or fault:
                return 0, [message or fault]
        return self.points, []

    def _call(self, *args, **kwargs):
        self.asked = args, kwargs
        if self.ahead and len(args) == len(self.ahead[-1][0]) and all(map(is_, args, self.ahead[-1][0])):
            got = self.ahead.pop()[1]
        else:
            self.ahead = []
            try:
                got = _called(self.answer, *args, **kwargs)
            except Changed as e:
                if not self.state:
                    raise
                got = e.value
        self.returned = True
        return got

    def _raised(self, error: Exception, is_hidden: bool = False) -> str:
        """What is said of what the answer raised when it was called last."""
        if is_hidden and secret():
            return f"{self.name} raised {raised.kind(error)} for numbers that it has not seen{raised.own_line(error)}."
        args, kwargs = self.asked or ((), {})
        call = self._call_text(args, kwargs) if callable(self.answer) else self.name
        if len(call) > 60 and not raised.unnamed(error):  # what was raised is the news
            return f"{raised.sentence(self.name, error)}. (The call: {call}.)"
        return f"{raised.sentence(call, error)}."

    def _raised_anyway(self) -> str:
        """What the answer raises for the first visible case, if it does: then no law is to blame."""
        for args, kwargs in self.shown[:1]:
            try:
                self._call(*args, **kwargs)
            except Exception as e:
                return self._raised(e) if raised.by_answer(e) else ""
        return ""

    def _state(self, run: Callable, is_hidden: bool, case: tuple | None = None) -> None:
        """Keep a statement; if nobody has seen its numbers, what an answer raises there gives its type only: its text may hold them.

        case  the arguments of the one call that it makes, if that is all
        """

        def told():
            try:
                return run()
            except Exception as e:
                if raised.is_ours(e) or not raised.by_answer(e):
                    raise
                return self._raised(e, is_hidden)

        told.case = case
        self.todo.append(told)

    def _compare(self, expected, args, kwargs, arguments=None, is_hidden=False) -> str | None:
        got = self._call(*args, **kwargs)
        if got is Ellipsis or got is NotImplemented:
            raise NotImplementedError
        where = same(got, expected, self.rtol)
        if where is None:
            return None
        told = self._said(*((), arguments) if arguments else (args, kwargs), got, is_hidden)
        if got is None and callable(self.answer):
            return f"it returns nothing: does every way through it end with `return`?{told}"
        if isinstance(got, Mapping) and len({tuple(e) for e, _ in self.given if isinstance(e, Mapping)}) > 1:
            where = where if set(got) >= set(expected) else "an entry is missing"  # which one is part of the answer
        cases = cache(lambda: list(self._cases()) if callable(self.answer) else [])
        others = lambda: [(c.got, tuple(c.args.values())) for c in cases()]  # noqa: E731
        causes = self.mistakes.leading(got, expected, args, kwargs, is_hidden, others)
        facts = lambda twice: how_off(cases() or [Case({}, got, expected)], self.rtol, self._call, self.ours, twice)  # noqa: E731
        # Three that lead to one value tell less than what the values have in common.
        return _sentence(len(causes) > 2 and facts(None) or either(causes) or facts(self.twice) or where) + told

    def _cases(self) -> Iterator[Case]:
        """Stated cases with what the answer gives for them; no more than take `CASE_SECONDS`."""
        elsewhere = hasattr(type(self.answer), "several")  # in another process, whose time this thread does not see
        clock = time.monotonic if elsewhere else time.thread_time
        until = clock() + CASE_SECONDS
        defaults = [p.default for p in self.parameters.values()]
        filled = [(expected, (*args, *defaults[len(args) :])) for expected, args in self.given]
        given = [
            (expected, dict(zip(self.names, args)))
            for expected, args in filled
            if len(args) == len(self.names) and not any(x is Parameter.empty for x in args)
        ]
        for stated in (lambda: given, *self.settings):
            cases = stated()
            self.ahead = self._several([tuple(named.values()) for _, named in cases])
            for expected, named in cases:
                if clock() > until:
                    return
                with suppress(Exception):
                    yield Case(named, self._call(*named.values()), expected)

    def _said(self, args, kwargs, value, is_hidden: bool) -> str:
        """What was asked and what came. When a class is graded a hidden test gives neither, and a visible one not what came: an
        answer can return what another check has asked it."""
        if not callable(self.answer):
            return "" if secret() else f" (your answer is {shown(value)}.)"
        if secret():
            return "" if is_hidden else f" (this is about {self._call_text(args, kwargs)}.)"
        return f" ({self._call_text(args, kwargs)} returned {shown(value)}.)"

    def _call_text(self, args, kwargs) -> str:
        listed = [shown(a) for a in args] + [f"{k}={shown(v)}" for k, v in kwargs.items()]
        return f"{self.name}({', '.join(listed)})"


def report(exercise: str, *answers: "Answer | Program", insight: str = "") -> float:
    """Print what was found (on stderr if it earns nothing) and return the points earned: the last line of a check cell.

    insight  what to think about after passing, in rot13 so that nobody reads it by accident
    """
    for i, a in enumerate(answers):
        a.draws, a.part = f"{exercise} {i}", len(answers) > 1
    results = [a.evaluate() for a in answers]
    earned, points = sum(e for e, _ in results), sum(a.points for a in answers)
    earned = round(earned * 4) // 1 / 4 if earned < points else points  # partial credit in quarters
    messages = dict.fromkeys(message for _, complaints in results for message in complaints)
    passed = not messages
    wrapped = textwrap.TextWrapper(96, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
    lines = [f"Exercise {exercise}: {earned:g} of {points:g} points", *map(wrapped.fill, messages)]
    part = ", ".join(getattr(a, "name", "") for a in answers)
    begun = any(not message.endswith(("not done yet.", NOT_JUDGED)) for message in messages)
    tries = tried(exercise, passed, begun, part, earned, points)
    place = record.standing_after(exercise, passed) if passed or begun else None  # the start page is brought up to date
    if passed:
        paragraphs = codecs.decode(insight, "rot13").splitlines()
        if place and notebook() is not None:
            record.show_pass(exercise, f"{earned:g} of {points:g} points", paragraphs, place)
            return Points(earned)
        lines += ["", *(textwrap.fill(line, 96) for line in paragraphs)] if insight else []
        lines += ["", place.sentence] if place else []
    elif tries >= TRIES and carries(exercise):
        lines.append(f"  After three tries you may look: check.solution({exercise!r})")
    # nbgrader's Validate repeats what stands on stderr; there it also means no points, so partial credit stays on stdout.
    print("\n".join(lines), file=sys.stderr if earned == 0 and points else sys.stdout)
    return Points(earned)


class _Hidden:
    now = False


def hidden() -> None:
    """What this check states from here on is hidden: to a class it gives its hint and no numbers. The generator writes this call."""
    _Hidden.now = True


def run(cell: Callable) -> Points:
    """The points of a check cell; a sentence instead if there is no answer to judge, or none in time.

    In a notebook the check reads names of its own, apart from the learner's.
    """
    _Hidden.now, raised.check_cell = False, cell.__code__.co_filename
    try:
        why = ""
        if notebook() is not None:
            cell, answers = apart(cell)
            judged(answers, cell.__name__.removesuffix("_check").replace("_", "-"))
            why = broken(answers) or next((missing(n) for n in answers if n not in cell.__globals__), "")
        if not why:
            watched = progress.attended()
            return Points(raised.Watched(cell).result() if watched else cell())
    except Unclear as e:
        why = f"{_sentence(str(e))} {NOT_JUDGED}"
    except KeyboardInterrupt as e:
        if notebook() is None:  # a command is to end
            raise
        why = f"You stopped this check{raised.own_line(e)}. {NOT_JUDGED}"
    except Exception as e:
        if notebook() is None and not isinstance(e, NameError):
            raise
        why = raised.unjudged(e) if notebook() else f"Run the cells above first: {raised.text(e) or raised.kind(e)}."
    finally:
        _Hidden.now = False
    print(why, file=sys.stderr)
    return Points(0)


def _called(answer, *args, **kwargs):
    """The answer's value: that of a function for these arguments, with the formulas closed while it runs.

    Its warnings are not printed: NumPy warns of a NaN that the next line replaces, and nbgrader takes points for anything on stderr.
    """
    if not callable(answer):
        return answer
    away = hasattr(type(answer), "exported_program")  # it runs in another process, where they are closed anyway
    with nullcontext() if away else closed(), nullcontext() if away else raised.limited(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on stderr they cost all points here, and none when a class is graded
        if away:
            return raised.called(answer, args, kwargs)
        own = copied(args)
        value = raised.called(answer, own, kwargs)
    if not as_before(own, args):
        raise Changed(value)
    return value


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


watch()
