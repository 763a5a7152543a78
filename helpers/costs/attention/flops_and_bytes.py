"""FLOPs, bytes through memory and footprint of attention, variant by variant (chapter 6).

An `Attention` says what is computed, a variant (`naive`, `fused`, `chunked`, `flash`, `decode`) how, and a `Pass` is
what that does on one device. Variants on many devices are in `ring_attention`, those without softmax in `linear_attention`,
the floats of single schedules and the sizes of blocks in `io_complexity`.

Source: Dao et al., "FlashAttention" (2022); Dao, "FlashAttention-2" (2023); Shah et al., "FlashAttention-3" (2024).
Errors of the course's sources are listed in its errata (E004).
"""

from dataclasses import replace
from typing import Literal

from helpers.arguments import formula, record
from helpers.costs.rooflines.roofline import Move, Work
from helpers.costs.transformers import parameters_and_flops
from helpers.numeric import ceil, floor, maximum, minimum, plain

from . import io_complexity as io

Version = Literal[1, 2, 3]


@record
class Attention:
    """softmax(Q K^T / sqrt(H)) V of B sequences: T queries, the last of S keys, in N heads of size H on K KV heads.

    S, K     left out: T, N
    causal   a query sees no later key
    window   and of the keys up to itself only the last `window`; None: all
    keep     and the first `keep` of all (attention sinks)
    x, s     bytes of a number of Q, K, V, O; of a score and of every sum
    """

    T: float
    S: float | None = None
    N: float = 1
    K: float | None = None
    H: float = 128
    B: float = 1
    causal: bool = True
    window: float | None = None
    keep: float = 0
    x: float = 2
    s: float = 4

    def __post_init__(self):
        object.__setattr__(self, "S", self.T if self.S is None else self.S)
        object.__setattr__(self, "K", self.N if self.K is None else self.K)
        if plain(self.T, self.S, self.H) and min(self.T, self.S, self.H) < 1:
            raise ValueError(f"attention needs a query, a key and a width, not T={self.T}, S={self.S}, H={self.H}")
        if plain(self.N, self.K) and (self.K < 1 or self.N % self.K):
            raise ValueError(f"{self.N} query heads do not group over {self.K} KV heads: make N a multiple of K")
        if self.causal and plain(self.T, self.S) and self.S < self.T:
            raise ValueError(f"the T={self.T} queries are the last of the keys, so S is at least T, not {self.S}")
        if not self.causal and (self.window is not None or (plain(self.keep) and self.keep)):
            raise ValueError("windows and sinks are for causal attention: leave window and keep out, or set causal")
        if self.window is not None and plain(self.window, self.keep) and (self.window < 1 or self.keep < 0):
            raise ValueError(f"a window has at least one key, the query's own, and sinks are 0 or more: {self}")

    @property
    def G(self):
        """Query heads of one KV head."""
        return self.N / self.K

    @property
    def pairs(self):
        """Pairs of query and key that the mask leaves, of one head of one sequence, exactly.

        >>> Attention(4).pairs, Attention(4, causal=False).pairs, Attention(6, window=2, keep=1).pairs
        (10, 16, 15)
        """
        if not self.causal:
            return self.T * self.S
        n = parameters_and_flops.pairs(self.T, self.S, self.window)
        return n if self.window is None else n + _beyond(self.S, self) - _beyond(self.S - self.T, self)

    def visited(self, b):
        """Blocks of b queries with b keys in which the mask leaves a pair: what a kernel that skips the others looks at.

        Exact for whole numbers when the first query stands at the start of a block, as it does in self-attention;
        `io_complexity.visits` counts blocks of any sides at any place.

        >>> Attention(512).visited(128), Attention(512, causal=False).visited(128)
        (10, 16)
        >>> Attention(1024, window=128).visited(128), Attention(1024, window=128, keep=4).visited(128)
        (15, 21)
        """
        rows, last = ceil(self.S / b) - floor((self.S - self.T) / b), ceil(self.S / b)
        if not self.causal:
            return ceil(self.T / b) * last
        # The block of the query, and those back.
        wide = None if self.window is None else ceil((self.window - 1) / b) + 1
        return replace(self, T=rows, S=last, window=wide, keep=ceil(self.keep / b)).pairs


def _beyond(n, attn: Attention):
    """Sinks that the first n queries see outside their windows: query p sees min(keep, p - window)."""
    return parameters_and_flops.pairs(m := maximum(n - attn.window, 0), m, attn.keep)


