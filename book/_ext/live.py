"""Sphinx extension: `{live} name` puts a figure with sliders on the page.

`book/figures/<name>.py` (with _ for -) holds its data as FIGURE: a `sliders.LiveFigure`, an
`explorer.PlanExplorer`, a `walker.PlanWalker`, a `builder.DecoderBuilder`, a `finder.LayoutFinder`, a `pricer.TokenPricer`, a
`mover.AttentionMover`, a `planner.Planner` or a `tiles.TileFilm`; `book/figures/films.py` holds each other `film.LiveFilm`, by name.
The page gets the drawn figure, its table and the traced function; without JavaScript the first two stay as they are.
"""

import importlib.util
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

FIGURES = Path(__file__).resolve().parents[1] / "figures"
FILMS = FIGURES / "films.py"


def source(name: str) -> Path:
    """The file that holds the figure: one of its own, or that of all films."""
    own = FIGURES / f"{name.replace('-', '_')}.py"
    return own if own.is_file() and own != FILMS else FILMS


def films() -> dict:
    """Every film, by name."""
    return _run(FILMS).FIGURES


def load(name: str):
    """The figure of that name."""
    if (path := source(name)) != FILMS:
        return _run(path).FIGURE
    there = films()
    if name not in there:
        known = ", ".join(sorted({p.stem.replace("_", "-") for p in FIGURES.glob("*.py") if p != FILMS} | set(there)))
        raise ExtensionError(f"there is no live figure {name!r}; book/figures has {known}")
    return there[name]


def _run(path: Path):
    spec = importlib.util.spec_from_file_location(f"live_figure_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Live(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        figure = load(self.arguments[0])
        self.env.note_dependency(str(source(figure.name)))
        root = "../" * self.env.docname.count("/")
        # Not deferred: the sliders work as soon as they are on the page, before the scripts of theme and maths.
        data = f"<script>{script}</script>" if (script := figure.script()) else ""
        files = "".join(f'<script src="{root}_static/{name}"></script>' for name in figure.runners)
        page = f"{figure.html()}\n{data}{files}\n"
        return [nodes.raw("", page, format="html")]


def setup(app) -> dict:
    app.add_directive("live", Live)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
