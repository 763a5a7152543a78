"""The program of a learner's function at one size, run and held against the right result before anything of it is counted.

    def program(f, T, S, H, C):
        return check.ran(lambda *given: f(*given, C), arrays(rng, T, S, H), dense)

    a.law("an array of the program is as large as all scores", lambda f: program(f, 48, 230, 2, 16).largest < 48 * 230)

What is counted and what is run are one trace: a function that does one thing where it is counted and another where its result
is looked at gives a wrong result, or loses by what is counted. What cannot be counted is refused: callbacks to the host, loops
that do not say how often they run, operations without a rule.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import prod

import jax

try:
    from jax.extend.core import jaxprs_in_params
except ImportError:  # JAX 0.7
    from jax.core import jaxprs_in_params

from helpers import trace
from helpers.trace.jaxpr.equation_costs import MATMULS, VIEWS, is_literal, size
from helpers.trace.jaxpr.walk import CALLS, needed, open_jaxpr, scan_counts

from . import compare
from .raised import Unclear
from .traced_program import WHY

ENDLESS = "a while loop does not say how often it runs, so it cannot be counted: let it run to a plain number"
OPENED = {*CALLS, "scan", "while", "cond", "shard_map"}
"""Primitives that run what they hold in a way that is known here."""

SAME_NUMBERS = {"broadcast_in_dim", "reshape", "transpose", "squeeze", "rev", "convert_element_type", "copy"}
"""Primitives whose result has the numbers of their operand and no others, perhaps each several times."""

LARGEST = 2**28  # numbers of one array in a program that is run, whose arguments are small


class Ran:
    """A program that gave the right result for the arrays that it was traced with; itself a function of such arrays."""

    def __init__(self, f: Callable, arrays: Sequence):
        self.jaxpr, out = jax.make_jaxpr(f, return_shape=True)(*arrays)
        # In JAX's types: int32 for NumPy's int64.
        self.like = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.jaxpr.in_avals]
        self._tree = jax.tree.structure(out)
        _refuse_hidden(self.jaxpr)

    def __call__(self, *arrays):
        return jax.tree.unflatten(self._tree, jax.core.eval_jaxpr(self.jaxpr.jaxpr, self.jaxpr.consts, *arrays))

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of all arrays that it makes, in order; those of every branch of a `cond`."""
        return [x.aval.shape for eqn in _equations(self.jaxpr) for x in eqn.outvars]

    @cached_property
    def origins(self) -> list[tuple]:
        """(equation, of which arguments each operand is made, of which each result) for all that are needed."""
        found, jaxpr = [], open_jaxpr(self.jaxpr)
        _follow(jaxpr, [frozenset([i]) for i in range(len(jaxpr.invars))], found)
        return found

    def made_of(self, *arguments: int) -> list:
        """The arrays, as variables of the program, that are made of all these arguments, counted from 0."""
        needed = frozenset(arguments)
        return [v for eqn, _, gives in self.origins for v, args in zip(eqn.outvars, gives) if needed <= args]

    def shapes_of(self, *arguments: int) -> list[tuple[int, ...]]:
        """Their shapes: scores are made of queries and keys."""
        return [v.aval.shape for v in self.made_of(*arguments)]

    def largest_of(self, *arguments: int) -> int:
        """Numbers in the largest of these."""
        return max(map(prod, self.shapes_of(*arguments)), default=0)

    def made_without(self, *arguments: int, shape: Callable[[tuple], bool]) -> int:
        """Numbers in the arrays of other shapes that are made of all these arguments, loops run out, views not counted.

        Who works C keys at a time makes few of them; a product of that shape that is made for show hides none.
        """
        these = set(self.made_of(*arguments))
        return self._made(lambda eqn: [v for v in eqn.outvars if v in these and not shape(v.aval.shape)])

    def added_over(self, *arguments: int, but: Sequence[int]) -> list[int]:
        """Over how many numbers each product adds that has an operand made of all these arguments and of none of the others.

        In softmax(q · kᵀ) · v those with an operand made of v, not of q, add over the keys that meet a query at a time.
        """
        found = []
        for eqn, takes, _ in self.origins:
            if eqn.primitive.name == "dot_general" and any(_made_of(args, arguments, but) for args in takes):
                shape, ((over, _), _) = eqn.invars[0].aval.shape, eqn.params["dimension_numbers"]
                found.append(prod(shape[i] for i in over))
        return found

    def met_at_once(self, argument: int, by: int, beside: int | None = None) -> int:
        """The most numbers of one argument that an operation joins with another: how many keys a query meets at once, times H.

        A number that is repeated along a new axis counts once; arrays that are only put beside each other do not meet. A sum of
        products meets as many keys as the product that it stands for. Of an array that stacks the argument and the one
        `beside` it, keys and values, half counts.
        """
        most, distinct = 0, {}
        is_asked = lambda args: _made_of(args, [argument], [by])  # noqa: E731
        for eqn, takes, _ in self.origins:
            name, sizes = eqn.primitive.name, [distinct.get(id(v), size(v)) for v in eqn.invars]
            if name in SAME_NUMBERS:
                distinct |= {id(v): sizes[0] for v in eqn.outvars}
            elif name not in OPENED | {"concatenate"} and any(by in args for args in takes):
                meets = [n // (1 + (beside in args)) for n, args in zip(sizes, takes) if is_asked(args)]
                most = max(most, *meets, 0)
        return most

    @property
    def largest(self) -> int:
        """Numbers in the largest array that it makes."""
        return max(map(prod, self.shapes), default=0)

    @cached_property
    def matmul_flops(self) -> float:
        """FLOPs of its products, loops run out."""
        counted = trace.count(self, *self.like)
        if counted.unknown:
            raise Unclear(f"FLOPs of {', '.join(counted.unknown)} are not counted: do without")
        if counted.unknown_trips and counted.matmul_flops:
            raise Unclear(ENDLESS)
        return counted.matmul_flops

    @cached_property
    def beside(self) -> int:
        """Numbers in all arrays that it makes outside of products, loops run out: a product written as a sum of products shows here."""
        return self._made(lambda eqn: [] if eqn.primitive.name in MATMULS else eqn.outvars)

    @cached_property
    def products(self) -> int:
        """How many products it makes, loops run out: who works row by row makes many."""
        return self._counted(lambda v: v.name in MATMULS)

    def _made(self, variables_of: Callable) -> int:
        """Numbers in those arrays of each equation."""
        return self._counted(lambda v: 0 if v.name in VIEWS else sum(map(size, variables_of(v.eqn))))

    def _counted(self, count: Callable) -> int:
        """The sum over all visits, loops run out; of a cond's branches the one with most counts."""

        def total(visits) -> int:
            return sum(v.times * count(v) for v in visits if not v.opens)

        def most(branches, context=None):
            return max(branches, key=lambda b: total(trace.walk(b, choose_branches=most)))

        self._ends()
        return total(trace.walk(self.jaxpr, choose_branches=most))

    def moved(self, M: int) -> trace.Moved:
        """Bytes that it reads from slow memory and writes to it, if arrays of up to M bytes stay on the chip."""
        self._ends()
        return trace.moved(self, *self.like, M=M)

    def _ends(self) -> None:
        """A complaint if a loop does not say how often it runs."""
        if any(v.trips is None for v in trace.walk(self.jaxpr)):
            raise Unclear(ENDLESS)


def _equations(jaxpr) -> Iterator:
    """Every equation that the program needs: those of both branches of a `cond`, and of what nothing else here opens."""
    for eqn in needed(open_jaxpr(jaxpr)):
        yield eqn
        for inside in jaxprs_in_params(eqn.params):
            yield from _equations(inside)


def _refuse_hidden(jaxpr) -> None:
    """A complaint if something works on arrays where nobody looks: on the host, or in a primitive that is not opened."""
    for eqn in _equations(jaxpr):
        name = eqn.primitive.name
        if "callback" in name:
            raise Unclear("what the host does is not looked into: write the program without callbacks")
        rules = [v for inside in jaxprs_in_params(eqn.params) for v in (*inside.invars, *inside.outvars)]
        # A rule for two numbers is no program.
        if name not in OPENED and any(getattr(v.aval, "shape", ()) for v in rules):
            raise Unclear(f"what stands inside {name} is not looked into: write the program without it")


def _made_of(args: frozenset, arguments: Sequence[int], but: Sequence[int]) -> bool:
    """Whether something that is made of `args` is made of all these arguments, and of none of the others."""
    return args.issuperset(arguments) and args.isdisjoint(but)


def _follow(jaxpr, argument_sets: Sequence[frozenset], origins: list) -> list[frozenset]:
    """Of which arguments each result is made, if the jaxpr's own ones are made of `argument_sets`."""
    known = dict.fromkeys(jaxpr.constvars, frozenset()) | dict(zip(jaxpr.invars, argument_sets))
    made_of = lambda v: frozenset() if is_literal(v) else known[v]  # noqa: E731
    for eqn in needed(jaxpr):
        takes = [made_of(v) for v in eqn.invars]
        gives = _through(eqn, takes, origins)
        known.update(zip(eqn.outvars, gives))
        origins.append((eqn, takes, gives))
    return [made_of(v) for v in jaxpr.outvars]


def _through(eqn, operand_sets: list[frozenset], origins: list) -> list[frozenset]:
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS or name == "shard_map":
        return _follow(open_jaxpr(params[CALLS.get(name, "jaxpr")]), operand_sets, origins)
    if name == "scan":
        fixed, carried = scan_counts(eqn)
        return _loop(open_jaxpr(params["jaxpr"]), operand_sets, fixed, carried, frozenset(), origins)
    if name == "while":
        tests, fixed = params["cond_nconsts"], params["body_nconsts"]
        ends = frozenset().union(*operand_sets[:tests])
        body, carried = open_jaxpr(params["body_jaxpr"]), len(operand_sets) - tests - fixed
        return _loop(body, operand_sets[tests:], fixed, carried, ends, origins)
    if name == "cond":
        ways = [_follow(open_jaxpr(b), operand_sets[1:], origins) for b in params["branches"]]
        return [operand_sets[0].union(*made_of) for made_of in zip(*ways)]
    return [frozenset().union(*operand_sets)] * len(eqn.outvars)


def _loop(body, operand_sets, n_constants: int, n_carried: int, end_sets: frozenset, origins) -> list[frozenset]:
    """What is carried is made of more from trip to trip, until nothing is new."""
    state, rest = operand_sets[n_constants : n_constants + n_carried], operand_sets[n_constants + n_carried :]
    while True:
        inside: list = []
        gives = _follow(body, [*operand_sets[:n_constants], *state, *rest], inside)
        before, state = state, [a | b | end_sets for a, b in zip(state, gives)]
        if before == state:
            origins += inside
            return [*state, *gives[n_carried:]]


def once() -> dict[str, int]:
    """For `jax.jit`, of a program that runs once: XLA's optimiser would take longer than the run, by far for an unrolled loop.

    >>> jax.jit(lambda x: 2 * x, compiler_options=once())(21).item()
    42
    """
    return {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else {}


def ran(f: Callable, arrays: Sequence, reference: Callable, rtol: float = 1e-3) -> Ran:
    """The program of `f` for these arrays, after it was run on them and gave what `reference` gives.

    reference  a function of the same arrays; where it gives `...`, anything is right

    Numbers may be off by rtol of their own size, or of a tenth of the largest number if that is more. Otherwise the learner reads
    that the program which is counted is wrong.
    """
    return all_ran(f, [arrays], reference, rtol)[0]


def all_ran(f: Callable, cases: Sequence[Sequence], reference: Callable, rtol: float = 1e-3) -> list[Ran]:
    """`ran` for several lists of arrays: each has a trace of its own, and all run together, for most of the time is XLA's."""
    programs = [Ran(f, arrays) for arrays in cases]
    if too_large := next((program for program in programs if program.largest > LARGEST), None):
        raise Unclear(
            f"for arrays of the shapes {_shapes(too_large)} the program makes an array of {too_large.largest:,} numbers, far too many"
        )
    run = jax.jit(lambda cases: [p(*arrays) for p, arrays in zip(programs, cases)], compiler_options=once())
    for program, arrays, got in zip(programs, cases, run(cases)):
        if where := compare.same(got, reference(*arrays), rtol, zero_tolerance=0.1):
            raise Unclear(
                f"for arrays of the shapes {_shapes(program)} the program that is counted gives a wrong result: {where}. "
                f"If small arrays are right, {WHY}"
            )
    return programs


def _shapes(program: Ran) -> str:
    return ", ".join(str(list(a.shape)) for a in program.like if a.shape)
