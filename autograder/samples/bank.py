"""Wrong answers and differently written right ones, as data, one file per chapter.

wrong/chNN_topic.yaml   `replace` stands exactly once in the answer of that grade_id and becomes `with`;
                        `says`, if given, is a part of what the learner must be told
right/chNN_topic.yaml   `code` takes the place of the answer's solution region (of the first, if there are several)

    ch01-q04:                                      ch01-q04:
      - {name: inverse, replace: C / W,              - name: in-one-line
         with: W / C, says: this is W/C}               code: |
                                                         return C / W
"""

import re
import textwrap
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import yaml
from nbformat import NotebookNode

from autograder.places import SourceError

SAMPLES = Path(__file__).parent
REGION = re.compile(r"^([ \t]*)### BEGIN SOLUTION\n(.*?)^[ \t]*### END SOLUTION[^\n]*$", re.S | re.M)


@dataclass(frozen=True)
class Mutant:
    """One classic mistake in one answer."""

    grade_id: str
    name: str
    replace: str
    by: str
    says: str = ""

    def apply(self, text: str) -> str:
        """The answer cell `text` with the mistake in it."""
        n = text.count(self.replace)
        if n != 1:
            raise SourceError(
                f"The mutant {self.name} of {self.grade_id} replaces {self.replace!r}, which stands {n} times there, not once."
            )
        return text.replace(self.replace, self.by)


@dataclass(frozen=True)
class Variant:
    """One other right answer."""

    grade_id: str
    name: str
    code: str

    def apply(self, text: str) -> str:
        """The answer cell `text` with its first solution region written in this way, any others emptied."""
        regions = list(REGION.finditer(text))
        if not regions:
            raise SourceError(f"The variant {self.name} of {self.grade_id} finds no solution region there.")
        for m in reversed(regions):
            code = textwrap.indent(textwrap.dedent(self.code).strip("\n"), m[1]) if m is regions[0] else ""
            text = text[: m.start()] + code + text[m.end() :]
        return text


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # written in C where there is libyaml: ten times faster


def _entries(path: Path, needed: set[str], allowed: set[str]) -> list[tuple[str, dict]]:
    """(grade_id, entry) of a file, each entry checked for its fields."""
    if not path.is_file():
        return []
    data = yaml.load(path.read_text(encoding="utf-8"), LOADER) or {}
    if not isinstance(data, dict):
        raise SourceError(f"{path.name} must map grade_ids to lists.")
    found, seen = [], set()
    for grade_id, entries in data.items():
        if not isinstance(entries, list):
            raise SourceError(f"{path.name}: {grade_id} must be a list of entries.")
        for entry in entries:
            keys = set(entry) if isinstance(entry, dict) else set()
            if not needed <= keys <= allowed or not all(isinstance(v, str) for v in entry.values()):
                raise SourceError(
                    f"{path.name}: an entry of {grade_id} needs {', '.join(sorted(needed))} as text"
                    f"{' and may have ' + ', '.join(sorted(allowed - needed)) if allowed - needed else ''}, "
                    f"it has {', '.join(map(str, sorted(keys))) or 'none of them'}."
                )
            if (grade_id, entry["name"]) in seen:
                raise SourceError(f"{path.name}: {grade_id} has the name {entry['name']} twice.")
            seen.add((grade_id, entry["name"]))
            found.append((grade_id, entry))
    return found


def mutants(topic: str, folder: Path = SAMPLES) -> list[Mutant]:
    """The wrong answers of a chapter."""
    entries = _entries(
        folder / "wrong" / f"{topic}.yaml", {"name", "replace", "with"}, {"name", "replace", "with", "says"}
    )
    return [Mutant(g, e["name"], e["replace"], e["with"], e.get("says", "")) for g, e in entries]


def variants(topic: str, folder: Path = SAMPLES) -> list[Variant]:
    """The other right answers of a chapter."""
    entries = _entries(folder / "right" / f"{topic}.yaml", {"name", "code"}, {"name", "code"})
    return [Variant(g, e["name"], e["code"]) for g, e in entries]


def applied(solved: NotebookNode, changes: list[Mutant | Variant]) -> NotebookNode:
    """A copy of a solved source notebook with some answers changed."""
    nb = deepcopy(solved)
    cells = {c.metadata.get("nbgrader", {}).get("grade_id"): c for c in nb.cells}
    for change in changes:
        if change.grade_id not in cells:
            raise SourceError(f"There is no answer {change.grade_id} for {change.name} to change.")
        cells[change.grade_id].source = change.apply(cells[change.grade_id].source)
    return nb


def kth(changes: list[Mutant] | list[Variant], k: int) -> list[Mutant | Variant]:
    """The k-th change (from 0) of every exercise that has so many."""
    by_id: dict[str, list] = {}
    for change in changes:
        by_id.setdefault(change.grade_id, []).append(change)
    return [found[k] for found in by_id.values() if k < len(found)]
