"""The backward pass by hand: of a product, of each part of a layer, of a whole layer (chapter 3).

A function f(x) -> y has its backward pass f_backward(dy, what it needs again) -> dx: from the gradient of the loss by y to that
by x. Each product of the forward pass becomes two: one for each of its operands. That is where 6 FLOPs for each parameter
and token come from: 2 forward, 2 for the gradient of the weights, 2 for that of the activations.

The layer here is that of `decoder` with RMS norms, grouped query attention, rotations and a gated MLP.
"""

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config

from .decoder_layers import EPSILON, NEVER, rotate, visible


def matmul_backward(A, B, dC):
    """C = A[N, P] @ B[P, M]: (dA, dB) from dC[N, M], two products of 2NPM FLOPs.

    >>> A, B, dC = jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones((2, 4))
    >>> [d.shape for d in matmul_backward(A, B, dC)]
    [(2, 3), (3, 4)]
    """
    return dC @ B.T, A.T @ dC


def einsum_backward(equation: str, A, B, dC):
    """C = einsum(equation, A, B): the gradients by A and by B are einsums too, with the letters of C in the place of A's or B's.

    Every letter of an operand has to stand in the other one or in C, as in all products of a decoder.
    """
    operands, c = equation.split("->")
    a, b = operands.split(",")
    for letters, others in ((a, b + c), (b, a + c)):
        if lonely := set(letters) - set(others):
            raise ValueError(f"{''.join(sorted(lonely))} stands in one operand of {equation} only: sum over it first")
    return jnp.einsum(f"{c},{b}->{a}", dC, B), jnp.einsum(f"{c},{a}->{b}", dC, A)


def norm_forward(x, scale):
    """RMS norm, and what its backward pass needs."""
    r = lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + EPSILON)
    return x * r * scale, (x, r)


def norm_backward(dy, kept, scale):
    """(dx, dscale). The part of the gradient along x itself is taken out: a longer x is normalised away."""
    x, r = kept
    along = dy * scale
    dx = r * along - x * r**3 * jnp.mean(along * x, -1, keepdims=True)
    return dx, jnp.sum(dy * x * r, axis=tuple(range(dy.ndim - 1)))


def softmax_backward(dP, P):
    """d(scores) from dP and P = softmax(scores): P (dP - sum_j P dP)."""
    return P * (dP - jnp.sum(P * dP, -1, keepdims=True))


def silu_backward(dy, x):
    """dx of y = x · sigmoid(x)."""
    s = jax.nn.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


def attention_forward(q, k, v, mask):
    """q[B, T, K, G, H], k and v[B, S, K, H] -> o[B, T, K, G, H], and the softmax P[B, K, G, T, S]."""
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k) * q.shape[-1] ** -0.5
    P = jax.nn.softmax(jnp.where(mask, scores, NEVER), axis=-1)
    return jnp.einsum("bkgts,bskh->btkgh", P, v), P


def attention_backward(do, q, k, v, P):
    """(dq, dk, dv): four products for the two of the forward pass."""
    dP, dv = einsum_backward("bkgts,bskh->btkgh", P, v, do)
    dscores = softmax_backward(dP, P) * q.shape[-1] ** -0.5  # the scale is part of the gradient
    dq, dk = einsum_backward("btkgh,bskh->bkgts", q, k, dscores)
    return dq, dk, dv


def unrotate(dy, at):
    """The gradient of `rotate`: turned back, for a rotation's transpose is its inverse."""
    return rotate(dy, -at)


HEADS = {"W_Q": "btd,dnh->btnh", "W_K": "btd,dnh->btnh", "W_V": "btd,dnh->btnh"}
OUT, INTO, BACK = "btnh,nhd->btd", "btd,df->btf", "btf,fd->btd"


def fits(c: Config) -> None:
    """ValueError if the layer by hand cannot be this one."""
    c.check_usual("the layer by hand")
    if (c.gated, c.norm, c.norms, c.parallel, c.qk_norm, c.biases, c.positions) != (
        True,
        "rms",
        2,
        False,
        "",
        (),
        0,
    ) or (c.moe or c.mla or c.sinks):
        raise ValueError(
            "the layer by hand has two RMS norms, rotations and a gated MLP, no biases, sinks, experts or MLA"
        )


def layer_forward(p: dict, x, c: Config):
    """A layer on x[B, T, D]: (y[B, T, D], what the backward pass needs)."""
    fits(c)
    (B, T, _), at = x.shape, jnp.arange(x.shape[1])
    n1, kept1 = norm_forward(x, p["norms"][0, 0])
    q, k, v = (jnp.einsum(how, n1, p[w]) for w, how in HEADS.items())
    q, k = rotate(q, at).reshape(B, T, c.K, c.G, c.H), rotate(k, at)
    o, P = attention_forward(q, k, v, visible(at, at, c.window))
    o = o.reshape(B, T, c.N, c.H)
    x = x + jnp.einsum(OUT, o, p["W_O"])
    n2, kept2 = norm_forward(x, p["norms"][1, 0])
    g, h = jnp.einsum(INTO, n2, p["W_gate"]), jnp.einsum(INTO, n2, p["W_in"])
    y = x + jnp.einsum(BACK, jax.nn.silu(g) * h, p["W_out"])
    return y, (kept1, n1, q, k, v, P, o, kept2, n2, g, h)


def layer_backward(p: dict, dy, kept, c: Config):
    """(gradients of the parameters, dx) of `layer_forward`, from its last step to its first."""
    kept1, n1, q, k, v, P, o, kept2, n2, g, h = kept
    at, dp = jnp.arange(dy.shape[1]), {}
    # y = x + (silu(g) · h) @ W_out: the gradient goes both ways, past the MLP and through it
    dgh, dp["W_out"] = einsum_backward(BACK, jax.nn.silu(g) * h, p["W_out"], dy)
    dn_gate, dp["W_gate"] = einsum_backward(INTO, n2, p["W_gate"], silu_backward(dgh * h, g))
    dn_in, dp["W_in"] = einsum_backward(INTO, n2, p["W_in"], dgh * jax.nn.silu(g))
    dx, dscale2 = norm_backward(dn_gate + dn_in, kept2, p["norms"][1, 0])
    dx = dx + dy
    # x = x + o @ W_O
    do, dp["W_O"] = einsum_backward(OUT, o, p["W_O"], dx)
    dq, dk, dv = attention_backward(do.reshape(q.shape), q, k, v, P)
    dq = unrotate(dq.reshape(o.shape), at)
    dn = 0
    for (w, how), d in zip(HEADS.items(), (dq, unrotate(dk, at), dv)):
        dpart, dp[w] = einsum_backward(how, n1, p[w], d)
        dn = dn + dpart
    dn, dscale1 = norm_backward(dn, kept1, p["norms"][0, 0])
    dp["norms"] = jnp.stack([dscale1, dscale2])[:, None]
    return dp, dx + dn
