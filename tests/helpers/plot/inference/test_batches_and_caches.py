"""Slots, caches and drafts as they are drawn, against what the cost functions count."""

from helpers import plot
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.plot.inference.cache_on_chips import owners
from tests.helpers.plot.drawn import boxes

SAID = "a figure with some boxes in rows"


def test_each_device_holds_what_the_notation_says():
    mesh, sizes = Mesh({"Y": 2, "Z": 2}), {"B": 4, "S": 8, "K": 4}
    for text in ("K[B, S, K_YZ]", "K[B_Z, S, K_Y]", "K[B, S_Z, K_Y]", "c[B, S]"):
        held = owners(text, mesh, sizes)
        local = parse(text).bytes(sizes, mesh, "int8")
        assert [sum(d in devices for devices in held.values()) for d in range(4)] == [local] * 4
    panels = plot.sharded_cache({"a": "K[B_Z, S, K_Y]", "b": "K[B, S, K_YZ]"}, mesh, sizes, SAID).figure.axes
    assert [sum(p.get_width() * p.get_height() for p in boxes(ax)) for ax in panels] == [4 * 8 * 4] * 2
