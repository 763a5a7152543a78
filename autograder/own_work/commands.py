"""What a learner asks by a word: what is next, how far each chapter is, the record as a line, cards of today, news, an exercise anew.

What git and notebooks need is imported where it is used, so that `course next` answers at once.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable

from autograder.places import NOTEBOOK, SourceError
from helpers import study_time
from helpers.check import progress, record, review

from .copies import START, Work, replace_file
from .start import update

PATHS = {"45": "45 minutes", "training": "training", "inference": "inference", "all": study_time.ALL}
WIDTH = 96  # of a card in a terminal


def file(work: Work):
    return work.folder / progress.NAME


def said_next(known: record.Record) -> str:
    step = known.next()
    if not step:
        return "You have read every section and passed every core exercise of your path."
    minutes = study_time.spent(step.minutes).replace(study_time.NBSP, " ")
    along = f" on the path {known.path}" if known.path and step.name in study_time.steps(known.path) else ""
    return f"Next{along}: {step.title}, {minutes}: work/{step.link}"


def next_step(work: Work, *words: str) -> None:
    """Say what is next, and make the copy that this names; with the name of a path take that from here on."""
    update(work)
    if words:
        if len(words) > 1 or words[0] not in PATHS:
            raise SourceError(f"There is no path {' '.join(words)!r}: the paths are {', '.join(PATHS)}.")
        known = record.change(file(work), lambda r: r.choose(PATHS[words[0]]))
    else:
        known = record.read(file(work))
    work.said.append(said_next(known))


def status(work: Work) -> None:
    """A bar for each chapter, then what is next."""
    known, path = record.read(file(work)), file(work)
    page = work.tree.notebooks / START
    every = progress.standings(page.read_text(encoding="utf-8") if page.is_file() else "", progress.kept(path))
    for topic in dict.fromkeys(study_time.chapter_of(page) for page, _ in study_time.sections().values()):
        chapter = str(int(topic[2:4]))
        own = [s for s in every if s.number.split(".")[0] == chapter]
        labels = [n for n in study_time.steps(study_time.ALL) if study_time.sections().get(n, ("",))[0] == topic]
        read, passed = sum(n in known.sections for n in labels), sum(s.passed for s in own)
        bar = progress.bar(read + passed, len(labels) + len(own))
        work.said.append(f"Chapter {chapter} {bar} {read} of {len(labels)} sections, {passed} of {len(own)} exercises")
    right, asked = sum(entry.state for entry in known.questions.values()), len(known.questions)
    work.said.append(f"{right} of {asked} questions answered right." if asked else "No question answered yet.")
    work.said.append(said_next(known))
    if count := len(review.waiting(review.deck(work.tree.notebooks), known, record.today())):
        work.said.append(f"{count} questions and exercises wait for review: course review")


def carry(work: Work, *words: str) -> int | None:
    """Print the record as a line, or merge one that was brought."""
    if not (line := " ".join(words)):
        work.said.append(record.as_line(record.read(file(work))))
        return None
    try:
        brought = record.of_line(line)
    except ValueError as error:
        raise SourceError(str(error)) from None
    known = record.read(file(work))
    before = record.as_line(known).split()
    after = record.as_line(record.change(file(work), lambda r: r.bring(brought))).split()
    if record.as_line(record.read(file(work))).split() != after:
        return 1  # the disk is full, and that was said
    new = len({*after[2:]} - {*before[2:]})
    told = f"{new} of its {len(line.split()) - 2} words {'was' if new == 1 else 'were'} news, and kept."
    work.said.append(told if new else "All of it was known here.")
    return 0


def review_today(work: Work, ask: Callable[[str], str] = input, today: int | None = None) -> None:
    """`course review`: ask until nothing is due, or nobody answers any more; every answer is kept at once."""
    today = record.today() if today is None else today
    cards = review.deck(work.tree.notebooks)
    before = record.read(file(work))
    waiting = review.waiting(cards, before, today)
    if not waiting:
        return work.said.append(nothing(cards, before, today))
    print(
        f"{len(waiting)} to review. An empty line says that you do not know; Ctrl+C ends and keeps what you answered."
    )
    known = 0
    for count, card in enumerate(waiting, 1):
        try:
            right = asked(review.shown(card, review.times(before, card["name"])), f"{count} of {len(waiting)}", ask)
        except (EOFError, KeyboardInterrupt):
            count -= 1
            print()
            break
        record.change(file(work), lambda r: review.answered(r, card["name"], right, today))  # noqa: B023
        known += right
    left = len(review.waiting(cards, record.read(file(work)), today))
    more = f"; {left} are left for today" if left else ""
    work.said.append(f"{known} of {count} known{more}. {nothing(cards, record.read(file(work)), today)}")


def asked(card: review.Shown, place: str, ask: Callable[[str], str]) -> bool:
    """Ask one card until there is an answer; whether it was known."""
    print(f"\n{place} · {card.card['where']}\n\n{filled(card.text)}\n")
    if card.kind == "choice":
        choices = [filled(f"({chr(ord('a') + i)}) {value}") for i, (value, _) in enumerate(card.replies)]
        print("\n".join(choices), end="\n\n")
    wants = card.card.get("unit") or card.card.get("asks") or "letter"
    while True:
        answer = ask(f"{wants} = ").strip()
        told = review.judged(card, answer) if answer else (False, "")
        if told:
            break
        number = "That is no answer: write a number, such as 100, 1e5 or 1/6."
        print("Write one of the letters." if card.kind == "choice" else number)
    right, why = told
    print(filled(f"✓ Right. {why}" if right else f"Not this: {why}" if why else "It comes again tomorrow."))
    if not right and card.replies:
        value, reason = card.replies[card.right]
        print(filled(f"It is {value}: {reason}"))
    elif not right:
        print(f"Work it out again in exercise {card.card['name']}.")
    return right


def filled(text: str) -> str:
    """Text as wide as a terminal; what is indented stays as it is."""
    return "\n".join(line if line.startswith(" ") else textwrap.fill(line, WIDTH) for line in text.split("\n"))


def nothing(cards: list[dict], known: record.Record, today: int) -> str:
    """When the next review is."""
    days = [day for card in cards if (day := review.due(card, known)) is not None and day > today]
    if not days:
        return "Nothing waits for review: what you read and pass comes the next day."
    return f"Next review: {record.iso(min(days))}, {days.count(min(days))} of them."


def pull(work: Work) -> None:
    """`course update`: what is new, and then the copies."""
    from .versions import Git

    work.said.append(fetched(Git(work.tree.root)))
    update(work)


def fetched(git) -> str:
    """`git pull` where it only adds what is new; otherwise a sentence that says what to do, and nothing has changed."""
    before = git.text("rev-parse", "HEAD")
    if not before or not git.text("rev-parse", "--abbrev-ref", "@{upstream}"):
        return "This folder follows no repository, so there is nothing to fetch."
    if git("fetch", "--quiet") is None:
        return "The course could not be fetched: is there a network? Your copies are as the course has them here."
    if git("merge", "--ff-only", "--quiet", "@{upstream}") is None:
        return (
            "git cannot bring in what is new beside your own changes: `course rescue` takes answers out of notebooks/, "
            "`git status` says what else has changed; then run `course update` again."
        )
    changed = git.text("diff", "--name-only", "--relative", before, "HEAD").split("\n")
    if not any(changed):
        return "You have the newest course."
    said = "The course has moved on: CHANGELOG.md says how."
    if {"requirements.txt", "pyproject.toml"} & {*changed}:
        print("It needs other packages, which pip installs now.", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        for words in (["-r", "requirements.txt"], ["--no-deps", "--no-build-isolation", "-e", "."]):
            if subprocess.run([*pip, *words], cwd=git.root).returncode:
                return f"{said}\npip could not install what it needs: run `course update` again with a network."
    return said


def reset(work: Work, *words: str) -> None:
    """Put the answer cells of one exercise back; the notebook as it was stands in work/kept/."""
    import nbformat

    from autograder.engine.cell_names import exercise_number
    from autograder.making.exercises import meta

    from . import damaged

    number = words[0] if len(words) == 1 else ""
    if not re.fullmatch(r"\d+\.\d+", number):
        raise SourceError("Name one exercise, as in  course reset 1.4")
    chapter = int(number.partition(".")[0])
    topic = next((p.parent.name for p in work.tree.notebooks.glob(f"ch{chapter:02}_*/{NOTEBOOK}.ipynb")), None)
    if not topic:
        raise SourceError(f"There is no chapter {chapter} here.")
    update(work)  # which makes the copy where there is none
    name = f"{topic}/{NOTEBOOK}.ipynb"
    given = [c for c in nbformat.read(work.tree.notebooks / name, as_version=4).cells if meta(c).get("solution")]
    empty = {meta(c)["grade_id"]: c for c in given if exercise_number(meta(c)["grade_id"]) == number}
    if not empty:
        raise SourceError(f"There is no exercise {number} with an answer to write.")
    before = work.copy(name).read_bytes()
    copy = damaged.parsed(before)
    if copy is None:
        raise SourceError(f"work/{name} has cells that are none: move it away, and `course copies` makes it anew.")
    changed = False
    for cell in copy.cells:
        fresh = empty.get(meta(cell).get("grade_id"))
        if fresh is not None and cell.source != fresh.source:
            cell.source, changed = fresh.source, True
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
    if not changed:
        work.said.append(f"Exercise {number} is as it was given.")
        return
    kept = work.keep(name, before)
    replace_file(work.copy(name), nbformat.writes(copy).encode())
    work.said.append(
        f"Exercise {number} is as it was given; the notebook with your answer is {kept}. "
        "If it is open in JupyterLab, choose File > Reload Notebook from Disk."
    )
