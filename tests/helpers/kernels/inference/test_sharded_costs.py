"""What programs over a mesh send and hold is what the cost functions predict; devices need not be there to be traced."""

from math import prod

import jax
import pytest

from helpers import trace
from helpers.costs.inference import sharded_decode_step as predicted, sharding_limits
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collectives import Collective
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.inference import decode_layouts, sharded_decode_step, sharded_mlp, sharded_prefill
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.abstract_arrays import bf16, mesh as mesh_of
from tests.helpers.kernels.inference.arrays_and_meshes import abstract_step, abstract_weights
from tests.helpers.kernels.transformers.families import toy

C = toy(D=512, L=3, N=64, K=8, H=64, F=2048)
B, S = 32, 1024


@pytest.mark.parametrize("Y, Z", [(2, 4), (4, 2), (2, 32), (8, 8)])
@pytest.mark.sample(quick=2)
def test_attention_with_a_cut_cache(Y, Z):
    """Its collectives in order; the exchanged bytes; and the part of the cache that one device holds."""
    mesh, grid = mesh_of(Y=Y, Z=Z), Mesh({"Y": Y, "Z": Z})
    got = trace.sent(sharded_decode_step.attention(decode_layouts.HEADS, C, mesh), *abstract_step(C, B, S))
    assert tuple(got) == sharding_limits.attention_collectives(B, C.N, C.K, C.H, C.D, Y, Z)
    assert {c.V(grid) for c in got if c.kind == "AllToAll"} == {sharding_limits.all_to_all_bytes(B, C.N, C.H, Y)}
    whole = 2 * 2 * C.L * B * S * C.K * C.H
    share = 1 / (min(Y, C.K) * Z)
    assert (
        decode_layouts.HEADS.cache_bytes(C, mesh, B, S)
        == decode_layouts.SEQUENCE.cache_bytes(C, mesh, B, S)
        == share * whole
    )
    got = trace.sent(sharded_decode_step.attention(decode_layouts.SEQUENCE, C, mesh), *abstract_step(C, B, S))
    assert tuple(got) == sharding_limits.sequence_collectives(B, C.N, C.H, C.D, Y, Z)
    assert got[1].bytes == 4 * B * C.N / Y * (C.H + 2)  # float32: m, l and a row of each head


@pytest.mark.parametrize("X, Y, Z", [(2, 2, 2), (4, 4, 4), (4, 2, 16)])
@pytest.mark.parametrize("F", [512, 2048])
@pytest.mark.sample(quick=3)
def test_weights_cut_both_ways(X, Y, Z, F):
    """The collectives of 2D, and the seconds of 1D and 2D at one byte a second of a torus axis, both ways."""
    D, n = 512, X * Y * Z
    given, mesh = (bf16(B, D), bf16(D, F), bf16(F, D)), mesh_of(X=X, Y=Y, Z=Z)
    both, alone = (trace.sent(make(mesh), *given) for make in (sharded_mlp.two_dimensions, sharded_mlp.one_dimension))
    cut, wide, inner = (B, D // n), (B, D // X), (B, F // (Y * Z))
    assert tuple(both) == (
        Collective("AllGather", ("Y", "Z"), cut, wide),
        Collective("AllReduce", ("X",), inner, inner),
        Collective("ReduceScatter", ("Y", "Z"), wide, cut),
    )
    seconds = lambda sent: sum((2 if c.kind == "AllReduce" else 1) * c.bytes / len(c.axes) for c in sent)  # noqa: E731
    assert seconds(both) == 4 * B * (D / (2 * X) + F * X / n)  # one axis of the torus for X, two for YZ
    assert seconds(alone) == pytest.approx(sharding_limits.one_d_time(B, D, W=0.5))


def test_what_a_step_and_a_prefill_send_on_a_slice():
    """Bytes over the busiest link and hops, all layers, on 16x16 v5e chips: Y and Z are a ring each."""
    c = toy(D=512, L=3, N=256, K=16, H=64, F=2048)
    s = Slice(chip("v5e"), (16, 16))
    mesh, r, wires = mesh_of(Y=16, Z=16), Replica(c, s.chip), Mesh.on(s, "YZ")
    moves = [
        x.move(wires)
        for x in trace.sent(sharded_decode_step.decode(decode_layouts.HEADS, c, mesh), *abstract_step(c, B, S))
    ]
    said = [m for work in predicted.mixed_works(r, s, 16, 16, B, S, 0, 0).values() for m in work.moves]
    assert sum(m.bytes for m in said) == pytest.approx(c.L * sum(m.bytes for m in moves))
    assert sum(m.hops for m in said) == c.L * sum(m.hops for m in moves)

    T, mesh, wires = 4096, mesh_of(X=16, Y=16), Mesh.on(s, {"Y": (0,), "X": (1,)})
    p = abstract_weights(c)
    moves = [x.move(wires) for x in trace.sent(sharded_prefill.prefill(c, mesh, "gathered"), p, bf16(1, T, c.D))]
    said = [m for work in predicted.prefill_works(r, s, 16, 16, T).values() for m in work.moves]
    assert sum(m.bytes for m in said) == pytest.approx(c.L * sum(m.bytes for m in moves))


def test_experts_on_a_chip():
    """What one device holds of the experts, cut as the notation says, is their part of the formula."""
    c, Y, Z = toy(D=64, L=3, moe=MoE(E=16, k=2, F=32)), 8, 16
    shapes = decoder.shapes(c)["layers"][0]["experts"]
    here = 0
    for how in map(parse, sharded_mlp.weights(c)[1:]):
        cut = jax.NamedSharding(mesh_of(Y=Y, Z=Z), jax.P(None, *meshes.spec(how)))
        here += 2 * prod(cut.shard_shape(shapes[how.name]))
    spread_all, over_Y = (
        n * sharding_limits.expert_weights(c, Y, Z, attention_over_Z=s) for n, s in ((Y * Z, True), (Y, False))
    )
    assert here == (spread_all - over_Y) / (1 - 1 / Z) / (Y * Z)  # the rest of the model falls out
