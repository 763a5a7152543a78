"""The chapters' questions in a notebook: the question, a cell for the guess, a folded one that replies, the answer to unfold."""

import json
import re
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.places import SourceError
from helpers.check.questions import WITHIN, Question, number, parse

from .links import Links
from .myst_to_commonmark import options, plain, split_blocks, translate


def translated(text: str, links: Links, target: str, names: Iterator[str]) -> list[NotebookNode]:
    """The cells of one of a source's markdown cells: one, or more where it asks.

    names  of the source's questions that come from here on
    """
    cells: list[NotebookNode] = []
    part: list[str] = []
    for kind, argument, body in split_blocks(text.split("\n")):
        if kind == "ask":
            found, body = options(body)
            try:
                question = parse(body, found.get("unit"), float(found.get("within", WITHIN)))
            except ValueError as error:
                raise SourceError(str(error)) from error
            part += _asked(question)
            cells += [_markdown(part, links, target), *_code(question, links, target, next(names))]
            part = _answer(question)
        else:
            as_it_stood = [f"::::::{{{kind}}} {argument}".rstrip(), *body, "::::::"]
            part += body if kind in ("text", "code") else as_it_stood
    if any(line.strip() for line in part):
        cells.append(_markdown(part, links, target))
    return cells


def _markdown(lines: list[str], links: Links, target: str) -> NotebookNode:
    return new_markdown_cell(re.sub(r"\n{3,}", "\n\n", translate("\n".join(lines), links, target)))


def _letters(question: Question) -> list[str]:
    return [chr(ord("a") + i) for i in range(len(question.replies))]


def _asked(question: Question) -> list[str]:
    lines = ["", f"**Question.** {question.text}", ""]
    if question.unit is None:
        lines += [f"* ({letter}) {reply.value}" for letter, reply in zip(_letters(question), question.replies)]
    return [*lines, ""]


def _code(question: Question, links: Links, target: str, name: str) -> list[NotebookNode]:
    """The cell for the guess, and the folded one that replies to it."""
    if question.unit is None:
        keys = [repr(letter) for letter in _letters(question)]
        wanted, more = f"{', '.join(keys[:-1])} or {keys[-1]}".replace("'", '"'), ""
        keys = [key.replace("'", '"') for key in keys]
    else:
        keys = [f"{number(reply.value):.12g}" for reply in question.replies]
        wanted = f"a number ({question.unit})" if question.unit else "a number"
        more = f', unit="{question.unit}"' + (f", within={question.within}" if question.within != WITHIN else "")
    told = [plain(translate(reply.text, links, target)).replace("\n", " ") for reply in question.replies]
    right = next(key for key, reply in zip(keys, question.replies) if reply.right)
    replies = "".join(f"    {key}: {json.dumps(text, ensure_ascii=False)},\n" for key, text in zip(keys, told))
    # Taken away, so that the next question is not answered by it.
    taken = 'globals().pop("guess", None)'
    begins = "# Replies to your guess: run with Shift+Enter.\nfrom helpers import check\n\n"
    more += f', name="{name}"'
    reply = f"{begins}check.question({taken}, {{\n{replies}}}, right={right}{more})"
    return [
        new_code_cell(f"guess = None     # {wanted}; then run this cell and the next"),
        new_code_cell(reply, metadata={"tags": ["hide-input"]}),
    ]


def _answer(question: Question) -> list[str]:
    right = question.right
    shown = right.value if question.unit is None else f"{right.value} {question.unit}".strip()
    return ["::::::{dropdown} Answer", f"{shown}: {right.text}", "::::::", ""]
