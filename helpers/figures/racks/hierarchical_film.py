"""A film of chapter 7: an AllReduce in two tiers, message by message."""

from dataclasses import dataclass
from functools import partial

from helpers.costs.sharding.collective_steps import Step
from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.racks.two_tiers import sums
from helpers.plot.svg import element, frame, rect, word

CELL, WIDE, GAP, HOST, HEAD = 9, 26, 8, 22, 44
OF_LINK = {"ici": COLOURS[0], "dcn": COLOURS[1]}


@dataclass(frozen=True)
class Moment:
    """What was just sent (None at the start), how many numbers each piece of each chip sums, and pieces over the busiest links so far."""

    label: str
    text: str
    step: Step | None
    held: dict[tuple[int, int], tuple[int, ...]]
    sent: dict[str, int]


def two_tiers(g: int, m: int) -> Film:
    """All moments of `costs.sharding.collective_steps.hierarchical_steps`.

    >>> film = two_tiers(4, 2)
    >>> len(film.frames), film.frames[-1].sent, film.frames[4].label
    (9, {'ici': 12, 'dcn': 2}, 'ReduceScatter across')
    """
    sent, frames = {"ici": 0, "dcn": 0}, []
    for step, held in sums(g, m):
        if step:
            sent[step.link] += len(step.messages[0].pieces)
            over = {"ici": "inside the hosts", "dcn": "between the hosts"}[step.link]
            text = f"{step.stage}: every chip sends {len(step.messages[0].pieces)} pieces {over}."
            frames.append(Moment(step.stage, text, step, held, dict(sent)))
        else:
            frames.append(Moment("start", "Start: own numbers only.", step, held, dict(sent)))
    n = g * m
    said = f"{m} hosts of {g} chips, {n} pieces: each chip sends {sent['ici']} pieces inside its host and {sent['dcn']} to other hosts."
    return Film(
        said, tuple(frames), (n * (WIDE + GAP) + (m - 1) * HOST + 16, HEAD + n * CELL + 70), partial(drawing, g, m)
    )


def drawing(g: int, m: int, moment: Moment) -> str:
    """What is inside of one frame's <svg>: a column for each chip, and below it what leaves it."""
    n, out = g * m, []
    place = {chip: 8 + (chip[0] * g + chip[1]) * (WIDE + GAP) + chip[0] * HOST for chip in moment.held}
    for d in range(m):
        x = place[d, 0] - 5
        out.append(rect(x, HEAD - 18, g * (WIDE + GAP) + 2, n * CELL + 24, stroke_dasharray="3"))
        out.append(word(x + 4, HEAD - 5, f"host {d}", size=11))
    for chip, pieces in moment.held.items():
        out += _column(place[chip], pieces, n)
    if moment.step:
        out += _messages(moment.step, place, HEAD + n * CELL + 10)
    y = HEAD + n * CELL + 44
    out.append(word(2, y, f"sent by a chip inside: {moment.sent['ici']} pieces"))
    out.append(word(2, y + 18, f"to other hosts: {moment.sent['dcn']}"))
    return frame(moment.label, out)


def _column(x: int, pieces: tuple[int, ...], n: int) -> list[str]:
    """A chip's pieces: empty where it has passed its part on, darker the more is summed, and black when all is."""
    out = [rect(x, HEAD, WIDE, n * CELL, edge=0.7)]
    for p, many in enumerate(pieces):
        fill, opacity = ("currentColor", 1) if many == n else (OF_LINK["ici"], round(0.15 + 0.7 * many / n, 2))
        out.append(rect(x, HEAD + p * CELL + 1, WIDE, CELL - 2, fill, None, fill_opacity=opacity) if many else "")
    return out


def _messages(step: Step, columns: dict, y: int) -> list[str]:
    """A bow under the columns for each message, with a point where it arrives."""
    out, colour = [], OF_LINK[step.link]
    for x in step.messages:
        a, b = columns[x.source] + WIDE / 2, columns[x.target] + WIDE / 2
        deep = 8 + 8 * (abs(b - a) > 2 * (WIDE + GAP))
        bow = f"M{a:g} {y}Q{(a + b) / 2:g} {y + deep} {b:g} {y}"
        out.append(element("path", d=bow, fill="none", stroke=colour, stroke_width=1.6))
        out.append(element("circle", cx=b, cy=y, r=2.6, fill=colour))
    return out


FIGURE = LiveFilm(
    name="two-tier-all-reduce",
    title="An AllReduce in two tiers. A column is a chip's array in pieces: the darker, the more chips' numbers a piece sums; black: all.",
    films={"2 hosts of 4 chips": two_tiers(4, 2), "4 hosts of 2 chips": two_tiers(2, 4)},
    menu="Hosts",
)
