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
from helpers.kernels.attention import flash_attention, linear_attention, ring_attention, tree_attention
from helpers.kernels.attention.softmax import Running
from tests.helpers.kernels.attention import reference

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
        == {ring_costs.hop_bytes(a, n, ways=ways)}
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


def gradients_here(q, k, v, out, total, dout):
    """Of one query and the keys that one device has: dq[B, K, G, 1, H] of these keys, dk, dv[B, K, 1, S, H]."""
    one = lambda x: x.reshape(B, K, N // K, 1, -1)  # noqa: E731
    k, v = (x.transpose(0, 2, 1, 3)[:, :, None] for x in (k, v))
    identity = (one(dout) * one(out)).sum(-1)
    return flash_attention.block_gradients(one(q), k, v, one(dout), one(total)[..., 0], identity, None, H**-0.5)


@pytest.mark.parametrize("n, way", [(6, "doubling"), (3, "chain")])
@pytest.mark.sample(quick=1)
def test_a_tree_backward(n, way):
    """A program of its own: gradients from the log-sum that all have, dQ put together as a sum (m = 0); right, and priced so."""
    S, mesh = 4 * n, meshes.mesh((n,), ("X",))
    q, k, v, do = reference.draw(B, 1, S, N, K, H)
    want = reference.dense(q, k, v, do, np.ones((1, S), bool))
    scores = H**-0.5 * np.einsum("btkgh,bskh->btkgs", np.reshape(q, (B, 1, K, N // K, H)), k)
    total = jnp.asarray(np.log(np.exp(scores).sum(-1)).reshape(B, N), "float32")
    args = q[:, 0], k, v, jnp.asarray(want[0][:, 0], "float32"), total, do[:, 0]

    def here(*args):
        dq, dk, dv = gradients_here(*args)
        nothing = jnp.zeros(dq.shape[:-1])
        dq = getattr(tree_attention, way)(Running(nothing, nothing, dq), "X").O  # e^0 = 1: nothing but a sum
        return dq.reshape(B, 1, N, H), *(x[:, :, 0].transpose(0, 2, 1, 3) for x in (dk, dv))

    cut, same = jax.P(None, "X"), jax.P()
    ins, outs = (same, cut, cut, same, same, same), (same, cut, cut)
    run = jax.shard_map(here, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
    reference.close((want[0], *jax.jit(run)(*args)), want, 3e-6)

    said = ring_costs.tree(costs.Attention(1, S, N=N, K=K, H=H, B=B, x=4), n, way, backward=True)
    each = [jax.ShapeDtypeStruct((B, 4, K, H), jnp.float32)] * 2
    done = trace.count(gradients_here, args[0], *each, *args[3:])
    assert (done.matmul_flops, done.by_primitive["exp"].flops, done.io_bytes) == (said.flops, said.exps, said.bytes)
    assert trace.sent(run, *args).kinds == {"Permute": said.hops}
    assert said.sent / ring_costs.tree(costs.Attention(1, S, N=N, K=K, H=H, B=B), n, way).sent == H / (H + 2)


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
