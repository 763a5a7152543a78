"""A film on a page: a menu of films, a slider through the frames of each, a button that plays them; `film.js` moves them."""

from dataclasses import dataclass
from html import escape

from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.collective_steps import Film, Frame
from helpers.costs.sharding.sharded_array import Axis
from helpers.live.controls import PLAY
from helpers.plot.sharding.collective_steps import drawing, size


@dataclass(frozen=True)
class LiveFilm:
    """A collective on a page: a menu of films, a slider through the frames, a button; without JavaScript all frames of the first.

    films  {what the menu says: Film}

    Another kind of film (`tiles`) says how large and what its frames are, what it is in a sentence, and what the menu is called.
    """

    name: str
    title: str
    films: dict[str, Film]
    runners = ("play.js", "film.js")
    menu = "Links"

    def size(self, film: Film) -> tuple[int, int]:
        return size(film)

    def drawing(self, film: Film, frame: Frame) -> str:
        return drawing(film, frame)

    def summary(self, film: Film) -> str:
        return summary(film)

    def script(self) -> str:
        """Nothing of its own: film.js finds everything in the page."""
        return ""

    def html(self) -> str:
        """Controls, which stay hidden until the script has started, and every frame of every film."""
        key, first = f"live-{self.name}", next(iter(self.films.values()))
        options = "".join(f"<option>{escape(o)}</option>" for o in self.films)
        strips = "".join(self._strip(k, film) for k, film in enumerate(self.films.values()))
        return (
            f'<figure class="live film" id="{key}">'
            f'<form class="live-controls" aria-label="Settings of the figure: {escape(self.title)}" hidden>'
            f'<div><label for="{key}-links">{self.menu}</label>'
            f'<select id="{key}-links" name="links" autocomplete="off">{options}</select></div>'
            f'<div><label for="{key}-step">Step</label><input type="range" id="{key}-step" name="step" min="0" '
            f'max="{len(first.frames) - 1}" value="0" step="1" aria-valuetext="{first.frames[0].label}">'
            f"<span>{first.frames[0].label}</span></div>{PLAY}</form>"
            f'{strips}<p role="status" aria-live="polite"><span>{escape(self.summary(first))}</span> '
            '<span class="visually-hidden"></span></p>'
            f"<figcaption>{escape(self.title)}</figcaption></figure>"
        )

    def _strip(self, k: int, film: Film) -> str:
        w, h = self.size(film)
        frames = "".join(
            f'<svg viewBox="0 0 {w} {h}" role="img" aria-label="{escape(f.text)}" data-label="{f.label}">{self.drawing(film, f)}</svg>'
            for f in film.frames
        )
        return f'<div class="film-strip" data-said="{escape(self.summary(film))}"{" hidden" * (k > 0)}>{frames}</div>'


def summary(film: Film) -> str:
    """The film in a sentence.

    >>> from helpers.costs.sharding.sharded_array import Axis
    >>> from helpers.costs.sharding.collective_steps import all_gather
    >>> summary(all_gather(Axis(4)))
    'AllGather over 4 devices: 2 hops, 2 blocks over the busiest link in one direction.'
    """
    blocks = f"{film.busiest:g} block{'s' * (film.busiest != 1)}"
    return f"{film.kind} over {film.axis.n} devices: {film.hops} hops, {blocks} over the busiest link in one direction."


TITLES = {
    "all-gather": "AllGather on four devices: each frame shows what a device holds, thick edges what it sends next.",
    "reduce-scatter": (
        "ReduceScatter on four devices: in each block the devices whose partial sums it holds, Σ for all of them."
    ),
    "all-reduce": (
        "AllReduce on four devices: round a ring a ReduceScatter, then an AllGather of the sums; along a line "
        "partial sums run to the middle, and sums run back."
    ),
    "all-to-all": "AllToAll on four devices: block sd goes from device s to device d; numbers on arrows count blocks.",
    "gather-matmul": "AllGather and matmul overlapped: dashed blocks are multiplied while they are sent on.",
    "matmul-scatter": (
        "Matmul and ReduceScatter overlapped: dashed blocks get the device's own partial sum while others travel."
    ),
}


def film(name: str) -> LiveFilm:
    """The film of that name: its frames are those of the function of `helpers.costs.sharding.collective_steps` that is called so."""
    of = getattr(collective_steps, name.replace("-", "_"))
    links = {"ring, both ways": of(Axis(4)), "ring, one way": of(Axis(4), ways=1), "line": of(Axis(4, wraps=False))}
    return LiveFilm(name, TITLES[name], links)


FIGURES = {name: film(name) for name in TITLES}
