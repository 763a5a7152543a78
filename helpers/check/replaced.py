"""Exercises that are gone, each with the one that replaces it.

Their numbers are not given again: links to them lead to the exercises that replace them, and a learner's pass counts for these.
Points in a gradebook stay what they were; CHANGELOG.md says what to regrade.
"""

BY = {
    "2.13": "2.11",
    "3.4": "3.5",
    "6.17": "6.19",
}


def current(exercise: str) -> str:
    """The exercise that has this number or replaces the one that had it.

    >>> current("1.1")
    '1.1'
    """
    while exercise in BY:  # what replaced it may be gone as well
        exercise = BY[exercise]
    return exercise


def former(exercise: str) -> list[str]:
    """Exercises that this one replaces.

    >>> former("1.1")
    []
    """
    return [gone for gone in BY if current(gone) == exercise]
