"""Feature maps against e^(q·k) and against softmax's weights; Hedgehog learns these."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.attention import linear_attention

SEQUENCES, T, H = 4, 24, 6
MAPS = dict(elu=linear_attention.elu, relu=linear_attention.relu, taylor=linear_attention.taylor)


def draw(seed, spread=1.5):
    """Queries and keys [4, 24, 6] whose products have about the size of `spread` squared."""
    return [
        jnp.asarray(spread * H**-0.25 * np.asarray(x))
        for x in jax.random.normal(jax.random.key(seed), (2, SEQUENCES, T, H))
    ]


@cache
def hedgehog(softmax):
    q, k = draw(0)
    W = linear_attention.start(jax.random.key(1), H, 2 * H)
    return *linear_attention.trained(W, q, k, softmax=softmax), W


@cache
def measured(seed):
    """Of each map on the same queries and keys: weights, KL to softmax, entropy, error, order; of softmax itself the first."""
    q, k = draw(seed)
    maps = {**MAPS, "hedgehog": partial(linear_attention.hedgehog, hedgehog(True)[0], softmax=True)}

    @jax.jit
    def all_of(q, k):
        P, out = linear_attention.softmax_weights(q, k), {}
        for name, phi in maps.items():
            W = linear_attention.weights(phi, q, k)
            out[name] = (
                W,
                linear_attention.kl(P, W),
                linear_attention.entropy(W),
                linear_attention.error(phi, q, k),
                linear_attention.order(phi, q, k),
            )
        return P, linear_attention.entropy(P), linear_attention.kl(P, P), out

    return jax.tree.map(np.asarray, all_of(q, k))


def test_taylor_is_the_series_of_exp():
    """1 + z + z²/2 in 1 + d + d² numbers; without the √2 it would be 1 + z + z²."""
    q, k = (np.asarray(x[0], np.float64) for x in draw(0))
    a, b = np.asarray(jax.jit(linear_attention.taylor)(np.float32([q, k])))
    z = q @ k.T
    assert a.shape == (T, 1 + H + H * H)
    np.testing.assert_allclose(a @ b.T, 1 + z + z * z / 2, rtol=1e-4, atol=1e-5)
    assert np.abs(a @ b.T - (1 + z + z * z)).max() > 0.5
    close = np.abs(z) < 0.5
    assert np.abs(a @ b.T - np.exp(z))[close].max() < 0.5**3 / 6 * np.exp(0.5)  # Lagrange's rest


def test_the_other_maps():
    x, W, one = np.linspace(-3, 3, 7, dtype=np.float32), np.float32([[1, -2]]), np.float32([[2]])
    q, k = (np.asarray(a[0, :3]) for a in draw(0))
    phi, hedgehog = lambda x: linear_attention.taylor(x * H**-0.25), partial(linear_attention.hedgehog, W, one)
    elu, relu, plain, soft, product = jax.jit(
        lambda: (
            linear_attention.elu(x),
            linear_attention.relu(x),
            hedgehog(),
            hedgehog(softmax=True),
            phi(q) @ phi(k).T,
        )
    )()
    np.testing.assert_allclose(elu, np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))), rtol=1e-6)
    np.testing.assert_array_equal(relu, np.maximum(x, 0))
    y = np.exp([[2.0, -4.0, -2.0, 4.0]])
    np.testing.assert_allclose(plain, y, rtol=1e-5)
    np.testing.assert_allclose(soft, np.hstack([y[:, :2] / y[:, :2].sum(), y[:, 2:] / y[:, 2:].sum()]), rtol=1e-5)
    z = np.float64(q) @ np.float64(k).T / H**0.5
    np.testing.assert_allclose(product, 1 + z + z * z / 2, rtol=1e-5)


def test_measures_by_hand():
    """Entropy, KL and order against loops; KL is 0 for softmax itself."""
    P, entropy, zero, found = measured(0)
    W, kl, spread, error, order = (np.float64(x) for x in found["elu"])
    p, w = np.asarray(P, float)[0, 5, :6], W[0, 5, :6]
    np.testing.assert_allclose(entropy[0, 5], -(p * np.log(p)).sum(), rtol=1e-4)
    np.testing.assert_allclose(spread[0, 5], -(w * np.log(w)).sum(), rtol=1e-4)
    np.testing.assert_allclose(kl[0, 5], (p * np.log(p / w)).sum(), rtol=1e-3)
    np.testing.assert_allclose(zero, 0, atol=1e-5)
    q, k = (np.asarray(x, float) for x in draw(0))
    z, K = q @ k.swapaxes(1, 2), [np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k)]
    K = K[0] @ K[1].swapaxes(1, 2)
    agree = [K[s, i, a] > K[s, i, b] for s, i, a, b in np.argwhere(z[..., :, None] > z[..., None, :])]
    np.testing.assert_allclose(order, np.mean(agree), rtol=1e-4)
    fit = np.linalg.lstsq(K[0, 3][:, None], np.exp(z[0, 3]), rcond=None)
    np.testing.assert_allclose(error[0, 3], np.sqrt(fit[1][0]) / np.linalg.norm(np.exp(z[0, 3])), rtol=1e-4)


@pytest.mark.parametrize("softmax", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_hedgehog_learns(softmax):
    """The loss falls, to the cross-entropy that its weights have; it never goes below softmax's own entropy."""
    W, losses, start = hedgehog(softmax)
    q, k = draw(0)
    P, entropy, _, _ = measured(0)
    losses = np.asarray(losses)
    assert losses[-1] < losses[0] - 0.1 and np.all(np.diff(losses[::50]) < 0)
    phi = partial(linear_attention.hedgehog, W, softmax=softmax)
    L, said = jax.jit(lambda *x: (linear_attention.weights(phi, *x), linear_attention.loss(W, *x, softmax=softmax)))(
        q, k
    )
    L = np.asarray(L, float)
    P = np.asarray(P, float)
    seen = np.tri(T, dtype=bool)
    now = -(P * np.log(np.where(seen, L, 1))).sum(-1).mean()
    np.testing.assert_allclose(said, now, rtol=1e-4)
    assert entropy.mean() < now <= losses[-1] + 1e-3
    assert not np.allclose(W, start, atol=0.1)