@record(signed="other")
class Pass:
    """What a forward or a backward pass of attention does on one device; passes add up, in sequence.

    flops   of matrix products
    exps    exponentials
    other   FLOPs beside them: largest, sums, scaling, division
    bytes   between HBM and the chip
    held    bytes in HBM at the fullest moment, beyond arguments and results
    kept    bytes that a forward pass leaves for the backward pass, beyond arguments and results
    sent    bytes that the device with most to send sends, and `hops`, how many rounds of sends follow each other
    """

    flops: float = 0.0
    exps: float = 0.0
    other: float = 0.0
    bytes: float = 0.0
    held: float = 0.0
    kept: float = 0.0
    sent: float = 0.0
    hops: float = 0.0

    def __add__(self, o: "Pass") -> "Pass":
        both = {name: getattr(self, name) + getattr(o, name) for name in vars(self)}
        return Pass(**both | {"held": maximum(self.held, o.held)})

    @property
    def intensity(self):
        """FLOPs of products per byte of HBM."""
        return self.flops / self.bytes

    def work(self, dtype: str = "bf16") -> Work:
        """Products, bytes and sends as the `Work` that `roofline` prices and plots.

        >>> from helpers.costs.rooflines.roofline import on_chip
        >>> on_chip(fused(Attention(8192)).work(), chip("v5e")).bound, on_chip(flash(Attention(8192), 512).work(), chip("v5e")).bound
        ('hbm', 'math')
        """
        moves = () if plain(self.hops) and not self.hops else (Move("ici", self.sent, self.hops),)
        return Work(self.flops, self.bytes, moves, dtype)


@formula
def flops(attn: Attention, pairs=None, products=2):
    """FLOPs of `products` products over the pairs that are computed; None: exactly those that the mask leaves.

    Forward there are two, Q K^T and P V. Backward there are four, dV = P^T dO, dP = dO V^T, dQ = dS K and dK = dS^T Q, if P
    was kept, and five, 2.5 times as many as forward, if Q K^T is computed again.

    >>> flops(Attention(1024, N=8, causal=False)) == 4 * 8 * 1024**2 * 128
    True
    >>> flops(Attention(1024), products=5) / flops(Attention(1024))
    2.5
    """
    return 2 * products * attn.B * attn.N * (attn.pairs if pairs is None else pairs) * attn.H


def _numbers(attn: Attention):
    """Of all heads and sequences: of Q (and O), of K (and V), rows of scores, scores."""
    heads = attn.B * attn.N
    return heads * attn.T * attn.H, attn.B * attn.K * attn.S * attn.H, heads * attn.T, heads * attn.T * attn.S


@formula
def naive(attn: Attention, backward: bool = False) -> Pass:
    """Scores, exponentials, their sums, shares: each a kernel of its own, through HBM; masked pairs are computed too.

    The plain softmax, which takes no largest score away first.
    Of scores that is one write, 5 for the softmax (`io_complexity.softmax_floats`) and one read; backward 13.

    >>> a = Attention(4096, causal=False, x=2, s=2)
    >>> naive(a).bytes == 2 * (7 * 4096**2 + 2 * 4096 + 4 * 4096 * 128)
    True
    """
    return _whole(attn, backward, forward_passes=7, row_passes=2, backward_passes=13, backward_rows=2)


@formula
def fused(attn: Attention, backward: bool = False) -> Pass:
    """The same with softmax as one kernel: scores are written and read, shares are written and read. Backward 7 times.

    >>> a = Attention(4096, causal=False, x=2, s=2)
    >>> fused(a).bytes == 2 * (4 * 4096**2 + 4 * 4096 * 128), fused(a, True).bytes == 2 * (7 * 4096**2 + 8 * 4096 * 128)
    (True, True)
    """
    return _whole(attn, backward, forward_passes=4, row_passes=0, backward_passes=7, backward_rows=0)


def _whole(attn: Attention, backward, forward_passes, row_passes, backward_passes, backward_rows) -> Pass:
    q, kv, rows, scores = _numbers(attn)
    if backward:  # P, dP and dS; the last two are both alive while dS is made
        moved = attn.x * (4 * q + 4 * kv) + attn.s * (backward_passes * scores + backward_rows * rows)
        return Pass(flops(attn, attn.T * attn.S, 4), 0.0, 4.0 * scores - rows, moved, 2.0 * attn.s * scores)
    moved = attn.x * (2 * q + 2 * kv) + attn.s * (forward_passes * scores + row_passes * rows)
    other = 2.0 * scores - rows if row_passes else 4.0 * scores - 2 * rows
    return Pass(flops(attn, attn.T * attn.S), scores, other, moved, 2.0 * attn.s * scores, attn.s * scores)


