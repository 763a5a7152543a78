"""Attention block by block, as a film: in which order Flash visits the scores, and which device of a ring works on which of them.

A square of n by n blocks of C by C scores, queries down, keys across; what the mask leaves is shaded. A simulation in plain
Python: tests hold its counts against `costs.attention.flops_and_bytes` and `costs.attention.ring_attention`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from helpers.costs.attention.ring_attention import work
from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame, rect, word

Tile = tuple[int, int]
SIDE, LEFT, RIGHT, HEAD, FOOT = 48, 92, 190, 48, 6
READS = ("K and V, each", "Q", "O")


@dataclass(frozen=True)
class Step:
    """What happens at once.

    now    blocks of scores that are worked on: (queries, keys)
    done   blocks that were before
    notes  what stands beside the square, a line each
    pairs  of a ring: pairs that each device computes in this step
    """

    label: str
    now: tuple[Tile, ...]
    done: frozenset[Tile]
    notes: tuple[str, ...]
    text: str
    pairs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tiles:
    """What is below a film: n by n blocks.

    runs   for each block the rows of scores that the mask leaves, as (first, after the last) of C; none: ()
    owner  what a row of blocks is called
    """

    n: int
    C: int
    runs: dict[Tile, tuple[tuple[int, int] | tuple, ...]]
    owner: str


def masked(n: int, C: int, sees: Callable[[int, int], bool], token: Callable[[int, int], int]) -> dict:
    """Runs of every block; `token` has the place in the sequence of number a of block i, `sees` whether query q sees key k.

    >>> masked(2, 2, lambda q, k: k <= q, lambda i, a: 2 * i + a)[1, 1]
    ((0, 1), (0, 2))
    """
    out = {}
    for i in range(n):
        for j in range(n):
            rows = []
            for a in range(C):
                seen = [b for b in range(C) if sees(token(i, a), token(j, b))]
                rows.append((seen[0], seen[-1] + 1) if seen else ())
            out[i, j] = tuple(rows)
    return out


def flash(n: int, C: int, version: int = 2, window: int | None = None) -> Film:
    """Flash over a causal mask: version 1 takes keys outside, version 2 queries; blocks without a pair are left out.

    >>> [step.now[0] for step in flash(2, 4).frames[:-1]], [step.now[0] for step in flash(2, 4, 1).frames[:-1]]
    ([(0, 0), (1, 0), (1, 1)], [(0, 0), (1, 0), (1, 1)])
    """
    runs = masked(n, C, lambda q, k: k <= q and (window is None or q - k < window), lambda i, a: i * C + a)
    order = sorted((t for t in runs if any(runs[t])), key=lambda t: t[::-1] if version == 1 else t)
    frames, read, done, last = [], dict.fromkeys(READS, 0), frozenset(), None
    for k, (i, j) in enumerate(order, 1):
        outer = j if version == 1 else i
        fresh = outer != last
        last = outer
        if version == 1:
            stays, comes = f"K and V of {j} stay", f"Q and O of {i} come, O goes"
            read = {READS[0]: read[READS[0]] + fresh, "Q": read["Q"] + 1, "O": read["O"] + 2}
        else:
            stays, comes = f"Q and O of {i} stay", f"K and V of {j} come"
            read = {READS[0]: read[READS[0]] + 1, "Q": read["Q"] + fresh, "O": read["O"] + fresh}
        notes = (stays, comes, "", "blocks moved so far:", *(f"{name}: {read[name]}" for name in READS))
        text = f"Block {k} of {len(order)}: queries {i}, keys {j}. {stays} on the chip, {comes}."
        frames.append(Step(f"Block {k} of {len(order)}", ((i, j),), done, notes, text))
        done |= {(i, j)}
    moved = f"{read[READS[0]]} each of K and V, {read['Q']} of Q, {read['O']} of O"
    end = Step(
        "End",
        (),
        done,
        ("blocks moved:", *(f"{name}: {read[name]}" for name in READS)),
        "End: no block is left that the mask lets through.",
    )
    what = f"Flash {version}" + (f" in a window of {window} tokens" if window else "")
    said = f"{what} visits {len(order)} of {n * n} blocks; blocks moved through HBM: {moved}."
    return shown(Tiles(n, C, runs, "queries"), said, (*frames, end))


def ring(n: int, C: int, cut: str = "contiguous") -> Film:
    """A causal ring: at hop r device i has the keys of device (i - r) mod n, and all wait for the one with most pairs.

    >>> ring(4, 8).frames[1].pairs, ring(4, 8, "striped").frames[1].pairs
    ((0, 64, 64, 64), (28, 36, 36, 36))
    """
    runs = masked(n, C, lambda q, k: k <= q, lambda i, a: i * C + a if cut == "contiguous" else i + n * a)
    frames, done, waited = [], frozenset(), 0
    for r, pairs in enumerate(work(n, C, cut)):
        now = tuple((i, (i - r) % n) for i in range(n))
        waited += max(pairs)
        notes = (*(f"{p} pairs" if p else "idle" for p in pairs), "", f"waited for so far: {waited}")
        keys = "; ".join(
            f"device {i}: keys of {j}, {p} pairs" if p else f"device {i}: keys of {j}, idle"
            for (i, j), p in zip(now, pairs)
        )
        send = " Each sends its keys and values to the next device meanwhile." if r < n - 1 else ""
        frames.append(Step(f"Hop {r} of {n - 1}", now, done, notes, f"Hop {r}: {keys}.{send}", pairs))
        done |= set(now)
    name = {"contiguous": "In whole pieces", "striped": "In stripes"}[cut]
    share = sum(map(sum, work(n, C, cut))) / (n * waited)
    spent = f"time for {waited} pairs, of which a device computes {share:.0%} on average"
    said = f"{name}, {n} devices with {C} tokens each: {n - 1} sends, and {spent}."
    totals = [sum(of) for of in zip(*work(n, C, cut))]
    notes = (*(f"{p} pairs in all" for p in totals), "", f"waited for: {waited}")
    end = Step(
        "End", (), done, notes, "End: in all " + ", ".join(f"device {i} {p} pairs" for i, p in enumerate(totals)) + "."
    )
    return shown(Tiles(n, C, runs, "device"), said, (*frames, end))


def shown(tiles: Tiles, sentence: str, frames: Sequence[Step]) -> Film:
    """The film, with what its drawing needs."""
    below = SIDE // 2 if tiles.owner == "device" else 0  # a ring says there for how long it has waited
    size = LEFT + tiles.n * SIDE + RIGHT, HEAD + tiles.n * SIDE + FOOT + below
    return Film(sentence, frames, size, partial(drawing, tiles))


def drawing(tiles: Tiles, step: Step) -> str:
    """What is inside of one frame's <svg>."""
    n, end, ring = tiles.n, LEFT + tiles.n * SIDE, tiles.owner == "device"
    out = [word((LEFT + end) / 2, 28, "keys of device" if ring else "keys", "middle")]
    for k in range(n):
        middle = k * SIDE + SIDE / 2
        out += [
            word(LEFT + middle, HEAD - 5, k, "middle"),
            word(LEFT - 8, HEAD + middle + 4, f"{tiles.owner} {k}", "end"),
        ]
    for tile, runs in tiles.runs.items():
        out += _tile(tiles, step, tile, runs)
    for k, note in enumerate(step.notes):
        below = min(SIDE / 2 + k * SIDE + 4, n * SIDE + 22) if ring else 14 + 20 * k
        out.append(word(end + 14, HEAD + below, note) if note else "")
    for k, pairs in enumerate(step.pairs):
        wide = 150 * pairs / tiles.C**2
        out.append(rect(end + 14, HEAD + k * SIDE + SIDE / 2 + 9, wide, 6, COLOURS[k % 6], None) if pairs else "")
    return frame(step.label, out, 14)


