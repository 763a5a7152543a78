"""A film of chapter 6: Flash block by block, what lies in HBM and in fast memory, what has moved, and m, l and O as they are updated.

Twelve small numbers that a reader can check: heads of one number, scores q·k without a scale. A simulation in plain Python; tests
hold its results against dense attention.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame, rect, word

Q, K, V = (1, 2, 0, 1, 2, 1), (1, 0, 2, 1, 3, 0), (4, 8, 2, 6, 1, 5)
SIDE, LEFT, TOP, WIDTH, HEIGHT = 34, 30, 100, 372, 328
HERE = {"fill": COLOURS[5], "fill_opacity": 0.6}
COLUMNS = (("query", 26), ("scores", 74), ("e^(m−m′)", 160), ("m", 222), ("ℓ", 272), ("O", 330))


@dataclass(frozen=True)
class Row:
    """A query of the block in fast memory: its scores with the keys there, the old sums' factor, and m, l and O after the step."""

    query: int
    scores: tuple[int | None, ...]
    factor: float
    m: float
    total: float
    O: float


@dataclass(frozen=True)
class Step:
    """A block of queries `i` that meets a block of keys `j`; of the last step both are None.

    done   blocks of O that are finished
    moved  blocks through HBM so far, by array
    """

    label: str
    i: int | None
    j: int | None
    done: int
    moved: dict[str, int]
    rows: tuple[Row, ...]
    note: str
    text: str


def film(causal: bool, version: int = 2, C: int = 2) -> Film:
    """Flash over the six queries and keys, C at a time: version 1 takes keys outside, version 2 queries.

    >>> [round(row.O / row.total, 3) for row in film(True).frames[0].rows]        # the first block of queries sees keys 0 and 1
    [4.0, 4.477]
    >>> [(step.i, step.j) for step in film(True, 1).frames[:-1]]
    [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)]
    """
    frames, n, moved, before = [], len(Q) // C, {"Q": 0, "K, V": 0, "O": 0}, None
    pairs = [(i, j) for i in range(n) for j in range(n) if not causal or j <= i]
    pairs.sort(key=lambda pair: pair[::-1] if version == 1 else pair)
    state: dict[int, tuple[float, float, float]] = {}
    for number, (i, j) in enumerate(pairs, 1):
        rows = tuple(_row(t, range(j * C, (j + 1) * C), causal, state) for t in range(i * C, (i + 1) * C))
        state |= {row.query: (row.m, row.total, row.O) for row in rows}
        if version == 1:  # O is kept divided by l
            rows = tuple(replace(row, O=row.O / row.total) for row in rows)
        done, note, then = _after(version, pairs, number, rows)
        outer = j if version == 1 else i
        moved = {
            "Q": moved["Q"] + (version == 1 or outer != before),
            "K, V": moved["K, V"] + 2 * (version == 2 or outer != before),
            "O": moved["O"] + 2 if version == 1 else done,  # read and written at each visit, or written once
        }
        before = outer
        held = "; ".join(f"query {r.query}: m {r.m:g}, l {r.total:.2f}, O {r.O:.2f}" for r in rows)
        text = f"Q{i} meets K{j} and V{j} in fast memory. {held}. {then}"
        frames.append(Step(f"Step {number} of {len(pairs)}", i, j, done, moved, rows, note, text))
    said = "End: all of O is in HBM, and no block of scores ever was."
    end = Step("End", None, None, n, moved, (), "all of O is in HBM", said)
    what = "with a causal mask" if causal else "without a mask"
    said = f"Flash {version} {what}: {len(pairs)} steps; blocks moved through HBM: {_counted(moved)}."
    return Film(said, (*frames, end), (WIDTH, HEIGHT), partial(drawing, causal))


def _after(version: int, pairs: list[tuple[int, int]], number: int, rows: tuple[Row, ...]) -> tuple[int, str, str]:
    """Blocks of O that are finished after a step; what the frame notes then, and what is said."""
    i, j = pairs[number - 1]
    if version == 1:
        return j + 1, f"O{i} goes back to HBM with m and ℓ", f"O, m and l of block {i} are written to HBM."
    if number < len(pairs) and pairs[number][0] == i:
        return i, f"next: K{pairs[number][1]} and V{pairs[number][1]}", "Q, O, m and l stay there."
    out = ", ".join(f"{r.O / r.total:.2f}" for r in rows)
    then = f"All its keys have passed, so O / l of block {i} is written to HBM."
    return i + 1, f"last keys for Q{i}: O / ℓ = {out} goes to HBM", then


