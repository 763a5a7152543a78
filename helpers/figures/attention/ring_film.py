"""A film of chapter 6: four devices of a ring, the keys and values that each has at each hop, and the pairs that it computes with them."""

from dataclasses import dataclass

from helpers.costs.attention.ring_attention import work
from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame, rect, word

BOX, TALL, GAP, WIDTH, HEIGHT = 150, 112, 62, 372, 344
TOKENS = 8  # of each device
PLACES = ((0, 0), (1, 0), (1, 1), (0, 1))
"""Column and row of each device: the ring turns clockwise."""


@dataclass(frozen=True)
class Hop:
    """What happens at once.

    keys    whose keys and values each device has
    seen    whose its queries have met, this hop's included
    pairs   that each device computes in this hop; 0: the mask hides all of them
    waited  pairs of the busiest devices so far, for whom all others wait
    """

    label: str
    keys: tuple[int, ...]
    seen: tuple[tuple[int, ...], ...]
    pairs: tuple[int, ...]
    waited: int
    sends: bool
    text: str


def film(cut: str | None, n: int = 4) -> Film:
    """n - 1 sends to the next device; a `cut` of the sequence has a causal mask, and None has none.

    >>> [hop.keys for hop in film(None).frames][:3], film("contiguous").frames[1].pairs, film("striped").frames[1].pairs
    ([(0, 1, 2, 3), (3, 0, 1, 2), (2, 3, 0, 1)], (0, 64, 64, 64), (28, 36, 36, 36))
    """
    frames, seen, waited = [], tuple(() for _ in range(n)), 0
    every = work(n, TOKENS, cut) if cut else [[TOKENS**2] * n] * n
    for r, pairs in enumerate(every):
        keys, waited = tuple((i - r) % n for i in range(n)), waited + max(pairs)
        seen = tuple((*old, j) if p else old for old, j, p in zip(seen, keys, pairs))
        told = "; ".join(
            f"device {i} has K and V of {j}, {f'{p} pairs' if p else 'all hidden'}"
            for i, (j, p) in enumerate(zip(keys, pairs))
        )
        sends = "Each sends them to the next device meanwhile." if r < n - 1 else "Nothing is sent any more."
        frames.append(
            Hop(f"Hop {r} of {n - 1}", keys, seen, tuple(pairs), waited, r < n - 1, f"Hop {r}: {told}. {sends}")
        )
    mask = f"causal, {cut}" if cut else "without a mask"
    share = sum(map(sum, every)) / (n * waited)
    said = f"A ring of {n}, {mask}: {n - 1} sends of K and V by each device, and time for {waited} pairs, of which a device computes "
    return Film(f"{said}{share:.0%} on average.", tuple(frames), (WIDTH, HEIGHT), drawing)


def drawing(hop: Hop) -> str:
    """What is inside of one frame's <svg>: devices on a ring, what stays with each, and the block that comes by, in its owner's colour."""
    out = []
    for i, (column, row) in enumerate(PLACES):
        x, y, j, pairs = 2 + column * (BOX + GAP), 28 + row * (TALL + GAP), hop.keys[i], hop.pairs[i]
        look = {"fill_opacity": 0.5} if pairs else {"fill_opacity": 0.12, "stroke_dasharray": "4 3"}
        out += [
            rect(x, y, BOX, TALL),
            word(x + 8, y + 18, f"device {i}: Q{i}, O{i}"),
            rect(x + 8, y + 27, BOX - 16, 28, COLOURS[j], **look),
            word(x + BOX / 2, y + 46, f"K{j}, V{j}{'' if pairs else ': hidden'}", "middle"),
            word(x + 8, y + 73, f"computes {pairs} pairs"),
            word(x + 8, y + 89, "m, ℓ, O over keys of"),
            word(x + 8, y + 104, ", ".join(map(str, hop.seen[i]))),
        ]
    out.append(word(2, HEIGHT - 8, f"pairs of the busiest device so far: {hop.waited}"))
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
    films={"no mask": film(None), "causal, contiguous": film("contiguous"), "causal, in stripes": film("striped")},
    menu="Mask and cut",
)
