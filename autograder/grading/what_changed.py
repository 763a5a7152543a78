"""What a grading did again, why, and what that changed: nobody's grade moves in silence."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from autograder.making.in_process_grading import exercise_of

from .class_summary import named, number_of, wrapped
from .gradebook_writer import Grade
from .records import ANEW, NEW, Record

FEW = 3  # reasons that are named, of those that one submission has


@dataclass
class Changes:
    """Collected student by student, said in a few lines."""

    why: dict[str, list[str]] = field(default_factory=dict)  # student -> why it was graded, or written, again
    moved: dict[tuple[str, float], list[str]] = field(default_factory=lambda: defaultdict(list))  # by points more
    late: dict[float, list[str]] = field(default_factory=lambda: defaultdict(list))  # points that lateness gives back
    accepted: list[str] = field(default_factory=list)  # who was given points for what a check had told
    most: Counter = field(default_factory=Counter)  # (points of the assignment before, now)

    def add(self, record: Record, cells: dict[str, Grade], late: float) -> bool:
        """Compare what was last said of a submission with what the gradebook has now; whether anything differs.

        A new submission has nothing to compare with, and a score that a person gave is no news to that person.
        """
        now = points(cells)
        same = record.told == now and record.told_late == late
        if same or not record.told:
            return not same
        more = defaultdict(float)
        for cell, (got, _) in now.items():
            if cells[cell].manual is None:
                more[exercise_of(cell)] += got - record.told.get(cell, (0.0, 0.0))[0]
        for cell in record.told.keys() - now.keys():
            more[exercise_of(cell)] -= record.told[cell][0]
        for exercise, by in more.items():
            if abs(by) > 1e-9:
                self.moved[exercise, round(by, 6)].append(record.student)
        if late != record.told_late:
            self.late[round(record.told_late - late, 6)].append(record.student)
        before, after = (sum(most for _, most in of.values()) for of in (record.told, now))
        self.most[before, after] += before != after
        return True

    def lines(self, new: bool = False) -> list[str]:
        """For a terminal: nothing if nothing was done again.

        new  also say how many are graded for the first time
        """
        groups = Counter(_shortened(why) for why in self.why.values() if new or why != [NEW])
        found = ["graded or written again, and why:"] * bool(groups)
        found += [wrapped(f"{count}: {why}", 2) for why, count in groups.most_common()]
        if said := self._moves():
            found.append(wrapped(f"since the last grading: {'; '.join(said)}.", 0))
        elif any(why not in ([NEW], [ANEW]) for why in self.why.values()):
            found.append("No grade changes.")
        return found + [wrapped(line, 0) for line in self.accepted]

    def _moves(self) -> list[str]:
        said = []
        for (exercise, by), students in sorted(self.moved.items()):
            said.append(f"{_gained(by, len(students))} in {number_of(exercise)} ({named(students)})")
        for by, students in sorted(self.late.items()):
            said.append(f"{_gained(by, len(students))} for the time of submission ({named(students)})")
        return said + [f"maximum {before:g} to {after:g}" for (before, after), n in self.most.items() if n]


def points(cells: dict[str, Grade]) -> dict[str, list[float]]:
    """Cell -> points without a person's, of so many."""
    return {name: [g.auto or 0.0, g.most] for name, g in sorted(cells.items())}


def _gained(by: float, students: int) -> str:
    """
    >>> _gained(-3.0, 7), _gained(1.0, 1)
    ('7 lost 3 points', '1 gained 1 point')
    """
    return f"{students} {'gained' if by > 0 else 'lost'} {abs(by):g} point{'s' * (abs(by) != 1)}"


def _shortened(why: list[str]) -> str:
    """
    >>> _shortened(["a", "b"]), _shortened(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    return ", ".join(why[:FEW]) + (f" and {len(why) - FEW} more" if len(why) > FEW else "")
