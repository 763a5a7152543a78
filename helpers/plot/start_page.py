"""Small pictures for the start page, one for each chapter's question, and the row in which they stand."""

import re
from collections.abc import Iterable
from functools import partial
from html import escape

import numpy as np

from helpers.costs.inference.latency_and_throughput import step_time, throughput
from helpers.costs.racks.cluster import hosts, wiring
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import attainable
from helpers.costs.training.pipeline_schedules import one_f_one_b, simulate
from helpers.costs.transformers.parameters_and_flops import kv_cache, parameters
from helpers.costs.transformers.public_models import model
from helpers.plot.picture import COLOURS, INK, Picture, arrow, bare, box, canvas, styled, write
from helpers.plot.racks.wiring import places

PALE = "#d9e6f2"
V5E, LLAMA = chip("v5e"), model("llama-2-13b")
REPLICA = dict(
    kv=kv_cache(LLAMA, 1024), params=parameters(LLAMA).matmul, weights=2 * parameters(LLAMA).total,
    C=8 * V5E.rate(), W_hbm=8 * V5E.hbm_bandwidth,
)  # fmt: skip
"""LLaMA-2-13B in bf16 on eight v5e, each user with a cache of 1,024 tokens; links take no time here."""
SIZE = 2.7, 1.8  # inches: three in a row on a desktop, one on a phone


def cards(pictures: Iterable[tuple[Picture, str, str, str]]) -> str:
    """HTML of pictures side by side as far as they fit: (picture, where it leads, title, sentence) each."""
    out = []
    for picture, href, title, sentence in pictures:
        image = re.search(r"<img[^>]*>", picture._repr_html_())[0]  # alone, so that it keeps this link
        words = f"<strong>{escape(title)}</strong><span>{escape(sentence)}</span>"
        out.append(f'<a href="{escape(href)}">{image}{words}</a>')
    return f'<div class="card-row">{"".join(out)}</div>'


def _blank(width: float, height: float):
    figure, ax = canvas(*SIZE)
    bare(ax, xlim=(0, width), ylim=(0, height))
    return figure, ax


def _box(ax, x, y, w, h, text="", fill="none", size=8, **how):
    box(ax, x, y, w, h, fill=fill)
    write(ax, x + w / 2, y + h / 2, text, size, **how)


_arrow = partial(arrow, width=1.3, shrinkA=2, shrinkB=2)


@styled
def small_roofline() -> Picture:
    """FLOPs/s of a v5e over FLOPs per byte: the slope of memory, the roof of arithmetic."""
    x = np.geomspace(8, 4096, 100)
    figure, ax = canvas(*SIZE)
    ax.loglog(x, attainable(x, V5E.rate(), V5E.hbm_bandwidth), color=COLOURS[0])
    ax.axvline(V5E.alpha_hbm(), color=INK, linestyle=":", linewidth=1)
    ax.text(12, 1.1e14, "waits for\nmemory", fontsize=8, va="top")
    ax.text(340, 1.1e14, "waits for\narithmetic", fontsize=8, va="top")
    ax.set_xlabel("FLOPs per byte", fontsize=8)
    ax.set_ylabel("FLOPs/s", fontsize=8)
    ax.tick_params(labelsize=7)
    return Picture(figure, "A roofline: FLOPs per second rise with FLOPs per byte, then stay at the chip's peak.")


@styled
def small_blocks() -> Picture:
    """A matrix in four blocks on the four devices of a ring."""
    figure, ax = _blank(10, 6.6)
    for i in range(4):
        _box(ax, 0.4, 4.9 - 1.3 * i, 2.2, 1.3, f"{i}", COLOURS[i], color="white", weight="bold")
    ax.text(1.5, 0.4, "$A[I_X, J]$", ha="center", fontsize=9)
    places = (4.6, 3.9), (7.6, 3.9), (7.6, 1.0), (4.6, 1.0)
    for i, (x, y) in enumerate(places):
        _box(ax, x, y, 1.9, 1.7)
        _box(ax, x + 0.35, y + 0.45, 1.2, 0.8, f"{i}", COLOURS[i], color="white", weight="bold")
    for start, end in (((6.5, 4.75), (7.6, 4.75)), ((8.55, 3.9), (8.55, 2.7)),
                       ((7.6, 1.85), (6.5, 1.85)), ((5.55, 2.7), (5.55, 3.9))):  # fmt: skip
        _arrow(ax, start, end)
    return Picture(figure, "A matrix cut into four blocks of rows, one on each of four devices in a ring.")


@styled
def small_block() -> Picture:
    """A layer of LLaMA-3-70B, and how many of the model's parameters its two parts have."""
    p = parameters(model("llama-3-70b"))
    figure, ax = _blank(10, 6.6)
    for y, name, share in ((1.2, "attention", p.attention), (3.6, "MLP", p.mlp)):
        _box(ax, 1.2, y, 5.6, 1.5, f"{name}: {share / p.total:.0%}\nof the parameters", PALE)
        _arrow(ax, (4.0, y - 0.8), (4.0, y))
        ax.plot((4.0, 7.4, 7.4), (y - 0.5, y - 0.5, y + 1.85), color=INK, linestyle=":", linewidth=1)
        _arrow(ax, (7.4, y + 1.85), (4.0, y + 1.85), linestyle=":", width=1)
    _arrow(ax, (4.0, 5.1), (4.0, 6.5))
    write(ax, 8.9, 0.8, "× 80\nlayers")
    said = "A Transformer layer: attention with a part of the parameters, then an MLP with most of them."
    return Picture(figure, said)


