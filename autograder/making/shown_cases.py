"""What the site shows of a check: its first visible cases, and inputs to try. It goes into the metadata of the check cell.

nbgrader's checksum does not count metadata, and no grading reads this.
"""

import ast
import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from operator import itemgetter
from typing import NamedTuple

from nbformat import NotebookNode, from_dict

from autograder.engine.cell_names import free_names
from helpers.check.shown_checks import Recorder, Stated
from helpers.check.traced_program import own

from . import whole_arrays
from .cells import AFRESH, meta
from .tried_numbers import DRAWN, entries, settings, to_try

SHOWN = 2  # visible cases
AGAIN = 5  # inputs for review: one for each time that a card comes before it is known for good
MOST = {"given": 12, "results": 8, "letters": 70}  # parameters, numbers of a result, letters of one value


class Cases(NamedTuple):
    """Arguments for which the values of an answer are to be stated."""

    answer: Callable
    run: Callable  # the function of these arguments that an answer makes: the answer itself, or a program of many devices
    rtol: float
    cases: tuple[tuple, ...]
    only: Sequence[str]  # entries of a dict that this answer is asked for; all if there are none


def stated_cases(made: list[Stated]) -> list[Cases]:
    """All lines with cases, in the order of the check cell."""
    lines = [(said.turn, one.answer, one.given, said) for one in made for said in one.of_kind("cases")]
    return [
        Cases(answer, program(given), given.get("rtol", 1e-3), said.args, (said.kwargs or given).get("only", ()))
        for _, answer, given, said in sorted(lines, key=itemgetter(0))
    ]


def program(given: dict) -> Callable:
    """What an answer is run as: itself, or over the devices of a `check.Program`."""
    if "mesh" not in given:
        return itself
    ins, out = own(given["in_specs"]), own(given["out_specs"])
    dtype, static = given.get("dtype", "bf16"), given.get("static", ())
    return lambda f: whole_arrays.program(f, given["mesh"], ins, out, dtype, static)


def itself(answer: Callable) -> Callable:
    return answer


def recorded(source: str, scope: dict, seed: str) -> list[Stated]:
    """The answers of a check cell, with what is stated of them; `scope` has the names that the cell needs.

    seed  of what the cell draws itself
    """
    recorder = Recorder(lambda n, name, draws: settings(draws, f"{seed} {name}"))
    with suppress(Exception):  # a check may need more than these; then what it has stated so far counts
        exec(compile(source.replace(AFRESH, ""), "<check>", "exec"), {**scope, "check": recorder})
    return recorder.made


def drawn(source: str, made: list[Stated], given: list[str], grade_id: str, scope: dict) -> list[tuple]:
    """Arguments as the hidden tests draw them: from `equals`, or what they state otherwise with one seed and not with another."""
    draws = (said.kwargs for one in made for said in one.of_kind("equals"))
    draws = next((d for d in draws if len(d) == len(given)), None)
    if draws:
        found = [tuple(setting.values()) for setting in settings(draws, grade_id)]
    elif "check.inputs" in source or "check.with_edges" in source:
        fixed = set(map(repr, hidden(recorded(source, scope, "other"))))
        found = [args for args in hidden(made) if repr(args) not in fixed and len(args) == len(given)]
        found = list({repr(args): args for args in found}.values())[:DRAWN]
    else:
        found = []
    return [args for args in found if None not in (text(x, scope, exact=True) for x in args)]


def hidden(made: list[Stated]) -> list[tuple]:
    """The arguments of the hidden cases."""
    return [said.args[1:] for one in made for said in one.of_kind("gives") if said.unseen and not said.kwargs]


def defined(cells: Iterable[NotebookNode]) -> dict:
    """What the cells of a solved notebook define; nothing is drawn or printed, and no device is started."""
    scope: dict = {"__name__": "__main__"}
    for cell in cells:
        if cell.cell_type != "code" or meta(cell).get("grade") or meta(cell).get("grade_id", "").endswith("-setup"):
            continue
        body = [n for n in ast.parse(cell.source).body if not isinstance(n, ast.Expr)]
        body = [n for n in body if "mesh.devices" not in ast.unparse(n)]
        # A loop may print a table; an edition's own cell may need what is left out, and its exercise then shows no case.
        with suppress(Exception), redirect_stdout(io.StringIO()):
            exec(compile(ast.Module(body, []), "<answer>", "exec"), scope)
    return scope


def add(nb: NotebookNode) -> dict[str, dict]:
    """Put cases and hashes into the check cells of a solved notebook; by grade_id what is drawn for review, which stays out of them."""
    scope, own, review = defined(nb.cells), {}, {}
    for cell in nb.cells:
        grade_id = meta(cell).get("grade_id", "")
        exercise = grade_id[: len("ch01-q01")]
        if cell.cell_type != "code" or not grade_id:
            continue
        if meta(cell).get("solution"):
            functions = [n.name for n in ast.parse(cell.source).body if isinstance(n, ast.FunctionDef)]
            own[exercise] = own.get(exercise, set()) | {n for n in functions if n in scope and _plain(scope[n])}
        elif meta(cell).get("grade"):
            if free_names(cell.source) & own.get(exercise, set()) and (found := of_check(cell.source, grade_id, scope)):
                again = found.pop("again")
                review[grade_id] = {**found, **again}
                cell.metadata["course"] = from_dict(cell.metadata.get("course", {}) | found)
    return review


def _plain(answer: Callable) -> bool:
    """Whether neither an array nor a function goes in or comes out, as the signature says; a tuple of what it does not say is of arrays."""
    said = str(inspect.signature(answer))
    return not said.endswith((" -> tuple", " -> list")) and not any(word in said for word in ("rray", "Callable", "*"))


