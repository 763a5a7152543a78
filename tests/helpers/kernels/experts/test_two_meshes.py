"""Layers over two meshes equal one device; traced bytes are those predicted; placements give each token its experts."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.experts import routers, two_meshes
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.transformers.families import random_params, toy

C = toy(L=1, N=8, K=4, moe=MoE(E=16, k=3, F=9))
B, T = 4, 8
ALL = P(("X", "Y"))
EP = [("X", "Y"), ("Y",), ("X",)]


def on(shape):
    return meshes.mesh(shape, ("X", "Y"))


def given(seed=0):
    p = jax.tree.map(lambda a: a[0], random_params(C, seed)["layers"][0])
    rng = np.random.default_rng(seed)
    return p, *(rng.standard_normal((B, T, C.D)).astype("float32") for _ in range(2))


def whole(p, x):
    return decoder.block(p, x, jnp.arange(T), C, C.kind(0))[0]


@pytest.mark.parametrize("ep", EP)
@pytest.mark.sample(quick=1)
def test_a_layer_is_that_of_one_device(ep):
    p, x, _ = given()
    for pieces in (1, 2):
        got = two_meshes.forward(C, on((2, 4)), ep, places=4, pieces=pieces)(p, x)
        assert np.allclose(got, whole(p, x), atol=1e-4)


@pytest.mark.parametrize("ep", EP)
@pytest.mark.slow("it compiles a backward pass")
def test_gradients_are_those_of_one_device(ep):
    p, x, target = given()
    dense = jax.jit(jax.grad(lambda p: jnp.sum((whole(p, x) - target) ** 2) / (2 * x.size)))(p)
    got = two_meshes.gradients(C, on((2, 4)), ep, places=4)(p, x, target)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(dense), strict=True):
        assert np.allclose(a, b, atol=2e-4 * np.abs(b).max())


# Other ways to the experts.


E, K, D, F = 16, 3, 6, 5


def tokens(rows=8 * 6, seed=1):
    rng = np.random.default_rng(seed)
    x, logits = rng.standard_normal((rows, D)), rng.standard_normal((rows, E)) + np.arange(E) / 8
    U, V = rng.standard_normal((E, D, F)), rng.standard_normal((E, F, D))
    expert, weight = routers.choose(logits.astype("float32"), routers.Router(K))
    return tuple(a.astype("float32") for a in (x, np.asarray(two_meshes.weighted(expert, weight, E)), U, V))


def worked(U, V, rows, weights):
    h = jax.nn.relu(jnp.einsum("td,edf->tef", rows, U))
    return jnp.einsum("te,tef,efd->td", weights, h, V)


def ways(U, V, tiers):
    work = partial(worked, U, V)
    return {
        "devices": lambda x, w: two_meshes.by_copies(x, w, work, (("X", "Y"), 6)),
        "hosts": lambda x, w: two_meshes.by_copies(x, w, work, (("X",), 6), (("Y",), 6 * tiers[0])),
        "gather": lambda x, w: two_meshes.by_gather(x, w, work, ("X", "Y")),
    }


@pytest.mark.parametrize("tiers", [(2, 4), (4, 2)])
@pytest.mark.parametrize("way", ["devices", "hosts", "gather"])
@pytest.mark.sample(quick=1, kind="way")
def test_all_ways_give_what_one_device_gives(tiers, way):
    x, w, U, V = tokens()
    f = lambda x, w, U, V: ways(U, V, tiers)[way](x, w)  # noqa: E731
    run = jax.shard_map(f, mesh=on(tiers), in_specs=(ALL,) * 4, out_specs=ALL, check_vma=False)
    assert np.allclose(jax.jit(run)(x, w, U, V), worked(U, V, x, w), atol=1e-4)


def test_a_capacity_of_one_copy_drops_the_later_tokens():
    x, w, U, V = tokens()
    f = lambda x, w, U, V: two_meshes.by_copies(x, w, partial(worked, U, V), (("X", "Y"), 1))  # noqa: E731
    run = jax.shard_map(f, mesh=on((2, 4)), in_specs=(ALL,) * 4, out_specs=ALL, check_vma=False)
    got = np.asarray(jax.jit(run)(x, w, U, V))
    left = w.reshape(8, 6, 8, 2).copy()  # device, token, device that is met, its experts
    for device in range(8):
        for to in range(8):
            met = np.flatnonzero((left[device, :, to] != 0).any(-1))
            left[device, met[1:], to] = 0
    assert (left.reshape(w.shape) != w).any()
    assert np.allclose(got, worked(U, V, x, left.reshape(w.shape)), atol=1e-4)


def test_what_does_not_fit_is_refused():
    p, x, _ = given()
    with pytest.raises(ValueError, match="3 pieces do not share 4 places"):
        two_meshes.forward(C, on((2, 4)), ("Y",), places=4, pieces=3)(p, x)
    with pytest.raises(ValueError, match="shared"):
        two_meshes.specs(p | {"shared experts": {}}, ("Y",))
