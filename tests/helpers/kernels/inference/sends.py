"""Programs of `helpers.kernels.inference` whose collectives are listed; see tests/helpers/kernels/sends.py."""

from functools import partial

from helpers.costs.transformers.config import MLA, MoE
from helpers.kernels.inference import (
    decode_tp_fsdp_dp,
    expert_parallel_decode,
    kv_cache_by_heads,
    kv_cache_by_sequence,
    latent_kv_cache,
    sharded_decode_step,
    sharded_prefill,
    weight_stationary_2d,
)
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.abstract_arrays import as_bf16, bf16, int32, mesh
from tests.helpers.kernels.inference.arrays_and_meshes import abstract_step, abstract_weights
from tests.helpers.kernels.transformers.families import toy

B, S = 8, 32  # sequences, and places of the cache
C = toy(D=16, L=3, N=8, K=4, H=6, F=24, V=29)
ONE_LAYER = toy(D=16, L=1, N=8, K=4, H=6, F=24, V=29)

WAYS = {
    "tensor parallelism over 4": (decode_tp_fsdp_dp.TENSOR, dict(Y=4)),
    "FSDP over 8": (decode_tp_fsdp_dp.FSDP, dict(X=8)),
    "data parallelism over 8": (decode_tp_fsdp_dp.DATA, dict(X=8)),
    "cache by heads and sequences, Y=2 Z=4": (kv_cache_by_heads.HEADS, dict(Y=2, Z=4)),
    "cache by heads and sequences, Y=4 Z=2": (kv_cache_by_heads.HEADS, dict(Y=4, Z=2)),
    "cache by groups and sequences, Y=4 Z=2": (kv_cache_by_heads.GROUPS, dict(Y=4, Z=2)),
    "cache by places, exchanged, Y=2 Z=4": (kv_cache_by_sequence.SEQUENCE, dict(Y=2, Z=4)),
    "cache by places, reduced, Y=2 Z=4": (kv_cache_by_sequence.REDUCED, dict(Y=2, Z=4)),
}
LATENT = toy(D=16, L=3, N=8, K=8, H=None, F=24, V=29, mla=MLA(24, kv_rank=16, nope=6, rope=8, v=5))
LATENT_WAYS = {
    "latent cache whole, over 4": (latent_kv_cache.LATENT, dict(Y=4)),
    "latent cache by sequences, Y=2 Z=4": (latent_kv_cache.LATENT_BATCH, dict(Y=2, Z=4)),
    "latent cache by sequences, Z=8": (latent_kv_cache.LATENT_BATCH, dict(Y=1, Z=8)),
    "latent cache by places, exchanged, Y=2 Z=4": (latent_kv_cache.LATENT_SEQUENCE, dict(Y=2, Z=4)),
    "latent cache by places, reduced, Y=2 Z=4": (latent_kv_cache.LATENT_REDUCED, dict(Y=2, Z=4)),
}


def latent_layer(make, name):
    """A layer of latent attention, or all three."""
    way, sizes = LATENT_WAYS[name]
    program = make(way, LATENT, mesh(**sizes))
    if make is sharded_decode_step.decode:
        return program, abstract_step(LATENT, B, S)
    kept = dict(latent=bf16(LATENT.L, B, S, 16), rope=bf16(LATENT.L, B, S, 8))
    return program, (model(LATENT)[0], [kept], int32(B), int32(B))


def latent_prefill():
    return sharded_prefill.prefill(LATENT, mesh(X=4, Y=2)), (abstract_weights(LATENT), bf16(1, 16, LATENT.D))


def model(c):
    """All parameters, and the cache of all layers."""
    params = {n: bf16(*a) for n, a in decoder.shapes(c).items() if n != "layers"}
    params["layers"] = [{n: bf16(*a) for n, a in stack.items()} for stack in decoder.shapes(c)["layers"]]
    return params, as_bf16([dict.fromkeys("kv", bf16(c.L, B, S, c.K, c.H or 1))])


def one_layer(make, name):
    way, sizes = WAYS[name]
    return make(way, ONE_LAYER, mesh(**sizes)), abstract_step(ONE_LAYER, B, S)


def step(name):
    way, sizes = WAYS[name]
    return sharded_decode_step.step(way, C, mesh(**sizes)), (*model(C), int32(B), int32(B))


def prefill(keys):
    return sharded_prefill.prefill(ONE_LAYER, mesh(X=4, Y=2), keys), (abstract_weights(ONE_LAYER), bf16(1, 16, C.D))


def prompt(keys):
    return sharded_prefill.prompt(C, mesh(X=4, Y=2), S, keys), (model(C)[0], int32(2, 16))


def weights_stay(make, X, Y, Z):
    return make(mesh(X=X, Y=Y, Z=Z)), (bf16(B, 16), bf16(16, 24), bf16(24, 16))


def experts(cut, factor, gated=True):
    c = toy(D=16, L=1, gated=gated, moe=MoE(E=8, k=2, F=6))
    w = {n: bf16(*a[1:]) for n, a in decoder.shapes(c)["layers"][0]["experts"].items()}
    arrays = expert_parallel_decode.arrays(dict(W_R=bf16(16, 8), experts=w))
    return expert_parallel_decode.program(c, mesh(Y=2, Z=4), cut, factor), (bf16(16, c.D), *arrays)


SOME = ("tensor parallelism over 4", "cache by heads and sequences, Y=2 Z=4")
PROGRAMS = {
    **{f"sharded_decode_step.decode, {way}": partial(one_layer, sharded_decode_step.decode, way) for way in WAYS},
    **{f"sharded_decode_step.attention, {way}": partial(one_layer, sharded_decode_step.attention, way) for way in SOME},
    **{f"sharded_decode_step.step, {way}": partial(step, way) for way in SOME},
    **{f"sharded_prefill.prefill, keys {keys}, X=4 Y=2": partial(prefill, keys) for keys in sharded_prefill.LOOKS},
    "sharded_prefill.prompt, keys ring, X=4 Y=2": partial(prompt, "ring"),
    **{
        f"sharded_decode_step.decode, {way}": partial(latent_layer, sharded_decode_step.decode, way)
        for way in LATENT_WAYS
    },
    "sharded_decode_step.step, latent cache by sequences, Y=2 Z=4": partial(
        latent_layer, sharded_decode_step.step, "latent cache by sequences, Y=2 Z=4"
    ),
    "sharded_prefill.prefill, latent vectors, X=4 Y=2": latent_prefill,
    **{
        f"weight_stationary_2d.{make.__name__}, X={X} Y={Y} Z={Z}": partial(weights_stay, make, X, Y, Z)
        for make in (weight_stationary_2d.one_dimension, weight_stationary_2d.two_dimensions)
        for X, Y, Z in ((2, 2, 2), (1, 4, 2))
    },
    "expert_parallel_decode.program, whole tokens": partial(experts, "whole", None),
    "expert_parallel_decode.program, whole tokens, a capacity": partial(experts, "whole", 1.0),
    "expert_parallel_decode.program, cut tokens": partial(experts, "batch", None),
    "expert_parallel_decode.program, cut tokens, a capacity": partial(experts, "batch", 1.0),
    "expert_parallel_decode.program, cut tokens, two matrices": partial(experts, "batch", None, False),
}
