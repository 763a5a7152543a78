"""Formulas of chapter 6, with settings of each: see tests/helpers/costs/formulas.py."""

from helpers.costs.attention import (
    flops_and_bytes as costs,
    io_complexity as io,
    linear_attention as linear,
    ring_attention as ring,
    time_and_intensity as times,
)
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.time_and_intensity import Rates
from tests.helpers.costs.tables import by_name

RATES = Rates(9.89e14, 3.35e12, 3.9e12, 6.7e13, 4.5e11, 1e-6)
LENGTHS = [(4096.0, 32.0, 8.0, 128.0), (1024.0, 4.0, 4.0, 64.0)]
TILES = [(64.0, 128.0, 64.0), (128.0, 64.0, 128.0)]


def _self(T, N, K, H, **kw):
    """Self-attention of T tokens."""
    return Attention(T, None, N, K, H, 2.0, **kw)


def _all(like, *passes):
    """All numbers of some passes, constants too, as long as `like`."""
    return tuple(x + 0 * like for p in passes for x in vars(p).values())


def _both(variant, **kw):
    """All numbers of a variant, forward and backward, causal and not."""

    def of(*sizes):
        passes = [variant(_self(*sizes, causal=c), backward=b, **kw) for c in (True, False) for b in (False, True)]
        return _all(sizes[0], *passes)

    return of


def _visited(T, *rest):
    """Blocks and pairs under each mask."""
    masks = ({}, {"causal": False}, {"window": 300.0}, {"window": 300.0, "keep": 4.0})
    return tuple(x for m in masks for a in (_self(T, *rest, **m),) for x in (a.visited(128.0), a.pairs))


def _ring(n, cut):
    """What the busiest device of a ring does."""
    return lambda *s: _all(s[0], *(ring.ring(_self(*s), n, cut, backward=b) for b in (False, True)))


