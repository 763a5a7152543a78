"""What was found for each submission, in a file of its own: a run that was stopped goes on where it was.

A record is written before the gradebook is, so nothing that was executed has to be executed again.
"""

import copy
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path

from autograder.engine.bundle import seed
from autograder.making.in_process_grading import exercise_of

from .class_summary import number_of
from .one_submission import Assignment, Graded, Job, digest
from .whole_files import replace


@dataclass
class Record:
    """What is known of one submission."""

    student: str
    attempt: int  # 1, 2, … : how many different ones the student has sent
    submission: str  # digest of what was sent
    checks: dict[str, str]  # check -> digest of what it was
    basis: dict[str, str] = field(default_factory=dict)  # what all verdicts depended on: name -> value or digest
    setting: dict[str, str] = field(default_factory=dict)  # what the gradebook shows besides: name -> digest
    outputs: dict[str, list] = field(default_factory=dict)  # cell -> outputs
    notes: list[str] = field(default_factory=list)
    why: str = ""
    written: bool = False  # the gradebook has it
    changed: list[str] = field(default_factory=list)  # cells that are not as the gradebook has them; [""]: all of them
    graded: str = ""  # digest of the graded notebook's file
    paged: str = ""  # digest of the scores and comments that the feedback page shows
    page: str = ""  # digest of the page's file
    told: dict[str, list[float]] = field(default_factory=dict)  # cell -> points, of so many, as last said
    told_late: float = 0.0  # points that lateness cost


BLANK = Record("", 0, "", {})


class Records:
    """The records of one assignment."""

    def __init__(self, folder: Path, dry: bool = False):
        """dry: what is saved is kept here alone, and nothing is written"""
        self.folder, self.dry, self.unsaved = folder, dry, {}

    def path(self, student: str) -> Path:
        return self.folder / f"{digest(student)}.json"  # names may be longer than a file's

    def load(self, student: str) -> Record | None:
        """What is known, or None if nothing is, or nothing readable; an older version of the course knew less."""
        if student in self.unsaved:
            return copy.deepcopy(self.unsaved[student])
        try:
            kept = json.loads(self.path(student).read_text(encoding="utf-8"))
            found = Record(**{f.name: kept[f.name] for f in fields(Record) if f.name in kept})
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        alike = all(type(value) is type(getattr(BLANK, name)) for name, value in vars(found).items())
        return found if alike and found.student == student else None

    def save(self, record: Record) -> None:
        """All of it or nothing, also if the machine stops in the middle."""
        if self.dry:
            self.unsaved[record.student] = copy.deepcopy(record)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        replace(self.path(record.student), json.dumps(asdict(record), ensure_ascii=False))


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


@dataclass(frozen=True)
class Decides:
    """What decides the grades of a run, besides what was sent: by content, so that a change of any is noticed and named."""

    assignment: Assignment
    secret: str
    again: frozenset[str] = frozenset()  # checks whose verdicts are asked for anew where points are missing

    @cached_property
    def basis(self) -> dict[str, str]:
        return self.assignment.basis | {"the secret": digest("the secret of the course", self.secret)}

    def setting(self, sent: Sent) -> dict[str, str]:
        return {
            "the released notebook": digest(self.assignment.released),
            "the time of submission": digest(repr(sent.stamp)),
            "how submissions are read": taking(),
        }

    def good(self, known: Record) -> set[str]:
        """Checks whose verdicts are kept."""
        if known.why or known.basis != self.basis:
            return set()
        same = {c for c, d in self.assignment.checks.items() if known.checks.get(c) == d}
        points = self.assignment.bundle.checks
        full = {c for c in self.again if c in known.checks and won(known.outputs.get(c, [])) >= points[c]}
        return {c for c in (same - self.again) | full if c in known.outputs}


def won(outputs: list) -> float:
    """Points that a check gave, which are the value of its cell.

    >>> won([{"output_type": "execute_result", "data": {"text/plain": "1.5"}}]), won([])
    (1.5, 0.0)
    """
    values = ["".join(o["data"].get("text/plain", "")) for o in outputs if o["output_type"] == "execute_result"]
    try:
        return float(values[-1])
    except (IndexError, ValueError):
        return 0.0