def of_check(source: str, grade_id: str, scope: dict) -> dict | None:
    """Parameters, names of results, visible cases and inputs to try of the function that a check judges, as text."""
    made = recorded(source, scope, grade_id)
    made = [a for a in made if inspect.isfunction(a.answer) and scope.get(a.answer.__name__) is a.answer]
    made = [a for a in made if "mesh" not in a.given]
    if len({a.answer for a in made}) != 1 or not _plain(answer := made[0].answer):
        return None
    signature = inspect.signature(answer)
    given = list(signature.parameters)
    if not 0 < len(given) <= MOST["given"]:
        return None
    cases = visible(made, signature, scope)
    mistakes = [m for a in made for said in a.of_kind("wrong") for m in said.args[1:2] if callable(m)]
    tried = to_try(answer, drawn(source, made, given, grade_id, scope), grade_id, mistakes)
    tried = [([text(x, scope) for x in args], hashes) for args, hashes in tried]
    review = f"review {grade_id}"  # other draws, so that who has tried the page's has not seen these
    other = drawn(source, recorded(source, scope, review), given, review, scope)
    again = to_try(answer, other, review, mistakes, AGAIN)
    again = [{"given": [text(x, scope) for x in args], "hashes": hashes} for args, hashes in again]
    names = list(dict.fromkeys(name for _, result in [*cases, *tried] for name in result))
    if not names or len(names) > MOST["results"]:
        return None
    return {
        "answer": answer.__name__,
        "given": given,
        "results": [list(pair) for pair in zip(names, labels(names, inspect.getdoc(answer) or ""))],
        "cases": [{"given": args, "gives": result} for args, result in cases],
        "numbers": [{"given": args, "hashes": hashes} for args, hashes in tried],
        "again": {"numbers": again, "doc": inspect.getdoc(answer) or ""},
    }


def visible(made: list[Stated], signature: inspect.Signature, scope: dict) -> list[tuple[list[str], dict[str, str]]]:
    """The first visible cases that are short enough to print: the arguments, and the entries of the result by name."""
    found: dict[tuple, dict] = {}  # several answers may state parts of one result
    for said in (said for one in made for said in one.of_kind("gives") if not said.unseen):
        expected, *args = said.args
        bound = signature.bind(*args, **said.kwargs)
        bound.apply_defaults()
        printed = tuple(text(x, scope) for x in bound.arguments.values())
        told = {n: text(x, scope) for n, x in entries(expected).items() if x is not ...}
        found.setdefault(printed, {}).update(told if expected is not None else {})
    short = [(list(args), result) for args, result in found.items() if None not in (*args, *result.values())]
    most = max((len(result) for _, result in short), default=0)
    return [(args, result) for args, result in short if result and len(result) == most][:SHOWN]


def labels(names: list[str], doc: str) -> list[str]:
    """What to call the entries of a result: their keys, or what the docstring calls the places of a tuple.

    >>> labels(["1", "2"], "(lower, upper): seconds with overlap, and without.")
    ['lower', 'upper']
    >>> labels(["bytes"], ""), labels([""], "FLOPs."), labels(["1", "2"], "Two numbers.")
    (['bytes'], ['result'], ['result 1', 'result 2'])
    """
    if not all(name.isdigit() for name in names):
        return [name or "result" for name in names]
    said = re.match(r"\(((?:[^()]|\([^()]*\))*)\)", doc)
    parts = [part.strip() for part in re.split(r",(?![^(]*\)) ", said[1])] if said else []
    if [str(i) for i in range(1, len(parts) + 1)] == sorted(names) and all(len(part) <= 32 for part in parts):
        return [parts[int(name) - 1] for name in names]
    return [f"result {name}" for name in names]


def text(x: object, scope: dict, inside: bool = False, exact: bool = False) -> str | None:
    """A value as a page prints it, None if it is long; a table that has a name in the notebook, and a chip, by that name.

    exact  None, too, if what is printed is not the whole value

    >>> text(3.94e14, {}), text(273678336, {}), text((2, 16), {}), text({"bf16": 1.97e14}, {}), text("memory", {}), text(1.0, {})
    ('3.94e14', '273,678,336', '(2, 16)', '{"bf16": 1.97e14}', '"memory"', '1')
    """
    tables = (n for n, v in scope.items() if n.isupper() and type(v) is type(x) and v == x)
    named = isinstance(x, (Mapping, list)) and next(tables, None)
    if named or type(x).__name__ == "Chip":
        return named or x.name
    if isinstance(x, str):
        said = f'"{x}"'
    elif isinstance(x, bool) or x is None:
        said = str(x)
    elif isinstance(x, int):
        said = str(x) if inside or abs(x) < 10_000 else f"{x:,}"
    elif isinstance(x, float):
        if exact and float(f"{x:.6g}") != x:
            return None
        said = "∞" if x == float("inf") else re.sub(r"e\+?(-?)0*", r"e\1", f"{x:.6g}")
    elif isinstance(x, (tuple, list, Mapping)):
        said = _several(x, lambda v: text(v, scope, True, exact))
    else:
        said = None
    return said if said and len(said) <= MOST["letters"] else None


def _several(x: tuple | list | Mapping, one: Callable) -> str | None:
    """A tuple, list or dict as Python prints it, by the text of its values."""
    inner = [one(v) for v in (x.values() if isinstance(x, Mapping) else x)]
    if None in inner:
        return None
    if isinstance(x, Mapping):
        return "{" + ", ".join(f"{one(k)}: {v}" for k, v in zip(x, inner)) + "}"
    if isinstance(x, tuple):
        return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
    return f"[{', '.join(inner)}]"
