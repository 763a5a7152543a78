"""Striped attention: a ring in which token i lies on device i mod N, so that a causal mask halves everybody's work (chapter 6).

With `ring_attention.blocks` a device's keys are, at each look after the first, all seen or all masked, and every hop waits for
a device that sees all C · C of them. With stripes the query t of a device and the key s that it holds are tokens t·N + own and
s·N + other: it sees the key if s < t, or if s = t and the other is no later than itself. So each look is a triangle,

    C(C + 1)/2 scores if other <= own, else C(C - 1)/2

on every device. Summed over the looks, the slowest device of a ring does (N - 1)C² + C(C + 1)/2, that of stripes N·C(C + 1)/2: for
large C a ratio of 2 - 1/N. Only a program that leaves masked tiles out is faster for it: give the ring a `tile`.

Positions (rotations, masks) must go with the tokens: permute the text before the first layer, and the positions with it.

Source: Brandon et al., "Striped Attention" (2023).
"""

from functools import partial

import jax.numpy as jnp

from .ring_attention import program, ring


def stripes(device, n: int, T: int):
    """Device 0 has tokens 0, N, 2N, …: `places` of the ring.

    >>> stripes(1, 4, 3).tolist()
    [1, 5, 9]
    """
    return device + n * jnp.arange(T)


def permuted(x, n: int, axis: int = 1):
    """Tokens along `axis` so that cutting it into n equal blocks gives each device its stripe.

    >>> permuted(jnp.arange(6), 2, axis=0).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return _transposed(x, n, axis, inner=n)


def unpermuted(x, n: int, axis: int = 1):
    """The inverse of `permuted`: tokens in the order of the text.

    >>> unpermuted(jnp.array([0, 2, 4, 1, 3, 5]), 2, axis=0).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return _transposed(x, n, axis, inner=x.shape[axis] // n)


def _transposed(x, n: int, axis: int, inner: int):
    T = x.shape[axis]
    if T % n:
        raise ValueError(
            f"{n} devices do not divide {T} tokens: add empty places behind the text, as `ring_attention.program` does"
        )
    cut = x.reshape(*x.shape[:axis], T // inner, inner, *x.shape[axis + 1 :])
    return jnp.swapaxes(cut, axis, axis + 1).reshape(x.shape)


striped = partial(ring, places=stripes)
"""`ring` of stripes: q[B, T_X, N, H] of tokens that `permuted` has laid out."""

striped_program = partial(program, places=stripes)
"""`ring_attention.program` with stripes: whole arrays in the order of the text, in and out."""
