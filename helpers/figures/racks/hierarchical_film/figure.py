"""A film of chapter 7: an AllReduce in two tiers, message by message."""

from dataclasses import dataclass

from helpers.costs.sharding.collective_steps import Step
from helpers.figures.sharding.collective_films.figure import LiveFilm
from helpers.plot.racks.two_tiers import sums
from helpers.plot.sharding.collective_steps import PALETTE

CELL, WIDE, GAP, HOST, HEAD = 9, 26, 8, 22, 44
COLOURS = {"ici": PALETTE[0], "dcn": PALETTE[1]}


@dataclass(frozen=True)
class Moment:
    """What was just sent (None at the start), how many numbers each piece of each chip sums, and pieces over the busiest links so far."""

    label: str
    text: str
    step: Step | None
    held: dict[tuple[int, int], tuple[int, ...]]
    sent: dict[str, int]


@dataclass(frozen=True)
class TwoTiers:
    """An AllReduce over m hosts of g chips: said in a sentence, and its moments."""

    said: str
    g: int
    m: int
    frames: tuple[Moment, ...]


def two_tiers(g: int, m: int) -> TwoTiers:
    """All moments of `costs.sharding.collective_steps.hierarchical_steps`.

    >>> film = two_tiers(4, 2)
    >>> len(film.frames), film.frames[-1].sent, film.frames[4].label
    (9, {'ici': 12, 'dcn': 2}, 'ReduceScatter across')
    """
    sent, frames = {"ici": 0, "dcn": 0}, []
    for step, held in sums(g, m):
        if step:
            sent[step.link] += len(step.messages[0].pieces)
        over = {"ici": "inside the hosts", "dcn": "between the hosts"}[step.link] if step else ""
        label = step.stage if step else "start"
        text = (
            f"{label}: every chip sends {len(step.messages[0].pieces)} pieces {over}."
            if step
            else "Start: own numbers only."
        )
        frames.append(Moment(label, text, step, held, dict(sent)))
    n = g * m
    said = f"{m} hosts of {g} chips, {n} pieces: each chip sends {sent['ici']} pieces inside its host and {sent['dcn']} to other hosts."
    return TwoTiers(said, g, m, tuple(frames))


@dataclass(frozen=True)
class TwoTierFilm(LiveFilm):
    """Films of an AllReduce in two tiers on a page: a menu of clusters, and a slider through the steps."""

    menu: str = "Hosts"

    def size(self, film: TwoTiers) -> tuple[int, int]:
        n = film.g * film.m
        return n * (WIDE + GAP) + (film.m - 1) * HOST + 16, HEAD + n * CELL + 70

    def drawing(self, film: TwoTiers, frame: Moment) -> str:
        n = film.g * film.m
        out = [
            f'<g font-family="sans-serif" font-size="13" fill="currentColor"><text x="2" y="14">{frame.label}</text>'
        ]
        place = {chip: 8 + (chip[0] * film.g + chip[1]) * (WIDE + GAP) + chip[0] * HOST for chip in frame.held}
        for d in range(film.m):
            x, wide = place[d, 0] - 5, film.g * (WIDE + GAP) + 2
            out.append(
                f'<rect x="{x}" y="{HEAD - 18}" width="{wide}" height="{n * CELL + 24}" fill="none" stroke="currentColor" '
                'stroke-dasharray="3"/>'
            )
            out.append(f'<text x="{x + 4}" y="{HEAD - 5}" font-size="11">host {d}</text>')
        for chip, pieces in frame.held.items():
            out += _column(place[chip], pieces, n)
        if frame.step:
            out += _messages(frame.step, place, HEAD + n * CELL + 10)
        y = HEAD + n * CELL + 44
        out.append(f'<text x="2" y="{y}">sent by a chip inside: {frame.sent["ici"]} pieces</text>')
        out.append(f'<text x="2" y="{y + 18}">to other hosts: {frame.sent["dcn"]}</text>')
        return "".join(out) + "</g>"

    def summary(self, film: TwoTiers) -> str:
        return film.said


def _column(x: int, pieces: tuple[int, ...], n: int) -> list[str]:
    """A chip's pieces: empty where it has passed its part on, darker the more is summed, and black when all is."""
    out = [
        f'<rect x="{x}" y="{HEAD}" width="{WIDE}" height="{n * CELL}" fill="none" stroke="currentColor" stroke-width=".7"/>'
    ]
    for p, many in enumerate(pieces):
        if many:
            fill, opacity = ("currentColor", 1) if many == n else (COLOURS["ici"], f"{0.15 + 0.7 * many / n:.2g}")
            out.append(
                f'<rect x="{x}" y="{HEAD + p * CELL + 1}" width="{WIDE}" height="{CELL - 2}" fill="{fill}" fill-opacity="{opacity}"/>'
            )
    return out


def _messages(step: Step, columns: dict, y: int) -> list[str]:
    """A bow under the columns for each message, with a point where it arrives."""
    out = []
    for x in step.messages:
        a, b = columns[x.source] + WIDE / 2, columns[x.target] + WIDE / 2
        deep = 8 + 8 * (abs(b - a) > 2 * (WIDE + GAP))
        out.append(
            f'<path d="M{a:g} {y}Q{(a + b) / 2:g} {y + deep} {b:g} {y}" fill="none" stroke="{COLOURS[step.link]}" '
            'stroke-width="1.6"/>'
        )
        out.append(f'<circle cx="{b:g}" cy="{y}" r="2.6" fill="{COLOURS[step.link]}"/>')
    return out


FIGURE = TwoTierFilm(
    name="two-tier-all-reduce",
    title="An AllReduce in two tiers. A column is a chip's array in pieces: the darker, the more chips' numbers a piece sums; black: all.",
    films={"2 hosts of 4 chips": two_tiers(4, 2), "4 hosts of 2 chips": two_tiers(2, 4)},
)
