"""A film of chapter 6: four devices of a ring, the keys and values that each has at each hop, and those that its queries have seen."""

from dataclasses import dataclass

from helpers.figures.sharding.collective_films.figure import LiveFilm
from helpers.plot.sharding.collective_steps import PALETTE

BOX, TALL, GAP, WIDTH, HEIGHT = 150, 96, 62, 372, 292
PLACES = ((0, 0), (1, 0), (1, 1), (0, 1))
"""Column and row of each device: the ring turns clockwise."""


@dataclass(frozen=True)
class Hop:
    """keys: whose keys and values each device has; seen: whose its queries have met, this hop's included; works: whether they do."""

    label: str
    keys: tuple[int, ...]
    seen: tuple[tuple[int, ...], ...]
    works: tuple[bool, ...]
    sends: bool
    text: str


@dataclass(frozen=True)
class Ring:
    said: str
    frames: tuple[Hop, ...]


def film(causal: bool, n: int = 4) -> Ring:
    """n - 1 sends to the next device; with a causal mask keys that stand after all of a device's queries are left out.

    >>> [hop.keys for hop in film(False).frames][:3], film(True).frames[1].works
    ([(0, 1, 2, 3), (3, 0, 1, 2), (2, 3, 0, 1)], (False, True, True, True))
    """
    frames, seen = [], tuple(() for _ in range(n))
    for r in range(n):
        keys = tuple((i - r) % n for i in range(n))
        works = tuple(not causal or j <= i for i, j in enumerate(keys))
        seen = tuple((*old, j) if w else old for old, j, w in zip(seen, keys, works))
        hidden = ["" if w else ", which the mask hides" for w in works]
        told = "; ".join(f"device {i} has K and V of {j}{hidden[i]}" for i, j in enumerate(keys))
        text = f"Hop {r}: {told}." + (
            " Each sends them to the next device meanwhile." if r < n - 1 else " Nothing is sent any more."
        )
        frames.append(Hop(f"Hop {r} of {n - 1}", keys, seen, works, r < n - 1, text))
    idle = sum(not w for hop in frames for w in hop.works)
    said = f"A ring of {n} {'with a causal mask' if causal else 'without a mask'}: {n - 1} sends of K and V by each device, "
    return Ring(said + f"and {idle} of {n * n} blocks have nothing to compute.", tuple(frames))


def drawing(ring: Ring, hop: Hop) -> str:
    """What is inside of one frame's <svg>: devices on a ring, what stays with each, and the block that comes by, in its owner's colour."""
    out = [f'<g font-family="sans-serif" font-size="13" fill="currentColor"><text x="2" y="13">{hop.label}</text>']
    for i, (column, row) in enumerate(PLACES):
        x, y, j = 2 + column * (BOX + GAP), 28 + row * (TALL + GAP), hop.keys[i]
        dash = "" if hop.works[i] else ' stroke-dasharray="4 3"'
        fill = f'fill="{PALETTE[j]}" fill-opacity="{0.5 if hop.works[i] else 0.12}"'
        seen = ", ".join(map(str, hop.seen[i]))
        out += [
            f'<rect x="{x}" y="{y}" width="{BOX}" height="{TALL}" fill="none" stroke="currentColor"/>',
            f'<text x="{x + 8}" y="{y + 18}">device {i}: Q{i}, O{i}</text>',
            f'<rect x="{x + 8}" y="{y + 27}" width="{BOX - 16}" height="28" stroke="currentColor" {fill}{dash}/>',
            f'<text x="{x + BOX / 2}" y="{y + 46}" text-anchor="middle">K{j}, V{j}{"" if hop.works[i] else ": hidden"}</text>',
            f'<text x="{x + 8}" y="{y + 74}">m, ℓ, O over keys of</text><text x="{x + 8}" y="{y + 89}">{seen}</text>',
        ]
    return "".join([*out, *(_arrows() if hop.sends else ()), "</g>"])


def _arrows() -> list[str]:
    right, down = 2 + BOX, 28 + TALL
    ways = (
        (f"M{right + 6} {28 + TALL / 2}h{GAP - 20}", f"M{right + GAP - 6} {28 + TALL / 2}l-9 -5v10z"),
        (f"M{right + GAP + BOX / 2} {down + 6}v{GAP - 20}", f"M{right + GAP + BOX / 2} {down + GAP - 6}l-5 -9h10z"),
        (f"M{right + GAP - 6} {down + GAP + TALL / 2}h-{GAP - 20}", f"M{right + 6} {down + GAP + TALL / 2}l9 -5v10z"),
        (f"M{2 + BOX / 2} {down + GAP - 6}v-{GAP - 20}", f"M{2 + BOX / 2} {down + 6}l-5 9h10z"),
    )
    return [f'<path d="{line}" stroke="currentColor" stroke-width="2"/><path d="{head}"/>' for line, head in ways]


@dataclass(frozen=True)
class RingFilm(LiveFilm):
    """A menu of masks, and a slider through the hops."""

    menu: str = "Mask"

    def size(self, film: Ring) -> tuple[int, int]:
        return WIDTH, HEIGHT

    def drawing(self, film: Ring, frame: Hop) -> str:
        return drawing(film, frame)

    def summary(self, film: Ring) -> str:
        return film.said


FIGURE = RingFilm(
    name="ring-steps",
    title="Ring attention on four devices: queries and outputs stay, keys and values go to the next device at each hop.",
    films={"none": film(False), "causal": film(True)},
)
