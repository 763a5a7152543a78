"""Wrong answers and differently written right ones, as data, one file per chapter.

wrong/chNN_topic.yaml   `old -> new: mistake`: `old` stands exactly once in the answer of that grade_id and becomes `new`, or
                        goes; `mistake` is the sentence that the check says, made of the value to which the edit leads.
                        In its place `{says: …}` is a part of what a law, or how a value is off, must tell the learner, and
                        `{kind: …}` names one of kinds.yaml, which has the sentence; `entry: kv` puts "kv: " before it.
                        `\\n` there begins a line as far to the right as that in which `old` stands. Long edits, or with
                        an arrow in them, are `replace` and `with` beside `mistake`, lines as they stand in the answer
right/chNN_topic.yaml   a name, and the code that takes the place of the answer's solution region (of the first, if there
                        are several)

    ch01-q04:                                      ch01-q04:
    - C / W -> W / C: this is W/C, not C/W           - in-one-line: return C / W
    - {kind: bits-for-bytes, entry: kv}              - in-two: |
    - return -> C *= 2\\nreturn: C is 1, not 2              alpha = C / W
                                                       return alpha
"""

import re
import textwrap
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml
from nbformat import NotebookNode

from autograder.places import SourceError

SAMPLES = Path(__file__).parents[1] / "samples"
ARROW = " -> "
BREAK = r"\n"  # in an edit: a line break, and the indentation of the line in which it begins
REGION = re.compile(r"^([ \t]*)### BEGIN SOLUTION\n(.*?)^[ \t]*### END SOLUTION[^\n]*$", re.S | re.M)


@dataclass(frozen=True)
class Mutant:
    """One classic mistake in one answer."""

    grade_id: str
    replace: str
    by: str
    says: str = ""
    mistake: str = ""

    @property
    def name(self) -> str:
        """Its edit, on one line and not too long.

        >>> Mutant("ch01-q01", "C / W", "").name, Mutant("ch01-q01", "C /\\n    W", "W").name
        ('C / W ->', 'C / W -> W')
        """
        return textwrap.shorten(f"{self.replace}{ARROW}{self.by}", 60, placeholder=" …")

    def apply(self, text: str) -> str:
        r"""The answer cell `text` with the mistake in it.

        >>> Mutant("ch01-q01", "return", r"a += 1\nreturn").apply("def f(a):\n    return a")
        'def f(a):\n    a += 1\n    return a'
        """
        first, found = self.replace.partition(BREAK)[0], []
        for at in (m.start() for m in re.finditer(re.escape(first), text)):
            line = text[text.rfind("\n", 0, at) + 1 :]
            begin = "\n" + line[: len(line) - len(line.lstrip(" "))]
            if text.startswith(old := self.replace.replace(BREAK, begin), at):
                found.append(text[:at] + self.by.replace(BREAK, begin) + text[at + len(old) :])
        if len(found) != 1:
            raise SourceError(
                f"A mistake of {self.grade_id} replaces {self.replace!r}, which stands {len(found)} times there, not once."
            )
        return found[0]


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


PLACEHOLDER = re.compile(r"TODO\w*(?:: [^\n\"`]*)?")


def unfilled(text: str) -> list[str]:
    """What an author has still to fill in of the skeleton that `tools.new_exercise` writes.

    >>> unfilled('### TODO: a title\\ndef TODO_name(x):  # TODO: our answer\\n{ref}`TODO: a label`, TODO_name')
    ['TODO: a title', 'TODO_name', 'TODO: our answer', 'TODO: a label']
    """
    return list(dict.fromkeys(PLACEHOLDER.findall(text)))


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # written in C where there is libyaml: ten times faster


def _read(path: Path, form: str) -> dict:
    """What a file has, which is a mapping of this form; nothing if there is no file."""
    if not path.is_file():
        return {}
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), LOADER) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path.name}, line {mark.line + 1}" if mark else path.name
        raise SourceError(f"{where}: this is no YAML: {getattr(error, 'problem', None) or error}.") from None
    if not isinstance(data, dict):
        raise SourceError(f"{path.name} must map {form}.")
    return data


def _edit(entry: dict, where: str) -> dict:
    """A wrong sample, with its edit as `replace` and `with`.

    >>> _edit({"2 * L -> L": "two"}, "ch01-q01"), _edit({"/ 8 ->": {"kind": "bits"}}, "ch01-q01")
    ({'replace': '2 * L', 'with': 'L', 'mistake': 'two'}, {'replace': '/ 8', 'with': '', 'kind': 'bits'})
    """
    if not isinstance(entry, dict) or len(entry) != 1 or "kind" in entry:
        return entry
    ((edit, said),) = entry.items()
    old, arrow, new = f"{edit} ".partition(ARROW)
    if not (arrow and old):
        raise SourceError(f'{where} must be an edit and what is said of it, "old -> new: sentence", it is "{edit}".')
    more = said if isinstance(said, dict) else {} if said is None else {"mistake": said}
    return {"replace": old, "with": new[:-1], **more}


