"""Where a learner stands: what is next on the path, how far each chapter is, and the record as a line of text."""

from autograder.places import SourceError
from helpers import study_time
from helpers.check import progress, record, review

from .copies import START, Work
from .start import update

PATHS = {"45": "45 minutes", "training": "training", "inference": "inference", "all": study_time.ALL}


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
