"""Speculative decoding in steps: a draft model proposes tokens, one pass of the model checks them, what agrees is kept.

A simulation in plain Python, greedy, on a given text: the model's own choice after any beginning of the text is the next word of it.
Tests hold what each round keeps against `kernels.inference.speculative_decoding.agreed`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from helpers.figures.sharding.collective_films.figure import LiveFilm
from helpers.plot.sharding.collective_steps import PALETTE

WIDE, HIGH, LEFT, TOP = 52, 34, 78, 24
ROWS = ("text", "drafts", "the model")


@dataclass(frozen=True)
class Step:
    """What stands there at once: the text so far, drafts after it, the model's own choices in these places.

    note   what stands below them
    kept   drafts that agree, once they are checked; None before
    """

    label: str
    text: str
    note: str
    done: tuple[str, ...]
    drafts: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    kept: int | None = None


@dataclass(frozen=True)
class Rounds:
    """A film: its frames, how wide a text it shows, and it in a sentence."""

    frames: tuple[Step, ...]
    words: int
    passes: tuple[int, ...]

    @property
    def said(self) -> str:
        made = sum(self.passes)
        return f"{made} tokens in {len(self.passes)} passes of the model, {made / len(self.passes):.1f} tokens each."


def rounds(words: Sequence[str], start: int, drafted: Sequence[str], gamma: int) -> Rounds:
    """All steps until the text is whole.

    words    the text that the model would generate by itself, with its prompt
    start    words of the prompt
    drafted  what the draft model proposes in each place of the text
    gamma    drafts of a round

    >>> rounds("a b c d e f".split(), 1, "a b c x e f".split(), 2).passes
    (3, 2)
    """
    frames, passes, at = [], [], start
    while at < len(words):
        n = min(gamma, len(words) - at - 1)
        drafts, own = tuple(drafted[at : at + n]), tuple(words[at : at + n + 1])
        done, turn = tuple(words[:at]), len(passes) + 1
        kept = next((i for i, (d, o) in enumerate(zip(drafts, own)) if d != o), n)
        said = f"The draft model proposes: {' '.join(drafts) or 'nothing'}."
        frames.append(Step(f"Pass {turn}: draft", said, "The draft model proposes.", done, drafts))
        said = f"One pass of the model gives its own choices: {' '.join(own[: kept + 1])}. {kept} of {n} drafts agree."
        frames.append(
            Step(
                f"Pass {turn}: check",
                said,
                f"One pass of the model: {kept} of {n} drafts agree.",
                done,
                drafts,
                own,
                kept,
            )
        )
        passes.append(kept + 1)
        at += kept + 1
        note = f"{kept + 1} more: {sum(passes)} tokens in {turn} pass{'es' * (turn > 1)}."
        frames.append(Step(f"Pass {turn}: keep", note, note, tuple(words[:at])))
    return Rounds(tuple(frames), len(words), tuple(passes))


def size(film: Rounds) -> tuple[int, int]:
    """Width and height of a frame."""
    return LEFT + film.words * WIDE + 4, TOP + len(ROWS) * HIGH + 26


def drawing(step: Step, film: Rounds) -> str:
    """What is inside of one frame's <svg>."""
    out = [f'<g font-family="sans-serif" font-size="14" fill="currentColor"><text x="2" y="14">{step.label}</text>']
    for y, name in enumerate(ROWS):
        out.append(f'<text x="{LEFT - 8}" y="{TOP + y * HIGH + 22}" text-anchor="end">{name}</text>')
    out += [_word(x, 0, w, "currentColor", 0.08) for x, w in enumerate(step.done)]
    at, checked = len(step.done), step.kept is not None
    for i, w in enumerate(step.drafts):
        good = not checked or i < step.kept
        out.append(
            _word(
                at + i,
                1,
                w,
                PALETTE[5] if not checked else PALETTE[2],
                0.45 if good else 0.0,
                checked and i == step.kept,
            )
        )
    for i, w in enumerate(step.own):
        used = checked and i <= step.kept
        out.append(_word(at + i, 2, w if used else "·", PALETTE[4], 0.45 if used else 0.0))
    out.append(f'<text x="{LEFT}" y="{TOP + len(ROWS) * HIGH + 18}">{step.note}</text>')
    return "".join(out) + "</g>"


def _word(x: int, y: int, text: str, fill: str, shade: float, struck: bool = False) -> str:
    """A box with a word in it; a refused draft is struck out."""
    left, top = LEFT + x * WIDE, TOP + y * HIGH + 3
    middle = top + (HIGH - 6) / 2
    line = f'<path d="M{left + 6} {middle}h{WIDE - 16}" stroke="currentColor" stroke-width="2"/>' if struck else ""
    return (
        f'<rect x="{left}" y="{top}" width="{WIDE - 4}" height="{HIGH - 6}" fill="{fill}" fill-opacity="{shade}" stroke="currentColor"/>'
        f'<text x="{left + WIDE / 2 - 2:g}" y="{middle + 5:g}" text-anchor="middle">{text}</text>{line}'
    )


@dataclass(frozen=True)
class DraftFilm(LiveFilm):
    """Films of speculative decoding on a page: a menu of draft models."""

    menu: str = "Draft model"

    def size(self, film: Rounds) -> tuple[int, int]:
        return size(film)

    def drawing(self, film: Rounds, frame: Step) -> str:
        return drawing(frame, film)

    def summary(self, film: Rounds) -> str:
        return film.said


LINE = "This is the page that waits for the batch".split()
GOOD = "This is the page that waits for the slot".split()
POOR = "This is a page that fits in the slot".split()
FIGURE = DraftFilm(
    name="speculation",
    title="Greedy speculative decoding, three drafts in a round: both draft models give the same text, in a different number of passes.",
    films={"good": rounds(LINE, 2, GOOD, 3), "poor": rounds(LINE, 2, POOR, 3)},
)
