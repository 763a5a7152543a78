"""What an edition may have beyond the course: an instructor's own exercises, and pages of worked solutions."""

import re
from pathlib import Path

from autograder.places import SourceError, Tree

from . import in_process_grading

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n---\n(.*?)\n---\n(.*?)\n```$", re.M | re.S)
HEADING = re.compile(r"^### (.+)$", re.M)
SCHEME = re.compile(r"^[ \t]*### BEGIN MARK SCHEME.*?### END MARK SCHEME[^\n]*\n?", re.M | re.S)
MARKS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[^\n]*\n?", re.M)


def own(folder: Path, tree: Tree) -> dict[str, str]:
    """Topic -> source of an instructor's own exercises; SourceError if a file belongs to no chapter, or has no exercise."""
    topics, found = [p.stem for p in tree.exercises], {}
    if not folder.is_dir():
        raise SourceError(f'"add" names {folder}, which is no folder.')
    for path in sorted(folder.glob("*.md")):
        if path.stem not in topics:
            raise SourceError(f"{path.name} belongs to no chapter: name it as one of {', '.join(topics)}.")
        found[path.stem] = path.read_text(encoding="utf-8")
        chapter = int(path.stem[2:4])
        for label, of in re.findall(r"^\((ex-(\d+)-\d+)\)=$", found[path.stem], re.M):
            if int(of) != chapter:
                raise SourceError(f"{path.name} has an exercise ({label})=: here they begin with ex-{chapter}-.")
        if not re.search(r"^\(ex-\d+-\d+\)=$", found[path.stem], re.M):
            raise SourceError(f"{path.name} has no exercise: one begins with a line such as (ex-2-90)=.")
    if not found:
        raise SourceError(f'"add" names {folder}, which has no file such as {topics[0]}.md.')
    return found


def added(text: str, more: str) -> str:
    """A chapter's source with own exercises at its end; SourceError if a number is taken."""
    taken = set(re.findall(r"^\((ex-\d+-\d+)\)=$", text, re.M))
    for label in re.findall(r"^\((ex-\d+-\d+)\)=$", more, re.M):
        if label in taken:
            raise SourceError(f"There is an exercise {label[3:].replace('-', '.')} already: take a free number.")
    return f"{text.rstrip()}\n\n{more.strip()}\n"


def judged(more: dict[str, str], tree: Tree) -> None:
    """Own exercises, run as a learner's: their own answers have to earn all points, and none is given for nothing.

    SourceError names the first check that says otherwise, and what it said.
    """
    for topic, text in more.items():
        solved, ids = in_process_grading.solved(topic, tree), set()
        for chapter, number in re.findall(r"^\(ex-(\d+)-(\d+)\)=$", text, re.M):
            ids.add(f"ch{int(chapter):02d}-q{int(number):02d}")
        untouched = in_process_grading.blank(solved)
        for nb, all_points, of in ((solved, True, "its own answer"), (untouched, False, "no answer")):
            for name, found in in_process_grading.judge(nb, *sorted(ids)).items():
                wanted = found.points if all_points else 0.0
                if in_process_grading.exercise_of(name) in ids and found.score != wanted:
                    said = (found.message.splitlines() or ["it says nothing"])[-1].strip()
                    raise SourceError(
                        f"The check {name} in {topic}.md gives {of} {found.score:g} of {found.points:g} points: {said}"
                    )


def worked(blocks: list, title: str) -> str:
    """A page with our answer to each exercise, without nbgrader's marks, checks or remarks to graders.

    blocks  (number of an exercise or None, its lines), as `edition_text.blocks` gives them
    """
    out = [f"# {title}: worked solutions"]
    for number, lines in blocks:
        text = "\n".join(lines)
        answers = [MARKS.sub("", SCHEME.sub("", code)) for head, code in CELL.findall(text) if "solution: true" in head]
        if not number or not answers:
            continue
        label = f"ex-{number.replace('.', '-')}"
        out.append(f"## {HEADING.search(text)[1]}\n\nThe question is {{ref}}`here <{label}>`.")
        out += [f"```python\n{code.strip(chr(10))}\n```" for code in answers]
    return "\n\n".join(out) + "\n"
