"""Speculative decoding in steps: a draft model proposes tokens, one pass of the model checks them, what agrees is kept.

A simulation in plain Python, greedy, on a given text: the model's own choice after any beginning of the text is the next word of it.
Tests hold what each round keeps against `kernels.inference.speculative_decoding.agreed`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame, rect, word

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


def rounds(words: Sequence[str], start: int, drafted: Sequence[str], gamma: int) -> Film:
    """All steps until the text is whole.

    words    the text that the model would generate by itself, with its prompt
    start    words of the prompt
    drafted  what the draft model proposes in each place of the text
    gamma    drafts of a round

    >>> rounds("a b c d e f".split(), 1, "a b c x e f".split(), 2).said
    '5 tokens in 2 passes of the model, 2.5 tokens each.'
    """
    frames, at, made, turn = [], start, 0, 0
    while at < len(words):
        n = min(gamma, len(words) - at - 1)
        drafts, own = tuple(drafted[at : at + n]), tuple(words[at : at + n + 1])
        done, turn = tuple(words[:at]), turn + 1
        kept = next((i for i, (d, o) in enumerate(zip(drafts, own)) if d != o), n)
        said = f"The draft model proposes: {' '.join(drafts) or 'nothing'}."
        frames.append(Step(f"Pass {turn}: draft", said, "The draft model proposes.", done, drafts))
        said = f"One pass of the model gives its own choices: {' '.join(own[: kept + 1])}. {kept} of {n} drafts agree."
        note = f"One pass of the model: {kept} of {n} drafts agree."
        frames.append(Step(f"Pass {turn}: check", said, note, done, drafts, own, kept))
        made += kept + 1
        at += kept + 1
        note = f"{kept + 1} more: {made} tokens in {turn} pass{'es' * (turn > 1)}."
        frames.append(Step(f"Pass {turn}: keep", note, note, tuple(words[:at])))
    said = f"{made} tokens in {turn} passes of the model, {made / turn:.1f} tokens each."
    return Film(said, tuple(frames), (LEFT + len(words) * WIDE + 4, TOP + len(ROWS) * HIGH + 26), drawing)


def drawing(step: Step) -> str:
    """What is inside of one frame's <svg>: the text, the drafts below it, and the model's own choices."""
    out = [word(LEFT - 8, TOP + y * HIGH + 22, name, "end") for y, name in enumerate(ROWS)]
    out += [_boxed(x, 0, w, "currentColor", 0.08) for x, w in enumerate(step.done)]
    at, checked = len(step.done), step.kept is not None
    for i, w in enumerate(step.drafts):
        shade = 0.0 if checked and i >= step.kept else 0.45
        out.append(_boxed(at + i, 1, w, COLOURS[2] if checked else COLOURS[5], shade, checked and i == step.kept))
    for i, w in enumerate(step.own):
        used = checked and i <= step.kept
        out.append(_boxed(at + i, 2, w if used else "·", COLOURS[4], 0.45 if used else 0.0))
    return frame(step.label, [*out, word(LEFT, TOP + len(ROWS) * HIGH + 18, step.note)], 14)


def _boxed(x: int, y: int, text: str, fill: str, shade: float, struck: bool = False) -> str:
    """A box with a word in it; a refused draft is struck out."""
    left, top = LEFT + x * WIDE, TOP + y * HIGH + 3
    middle = top + (HIGH - 6) / 2
    line = (
        element("path", d=f"M{left + 6} {middle}h{WIDE - 16}", stroke="currentColor", stroke_width=2) if struck else ""
    )
    box = rect(left, top, WIDE - 4, HIGH - 6, fill, fill_opacity=shade)
    return box + word(left + WIDE / 2 - 2, middle + 5, text, "middle") + line


LINE = "This is the page that waits for the batch".split()
GOOD = "This is the page that waits for the slot".split()
POOR = "This is a page that fits in the slot".split()
FIGURE = LiveFilm(
    name="speculation",
    title="Greedy speculative decoding, three drafts in a round: both draft models give the same text, in a different number of passes.",
    films={"good": rounds(LINE, 2, GOOD, 3), "poor": rounds(LINE, 2, POOR, 3)},
    menu="Draft model",
)
