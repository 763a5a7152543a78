"""Inference on several chips: who holds which part of a cache, chips that prefill and chips that decode, data-parallel attention."""

from collections.abc import Mapping
from itertools import product

from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.plot.picture import COLOURS, Picture, bare, box, canvas, legend, styled

WHOLE = "#d9d9d9"
FILLS, HATCHES = tuple(COLOURS[i] + "a0" for i in (0, 5, 2, 3)), ("", "//", "--", "xx")


def owners(text: str, mesh: Mesh, sizes: Mapping[str, int]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each number of an array, by its place along the dimensions of the notation: the devices that hold it.

    >>> owners("c[B_Z, S]", Mesh({"Y": 1, "Z": 2}), {"B": 2, "S": 1})
    {(0, 0): (0,), (1, 0): (1,)}
    """
    array = parse(text)
    local = tuple(array.local(sizes, mesh))
    held: dict[tuple[int, ...], tuple[int, ...]] = {}
    for device, place in enumerate(product(*(range(n) for n in mesh.sizes.values()))):
        block = array.block(dict(zip(mesh.sizes, place)), mesh)
        for inside in product(*map(range, local)):
            at = tuple(b * n + i for b, n, i in zip(block, local, inside))
            held[at] = (*held.get(at, ()), device)
    return dict(sorted(held.items()))


@styled
def sharded_cache(
    ways: Mapping[str, str], mesh: Mesh, sizes: Mapping[str, int], alt: str, *, caption: str = ""
) -> Picture:
    """A panel for each way to shard a cache over up to four devices: sheets for its heads, sequences down, positions across.

    ways  {title: the cache in the course's notation}, of dimensions B, S and, if there are heads, K
    """
    heads, S = sizes.get("K", 1), sizes["S"]
    grid = (len(ways), 1) if heads > 1 else (1, len(ways))
    figure, axes = canvas(5.2, 0.45 + 1.12 * grid[0] + 0.3 * (heads == 1), *grid)
    for ax, (title, text) in zip(axes, ways.items()):
        _sheets(ax, owners(text, mesh, sizes), S)
        for k in range(heads):
            ax.text(k * (S + 1.2) + S / 2, sizes["B"] + 0.15, f"head {k}" if heads > 1 else "all heads",
                    ha="center", va="top", fontsize=8)  # fmt: skip
        ax.text(-0.3, sizes["B"] / 2, "$B$", ha="right", va="center", fontsize=9)
        ax.text(S / 2, -0.1, "$S$", ha="center", va="bottom", fontsize=9)
        said = f"{title}: {text}" if heads > 1 else f"{title}\n{text}"
        ax.set_title(said, pad=12)
        bare(ax, xlim=(-1, heads * (S + 1.2) + 0.2), ylim=(sizes["B"] + 1.2, -0.2))
    looks = {f"device {d}": (FILLS[d], HATCHES[d]) for d in range(mesh.devices)}
    if any(len(d) > 1 for text in ways.values() for d in owners(text, mesh, sizes).values()):
        looks["on all"] = WHOLE
    legend(figure, looks, 5, columnspacing=1)
    return Picture(figure, alt, caption)


def _sheets(ax, held: Mapping[tuple[int, ...], tuple[int, ...]], S: int) -> None:
    """A block for what the same devices hold of a sheet; a sheet for each head."""
    for k, devices in dict.fromkeys(((*at, 0)[2], devices) for at, devices in held.items()):
        mine = [at[:2] for at, d in held.items() if d == devices and (*at, 0)[2] == k]
        (b, s), (b_end, s_end) = min(mine), max(mine)
        fill, hatch = (FILLS[devices[0]], HATCHES[devices[0]]) if len(devices) == 1 else (WHOLE, "")
        left = k * (S + 1.2) + s
        box(ax, left, b, s_end + 1 - s, b_end + 1 - b, fill=fill, hatch=hatch, linewidth=0.9)


LAYOUTS = {
    "Tensor parallelism": ("whole", "part", "part"),
    "Data-parallel attention, expert parallelism": ("part", "whole", "part"),
}
"""Of each layout: how much of all caches, of attention's weights and of the experts one chip holds."""
STORES = ("caches", "attention", "experts")


@styled
def attention_layouts(chips: int, alt: str, *, caption: str = "") -> Picture:
    """What each chip holds of a model with latent attention and experts: a filled box is all of it, a strip its own part."""
    figure, axes = canvas(5.2, 2.1 * len(LAYOUTS), len(LAYOUTS))
    for ax, layout in zip(axes, LAYOUTS):
        for i in range(chips):
            for j, (name, how) in enumerate(zip(STORES, LAYOUTS[layout])):
                x, y = 2.4 * i, 1.1 * j
                box(ax, x, y, 1.9, 0.8, fill="#fff", linewidth=0.9)
                at, wide = (x, 1.9) if how == "whole" else (x + i * 1.9 / chips, 1.9 / chips)
                fill, hatch = ((COLOURS[4], ""), (COLOURS[5], "//"), (COLOURS[2], "--"))[j]
                box(ax, at, y, wide, 0.8, fill=fill, hatch=hatch, linewidth=0.9)
                if i == 0:
                    ax.text(-0.2, y + 0.4, name, ha="right", va="center", fontsize=8)
            ax.text(2.4 * i + 0.95, -0.15, f"chip {i}", ha="center", va="bottom", fontsize=8)
        bare(ax, title=layout, xlim=(-2.3, 2.4 * chips), ylim=(3.15, -0.65))
    return Picture(figure, alt, caption)
