"""What programs over a mesh send and hold is what the cost functions predict; devices need not be there to be traced."""

from dataclasses import replace
from math import prod

import jax
import pytest

from helpers import trace
from helpers.costs import decoding
from helpers.costs import sharded as predicted
from helpers.costs.config import MoE
from helpers.costs.hardware import Slice, chip
from helpers.costs.replica import Replica
from helpers.costs.sharding import Mesh, parse
from helpers.kernels import mesh as meshes
from helpers.kernels import transformer
from helpers.kernels.inference import heads, sequence, sharded, spread, twod, ways
from tests.helpers.families import toy

C = toy(D=512, L=3, N=64, K=8, H=64, F=2048)
B, S = 32, 1024


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, "bfloat16")


def absent(**sizes):
    return jax.sharding.AbstractMesh(
        tuple(sizes.values()), tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes)
    )


def layer(c):
    """(a layer's arrays, its cache, its input, positions), as shapes."""
    p = {n: bf16(*a[1:]) for n, a in transformer.shapes(c)["layers"][0].items()}
    kept = bf16(B, S, c.K, c.H)
    return p, dict(k=kept, v=kept), bf16(B, c.D), jax.ShapeDtypeStruct((B,), "int32")


@pytest.mark.parametrize("Y, Z", [(2, 4), (4, 2), (8, 8), (2, 32)])
def test_attention_with_a_cut_cache(Y, Z):
    """systems E18, E19: its collectives in order; the exchanged bytes; and the part of the cache that one device holds."""
    mesh, grid = absent(Y=Y, Z=Z), Mesh({"Y": Y, "Z": Z})
    got = trace.sent(ways.attention(heads.HEADS, C, mesh), *layer(C))
    assert tuple(got) == decoding.attention_collectives(B, C.N, C.K, C.H, C.D, Y, Z)
    assert {c.V(grid) for c in got if c.kind == "AllToAll"} == {decoding.all_to_all_bytes(B, C.N, C.H, Y)}
    whole = 2 * 2 * C.L * B * S * C.K * C.H
    share = decoding.cache_share(C.K, Y, Z)
    assert heads.HEADS.cache_bytes(C, mesh, B, S) == sequence.SEQUENCE.cache_bytes(C, mesh, B, S) == share * whole
    for way, reduced in ((sequence.SEQUENCE, False), (sequence.REDUCED, True)):
        got = trace.sent(ways.attention(way, C, mesh), *layer(C))
        assert tuple(got) == decoding.sequence_collectives(B, C.N, C.H, C.D, Y, Z, reduced=reduced)
        combined = sum(c.bytes for c in got[1:-1])  # m, l and o, in one message or two
        assert combined == decoding.combine_bytes(B, C.N / Y, C.H)


@pytest.mark.parametrize("X, Y, Z", [(2, 2, 2), (4, 4, 4), (4, 2, 16)])
@pytest.mark.parametrize("F", [512, 2048])
def test_weights_cut_both_ways(X, Y, Z, F):
    """systems E26: the collectives of 2D, and the seconds of 1D and 2D at one byte a second of a torus axis."""
    D, n = 512, X * Y * Z
    given, mesh = (bf16(B, D), bf16(D, F), bf16(F, D)), absent(X=X, Y=Y, Z=Z)
    both, alone = (trace.sent(make(mesh), *given) for make in (twod.two_dimensions, twod.one_dimension))
    assert [replace(c, axes=c.axes[:1]) for c in both] == list(decoding.two_d_collectives(B, D, F, X, Y * Z))
    seconds = lambda sent: sum((2 if c.kind == "AllReduce" else 1) * c.bytes / len(c.axes) for c in sent)  # noqa: E731
    assert seconds(both) == decoding.two_d_time(B, D, F, n, X, 1.0)
    assert seconds(alone) == pytest.approx(decoding.one_d_time(B, D, 1.0))


def test_what_a_step_and_a_prefill_send_on_a_slice():
    """systems E16, E17, E18: bytes over the busiest link and hops, all layers, on 16x16 v5e chips: Y and Z are a ring each."""
    c = toy(D=512, L=3, N=256, K=16, H=64, F=2048)
    s = Slice(chip("v5e"), (16, 16))
    mesh, r, wires = absent(Y=16, Z=16), Replica(c, s.chip), Mesh.on(s, "YZ")
    moves = [x.move(wires) for x in trace.sent(ways.decode(heads.HEADS, c, mesh), *layer(c))]
    said = [m for work in predicted.decode_works(r, s, 16, 16, B, S).values() for m in work.moves]
    assert sum(m.bytes for m in said) == pytest.approx(c.L * sum(m.bytes for m in moves))
    assert sum(m.hops for m in said) == c.L * sum(m.hops for m in moves)

    T, mesh, wires = 4096, absent(X=16, Y=16), Mesh.on(s, {"Y": (0,), "X": (1,)})
    p = layer(c)[0]
    moves = [x.move(wires) for x in trace.sent(sharded.prefill(c, mesh, "gathered"), p, bf16(1, T, c.D))]
    said = [m for work in predicted.prefill_works(r, s, 16, 16, T).values() for m in work.moves]
    assert sum(m.bytes for m in said) == pytest.approx(c.L * sum(m.bytes for m in moves))


def test_experts_on_a_chip():
    """systems E30: what one device holds of the experts, cut as the notation says, is their part of the formula."""
    c, Y, Z = toy(D=64, L=3, moe=MoE(E=16, k=2, F=32)), 8, 16
    shapes = transformer.shapes(c)["layers"][0]["experts"]
    here = 0
    for how in map(parse, spread.weights(c)[1:]):
        cut = jax.NamedSharding(absent(Y=Y, Z=Z), jax.P(None, *meshes.spec(how)))
        here += 2 * prod(cut.shard_shape(shapes[how.name]))
    spread_all, over_Y = (n * decoding.expert_weights(c, Y, Z, spread=s) for n, s in ((Y * Z, True), (Y, False)))
    assert here == (spread_all - over_Y) / (1 - 1 / Z) / (Y * Z)  # the rest of the model falls out
