"""What `costs` says of attention over a mesh, beside what the programs of `kernels.attention` do."""

import jax
import jax.numpy as jnp
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.attention import features, linear, ring, stripes, tree

costs = pytest.importorskip("helpers.costs.attention", reason="the costs of attention have not landed yet")
ring_costs = pytest.importorskip("helpers.costs.attention_ring")
linear_costs = pytest.importorskip("helpers.costs.attention_linear")
B, N, K, H = 2, 4, 2, 4


def like(T, *heads):
    return [jax.ShapeDtypeStruct((B, T, n, H), jnp.bfloat16) for n in heads]


@pytest.mark.parametrize("n, C", [(3, 4), (8, 2)])
@pytest.mark.parametrize("cut, places", [("contiguous", ring.blocks), ("striped", stripes.stripes)])
def test_work(n, C, cut, places):
    assert ring.visits(n, C, places).T.tolist() == [list(row) for row in ring_costs.work(n, C, cut)]


@pytest.mark.parametrize("ways", [1, 2])
def test_what_a_ring_sends(ways):
    """Slopes travel in the type of keys and values here: s = 2 bytes."""
    n, T = 5, 20
    a = costs.Attention(T, B=B, N=N, K=K, H=H, x=2, s=2)
    run = ring.program(meshes.mesh((n,), ("X",)), "X", ways=ways)
    slope = jax.grad(lambda *x: run(*x).astype(jnp.float32).sum(), (0, 1, 2))
    once, both = (trace.sent(f, *like(T, N, K, K)) for f in (run, slope))
    forward, backward = (ring_costs.ring(a, n, backward=b) for b in (False, True))
    assert once.wire == forward.sent and both.wire == forward.sent + backward.sent
    assert once.kinds["Permute"] == ways * forward.hops
    assert {c.bytes for c in once} == {ring_costs.hop_bytes(a, n, ways=ways)}


@pytest.mark.parametrize("n", [2, 3, 6, 8])
@pytest.mark.parametrize("way", ["chain", "tree", "doubling"])
def test_what_a_tree_sends(n, way):
    a = costs.Attention(1, 16 * n, B=B, N=N, K=K, H=H)
    run = tree.program(meshes.mesh((n,), ("X",)), "X", tree.WAYS[way])
    q = jax.ShapeDtypeStruct((B, N, H), jnp.bfloat16)
    sent, said = trace.sent(run, q, *like(16 * n, K, K)), ring_costs.tree(a, n, way)
    assert sent.kinds == {"Permute": said.hops}
    by = dict.fromkeys(range(n), 0.0)  # bytes that each device sends, from the pairs of each message
    for v in trace.walk(jax.make_jaxpr(run)(q, *like(16 * n, K, K))):
        for source, _ in v.eqn.params["perm"] if v.name == "ppermute" else ():
            by[source] += v.loops * 4 * v.eqn.invars[0].aval.size
    assert max(by.values()) == said.sent
    assert tree.rounds(n) == ring_costs.rounds(n)


def test_flops_of_linear_attention():
    T, C = 32, 8
    q = jax.ShapeDtypeStruct((1, T, 1, H), jnp.float32)
    for kind, phi in (("elu", features.elu), ("relu", features.relu), ("taylor", features.taylor)):
        F = jax.eval_shape(phi, q).shape[-1]
        assert F == linear_costs.features(kind, H)
        forms = dict(parallel=linear.parallel, chunked=lambda *x: linear.chunked(*x, C), recurrent=linear.recurrent)
        for form, f in forms.items():
            done = trace.count(lambda q, k, v, f=f, phi=phi: jax.tree.leaves(f(q, k, v, phi))[0], q, q, q)
            assert done.matmul_flops == linear_costs.linear_flops(T, H, F, form, C)
