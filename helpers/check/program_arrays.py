"""The arrays of a program: all that it makes, in whatever it contains, and of which arguments each is made."""

from collections.abc import Iterator, Sequence
from math import prod

from jax.extend.core import jaxprs_in_params

from helpers.trace.jaxpr.equation_costs import is_literal, size
from helpers.trace.jaxpr.walk import CALLS, needed, open_jaxpr, scan_counts

from .raised import Unclear

OPENED = {*CALLS, "scan", "while", "cond", "shard_map"}
"""Primitives that run what they hold in a way that is known here."""

SAME_NUMBERS = {"broadcast_in_dim", "reshape", "transpose", "squeeze", "rev", "convert_element_type", "copy"}
"""Primitives whose result has the numbers of their operand and no others, perhaps each several times."""


def equations(jaxpr) -> Iterator:
    """Every equation that the program needs: those of both branches of a `cond`, and of what nothing else here opens."""
    for eqn in needed(open_jaxpr(jaxpr)):
        yield eqn
        for inside in jaxprs_in_params(eqn.params):
            yield from equations(inside)


def refuse_hidden(jaxpr) -> None:
    """A complaint if something works on arrays where nobody looks: on the host, or in a primitive that is not opened."""
    for eqn in equations(jaxpr):
        name = eqn.primitive.name
        if "callback" in name:
            raise Unclear("what the host does is not looked into: write the program without callbacks")
        rules = [v for inside in jaxprs_in_params(eqn.params) for v in (*inside.invars, *inside.outvars)]
        if name not in OPENED and any(
            getattr(v.aval, "shape", ()) for v in rules
        ):  # a rule for two numbers is no program
            raise Unclear(f"what stands inside {name} is not looked into: write the program without it")


def made_of(jaxpr, which: Sequence[int]) -> list:
    """The arrays, as variables of the program, that are made of all these arguments, counted from 0."""
    return [v for eqn, _, gives in _origins(jaxpr) for v, of in zip(eqn.outvars, gives) if frozenset(which) <= of]


def added_over(jaxpr, these: Sequence[int], but: Sequence[int]) -> list[int]:
    """Over how many numbers each product adds that has an operand made of all these arguments and of none of the others."""
    found = []
    for eqn, takes, _ in _origins(jaxpr):
        if eqn.primitive.name == "dot_general" and any(
            frozenset(these) <= of and not of & frozenset(but) for of in takes
        ):
            shape, ((over, _), _) = eqn.invars[0].aval.shape, eqn.params["dimension_numbers"]
            found.append(prod(shape[i] for i in over))
    return found


def met_at_once(jaxpr, these: Sequence[int], by: Sequence[int], beside: Sequence[int] = ()) -> list[int]:
    """How many numbers made of all these arguments, and of none of `by`, each operation joins with what is made of all of `by`.

    A number that is repeated along a new axis counts once; arrays that are only put beside each other do not meet. An array
    that is made of `beside` as well has as many numbers of each, as where keys and values are stacked.
    """
    found, distinct = [], {}
    for eqn, takes, _ in _origins(jaxpr):
        name, sizes = eqn.primitive.name, [distinct.get(id(v), size(v)) for v in eqn.invars]
        if name in SAME_NUMBERS:
            distinct |= {id(v): sizes[0] for v in eqn.outvars}
        elif name not in OPENED | {"concatenate"} and any(frozenset(by) <= of for of in takes):
            meets = [(n, of) for n, of in zip(sizes, takes) if frozenset(these) <= of and not of & frozenset(by)]
            found += [n // (1 + len(of & frozenset(beside))) for n, of in meets]
    return found


def _origins(jaxpr) -> list[tuple]:
    """(equation, of which arguments each operand is made, of which each result) for all that are needed."""
    found: list[tuple] = []
    top = open_jaxpr(jaxpr)
    _follow(top, [frozenset([i]) for i in range(len(top.invars))], found)
    return found


def _follow(jaxpr, given: Sequence[frozenset], found: list) -> list[frozenset]:
    """Of which arguments each result is made, if the jaxpr's own ones are made of `given`."""
    known = dict.fromkeys(jaxpr.constvars, frozenset()) | dict(zip(jaxpr.invars, given))
    of = lambda v: frozenset() if is_literal(v) else known[v]  # noqa: E731
    for eqn in needed(jaxpr):
        takes = [of(v) for v in eqn.invars]
        gives = _through(eqn, takes, found)
        known.update(zip(eqn.outvars, gives))
        found.append((eqn, takes, gives))
    return [of(v) for v in jaxpr.outvars]


def _through(eqn, takes: list[frozenset], found: list) -> list[frozenset]:
    name, of = eqn.primitive.name, eqn.params
    if name in CALLS or name == "shard_map":
        return _follow(open_jaxpr(of[CALLS.get(name, "jaxpr")]), takes, found)
    if name == "scan":
        fixed, carried = scan_counts(eqn)
        return _loop(open_jaxpr(of["jaxpr"]), takes, fixed, carried, frozenset(), found)
    if name == "while":
        tests, fixed = of["cond_nconsts"], of["body_nconsts"]
        ends = frozenset().union(*takes[:tests])
        return _loop(open_jaxpr(of["body_jaxpr"]), takes[tests:], fixed, len(takes) - tests - fixed, ends, found)
    if name == "cond":
        ways = [_follow(open_jaxpr(b), takes[1:], found) for b in of["branches"]]
        return [takes[0].union(*made_of) for made_of in zip(*ways)]
    return [frozenset().union(*takes)] * len(eqn.outvars)


def _loop(body, takes, fixed: int, carried: int, ends: frozenset, found) -> list[frozenset]:
    """What is carried is made of more from trip to trip, until nothing is new."""
    state, rest = takes[fixed : fixed + carried], takes[fixed + carried :]
    while True:
        inside: list = []
        gives = _follow(body, [*takes[:fixed], *state, *rest], inside)
        before, state = state, [a | b | ends for a, b in zip(state, gives)]
        if before == state:
            found += inside
            return [*state, *gives[carried:]]
