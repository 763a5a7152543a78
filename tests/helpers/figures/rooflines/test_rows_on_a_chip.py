"""The live figure of the start page against the Python it was traced from, and its boxes against the times they show."""

from itertools import pairwise

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import matmul, on_chip
from tests.helpers.figures.standalone import SET

NAME = "rows"


def test_boxes_are_as_long_as_what_they_show(page, figure):
    """Memory's two boxes together, and that of arithmetic, are in the ratio of the two times that chapter 1 computes."""
    boxes = "() => [...document.querySelectorAll('figure rect')].map(e => [e.getAttribute('class'), e.getBBox().width, e.getBBox().height])"
    H100 = chip("H100")
    for B in (1, 256, 1024):
        page.evaluate(SET, {"B": B})
        found = page.evaluate(boxes)
        t = on_chip(matmul(B, 8192, 8192), H100)
        weights, rows = (next(w for kind, w, _ in found if kind == f"live-{name}") for name in ("weights", "rows"))
        work = next(w for kind, w, _ in found if kind == "live-work")
        assert work / (weights + rows) == pytest.approx(t.math / t.comms, abs=0.01)
        square, slivers = found[-2], [h for kind, _, h in found if kind == "live-rows"][1:]
        assert slivers == pytest.approx([square[2] * B / 8192] * 2, abs=0.01)


def test_no_label_lies_on_another(page):
    texts = page.evaluate(
        "() => [...document.querySelectorAll('figure svg text')].map(e => { const b = e.getBBox(); return [b.x, b.x + b.width, b.y]; })"
    )
    for y in {round(t[2]) for t in texts}:
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(t for t in texts if round(t[2]) == y)))
