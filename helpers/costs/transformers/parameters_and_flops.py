"""Parameters, FLOPs, bytes and KV cache of a decoder, from its `Config` (chapter 3).

B sequences of T tokens, each of which sees S keys; other symbols as in `config`.
A multiply-add is 2 FLOPs. Norms, softmax, rotations, masks, biases and activation functions are left out of FLOPs:
they grow with B·T·D, B·T·F or B·T·S·N, without a second factor of D, F or H.
Layers of one kind are counted together, so a model of 126 layers costs no more than one of two.

Source: Austin et al. 2025, Section 4; errors of its text are listed in the course's errata.
"""

from dataclasses import dataclass

from helpers.arguments import Count, formula
from helpers.costs.rooflines.roofline import Work
from helpers.numeric import beside, ceil, minimum, plain, where

from .config import NORMS, Config, LayerKind
from .layer_products import attention_widths, keys_read, model_matrices

PAIRS = {
    "all": "every query times every key, as a plain einsum computes them, masked or not",
    "causal": "the pairs that the causal mask and the windows leave, exactly",
    "half": "half of every query times every key: a common approximation of the causal mask, windows ignored",
}


@formula
@dataclass(frozen=True)
class Parameters:
    """Parameters by role. A matrix shared by embedding and unembedding counts as embedding.

    attention matrices of attention and of linear attention, its convolution and those of an indexer too
    added     AltUp, LAuReL and per-layer embeddings of Gemma 3n; the table of the latter is in `embedding`
    inactive  of experts that a token does not go to, their biases included
    matmul    weights that a token is multiplied with: twice as many FLOPs. Experts count k times; a tied unembedding
              counts here although `unembedding` is 0, and the embedding, a lookup, does not
    """

    embedding: float = 0
    positions: float = 0
    attention: float = 0
    mlp: float = 0
    experts: float = 0
    shared: float = 0
    router: float = 0
    norms: float = 0
    biases: float = 0
    sinks: float = 0
    added: float = 0
    unembedding: float = 0
    inactive: float = 0
    matmul: float = 0

    @property
    def by_role(self) -> dict[str, float]:
        """The roles that add up to the total."""
        return {role: n for role, n in vars(self).items() if role not in ("inactive", "matmul")}

    @property
    def total(self):
        """All parameters."""
        return sum(self.by_role.values())

    @property
    def active(self):
        """Parameters that one token meets: all but the experts it does not go to; the tables count in full."""
        return self.total - self.inactive


def _norms(c: Config):
    """Parameters of all norms."""
    width, added = NORMS[c.norm] * c.D, c.gemma3n.scales(c.D, c.L) if c.gemma3n else 0
    inside = sum(n * _norms_inside(c, kind) for kind, n in c.mixers)
    return c.L * c.norms * width + inside + (c.final_norm + c.embed_norm) * width + added


def _norms_inside(c: Config, kind: LayerKind):
    """Parameters of the norms inside one layer's attention; an indexer's norm has a shift, whatever the others have."""
    if kind.linear:
        return NORMS[c.norm] * c.linear.value
    if c.mla:
        index = 2 * c.indexer.width if c.indexer else 0
        return NORMS[c.norm] * ((c.mla.q_rank or 0) + c.mla.kv_rank) + index
    keys = 0 if kind.shares else 1
    return NORMS[c.norm] * {"": 0, "head": (1 + keys) * c.H, "full": (c.N + keys * c.K) * c.H}[c.qk_norm]


def _biases(c: Config):
    """Parameters of all biases, and those of experts that a token does not go to."""
    moe, L_moe = c.moe, sum(n for kind, n in c.groups if kind.moe)
    one = lambda F: (c.matrices - 1) * F + c.D  # noqa: E731
    n = ("unembed" in c.biases) * c.V
    for kind, L in c.mixers:
        if kind.linear:  # of the two numbers that decide what to write and to forget
            n = n + L * 2 * c.linear.heads
        else:
            heads = c.N if kind.shares else c.N + 2 * c.K
            n = n + L * ("qkv" in c.biases) * heads * c.H + L * ("o" in c.biases) * c.D
    inactive = 0
    if "mlp" in c.biases:
        n = n + (c.L - L_moe) * one(c.F) + (L_moe * moe.E * one(moe.F) if moe else 0)
        inactive = L_moe * (moe.E - moe.k) * one(moe.F) if moe else 0
    if moe and "router" in c.biases:
        n = n + L_moe * moe.E
    return n, inactive


