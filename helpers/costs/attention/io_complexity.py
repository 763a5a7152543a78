"""Floats between a large slow memory and a small fast one, and the blocks that fit into the fast one (chapter 6).

One head of one sequence; T queries and S keys of H numbers; R queries meet C keys at a time. M is a size of fast memory.
Floats are counted, not bytes, where the sources do so. `trace.two_level_memory` walks the same schedules and counts.

Source: Dao et al., "FlashAttention" (2022); Dao, "FlashAttention-2" (2023); Shah et al., "FlashAttention-3" (2024); Milakov
and Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from typing import Literal

from helpers.arguments import Count, formula, record
from helpers.numeric import ceil, floor_near, maximum, minimum, plain, sqrt

SOFTMAX_ACCESSES = {"naive": 3, "safe": 4, "online": 3}
"""Loads and stores for each number of a row that is too long for fast memory: one pass for the sum, or for largest and sum,
or for each of the two; then one that reads and writes."""


@formula
def softmax_floats(L, S=None, fused=False):
    """Floats of the softmax of L rows of S scores (L): three kernels, or one that holds a row.

    exp reads and writes LS; the sum reads LS and writes L; the division reads LS and L and writes LS.

    >>> softmax_floats(1000) == 5 * 1000**2 + 2 * 1000, softmax_floats(1000, fused=True) == 2 * 1000**2
    (True, True)
    >>> round(softmax_floats(1e6) / softmax_floats(1e6, fused=True), 3)
    2.5
    """
    S = L if S is None else S
    return 2 * L * S if fused else 5 * L * S + 2 * L


@formula
def standard_floats(L, H):
    """Floats of attention whose scores and shares lie in slow memory; `flops_and_bytes.fused` has other masks, and backward.

    >>> standard_floats(1024, 64)
    4456448
    """
    return 4 * L * L + 4 * L * H


@formula
def flash_blocks(M, H):
    """(R, C) of the first FlashAttention in a fast memory of M FLOATS: C = ceil(M/4H), R = min(C, H).

    So K, V, Q and O take no more than a quarter of M each, about; the scores come on top, up to another quarter.

    >>> flash_blocks(49152, 128), flash_blocks(49152, 64)                 # 96 KiB of bf16
    ((96, 96), (64, 192))
    """
    if plain(M, H) and M < 4 * H:
        raise ValueError(f"Flash wants 4H floats of fast memory at least, {4 * H}, not {M}")
    C = ceil(M / (4 * H))
    return minimum(C, H), C


@formula
def flash_floats(L, H, R, C, version=1):
    """Floats of Flash without a mask; `flops_and_bytes.flash` has the others, and backward.

    version  1: keys outside. K, V once; for each of L/C blocks of keys Q, O, l, m in and O, l, m out
             2: queries outside. Q in, O and m + log l out; for each of L/R blocks of queries K and V in

    >>> L, H, M = 65536, 64, 65536
    >>> R, C = flash_blocks(M, H)
    >>> round(flash_floats(L, H, R, C) / flash_limit(L, H, M), 2)
    1.02
    """
    if version == 1:
        return 2 * L * H + ceil(L / C) * (3 * L * H + 4 * L)
    return 2 * L * H + L + ceil(L / R) * 2 * L * H


@formula
def flash_limit(L, H, M):
    """12 L² H² / M: what `flash_floats` of version 1 tends to. Quadratic in L all the same: M is what makes it small.

    >>> flash_limit(4096, 64, 49152) / standard_floats(4096, 64)
    0.24615384615384617
    """
    return 12 * L * L * H * H / M


@record
class Visits:
    """Blocks of scores that a mask leaves something of. `full` need no mask, `partial` do; `rows` for each block of queries."""

    full: int
    partial: int
    rows: tuple[int, ...]

    @property
    def all(self) -> int:
        """What a kernel that skips empty blocks looks at."""
        return self.full + self.partial


@formula
def visits(
    T: Count, S: Count, R: Count, C: Count, causal: bool = True, window: Count | None = None, keep: int = 0
) -> Visits:
    """Blocks of R queries with C keys, of T queries that are the last of S keys; any sizes, the last blocks may be short.

    >>> visits(8, 8, 2, 2), visits(100, 300, 32, 64).rows
    (Visits(full=6, partial=4, rows=(1, 2, 3, 4)), (4, 5, 5, 5))
    """
    if S < T:
        raise ValueError(f"the T={T} queries are the last of the keys, so S is at least T, not {S}")
    full, rows = 0, []
    for first in range(S - T, S, R):
        last = min(first + R, S) - 1
        seen = 0
        for k in range(0, S, C):
            end = min(k + C, S) - 1
            least = -1 if window is None else first - window + 1  # the first key in the window of the first query
            most = -1 if window is None else last - window + 1
            some = not causal or (k <= last and (end >= least or k < keep))
            every = not causal or (end <= first and (max(k, keep) >= most or end < keep))
            seen, full = seen + some, full + (some and every)
        rows.append(seen)
    return Visits(full, sum(rows) - full, tuple(rows))


@formula
def step_flops(R, C, H, version=2, backward=False, kernels=1):
    """(exponentials, other FLOPs) of a block of R queries and C keys beside its products; the scale 1/sqrt(H) is Q's.

    Forward   both take the block's largest score and its sum: 3RC. Version 1 makes a block's softmax by itself, scales old and
              new O, adds, divides: 4RH. Version 2 scales the old O and adds: 2RH, and leaves the division to `last_flops`.
    Backward  P = exp(S - (m + log l)), dS = P (dP - D), sums of dQ, dK, dV: 3RC + RH + 2CH; version 1 finds D again, 2RH. Two
              kernels, one for dQ and one for dK and dV, do P and dS twice.

    >>> step_flops(128, 128, 64, 1), step_flops(128, 128, 64, 2)
    ((16640, 82432), (16512, 65792))
    """
    if backward:
        return kernels * R * C, kernels * 3 * R * C + R * H + 2 * C * H + (2 * R * H - R if version == 1 else 0)
    if version == 1:
        return R * C + 2 * R, 3 * R * C + 4 * R + 4 * R * H
    return R * C + R, 3 * R * C + 2 * R + 2 * R * H


@formula
def last_flops(T, H, version=2, backward=False):
    """FLOPs of T rows beside the blocks: of version 2 forward O/l and m + log l, backward D = rowsum(dO·O) before them."""
    if version == 1:
        return 0 * T
    return T * (2 * H - 1) if backward else T * (H + 2)


@formula
def warp_floats(R, C, H, warps, cut: Literal["keys", "queries"] = "queries"):
    """Floats (read for products, exchanged) through shared memory in a step of one thread block, its warps having split the work.

    keys     Flash 1: each warp multiplies all of Q with its part of K and V, and has a part of every row's sum; the warps
             write their [R, H] and read all of them, to add them up
    queries  Flash 2: each warp has its own rows of Q and reads all of K and V; nothing is exchanged

    >>> warp_floats(128, 128, 64, 4, "keys"), warp_floats(128, 128, 64, 4)
    ((49152, 65536), (73728, 0))
    """
    if cut == "keys":
        return warps * R * H + 2 * C * H, 2 * warps * R * H
    return R * H + warps * 2 * C * H, 0 * R


@record
class Layout:
    """Bytes of a step's arrays on the chip.

    x        bytes of a number of Q, K, V (and of shares before their product)
    s        bytes of a sum: O, l, m, scores
    buffers  copies of what streams in, 2 so that the next block comes while this one is worked on
    scores   whether scores and shares take fast memory too: no where they stay in registers, as on a GPU
    sums     the same of O (backward dK and dV)
    """

    x: float = 2
    s: float = 4
    buffers: float = 2
    scores: bool = True
    sums: bool = True


USUAL = Layout()


@formula
def block_bytes(R, C, H, layout: Layout = USUAL, backward=False):
    """Bytes on the chip of a step of Flash 2. Forward R rows of Q and O stay, K and V come in. Backward, keys are outside:
    K, V, dK, dV stay, Q, dO, dQ and two numbers of each row come in (dQ goes out again), S and P, dP and dS are alive.

    >>> block_bytes(128, 128, 128)
    328704
    >>> block_bytes(128, 128, 128, Layout(scores=False, sums=False))        # 160 KiB and 1 KiB of m and l, of an SM's 227
    164864
    """
    if backward:
        stay = C * H * 2 * (layout.x + (layout.s if layout.sums else 0))
        stream = layout.buffers * R * (H * (2 * layout.x + layout.s) + 2 * layout.s)
        return stay + stream + (R * C * 2 * (layout.x + layout.s) if layout.scores else 0)
    stay = R * H * (layout.x + (layout.s if layout.sums else 0)) + 2 * R * layout.s
    return stay + layout.buffers * 2 * C * H * layout.x + (R * C * (layout.x + layout.s) if layout.scores else 0)


@formula
def largest_block(M, H: Count, layout: Layout = USUAL, backward=False, multiple=16):
    """Largest b with b queries and b keys in M BYTES of fast memory, a whole `multiple`; 0 if not even that fits.

    >>> largest_block(128 * 2**20, 128)                # VMEM of a v5e
    4576
    >>> largest_block(227 * 1024, 128, Layout(scores=False, sums=False)), largest_block(227 * 1024, 128, backward=True)
    (176, 48)
    """
    square = (2 if backward else 1) * (layout.x + layout.s) if layout.scores else 0  # bytes: square·b² + line·b
    line = block_bytes(1, 1, H, layout, backward) - square
    b = M / line if square == 0 else (sqrt(line * line + 4 * square * M) - line) / (2 * square)
    return multiple * floor_near(b / multiple)


@formula
def busy(blocks, product, softmax, groups: Literal[1, 2] = 2):
    """Seconds until `groups` of warps have worked through `blocks` blocks each, when what differs can run at once.

    product, softmax  seconds of a block's two products, and of what lies between them, for one group

    A group does one after the other. One group alone takes the sum. Two take turns (ping-pong): while one multiplies, the
    other does its exponentials, so a round of two blocks takes 2·max(product, softmax), and the shorter one comes once more.

    >>> busy(16, 2.0, 1.0, groups=1) * 2, busy(16, 2.0, 1.0)
    (96.0, 65.0)
    """
    if groups == 1:
        return blocks * (product + softmax)
    return 2 * blocks * maximum(product, softmax) + minimum(product, softmax)