FORMULAS = {
    **by_name(
        (times.exp_rate, [(132.0, 1.83e9)]), (times.exp_share, [(128.0, 9.89e14, 3.9e12)]),
        (io.flash_blocks, [(49152.0, 128.0), (49152.0, 64.0)]), (io.flash_limit, [(1e5, 64.0, 49152.0)]),
        (times.prefill_intensity, [(4096.0, 12288.0, 96.0)]),
        (times.decode_intensity, [(4096.0, 12288.0, 96.0, 8.0, 4.0)]),
        (times.decode_intensity_limit, [(12288.0, 96.0, 8.0)]), (times.decode_speed_up, [(12288.0, 96.0, 8.0)]),
        (times.layer_flops, [(2.0, 8.0, 32.0, 64.0, 4.0, 16.0, 2.0)]), (times.layer_bytes, [(2.0, 8.0, 32.0, 64.0, 4.0, 16.0, 2.0)]),
        (times.layer_intensity, [(2.0, 8.0, 32.0, 64.0, 4.0, 16.0, 2.0)]),
        (ring.hidden_block, [(3.12e14, 6e11, 4.0, 2.0, 0.5)]), (ring.rounds, [(1.0,), (9.0,), (1024.0,)]),
    ),
    "flops of attention": (lambda *s: (costs.flops(_self(*s)), costs.flops(_self(*s), None, 5)), LENGTHS),
    "visited": (_visited, LENGTHS), "naive": (_both(costs.naive), LENGTHS), "fused": (_both(costs.fused), LENGTHS),
    "chunked": (_both(costs.chunked, C=256.0), LENGTHS),
    "chunk_keys": (lambda T, C, w: costs.chunk_keys(Attention(T, window=w), C), [(4096.0, 256.0, 1000.0)]),
    "flash": (_both(costs.flash, b=128.0), LENGTHS),
    "flash 1": (_both(costs.flash, b=128.0, version=1), LENGTHS),
    "flash of shared rows": (_both(costs.flash, b=64.0, version=3, rows=512.0), LENGTHS),
    "flash in two kernels": (_both(costs.flash, b=128.0, kernels=2), LENGTHS),
    "flash_rows": (lambda x: (costs.flash_rows(x), costs.flash_rows(x, backward=True)), [(295.0,)]),
    "decode of attention": (
        lambda S, w: tuple(
            costs.decode(a, page=p).bytes
            for a in (Attention(1.0, S), Attention(1.0, S, window=w))
            for p in (None, 16.0)
        ),
        [(999.0, 100.0), (50.0, 100.0)],
    ),
    "seconds of attention": (lambda *s: (lambda t: (t.lower, t.upper, t.math))(times.seconds(ring.ring(_self(*s), 8.0), RATES)), LENGTHS),
    "variants": (
        lambda T, M: _all(T, *times.variants(Attention(T, N=8.0), M, window=999.0).values()),
        [(4096.0, 2.0**18), (65536.0, 2.0**27), (65536.0, 10.0)],
    ),
    "in_turn": (lambda *s: times.in_turn(ring.ring(_self(*s), 8.0), RATES), LENGTHS),
    "softmax_floats": (lambda L, S: (io.softmax_floats(L, S), io.softmax_floats(L, S, True)), [(3.0, 5.0)]),
    "standard_floats": (io.standard_floats, [(64.0, 8.0)]),
    "flash_floats":
        (lambda L, *t: tuple(io.flash_floats(L, 64.0, *t, v) for v in (1, 2)), [(1000.0, 64.0, 128.0)]),
    "step_flops": (lambda *t: tuple(x for v in (1, 2) for b in (False, True) for x in io.step_flops(*t, v, b)), TILES),
    "last_flops": (lambda T, H: tuple(io.last_flops(T, H, v, b) for v in (1, 2) for b in (False, True)), [(100.0, 64.0)]),
    "warp_floats": (lambda *t: (*io.warp_floats(*t, 4, "keys"), *io.warp_floats(*t, 4)), TILES),
    "block_bytes": (lambda *t: (io.block_bytes(*t), io.block_bytes(*t, backward=True)), TILES),
    "largest_block": (
        lambda M, H: tuple(
            io.largest_block(M, H, at, b)
            for at in (io.Layout(), io.Layout(scores=False, sums=False))
            for b in (False, True)
        ),
        [(232448.0, 128.0), (2.0**27, 64.0), (10.0, 64.0)],
    ),
    "busy": (lambda n, p, s: (io.busy(n, p, s, 1), io.busy(n, p, s)), [(16.0, 2.0, 1.0), (16.0, 1.0, 2.0)]),
    "complexity": (lambda *a: tuple(vars(times.complexity(*a)).values()), [(4.0, 4096.0, 12288.0, 96.0, 8.0)]),
    "features": (lambda H: tuple(1.0 * linear.features(kind, H) for kind in linear.FEATURES), [(16.0,)]),
    "state_bytes": (lambda *s: linear.state_bytes(_self(*s)), LENGTHS),
    "linear_flops":
        (lambda *a: tuple(linear.linear_flops(*a, form) for form in linear.FORMS), [(4096.0, 64.0, 128.0), (32.0, 64.0, 64.0)]),
    "linear": (lambda *s: _all(s[0], linear.linear(_self(*s)), linear.linear(_self(*s, causal=False))), LENGTHS),
    "hop_bytes": (lambda *s: ring.hop_bytes(_self(*s), 8.0, True, 2), LENGTHS), "ring": (_ring(8.0, "contiguous"), LENGTHS),
    "ring in stripes": (_ring(8.0, "striped"), LENGTHS),
    "ring_time": (lambda n, C: (ring.ring_time(n, C), ring.ring_time(n, C, "striped")), [(8.0, 100.0)]),
    "stripes_speed_up": (lambda n, C: (ring.stripes_speed_up(n, C), ring.stripes_speed_up(n)), [(8.0, 9.0)]),
    "ring_seconds": (
        lambda n, W: tuple(vars(ring.ring_seconds(_self(*LENGTHS[0]), n, 3e14, W, 1e-6)).values()),
        [(8.0, 3e11), (8.0, 3e9), (1.0, 3e9)],
    ),
    "tree": (
        lambda n, S: _all(S, *(ring.tree(Attention(1.0, S), n, way) for way in ("doubling", "chain"))),
        [(6.0, 1e6), (8.0, 1e6), (1.0, 1e6)],
    ),
    "tree_seconds": (lambda n, S: ring.tree_seconds(Attention(1.0, S), n, 3e12, 4e11, 1e-6).upper, [(8.0, 1e6)]),
}  # fmt: skip
