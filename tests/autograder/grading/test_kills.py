"""A grading that is killed fifty times, at random moments, ends as one that nobody disturbed (slow)."""

import os
import random
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_markdown_cell

from autograder import grade, release
from autograder.engine import sandbox
from autograder.grading.gradebook_writer import Writer
from autograder.grading.records import Records
from autograder.places import ROOT
from tests.autograder import classes
from tests.autograder.classes import SAMPLE, TOPIC
from tests.autograder.grading.test_jobs import gone
from tests.skip_conditions import needs
from tests.tiers import FULL, repeats
from tools import demo

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
STUDENTS = "reference", "partly-done", "mutant-1", "mutant-2", "variant-1", "corrupt-json"
KILLS = repeats(2, 50)
# What happens after each grading: in two rounds something of each kind; nbgrader takes long for pages, so every third has them.
ROUNDS = ((k,) for k in count()) if FULL else ((0, 2), ())


class Course:
    """A scratch course, and what happens in it: the same steps in two of them end in the same gradebook."""

    def __init__(self, folder: Path, opened: classes.Strict):
        self.what = classes.copied(opened, folder)
        self.made = demo.sample_class(TOPIC, SAMPLE, SAMPLE.root)
        self.log, self.temporary = folder / "log", folder / "tmp"
        self.temporary.mkdir()
        demo.hand_in(self.what, {s: self.made[s] for s in STUDENTS})

    def start(self, workers: int, pages: bool) -> subprocess.Popen:
        words = str(self.what.root), TOPIC, str(workers), str(self.log), "pages" if pages else "no-pages"
        return subprocess.Popen(
            [sys.executable, "-m", "tests.autograder.grading.killed", *words],
            cwd=ROOT, env=os.environ | {"TMPDIR": str(self.temporary)}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, pages: bool) -> None:
        """Graded by this process, which nobody kills."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grade, "pool", classes.Serial)
            if not pages:
                patch.setattr(grade, "write_feedback", lambda *_: None)
            grade.grade(grade.Class(TOPIC, self.what.root, timeout=8), progress=False)

    def step(self, k: int) -> None:
        """What happens after the k-th grading: by turns a person grades, a check is mended, students send anew."""
        chance = random.Random(k)
        if k % 3 == 0:
            with self.what.gradebook() as gradebook:
                for student in chance.sample(STUDENTS[:5], 2):
                    found = gradebook.find_grade("ch01-q03", "exercises", TOPIC, student)
                    found.manual_score, found.needs_manual_grade = chance.randint(0, 1), False
                gradebook.db.commit()
        if k % 3 != 2:
            nb = nbformat.read(self.what.notebook("source"), as_version=4)
            check = next(c for c in nb.cells if c.id == f"ch01-q0{1 + k % 2}-check")
            check.source = check.source.replace("check.report(", f"# mended {k}\ncheck.report(", 1)
            nbformat.write(nb, self.what.notebook("source"))
        else:
            for student in chance.sample(STUDENTS, 3):
                text = self.what.notebook("submitted", student).read_text(encoding="utf-8")
                if student == "corrupt-json":
                    text = text[:-100]
                else:
                    nb = nbformat.reads(text, as_version=4)
                    nb.cells.append(new_markdown_cell(f"Once more, {k}.", id=f"own-{k}"))
                    text = nbformat.writes(nb)
                release.write(self.what.notebook("submitted", student), text)

    def gradebook(self) -> dict:
        return Writer(self.what.root, TOPIC, self.what.config()).grades()

    def records(self) -> dict:
        """Student -> record, as far as there are any."""
        known = Records(self.what.root / ".grading" / TOPIC)
        return {s: r for s in STUDENTS if (r := known.load(s))}

    def pages(self) -> dict:
        """Student -> feedback page."""
        folder = self.what.root / "feedback"
        return {s: (folder / s / TOPIC / "exercises.html").read_text(encoding="utf-8") for s in STUDENTS}


def test_fifty_kills(opened, tmp_path, monkeypatch):
    host = sandbox.available()
    needs(not host.refusal, host.refusal)
    monkeypatch.setenv("COURSE_SECRET", classes.SECRET)
    monkeypatch.setenv("HOME", str(tmp_path))
    calm, torn = Course(tmp_path / "calm", opened), Course(tmp_path / "torn", opened)
    chance, kills = random.Random(50), 0
    for number, steps in enumerate(ROUNDS):
        pages = number % 3 == (0 if FULL else 1)
        calm.finish(pages)
        if number == 0 and not FULL:  # the first grading takes longest
            shutil.copytree(calm.what.root, torn.what.root, dirs_exist_ok=True)
        else:
            kills += survive(torn, chance, pages)
        assert torn.gradebook() == calm.gradebook()
        assert torn.records() == calm.records()
        assert not (calm.what.root / "feedback").exists() or torn.pages() == calm.pages()
        assert not [p for p in torn.temporary.iterdir() if not probe(p)]
        if kills >= KILLS and number > 3:
            break
        for k in steps:
            calm.step(k), torn.step(k)
    assert kills >= KILLS
    assert any(g.manual is not None for cells in torn.gradebook().values() for g in cells.values())


def survive(torn: Course, chance: random.Random, pages: bool) -> int:
    """Grade a class that is killed at random moments until it is done; how often it was killed."""
    kills, workers = 0, set()
    while True:
        # Each try has more time than the one before: a busy machine comes to the end, too, and the first two tries do not.
        moment = chance.uniform(1, 6 + 6 * kills)
        # What could not be read is read again, which executes nothing.
        graded = {s: r for s, r in torn.records().items() if current(torn, s, r) and not r.why}
        torn.log.write_text("")
        run = torn.start(chance.choice([1, 1, 2]), pages)
        try:
            said = run.communicate(timeout=moment)[1]
        except subprocess.TimeoutExpired:
            below = psutil.Process(run.pid).children(recursive=True)
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            kills += 1
            workers |= {p.pid for p in below}
            assert not gone([p.pid for p in below])
        lines = (line.partition(" ") for line in torn.log.read_text().splitlines())
        again = {s for s, _, what in lines if what != "no"}
        assert not again & graded.keys()  # what had been executed was not executed again
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, said
    groups = {int(p.name.split("-")[1]) for p in Path("/sys/fs/cgroup").rglob("grading-*-*")}
    assert not groups & workers
    return kills


def probe(path: Path) -> bool:
    """Whether Python left it: `tempfile` tries a folder with such a file, and may be killed before it removes it.

    The names that it gives to others, and so to us, are longer.
    """
    return path.is_file() and len(path.name) == 8 and path.read_bytes() in (b"", b"blat")


def current(torn: Course, student: str, record) -> bool:
    """Whether a record holds the verdict on what now lies there."""
    return torn.what.sent(student).submission == record.submission and torn.what.assignment().checks == record.checks
