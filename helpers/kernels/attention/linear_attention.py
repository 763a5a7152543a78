"""Linear attention: a product of features in place of e^(q·k), so that the sums over keys do not depend on the query (chapter 6).

q[B, T, N, H], k and v[B, T, K, H] with N a multiple of K; phi maps [..., H] to features [..., F]. With weights
phi(q_i)·phi(k_j), the result is

    O_i = phi(q_i)ᵀ U_i / phi(q_i)ᵀ Z_i,    U_i = sum over j <= i of phi(k_j) v_jᵀ  [F, H],    Z_i = sum of phi(k_j)  [F]

parallel   the T x T weights, masked: T²(F + H) products, and what the other forms must equal
chunked    weights within a chunk, U and Z for what stands before it: T·(C(F + H) + 2FH) products for chunks of C
recurrent  token by token: U_i = U_{i-1} + phi(k_i) v_iᵀ. For decoding: the state is F(H + 1) numbers a KV head at any length
unmasked   every query sees every key, so one U serves all: phi(Q)(phi(K)ᵀ V). With a causal mask this is right for the last
           row only (errata E004-18)

A query whose weights are all 0 (ReLU features may do that) gets 0. Feature maps stand below, with what they lose against
softmax, and Hedgehog, which is trained.

Source: Katharopoulos et al., "Transformers are RNNs" (2020), whose causal form and gradient these are, and elu; Zhang et al.,
"The Hedgehog & the Porcupine" (2024).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands
from helpers.kernels.transformers.adam import Adam

from . import masks


def empty(B: int, K: int, F: int, H: int):
    """The state before the first token, U and Z side by side: [B, K, F, H + 1] in float32.

    >>> empty(1, 1, 8, 4).size                               # F(H + 1)
    40
    """
    return jnp.zeros((B, K, F, H + 1))


def parallel(q, k, v, phi: Callable, causal: bool = True):
    """Through the weights of all T queries with all S keys: [B, T, N, H]. With `causal`, the last query sees the last key."""
    a, b, c = _features(q, k, v, phi)
    weights = jnp.einsum("...tf,...sf->...ts", a, b)
    weights = jnp.where(_seen(weights, causal), weights, 0)
    return _tokens(_divided(jnp.einsum("...ts,...sh->...th", weights, c)), q)


def unmasked(q, k, v, phi: Callable):
    """The same as `parallel` without a mask, and nothing of size T x S: [B, T, N, H]."""
    a, b, c = _features(q, k, v, phi)
    return _tokens(_divided(jnp.einsum("...tf,...fh->...th", a, jnp.einsum("...sf,...sh->...fh", b, c))), q)


def chunked(q, k, v, phi: Callable, chunk: int = 64, state=None):
    """(causal attention [B, T, N, H], the state after it), `chunk` tokens at a time; chunk need not divide T.

    state  of what stands before these tokens, as from `recurrent` or an earlier call

    The backward pass keeps phi(q), phi(k) and v, and no states: see `causal_product`.
    """
    operands.whole(chunk=chunk)
    operands.fit({"q[B, T, N, H]": q, "k[B, T, K, H]": k})  # earlier keys are in `state`
    a, b, c = _features(q, k, v, phi)
    sums, after = causal_product(a, b, c, chunk), jnp.einsum("...sf,...sh->...fh", b, c)
    if state is not None:
        start = state[:, :, None]  # [B, K, 1, F, H + 1]
        sums, after = sums + jnp.einsum("...tf,...fh->...th", a, start), start + after
    return _tokens(_divided(sums), q), after[:, :, 0]


def recurrent(q, k, v, phi: Callable, state=None):
    """The same token by token: (causal attention [B, T, N, H], the state after it)."""
    F = jax.eval_shape(phi, k).shape[-1]

    def one(state, token):
        out, state = step(*token, phi, state)
        return state, out

    masks.check(q, k, v)
    tokens = [x.swapaxes(0, 1) for x in (q, k, v)]
    start = empty(q.shape[0], k.shape[2], F, v.shape[-1]) if state is None else state
    state, out = lax.scan(one, start, tokens)
    return out.swapaxes(0, 1), state


def step(q, k, v, phi: Callable, state):
    """One token: q[B, N, H], k and v[B, K, H] -> ([B, N, H], the state with that token in it)."""
    a, b, c = _features(q[:, None], k[:, None], v[:, None], phi)
    U = state[:, :, None] + jnp.einsum("...sf,...sh->...fh", b, c)
    return _tokens(_divided(jnp.einsum("...tf,...fh->...th", a, U)), q[:, None])[:, 0], U[:, :, 0]


# What the causal forms are made of.


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def causal_product(a, b, c, chunk: int = 64):
    """y_i = sum over j <= i of (a_i · b_j) c_j, for a[..., G, T, F], b[..., 1, T, F], c[..., 1, T, H]: [..., G, T, H].

    Its gradients are the same product with the letters in other places, the last two from the other end:

        da_i = sum over j <= i of (dy_i · c_j) b_j
        db_j = sum over i >= j of (c_j · dy_i) a_i
        dc_j = sum over i >= j of (b_j · a_i) dy_i

    so the backward pass takes as much time and keeps no more than a, b and c.
    """
    return _product(a, b, c, chunk)


def _backward(chunk, residuals, dy):
    a, b, c = residuals
    back = lambda x: jnp.flip(x, -2)  # noqa: E731
    db = _product(back(c), back(dy), back(a), chunk)
    dc = _product(back(b), back(a), back(dy), chunk)
    return _product(dy, c, b, chunk), *(back(d.sum(-3, keepdims=True)) for d in (db, dc))  # a group's queries add up


causal_product.defvjp(lambda a, b, c, chunk: (_product(a, b, c, chunk), (a, b, c)), _backward)


def _product(a, b, c, chunk: int):
    """`causal_product` for [..., T, F], [..., T, F], [..., T, H], of which any may be one for a whole group."""
    T, C = a.shape[-2], min(chunk, a.shape[-2])
    mask = jnp.tri(C, dtype=bool)

    def one(U, x):
        a, b, c = x
        weights = jnp.where(mask, jnp.einsum("...tf,...sf->...ts", a, b), 0)
        y = jnp.einsum("...ts,...sh->...th", weights, c) + jnp.einsum("...tf,...fh->...th", a, U)
        return U + jnp.einsum("...sf,...sh->...fh", b, c), y

    lead = jnp.broadcast_shapes(b.shape[:-2], c.shape[:-2])
    _, y = lax.scan(one, jnp.zeros((*lead, b.shape[-1], c.shape[-1])), tuple(masks.cut(x, C) for x in (a, b, c)))
    return masks.joined(y, T)


def _features(q, k, v, phi):
    """phi(q)[B, K, G, T, F], phi(k)[B, K, 1, S, F], and v with a 1 behind it [B, K, 1, S, H + 1], in float32: U and Z side by side."""
    masks.check(q, k, v)
    a, b = phi(q.astype(jnp.float32)), phi(k.astype(jnp.float32))
    c = jnp.concatenate([v.astype(jnp.float32), jnp.ones((*v.shape[:-1], 1))], -1)
    return masks.queries(a, k.shape[2]), masks.keys(b), masks.keys(c)


def _divided(numerator_and_denominator):
    """Numerator over denominator; 0 where no key had a weight."""
    Z = numerator_and_denominator[..., -1:]
    return jnp.where(Z == 0, 0, numerator_and_denominator[..., :-1] / jnp.where(Z == 0, 1, Z))


def _tokens(x, q):
    """[B, K, G, T, H] -> [B, T, N, H], in the type of q."""
    return masks.tokens(x).astype(q.dtype)


# Feature maps phi, [..., H] -> [..., F], whose products stand for e^(q·k).
#
#     elu       ELU(x) + 1             F = H
#     relu      max(x, 0)              F = H; no gradient where x < 0, and a query may have no weight at all
#     taylor    1, x_i, x_i x_j / √2   F = 1 + H + H², and phi(q)·phi(k) = 1 + z + z²/2 for z = q·k. Without the √2 it is 1 + z + z²
#               (errata E004-6). It falls with z below z = -1, so it keeps the order of scores only where they stay above that
#     hedgehog  e^(xW) and e^(-xW), or the softmax of xW and that of -xW, with W[H, F/2] trained to give the softmax's weights
#
# Softmax weighs by e^(q·k/√H): give each of q and k the share H^(-1/4) of that. A map is judged by its weights, P[..., T, S]
# with rows that add up to 1: `error` of its products against e^z, `entropy` of the rows (softmax is spiky, most maps are not), `kl`
# to softmax's rows, and `order`, how often it gives the larger of two scores the larger weight.


def elu(x):
    """ELU(x) + 1: e^x below 0, x + 1 above.

    >>> elu(jnp.array([0.0, 2.0])).tolist()
    [1.0, 3.0]
    """
    return jax.nn.elu(x) + 1


relu = jax.nn.relu


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


def start(key, H: int, n_features: int):
    """W[H, n_features] near the identity (wide: near it again and again), so that the first features are e^x and e^-x."""
    return jnp.tile(jnp.eye(H), -(-n_features // H))[:, :n_features] + 0.1 * jax.random.normal(key, (H, n_features))


def loss(W, q, k, causal: bool = True, softmax: bool = False):
    """Mean cross-entropy of Hedgehog's rows against softmax's, for q[..., T, H] and k[..., S, H]."""
    P = softmax_weights(q, k, causal)
    return cross_entropy(P, weights(partial(hedgehog, W, softmax=softmax), q, k, causal)).mean()


ADAM = Adam(rate=0.03)


@partial(jax.jit, static_argnums=(3, 4, 5, 6))
def trained(W, q, k, steps: int = 300, adam: Adam = ADAM, causal: bool = True, softmax: bool = False):
    """(W after so many steps of Adam on `loss`, the loss before each of them, [steps]), in one program."""

    def one(carry, _):
        W, moments = carry
        said, gradient = jax.value_and_grad(loss)(W, q, k, causal, softmax)
        return adam.update(W, gradient, moments), said

    (W, _), losses = lax.scan(one, (W, adam.start(W)), None, length=steps)
    return W, losses


def _seen(scores, causal: bool):
    T, S = scores.shape[-2:]
    return jnp.arange(S) <= jnp.arange(T)[:, None] + (S - T if causal else S)