@formula
def chunk_keys(attn: Attention, C):
    """Keys that all chunks of C queries look at together, each up to its own end: a window leaves C + window - 1 of them.

    C need not divide T: the last chunk has the queries that are left. S - T is a whole multiple of C.

    >>> chunk_keys(Attention(12), 4), chunk_keys(Attention(12, window=3), 4), chunk_keys(Attention(12, causal=False), 4)
    (24, 16, 36)
    >>> chunk_keys(Attention(10), 4), chunk_keys(Attention(10, window=3), 4)          # 4, 8 and 10 keys; 4, 6 and 4
    (22, 14)
    """
    n, before = ceil(attn.T / C), (attn.S - attn.T) / C
    if not attn.causal:
        return n * attn.S
    near = lambda rows: attn.S if attn.window is None else minimum(attn.S, rows + attn.window - 1 + attn.keep)  # noqa: E731
    most = near(C)
    full = floor(most / C)  # chunks whose end comes before they have that many

    def upto(n_chunks):
        whole = minimum(n_chunks, full)
        return C * whole * (whole + 1) / 2 + (n_chunks - whole) * most

    keys = upto(before + n - 1) - upto(before) + near(attn.T - (n - 1) * C)
    return int(keys) if plain(keys) and keys == int(keys) else keys


@formula
def chunked(attn: Attention, C, backward: bool = False) -> Pass:
    """A prefill in chunks of C queries: each one's scores, at most C by S, through HBM like those of `fused`.

    Backward each chunk's scores are computed again, so nothing is kept.

    >>> fused(Attention(8192)).held / chunked(Attention(8192), 512).held
    16.0
    """
    C = minimum(C, attn.T)
    q, kv, rows, _ = _numbers(attn)
    keys = chunk_keys(attn, C)
    scores, loads = attn.B * attn.N * C * keys, attn.B * attn.K * keys * attn.H
    widest = attn.S if attn.window is None else minimum(attn.S, C + attn.window - 1 + attn.keep)
    held = attn.s * attn.B * attn.N * C * widest
    if backward:  # Q for S and dK, dO for dV and dP; K for S and dQ, V for dP; dK and dV are added to
        moved = attn.x * (5 * q + 3 * loads) + attn.s * (10 * scores + 4 * loads)
        return Pass(flops(attn, C * keys, 5), scores, 8.0 * scores - 3 * rows + 2 * loads, moved, 3.0 * held)
    moved = attn.x * (2 * q + 2 * loads) + attn.s * 4 * scores
    return Pass(flops(attn, C * keys), scores, 4.0 * scores - 2 * rows, moved, 2.0 * held)


@formula
def flash(attn: Attention, b, version: Version = 2, backward: bool = False, rows=None, kernels: int = 1) -> Pass:
    """Blocks of b queries and b keys that meet on the chip; blocks that are masked whole are not looked at.

    version  1: keys outside, queries inside, so every block of keys reads Q and reads and writes O, l and m again
             2: queries outside, keys inside: O and one number m + log l are written once, K and V are read for each block
             3: as 2; what differs is what happens at once (`seconds`)
    rows     queries of one KV head that share what is read of K and V (backward: keys that share Q and dO); b, left out.
             More, where blocks run at once behind one cache, and G times as many where a group's heads do
    kernels  backward, 1: keys outside, dK and dV stay, Q and dO come in, dQ is read, added to and written (in s bytes)
             2: nothing is added to in memory, as a TPU wants it: dQ with queries outside, then dK and dV with keys outside.
             Seven products, not five, since both compute S and dP; keys serve the heads of their group in turn

    Backward version 1 reads O too, to find D = rowsum(dO·O) again and again; version 2 finds it once, before.

    >>> a = Attention(8192, N=32, K=8)
    >>> [f"{p.bytes / 1e9:.2f}" for p in (fused(a), flash(a, 128, 1), flash(a, 128), flash(a, 128, rows=512))]
    ['34.53', '6.81', '4.50', '1.28']
    >>> flash(a, 128).flops / flops(a) - 1 < 0.02, flash(a, 128).kept
    (True, 1048576)
    """
    if kernels not in (1, 2) or (version == 1 and kernels == 2):
        raise ValueError(
            f"Flash 1 goes backward in one kernel, later versions in 1 or 2, not version {version} in {kernels}"
        )
    b = minimum(b, attn.T)
    rows = b if rows is None or version == 1 else minimum(rows, attn.T)
    heads, blocks = attn.B * attn.N, attn.visited(b)
    met = heads * (attn.visited(rows) * rows if version > 1 else blocks * b)  # numbers of rows or keys that come in
    exps, other = (heads * blocks * n for n in io.step_flops(b, b, attn.H, version, backward, kernels))
    other = other + heads * io.last_flops(attn.T, attn.H, version, backward)
    products = (3 + 2 * kernels) if backward else 2
    moved, held, kept = (_flash_backward if backward else _flash_forward)(attn, met, version, kernels)
    return Pass(flops(attn, b * b * blocks, products), exps, other, moved, held, kept)


