"""All exports of a class in one go, each whole; one that somebody or something changed since is named and made again."""

import contextlib
import json
import os
import sys

from autograder.grading.whole_files import digest_of, replace

from .canvas import Canvas
from .moodle import Moodle
from .tables import Grades


def export(what) -> None:
    """grades.csv, canvas.csv and moodle.csv, as the gradebook has them; those that are not whole are named."""
    c, note = what.config(), what.root / ".grading" / "exports.json"
    with contextlib.suppress(OSError, ValueError, TypeError):  # none, or none that is whole
        before = json.loads(note.read_text(encoding="utf-8"))
        if damaged := [place for place in before if digest_of(what.root / place) not in ("", before[place])]:
            print(f"Not as they were written, so made again: {', '.join(damaged)}.", file=sys.stderr)
    with what.gradebook() as gradebook:
        kinds = {"grades.csv": Grades, "canvas.csv": Canvas, "moodle.csv": Moodle}
        for place, kind in kinds.items():
            to = what.root / place
            part = to.with_name(f"{place}.part")  # an earlier table stays until this one is whole
            kind(to=str(part), assignment=[what.topic], parent=None, config=c).export(gradebook)
            os.replace(part, to)
    note.parent.mkdir(exist_ok=True)
    replace(note, json.dumps({place: digest_of(what.root / place) for place in kinds}))
