"""A film of chapter 6: Flash 2 block by block, what lies in HBM and in fast memory, and m, l and O as they are updated.

Twelve small numbers that a reader can check: heads of one number, scores q·k without a scale. A simulation in plain Python; tests
hold its results against dense attention.
"""

import math
from dataclasses import dataclass

from helpers.figures.sharding.collective_films.figure import LiveFilm
from helpers.plot.sharding.collective_steps import PALETTE

Q, K, V = (1, 2, 0, 1, 2, 1), (1, 0, 2, 1, 3, 0), (4, 8, 2, 6, 1, 5)
SIDE, LEFT, TOP, WIDTH, HEIGHT = 34, 30, 100, 372, 328
HERE = f'fill="{PALETTE[5]}" fill-opacity=".6"'
COLUMNS = (("scores", 74), ("e^(m−m′)", 160), ("m", 222), ("ℓ", 272), ("O", 330))


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
    """A block of queries `i` that meets a block of keys `j`; of the last step both are None. `done`: blocks of O that are written."""

    label: str
    i: int | None
    j: int | None
    done: int
    rows: tuple[Row, ...]
    note: str
    text: str


@dataclass(frozen=True)
class Steps:
    said: str
    causal: bool
    frames: tuple[Step, ...]


def film(causal: bool, R: int = 2, C: int = 2) -> Steps:
    """Flash 2 over the six queries and keys, R and C at a time.

    >>> [round(row.O / row.total, 3) for row in film(True).frames[0].rows]        # the first block of queries sees keys 0 and 1
    [4.0, 4.477]
    """
    frames, n = [], len(Q) // R
    pairs = [(i, j) for i in range(n) for j in range(len(K) // C) if not causal or j * C < (i + 1) * R]
    state: dict[int, tuple[float, float, float]] = {}
    for number, (i, j) in enumerate(pairs, 1):
        rows = tuple(_row(t, range(j * C, (j + 1) * C), causal, state) for t in range(i * R, (i + 1) * R))
        state |= {row.query: (row.m, row.total, row.O) for row in rows}
        last = number == len(pairs) or pairs[number][0] != i
        out = ", ".join(f"{r.O / r.total:.2f}" for r in rows)
        note = (
            f"last keys for Q{i}: O / ℓ = {out} goes to HBM"
            if last
            else f"next: K{pairs[number][1]} and V{pairs[number][1]}"
        )
        said = "; ".join(f"query {r.query}: m {r.m:g}, l {r.total:.2f}, O {r.O:.2f}" for r in rows)
        text = f"Q{i} meets K{j} and V{j} in fast memory. {said}. " + (
            f"All its keys have passed, so O / l of block {i} is written to HBM."
            if last
            else "Q, O, m and l stay there."
        )
        frames.append(Step(f"Step {number} of {len(pairs)}", i, j, i + last, rows, note, text))
    end = Step(
        "End", None, None, n, (), "all of O is in HBM", "End: all of O is in HBM, and no block of scores ever was."
    )
    what = "with a causal mask" if causal else "without a mask"
    said = f"Flash 2 {what}: {len(pairs)} steps; each block of Q is read once and each block of O written once."
    return Steps(said, causal, (*frames, end))


def _row(t: int, keys: range, causal: bool, state: dict) -> Row:
    m, total, O = state.get(t, (-math.inf, 0.0, 0.0))
    scores = tuple(Q[t] * K[s] if s <= t or not causal else None for s in keys)
    larger = max([m, *(x for x in scores if x is not None)])
    factor = math.exp(m - larger) if m > -math.inf else 0.0
    weights = [0.0 if x is None else math.exp(x - larger) for x in scores]
    total = total * factor + sum(weights)
    return Row(t, scores, factor, larger, total, O * factor + sum(w * V[s] for w, s in zip(weights, keys)))


def drawing(film: Steps, step: Step) -> str:
    """What is inside of one frame's <svg>: HBM above, with the scores that it never holds, and fast memory below."""
    n = len(Q) // 2
    out = [
        '<g font-family="sans-serif" font-size="13" fill="currentColor">'
        f'<text x="2" y="13">{step.label}</text><text x="2" y="{TOP - 42}">HBM</text>'
    ]
    for k in range(n):
        y, x = TOP + k * (SIDE + 2), LEFT + 54 + k * (SIDE + 2)
        out += _block(LEFT, y, f"Q{k}", k == step.i, False)
        out += _block(LEFT + 182, y, f"O{k}", k == step.i, k < step.done)
        out += _block(x, TOP - 76, f"V{k}", k == step.j, False)
        out += _block(x, TOP - 40, f"K{k}", k == step.j, False)
        for j in range(n):
            there, masked = (k, j) == (step.i, step.j), film.causal and j > k
            style = f'{HERE} stroke-width="2"' if there else 'fill="none" stroke-width=".6" stroke-dasharray="3 3"'
            box = f'<rect x="{LEFT + 54 + j * (SIDE + 2)}" y="{y}" width="{SIDE}" height="{SIDE}" stroke="currentColor" {style}/>'
            out.append("" if masked else box)
    out.append(f'<text x="{LEFT + 232}" y="{TOP + 12}" font-size="11">dashed: scores,</text>')
    out.append(f'<text x="{LEFT + 232}" y="{TOP + 27}" font-size="11">never in HBM</text>')
    return "".join([*out, *_fast(step), "</g>"])


def _block(x: float, y: float, name: str, marked: bool, written: bool) -> list[str]:
    fill = HERE if marked else f'fill="{PALETTE[0]}" fill-opacity=".5"' if written else 'fill="none"'
    return [
        f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" stroke="currentColor" stroke-width="{2 if marked else 1}" {fill}/>',
        f'<text x="{x + SIDE / 2:g}" y="{y + SIDE / 2 + 5:g}" text-anchor="middle">{name}</text>',
    ]


def _fast(step: Step) -> list[str]:
    top = TOP + 3 * (SIDE + 2) + 16
    out = [
        f'<rect x="1" y="{top}" width="{WIDTH - 2}" height="{HEIGHT - top - 2}" fill="{PALETTE[5]}" fill-opacity=".15" '
        'stroke="currentColor"/>'
    ]
    holds = f": Q{step.i}, K{step.j}, V{step.j}, O{step.i}" if step.i is not None else ""
    out.append(f'<text x="8" y="{top + 17}">fast memory{holds}</text>')
    out.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 10}" text-anchor="end">{step.note}</text>')
    for name, x in (("query", 26), *COLUMNS) if step.rows else ():
        out.append(f'<text x="{x}" y="{top + 39}" font-size="12" text-anchor="middle">{name}</text>')
    for k, row in enumerate(step.rows):
        scores = "  ".join("–" if s is None else str(s) for s in row.scores)
        values = (
            str(row.query),
            scores,
            f"{row.factor:.2f}" if row.factor else "–",
            f"{row.m:g}",
            f"{row.total:.2f}",
            f"{row.O:.2f}",
        )
        for (_, x), value in zip((("query", 26), *COLUMNS), values):
            out.append(
                f'<text x="{x}" y="{top + 58 + 18 * k}" text-anchor="middle" xml:space="preserve">{value}</text>'
            )
    return out


@dataclass(frozen=True)
class MemoryFilm(LiveFilm):
    """A menu of masks, and a slider through the steps."""

    menu: str = "Mask"

    def size(self, film: Steps) -> tuple[int, int]:
        return WIDTH, HEIGHT

    def drawing(self, film: Steps, frame: Step) -> str:
        return drawing(film, frame)

    def summary(self, film: Steps) -> str:
        return film.said


FIGURE = MemoryFilm(
    name="flash-memory",
    title="Flash 2 on six queries and six keys, two at a time: which blocks are in fast memory, and m, ℓ and O after each step.",
    films={"causal": film(True), "none": film(False)},
)
