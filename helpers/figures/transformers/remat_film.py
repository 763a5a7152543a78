"""A film of chapter 3: a training step layer by layer, and the bytes that each layer holds meanwhile, under three policies."""

from dataclasses import dataclass, replace
from functools import partial

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import model
from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import frame, rect, word
from helpers.plot.transformers.kept_over_time import schedule

WIDE, TALL, BOX, LEFT, HEAD = 360, 190, 58, 6, 100
KINDS = {"forward": COLOURS[4], "forward again": COLOURS[1], "backward": COLOURS[0]}
FULL = 70  # the height of a bar that holds everything


@dataclass(frozen=True)
class Step:
    """What is computed (kind, layer; "" before the first), bytes that each layer holds then, and the time spent, in forward passes."""

    label: str
    text: str
    kind: str
    layer: int
    held: tuple[float, ...]
    spent: float


def remat(c: Config, T: int, policy: str) -> Film:
    """Moments of a training step of one sequence of T tokens, from the schedule of `plot.kept_over_time`.

    >>> film = remat(replace(model("llama-3-8b"), L=4), 8192, "block")
    >>> len(film.frames), [f.kind for f in film.frames[4:7]], film.frames[-1].held
    (13, ['forward', 'forward again', 'backward'], (0.0, 0.0, 0.0, 0.0))
    """
    full = schedule(c, T, "everything")[0][3]
    held, spent = [0.0] * c.L, 0.0
    frames = [Step("start", "Start: no layer holds anything.", "", -1, tuple(held), 0.0)]
    for kind, layer, length, total in schedule(c, T, policy):
        held[layer] += total - sum(held)
        spent += length
        text = f"{kind}, layer {layer}: the layers hold {total / 1e9:.1f} GB."
        frames.append(Step(f"{kind} {layer}", text[0].upper() + text[1:], kind, layer, tuple(held), spent))
    most = max(sum(f.held) for f in frames) / 1e9
    said = f"Policy {policy}: at most {most:.1f} GB, in a time of {spent:.1f} forward passes of a layer."
    return Film(said, tuple(frames), (WIDE, TALL), partial(drawing, full))


def drawing(full: float, step: Step) -> str:
    """What is inside of one frame's <svg>: layers in a row, and on each a bar of what it holds."""
    out = []
    for layer, held in enumerate(step.held):
        x, now = LEFT + layer * (BOX + 8), layer == step.layer
        high = max(FULL * held / full, 3) if held else 0  # a little is seen, too
        colour = KINDS[step.kind] if now else "currentColor"
        out.append(rect(x, HEAD - high, BOX, high, colour, None, fill_opacity=0.45))
        out.append(rect(x, HEAD, BOX, 26, colour, 2.5 if now else 0.8, fill_opacity=0.8 if now else 0.08))
        out.append(word(x + BOX / 2, HEAD + 18, f"layer {layer}", "middle"))
    ahead = {"backward": "←", "": ""}.get(step.kind, "→")
    out.append(word(LEFT + len(step.held) * (BOX + 8) + 14, HEAD + 19, ahead, size=18))
    out.append(word(2, TALL - 32, f"held: {sum(step.held) / 1e9:.1f} GB"))
    out.append(word(2, TALL - 12, f"time so far: {step.spent:.1f} forward passes of a layer"))
    return frame(step.label, out)


_FOUR = replace(model("llama-3-8b"), L=4)
FIGURE = LiveFilm(
    name="remat",
    title="Four layers of LLaMA-3-8B in a training step, 8192 tokens in bf16. Bars: what a layer holds. A thick edge: what is computed.",
    films={policy: remat(_FOUR, 8192, policy) for policy in ("everything", "matmuls", "block")},
    menu="Policy",
)
