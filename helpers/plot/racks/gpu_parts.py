"""A GPU as a machine: its memories with their sizes and latencies; and a product's tiles on its SMs, wave by wave."""

from helpers import show
from helpers.costs.rooflines.gpu_machine import CYCLES, Machine, waves as rounds
from helpers.plot.picture import COLOURS, Picture, arrow, bare, box, canvas, panes, styled, write

GREY = "#bbbbbb"


@styled
def gpu(g: Machine, alt: str, *, caption: str = "") -> Picture:
    """One SM in front with what it has, the other SMs behind it, L2 and HBM below; at each memory its size and its cycles."""
    c, sm = g.chip, g.sm
    figure, ax = canvas(5.2, 4.9)
    for shift in (0.5, 0.25):
        box(ax, 0.2 + shift, 3.5 + shift, 6.2, 4.1, fill="#fff", edgecolor=GREY)
    box(ax, 0.2, 3.5, 6.2, 4.1, fill="#fff", linewidth=1.4)
    ax.text(0.3, 7.3, "one SM", ha="left", va="center", fontsize=9, weight="bold")
    ax.text(7.1, 6.9, f"{c.cores} SMs,\n{g.clock / 1e9:.2f} GHz", ha="left", va="center", fontsize=8)
    for i in range(4):
        box(ax, 0.4 + 1.5 * i, 6.15, 1.35, 0.85, "Tensor\nCore", COLOURS[1] + "50")
    box(ax, 0.4, 4.85, 5.85, 0.8, f"registers, {show.ibytes(4 * sm.registers)}", COLOURS[4] + "50")
    box(ax, 0.4, 3.65, 5.85, 0.8, f"shared memory, {show.ibytes(sm.smem_bytes)}", COLOURS[4] + "50")
    box(ax, 0.2, 1.95, 6.7, 0.85, f"L2, {show.bytes(g.l2_bytes)}", COLOURS[0] + "50")
    box(ax, 0.2, 0.2, 6.7, 0.85, f"HBM, {show.bytes(c.hbm_bytes)}", GREY + "50")
    for low, high in ((5.65, 6.15), (4.45, 4.85), (2.8, 3.65), (1.05, 1.95)):
        arrow(ax, (3.3, low), (3.3, high), "<|-|>")
    each = f"{c.clock_flops:,} FLOPs a\ncycle and SM"
    write(ax, 7.1, 5.9, each, ha="left")
    for y, memory in ((5.0, "registers"), (4.05, "shared"), (2.37, "L2"), (0.62, "HBM")):
        n = CYCLES[memory]
        write(ax, 7.1, y, f"{n} cycle{'s' * (n > 1)}", ha="left")
    ax.text(3.5, 1.5, show.rate(c.hbm_bandwidth), ha="left", va="center", fontsize=8)
    bare(ax, xlim=(0.1, 9.4), ylim=(0, 8.3))
    return Picture(figure, alt, caption)


@styled
def wave_rows(panels: dict[str, int], sms: int, alt: str, *, caption: str = "") -> Picture:
    """SMs by time, a square for each tile: full waves, and the last one that may be short.

    panels  {title: tiles}, a panel at least; all have the time of the longest one
    """
    most = max(3, *(rounds(tiles, sms) for tiles in panels.values()))
    figure, axes = panes(len(panels), 5.2, 0.5 + 0.17 * sms, len(panels))
    for ax, (title, tiles) in zip(axes, panels.items()):
        for t in range(rounds(tiles, sms) * sms):
            wave, sm = divmod(t, sms)
            look = {"fill": COLOURS[wave % 6] + "90"} if t < tiles else {"linestyle": ":"}
            box(ax, wave, sms - 1 - sm, 1, 1, linewidth=0.8, **look)
        ax.set(title=title, xlim=(-0.1, most + 0.1), ylim=(-0.1, sms + 0.1))
        ax.set_yticks([0.5, sms - 0.5], [f"SM {sms - 1}", "SM 0"])
        ax.set_xticks([k + 0.5 for k in range(most)], ["wave 1", *map(str, range(2, most + 1))])
        ax.tick_params(labelsize=8, length=0)
        ax.grid(False)
    return Picture(figure, alt, caption)
