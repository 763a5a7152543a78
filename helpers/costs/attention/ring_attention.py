"""Attention over n devices that have C tokens each: ring, stripes, tree (chapter 6).

Keys and values go round a ring of devices, n - 1 sends, past every device's queries; while one block is worked on, the next
comes. Device i has at hop r the keys of device (i - r) mod n, if each sends to the next one.

Source: Liu et al., "Ring Attention with Blockwise Transformers" (2023); Brandon et al., "Striped Attention" (2023); Shyam et
al., "Tree Attention" (2024). Errors of the course's sources are listed in its errata (E004).
"""

from dataclasses import replace
from typing import Literal

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.roofline import Move, Time
from helpers.costs.sharding.collectives import seconds
from helpers.numeric import maximum, plain, where

from .flops_and_bytes import Attention, Pass, flops
from .io_complexity import last_flops, step_flops

CUTS = ("contiguous", "striped")
Cut = Literal[*CUTS]


@formula
def hidden_block(flops_rate, W, G=1, x=2, share=1.0):
    """Smallest block of tokens for which a device's work of a hop takes as long as its send: x·C/(2·share·W·G).

    flops_rate  FLOPs/s of a device; W bytes/s that it sends, ONE way (a vendor's 600 GB/s is both ways together)
    G           query heads that share a KV head: their work grows, what is sent does not
    share       of the block's pairs that is computed: 1, or one half with a causal mask in stripes

    4·share·C²·N·H FLOPs beside 2·x·C·K·H bytes. Neither the sequence's length nor H is in it. Backward it is less: 2.5 times the
    work beside twice the bytes, K, V and their gradients.

    >>> round(hidden_block(3.12e14, 6e11)), round(hidden_block(3.12e14, 6.4e10))      # the sources' A100, NVLink and PCIe
    (520, 4875)
    >>> round(hidden_block(3.12e14, 3e11)), round(hidden_block(3.12e14, 3e11, G=8, share=0.5))      # one way; GQA in stripes
    (1040, 260)
    """
    return x * flops_rate / (2 * share * W * G)


@formula
def hop_bytes(attn: Attention, n, backward=False, directions=1):
    """Bytes of K and V of one device, that it sends over a link at each hop; `directions` = 2 sends half of them each way round.

    Backward their gradients, in s bytes, go with them.

    >>> hop_bytes(Attention(131072, N=32, K=8), 8) / 2**20
    64.0
    """
    return (attn.x + (attn.s if backward else 0)) * 2 * attn.B * attn.K * attn.S / n * attn.H / directions


@formula
def ring(attn: Attention, n: Count, cut: Cut = "contiguous", backward=False) -> Pass:
    """What the busiest device does, blocks that are masked whole skipped, each block's scores kept on the chip.

    Forward K and V are sent n - 1 times. Backward too, and their gradients n times: once more, home.

    >>> a = Attention(131072, N=32, K=8)
    >>> ring(a, 8).hops, ring(a, 8).sent / hop_bytes(a, 8), round(ring(a, 8).flops / ring(a, 8, "striped").flops, 2)
    (7, 7.0, 1.87)
    """
    _no_window(attn)
    C = attn.S / n
    at = replace(attn, T=C, S=C, causal=False)
    pairs = ring_time(n, C, cut) if attn.causal else n * C * C
    keys, gradients = hop_bytes(attn, n), hop_bytes(replace(attn, x=0), n, True)
    sent = (n - 1) * keys + (n * gradients if backward else 0)
    q, kv = attn.B * attn.N * C * attn.H, attn.B * attn.K * C * attn.H
    # Every hop reads Q, K and V, and reads and writes O with its sums; backward also dO, dQ, and the gradients.
    moved = n * (attn.x * (q + 2 * kv) + 2 * attn.s * (q + 2 * q / attn.H))
    if backward:
        moved = n * (attn.x * (2 * q + 2 * kv) + attn.s * (2 * q + 4 * kv + 2 * q / attn.H))
    moved = moved + 2 * sent  # what is sent is read, and written by the one that gets it
    held = 2 * keys + (2 * gradients if backward else attn.s * (q + 2 * q / attn.H))
    # Each hop is a step of Flash 2: something for each pair, and for each row, in whatever blocks.
    exps, other = step_flops(C, C, attn.H, 2, backward)
    masked = n * C * C - pairs
    other = n * other - 3 * masked + last_flops(C, attn.H, 2, backward)
    heads, kept, hops = attn.B * attn.N, 0.0 if backward else attn.s * q / attn.H, n if backward else n - 1
    products = flops(at, pairs, 5 if backward else 2)
    return Pass(products, heads * (n * exps - masked), heads * other, moved, held, kept, sent, hops)


def _no_window(attn: Attention) -> None:
    if attn.window is not None:
        raise ValueError(
            "the ring's formulas take every earlier key: with a window most hops fall away, so leave it out"
        )


@formula
def work(n: Count, C: Count, cut: Cut = "contiguous") -> tuple[tuple[int, ...], ...]:
    """The map of causal work: pairs that device i computes at hop r, as rows of hops and columns of devices.

    contiguous  device i has tokens iC … iC + C - 1: its own block is a triangle, earlier blocks are whole, later ones empty
    striped     token t is on device t mod n: every block is a triangle, C(C + 1)/2 with its diagonal (keys of a device up
                to one's own) or C(C - 1)/2 without

    >>> work(3, 4)
    ((10, 10, 10), (0, 16, 16), (0, 0, 16))
    >>> work(3, 4, "striped")
    ((10, 10, 10), (6, 10, 10), (6, 6, 10))
    """
    with_, without, whole = C * (C + 1) // 2, C * (C - 1) // 2, C * C

    def pairs(i, j):
        if cut == "striped":
            return with_ if j <= i else without
        return with_ if j == i else whole if j < i else 0

    return tuple(tuple(pairs(i, (i - r) % n) for i in range(n)) for r in range(n))


