"""Programs of `helpers.kernels.attention` whose collectives are listed; see tools/sends.py."""

from functools import partial

from helpers.kernels.attention import ring_attention, tree_attention
from tests.helpers.kernels.abstract_arrays import bf16, both_passes, mesh

B, N, K, H = 2, 4, 2, 6  # two query heads on each KV head

STRIPES = ring_attention.stripes
RINGS = {
    "ring of 8, not causal": dict(causal=False),
    "ring of 8, window": dict(window=5),  # of three tokens on a device: two hops
    "ring of 8, stripes": dict(places=STRIPES),
    "ring of 8, stripes, both ways": dict(places=STRIPES, ways=2),
}
TRAINED = {
    "ring of 8": {},
    "ring of 8, both ways": dict(ways=2),
    "ring of 8, stripes, window": dict(places=STRIPES, window=5),
}


def ring(f=ring_attention.ring, n=8, T=24, wrap=lambda f: f, **how):
    """T tokens over n devices."""
    run = ring_attention.program(mesh(X=n), "X", f, **how)
    return wrap(run), tuple(bf16(B, T, heads, H) for heads in (N, K, K))


def decode(way, n, wrap=lambda f: f, S=24):
    """One query a row, S places over n devices."""
    run = tree_attention.program(mesh(X=n), "X", getattr(tree_attention, way))
    return wrap(run), (bf16(B, N, H), bf16(B, S, K, H), bf16(B, S, K, H))


PROGRAMS = {
    **{f"ring_attention.program, {name}": partial(ring, **how) for name, how in RINGS.items()},
    **{
        f"ring_attention.program, {name}, forward and backward": partial(ring, wrap=both_passes, **how)
        for name, how in TRAINED.items()
    },
    "ring_attention.program, ring of 3, 15 tokens, in tiles": partial(ring, n=3, T=15, tile=2),
    "ring_attention.counted, ring of 8": partial(ring, ring_attention.counted),
    **{f"tree_attention.{way}, 8 devices": partial(decode, way, 8) for way in ("chain", "doubling")},
    "tree_attention.doubling, 6 devices": partial(decode, "doubling", 6),
    **{
        f"tree_attention.{way}, 8 devices, forward and backward": partial(decode, way, 8, both_passes)
        for way in ("chain", "doubling")
    },
}
