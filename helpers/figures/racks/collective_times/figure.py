"""The live figure of chapter 7: a collective on hosts, racks and slices, tier by tier."""

from dataclasses import replace
from functools import partial

from helpers.costs.racks.tiered_collectives import HOP_DCN
from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.live.controls import Choice, Size
from helpers.live.drawings import Box, Boxes, Follows, Label
from helpers.live.figure import LiveFigure
from helpers.live.tables import Columns, Result
from helpers.live.words import reading

from .times import GROUP, KINDS, NAMES, ROW, SLOTS, Machine, collective

MACHINES = {
    "H100 hosts of 8": Machine("H100", (8,), "host"),
    "H100 hosts of 8, uplinks 4:1": Machine("H100", (8,), "host", 4.0),
    "GB200 NVL72 racks": Machine("GB200", (72,), "rack"),
    "TPU v5p slices of 4×4×8": Machine("v5p", (4, 4, 8), "slice"),
    "TPU v7 slices of 4×4×8": Machine("v7", (4, 4, 8), "slice"),
}
COLLECTIVES = {
    "AllReduce": {"kind": KINDS.index("AllReduce"), "adds": 1},
    "AllGather": {"kind": KINDS.index("AllGather"), "adds": 0},
    "ReduceScatter": {"kind": KINDS.index("AllGather"), "adds": 0},  # takes as long
    "AllToAll": {"kind": KINDS.index("AllToAll"), "adds": 0},
}
GRADIENTS = 3 * 2**29
"""Bytes: nearly those of one layer of LLaMA-3-70B in bf16, 1.71e9, where a slider has a place."""
COLUMNS = {
    "in_bytes": "inside, bytes",
    "in_hops": "inside, hops",
    "out_bytes": "across, bytes",
    "out_hops": "across, hops",
    "lower": "at least",
}
WORDS = (
    Result("count", words=("1 {domain}", "{m} {domain}s")),
    Result("best", words=("{first} takes", "the fastest is {first}, with", "each algorithm takes")),
    Result("first", words=tuple(NAMES.values())),
    Result("by", words=("bytes", "hops")),
    Result("tier", words=("inside the {domain}", "across {domain}s")),
    Result("cut", words=(
        "the cut around {side} allows no less than {bound}{made}.",
        "the cut around {side} would ask for {bound}{made}, but here the switch adds.",
    )),
    Result("side", words=("one {unit}", "one {domain}", f"{GROUP} {{domain}}s", "half a {domain}")),
    Result("made", words=("", " for a ReduceScatter and an AllGather")),
    Result("n", unit="count"),
    *(Result(name, unit="s") for name in ("lower", "bound")),
    Result("size", unit="B"),
)  # fmt: skip


def _row(k: int) -> tuple[Result, ...]:
    name = f"row{k}_name"
    return (
        Result(name, words=tuple(NAMES.values())),
        Result(f"row{k}_title", words=(f"{{{name}}}", f"{{{name}}}: fastest")),
        *(Result(f"row{k}_{what}", unit="s") for what in ROW),
    )


def _machine(n: int, machine: Machine) -> dict[str, float | str]:
    """What a machine sets; the page has GPUs whose switch adds, as all rows of an AllReduce are shown."""
    c = machine.chip
    if not c.axes and not c.switch_adds:
        adding = ", ".join(sorted(c.name for c in CHIPS.values() if c.switch_adds))
        raise ValueError(f"the page has GPUs whose switch adds, {adding}, not {machine.chip_name}")
    rates = {"W": c.link_bandwidth, "card": c.dcn_bandwidth, "up": machine.uplink, "hop": c.hop}
    words = {"domain": machine.domain, "unit": c.kind.upper()}
    return {"machine": n, "torus": int(bool(c.axes)), "g": machine.g} | rates | words


HEAD, SLOT, BAR, STEP = 34, 66, 13, 19  # height of the legend, of an algorithm, of a bar, and from one to the next
LEFT, WIDE = 15, 68  # percent of the width: before the bars, and of the longest one


