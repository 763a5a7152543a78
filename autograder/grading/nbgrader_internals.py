"""All that is taken from nbgrader beyond its public interface: what breaks here when nbgrader moves is broken nowhere else.

- its converter for a notebook that is graded already, in one transaction a student. Its steps know nothing of this; they get one
  session where each would open a gradebook of its own and commit after every cell: stock waits for the disk about seventy times
  for a student, and this once.
- `nbgrader autograde`, which names the command that grades.
- `nbgrader collect`, which believes what stands in an exchange that all write to.
"""

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from unittest import mock

from nbgrader import api, nbgraderformat
from nbgrader.apps.api import capture_log, temp_attrs
from nbgrader.converters import Autograde, autograde, base
from nbgrader.exchange import ExchangeError
from nbgrader.exchange.default import collect
from nbgrader.preprocessors import latesubmissions, overwritecells, saveautogrades
from sqlalchemy.orm import Session, joinedload, scoped_session, sessionmaker

from autograder.places import NOTEBOOK

from .class_summary import plain

STEPS = autograde, overwritecells, saveautogrades, latesubmissions  # modules, each of which opens gradebooks


@functools.cache
def faster() -> None:
    """One database engine and one compiled validator a process, where nbgrader makes them anew for each cell."""
    made = functools.lru_cache(8)(api.create_engine)
    api.create_engine = lambda url, **k: made(url, **k)
    schemas = nbgraderformat.common.jsonschema

    @functools.lru_cache(8)
    def validator(text: str):
        schema = json.loads(text)
        kind = schemas.validators.validator_for(schema)
        kind.check_schema(schema)
        return kind(schema)

    class Kept:
        ValidationError = schemas.ValidationError

        @staticmethod
        def validate(instance, schema, *args, **kwargs):
            if args or kwargs:
                return schemas.validate(instance, schema, *args, **kwargs)
            return validator(json.dumps(schema)).validate(instance)  # nbgrader reads the schema anew for each notebook

    nbgraderformat.common.jsonschema = Kept


class Waiting(Session):
    """A session whose commits wait for the last one."""

    def commit(self) -> None:
        pass

    def write(self) -> None:
        super().commit()


