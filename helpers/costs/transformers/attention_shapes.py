"""Matrices of a decoder's attention, kind by kind of layer, and what a pass reads and writes around them (chapter 3).

B sequences of T tokens, each of which sees S keys; other symbols as in `config`.
"""

from helpers.arguments import entries
from helpers.numeric import minimum

from .config import Config, LayerKind

USUAL = LayerKind()


def attention_matrices(c: Config, kind: LayerKind = USUAL) -> dict[str, tuple]:
    """Shapes of the matrices of attention in a layer of that kind.

    >>> from .public_models import model
    >>> attention_matrices(model("llama-3-8b"))
    {'q': (4096, 4096), 'k': (4096, 1024), 'v': (4096, 1024), 'o': (4096, 4096)}
    >>> attention_matrices(model("deepseek-v3"))["kv_up"]
    (512, 32768)
    """
    D, N, m = c.D, c.N, c.mla
    if kind.linear:
        return c.linear.matrices(D)
    if m is None:
        own = {} if kind.shares else {"k": (D, c.K * c.H), "v": (D, c.K * c.H)}
        gate = {"output_gate": (D, N * c.H)} if c.output_gate else {}
        return {"q": (D, N * c.H), **gate, **own, "o": (N * c.H, D)}
    q = {"q": (D, N * c.qk)} if m.q_rank is None else {"q_down": (D, m.q_rank), "q_up": (m.q_rank, N * c.qk)}
    index = c.indexer.matrices(D, m.q_rank) if c.indexer else {}
    return q | {
        "kv_down": (D, m.kv_rank + m.rope),
        "kv_up": (m.kv_rank, N * (m.nope + m.v)),
        "o": (N * m.v, D),
        **index,
    }


def weights(c: Config):
    """Of each kind of attention: numbers in one layer's matrices, and how many layers have them."""
    return [(sum(a * b for a, b in attention_matrices(c, kind).values()), n) for kind, n in c.mixers]


def traffic(c: Config, B, T, S, absorbed):
    """Of each kind of layer: how many, weights, numbers that its projections read and write, and queries and results."""
    m, tokens, out = c.mla, B * T, []
    for kind, n in c.mixers:
        size = attention_matrices(c, kind)
        numbers = sum(a * b for a, b in size.values())
        up = size.pop("kv_up") if m else ()
        sides, around = tokens * sum(a + b for a, b in size.values()), 2 * tokens * c.N * c.H
        if kind.linear:
            numbers = numbers + c.linear.channels * c.linear.kernel
            around = tokens * (c.linear.channels + c.linear.heads * c.linear.value)
        elif m and absorbed:  # queries go into the latent space, results come out of it
            sides = sides + tokens * c.N * (m.nope + 2 * m.kv_rank + m.v)
            around = tokens * c.N * (2 * m.kv_rank + m.rope)
        elif m:
            sides, around = sides + B * S * sum(up), tokens * c.N * (c.qk + m.v)
        if c.indexer:
            around = around + tokens * c.indexer.heads * c.indexer.width
        out.append((n, numbers, sides, around))
    return out


def keys_read(c: Config, B, T, S, absorbed):
    """Numbers of keys and values, or of latent vectors, that all layers read."""
    m, x = c.mla, c.indexer
    reach = lambda window: S if window is None else minimum(S, window + T - 1)  # noqa: E731
    seen = sum(n * reach(kind.window) for kind, n in c.groups if not kind.linear)
    if m is None:
        return 2 * B * seen * c.K * c.H
    if x:
        seen = c.L * minimum(S, T * x.top)
    each = m.kv_rank + m.rope if absorbed else c.N * (c.qk + m.v)
    return B * seen * each + (B * c.L * S * x.width if x else 0)


entries(__name__)
