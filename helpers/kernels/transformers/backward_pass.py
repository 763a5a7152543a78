"""The backward pass of a training step: its products, and what it keeps of the forward pass (chapter 3).

Each product of the forward pass becomes two: one for each of its operands. That is where 6 FLOPs for each parameter and token come
from: 2 forward, 2 for the gradient of the weights, 2 for that of the activations.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from helpers.costs.transformers.config import Config

from . import decoder


def matmul_backward(A, B, dC):
    """C = A[N, P] @ B[P, M]: (dA, dB) from dC[N, M], two products of 2NPM FLOPs.

    >>> A, B, dC = jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones((2, 4))
    >>> [d.shape for d in matmul_backward(A, B, dC)]
    [(2, 3), (3, 4)]
    """
    return dC @ B.T, A.T @ dC


def softmax_backward(dP, P):
    """d(scores) from dP and P = softmax(scores): P (dP - sum_j P dP)."""
    return P * (dP - jnp.sum(P * dP, -1, keepdims=True))


# What a training step keeps from its forward pass, and what it computes again: checkpoint policies.
#
#     everything   nothing is wrapped: JAX keeps what each operation's rule asks for, often one array in several forms
#     matmuls      of each layer its input and the outputs of its products with weights; attention again
#     block        of each layer its input; all of the layer again
#     nothing      the arguments; the whole forward pass again, which then keeps everything
#
# Under "matmuls", what the backward pass does not need is not kept either: a layer's last product only adds to the
# next layer's input, which is kept.
#
# Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016); Austin et al. 2025, Section 4.


POLICIES = ("everything", "matmuls", "block", "nothing")

_PRODUCTS = ("W_Q", "W_K", "W_V", "W_O", "W_DQ", "W_UQ", "W_DKV", "W_KR", "W_UK", "W_UV", "W_R")
_MLP = ("W_in", "W_gate", "W_out")
NAMES = (*_PRODUCTS, *_MLP, *(f"{w} of {of}" for of in ("experts", "shared experts") for w in _MLP))
"""Names of the outputs that "matmuls" keeps: of all products with weights."""


def around(policy: str) -> Callable:
    """What a policy puts around a layer. (A layer in a `scan` is safe from the compiler undoing it: prevent_cse=False.)"""
    if policy not in POLICIES:
        raise ValueError(f"{policy!r} is no policy: there are {', '.join(POLICIES)}")
    if policy == "matmuls":
        keep = jax.checkpoint_policies.save_only_these_names(*NAMES)
        return partial(jax.checkpoint, policy=keep, prevent_cse=False)
    if policy == "block":
        return partial(jax.checkpoint, prevent_cse=False)
    return lambda layer: layer


def loss(params: dict, tokens, c: Config, policy: str = "everything"):
    """`decoder.loss` under a policy: the same value and the same gradient."""
    return _whole(partial(decoder.loss, c=c, wrap_layer=around(policy)), policy)(params, tokens)


def layers(stacks: list[dict], x, c: Config, policy: str = "everything"):
    """`decoder.layers` under a policy: x[B, T, D] through all layers, without embedding and unembedding."""
    return _whole(partial(decoder.layers, c=c, wrap_layer=around(policy)), policy)(stacks, x)


def _whole(f: Callable, policy: str) -> Callable:
    return jax.checkpoint(f) if policy == "nothing" else f
