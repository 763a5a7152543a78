"""Fewer names in the JavaScript that `jaxpr_to_javascript` writes: a number that is used once stands where it is used.

The operations and their order stay, so no result changes by a bit; the text shrinks by about half.
"""

import re
from collections import Counter

NAME = re.compile(r"(?<![\w.$])[a-z]+(?![\w$])")
BLOCK = re.compile(r"(?<=const )(?=[a-z])[^;]*(?=;\n)")
ATOM = r"(?:[a-z]+|\d[\d.]*(?:e-?\d+)?|\(-[\d.]+(?:e-?\d+)?\)|Infinity)(?:\[\d+\])?"
PAIR = re.compile(f"({ATOM})([-+*/])({ATOM})")
CALL = re.compile(rf"(?:Math\.\w+|[EA])\({ATOM}(?:,{ATOM})*\)")
LOOSE, SUM, PRODUCT, CLOSED = range(4)  # how tightly the parts of an expression hold together


def folded(source: str) -> str:
    r"""The source of a function with every number that is used once, in the same statement, put where it is used.

    >>> folded("(a,b,c)=>{\nconst d=a/b,\ne=2*d,\ng=e+c;\nreturn g}")
    '(a,b,c)=>{\nconst g=2*(a/b)+c;\nreturn g}'
    >>> folded("(a)=>{\nconst b=a-1,\nc=a-b,\nd=c*c;\nreturn [d,b]}")
    '(a)=>{\nconst b=a-1,\nc=a-b,\nd=c*c;\nreturn [d,b]}'
    """
    counts = Counter(NAME.findall(source))
    return BLOCK.sub(lambda match: _statement(match[0], counts), source)


def _statement(text: str, counts: Counter) -> str:
    lines = [line.split("=", 1) for line in text.split(",\n")]
    here = {n for _, e in lines if "=>" not in e for n in NAME.findall(e)}
    waiting: dict[str, tuple[str, int]] = {}
    out = []
    for name, expression in lines:
        expression, level = _filled(expression, waiting) if "=>" not in expression else (expression, LOOSE)
        if counts[name] == 2 and name in here and "=>" not in expression and expression[0] != "[":
            waiting[name] = expression, level
        else:
            out.append(f"{name}={expression}")
    return ",\n".join(out)


def _filled(expression: str, waiting: dict) -> tuple[str, int]:
    """An expression with what waited for it, and how tightly it holds together."""

    def put(least: int):
        def one(match: re.Match) -> str:
            text, level = waiting.pop(match[0], (match[0], CLOSED))
            return text if level >= least else f"({text})"

        return one

    if pair := PAIR.fullmatch(expression):
        left, sign, right = pair.groups()
        level = SUM if sign in "+-" else PRODUCT
        parts = [
            NAME.sub(put(CLOSED if operand.endswith("]") else least), operand)
            for operand, least in ((left, level), (right, level + 1))
        ]
        return sign.join(parts), level
    if CALL.fullmatch(expression):
        return NAME.sub(put(LOOSE), expression), CLOSED
    return NAME.sub(put(CLOSED), expression), CLOSED if NAME.fullmatch(expression) else LOOSE