_ROW = 4
"""Bytes of m, of l, of m + log l and of D, whatever the others have."""


def _flash_forward(attn: Attention, block_pairs, version, _):
    """Bytes moved, held and kept."""
    q, kv, number, _ = _numbers(attn)
    if version == 1:
        return attn.x * (2 * kv * attn.G + 3 * block_pairs * attn.H) + 4 * _ROW * block_pairs, 0.0, 2 * _ROW * number
    return attn.x * 2 * (q + block_pairs * attn.H) + _ROW * number, 0.0, _ROW * number


def _flash_backward(attn: Attention, block_pairs, version, kernels):
    q, kv, number, _ = _numbers(attn)
    before = 0 if version == 1 else attn.x * 2 * q + _ROW * number  # D
    if kernels == 2:
        for_q = attn.x * (3 * q + 2 * block_pairs * attn.H) + 2 * _ROW * number
        for_keys = attn.x * (4 * kv + 2 * block_pairs * attn.H) + 2 * _ROW * block_pairs
        return before + for_q + for_keys, _ROW * number, 0.0
    inside = block_pairs * ((3 if version == 1 else 2) * attn.x * attn.H + 2 * attn.s * attn.H + 2 * _ROW)
    return before + attn.x * 4 * kv * attn.G + inside, _ROW * number + attn.s * q, 0.0


@formula
def flash_rows(alpha, x=2, s=4, backward=False):
    """Queries that must share what is read of K and V for Flash to be bound by products: x·alpha/2, whatever T, S and H.

    A key's x·2H bytes serve 4H FLOPs for each query. Backward, keys that share a query's Q, dO and dQ, (x + s)·2H bytes for
    10H FLOPs. alpha is C/W.

    >>> round(flash_rows(9.89e14 / 3.35e12)), round(flash_rows(1.97e14 / 8.1e11))        # H100, v5e
    (295, 243)
    """
    return (x + s) * alpha / 5 if backward else x * alpha / 2


@formula
def decode(attn: Attention, page=None) -> Pass:
    """One step of B sequences that hold S keys each, T = 1: a window and sinks read no more than that, pages whole ones.

    page  tokens of a page; a table of four bytes for each page is read too

    It has no backward pass: nothing is trained through a cache. Training sees all tokens of a text at once, as a prefill does.

    >>> a = Attention(1, 8192, N=32, K=8)
    >>> round(decode(a).intensity, 2), decode(replace(a, window=1024, keep=4)).bytes / decode(a).bytes < 0.126
    (4.0, True)
    >>> decode(Attention(1, 33, K=1), page=16).bytes - decode(Attention(1, 48)).bytes          # three pages: a table of 12 B
    12
    """
    if plain(attn.T) and attn.T != 1:
        raise ValueError(f"a decode step has one query for each sequence, not T={attn.T}")
    keys = attn.S if attn.window is None else minimum(attn.S, attn.window + attn.keep)
    stored = keys if page is None else page * ceil(keys / page)
    table = 0 if page is None else 4 * attn.B * stored / page
    heads = attn.B * attn.N
    moved = attn.x * (2 * heads * attn.H + 2 * attn.B * attn.K * stored * attn.H) + table
    moved = int(moved) if plain(moved) and moved == int(moved) else moved
    return Pass(flops(attn, keys), heads * keys, heads * (3.0 * keys - 2 + attn.H), moved)  # largest, minus, sum; o / l
