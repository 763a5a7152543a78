"""The golden list of what is drawn: equal to the drawings, and none is left out; lighter drawings look the same."""

import gzip
import inspect
import io
from xml.etree import ElementTree

import pytest
from matplotlib import rc_context
from matplotlib.colors import to_hex

from helpers import plot
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.plot.attention import masks_and_blocks, softmax_state
from helpers.plot.inference.serving_timelines import BLOCKS, SPANS
from helpers.plot.picture import STYLE, lighter
from helpers.plot.training.pipelines_and_layouts import TASKS
from tools.drawings import ALT, COMMAND, DRAWN, FILMS, LIST, drawing


@pytest.mark.parametrize("name", [*DRAWN, *FILMS])
def test_each_drawing_is_as_the_list_says(name):
    listed = LIST.read_text(encoding="utf-8").splitlines()
    now = drawing(name)
    assert now in listed, f"{now}\n\nIf this is what is meant to be drawn now: {COMMAND}"


def test_no_drawing_is_left_out():
    every = {name: getattr(plot, name) for name in plot.__all__ if inspect.isfunction(getattr(plot, name))}
    assert {name for name, f in every.items() if inspect.signature(f).return_annotation is plot.Picture} <= set(DRAWN)
    assert {x.partition(": ")[0] for x in LIST.read_text("utf-8").splitlines()} >= {n for n in DRAWN if ":" not in n}


def greys(fills) -> list[float]:
    """How light each colour is, of 255."""
    return [sum(w * int(to_hex(f)[i : i + 2], 16) for w, i in ((0.3, 1), (0.59, 3), (0.11, 5))) for f in fills]


@pytest.mark.parametrize("fills, apart", [
    ([fill for fill, *_ in SPANS.values()], 12),
    ([fill for kind, (fill, *_) in BLOCKS.items() if kind != "let go"], 12),
    ([fill for _, fill, _ in TASKS.values()], 50),
], ids=["spans", "blocks", "tasks"])  # fmt: skip
def test_fills_differ_in_grey(fills, apart):
    grey = sorted(greys(fills))
    assert all(b - a > apart for a, b in zip(grey, grey[1:]))


def test_a_picture_is_the_same_bytes_every_time():
    draw = lambda: plot.levels({"HBM": (8.1e11, "x")}, "bytes/s", ALT).svg()  # noqa: E731
    assert draw() == draw()


REFUSED = {
    "alt text": lambda: plot.levels({"HBM": (8.1e11, "x")}, "bytes/s", "figure"),
    "contiguous or striped, not 'zigzag'": lambda: softmax_state.owner(0, 4, 3, "zigzag"),
    "a power of two of devices, not of 6": lambda: plot.ring_or_tree(Attention(1, 8, N=32, K=8), 6, ALT),
    "parallel, chunked, recurrent, not 'dense'": lambda: masks_and_blocks.tables("dense", 8, 2),
    "the same product": lambda: plot.two_meshes({"a": ((("x", 8),), ""), "b": ((("x", 4),), "")}, ALT),
    "4 chips: every point has an x, a y and a text, not 1, 1, 0": lambda: plot.tradeoff(
        {"4 chips": ([1], [1], [])}, "ms", "tokens/s", ALT),
    "upside down: an interval is": lambda: plot.intervals({"upside down": (1.0, 3.0, 2.0, 1.0)}, ALT),
    "'nowhere'": lambda: plot.flow([["config"]], [("config", "nowhere")], ALT),
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_drawn_is_refused(said):
    with pytest.raises(ValueError, match=said):
        REFUSED[said]()


SAID = "a figure with some boxes in rows"


def written(picture) -> str:
    with rc_context(STYLE):
        out = io.StringIO()
        picture.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def shapes(svg: str) -> list[tuple]:
    """What is drawn, in order: kind, style, and text without the space around it."""
    kinds = "path", "use", "text", "image", "rect"
    return [
        (kind, e.get("style"), e.get("clip-path"), "".join("".join(e.itertext()).split()))
        for e in ElementTree.fromstring(svg).iter()
        if (kind := e.tag.rpartition("}")[2]) in kinds
    ]


def test_the_same_shapes_and_a_third_less():
    for picture in (
        plot.lines([1, 10, 100], {"a": [1, 2, 3], "b": [3, 2, 1]}, "x", "y", SAID, log="x", marks={"1.23456": 5}),
        plot.ragged((6, 2, 2, 6), 2, SAID),
        plot.rails(4, 3, SAID),
    ):
        full = written(picture)
        light = lighter(full)
        assert shapes(light) == shapes(full) and lighter(light) == light and "metadata" not in picture.svg()
        assert len(gzip.compress(light.encode())) < 0.75 * len(gzip.compress(full.encode()))
