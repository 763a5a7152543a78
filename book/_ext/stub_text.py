"""Code of an exercise as a page prints it: signatures without a body that raises, and lines that fit."""

import ast
import io
import re
import textwrap
import tokenize

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
    """Python whose lines fit, as far as signatures, tables, docstrings and comments at the end of a line can be broken."""
    lines = _comments_above(re.sub(r" +# (?:fmt: skip|noqa\b.*)$", "", code, flags=re.M))
    for node in sorted(ast.walk(ast.parse("\n".join(lines))), key=lambda n: -getattr(n, "lineno", 0)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[0]
            if ast.get_docstring(node):
                lines[body.lineno - 1 : body.end_lineno] = [
                    part for line in lines[body.lineno - 1 : body.end_lineno] for part in _wrapped(line)
                ]
            first, last = node.lineno - 1, body.lineno - 1
            while last > first and lines[last - 1].lstrip().startswith("#"):
                last -= 1
            head = " ".join(line.strip() for line in lines[first:last])
            if head and "#" not in head:
                lines[first:last] = _signature(" " * node.col_offset + head)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and node.lineno == node.end_lineno:
            lines[node.lineno - 1] = _table(lines[node.lineno - 1])
    return "\n".join(lines)


def _comments_above(code: str) -> list[str]:
    """Lines, with the comment at the end of a line that is too long in front of it."""
    ends, out = {}, []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            ends[token.start[0]] = token.start[1]
    for i, line in enumerate(code.split("\n"), 1):
        if len(line) > WIDTH and i in ends and line[: ends[i]].strip():
            out.append(" " * (len(line) - len(line.lstrip())) + line[ends[i] :])
            line = line[: ends[i]].rstrip()
        out.append(line)
    return out


def _wrapped(line: str) -> list[str]:
    """A line of a docstring; what explains a name goes on below its explanation."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * len(re.match(r" *(?:\S+(?:,? \S+)*? {2,})?", line)[0])
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _signature(line: str) -> list[str]:
    """A `def` on one line if it fits, or with its parameters below.

    >>> print(*_signature(f"def f(x: tuple[int, ...], {'y' * 45}: int) -> tuple[float, ...]:"), sep="\\n")  # doctest: +ELLIPSIS
    def f(
        x: tuple[int, ...], yyyy...: int
    ) -> tuple[float, ...]:
    """
    found = re.fullmatch(r"( *)(def \w+\()(.*?),? ?(\)(?: -> .*)?:.*)", line)
    if not found:
        return [line]
    indent, head, inner, tail = found.groups()
    whole = f"{indent}{head}{inner.strip()}{tail}"
    if len(whole) <= WIDTH:
        return [whole]
    parts = _split(inner)
    one = f"{indent}    {', '.join(parts)}"
    body = [one] if len(one) <= WIDTH else [f"{indent}    {part}," for part in parts]
    return [indent + head, *body, indent + tail]


def _table(line: str) -> str:
    """A dict with an entry on each line, if it is too long for one."""
    found = re.fullmatch(r"(\w+ = \{)(.*)\}", line)
    if len(line) <= WIDTH or not found:
        return line
    return "\n".join([found[1], *(f"    {part}," for part in _split(found[2])), "}"])


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
