"""The wiring of a cluster, drawn from `costs.racks.cluster.wiring`: chips, switches, and links by tier; or a cut through it."""

from collections.abc import Collection

from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from helpers import show
from helpers.costs.racks.cluster import Cluster, Link, Wiring, wiring as wires
from helpers.plot.picture import COLOURS, INK, Picture, bare, box, canvas, styled, write

PALE = "#b5b5b5"
LOOKS = {"ici": (COLOURS[0], "-"), "dcn": (COLOURS[1], "--"), "pcie": ("#666", ":")}
FILL = {
    "chip": COLOURS[0] + "60",
    "switch": COLOURS[4] + "70",
    "host": "#dddddd",
    "leaf": COLOURS[5] + "80",
    "spine": "#ffffff",
}
NODES = {
    "chip": "chip",
    "switch": "NVSwitch (N)",
    "host": "host (H)",
    "leaf": "leaf switch (L)",
    "spine": "spine switch (S)",
}
ROW = {"switch": -1.9, "leaf": 2.1, "spine": 4.0}
TRAY = 4
"""GPUs that stand above each other where a domain is a rack."""


@styled
def wiring(
    c: Cluster, alt: str, *, switches: int = 1, spines: int = 1, first: bool = False, side: str = "", caption: str = ""
) -> Picture:
    """Chips in their domains, what joins them, and every link.

    switches, spines  as of `costs.racks.cluster.wiring`
    first  only the links of the first chip, where all of them would be a grey surface
    side   "a chip", "a domain" or "a group" (`costs.racks.cut.sides`): its chips are filled, and the links of its cut are bold
    """
    w = wires(c, switches, spines)
    at, inside = places(c, w), side_of(c, w, side) if side else ()
    cut = [x for x in w.links if (x.a in inside) != (x.b in inside)]
    wide = max(x for x, _ in at.values()) + 1
    tall = max(y for _, y in at.values()) - min(y for _, y in at.values()) + 2
    figure, ax = canvas(5.2, max(2.3, min(4.4, 5.2 * tall / wide * (1.0 if c.chip.axes else 1.15))))
    _domains(ax, c, at)
    for link, (colour, dash) in LOOKS.items():
        shown = [x for x in w.links if x.link == link and x not in cut and (not first or w.chips[0] in (x.a, x.b))]
        pale = PALE if cut else colour
        ax.add_collection(
            LineCollection([(at[x.a], at[x.b]) for x in shown], colors=pale, linestyles=dash, linewidths=1, zorder=1)
        )
        bold = [x for x in cut if x.link == link]
        ax.add_collection(LineCollection([(at[x.a], at[x.b]) for x in bold], colors=colour, linewidths=2.6, zorder=2))
    for node in w.nodes:
        _node(ax, node, at[node.name], node.name in inside, c)
    _legend(ax, w, cut)
    low, high = min(y for _, y in at.values()), max(y for _, y in at.values())
    bare(ax, xlim=(-1.1, wide + 0.1), ylim=(low - 0.8, high + 0.8))
    return Picture(figure, alt, caption)


