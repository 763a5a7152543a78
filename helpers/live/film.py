"""A film on a page: a menu of films, a slider through the frames of each, a button that plays them; `film.js` moves them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from .controls import PLAY


@dataclass(frozen=True)
class Film:
    """A film in a sentence, and its frames: records with a label and a text, which `drawing` makes the inside of an <svg> of this size."""

    said: str
    frames: Sequence
    size: tuple[int, int]
    drawing: Callable[..., str]

    def strip(self, hidden: bool) -> str:
        """All frames, side by side."""
        w, h = self.size
        frames = "".join(
            f'<svg viewBox="0 0 {w} {h}" role="img" aria-label="{escape(f.text)}" data-label="{f.label}">{self.drawing(f)}</svg>'
            for f in self.frames
        )
        return f'<div class="film-strip" data-said="{escape(self.said)}"{" hidden" * hidden}>{frames}</div>'


@dataclass(frozen=True)
class LiveFilm:
    """Films on a page, by what the menu says; without JavaScript all frames of the first."""

    name: str
    title: str
    films: dict[str, Film]
    menu: str
    runners = ("play.js", "film.js")

    def script(self) -> str:
        """Nothing of its own: film.js finds everything in the page."""
        return ""

    def html(self) -> str:
        """Controls, which stay hidden until the script has started, and every frame of every film."""
        key, first = f"live-{self.name}", next(iter(self.films.values()))
        options = "".join(f"<option>{escape(o)}</option>" for o in self.films)
        strips = "".join(film.strip(k > 0) for k, film in enumerate(self.films.values()))
        return (
            f'<figure class="live film" id="{key}">'
            f'<form class="live-controls" aria-label="Settings of the figure: {escape(self.title)}" hidden>'
            f'<div><label for="{key}-links">{self.menu}</label>'
            f'<select id="{key}-links" name="links" autocomplete="off">{options}</select></div>'
            f'<div><label for="{key}-step">Step</label><input type="range" id="{key}-step" name="step" min="0" '
            f'max="{len(first.frames) - 1}" value="0" step="1" aria-valuetext="{first.frames[0].label}">'
            f"<span>{first.frames[0].label}</span></div>{PLAY}</form>"
            f'{strips}<p role="status" aria-live="polite"><span>{escape(first.said)}</span> '
            '<span class="visually-hidden"></span></p>'
            f"<figcaption>{escape(self.title)}</figcaption></figure>"
        )
