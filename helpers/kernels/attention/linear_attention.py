"""Linear attention: a product of features in place of e^(q·k), so that the sums over keys do not depend on the query (chapter 6).

q[B, T, N, H], k and v[B, T, K, H] with N a multiple of K; phi maps [..., H] to features [..., F] (see `feature_maps`). With
weights phi(q_i)·phi(k_j), the result is

    O_i = phi(q_i)ᵀ U_i / phi(q_i)ᵀ Z_i,    U_i = sum over j <= i of phi(k_j) v_jᵀ  [F, H],    Z_i = sum of phi(k_j)  [F]

parallel   the T x T weights, masked: T²(F + H) products, and what the other forms must equal
chunked    weights within a chunk, U and Z for what stands before it: T·(C(F + H) + 2FH) products for chunks of C
recurrent  token by token: U_i = U_{i-1} + phi(k_i) v_iᵀ. For decoding: the state is F(H + 1) numbers a KV head at any length
unmasked   every query sees every key, so one U serves all: phi(Q)(phi(K)ᵀ V). With a causal mask this is right for the last
           row only (errata E004-18)

A query whose weights are all 0 (ReLU features may do that) gets 0.

Source: Katharopoulos et al., "Transformers are RNNs" (2020), whose causal form and gradient these are.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands

from .gqa_shapes import group


class State(NamedTuple):
    """What is kept of the tokens so far: U[B, K, F, H], Z[B, K, F], in float32."""

    U: jax.Array
    Z: jax.Array


def empty(B: int, K: int, F: int, H: int) -> State:
    """Before the first token.

    >>> sum(a.size for a in empty(1, 1, 8, 4))               # F(H + 1)
    40
    """
    return State(jnp.zeros((B, K, F, H)), jnp.zeros((B, K, F)))


def state_of(k, v, phi: Callable, lengths=None) -> State:
    """The state after keys k and values v[B, S, K, H] by one product, or after the first lengths[B] of each row."""
    _checked(k, k, v)
    lengths = operands.lengths(lengths, *k.shape[:2])
    there = None if lengths is None else jnp.arange(k.shape[1]) < lengths[:, None]
    k, v = operands.blank(k, there), operands.blank(v, there)
    f = operands.blank(phi(k.astype(jnp.float32)), there)  # features of 0 are not all 0
    return State(jnp.einsum("bskf,bskh->bkfh", f, v.astype(jnp.float32)), f.sum(1))


def parallel(q, k, v, phi: Callable, causal: bool = True):
    """Through the weights of all T queries with all S keys: [B, T, N, H]. With `causal`, the last query sees the last key."""
    a, b, c = _features(q, k, v, phi)
    weights = jnp.einsum("...tf,...sf->...ts", a, b)
    if causal:
        weights = jnp.where(_before(q.shape[1], k.shape[1]), weights, 0)
    return _tokens(_divided(jnp.einsum("...ts,...sh->...th", weights, c)), q)


def unmasked(q, k, v, phi: Callable):
    """The same as `parallel` without a mask, and nothing of size T x S: [B, T, N, H]."""
    a, b, c = _features(q, k, v, phi)
    return _tokens(_divided(jnp.einsum("...tf,...fh->...th", a, jnp.einsum("...sf,...sh->...fh", b, c))), q)


def chunked(q, k, v, phi: Callable, chunk: int = 64, state: State | None = None):
    """(causal attention [B, T, N, H], the state after it), `chunk` tokens at a time; chunk need not divide T.

    state  of what stands before these tokens, as from `state_of`, `recurrent` or an earlier call

    The backward pass keeps phi(q), phi(k) and v, and no states: see `causal_product`.
    """
    if chunk < 1:
        raise ValueError(f"a chunk has at least one token, not {chunk}")
    if q.shape[1] != k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} queries and {k.shape[1]} keys are not the same tokens: put earlier keys into `state`"
        )
    a, b, c = _features(q, k, v, phi)
    sums, after = causal_product(a, b, c, chunk), jnp.einsum("...sf,...sh->...fh", b, c)
    if state is not None:
        start = _joined(state)
        sums, after = sums + jnp.einsum("...tf,...fh->...th", a, start), start + after
    return _tokens(_divided(sums), q), _split(after)


def recurrent(q, k, v, phi: Callable, state: State | None = None):
    """The same token by token: (causal attention [B, T, N, H], the state after it)."""
    F = jax.eval_shape(phi, k).shape[-1]

    def one(state, token):
        out, state = step(*token, phi, state)
        return state, out

    _checked(q, k, v)
    tokens = [x.swapaxes(0, 1) for x in (q, k, v)]
    state, out = lax.scan(one, state or empty(q.shape[0], k.shape[2], F, v.shape[-1]), tokens)
    return out.swapaxes(0, 1), state


def step(q, k, v, phi: Callable, state: State):
    """One token: q[B, N, H], k and v[B, K, H] -> ([B, N, H], the state with that token in it)."""
    a, b, c = _features(q[:, None], k[:, None], v[:, None], phi)
    U = _joined(state) + jnp.einsum("...sf,...sh->...fh", b, c)
    return _tokens(_divided(jnp.einsum("...tf,...fh->...th", a, U)), q[:, None])[:, 0], _split(U)


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


def _forward(a, b, c, chunk):
    return _product(a, b, c, chunk), (a, b, c)


def _backward(chunk, kept, dy):
    a, b, c = kept
    back = lambda x: jnp.flip(x, -2)  # noqa: E731
    db = _product(back(c), back(dy), back(a), chunk)
    dc = _product(back(b), back(a), back(dy), chunk)
    return _product(dy, c, b, chunk), *(back(d.sum(-3, keepdims=True)) for d in (db, dc))  # a group's queries add up


causal_product.defvjp(_forward, _backward)


def _product(a, b, c, chunk: int):
    """`causal_product` for [..., T, F], [..., T, F], [..., T, H], of which any may be one for a whole group."""
    T, C = a.shape[-2], min(chunk, a.shape[-2])
    mask = jnp.tri(C, dtype=bool)
    cut = lambda x: jnp.moveaxis(_padded(x, C).reshape(*x.shape[:-2], -1, C, x.shape[-1]), -3, 0)  # noqa: E731

    def one(U, x):
        a, b, c = x
        weights = jnp.where(mask, jnp.einsum("...tf,...sf->...ts", a, b), 0)
        y = jnp.einsum("...ts,...sh->...th", weights, c) + jnp.einsum("...tf,...fh->...th", a, U)
        return U + jnp.einsum("...sf,...sh->...fh", b, c), y

    lead = jnp.broadcast_shapes(b.shape[:-2], c.shape[:-2])
    _, y = lax.scan(one, jnp.zeros((*lead, b.shape[-1], c.shape[-1])), (cut(a), cut(b), cut(c)))
    y = jnp.moveaxis(y, 0, -3)
    return y.reshape(*y.shape[:-3], -1, y.shape[-1])[..., :T, :]


def _padded(x, C: int):
    return jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, -x.shape[-2] % C), (0, 0)])


def _features(q, k, v, phi):
    """phi(q)[B, K, G, T, F], phi(k)[B, K, 1, S, F], and v with a 1 behind it [B, K, 1, S, H + 1], in float32: U and Z side by side."""
    _checked(q, k, v)
    B, T, N, H = q.shape
    K = k.shape[2]
    a, b = phi(q.astype(jnp.float32)), phi(k.astype(jnp.float32))
    a = a.reshape(B, T, K, N // K, -1).transpose(0, 2, 3, 1, 4)
    c = jnp.concatenate([v.astype(jnp.float32), jnp.ones((*v.shape[:-1], 1))], -1)
    return a, *(x.swapaxes(1, 2)[:, :, None] for x in (b, c))


def _divided(sums):
    """Numerator over denominator; 0 where no key had a weight."""
    Z = sums[..., -1:]
    return jnp.where(Z == 0, 0, sums[..., :-1] / jnp.where(Z == 0, 1, Z))


def _tokens(x, q):
    """[B, K, G, T, H] -> [B, T, N, H], in the type of q."""
    B, K, G, T, H = x.shape
    return x.transpose(0, 3, 1, 2, 4).reshape(B, T, K * G, H).astype(q.dtype)


def _joined(state: State):
    return jnp.concatenate([state.U, state.Z[..., None]], -1)[:, :, None]  # [B, K, 1, F, H + 1]


def _split(U) -> State:
    return State(U[:, :, 0, :, :-1], U[:, :, 0, :, -1])


def _before(T: int, S: int):
    return jnp.arange(S) <= jnp.arange(T)[:, None] + S - T


def _checked(q, k, v):
    if q.ndim != 4 or k.ndim != 4 or k.shape[:3] != v.shape[:3] or q.shape[::3] != k.shape[::3]:
        raise ValueError(f"q{[*q.shape]}, k{[*k.shape]}, v{[*v.shape]}: give q[B, T, N, H], k and v[B, S, K, H]")
    if not (q.shape[1] and k.shape[1]):
        raise ValueError("an empty sequence has nothing to attend to: give at least one token")
    group(q.shape[2], k.shape[2])
    operands.real(q=q, k=k, v=v)