@formula
def parameters(c: Config) -> Parameters:
    """Parameters by role, exact to the last one.

    >>> from .public_models import model
    >>> parameters(model("llama-2-13b")).total
    13015864320
    >>> p = parameters(Config(D=4096, L=64, N=32, K=32, H=128, F=4 * 4096, V=32000, norm="none"))
    >>> p.total, f"{p.attention / p.total:.1%}"                 # Austin et al. 2025, question 1
    (17442013184, '24.6%')
    >>> from .config import MoE
    >>> moe = Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none", moe=MoE(E=16, k=2, F=16384))
    >>> p = parameters(moe)
    >>> f"{(p.total - p.router) / 1e9:.1f} {(p.active - p.router) / 1e9:.2f}"
    '211.7 31.27'
    """
    held, met = dict.fromkeys(("projections", "mlp", "experts", "shared", "router", "unembedding"), 0), 0
    biases, inactive = _biases(c)
    for x in model_matrices(c):
        held[x.role], met, inactive = held[x.role] + x.weights, met + x.met, inactive + x.weights - x.met
    table, added = (c.gemma3n.table(c.L), c.gemma3n.weights(c.D, c.L)) if c.gemma3n else (0, 0)
    return Parameters(
        embedding=c.V * c.D + table,
        positions=c.positions * c.D,
        attention=held["projections"] + _convolution(c),
        mlp=held["mlp"],
        experts=held["experts"],
        shared=held["shared"],
        router=held["router"],
        norms=_norms(c),
        biases=biases,
        sinks=c.L * c.N * c.sinks,
        added=added,
        unembedding=0 if c.tied else held["unembedding"],
        inactive=inactive,
        matmul=met + (c.gemma3n.products(c.D, c.L) if c.gemma3n else 0),
    )


def _convolution(c: Config):
    """Weights of the convolutions of linear attention."""
    return sum(n * c.linear.channels * c.linear.kernel for kind, n in c.mixers if kind.linear)


@formula
def pairs(T, S=None, window: Count | None = None, count="causal"):
    """Pairs of query and key, for T queries that are the last of S tokens; see `PAIRS` for `count`.

    >>> pairs(4, count="all"), pairs(4), pairs(4, window=2), pairs(1, 100), pairs(1, 100, window=16)
    (16, 10, 7, 100, 16)
    """
    S = T if S is None else S
    if count not in PAIRS:
        raise ValueError(f"pairs are counted as {', '.join(map(repr, PAIRS))}, not {count!r}")
    if isinstance(S, int | float) and isinstance(T, int | float) and S < T:
        raise ValueError(f"the T={T} queries are among the keys, so S is at least T, not {S}")
    if count != "causal":
        return T * S if count == "all" else T * S / 2
    return _seen(S, window) - _seen(S - T, window)


def _seen(n, window):
    """Keys that the first n tokens see together: 1 + 2 + … + n, each at most `window`."""
    m = n if window is None else minimum(n, window)
    triangle = m * (m + 1) // 2 if isinstance(m, int) else m * (m + 1) / 2
    return triangle if window is None else triangle + (n - m) * window


@formula
@dataclass(frozen=True)
class Flops:
    """FLOPs of matrix products in the forward pass, by role.

    projections  the matrices of attention
    attention    queries times keys, and weights times values; of linear attention 3 multiply-adds for each number of the state
                 (what the state has for a key, what is written, what a query reads); an indexer's queries times keys
    added        of Gemma 3n
    convention   which pairs of query and key are counted
    """

    projections: float = 0
    attention: float = 0
    mlp: float = 0
    experts: float = 0
    shared: float = 0
    router: float = 0
    added: float = 0
    unembedding: float = 0
    convention: str = ""

    @property
    def by_role(self) -> dict[str, float]:
        """The roles that add up to `forward`."""
        return {role: n for role, n in vars(self).items() if role != "convention"}

    @property
    def forward(self):
        """All of them."""
        return sum(self.by_role.values())

    @property
    def backward(self):
        """Twice the forward pass: each product has two factors, and the gradient of either is one more product."""
        return 2 * self.forward

    @property
    def train(self):
        """Forward and backward, nothing computed twice."""
        return 3 * self.forward

    @property
    def layers(self):
        """Forward, without the unembedding."""
        return self.forward - self.unembedding