@styled
def small_pipeline() -> Picture:
    """Four stages and six microbatches, one forward, one backward."""
    figure, ax = canvas(*SIZE)
    steps = simulate(one_f_one_b(4, 6))
    for e in steps.events:
        fill = COLOURS[0] if e.task.kind == "F" else COLOURS[5]
        box(ax, e.start, 3.1 - e.device, e.end - e.start, 0.8, fill=fill, edgecolor="white")
    ax.set(xlim=(0, steps.span), ylim=(0, 4.1), xticks=[])
    ax.set_yticks([3.5 - i for i in range(4)], [f"chip {i}" for i in range(4)])
    ax.tick_params(labelsize=7, length=0)
    ax.grid(False)
    ax.set_xlabel("time of a step", fontsize=8)
    return Picture(figure, "A pipeline of four chips over time: forward and backward passes, with gaps at both ends.")


@styled
def small_tradeoff() -> Picture:
    """LLaMA-2-13B on eight v5e: tokens/s of a user against tokens/s of all."""
    B = np.geomspace(1, 96, 60)
    figure, ax = canvas(*SIZE)
    each, all_ = 1 / step_time(B, **REPLICA), throughput(B, **REPLICA)
    ax.plot(each, all_, color=COLOURS[0])
    for i, name, side in ((0, "one user", "right"), (-1, "96 users", "left")):
        ax.annotate(name, (each[i], all_[i]), (-10 if side == "right" else 8, 0), textcoords="offset points",
                    ha=side, va="center", fontsize=8)  # fmt: skip
    ax.set_xlabel("tokens/s of a user", fontsize=8)
    ax.set_ylabel("tokens/s of all", fontsize=8)
    ax.tick_params(labelsize=7)
    ax.set(xlim=(0, None), ylim=(0, None))
    return Picture(figure, "Tokens per second of all users against those of one: with more users each gets fewer.")


@styled
def small_tiles() -> Picture:
    """Causal attention in blocks: those that are computed, one of them now, and those that nobody sees."""
    figure, ax = _blank(10, 6.6)
    for q in range(5):
        for k in range(5):
            fill = COLOURS[1] if (q, k) == (3, 1) else PALE if k <= q else "none"
            _box(ax, 3.0 + k * 1.05, 5.0 - q * 1.05, 1.05, 1.05, "", fill)
    ax.text(5.6, 6.35, "keys", ha="center", fontsize=8)
    write(ax, 2.7, 3.4, "queries", rotation=90)
    return Picture(figure, "A triangle of blocks, queries by keys: one block is computed at a time, half are skipped.")


@styled
def small_hosts() -> Picture:
    """Two hosts of four chips, a switch in each, and the leaf switches that join chips of the same number."""
    c = hosts("H100", 2, chips=4)
    w = wiring(c)
    at = {name: (1.0 + 1.1 * x, 3.0 + 0.95 * y) for name, (x, y) in places(c, w).items()}
    figure, ax = _blank(12.6, 6.6)
    for x in w.links:
        inside = x.link == "ici"
        ax.plot(*zip(at[x.a], at[x.b]), color=COLOURS[0] if inside else COLOURS[1], linestyle="-" if inside else "--",
                linewidth=1.6 if inside else 1.0, zorder=1)  # fmt: skip
    for n in w.nodes:
        a, b = at[n.name]
        fill = {"chip": PALE, "switch": COLOURS[4], "leaf": COLOURS[5]}[n.kind]
        box(ax, a - 0.35, b - 0.35, 0.7, 0.7, fill=fill, zorder=2)
    return Picture(figure, "Two hosts of four chips, joined inside by a switch and across hosts by four leaf switches.")


@styled
def small_experts() -> Picture:
    """Tokens of two hosts on their way to experts: thick over the card once for each host, thin inside."""
    figure, ax = _blank(12.6, 6.6)
    for host in range(2):
        left = 0.3 + 6.3 * host
        box(ax, left, 0.3, 5.7, 4.3, fill=None, edgecolor="#888", linestyle="--")
        for i in range(4):
            x, expert = left + 0.25 + 1.35 * i, 4 * host + i
            box(ax, x, 2.9, 1.15, 1.2, fill=PALE)
            box(ax, x, 0.6, 1.15, 1.0, f"e{expert}", COLOURS[expert % 6] + "60", 7)
    _arrow(ax, (1.1, 4.1), (7.4, 4.1), color=COLOURS[1], connectionstyle="arc3,rad=-0.35", width=1.8)
    for start, ends in ((1.1, (1.1, 3.8)), (7.4, (7.4, 8.75, 11.45))):
        for end in ends:
            _arrow(ax, (start, 2.9), (end, 1.6), color=COLOURS[0])
    said = "A token of one host goes to two experts there, and once to the other host, to three experts of that one."
    return Picture(figure, said)
