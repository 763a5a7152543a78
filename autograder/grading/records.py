"""What was found for each submission, in a file of its own: a run that was stopped goes on where it was.

A record is written before the gradebook is, so nothing that was executed has to be executed again.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from .hidden_values import values
from .one_submission import Assignment, Graded, Job, digest


@dataclass
class Record:
    """What is known of one submission."""

    student: str
    attempt: int  # 1, 2, … : how many different ones the student has sent
    submission: str  # digest of what was sent
    paper: str  # digest of what the gradebook shows besides: the release, the time of submission, the deadline, our reading of it
    checks: dict[str, str]  # check -> digest of what its verdict depends on besides the answers
    outputs: dict[str, list] = field(default_factory=dict)  # cell -> outputs
    notes: list[str] = field(default_factory=list)
    why: str = ""
    written: bool = False  # the gradebook has it
    changed: list[str] = field(default_factory=list)  # cells that are not as the gradebook has them; [""]: all of them
    paged: str = ""  # digest of the scores and comments that the feedback page shows


class Records:
    """The records of one assignment."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, student: str) -> Path:
        return self.folder / f"{digest(student)}.json"  # names may be longer than a file's

    def load(self, student: str) -> Record | None:
        """What is known, or None if nothing is, or nothing readable."""
        try:
            found = Record(**json.loads(self.path(student).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return found if found.student == student else None

    def save(self, record: Record) -> None:
        """All of it or nothing, also if the machine stops in the middle."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace(self.path(record.student), json.dumps(asdict(record), ensure_ascii=False))


def replace(path: Path, text: str) -> None:
    """Write a file in one step."""
    part = path.with_name(f"{path.name}.part")
    with open(part, "w", encoding="utf-8", newline="\n") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, path)


@dataclass(frozen=True)
class Sent:
    """What lies in submitted/ for one student."""

    student: str
    data: bytes
    why: str
    stamp: bytes | None  # timestamp.txt
    note: str = ""  # why this file of several

    @property
    def submission(self) -> str:
        return digest(self.why, hashlib.sha256(self.data).hexdigest(), *filter(None, [self.note]))


def job(assignment: Assignment, sent: Sent, known: Record | None, secret: str, late: str = "") -> tuple[Job, Record]:
    """What has to be done for a submission, and the record that will hold it.

    Verdicts that nothing has changed for are kept: of a mended test only that one is run.
    """
    same = known is not None and known.submission == sent.submission
    attempt = known.attempt + (not same) if known else 1
    new = Record(sent.student, attempt, sent.submission, paper(assignment, sent, late), dict(assignment.checks))
    only, kept = None, {}
    if same and not known.why:
        good = {c for c, d in assignment.checks.items() if known.checks.get(c) == d and c in known.outputs}
        if len(good) == len(assignment.checks):
            only, kept = frozenset(), known.outputs
        elif good:
            only, kept = frozenset(assignment.checks) - good, {c: known.outputs[c] for c in good}
    drawn = values(secret, assignment.topic, sent.student, attempt)
    return Job(sent.student, sent.data, sent.why, drawn, only, kept, sent.note), new


def paper(assignment: Assignment, sent: Sent, late: str) -> str:
    """What the gradebook shows besides answers and verdicts."""
    return digest(assignment.released, repr(sent.stamp), late, taking())


@cache
def taking() -> str:
    """How a submission is read and built anew: where that changes, what was graded is written anew, with its verdicts."""
    modules = "intake", "pictures", "rebuild", "written"
    return digest(*(Path(__file__).with_name(f"{m}.py").read_text(encoding="utf-8") for m in modules))


def done(assignment: Assignment, sent: Sent, known: Record | None, late: str = "") -> bool:
    """Whether nothing is left to do for a submission."""
    return (
        known is not None
        and known.written
        and known.submission == sent.submission
        and known.paper == paper(assignment, sent, late)
        and known.checks == assignment.checks
    )


def filled(record: Record, found: Graded, before: Record | None) -> Record:
    """The record of what a worker found; a fault of ours is tried again in the next run.

    before  the one that it takes the place of; a run that was stopped may have left it before the gradebook had it
    """
    record.outputs, record.notes, record.why = found.outputs, found.notes, found.why
    record.changed = changed(before, record)
    if found.fault:
        record.checks = {}
    return record


def changed(before: Record | None, now: Record) -> list[str]:
    """Cells whose answer or verdict the gradebook may have otherwise; [""] for all."""
    if before is None or before.submission != now.submission or before.changed == [""]:
        return [""]
    here = {i for i in before.outputs.keys() | now.outputs.keys() if before.outputs.get(i) != now.outputs.get(i)}
    return sorted(here | set(before.changed))
