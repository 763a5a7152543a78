"""Sphinx extension: `{live} name` puts a figure of `helpers.figures` with its controls on the page.

Each page names a script once.  Nothing of the theme matters but its colours, in course.css.
The page gets the drawn figure, its table and the traced function; without JavaScript the first two stay as they are.
Scripts lie beside their figures in `helpers`, and go to the site's `_static`.
"""

from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from helpers import figures


class Live(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        try:
            figure = figures.figure(self.arguments[0])
        except ValueError as e:
            raise ExtensionError(str(e)) from None
        self.env.note_dependency(str(figures.source(figure.name)))
        root = "../" * self.env.docname.count("/")
        data = f"<script>{script}</script>" if (script := figure.script()) else ""
        there = self.env.temp_data.setdefault("live", set())  # of this page
        files = "".join(
            f'<script defer src="{root}_static/{name}"></script>' for name in figure.runners if name not in there
        )
        there.update(figure.runners)
        page = f"{figure.html()}\n{data}{files}\n"
        return [nodes.raw("", page, format="html")]


def bring_scripts(app, exception) -> None:
    """The scripts are static files of the site."""
    if exception is None and app.builder.format == "html":
        for name, text in figures.scripts().items():
            (Path(app.outdir) / "_static" / name).write_text(text, encoding="utf-8")


def setup(app) -> dict:
    app.add_directive("live", Live)
    app.connect("build-finished", bring_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
