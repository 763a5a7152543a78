"""Attention without softmax: phi(q)·phi(k) in place of e^(q·k), so that sums over keys can be kept (chapter 6).

One head; a feature map makes F numbers of H. A query needs U = sum of phi(k) v^T, [F, H], and Z = sum of phi(k), [F], over
the keys that it sees: a state whose size does not know how long the sequence is.

Source: Katharopoulos et al., "Transformers are RNNs" (2020); Zhang et al., "The Hedgehog & the Porcupine" (2024).
"""

from helpers.arguments import formula
from helpers.numeric import ceil, maximum, minimum, plain

from .flops_and_bytes import Attention, Pass

FEATURES = {
    "elu": "ELU(x) + 1: as many as H",
    "relu": "max(x, 0): as many as H",
    "taylor": "1, x_i and x_i·x_j/sqrt(2): 1 + H + H², whose product is 1 + z + z²/2 with z = q·k",
    "hedgehog": "e^(xW) and e^(-xW), W learned and H by H: 2H",
}
FORMS = ("parallel", "chunked", "recurrent")


@formula
def features(kind: str, H):
    """Numbers that a feature map makes of H.

    >>> [features(kind, 16) for kind in FEATURES]
    [16, 16, 273, 32]
    """
    if kind not in FEATURES:
        raise ValueError(f"a feature map is one of {', '.join(FEATURES)}, not {kind!r}")
    return {"taylor": 1 + H + H * H, "hedgehog": 2 * H}.get(kind, H)


@formula
def state_bytes(a: Attention, F=None):
    """Bytes of U and Z of all KV heads and sequences, in s bytes a number. A group's query heads share them, as they share K and V.

    >>> state_bytes(Attention(1, 10**6, N=32, K=8)) / 2**20
    0.50390625
    """
    F = a.H if F is None else F
    return a.s * a.B * a.K * F * (a.H + 1)


@formula
def cache_crossover(H, F, x=2, s=4):
    """Keys beyond which a state is smaller than the cache of K and V; with so many both are equal: s·F(H + 1) / (2x·H).

    >>> cache_crossover(128, 128), round(cache_crossover(128, features("taylor", 128)))
    (129.0, 16642)
    """
    return s * F * (H + 1) / (2 * x * H)


@formula
def linear_flops(T, H, F, form="chunked", C=64, causal=True):
    """FLOPs of products of one head, without the feature map, the sums of shares among them (a column of ones beside V).

    parallel   phi(Q) phi(K)^T, masked, times V: 2T²(F + H), and 2T² for the sums; quadratic still
    recurrent  U += phi(k) v^T, then phi(q) U, Z likewise: 4F(H + 1) for each token. Without a mask the same, each done once
    chunked    parallel inside a chunk of C, recurrent from chunk to chunk: 2C(F + H + 1) for each token besides

    >>> [linear_flops(4096, 64, 64, form) // 4096 for form in FORMS]
    [1056768, 33152, 16640]
    """
    if form not in FORMS:
        raise ValueError(f"linear attention is computed {', '.join(FORMS)}, not {form!r}")
    whole = 2 * T * T * (F + H + 1)
    one = 4 * T * F * (H + 1)
    if form == "parallel":
        return whole
    if form == "recurrent" or not causal:
        return one
    return one + 2 * T * minimum(C, T) * (F + H + 1)


@formula
def linear(a: Attention, F=None, C=64, held=True, backward=False, states=False) -> Pass:
    """A causal forward pass in chunks of C; with T = 1 a decode step from the state.

    held      whether U and Z stay on the chip from chunk to chunk; else each chunk reads and writes them
    backward  three products of the same kind, dQ from the beginning, dK and dV from the end: 3 times the FLOPs
    states    backward: whether the forward pass left U and Z of every chunk (`kept` of it does not count them): 2 times, and
              the weights inside the chunks, 2C·F for each token, once more

    A window or sinks have no meaning here: all keys up to a query's own are in the sums.

    >>> a = Attention(8192, N=32)
    >>> from .flops_and_bytes import flash
    >>> round(flash(a, 128).flops / linear(a).flops, 1)
    21.5
    """
    F = a.H if F is None else F
    if a.window is not None:
        raise ValueError("the sums of linear attention take in every key: leave the window out")
    heads, state, chunks = a.B * a.N, state_bytes(a, F), ceil(a.T / C)
    q, kv = heads * a.T * a.H, a.B * a.K * a.T * a.H
    step = plain(a.T) and a.T == 1
    products = heads * linear_flops(a.T, a.H, F, "recurrent" if step else "chunked", C, a.causal)
    products = products - (heads - a.B * a.K) * 2 * a.T * F * (a.H + 1)  # a group's heads share their sums
    if backward:  # Q, dO and dQ, and the result for its division; K, V, dK and dV; a state that goes each way
        moved = a.x * (4 * q + 4 * kv) + (state * chunks if states else 2.0 * state * (1 if held else 3 * chunks))
        again = heads * 2 * a.T * minimum(C, a.T) * F if states and a.causal and not step else 0
        return Pass((2 if states else 3) * products + again, 0.0, 2.0 * q, moved, 2.0 * state)
    return Pass(products, 0.0, 1.0 * q, a.x * (2 * q + 2 * kv) + 2.0 * state * (1 if held else chunks), state)


@formula
def softmax_crossover(H, F, C=64, causal=True):
    """Tokens from which the chunked form has fewer FLOPs than softmax attention, which computes 4H for each pair.

    Against exact causal pairs, T(T + 1)/2, or with `causal` False against T² and the unmasked form, which needs no chunks.

    >>> softmax_crossover(128, 128, causal=False), softmax_crossover(128, 128)
    (129.0, 385.5)
    >>> round(softmax_crossover(128, features("taylor", 128)))
    41604
    """
    one = 4 * F * (H + 1)
    if not causal:
        return one / (4 * H)
    return maximum((one + 2 * C * (F + H + 1)) / (2 * H) - 1, 1.0)