class Shared(api.Gradebook):
    """One gradebook for all steps of a student; what they leave open is closed with it."""

    def __init__(self, db_url: str, course_id: str, noted: Callable[[str, list, float | None], None] | None = None):
        """noted: gets student, grades and penalty instead of the database, where nothing is to be written"""
        self.noted = noted
        super().__init__(db_url, course_id)
        self.db = scoped_session(sessionmaker(class_=Waiting, bind=self.engine, future=True))
        self.cells: dict[tuple, dict] = {}

    def close(self) -> None:
        """The end of a step: scores are sums that the database makes, so the next step asks it anew."""
        self.db.flush()
        self.db.expire_all()
        self.cells.clear()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that the steps write, or nothing of it."""
        with contextlib.ExitStack() as patched:
            for step in STEPS:
                patched.enter_context(mock.patch.object(step, "Gradebook", lambda *_, **__: self))
            try:
                yield
                if not self.noted:
                    self.db().write()
            finally:
                self.cells.clear()
                self.db.remove()  # what is not written yet is rolled back

    def find_grade(self, grade_cell, notebook, assignment, student):
        graded = self.of(api.Grade, notebook, assignment, student)
        return graded.get(grade_cell) or super().find_grade(grade_cell, notebook, assignment, student)

    def find_comment(self, solution_cell, notebook, assignment, student):
        said = self.of(api.Comment, notebook, assignment, student)
        return said.get(solution_cell) or super().find_comment(solution_cell, notebook, assignment, student)

    def find_source_cell(self, name, notebook, assignment):
        known = self.of(api.SourceCell, notebook, assignment)
        return known.get(name) or super().find_source_cell(name, notebook, assignment)

    def find_graded_cell(self, cell, notebook, assignment):
        known = self.of(api.GradeCell, notebook, assignment)
        return known.get(cell) or super().find_graded_cell(cell, notebook, assignment)

    def of(self, kind, *place: str) -> dict[str, object]:
        """What a notebook has of this kind, by the name of its cell, in one question instead of one a cell."""
        if (kind, *place) not in self.cells:
            find = self.find_notebook if len(place) == 2 else self.find_submission_notebook
            rows = self.db.query(kind).filter(kind.notebook_id == find(*place).id)
            rows = rows.options(joinedload(kind.cell)) if hasattr(kind, "cell") else rows
            self.cells[kind, *place] = {row.name: row for row in rows}
        return self.cells[kind, *place]


class Replay(Autograde):
    """`nbgrader autograde` in one pass: a notebook that was rebuilt from the release needs no cleaning first."""

    def _init_preprocessors(self) -> None:
        self.exporter._preprocessors = []
        for step in self.autograde_preprocessors:
            self.exporter.register_preprocessor(step)

    def convert_single_notebook(self, notebook_filename: str) -> None:
        self._init_preprocessors()
        base.BaseConverter.convert_single_notebook(self, notebook_filename)


def replay(
    interface,
    gradebook: Shared,
    topic: str,
    student: str,
    settled: Collection[str] = (),
    first: Callable = lambda *_: None,
) -> dict:
    """What nbgrader's own `autograde` of this interface would return.

    settled  cells that a person graded, of which nothing has changed: they do not wait for a person again
    first    called with the student and the gradebook before nbgrader's steps, in their transaction
    """
    with temp_attrs(interface.coursedir, assignment_id=topic, student_id=student):
        converter = Replay(coursedir=interface.coursedir, parent=interface)
        converter.force = True
        with gradebook.transaction():
            first(student, gradebook)
            result = capture_log(converter)
            if not result["success"]:
                gradebook.db.rollback()
                return result
            # In this transaction: a run that is stopped after it could not tell these cells from others.
            graded = gradebook.of(api.Grade, NOTEBOOK, topic, student)
            for cell, grade in graded.items():
                if cell in settled:
                    grade.needs_manual_grade = False
            if gradebook.noted:
                late = gradebook.find_submission_notebook(NOTEBOOK, topic, student).late_submission_penalty
                gradebook.noted(student, list(graded.values()), late)
            return result


class Collect(collect.ExchangeCollect):
    """`nbgrader collect`, of what students put there under their own names; no link leads to what only a teacher may read."""

    def _path_to_record(self, path: str) -> dict:
        """A record; without a name, so that it alone is not collected, if the folder is somebody else's or says no time."""
        try:
            record = super()._path_to_record(path)
            owner = os.lstat(path).st_uid
            # Students need no account here without `check_owner`, and where a hub gives all of them this one.
            anybodys = not self.check_owner or owner == os.getuid()
            theirs = anybodys or owner == collect.pwd.getpwnam(record["username"]).pw_uid
            if theirs and not os.path.islink(path):
                return record
            why = "is a link, or belongs to somebody else"
        except (ExchangeError, ValueError, OverflowError, KeyError):  # KeyError: nobody has this name
            why = "says neither an account nor a time"
        self.log.error("Not collected: %s %s.", plain(os.path.basename(path)), why)
        return {"username": "", "timestamp": datetime.min}

    def init_src(self) -> None:
        super().init_src()
        self.src_records = [r for r in self.src_records if r["username"]]

    def do_copy(self, src: str, dest: str, log=None) -> None:
        """A link stays a link, which nobody follows; what cannot be copied, or is too much, stops no other.

        Under another name first: what a stopped run left in part would count as collected.
        """
        stock, part = shutil.copytree, Path(f"{dest}.part")
        shutil.rmtree(part, ignore_errors=True)
        # shutil.copytree calls itself for folders, and its third argument says that links stay.
        as_links = lambda a, b, _=0, *more, **how: stock(a, b, True, *more, **how)  # noqa: E731
        try:
            with mock.patch.object(shutil, "copytree", as_links):
                super().do_copy(src, str(part), log)
        except (OSError, RuntimeError) as e:
            self.log.error("Not collected, or not all of it: %s: %s", plain(os.path.basename(src)), plain(str(e), 200))
        if part.is_dir():  # nbgrader reads the time again
            stamp = part / "timestamp.txt"
            stamp.unlink(missing_ok=True)
            stamp.write_text(os.path.basename(src).rsplit("+", 3)[2])
            part.rename(dest)


ONE_WAY = "Submissions are graded by `make grade`, in the course's folder: it runs answers behind walls, and checks apart from them."


def grade_one_way() -> None:
    """`nbgrader autograde` and the Formgrader's button name the command that grades, and stop before anything is removed."""
    if getattr(Autograde.start, "ours", False):
        return
    stock = Autograde.start

    def start(self):
        if type(self) is Autograde:  # and not ours, which writes what is graded
            self.log.error(ONE_WAY)
            raise base.NbGraderException(ONE_WAY)
        stock(self)

    start.ours = True
    Autograde.start = start
