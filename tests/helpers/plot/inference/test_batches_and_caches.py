"""Slots, caches and drafts as they are drawn, against what the cost functions count."""

from matplotlib.colors import to_hex

from helpers import plot
from helpers.costs.inference.request_loads import continuous_steps, static_steps
from helpers.costs.inference.speculative_decoding import acceptance, residual
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.plot.inference.batches_in_time import FILLS
from helpers.plot.inference.cache_on_chips import LAYOUTS, owners
from helpers.plot.inference.what_is_cached import KEPT, NEW
from tests.helpers.plot.drawn import boxes

SAID = "a figure with some boxes in rows"


def test_slots_are_busy_as_long_as_the_steps_say():
    """Answers of 6, 2, 2, 6 tokens on two slots: steps of both designs, and a bar for each request as long as its answer."""
    outputs = (6, 2, 2, 6)
    axes = plot.batching(outputs, 2, SAID).figure.axes
    for ax, steps in zip(axes, (static_steps, continuous_steps)):
        bars = [p for fill in FILLS for p in boxes(ax, to_hex(fill))]
        assert max(p.get_x() + p.get_width() for p in bars) == steps(outputs, 2)
        assert sorted(p.get_width() for p in bars) == sorted(n - 1 for n in outputs)
        assert f": {steps(outputs, 2)} steps" in ax.get_title(loc="left")


def test_a_stroke_for_each_arrival():
    (ax,) = plot.arrivals({"one": [0.0, 1.0, 4.0], "two": [2.0]}, SAID).figure.axes
    assert [list(line.get_xdata())[::3] for line in ax.lines] == [[0, 1, 4], [2]]


def test_a_cache_for_each_sequence_as_long_as_its_context():
    (ax,) = plot.weights_and_caches((4, 8, 2), SAID).figure.axes
    widths = [p.get_width() for p in boxes(ax, to_hex(KEPT))]
    assert [w / widths[1] for w in widths] == [0.5, 1, 0.25] and len(boxes(ax, to_hex(NEW))) == 3


def test_kv_heads_and_who_reads_them():
    axes = plot.cached_heads(8, {"MHA": 8, "GQA": 2, "MLA": None}, SAID).figure.axes
    assert [len(boxes(ax, to_hex(KEPT))) for ax in axes] == [8, 2, 1] and {
        len(boxes(ax, to_hex(NEW))) for ax in axes
    } == {8}
    assert [len({line.get_xdata()[1] for line in ax.lines}) for ax in axes] == [8, 2, 1]


def test_kept_tokens_are_counted():
    """Four layers, eight tokens, a window of three."""
    axes = plot.kept_tokens(8, 4, 3, SAID).figure.axes
    assert [len(boxes(ax, to_hex(KEPT))) for ax in axes] == [32, 12, 22, 16]
    assert [t.get_text() for ax in axes for t in ax.texts if t.get_text().endswith("kept")] == [
        "32 kept", "12 kept", "22 kept", "16 kept"]  # fmt: skip


def test_a_ring_has_sinks_and_the_window():
    (ax,) = plot.rolling(4, 2, (10,), SAID).figure.axes
    assert sorted(int(t.get_text()) for t in ax.texts if t.get_text().isdigit()) == [0, 1, 7, 8, 9, 10]
    at = {t.get_text(): t.get_position()[0] for t in ax.texts if t.get_text().isdigit()}
    assert at["10"] < at["7"] < at["9"]  # token 10 stands where 6 stood, at place (10 - 2) mod 4


def test_pieces_cover_the_triangle():
    axes = plot.chunks(6, 2, SAID).figure.axes
    area = lambda ax, fill: sum(p.get_width() * p.get_height() for p in boxes(ax, to_hex(fill)))  # noqa: E731
    assert [area(ax, NEW) for ax in axes] == [3, 3, 3] and [area(ax, KEPT) for ax in axes] == [0, 4, 8]
    assert sum(area(ax, NEW) + area(ax, KEPT) for ax in axes) == 6 * 7 / 2


def test_each_device_holds_what_the_notation_says():
    mesh, sizes = Mesh({"Y": 2, "Z": 2}), {"B": 4, "S": 8, "K": 4}
    for text in ("K[B, S, K_YZ]", "K[B_Z, S, K_Y]", "K[B, S_Z, K_Y]", "c[B, S]"):
        held = owners(text, mesh, sizes)
        local = parse(text).bytes(sizes, mesh, "int8")
        assert [sum(d in devices for devices in held.values()) for d in range(4)] == [local] * 4
    panels = plot.sharded_cache({"a": "K[B_Z, S, K_Y]", "b": "K[B, S, K_YZ]"}, mesh, sizes, SAID).figure.axes
    assert [sum(p.get_width() * p.get_height() for p in boxes(ax)) for ax in panels] == [4 * 8 * 4] * 2


def test_pools_and_layouts():
    (ax,) = plot.pools(4, 6, "a cache", SAID).figure.axes
    assert len([p for p in boxes(ax) if p.get_width() < 1]) == 10
    axes = plot.attention_layouts(4, SAID).figure.axes
    for ax, how in zip(axes, LAYOUTS.values()):
        whole = [p.get_y() for p in boxes(ax) if p.get_width() > 1 and to_hex(p.get_facecolor()) != "#ffffff"]
        assert len(whole) == 4 * how.count("whole") and set(whole) == {1.1 * how.index("whole")}


def test_a_round_of_drafts():
    rounds = {"some": (("a", "b", "c"), ("a", "x", "y", "z")), "all": (("a",), ("a", "q"))}
    some, every = plot.speculation(rounds, ("t",), SAID).figure.axes
    assert some.get_title(loc="left") == "some: 1 of 3 drafts stay, 2 tokens"
    assert every.get_title(loc="left") == "all: 1 of 1 drafts stay, 2 tokens"
    rows = {y: [t.get_text() for t in some.texts if t.get_position()[1] == y + 0.5] for y in range(3)}
    assert rows[2] == ["t", "a", "x", "result"]


def test_bars_of_acceptance():
    p, q = [0.5, 0.5, 0.0], [0.5, 0.25, 0.25]
    (ax,) = plot.accepted(p, q, "abc", SAID).figure.axes
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert sum(heights[0]) == acceptance(p, q)
    assert [h / sum(heights[1]) for h in heights[1]] == residual(p, q)
