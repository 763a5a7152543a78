"""A mistake is written once, as an edit of our answer and what is said of it: the values by which a check knows it are made here.

`a.cases(arguments, arguments, …)` in a check cell becomes what an answer must give for these arguments, `a.gives(…)`, and what each
`mistake` of `autograder/samples/wrong` gives in the first of them in which it shows, `a.wrong(…)`; `only=("ops",)` asks for these
entries of a dict, and `*shown` are the cases of a list that several parts share. Cases of a `check.Program` are whole arrays, small
ones: their values are those of the function that the devices carry out together.
"""

import ast
import contextlib
import io
import math
import signal
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache, partial

from nbformat import NotebookNode

from autograder.places import SourceError
from helpers.check import compare
from helpers.check.compare import selected

from . import bank, kept_values
from .cells import function_name, meta
from .shown_cases import Cases, defined, recorded, stated_cases

PATIENCE = 10  # seconds of a processor for one value: a mistake may run for ever, and the clock would decide by the machine's load
DIGITS = 10  # of a number that is written down; checks compare to 1e-3, some to 1e-9
SINGLE = 7  # of one that is a float32


def fill(cells: list[NotebookNode], mutants: Sequence[bank.Mutant]) -> list[bank.Mutant]:
    """Write the values of cases and mistakes into the check cells of solved exercises; which mutants show in no case.

    mutants  wrong answers to them; SourceError if one names a mistake that no check states cases for
    """
    judging = [c for c in cells if meta(c).get("grade") and ".cases(" in c.source]
    checks = {meta(c)["grade_id"].split("-check")[0]: c for c in judging}
    answers = {meta(c)["grade_id"]: c.source for c in cells if meta(c).get("solution")}
    for mutant in mutants:
        if mutant.mistake and mutant.grade_id in answers.keys() - checks.keys():
            said = f"{mutant.grade_id} has the mistake {mutant.name}, and its check no a.cases(…) in which it shows."
            raise SourceError(said)
    names = cache(lambda: _defined(cells))  # made when a check asks for them
    sources = [c.source for c in cells if c.cell_type == "code" and not meta(c).get("grade")]
    course, unseen = f"{zlib.crc32(' '.join(answers).encode()):08x}", []  # tests have small ones, with the same numbers
    for answer, cell in checks.items():
        mine = [m for m in mutants if m.grade_id == answer]
        make = partial(_made, cell.source, answers[answer], names, mine)
        made_of = (answer, cell.source, sources, mine)
        text, nowhere = kept_values.filled(f"{answer}-{course}", made_of, make)
        cell.source = kept_values.settled(text, kept_values.written(function_name(cell)))
        unseen += [mine[i] for i in nowhere]
    return unseen


def _defined(cells: list[NotebookNode]) -> dict:
    """What our answers define."""
    # An array that an answer makes would start JAX with one device, and a check that asks for eight would be refused.
    from helpers.kernels import mesh

    mesh.devices()
    return defined(cells)


def _made(check: str, answer: str, names: Callable[[], dict], mutants: list[bank.Mutant]) -> tuple[str, list[int]]:
    """The check cell with values, and which mutants show in no case."""
    text, nowhere = filled(check, answer, names(), mutants)
    return text, [mutants.index(m) for m in nowhere]