def _counted(moved: dict[str, int]) -> str:
    return " · ".join(f"{name} {n}" for name, n in moved.items())


def _row(t: int, keys: range, causal: bool, state: dict) -> Row:
    m, total, O = state.get(t, (-math.inf, 0.0, 0.0))
    scores = tuple(Q[t] * K[s] if s <= t or not causal else None for s in keys)
    larger = max([m, *(x for x in scores if x is not None)])
    factor = math.exp(m - larger) if m > -math.inf else 0.0
    weights = [0.0 if x is None else math.exp(x - larger) for x in scores]
    total = total * factor + sum(weights)
    return Row(t, scores, factor, larger, total, O * factor + sum(w * V[s] for w, s in zip(weights, keys)))


def drawing(causal: bool, step: Step) -> str:
    """What is inside of one frame's <svg>: HBM above, with the scores that it never holds, and fast memory below."""
    n, beside = len(Q) // 2, LEFT + 232
    out = [word(2, TOP - 42, "HBM")]
    for k in range(n):
        y, x = TOP + k * (SIDE + 2), LEFT + 54 + k * (SIDE + 2)
        out += _block(LEFT, y, f"Q{k}", k == step.i, False)
        out += _block(LEFT + 182, y, f"O{k}", k == step.i, k < step.done)
        out += _block(x, TOP - 76, f"V{k}", k == step.j, False)
        out += _block(x, TOP - 40, f"K{k}", k == step.j, False)
        for j in range(k + 1 if causal else n):
            look = HERE | {"edge": 2} if (k, j) == (step.i, step.j) else {"edge": 0.6, "stroke_dasharray": "3 3"}
            out.append(rect(LEFT + 54 + j * (SIDE + 2), y, SIDE, SIDE, **look))
    notes = "dashed: scores,", "never in HBM", "", "blocks moved:", _counted(step.moved)
    out += [word(beside, TOP + 12 + 15 * k, text, size=11) for k, text in enumerate(notes) if text]
    return frame(step.label, [*out, *_fast(step)])


def _block(x: float, y: float, name: str, marked: bool, written: bool) -> list[str]:
    look = HERE if marked else {"fill": COLOURS[0], "fill_opacity": 0.5} if written else {}
    middle = word(x + SIDE / 2, y + SIDE / 2 + 5, name, "middle")
    return [rect(x, y, SIDE, SIDE, edge=2 if marked else 1, **look), middle]


def _fast(step: Step) -> list[str]:
    top = TOP + 3 * (SIDE + 2) + 16
    holds = f": Q{step.i}, K{step.j}, V{step.j}, O{step.i}" if step.i is not None else ""
    out = [
        rect(1, top, WIDTH - 2, HEIGHT - top - 2, COLOURS[5], fill_opacity=0.15),
        word(8, top + 17, f"fast memory{holds}"),
        word(WIDTH - 8, HEIGHT - 10, step.note, "end"),
    ]
    out += [word(x, top + 39, name, "middle", 12) for name, x in COLUMNS if step.rows]
    for k, row in enumerate(step.rows):
        scores = "  ".join("–" if s is None else str(s) for s in row.scores)
        factor = f"{row.factor:.2f}" if row.factor else "–"
        values = row.query, scores, factor, f"{row.m:g}", f"{row.total:.2f}", f"{row.O:.2f}"
        for (_, x), value in zip(COLUMNS, values):
            out.append(
                element("text", str(value), x=x, y=top + 58 + 18 * k, text_anchor="middle", **{"xml:space": "preserve"})
            )
    return out


FIGURE = LiveFilm(
    name="flash-memory",
    title="Flash on six queries and six keys, two at a time: which blocks are in fast memory, and m, ℓ and O after each step.",
    films={"Flash 2, causal": film(True), "Flash 2, no mask": film(False), "Flash 1, causal": film(True, 1)},
    menu="Order and mask",
)