@formula
def ring_time(n, C, cut: Cut = "contiguous"):
    """Pairs that a causal ring waits for: at each hop those of the device with most. C(C + 1)/2 + (n - 1)C²; in stripes
    n·C(C + 1)/2.

    >>> ring_time(4, 100), ring_time(4, 100, "striped")
    (35050.0, 20200.0)
    """
    triangle = C * (C + 1) / 2
    return n * triangle if cut == "striped" else triangle + (n - 1) * C * C


@formula
def stripes_speed_up(n, C=float("inf")):
    """Times faster that stripes make a causal ring whose work decides: ((n - 1)·2C/(C + 1) + 1)/n, 2 - 1/n for large blocks.

    >>> stripes_speed_up(8), round(stripes_speed_up(8, 1024), 4)
    (1.875, 1.8733)
    """
    whole = 2.0 if plain(C) and C == float("inf") else 2 * C / (C + 1)
    return ((n - 1) * whole + 1) / n


@record
class Hops:
    """Seconds of a ring: of the work of a hop, of a send, and of all, sends hidden behind work where they are shorter."""

    work: float
    send: float
    total: float


@formula
def ring_seconds(attn: Attention, n, flops_rate, W, hop=0.0, cut: Cut = "contiguous", directions=1) -> Hops:
    """Seconds of the products and the sends of a forward ring: n times work, n - 1 times with a send beside it.

    flops_rate, W  FLOPs/s of a device, bytes/s of a link one way; `directions` = 2 uses the link behind as well

    A causal ring's own block, at hop 0, is a triangle, and the others of some device are whole (in stripes triangles too).

    >>> at = ring_seconds(Attention(8 * 2080, N=32, causal=False), 8, 3.12e14, 3e11)
    >>> round(at.send / at.work, 3), round(at.total / at.work, 3)          # blocks of 2,080 hide sends of a 1,040
    (0.5, 8.0)
    """
    _no_window(attn)
    C = attn.S / n
    at, triangle = replace(attn, T=C, S=C, causal=False), C * (C + 1) / 2
    own, other = (triangle, triangle if cut == "striped" else C * C) if attn.causal else (C * C, C * C)
    first, each = (flops(at, pairs) / flops_rate for pairs in (own, other))
    send = seconds(Move("ici", hop_bytes(attn, n, directions=directions), 1), W, hop)
    # The send of hop r lies beside the work of hop r; the last block's work has no send beside it.
    total = where(n > 1, maximum(first, send) + (n - 2) * maximum(each, send) + each, first)
    return Hops(each, send, total)


@formula
def rounds(n: Count):
    """Rounds of a tree over n devices: ceil(log2 n).

    >>> [rounds(n) for n in (1, 2, 3, 8, 9, 1024)]
    [0, 1, 2, 3, 4, 10]
    """
    return sum(where(n > 2**k, 1, 0) for k in range(20))


@formula
def tree(attn: Attention, n, order: Literal["doubling", "chain"] = "doubling") -> Pass:
    """A decode step whose S keys lie on n devices: each looks at its own, then (m, l, o), H + 2 numbers of each head, are
    combined, until every device has the result.

    order  doubling  ceil(log2 n) rounds, in each of which every device hears from one 1, 2, 4 … places back. Unless n is a power
           of two, windows of devices would overlap in the end, so two of them are sent
           chain     once round a ring: n - 1 sends

    >>> a = Attention(1, 2**20, N=32, K=8)
    >>> [(tree(a, 8, way).hops, tree(a, 8, way).sent) for way in ("doubling", "chain")]
    [(3, 49920.0), (7, 116480.0)]
    """
    heads, hops = attn.B * attn.N * attn.T, rounds(n) if order == "doubling" else n - 1
    windows = 2 - sum(where(n == 2**j, 1, 0) for j in range(21)) if order == "doubling" else 1
    partial, keys, sends = attn.s * heads * (attn.H + 2), attn.S / n, hops * windows
    moved = attn.x * (heads * attn.H + 2 * attn.B * attn.K * keys * attn.H) + partial
    other = 3.0 * keys - 2 + (3 * attn.H + 6) * sends + attn.H  # largest, minus, sum; ⊕; o / l
    exps, held = heads * (keys + 2 * sends), 2.0 * partial * windows
    return Pass(
        flops(attn, attn.T * keys), exps, heads * other, moved, held, attn.s * heads, 1.0 * sends * partial, hops
    )


@formula
def tree_seconds(attn: Attention, n, W_hbm, W, hop) -> Time:
    """Seconds of `tree`: the cache's part of a device from HBM at W_hbm bytes/s, and its rounds, one after the other, over links of W.

    >>> t = tree_seconds(Attention(1, 2**20, N=32, K=8), 8, 3.35e12, 4.5e11, 1e-6)
    >>> f"{t.parts['hbm']:.3g} {t.parts['link']:.3g}"
    '0.00016 3e-06'
    """
    p = tree(attn, n)
    each = p.sent / maximum(p.hops, 1)
    return Time({"math": 0.0, "hbm": p.bytes / W_hbm, "link": p.hops * seconds(Move("ici", each, 1), W, hop)})