def _tile(tiles: Tiles, step: Step, tile: Tile, runs: Iterable) -> list[str]:
    """The mask's part of a block: pale, darker where it is done, in a colour while it is worked on."""
    (i, j), small, now, done = tile, SIDE / tiles.C, tile in step.now, tile in step.done
    x, y = LEFT + j * SIDE, HEAD + i * SIDE
    rows = [f"M{x + run[0] * small:g} {y + k * small:g}h{(run[1] - run[0]) * small:g}v{small:g}h{(run[0] - run[1]) * small:g}z"
            for k, run in enumerate(runs) if run]  # fmt: skip
    colour = COLOURS[i % 6] if now or done else "currentColor"
    shade = 0.75 if now else 0.3 if done else 0.12
    edge = rect(x, y, SIDE, SIDE, edge=2.5) if now else rect(x, y, SIDE, SIDE, edge=0.6, stroke_opacity=0.5)
    return [element("path", d="".join(rows), fill=colour, fill_opacity=shade) if rows else "", edge]


FLASH = LiveFilm(
    name="flash-blocks",
    title="Flash over a causal mask: a thick edge for the block on the chip, colour for those before it; empty blocks are never visited.",
    films={
        "Flash 2, queries outside": flash(4, 8),
        "Flash 1, keys outside": flash(4, 8, version=1),
        "Flash 2 in a window": flash(4, 8, window=8),
    },
    menu="Order",
)
RING = LiveFilm(
    name="ring-hops",
    title="A causal ring of four devices: thick edges show the keys that each device has; bars, the pairs that it computes with them.",
    films={"whole pieces": ring(4, 8), "stripes": ring(4, 8, "striped")},
    menu="Cut",
)
FIGURES = {film.name: film for film in (FLASH, RING)}