@formula
def flops(c: Config, B, T, S=None, count="all", logits=None, slots=None, absorbed=False) -> Flops:
    """FLOPs of matrix products in one forward pass over B sequences of T new tokens, the last of S.

    count     pairs of query and key: "all" (T·S, what a plain einsum computes), "causal" or "half"; see `PAIRS`
    logits    tokens of each sequence that are unembedded: T in training, 1 in a prefill
    slots     rows that the experts of one layer compute, all together: B·T·k, or E times their capacity if padded
    absorbed  latent attention in the latent space: keys and values are never made (for decoding)

    >>> from .public_models import model
    >>> f = flops(model("llama-3-8b"), B=1, T=8192)
    >>> f"{f.forward:.4g} {f.attention / f.layers:.2f}"
    '1.581e+14 0.24'
    >>> flops(Config(64, 2, 4, 4, 16, 256, 100, norm="none"), B=3, T=10).by_role["mlp"] == 2 * 6 * 3 * 10 * 64 * 256
    True
    """
    S = T if S is None else S
    widths, x = attention_widths(c, absorbed), c.indexer
    seen = sum(n * pairs(T, S, kind.window or (x.top if x else None), count) for kind, n in c.groups if not kind.linear)
    scored = c.L * pairs(T, S, None, count) * x.heads * x.width if x else 0
    states = sum(n * 3 * c.linear.state for kind, n in c.mixers if kind.linear)
    attention = seen * (c.N * (widths.query + widths.result)) + scored + T * beside(states, T)
    rows = {"tokens": B * T, "keys": B * S, "last": B * (T if logits is None else logits)}
    roles = dict.fromkeys(("projections", "experts", "shared", "router", "added"), 0 * c.D)
    roles["attention"] = 2 * B * beside(attention, B)
    for m in model_matrices(c, absorbed):
        padded = m.role == "experts" and slots is not None
        multiplied = slots * c.matrices if padded else rows[m.reads] * m.used
        roles[m.role] = roles.get(m.role, 0) + 2 * multiplied * m.k * m.n * m.layers
    if c.gemma3n:
        roles["added"] = 2 * B * T * c.gemma3n.products(c.D, c.L)
    return Flops(**roles, convention=f"matrix products, 2 FLOPs a multiply-add; {PAIRS[count]}")


@formula
def works(
    c: Config, B, T, S=None, w=2, x=2, count="all", dtype="bf16", cache=None, logits=None, absorbed=False
) -> dict[str, Work]:
    """The forward pass as roofline's `Work`, by role, with w bytes for each weight and x for each activation.

    cache     bytes of a cached number, its scales included; None: x
    logits, absorbed  as in `flops`

    Every weight crosses HBM once, experts too if tokens go to all of them; a product reads its rows and writes its results.
    Attention keeps its T·S weights on the chip and reads queries, keys and values once, each query head's group together.
    Two products that share their rows read them twice: a compiler may do better. Latent attention reads its short
    vectors if absorbed, and otherwise the keys and values that kv_up has made of them; behind an indexer those that it chose,
    no token's twice, and all of the indexer's keys. Linear attention reads its state, in float32, and writes it.

    >>> from .public_models import model
    >>> from helpers.costs.rooflines.roofline import on_chip
    >>> from helpers.costs.rooflines.chips import chip
    >>> step = works(model("llama-2-13b"), B=16, T=1, S=8192)
    >>> on_chip(step["attention"], chip("v5e")).bound, round(step["attention"].intensity, 2)
    ('hbm', 1.0)
    """
    S, tokens, moe, widths = T if S is None else S, B * T, c.moe, attention_widths(c, absorbed)
    f = flops(c, B, T, S, count, logits, absorbed=absorbed)
    around = sum(n * c.N * (widths.query + widths.result) for kind, n in c.mixers if not kind.linear)
    moved = (x if cache is None else cache) * keys_read(c, B, T, S, absorbed)
    if c.indexer:
        around = around + c.L * c.indexer.heads * c.indexer.width
    for kind, n in c.mixers:
        if kind.linear:
            around = around + n * (c.linear.channels + c.linear.heads * c.linear.value)
            moved = moved + 2 * B * n * (4 * c.linear.state + x * c.linear.inputs)
    n_bytes = {"projections": beside(w * _convolution(c), tokens), "attention": moved + x * tokens * around}
    rows = {"tokens": tokens, "keys": B * S, "last": B * (T if logits is None else logits)}
    for m in model_matrices(c, absorbed):
        read = m.copies
        if m.role == "experts":
            read = c.matrices * where(moe.k == 0, moe.E, minimum(moe.E, tokens * moe.k))
        sides = x * rows[m.reads] * m.used * (m.k + m.n)
        n_bytes[m.role] = n_bytes.get(m.role, 0) + m.layers * (beside(w * (read * (m.k * m.n)), sides) + sides)
    if c.gemma3n:
        weights, sides = c.gemma3n.weights(c.D, c.L), c.gemma3n.sides(c.D, c.L)
        n_bytes["added"] = beside(w * weights, tokens) + x * tokens * sides
    works = {role: Work(f.by_role[role], n, dtype=dtype) for role, n in n_bytes.items()}
    return {role: work for role, work in works.items() if not isinstance(work.flops, int) or work.flops}


