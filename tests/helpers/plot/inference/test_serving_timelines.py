"""Bars where a server worked, pages as full as they are, a tree with each block in its place, texts along a curve."""

import pytest
from matplotlib.colors import to_hex

from helpers import plot
from helpers.costs.inference.engine_simulation import interleaved
from helpers.kernels.inference.paged_kv_cache import Blocks
from helpers.plot.inference.serving_timelines import BLOCKS, SPANS
from tests.helpers.plot.drawn import boxes, greys

SAID = "a figure with some boxes in rows"


def test_a_bar_stands_where_a_server_worked():
    """As many bars as spans, each in its lane from start to end, in the colour of its kind."""
    log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    bars = [(s.lane, s.start, s.end, s.kind, "") for s in (*log.spans, *log.slot_spans())]
    (ax,) = plot.served({"interleaved": bars}, "s", SAID).figure.axes
    lanes = [t.get_text() for t in ax.get_yticklabels()]
    drawn = {
        (lanes[int(p.get_y())], p.get_x(), p.get_x() + p.get_width(), to_hex(p.get_facecolor())) for p in boxes(ax)
    }
    assert drawn == {(lane, a, b, to_hex(SPANS[kind][0])) for lane, a, b, kind, _ in bars} and len(drawn) == len(bars)


def test_pages_show_owners_and_places():
    """Two texts on three pages, one page shared: a filled place for each token, a thick edge where two are."""
    b = Blocks(pages=4, size=2)
    b.allocate("A", 3), b.fork("A", "B", 2), b.allocate("C", 1)
    (ax,) = plot.pages({"now": b}, SAID).figure.axes
    assert [t.get_text() for t in ax.texts] == ["0: A, B", "1: A", "2: C", "3: free"]
    places = [p for p in boxes(ax) if p.get_width() < 0.9]
    assert len(places) == 8 and sum(to_hex(p.get_facecolor()) != "#ffffff" for p in places) == 2 + 1 + 1
    thick = [int(p.get_x()) for p in boxes(ax) if p.get_width() > 0.9 and p.get_linewidth() > 2]
    assert thick == [0] and "1 of 4 free" in ax.get_title(loc="left")


def test_a_tree_has_each_block_beside_its_parent():
    """I, like, then dogs and cats below each other; like stands between them."""
    paths = {
        ("I",): "known",
        ("I", "like"): "known",
        ("I", "like", "cats"): "read now",
        ("I", "like", "dogs"): "let go",
    }
    (ax,) = plot.trees({"one": paths}, SAID).figure.axes
    at = {t.get_text(): t.get_position() for t in ax.texts}
    assert at["I"][1] == at["like"][1] == (at["cats"][1] + at["dogs"][1]) / 2 and at["cats"][1] != at["dogs"][1]
    assert [round(at[w][0] - at["I"][0]) for w in ("like", "cats", "dogs")] == [1, 2, 2]
    assert sorted(to_hex(p.get_facecolor()) for p in boxes(ax)) == sorted(to_hex(BLOCKS[k][0]) for k in paths.values())


def test_texts_run_along_a_curve():
    """The batch stands at its point."""
    figure = plot.tradeoff(
        {"4 chips": ([1, 2], [10, 15], ["B=1", "B=2"])}, "ms", "tokens/s", SAID, marks={"limit": 3}
    ).figure
    ax = figure.axes[0]
    assert {(t.get_text(), t.xy) for t in ax.texts if t.get_text() != "limit"} == {("B=1", (1, 10)), ("B=2", (2, 15))}
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log") and list(ax.lines[-1].get_xdata()) == [3, 3]
    with pytest.raises(ValueError, match="4 chips: every point has an x, a y and a text, not 1, 1, 0"):
        plot.tradeoff({"4 chips": ([1], [1], [])}, "ms", "tokens/s", SAID)


@pytest.mark.parametrize("fills", [SPANS, {k: v for k, v in BLOCKS.items() if k != "let go"}], ids=["bars", "blocks"])
def test_fills_differ_in_grey(fills):
    grey = sorted(greys(fill for fill, *_ in fills.values()))
    assert all(b - a > 12 for a, b in zip(grey, grey[1:]))