def _named(entry: dict, where: str) -> dict:
    """A right sample, its name and its code apart.

    >>> _named({"in-one-line": "return C / W"}, "ch01-q04")
    {'name': 'in-one-line', 'code': 'return C / W'}
    """
    if not isinstance(entry, dict) or len(entry) != 1:
        return entry
    ((name, code),) = entry.items()
    return {"name": name, "code": code}


def _of_kind(entry: dict, kinds: dict[str, dict], where: str) -> dict:
    """A wrong sample with what it takes from its kind.

    >>> byte = {"bits": {"mistake": "a byte is 8 bits", "replace": " / 8", "with": ""}}
    >>> _of_kind({"kind": "bits", "entry": "kv"}, byte, "ch05-q01")
    {'mistake': 'kv: a byte is 8 bits', 'replace': ' / 8', 'with': ''}
    """
    if not isinstance(entry, dict) or "kind" not in entry:
        return entry
    own = dict(entry)
    name, part = own.pop("kind"), own.pop("entry", None)
    if name not in kinds:
        near = get_close_matches(str(name), kinds, 1)
        end = f": {near[0]}?" if near else "."
        raise SourceError(f"{where} names the kind {name}, which kinds.yaml does not have{end}")
    if "mistake" in own or "says" in own:
        raise SourceError(f"{where} is of the kind {name}, whose sentence stands in kinds.yaml: it needs no other.")
    made = kinds[name] | own
    if not {"replace", "with"} <= made.keys():
        raise SourceError(
            f'{where}: the kind {name} has no edit that is always the same, so write "old -> new: {{kind: {name}}}".'
        )
    return made | ({"mistake": f"{part}: {made['mistake']}"} if part else {})


def _entries(
    path: Path, needed: set[str], allowed: set[str], read: Callable[[dict, str], dict]
) -> list[tuple[str, dict]]:
    """(grade_id, entry) of a file, each entry read, checked for its fields, and not there twice."""
    found, seen = [], set()
    for grade_id, entries in _read(path, "grade_ids to lists").items():
        if not isinstance(entries, list):
            raise SourceError(f"{path.name}: {grade_id} must be a list of entries.")
        for entry in (read(e, f"{path.name}: an entry of {grade_id}") for e in entries):
            keys = set(entry) if isinstance(entry, dict) else set()
            if not needed <= keys <= allowed or not all(isinstance(v, str) for v in entry.values()):
                raise SourceError(
                    f"{path.name}: an entry of {grade_id} needs {', '.join(sorted(needed))} as text"
                    f"{' and may have ' + ', '.join(sorted(allowed - needed)) if allowed - needed else ''}, "
                    f"it has {', '.join(map(str, sorted(keys))) or 'none of them'}."
                )
            what = entry.get("name") or tuple(entry.values())  # one edit may have two causes
            if (grade_id, what) in seen:
                raise SourceError(f"{path.name}: {grade_id} has {' | '.join(entry.values())} twice.")
            seen.add((grade_id, what))
            found.append((grade_id, entry))
    wrote = [(g, what) for g, e in found for what in unfilled("\n".join(e.values()))]
    if wrote:
        said = (f'{path.name}: {g} still has "{what}": fill it in.' for g, what in dict.fromkeys(wrote))
        raise SourceError("\n".join(said))
    return found


def mutants(topic: str, folder: Path = SAMPLES) -> list[Mutant]:
    """The wrong answers of a chapter."""
    kinds = _read(folder / "kinds.yaml", "kinds to sentences")
    needed = {"replace", "with"}
    read = lambda entry, where: _of_kind(_edit(entry, where), kinds, where)  # noqa: E731
    entries = _entries(folder / "wrong" / f"{topic}.yaml", needed, {*needed, "says", "mistake"}, read)
    said = lambda e: (e.get("says", e.get("mistake", "")), e.get("mistake", ""))  # noqa: E731
    return [Mutant(g, e["replace"], e["with"], *said(e)) for g, e in entries]


def variants(topic: str, folder: Path = SAMPLES) -> list[Variant]:
    """The other right answers of a chapter."""
    needed = {"name", "code"}
    entries = _entries(folder / "right" / f"{topic}.yaml", needed, needed, _named)
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
