"""Wrong answers made by machine from a right one: one operator, factor, comparison, rounding, index, term or edge is changed.

Libraries of mutation testing (mutmut, cosmic-ray) change packages and run their tests; here one cell is changed, and its own
check judges it.
"""

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from autograder.making.bank import REGION

OPERATORS = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
PAIRS = (("min", "max"), ("ceil", "floor"), ("any", "all"), ("minimum", "maximum"))
NAMES = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
ROUNDING = ("ceil", "floor", "round", "trunc", "int")


@dataclass(frozen=True)
class Change:
    """One change: the line of the cell, what stood there, what stands there now, and the whole cell with it."""

    line: int
    old: str
    new: str
    source: str

    def __str__(self):
        return f"{self.old} → {self.new}"


def changes(cell: str) -> list[Change]:
    """Every change of the solution in an answer cell, each a cell that still parses.

    >>> cell = "def f(a, b):\\n    ### BEGIN SOLUTION\\n    return 2 * a\\n    ### END SOLUTION\\n"
    >>> [str(c) for c in changes(cell)]
    ['return 2 * a → return round(2 * a)', '2 * a → 2 / a', '2 * a → 2', '2 * a → a', '2 → 4', '2 → 3', '2 → 1']
    """
    tree = ast.parse(cell)
    inside = {n for m in REGION.finditer(cell) for n in range(_line(cell, m.start(2)), _line(cell, m.end(2)))}
    found, seen = [], {ast.unparse(tree)}
    for place, node in enumerate(ast.walk(tree)):
        if getattr(node, "lineno", 0) not in inside:
            continue
        for new in _others(node):
            source = ast.unparse(_with(tree, place, new))
            if source not in seen:
                seen.add(source)
                found.append(Change(node.lineno, _short(node), _short(new), source))
    return found


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else text[:57] + "…"


def _with(tree: ast.AST, index: int, new: ast.AST) -> ast.AST:
    """A copy of the tree with another node at that place of `ast.walk`."""
    copy = deepcopy(tree)
    old = next(n for i, n in enumerate(ast.walk(copy)) if i == index)
    for parent in ast.walk(copy):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(x is old for x in value):
                setattr(parent, name, [new if x is old else x for x in value])
    return ast.fix_missing_locations(copy)


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
    match node:
        case ast.BinOp(left=a, op=op, right=b):
            yield from (ast.BinOp(a, other(), b) for other in OPERATORS.get(type(op), ()))
            yield a  # a term or a factor is dropped
            if not isinstance(op, ast.Pow | ast.Mod | ast.FloorDiv):
                yield b
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            yield from (ast.Compare(a, [other()], [b]) for other in COMPARISONS.get(type(op), ()))
        case ast.Constant(value=bool(x)):
            yield ast.Constant(not x)
        case ast.Constant(value=float(x)):
            yield from (ast.Constant(y) for y in (2 * x, x / 2))
        case ast.Constant(value=int(x)):
            yield from (ast.Constant(y) for y in dict.fromkeys((2 * x, x + 1, x - 1)) if y != x)
        case ast.UnaryOp(operand=x):
            yield x
        case ast.IfExp(body=yes, orelse=no):
            yield yes
            yield no
        case ast.If():
            yield from (ast.If(ast.Constant(x), node.body, node.orelse) for x in (True, False))
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            yield from values
        case ast.Call():
            yield from _other_calls(node)
        case ast.Subscript(value=value, slice=ast.Slice(lower=low, upper=high, step=step)):
            one = ast.Constant(1)
            if high is not None:
                yield ast.Subscript(value, ast.Slice(low, ast.BinOp(high, ast.Add(), one), step), node.ctx)
                yield ast.Subscript(value, ast.Slice(low, ast.BinOp(high, ast.Sub(), one), step), node.ctx)
            if low is not None:
                yield ast.Subscript(value, ast.Slice(ast.BinOp(low, ast.Add(), one), high, step), node.ctx)
        case ast.Return(value=ast.BinOp() as x):
            yield ast.Return(ast.Call(ast.Name("round"), [x], []))


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    f = node.func
    name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
    if name in NAMES:
        other = ast.Attribute(f.value, NAMES[name], f.ctx) if isinstance(f, ast.Attribute) else ast.Name(NAMES[name])
        yield ast.Call(other, node.args, node.keywords)
    if name in ("min", "max", "minimum", "maximum") and len(node.args) == 2:
        yield from node.args  # an edge is dropped
    if name in ROUNDING and node.args:
        yield node.args[0]
    for i, k in enumerate(node.keywords):
        if k.arg == "axis" and isinstance(k.value, ast.Constant) and k.value.value in (0, 1, -1):
            other = ast.keyword("axis", ast.Constant(0 if k.value.value else 1))
            yield ast.Call(f, node.args, [*node.keywords[:i], other, *node.keywords[i + 1 :]])
