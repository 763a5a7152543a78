"""The text at the head of a notebook of exercises: how an answer is given, and what it may use."""

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

HOW = """\
Write your answer where it says so.
The cell under each answer is its check: Shift+Enter in your answer goes on to it, Shift+Enter again runs it.
A check names the mistake that it recognises, and never the number.
An answer leaves its arguments as they are; only a state that it gives back, such as a cache, may be changed in place.
*Run > Run All Cells* runs all of these at once; @FULL@.
Stars say how hard an exercise is, and importance how much later chapters and real work rest on it.
Core exercises need no more than the core of the chapter; the others are for more practice.
The link in that line leads to the section to have read.
Run the two cells below this text first."""


MAKE_CHECK = "`course check` adds the hidden ones, which use other numbers"
GRADING = "grading adds hidden ones, which use other numbers"


def how_to_answer(example: str, listed: list[str], closed: bool = False) -> NotebookNode:
    """What a notebook says of its cells; the tag keeps it off the site, where there are none.

    example  an exercise with a check, if there is one
    listed   modules of `helpers` that answers may use
    closed   those who get it have neither our answers nor the hidden tests
    """
    text = HOW.replace("@FULL@", GRADING if closed else MAKE_CHECK)
    if example and not closed:
        text += f'\nAfter a pass, or after three tries, `check.solution("{example}")` shows our answer to exercise {example}.'
    return new_markdown_cell(f"{text}\n\n{permission(listed)}" if listed else text, metadata={"tags": ["remove-cell"]})


def permission(listed: list[str]) -> str:
    """What a learner reads about that.

    >>> permission(["helpers.costs.rooflines.hardware", "helpers.show"])
    'Of `helpers`, an answer may use `costs.rooflines.hardware` and `show`; the rest is off limits, and is not there when it is graded.'
    """
    short = [f"`{m.removeprefix('helpers.')}`" for m in listed]
    joined = short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}"
    return f"Of `helpers`, an answer may use {joined}; the rest is off limits, and is not there when it is graded."