def filled(check: str, answer: str, scope: dict, mutants: Iterable[bank.Mutant]) -> tuple[str, list[bank.Mutant]]:
    """The check cell with values for its cases, and the mutants whose mistake shows in none of them.

    answer   the source of the cell that it judges
    scope    what our answers define
    mutants  wrong answers to it; those with a `mistake` are named
    """
    statements = [s for s in ast.parse(check).body if _states_cases(s)]
    if not statements:
        return check, []
    made = stated_cases(recorded(check, scope, "shown"))
    if len(made) != len(statements):
        raise SourceError(f"Of {len(statements)} lines with cases {len(made)} could be read: {check.splitlines()[0]}")
    right = _asked_once(scope)
    edited = [(m, _asked_once(_names(m.apply(answer), scope))) for m in mutants if m.mistake]
    lines, shown = check.split("\n"), set()
    for statement, stated in reversed(list(zip(statements, made))):
        written = _written(check, statement.value.args, len(stated.cases))
        ours = [right(stated, args) for args in stated.cases]
        wrong = mistakes(stated, ours, edited)
        name = statement.value.func.value.id
        lines[statement.lineno - 1 : statement.end_lineno] = [
            *(f"{name}.wrong({text(m.mistake)}, {text(value)}, {written[i]})" for m, i, value in wrong),
            *(f"{name}.gives({text(selected(value, stated.only))}, {given})" for value, given in zip(ours, written)),
        ]
        shown.update(m.mistake for m, *_ in wrong)
    return "\n".join(lines), [m for m, _ in edited if m.mistake not in shown]


def nowhere(mutant: bank.Mutant) -> str:
    """What is said of a mistake that shows in no case."""
    return f"{mutant.grade_id}: the mistake {mutant.name} gives what our answer gives in each of the cases: add one in which it shows."


