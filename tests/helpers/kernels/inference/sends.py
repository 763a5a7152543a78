"""Programs of `helpers.kernels.inference` whose collectives are listed; see tools/sends.py."""

from functools import partial

from helpers.costs.transformers.config import MLA, MoE
from helpers.kernels.inference import decode_layouts, sharded_decode_step, sharded_mlp, sharded_prefill
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.abstract_arrays import bf16, mesh
from tests.helpers.kernels.inference.arrays_and_meshes import abstract_step, abstract_weights
from tests.helpers.kernels.transformers.families import toy

B, S = 8, 32  # sequences, and places of the cache
C = toy(D=16, L=3, N=8, K=4, H=6, F=24, V=29)
ONE_LAYER = toy(D=16, L=1, N=8, K=4, H=6, F=24, V=29)

WAYS = {
    "tensor parallelism over 4": (decode_layouts.TENSOR, dict(Y=4)),
    "FSDP over 8": (decode_layouts.FSDP, dict(X=8)),
    "data parallelism over 8": (decode_layouts.DATA, dict(X=8)),
    "cache by heads and sequences, Y=2 Z=4": (decode_layouts.HEADS, dict(Y=2, Z=4)),
    "cache by heads and sequences, Y=4 Z=2": (decode_layouts.HEADS, dict(Y=4, Z=2)),
    "cache by places, exchanged, Y=2 Z=4": (decode_layouts.SEQUENCE, dict(Y=2, Z=4)),
}
LATENT = toy(D=16, L=3, N=8, K=8, H=None, F=24, V=29, mla=MLA(24, kv_rank=16, nope=6, rope=8, v=5))
LATENT_WAYS = {
    "latent cache whole, over 4": (decode_layouts.LATENT, dict(Y=4)),
    "latent cache by sequences, Y=2 Z=4": (decode_layouts.LATENT_BATCH, dict(Y=2, Z=4)),
    "latent cache by sequences, Z=8": (decode_layouts.LATENT_BATCH, dict(Y=1, Z=8)),
    "latent cache by places, exchanged, Y=2 Z=4": (decode_layouts.LATENT_SEQUENCE, dict(Y=2, Z=4)),
}


def latent_layer(name):
    way, sizes = LATENT_WAYS[name]
    return sharded_decode_step.decode(way, LATENT, mesh(**sizes)), abstract_step(LATENT, B, S)


def latent_prefill():
    return sharded_prefill.prefill(LATENT, mesh(X=4, Y=2)), (abstract_weights(LATENT), bf16(1, 16, LATENT.D))


def one_layer(make, name):
    way, sizes = WAYS[name]
    return make(way, ONE_LAYER, mesh(**sizes)), abstract_step(ONE_LAYER, B, S)


def prefill(keys):
    return sharded_prefill.prefill(ONE_LAYER, mesh(X=4, Y=2), keys), (abstract_weights(ONE_LAYER), bf16(1, 16, C.D))


def weights_stay(make, X, Y, Z):
    return make(mesh(X=X, Y=Y, Z=Z)), (bf16(B, 16), bf16(16, 24), bf16(24, 16))


def experts(cut, factor, gated=True):
    c = toy(D=16, L=1, gated=gated, moe=MoE(E=8, k=2, F=6))
    w = {n: bf16(*a[1:]) for n, a in decoder.shapes(c)["layers"][0]["experts"].items()}
    arrays = sharded_mlp.arrays(dict(W_R=bf16(16, 8), experts=w))
    return sharded_mlp.program(c, mesh(Y=2, Z=4), cut, factor), (bf16(16, c.D), *arrays)


SOME = ("tensor parallelism over 4", "cache by heads and sequences, Y=2 Z=4")
PROGRAMS = {
    **{f"sharded_decode_step.decode, {way}": partial(one_layer, sharded_decode_step.decode, way) for way in WAYS},
    **{f"sharded_decode_step.attention, {way}": partial(one_layer, sharded_decode_step.attention, way) for way in SOME},
    **{f"sharded_prefill.prefill, keys {keys}, X=4 Y=2": partial(prefill, keys) for keys in sharded_prefill.LOOKS},
    **{f"sharded_decode_step.decode, {way}": partial(latent_layer, way) for way in LATENT_WAYS},
    "sharded_prefill.prefill, latent vectors, X=4 Y=2": latent_prefill,
    **{
        f"sharded_mlp.{make.__name__}, X={X} Y={Y} Z={Z}": partial(weights_stay, make, X, Y, Z)
        for make in (sharded_mlp.one_dimension, sharded_mlp.two_dimensions)
        for X, Y, Z in ((2, 2, 2), (1, 4, 2))
    },
    "sharded_mlp.program, whole tokens": partial(experts, "whole", None),
    "sharded_mlp.program, whole tokens, a capacity": partial(experts, "whole", 1.0),
    "sharded_mlp.program, cut tokens": partial(experts, "batch", None),
    "sharded_mlp.program, cut tokens, a capacity": partial(experts, "batch", 1.0),
    "sharded_mlp.program, cut tokens, two matrices": partial(experts, "batch", None, False),
}
