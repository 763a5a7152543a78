"""A film of chapter 6: four devices of a ring, the keys and values that each has at each hop, and those that its queries have seen."""

from dataclasses import dataclass

from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame, rect, word

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


def film(causal: bool, n: int = 4) -> Film:
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
    return Film(
        said + f"and {idle} of {n * n} blocks have nothing to compute.", tuple(frames), (WIDTH, HEIGHT), drawing
    )


def drawing(hop: Hop) -> str:
    """What is inside of one frame's <svg>: devices on a ring, what stays with each, and the block that comes by, in its owner's colour."""
    out = []
    for i, (column, row) in enumerate(PLACES):
        x, y, j, works = 2 + column * (BOX + GAP), 28 + row * (TALL + GAP), hop.keys[i], hop.works[i]
        look = {"fill_opacity": 0.5} if works else {"fill_opacity": 0.12, "stroke_dasharray": "4 3"}
        out += [
            rect(x, y, BOX, TALL),
            word(x + 8, y + 18, f"device {i}: Q{i}, O{i}"),
            rect(x + 8, y + 27, BOX - 16, 28, COLOURS[j], **look),
            word(x + BOX / 2, y + 46, f"K{j}, V{j}{'' if works else ': hidden'}", "middle"),
            word(x + 8, y + 74, "m, ℓ, O over keys of"),
            word(x + 8, y + 89, ", ".join(map(str, hop.seen[i]))),
        ]
    return frame(hop.label, [*out, *(_arrows() if hop.sends else ())])


def _arrows() -> list[str]:
    right, down = 2 + BOX, 28 + TALL
    ways = (
        (f"M{right + 6} {28 + TALL / 2}h{GAP - 20}", f"M{right + GAP - 6} {28 + TALL / 2}l-9 -5v10z"),
        (f"M{right + GAP + BOX / 2} {down + 6}v{GAP - 20}", f"M{right + GAP + BOX / 2} {down + GAP - 6}l-5 -9h10z"),
        (f"M{right + GAP - 6} {down + GAP + TALL / 2}h-{GAP - 20}", f"M{right + 6} {down + GAP + TALL / 2}l9 -5v10z"),
        (f"M{2 + BOX / 2} {down + GAP - 6}v-{GAP - 20}", f"M{2 + BOX / 2} {down + 6}l-5 9h10z"),
    )
    return [
        element("path", d=line, stroke="currentColor", stroke_width=2) + element("path", d=head) for line, head in ways
    ]


FIGURE = LiveFilm(
    name="ring-steps",
    title="Ring attention on four devices: queries and outputs stay, keys and values go to the next device at each hop.",
    films={"none": film(False), "causal": film(True)},
    menu="Mask",
)
