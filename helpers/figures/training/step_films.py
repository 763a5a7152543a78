"""A training step as a film: what each of four devices holds of the weights, gradients and Adam's state of each layer.

A simulation in plain Python of two layers: it knows no sizes, only shares of an array and what is a partial sum. Tests hold what it
sends against `costs.training.closed_forms`, and what it holds against its `zero_memory`.
"""

from dataclasses import dataclass, replace

from helpers.live.film import Film, LiveFilm
from helpers.plot.picture import COLOURS
from helpers.plot.svg import frame, rect, word

N = 4
CELL, ROW, GAP, LEFT, HEAD = 46, 20, 12, 62, 56
ARRAYS = ("W", "dW", "A")
ZERO = {"DP": 0, "ZeRO-1": 1, "ZeRO-2": 2, "FSDP": 3}


@dataclass(frozen=True)
class Layer:
    """What a device holds of one layer's arrays: "" nothing, "part" its quarter, "whole", "own" a partial sum of its own tokens."""

    W: str
    dW: str
    A: str


@dataclass(frozen=True)
class Step:
    """A moment of the step.

    layers  what every device holds, by layer
    now     (layer, array) that this frame changes or uses
    sends   "" or the collective of this frame
    """

    label: str
    layers: tuple[Layer, ...]
    now: tuple[tuple[int, str], ...]
    text: str
    sends: str = ""


def film(strategy: str, layers: int = 2) -> Film:
    """A step of DP, ZeRO-1, ZeRO-2 or FSDP.

    >>> [step.sends for step in film("DP", 1).frames if step.sends]
    ['AllReduce']
    >>> [step.sends for step in film("FSDP", 1).frames if step.sends]
    ['AllGather', 'AllGather', 'ReduceScatter']
    """
    if strategy not in ZERO:
        raise ValueError(f"no film of {strategy!r}: there are {', '.join(ZERO)}")
    zero = ZERO[strategy]
    made = _Frames([Layer("part" if zero == 3 else "whole", "", "part" if zero else "whole")] * layers)
    made.add("Start", (), _start(zero))
    for i in range(layers):
        _gather(made, zero, i)
        made.add(
            f"Forward, layer {i}", ((i, "W"),), f"Every device computes layer {i} for its own tokens, with all of W."
        )
        _let_go(made, zero, i)
    for i in reversed(range(layers)):
        _gather(made, zero, i)
        made.change(i, dW="own")
        told = f"Every device computes the gradient of layer {i} from its own tokens: a partial sum, of full size."
        made.add(f"Backward, layer {i}", ((i, "dW"),), told)
        _let_go(made, zero, i)
        if zero != 1:
            _sum(made, zero, i)
    if zero == 1:
        for i in reversed(range(layers)):
            _sum(made, zero, i)
    _update(made, zero, layers)
    kinds = [step.sends for step in made.frames if step.sends]
    sent = ", ".join(f"{kinds.count(kind)} {kind}{'s' * (kinds.count(kind) > 1)}" for kind in dict.fromkeys(kinds))
    name = {"DP": "Data parallelism"}.get(strategy, strategy)
    size = LEFT + N * (CELL + GAP), HEAD + layers * (3 * ROW + 14)
    return Film(f"{name}, {layers} layers: {sent}.", tuple(made.frames), size, drawing)


class _Frames:
    """The frames so far, and what is held now."""

    def __init__(self, layers: list[Layer]):
        self.layers, self.frames = layers, []

    def change(self, i: int, **arrays: str) -> None:
        self.layers = [replace(layer, **arrays) if k == i else layer for k, layer in enumerate(self.layers)]

    def add(self, label: str, now, text: str, sends: str = "") -> None:
        self.frames.append(Step(label, tuple(self.layers), tuple(now), text, sends))


def _start(zero: int) -> str:
    weights = "a quarter of the weights" if zero == 3 else "all weights"
    state = "a quarter of Adam's state" if zero else "all of Adam's state"
    return f"Every device holds {weights} and {state}, and its own quarter of the batch."


def _gather(made: _Frames, zero: int, i: int) -> None:
    if zero == 3:
        made.change(i, W="whole")
        told = f"The four quarters of layer {i}'s weights go to every device."
        made.add(f"AllGather W, layer {i}", ((i, "W"),), told, "AllGather")


def _let_go(made: _Frames, zero: int, i: int) -> None:
    if zero == 3:
        made.change(i, W="part")


def _sum(made: _Frames, zero: int, i: int) -> None:
    if zero == 0:
        kind, left, keeps = "AllReduce", "whole", "has the total"
    else:
        kind, left, keeps = "ReduceScatter", "part", "keeps its quarter of the total"
    made.change(i, dW=left)
    told = f"The four partial sums of layer {i} are added up; every device {keeps}."
    made.add(f"{kind} dW, layer {i}", ((i, "dW"),), told, kind)


def _update(made: _Frames, zero: int, layers: int) -> None:
    share = "its quarter of the" if zero else "all"
    now = [(i, name) for i in range(layers) for name in ("W", "A")]
    for i in range(layers):
        made.change(i, dW="")
    copies = "" if zero else " All four do the same work."
    made.add("Adam", now, f"Every device updates {share} weights.{copies} The gradients are let go.")
    if zero in (1, 2):
        for i in range(layers):
            told = f"The four updated quarters of layer {i}'s weights go to every device."
            made.add(f"AllGather W, layer {i}", ((i, "W"),), told, "AllGather")


def drawing(step: Step) -> str:
    """What is inside of one frame's <svg>: a column for each device, three cells for each layer."""
    lefts, out = [LEFT + d * (CELL + GAP) for d in range(N)], []
    out += [word(x + CELL / 2, HEAD - 20, f"dev. {d}", "middle") for d, x in enumerate(lefts)]
    for i, layer in enumerate(step.layers):
        top = HEAD + i * (3 * ROW + 14)
        out.append(word(2, top - 3, f"layer {i}"))
        for k, name in enumerate(ARRAYS):
            y = top + k * ROW
            out.append(word(LEFT - 8, y + 15, name, "end"))
            out += [_cell(getattr(layer, name), d, x, y, (i, name) in step.now, k) for d, x in enumerate(lefts)]
    return frame(step.label, out)


def _cell(held: str, d: int, x: float, y: float, now: bool, k: int) -> str:
    """A box for the whole array: filled where the device holds it; its own partial sum is pale, with a + in it."""
    box = rect(x, y + 2, CELL, ROW - 4, edge=2.2 if now else 0.5)
    if not held:
        return box
    left, wide = (x + d * CELL / N, CELL / N) if held == "part" else (x, CELL)
    plus = word(x + CELL / 2, y + 15, "+", "middle") if held == "own" else ""
    shade = 0.35 if held == "own" else 0.85
    return rect(left, y + 2, wide, ROW - 4, COLOURS[k], None, fill_opacity=shade) + box + plus


FIGURE = LiveFilm(
    name="training-step",
    title="One training step on four devices. W: weights, dW: gradients, A: Adam's state. A frame's thick edges show what it changes.",
    films={"FSDP": film("FSDP"), "ZeRO-2": film("ZeRO-2"), "ZeRO-1": film("ZeRO-1"), "Data parallelism": film("DP")},
    menu="Strategy",
)
