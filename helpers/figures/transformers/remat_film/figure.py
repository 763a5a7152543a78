"""A film of chapter 3: a training step layer by layer, and the bytes that each layer holds meanwhile, under three policies."""

from dataclasses import dataclass, replace

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import model
from helpers.figures.sharding.collective_films.figure import LiveFilm
from helpers.plot.sharding.collective_steps import PALETTE
from helpers.plot.transformers.kept_over_time import schedule

WIDE, TALL, BOX, LEFT, HEAD = 360, 190, 58, 6, 100
COLOURS = {"forward": PALETTE[4], "forward again": PALETTE[1], "backward": PALETTE[0]}
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


@dataclass(frozen=True)
class Remat:
    """A training step under a policy: said in a sentence, what a layer holds that keeps everything, and the moments."""

    said: str
    full: float
    frames: tuple[Step, ...]


def remat(c: Config, T: int, policy: str) -> Remat:
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
    return Remat(said, full, tuple(frames))


@dataclass(frozen=True)
class RematFilm(LiveFilm):
    """Films of a training step on a page: a menu of policies, and a slider through its moments."""

    menu: str = "Policy"

    def size(self, film: Remat) -> tuple[int, int]:
        return WIDE, TALL

    def drawing(self, film: Remat, frame: Step) -> str:
        out = [
            f'<g font-family="sans-serif" font-size="13" fill="currentColor"><text x="2" y="14">{frame.label}</text>'
        ]
        for layer, held in enumerate(frame.held):
            x, now = LEFT + layer * (BOX + 8), layer == frame.layer
            high = max(FULL * held / film.full, 3) if held else 0  # a little is seen, too
            colour = COLOURS[frame.kind] if now else "currentColor"
            out.append(
                f'<rect x="{x}" y="{HEAD - high:g}" width="{BOX}" height="{high:g}" fill="{colour}" fill-opacity=".45"/>'
            )
            out.append(
                f'<rect x="{x}" y="{HEAD}" width="{BOX}" height="26" fill="{colour}" fill-opacity="{0.8 if now else 0.08}" '
                f'stroke="currentColor" stroke-width="{2.5 if now else 0.8}"/>'
            )
            out.append(f'<text x="{x + BOX / 2:g}" y="{HEAD + 18}" text-anchor="middle">layer {layer}</text>')
        ahead = {"backward": "←", "": ""}.get(frame.kind, "→")
        out.append(f'<text x="{LEFT + len(frame.held) * (BOX + 8) + 14}" y="{HEAD + 19}" font-size="18">{ahead}</text>')
        out.append(f'<text x="2" y="{TALL - 32}">held: {sum(frame.held) / 1e9:.1f} GB</text>')
        out.append(f'<text x="2" y="{TALL - 12}">time so far: {frame.spent:.1f} forward passes of a layer</text>')
        return "".join(out) + "</g>"

    def summary(self, film: Remat) -> str:
        return film.said


_FOUR = replace(model("llama-3-8b"), L=4)
FIGURE = RematFilm(
    name="remat",
    title="Four layers of LLaMA-3-8B in a training step, 8192 tokens in bf16. Bars: what a layer holds. A thick edge: what is computed.",
    films={policy: remat(_FOUR, 8192, policy) for policy in ("everything", "matmuls", "block")},
)