def _states_cases(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "cases"


def _written(source: str, cases: Sequence[ast.expr], count: int) -> list[str]:
    """So many cases, each written as the arguments of a call.

    >>> [_written(t, ast.parse(t).body[0].value.args, 3) for t in ("f((7, 4), s[0])", "f(*s, (8,))")]
    [['7, 4', '*s[0]'], ['*s[0]', '*s[1]', '8']]
    """
    lines, found = source.encode().split(b"\n"), []

    def segment(node: ast.expr) -> str:
        """Its text; `ast.get_source_segment` splits the whole source into lines for each."""
        text = b"\n".join(lines[node.lineno - 1 : node.end_lineno])
        after = len(lines[node.end_lineno - 1]) - node.end_col_offset
        return text[node.col_offset : len(text) - after].decode()

    for case in cases:
        if isinstance(case, ast.Tuple):
            found.append(", ".join(map(segment, case.elts)))
        elif isinstance(case, ast.Starred):
            found += [f"*{segment(case.value)}[{i}]" for i in range(count - len(cases) + 1)]
        else:
            found.append(f"*{segment(case)}")
    return found


def _names(answer: str, scope: dict) -> dict:
    """What a cell defines, beside what the others do."""
    made = dict(scope)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        exec(compile(answer, "<mistake>", "exec"), made)
    return made


def _asked_once(names: dict) -> Callable:
    """What the answer among these names gives for a case; parts share cases, and a value may take long to make."""
    values: dict[tuple, object] = {}

    def ask(stated: Cases, args: tuple):
        name = stated.answer.__name__
        key = name, stated.run, id(args)  # a list of shown cases gives each part the same tuples
        if key not in values:
            values[key] = called(stated.run(names.get(name)), args)
        return values[key]

    return ask


def mistakes(
    stated: Cases, ours: Sequence, edited: Iterable[tuple[bank.Mutant, Callable]]
) -> list[tuple[bank.Mutant, int, object]]:
    """(mutant, number of the case, value) of each that shows, in the first case in which it does.

    A value ends with its first wrong entry, as a learner may have made another mistake as well; it has all that are wrong
    where that one alone would not tell two mistakes apart. Where an answer is asked for some entries, it ends with the first wrong
    one of these, and those before that led there stand in it as well: a mistake in another entry is named only where that is wrong too.
    """
    found = []
    for mutant, ask in edited:
        source = None  # the entry in which the mistake shows first
        for i, (args, expected) in enumerate(zip(stated.cases, ours)):
            value = ask(stated, args)
            wrong = _names_of_wrong(value, expected, stated.rtol)
            source = source or next(iter(wrong), None)
            part = selected(value, stated.only)
            differs = part is not None and compare.same(part, selected(expected, stated.only), stated.rtol) is not None
            if differs and (source in (None, *stated.only) or source in wrong):
                found.append((mutant, i, value))
                break
    first = [wrong_entries(value, ours[i], stated.rtol, True, stated.only) for _, i, value in found]
    said: dict[str, set[str]] = {}
    for (mutant, i, _), value in zip(found, first):
        said.setdefault(text([i, value]), set()).add(mutant.mistake)
    several = {}
    for (mutant, i, value), short in zip(found, first):
        if len(said[text([i, short])]) > 1:
            short = wrong_entries(value, ours[i], stated.rtol)
        several.setdefault((mutant.mistake, i, text(short)), (mutant, i, short))
    return list(several.values())


def called(function: Callable | None, args: tuple):
    """What a function gives; None if it raises or takes too long."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's of a NaN, which a mistake may make
            return function(*deepcopy(args))
    except Exception:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _names_of_wrong(value, expected, rtol: float) -> list[str]:
    """Names of a dict's wrong entries: all where another kind of value is expected, or other entries; none of what is no dict."""
    if not isinstance(value, Mapping):
        return []
    if not isinstance(expected, Mapping) or value.keys() != expected.keys():
        return list(value)
    return [name for name in expected if compare.same(value[name], expected[name], rtol) is not None]


def wrong_entries(value, expected, rtol: float = 1e-3, first: bool = False, only: Sequence[str] = ()):
    """A value with its wrong entries; those before them are right, what comes after is left open.

    first  ends with the first wrong one, of `only` if there are some

    >>> wrong_entries({"a": 1, "b": 3, "c": 4}, {"a": 1, "b": 2, "c": 3}, first=True), wrong_entries((1, 3, 4), (1, 2, 3), first=True)
    ({'b': 3}, (1, 3, Ellipsis))
    >>> wrong_entries((1, 3, 4), (1, 2, 3)), wrong_entries(4, 3), wrong_entries({"a": 2, "b": 3}, {"a": 1, "b": 2}, 0, True, "b")
    ((1, 3, 4), 4, {'a': 2, 'b': 3})
    """
    if isinstance(value, Mapping) and isinstance(expected, Mapping) and value.keys() == expected.keys():
        wrong = _names_of_wrong(value, expected, rtol)
        last = next((i for i, k in enumerate(wrong, 1) if first and k in (only or expected)), len(wrong))
        return {k: value[k] for k in wrong[:last]}
    if isinstance(value, tuple) and isinstance(expected, tuple) and len(value) == len(expected):
        wrong = [i for i, (got, right) in enumerate(zip(value, expected)) if compare.same(got, right, rtol) is not None]
        return tuple(got if i <= wrong[0 if first else -1] else ... for i, got in enumerate(value))
    return value


def text(value, digits: int = DIGITS) -> str:
    """A value as Python.

    >>> text({"a": (1.23456789012, ..., math.inf, 3.0)}), text("it's"), text([True, None, 1e-07])
    ('{"a": (1.23456789, ..., math.inf, 3.0)}', '"it\\'s"', '[True, None, 1e-07]')
    """
    if value is ...:
        return "..."
    if isinstance(value, str):
        return repr(value) if '"' in value or "\\" in value else f'"{value}"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(k)}: {text(v, digits)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        inner = ", ".join(text(v, digits) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if 0 in getattr(value, "shape", ()):  # a list would say nothing of the other sizes
        return f"np.zeros({text(tuple(value.shape))})"
    if hasattr(value, "tolist"):  # NumPy's and JAX's
        digits = SINGLE if str(value.dtype) == "float32" else digits
        return f"np.array({text(value.tolist(), digits)})" if value.ndim else text(value.item(), digits)
    if isinstance(value, float):
        known = math.isfinite(value)
        return repr(float(f"{value:.{digits}g}")) if known else f"math.{value}".replace("math.-", "-math.")
    return repr(value)
