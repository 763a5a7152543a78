"""Who sent a file, by the name that Canvas or Moodle gave it in the archive of an assignment's submissions."""

from collections.abc import Callable
from dataclasses import replace

from . import canvas, moodle
from .archives import Claim, Sender

Told = Callable[[Sender], bool]


def claim(path: tuple[str, ...], known: Told = lambda _: False, named: Told = lambda _: False) -> Claim | None:
    """Who sent the file at this place of the archive.

    known  whether the class has this sender: a folder with a date in its name looks like one of Canvas's
    named  whether the class has this number, for a person or a group of this very name

    >>> claim(("lovelaceada_LATE_12_345_my_work-1.ipynb",)).sender
    Sender(platform='Canvas', number='12', name='lovelaceada', late=True, stamp='')
    >>> found = claim(("Ada Lovelace_77_assignsubmission_file_", "hw", "exercises.ipynb"))
    >>> found.sender, found.path
    (Sender(platform='Moodle', number='77', name='Ada Lovelace', late=False, stamp=''), ('hw', 'exercises.ipynb'))
    >>> claim(("exercises.ipynb",))
    >>> claim(("team_1_11_900_a.ipynb",)).sender.number
    '1'
    >>> claim(("team_1_11_900_a.ipynb",), named=lambda s: (s.name, s.number) == ("team_1", "11")).path
    ('a.ipynb',)
    """
    doubtful = None
    for i, part in enumerate(path):
        found, other = [*canvas.claims(part, path[i + 1 :])], moodle.claim(part, path[i + 1 :])
        if other and not (found and found[0].at < other.at):
            found = [other]  # of two platforms that of which the mark stands first
        if not found:
            continue
        best = next((c for c in found if named(c.sender)), found[0])
        best = replace(best, others=tuple(c.sender for c in found if c.sender.number != best.sender.number))
        if best.sender.platform == moodle.NAME or i == len(path) - 1 or known(best.sender):
            return best
        doubtful = doubtful or best
    return doubtful
