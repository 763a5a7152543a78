"""What `costs` says of attention over a mesh, beside what the programs of `kernels.attention` do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.attention import (
    flops_and_bytes as costs,
    linear_attention as linear_costs,
    ring_attention as ring_costs,
)
from helpers.kernels import mesh as meshes
from helpers.kernels.attention import linear_attention, ring_attention, tree_attention

B, N, K, H = 2, 4, 2, 4


def like(T, *heads):
    return [jax.ShapeDtypeStruct((B, T, n, H), jnp.bfloat16) for n in heads]


@pytest.mark.parametrize("n, C", [(3, 4), (8, 2)])
@pytest.mark.parametrize("cut, places", [("contiguous", ring_attention.blocks), ("striped", ring_attention.stripes)])
@pytest.mark.sample(quick=2)
def test_work(n, C, cut, places):
    mesh, x = meshes.mesh((n,), ("X",)), np.ones((1, n * C, 1, 2), np.float32)
    run = ring_attention.program(mesh, "X", ring_attention.counted, places=places, tile=1)
    assert run(x, x, x)[1].T.tolist() == [list(row) for row in ring_costs.work(n, C, cut)]


@pytest.mark.parametrize("ways", [1, 2])
def test_what_a_ring_sends(ways):
    """K and V n - 1 times, backward once more, and their gradients n times, in the type of keys and values here: s = 2 bytes."""
    n, T = 5, 20
    a = costs.Attention(T, B=B, N=N, K=K, H=H, x=2, s=2)
    run = ring_attention.program(meshes.mesh((n,), ("X",)), "X", ways=ways)
    gradient = jax.grad(lambda *x: run(*x).astype(jnp.float32).sum(), (0, 1, 2))
    once, both = (trace.sent(f, *like(T, N, K, K)) for f in (run, gradient))
    forward, backward = (ring_costs.ring(a, n, backward=b) for b in (False, True))
    assert once.wire == forward.sent and both.wire == forward.sent + backward.sent
    assert once.kinds == {"Permute": ways * forward.hops} == {"Permute": ways * (n - 1)}
    assert both.kinds == {"Permute": ways * (2 * (n - 1) + n)} and {c.dtype for c in both} == {"bf16"}
    assert (
        {c.bytes for c in (*once, *both)}
        == {ring_costs.hop_bytes(a, n, directions=ways)}
        == {2 * B * T // n * K * H * 2 / ways}
    )


@pytest.mark.parametrize("n", [3, 8, 2, 6])
@pytest.mark.parametrize("way", ["chain", "doubling"])
@pytest.mark.sample(quick=2, slow=1, kind="way")
def test_what_a_tree_sends(n, way):
    a = costs.Attention(1, 16 * n, B=B, N=N, K=K, H=H)
    run = tree_attention.program(meshes.mesh((n,), ("X",)), "X", getattr(tree_attention, way))
    q = jax.ShapeDtypeStruct((B, N, H), jnp.bfloat16)
    sent, said = trace.sent(run, q, *like(16 * n, K, K)), ring_costs.tree(a, n, way)
    assert sent.kinds == {"Permute": said.hops}
    by = dict.fromkeys(range(n), 0.0)  # bytes that each device sends, from the pairs of each message
    for v in trace.walk(jax.make_jaxpr(run)(q, *like(16 * n, K, K))):
        for source, _ in v.eqn.params["perm"] if v.name == "ppermute" else ():
            by[source] += v.loops * 4 * v.eqn.invars[0].aval.size
    assert max(by.values()) == said.sent
    assert tree_attention.rounds(n) == ring_costs.rounds(n)


def test_flops_of_linear_attention():
    T, C = 32, 8
    q = jax.ShapeDtypeStruct((1, T, 1, H), jnp.float32)
    for kind, phi in (
        ("elu", linear_attention.elu),
        ("relu", linear_attention.relu),
        ("taylor", linear_attention.taylor),
    ):
        F = jax.eval_shape(phi, q).shape[-1]
        assert F == linear_costs.features(kind, H)
        forms = dict(
            parallel=linear_attention.parallel,
            chunked=lambda *x: linear_attention.chunked(*x, C),
            recurrent=linear_attention.recurrent,
        )
        for form, f in forms.items():
            done = trace.count(lambda q, k, v, f=f, phi=phi: jax.tree.leaves(f(q, k, v, phi))[0], q, q, q)
            assert done.matmul_flops == linear_costs.linear_flops(T, H, F, form, C)