def _bars(k: int) -> tuple[Box | Label, ...]:
    """Two bars of an algorithm, inside and across, each its bytes and behind them all hops; the cut over both, times over the cut."""
    top, boxes, labels = HEAD + SLOT * k, [], []
    for n, (tier, text) in enumerate((("in", "inside"), ("out", "across"))):
        y, (some, hops, both) = top + 18 + STEP * n, (f"{tier}{k}_{what}" for what in ("bytes", "hops", "all"))
        boxes += [
            Box("fill", f"{LEFT}%", str(y), Follows(some, WIDE, "%"), str(BAR)),
            Box("hatch", Follows(some, WIDE, "%", LEFT), str(y), Follows(hops, WIDE, "%"), str(BAR)),
        ]
        labels += [
            Label(f"{LEFT}%", Follows(both, 0, "", y + 11), text, anchor="end", dx=-6),
            Label(Follows(both, WIDE, "%", LEFT), str(y + 11), "", f"row{k}_{tier}_all", kind="live-over", dx=3),
        ]
    there = Follows(f"row{k}_lower", 0, "", top + 12)  # seen where there is such an algorithm
    cut = Box("cut", Follows("cut_at", WIDE, "%", LEFT), replace(there, start=top + 15), "2", str(STEP + BAR + 6))
    return (*boxes, cut, *labels, Label("0", there, "", f"row{k}_title"))


LEGEND = (
    Box("fill", "1", "5", "20", str(BAR)),
    Label("27", "16", "bytes"),
    Box("hatch", "83", "5", "20", str(BAR)),
    Label("109", "16", "hops"),
    Box("cut", "169", "3", "2", "17"),
    Label("178", "16", "bottleneck cut"),
)
FIGURE = LiveFigure(
    name="cluster",
    title="A collective on a cluster",
    function=partial(collective, tuple(MACHINES.values())),
    controls=(
        Choice(
            "machine",
            "Machine",
            "H100 hosts of 8",
            {text: _machine(n, of) for n, (text, of) in enumerate(MACHINES.items())},
        ),
        Choice("collective", "Collective", "AllReduce", COLLECTIVES),
        Size("m", "Hosts, racks or slices", 16, 1, 128, steps=(1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 96, 128)),
        Size("V", "V, bytes", GRADIENTS, 2**10, 2**40),
    ),
    results=(*(r for k in range(SLOTS) for r in _row(k)), *WORDS),
    drawing=Boxes(Follows("rows", SLOT, "", HEAD), (*LEGEND, *(shape for k in range(SLOTS) for shape in _bars(k)))),
    table=Columns("algorithm", {f"row{k}": f"{{row{k}_name}}" for k in range(SLOTS)}, COLUMNS),
    sentence="{size} by {collective} over {n} {unit}s in {count}: {best} at least {lower}. Most of that is {by}, and bytes take longer "
    "{tier}; {cut}",
    alt="Two bars for each algorithm, its bytes inside the domains and its bytes across them, each with all of its hops behind them; a "
    "line at the time that the bottleneck cut allows. The table has the numbers.",
    hint="Choose a machine and a collective, then move the size V.",
    rules="Bytes are floors: published rates, of one direction of each link, and both tiers busy at once, so the longer bar of an "
    "algorithm counts. Hops follow each other, so each bar has those of both tiers, and they are estimates. "
    f"A hop takes {reading(chip('H100').hop, 's')} over NVLink, {reading(chip('v5p').hop, 's')} over ICI and, as an order of "
    f"magnitude, {reading(HOP_DCN, 's')} over the network; over slices no hops are counted but an AllToAll's. V is the whole array, "
    "for an AllToAll all shards together, whose messages travel at once, in one hop of each tier. A switch (NVLS) adds or copies "
    f"inside a domain, and two trees add across. Uplinks 4:1 are those of groups of {GROUP} hosts.",
)
