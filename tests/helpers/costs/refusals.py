"""Calls that are refused: each with one sentence, which says what would be right."""

import re


def refused(*cases) -> None:
    """Every call of (call, text or pattern) raises a ValueError of one line in which that is found; all that do not are told."""
    wrong = []
    for call, said in cases:
        try:
            wrong.append(f"{said!r}: returned {call()!r}")
        except ValueError as e:
            if "\n" in str(e) or not (said in str(e) or re.search(said, str(e))):
                wrong.append(f"{said!r}: {e}")
    assert not wrong, "\n".join(wrong)
