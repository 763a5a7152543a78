"""Code of an exercise as a page prints it: signatures without a body that raises, and lines that fit."""

import ast
import re
import subprocess
import sys
import textwrap

WIDTH = 80
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


def signature(source: str) -> str:
    """The cell of an answer: what is given stays, and of each function its signature and docstring.

    >>> print(signature('def f(x):\\n    # YOUR CODE HERE\\n    raise NotImplementedError()'))
    def f(x): ...
    """
    lines = [line for line in source.split("\n") if line.strip() not in STUB]
    text = re.sub(r"^( *(?:def|class) .*:)$(?!\n\s+\S)", r"\1 ...", "\n".join(lines).rstrip(), flags=re.M)
    try:
        return fitted(text)
    except SyntaxError:  # the gap is in another block, and something has to stand there
        return source.replace(f"{STUB[0]}\n", "...\n", 1).replace(STUB[1], "").rstrip()


def given(source: str) -> str:
    """Code that an exercise hands out, without lines that only print or draw something."""
    lines, body = source.split("\n"), ast.parse(source).body
    for node in body:
        if isinstance(node, ast.Expr):
            lines[node.lineno - 1 : node.end_lineno] = [None] * (node.end_lineno - node.lineno + 1)
    return fitted("\n".join(line for line in lines if line is not None).strip("\n"))


def fitted(code: str) -> str:
    """Python whose lines fit: docstrings are wrapped here, and the rest by ruff."""
    lines = re.sub(r" +# (?:fmt: skip|noqa\b.*)$", "", code, flags=re.M).split("\n")
    for node in sorted(ast.walk(ast.parse("\n".join(lines))), key=lambda n: -getattr(n, "lineno", 0)):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno
            lines[first:last] = [part for line in lines[first:last] for part in _wrapped(line)]
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={WIDTH}", "-"]
    text = subprocess.run(ruff, input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    return text.rstrip().replace("\n\n\n", "\n\n")


def _wrapped(line: str) -> list[str]:
    """A line of a docstring; what explains a name goes on below its explanation."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * len(re.match(r" *(?:\S+(?:,? \S+)*? {2,})?", line)[0])
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
