"""Feedback pages: nbgrader's own, each made in a process with limits, so that no submission holds up the pages of the others.

A page that takes too long or too much is made plain: scores, comments and texts, no colours, no pictures, no HTML.
"""

import contextlib
import copy
import functools
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tqdm import tqdm

from autograder import course
from autograder.engine import linux_isolation
from autograder.places import FULL, SourceError, is_full

from . import jobs, nbgrader_steps as ours
from .class_summary import named, plain
from .nbgrader_internals import faster
from .one_submission import digest
from .whole_files import digest_of

PROCESSOR = 8  # seconds of a processor for a page; an ordinary one takes one on a busy machine
CLOCK = 60  # seconds on the clock, after which a process that does not answer is ended
EACH = 8  # pages for which a process more is started, which takes as long as four of them
MEMORY = 2_000_000_000  # bytes that a process may map; an ordinary page takes a tenth of that
TOO_LARGE = course.SAYINGS["MemoryError"]
WORDS = {jobs.DIED: "the process that made the page died", jobs.HUNG: f"the page was not there after {CLOCK} s"}


@dataclass(frozen=True)
class Page:
    """What became of a student's page."""

    student: str
    why: str = ""  # why it is plain, or is none
    there: bool = True
    again: bool = False  # the next grading tries to make it as it should be


def write_feedback(run, progress: bool = False) -> None:
    """The feedback pages that are not whole, or whose scores or comments are not those of the gradebook any more.

    A SourceError, behind all others, if one could not be made, not even of text alone.
    """
    what, shown = run.what, run.writer.shown()
    wanted: dict[str, str] = {}
    damaged: list[str] = []
    failed: dict[str, str] = {}  # student -> why there is no page
    for student in what.students:
        record = run.known.load(student)
        if not (record and record.written):
            continue
        now, page = digest(shown.get(student, ""), repr(record.setting)), digest_of(what.page(student))
        if record.paged != now or page != record.page or not page:
            wanted[student] = now
        if record.paged == now and page and page != record.page:
            damaged.append(student)
    if damaged:
        print(f"Not as they were written, so made again: the feedback pages of {named(damaged)}.", file=sys.stderr)
    bar = tqdm(total=len(wanted), desc="feedback", unit="page", leave=False, disable=not progress)
    with bar, contextlib.closing(write_pages(what, [*wanted])) as pages:
        for page in pages:
            bar.update()
            if is_full(page.why):
                what.page(page.student).unlink(missing_ok=True)  # it may be cut
                raise SourceError(FULL)
            if not page.there:
                failed[page.student] = page.why
            if page.why:
                kind = "is plain" if page.there else "could not be written"
                bar.write(f"The feedback page of {plain(page.student)} {kind}: {plain(page.why)}", file=sys.stderr)
            record = run.known.load(page.student)
            record.paged = "" if page.again else wanted[page.student]
            record.page = digest_of(what.page(page.student))
            run.known.save(record)
    if failed:
        student, why = next(iter(failed.items()))
        raise SourceError(
            f"{len(failed)} of {len(wanted)} feedback pages could not be written, that of {plain(student)} for example because"
            f" of this: {plain(why).rstrip('.')}. Points and exports are kept: mend it, and run the same command again."
        )


def write_pages(what, students: list[str]) -> Iterator[Page]:
    """Write feedback pages on all cores, in the order in which they are ready."""
    if not students:
        return
    opening = pickle.dumps((None, Maker(what.config(), what.topic, PROCESSOR, MEMORY)))
    workers = min(os.cpu_count() or 1, -(-len(students) // EACH))
    # They ask the gradebook, and have nothing to close; nbgrader may swallow that one is told to end.
    with jobs.Processes(workers, opening, dict(os.environ), end=1) as pool:
        submit = functools.partial(pool.threads.submit, made, pool, what)
        yield from jobs.flow(students, submit, lambda _, future: future.result(), lambda: 2 * workers)


def made(pool: jobs.Processes, what, student: str) -> Page:
    """One page: as it should be, else plain, else a sentence."""
    first = None
    for as_text in (False, True):
        try:
            page = Page(**pool.ask((student, as_text), CLOCK))
            if is_full(page.why):
                return page
        except jobs.Lost as e:
            large = TOO_LARGE in str(e)
            page = Page(student, TOO_LARGE if large else WORDS.get(str(e), str(e)), there=False, again=not large)
        first = first or page
        if page.there:
            return replace(page, why=first.why, again=first.again)
    with contextlib.suppress(OSError):  # which is what nbgrader says too
        what.page(student).parent.mkdir(parents=True, exist_ok=True)
        what.page(student).write_text(NO_PAGE, encoding="utf-8")
    return replace(first, again=True)


NO_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Feedback</title></head>
<body><p>No page could be made of your graded notebook. Please ask your instructor.</p></body></html>
"""


# -- in the process that makes pages


class Maker:
    """Makes pages; it travels to the process as a pickle."""

    def __init__(self, c, topic: str, seconds: float, memory: int):
        self.config, self.topic, self.seconds, self.memory = c, topic, seconds, memory

    def __call__(self, _, request: tuple[str, bool]) -> Page:
        """The page of a student, of text alone if so asked; it is not there if making it took too long or too much."""
        student, as_text = request
        step = (self.plain if as_text else self.usual).generate_feedback
        with processor_time(self.seconds):
            worked, why = course.run(step, self.topic, student, force=True)
        if why == TOO_LARGE:
            raise MemoryError(why)  # another process goes on: this one is full
        return Page(student, why, worked)

    @cached_property
    def usual(self):
        return self._interface(self.config)

    @cached_property
    def plain(self):
        c = copy.deepcopy(self.config)
        c.HTMLExporter.preprocessors = [ours.Plain]
        c.GenerateFeedback.preprocessors = [
            ours.Plain if step is ours.Sanitize else step for step in c.GenerateFeedback.preprocessors
        ]
        c.HTMLExporter.filters = {
            "markdown2html": ours.plain_text, "highlight_code": ours.plain_code, "ansi2html": ours.plain_ansi,
            "strip_files_prefix": ours.as_it_is,
        }  # fmt: skip
        return self._interface(c)

    def _interface(self, c):
        confine(self.memory)
        faster()
        return course.api(c)


def confine(memory: int) -> None:
    """This process ends with its parent, and has no more memory than a page needs."""
    if sys.platform != "linux":
        return  # there it ends when the pipe from its parent does
    import resource

    linux_isolation.die_with_parent()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


@contextlib.contextmanager
def processor_time(seconds: float):
    """TimeoutError in the midst of what takes longer, again and again until it is through."""
    if not hasattr(signal, "setitimer"):  # on Windows the clock has to do
        yield
        return

    def late(*_):
        raise TimeoutError(f"it takes more than {seconds} s of a processor")

    signal.signal(signal.SIGPROF, late)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds, 1)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
