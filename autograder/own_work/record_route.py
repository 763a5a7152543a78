"""What JupyterLab asks and says of a learner's record: /course/record, which only this server's own pages reach."""

import json
from pathlib import Path

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from autograder.places import Tree
from helpers.check import progress, record


def state(path: Path) -> dict:
    """Anchors of sections and exercises that are done, and a link to what is next, from work/."""
    known = record.read(path)
    step = known.next() if known.done() else None
    exercises = [f"ex-{number.replace('.', '-')}" for number in known.passed]
    return {"done": [*known.sections, *exercises], "next": step and {"title": step.title, "link": step.link}}


class Record(APIHandler):
    file = Tree().root / "work" / progress.NAME

    @web.authenticated
    def get(self) -> None:
        self.finish(state(self.file))

    @web.authenticated
    def post(self) -> None:
        """Sections that were read: {"sections": ["sec-bounds"]}."""
        try:
            labels = [str(label) for label in json.loads(self.request.body)["sections"]]
        except (KeyError, TypeError, ValueError):
            raise web.HTTPError(400, 'It takes {"sections": [labels]}.') from None
        record.note_sections(self.file, labels)
        record.refresh(self.file.parent)
        self.finish(state(self.file))


def _jupyter_server_extension_points() -> list[dict]:
    return [{"module": "autograder.own_work.record_route"}]


def _load_jupyter_server_extension(app) -> None:
    at = url_path_join(app.web_app.settings["base_url"], "course", "record")
    app.web_app.add_handlers(".*$", [(at, Record)])