def job(decides: Decides, sent: Sent, known: Record | None) -> tuple[Job, Record]:
    """What has to be done for a submission, and the record that will hold it.

    Verdicts that nothing has changed for are kept: of a mended test only that one is run.
    """
    same = known is not None and known.submission == sent.submission
    attempt = known.attempt + (not same) if known else 1
    assignment = decides.assignment
    new = Record(sent.student, attempt, sent.submission, assignment.checks, decides.basis, decides.setting(sent))
    only, kept = None, {}
    if same:
        new.told, new.told_late = known.told, known.told_late
        good = decides.good(known)
        if good == assignment.checks.keys():
            only, kept = frozenset(), known.outputs
        elif good:
            only, kept = frozenset(assignment.checks) - good, {c: known.outputs[c] for c in good}
    drawn = seed(decides.secret, assignment.topic, sent.student, attempt)
    return Job(sent.student, sent.data, sent.why, drawn, only, kept, sent.note), new


NEW, ANEW = "not graded before", "handed in anew"


def reasons(decides: Decides, sent: Sent, known: Record | None) -> list[str]:
    """Why a submission has to be graded, or put into the gradebook, once more; nothing if it has not."""
    if known is None:
        return [NEW]
    if known.submission != sent.submission:
        return [ANEW]
    now = decides.assignment.checks
    if known.checks != now and not known.checks:
        return ["could not be graded the last time"]
    if not known.basis:
        return ["graded by an older version of the course"]
    found = differing(known.basis, decides.basis)
    found += exercises(c for c in known.checks if known.checks[c] != now.get(c))
    found += [f"{e}, without a verdict" for e in exercises(now.keys() - known.checks.keys())]
    if not found and not known.why and decides.again - decides.good(known):
        found = [f"{e}, asked for" for e in exercises(decides.again)]
    return found + differing(known.setting, decides.setting(sent))


def exercises(checks: Iterable[str]) -> list[str]:
    """Exercises of checks, as the learner knows them.

    >>> exercises(["ch01-q04-check", "ch01-q04-b", "ch01-q11-check"])
    ['exercise 1.4', 'exercise 1.11']
    """
    return [f"exercise {number_of(e)}" for e in sorted({exercise_of(c) for c in checks})]


SPOKEN = ("Python", "jax", "jaxlib", "numpy", "COURSE_SEED", "COURSE_SANDBOX")  # of which no digest is kept


def differing(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names under which two have not the same, with both where a person can read them.

    >>> differing({"jax": "0.10.1", "the limits": "3f2a", "numpy": "2.4"}, {"jax": "0.10.2", "the limits": "9b1c", "numpy": "2.4"})
    ['jax 0.10.2 (was 0.10.1)', 'the limits']
    """
    names = [n for n in {**now, **before} if before.get(n) != now.get(n)]
    return [f"{n} {now.get(n)} (was {before.get(n)})" if n in SPOKEN else n for n in names]


@cache
def taking() -> str:
    """How a submission is read and built anew: where that changes, what was graded is written anew, with its verdicts."""
    modules = "intake", "pictures", "rebuild", "written"
    return digest(*(Path(__file__).with_name(f"{m}.py").read_text(encoding="utf-8") for m in modules))


def filled(record: Record, found: Graded, before: Record | None) -> Record:
    """The record of what a worker found; a fault of ours is tried again in the next run.

    before  the one that it takes the place of; a run that was stopped may have left it before the gradebook had it
    """
    record.outputs, record.notes, record.why = found.outputs, found.notes, found.why
    record.changed = changed(before, record)
    if found.fault:
        record.checks = {c: d for c, d in record.checks.items() if found.void and c not in found.void}
    return record


def changed(before: Record | None, now: Record) -> list[str]:
    """Cells whose answer or verdict the gradebook may have otherwise; [""] for all."""
    if before is None or before.submission != now.submission or before.changed == [""]:
        return [""]
    here = {i for i in before.outputs.keys() | now.outputs.keys() if before.outputs.get(i) != now.outputs.get(i)}
    return sorted(here | set(before.changed))
