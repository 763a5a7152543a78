"""What tests of `helpers.check` hand in, and what a learner reads of it."""

from helpers import check


def told(capsys, *answers, **kwargs):
    """(points, everything printed, on one line)."""
    earned = check.report("0.1", *answers, **kwargs)
    return earned, " ".join("".join(capsys.readouterr()).split())


def answer(f, expected, *args, rtol=1e-3, **kwargs):
    a = check.Answer(f, points=2, rtol=rtol)
    a.gives(expected, *args, **kwargs)
    return a


def double(x):
    return 2 * x