@formula
def kv_cache(c: Config, S, B=1, bytes_each=2, share=1, keep=0, scale=0, state=4):
    """Bytes of the KV cache of B sequences of S tokens.

    A full layer keeps 2·K·H numbers for each token, a local layer for the last `window` tokens only,
    and latent attention keeps kv_rank + rope, whatever N is. For a local layer that is the least: an engine whose pages
    hold the same tokens of all layers reserves S there, too, the cache of the same model without windows.
    An indexer keeps one key of its width for each token more, layers that read another one's cache keep nothing, and linear
    attention keeps its state and the inputs of its convolution, however long the sequence is.

    bytes_each  of a number: 2 for bf16, 1 for int8 and fp8, 0.5 for int4
    share       layers of one kind that keep one cache together. A step reads it once for each of them all the same,
                so share=1 gives the bytes that are read
    keep        tokens at the start that local layers keep beside their window (attention sinks)
    scale       bytes of the scales of one vector: a token's key, value, or latent vector in one KV head; 0: not quantised
    state       bytes of a number in a state of linear attention, which is summed up in float32; its inputs have `bytes_each`

    >>> from .public_models import model
    >>> kv_cache(Config(8192, 64, 64, 64, 128, 4 * 8192, 32000), 8192, bytes_each=1) / 2**30     # in GiB
    8.0
    >>> kv_cache(model("llama-2-13b"), 8192)
    6710886400
    >>> kv_cache(model("deepseek-v3"), 1), kv_cache(model("llama-3-70b"), 1)
    (70272, 327680)
    >>> c = model("llama-3-8b")
    >>> kv_cache(c, 1), kv_cache(c, 1, share=2), kv_cache(c, 1, bytes_each=1), kv_cache(c, 1, bytes_each=1, scale=4)
    (131072, 65536, 65536, 67584)
    >>> paged = kv_cache(model("gpt-oss-20b", window=None, full_every=None), 131072)    # a window of 128 in every other layer
    >>> f"{paged / kv_cache(model('gpt-oss-20b'), 131072):.2f}"
    '2.00'
    """
    if plain(share, keep, scale) and (share < 1 or keep < 0 or scale < 0):
        raise ValueError(f"share is 1 or more, keep and scale are 0 or more, got share={share}, {keep=}, {scale=}")
    width, vectors = (c.mla.kv_rank + c.mla.rope, 1) if c.mla else (2 * c.K * c.H, 2 * c.K)
    if c.indexer:
        width, vectors = width + c.indexer.width, vectors + 1
    each = width * bytes_each + vectors * scale
    own = [(kind, n) for kind, n in c.groups if not (kind.linear or kind.shares)]
    held = sum(ceil(n / share) * (S if k.window is None else minimum(S, k.window + keep)) for k, n in own)
    if c.linear is None:
        return B * held * each
    one = c.linear.state * state + c.linear.inputs * bytes_each
    return B * (held * each + sum(n for kind, n in c.groups if kind.linear) * one)


@formula
def paged_tokens(S, page):
    """Tokens that a cache of S takes up in pages: whole ones, so less than a page is wasted, and not what is left of S_max.

    >>> paged_tokens(33, 16), paged_tokens(32, 16)
    (48, 32)
    """
    return page * ceil(S / page)
