"""Feature maps phi, [..., H] -> [..., F], whose products stand for e^(q·k); what they lose; Hedgehog, which is trained (chapter 6).

    elu       ELU(x) + 1             F = H
    relu      max(x, 0)              F = H; no gradient where x < 0, and a query may have no weight at all
    taylor    1, x_i, x_i x_j / √2   F = 1 + H + H², and phi(q)·phi(k) = 1 + z + z²/2 for z = q·k. Without the √2 it is 1 + z + z²
              (errata E004-6). It falls with z below z = -1, so it keeps the order of scores only where they stay above that
    hedgehog  e^(xW) and e^(-xW), or the softmax of xW and that of -xW, with W[H, F/2] trained to give the softmax's weights

Softmax weighs by e^(q·k/√H): give each of q and k the share H^(-1/4) of that (`scaled`). A map is judged by its weights, P[..., T, S]
with rows that add up to 1: `error` of its products against e^z, `entropy` of the rows (softmax is spiky, most maps are not), `kl` to
softmax's rows, and `order`, how often it gives the larger of two scores the larger weight.

Source: Katharopoulos et al., "Transformers are RNNs" (2020) for elu; Zhang et al., "The Hedgehog & the Porcupine" (2024).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels.transformers.adam import Adam


def elu(x):
    """ELU(x) + 1: e^x below 0, x + 1 above.

    >>> elu(jnp.array([0.0, 2.0])).tolist()
    [1.0, 3.0]
    """
    return jax.nn.elu(x) + 1


def relu(x):
    return jax.nn.relu(x)


def taylor(x):
    """1, x and all x_i x_j / √2: 1 + H + H² features, whose product is the first three terms of e^(q·k).

    >>> q, k = jnp.array([1.0, 2.0]), jnp.array([3.0, -1.0])       # z = 1
    >>> taylor(q).size, round(float(taylor(q) @ taylor(k)), 4)     # 1 + z + z²/2
    (7, 2.5)
    """
    square = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)
    return jnp.concatenate([jnp.ones((*x.shape[:-1], 1), x.dtype), x, square / 2**0.5], -1)


def hedgehog(W, x, softmax: bool = False):
    """e^(xW) and e^(-xW); with `softmax`, each half over its sum, which cannot overflow. W[H, F/2] -> [..., F]."""
    y = x @ W
    f = partial(jax.nn.softmax, axis=-1) if softmax else jnp.exp
    return jnp.concatenate([f(y), f(-y)], -1)


def scaled(phi: Callable, H: int) -> Callable:
    """phi of x·H^(-1/4): with both q and k so, q·k becomes q·k/√H."""
    return lambda x: phi(x * H**-0.25)


# Weights, and what is measured of them.


def softmax_weights(q, k, causal: bool = True):
    """softmax(q kᵀ): q[..., T, H], k[..., S, H] -> P[..., T, S]. With `causal`, the last query sees the last key."""
    scores = q @ jnp.swapaxes(k, -1, -2)
    return jax.nn.softmax(jnp.where(_seen(scores, causal), scores, -jnp.inf), -1)


def weights(phi: Callable, q, k, causal: bool = True):
    """phi(q)·phi(k) over the sum of its row: P[..., T, S]. A row without any weight is 0."""
    K = phi(q) @ jnp.swapaxes(phi(k), -1, -2)
    K = jnp.where(_seen(K, causal), K, 0)
    total = K.sum(-1, keepdims=True)
    return K / jnp.where(total == 0, 1, total)


def error(phi: Callable, q, k):
    """How far phi(q)·phi(k) is from e^(q·k) for q[..., T, H] and k[..., S, H]: |c·phi·phi - e^z| / |e^z| of each row, [..., T].

    Sizes are roots of sums of squares over keys. A factor of a row does not change its weights, so c is the one that fits best.
    """
    exact, K = jnp.exp(q @ jnp.swapaxes(k, -1, -2)), phi(q) @ jnp.swapaxes(phi(k), -1, -2)
    size = jnp.square(K).sum(-1, keepdims=True)
    c = (K * exact).sum(-1, keepdims=True) / jnp.where(size == 0, 1, size)
    return jnp.sqrt(jnp.square(c * K - exact).sum(-1) / jnp.square(exact).sum(-1))


def entropy(P):
    """Nats of each row, -sum p log p, [..., T]: 0 for a single key, log S for all alike."""
    return -jax.scipy.special.xlogy(P, P).sum(-1)


def cross_entropy(P, W):
    """-sum over keys of P log W for each row, [..., T]: what is made small; its least is P's own entropy."""
    return -jnp.where(P > 0, P * jnp.log(jnp.where(P > 0, W, 1)), 0).sum(-1)


def kl(P, W):
    """`cross_entropy` above its least: 0 where W = P."""
    return cross_entropy(P, W) - entropy(P)


def order(phi: Callable, q, k):
    """The share of pairs of keys, all queries, of which the one with the larger q·k has the larger weight: 1 for softmax."""
    z, K = q @ jnp.swapaxes(k, -1, -2), phi(q) @ jnp.swapaxes(phi(k), -1, -2)
    apart = lambda x: x[..., :, None] - x[..., None, :]  # noqa: E731
    larger = apart(z) > 0
    return (larger & (apart(K) > 0)).sum() / larger.sum()


# Training.


def start(key, H: int, half: int):
    """W[H, half] near the identity (wide: near it again and again), so that the first features are e^x and e^-x."""
    return jnp.tile(jnp.eye(H), -(-half // H))[:, :half] + 0.1 * jax.random.normal(key, (H, half))


def loss(W, q, k, causal: bool = True, softmax: bool = False):
    """Mean cross-entropy of Hedgehog's rows against softmax's, for q[..., T, H] and k[..., S, H]."""
    P = softmax_weights(q, k, causal)
    return cross_entropy(P, weights(partial(hedgehog, W, softmax=softmax), q, k, causal)).mean()


ADAM = Adam(rate=0.03)


def trained(W, q, k, steps: int = 300, adam: Adam = ADAM, causal: bool = True, softmax: bool = False):
    """(W after so many steps of Adam on `loss`, the loss before each of them, [steps]), in one program."""
    return _trained(W, q, k, steps, adam, causal, softmax)


@partial(jax.jit, static_argnums=(3, 4, 5, 6))
def _trained(W, q, k, steps, adam, causal, softmax):
    def one(carry, _):
        W, moments = carry
        said, gradient = jax.value_and_grad(loss)(W, q, k, causal, softmax)
        return adam.update(W, gradient, moments), said

    (W, _), losses = lax.scan(one, (W, adam.start(W)), None, length=steps)
    return W, losses


def _seen(scores, causal: bool):
    T, S = scores.shape[-2:]
    return jnp.arange(S) <= jnp.arange(T)[:, None] + (S - T if causal else S)