def places(c: Cluster, w: Wiring) -> dict[str, tuple[float, float]]:
    """Where each node stands on paper: (x, y), for chips side by side one apart.

    A rack's GPUs stand in columns of `TRAY`. A torus is drawn of two axes, and one of three with a long third axis is refused.
    """
    if c.chip.axes:
        return _torus_places(c, w)
    rack = c.domain.chips > 8
    across = -(-c.domain.chips // TRAY) if rack else c.domain.chips
    at, step = {}, across + 1.2
    total = c.domains * step - 2.2
    count = {kind: max(1, sum(n.kind == kind for n in w.nodes)) for kind in ("leaf", "spine")}
    seen = dict.fromkeys(count, 0)
    for n in w.nodes:
        if n.kind == "chip":
            d, i = n.place
            at[n.name] = (d * step + (i // TRAY if rack else i), 1.0 * (i % TRAY) if rack else 0.0)
        elif n.kind == "switch":
            d, s = n.place
            k = sum(o.kind == "switch" and o.place[0] == d for o in w.nodes)
            at[n.name] = (d * step + (s + 0.5) * across / k - 0.5, ROW["switch"])
        else:
            at[n.name] = ((seen[n.kind] + 0.5) * (total + 1) / count[n.kind] - 0.5, ROW[n.kind] + (TRAY - 1) * rack)
            seen[n.kind] += 1
    return at


def _torus_places(c: Cluster, w: Wiring) -> dict[str, tuple[float, float]]:
    """Slices of two axes side by side, hosts above their chips."""
    rows, columns, *deep = c.domain.shape
    if deep not in ([], [1]):
        raise ValueError(f"slices are drawn of two axes, not {c.domain.shape}: give a third axis of 1")
    at, step = {}, columns + 1.2
    for n in w.nodes:
        if n.kind == "chip":
            d, a, b = n.place[:3]
            at[n.name] = (d * step + b, 1.0 * (rows - 1 - a))
        elif n.kind == "host":
            d, h = n.place
            k = -(-c.domain.chips // c.chip.chips_per_host)
            at[n.name] = (d * step + (h + 0.5) * columns / k - 0.5, rows + 0.9)
        else:
            at[n.name] = ((c.domains * step - 2.2) / 2, rows + 2.7)
    return at


def side_of(c: Cluster, w: Wiring, side: str) -> set[str]:
    """Chips of the first chip, domain or group, with the switches that join no other chips."""
    place = {n.name: n.place for n in w.nodes if n.kind == "chip"}
    inside = {
        "a chip": set(w.chips[:1]),
        "a domain": {n for n, p in place.items() if p[0] == 0},
        "a group": {n for n, p in place.items() if p[0] < (c.group or c.domains)},
    }.get(side)
    if inside is None:
        raise ValueError(f"a side is a chip, a domain or a group, not {side!r}")
    for n in w.nodes:
        if n.kind in ("switch", "host", "leaf"):
            near = {x.b if x.a == n.name else x.a for x in w.links if n.name in (x.a, x.b)} & set(w.chips)
            inside |= {n.name} if near and near <= inside else set()
    return inside


def _domains(ax, c: Cluster, positions: dict) -> None:
    for d in range(c.domains):
        mine = [p for name, p in positions.items() if name.startswith((f"chip {d}.", f"switch {d}."))]
        xs, ys = [x for x, _ in mine], [y for _, y in mine]
        size, look = (max(xs) - min(xs) + 1.1, max(ys) - min(ys) + 1.1), {"edgecolor": "#888", "linestyle": (0, (2, 2))}
        box(ax, min(xs) - 0.55, min(ys) - 0.55, *size, fill=None, **look)


def _node(ax, node, centre, inside: bool, c: Cluster) -> None:
    chip = node.kind == "chip"
    half = (0.36, 0.36) if chip else (0.44, 0.4) if node.kind in ("leaf", "spine") else (0.44, 0.36)
    place = centre[0] - half[0], centre[1] - half[1], 2 * half[0], 2 * half[1]
    box(ax, *place, edgecolor="none", zorder=3)
    box(ax, *place, fill=INK if inside and chip else FILL[node.kind], linewidth=0.9, zorder=3)
    letter = {"switch": "N", "host": "H", "leaf": "L", "spine": "S"}.get(node.kind, "")
    text = "" if chip and (c.chip.axes or c.domain.chips > 8) else f"{letter}{node.place[-1]}"
    size = 7 if chip or c.domain.chips <= 8 else 5.5
    write(ax, *centre, text, size, color="#fff" if inside and chip else INK, zorder=4)


def _legend(ax, w: Wiring, cut: Collection[Link]) -> None:
    names = {"ici": "inside a domain", "dcn": "network", "pcie": "PCIe to the host"}
    there = {n.kind for n in w.nodes}
    shown = [Patch(facecolor=FILL[k], edgecolor=INK, label=name) for k, name in NODES.items() if k in there]
    for link, (colour, dash) in LOOKS.items():
        rates = list(dict.fromkeys(x.W for x in (cut or w.links) if x.link == link))
        if rates:
            told = ", ".join(show.rate(W) for W in sorted(rates))
            label, dash = f"{names[link]}: {told} each", "-" if cut else dash
            shown.append(Line2D([], [], color=colour, linestyle=dash, label=label))
    ax.figure.legend(handles=shown, loc="outside lower left", fontsize=8, ncols=2)
