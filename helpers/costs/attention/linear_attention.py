"""Attention without softmax: phi(q)·phi(k) in place of e^(q·k), so that sums over keys can be kept (chapter 6).

One head; a feature map makes F numbers of H. A query needs U = sum of phi(k) v^T, [F, H], and Z = sum of phi(k), [F], over
the keys that it sees: a state whose size does not know how long the sequence is.

Source: Katharopoulos et al., "Transformers are RNNs" (2020); Zhang et al., "The Hedgehog & the Porcupine" (2024).
"""

from typing import Literal

from helpers.arguments import formula
from helpers.numeric import minimum, plain

from .flops_and_bytes import Attention, Pass

FEATURES = {
    "elu": "ELU(x) + 1: as many as H",
    "relu": "max(x, 0): as many as H",
    "taylor": "1, x_i and x_i·x_j/sqrt(2): 1 + H + H², whose product is 1 + z + z²/2 with z = q·k",
    "hedgehog": "e^(xW) and e^(-xW), W learned and H by H: 2H",
}
FORMS = ("parallel", "chunked", "recurrent")
CHUNK = 64  # tokens: about H, from where on the recurrent part of the work is the larger one


@formula
def features(kind: Literal[*FEATURES], H):
    """Numbers that a feature map makes of H.

    >>> [features(kind, 16) for kind in FEATURES]
    [16, 16, 273, 32]
    """
    return {"taylor": 1 + H + H * H, "hedgehog": 2 * H}.get(kind, H)


@formula
def state_bytes(attn: Attention, F=None):
    """Bytes of U and Z of all KV heads and sequences, in s bytes a number. A group's query heads share them, as they share K and V.

    >>> state_bytes(Attention(1, 10**6, N=32, K=8)) / 2**20
    0.50390625
    """
    F = attn.H if F is None else F
    return attn.s * attn.B * attn.K * F * (attn.H + 1)


@formula
def linear_flops(T, H, F, form: Literal[*FORMS] = "chunked", C=CHUNK, causal=True):
    """FLOPs of products of one head, without the feature map, the sums of shares among them (a column of ones beside V).

    parallel   phi(Q) phi(K)^T, masked, times V: 2T²(F + H), and 2T² for the sums; quadratic still
    recurrent  U += phi(k) v^T, then phi(q) U, Z likewise: 4F(H + 1) for each token. Without a mask the same, each done once
    chunked    parallel inside a chunk of C, recurrent from chunk to chunk: 2C(F + H + 1) for each token besides

    >>> [linear_flops(4096, 64, 64, form) // 4096 for form in FORMS]
    [1056768, 33152, 16640]
    """
    whole = 2 * T * T * (F + H + 1)
    one = 4 * T * F * (H + 1)
    if form == "parallel":
        return whole
    if form == "recurrent" or not causal:
        return one
    return one + 2 * T * minimum(C, T) * (F + H + 1)


@formula
def linear(attn: Attention) -> Pass:
    """A forward pass in chunks of `CHUNK`, as many features as H, U and Z on the chip; with T = 1 a decode step from the state.

    A window or sinks have no meaning here: all keys up to a query's own are in the sums.

    >>> a = Attention(8192, N=32)
    >>> from .flops_and_bytes import flash
    >>> round(flash(a, 128).flops / linear(a).flops, 1)
    21.5
    """
    if attn.window is not None:
        raise ValueError("the sums of linear attention take in every key: leave the window out")
    heads, groups, state = attn.B * attn.N, attn.B * attn.K, state_bytes(attn)
    form = "recurrent" if plain(attn.T) and attn.T == 1 else "chunked"
    products = heads * linear_flops(attn.T, attn.H, attn.H, form, CHUNK, attn.causal)
    products = products - (heads - groups) * 2 * attn.T * attn.H * (attn.H + 1)  # a group's heads share their sums
    q, kv = heads * attn.T * attn.H, groups * attn.T * attn.H
    return Pass(products, 0.0, 1.0 * q, attn.x * (2 * q + 2 * kv) + 2.0 * state, state)
