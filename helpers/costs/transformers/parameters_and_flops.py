"""Parameters, FLOPs, bytes and KV cache of a decoder, from its `Config` (chapter 3).

B sequences of T tokens, each of which sees S keys; other symbols as in `config`.
A multiply-add is 2 FLOPs. Norms, softmax, rotations, masks, biases and activation functions are left out of FLOPs:
they grow with B·T·D, B·T·F or B·T·S·N, without a second factor of D, F or H.
Layers of one kind are counted together, so a model of 126 layers costs no more than one of two.

Source: Austin et al. 2025, Section 4; errors of its text are listed in the course's errata.
"""

from collections import Counter

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.roofline import Work
from helpers.numeric import beside, ceil, minimum, plain, where

from .config import NORMS, Config
from .layer_products import all_scores, keys_read, model_matrices

PAIRS = {
    "all": "every query times every key, as a plain einsum computes them, masked or not",
    "causal": "the pairs that the causal mask and the windows leave, exactly",
    "half": "half of every query times every key: a common approximation of the causal mask, windows ignored",
}


@record
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


def _inside(c: Config) -> Counter:
    """Parameters of mixers that are no matrices, by role."""
    out = Counter()
    for kind, layers in c.mixers:
        for role, n in c.mixer(kind).held(c.D, NORMS[c.norm], c.biases).items():
            out[role] = out[role] + layers * n
    return out


def _biases(c: Config):
    """Parameters of biases of feed-forwards and unembedding, and those of experts that a token does not go to."""
    moe, L_moe = c.moe, sum(n for kind, n in c.groups if kind.moe)
    one = lambda F: (c.matrices - 1) * F + c.D  # noqa: E731
    n, inactive = ("unembed" in c.biases) * c.V, 0
    if "mlp" in c.biases:
        n = n + sum(layers * one(c.width(kind)) for kind, layers in c.groups if not (kind.moe or kind.F == 0))
        n = n + (L_moe * moe.E * one(moe.F) if moe else 0)
        inactive = L_moe * (moe.E - moe.k) * one(moe.F) if moe else 0
    if moe and "router" in c.biases:
        n = n + L_moe * moe.E
    return n, inactive


@formula
def parameters(c: Config) -> Parameters:
    """Parameters by role, exact to the last one.

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
    by_role, met = _inside(c), 0
    biases, inactive = _biases(c)
    for x in model_matrices(c):
        by_role[x.role], met, inactive = by_role[x.role] + x.weights, met + x.met, inactive + x.weights - x.met
    # What is of width D, and what lies beside mixers and feed-forwards.
    norms = sum(kind.parts * c.norms // 2 for kind in c.layers) if c.layers else c.L * c.norms
    tables, added, scales = 0, c.L * c.beside[0] + c.beside[1], 0
    if more := c.gemma3n:
        tables, added, scales = more.table(c.L), added + more.weights(c.D, c.L), more.scales(c.D, c.L)
    unembedding, projections = by_role.pop("unembedding"), by_role.pop("projections", 0)
    return Parameters(
        **dict(by_role)
        | {
            "embedding": c.V * c.D + tables,
            "positions": c.positions * c.D,
            "attention": projections + by_role["attention"],
            "norms": (norms + c.final_norm + c.embed_norm) * NORMS[c.norm] * c.D + scales + by_role["norms"],
            "biases": biases + by_role["biases"],
            "added": added,
            "unembedding": 0 if c.tied else unembedding,
            "inactive": inactive,
            "matmul": met + _added(c),
        }
    )


def _added(c: Config):
    """Weights that a token is multiplied with beside mixers and feed-forwards."""
    return (c.gemma3n.products(c.D, c.L) if c.gemma3n else 0) + c.L * c.beside[0]


def _states(c: Config) -> list[tuple]:
    """Mixers that keep a state, and how many layers have each."""
    return [(c.mixer(kind), n) for kind, n in c.mixers if kind.linear]


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


@record
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

    >>> f = flops(model("llama-3-8b"), B=1, T=8192)
    >>> f"{f.forward:.4g} {f.attention / f.layers:.2f}"
    '1.581e+14 0.24'
    >>> flops(Config(64, 2, 4, 4, 16, 256, 100, norm="none"), B=3, T=10).by_role["mlp"] == 2 * 6 * 3 * 10 * 64 * 256
    True
    """
    S = T if S is None else S
    attention = T * beside(sum(n * m.adds * m.state for m, n in _states(c)), T)
    for x, n in all_scores(c, absorbed):
        seen = pairs(T, S, x.most, count)
        attention = attention + n * (seen if x.every == 1 else seen / x.every) * x.heads * (x.query + x.result)
    rows = {"tokens": B * T, "keys": B * S, "last": B * (T if logits is None else logits)}
    roles = Counter({"added": 2 * B * T * _added(c), "attention": 2 * B * beside(attention, B)})
    for m in model_matrices(c, absorbed):
        padded = m.role == "experts" and slots is not None
        multiplied = slots * c.matrices if padded else rows[m.reads] * m.used
        roles[m.role] = roles[m.role] + 2 * multiplied * m.k * m.n * m.layers
    return Flops(**roles, convention=f"matrix products, 2 FLOPs a multiply-add; {PAIRS[count]}")


@formula
def works(
    c: Config, B, T, S=None, w=2, x=2, count="all", dtype="bf16", cache_bytes=None, logits=None, absorbed=False
) -> dict[str, Work]:
    """The forward pass as roofline's `Work`, by role, with w bytes for each weight and x for each activation.

    cache_bytes       bytes of a cached number, its scales included; None: x
    logits, absorbed  as in `flops`

    Every weight crosses HBM once, experts too if tokens go to all of them; a product reads its rows and writes its results.
    Attention keeps its T·S weights on the chip and reads queries, keys and values once, each query head's group together.
    Two products that share their rows read them twice: a compiler may do better. Latent attention reads its short
    vectors if absorbed, and otherwise the keys and values that kv_up has made of them; behind an indexer those that it chose,
    no token's twice, and all of the indexer's keys. Linear attention reads its state, in float32, and writes it.

    >>> from helpers.costs.rooflines.roofline import on_chip
    >>> step = works(model("llama-2-13b"), B=16, T=1, S=8192)
    >>> on_chip(step["attention"], chip("v5e")).bound, round(step["attention"].intensity, 2)
    ('hbm', 1.0)
    """
    S, tokens, moe = T if S is None else S, B * T, c.moe
    f = flops(c, B, T, S, count, logits, absorbed=absorbed)
    around = sum(n * s.heads * (s.query + s.result) for s, n in all_scores(c, absorbed))
    moved = (x if cache_bytes is None else cache_bytes) * keys_read(c, B, T, S, absorbed)
    for m, n in _states(c):
        around = around + n * (m.channels + m.heads * m.value)
        moved = moved + 2 * B * n * (4 * m.state + x * m.inputs)
    convolution = _inside(c)["attention"]
    n_bytes = {"projections": beside(w * convolution, tokens), "attention": moved + x * tokens * around}
    rows = {"tokens": tokens, "keys": B * S, "last": B * (T if logits is None else logits)}
    for m in model_matrices(c, absorbed):
        read = m.copies
        if m.role == "experts":
            read = c.matrices * where(moe.k == 0, moe.E, minimum(moe.E, tokens * moe.k))
        sides = x * rows[m.reads] * m.used * (m.k + m.n)
        n_bytes[m.role] = n_bytes.get(m.role, 0) + m.layers * (beside(w * (read * (m.k * m.n)), sides) + sides)
    if c.beside[0]:
        n_bytes["added"] = beside(w * c.L * c.beside[0], tokens)
    if c.gemma3n:
        weights, sides = c.gemma3n.weights(c.D, c.L), c.gemma3n.sides(c.D, c.L)
        n_bytes["added"] = beside(w * weights, tokens) + x * tokens * sides
    works = {role: Work(f.by_role[role], n, dtype=dtype) for role, n in n_bytes.items()}
    return {role: work for role, work in works.items() if not isinstance(work.flops, int) or work.flops}


@formula
def kv_cache(c: Config, S, B=1, bytes_each=2, share=1, sink_tokens=0, scale=0, state_bytes=4):
    """Bytes of the KV cache of B sequences of S tokens.

    A full layer keeps 2·K·H numbers for each token, a local layer for the last `window` tokens only,
    and latent attention keeps kv_rank + rope, whatever N is. For a local layer that is the least: an engine whose pages
    hold the same tokens of all layers reserves S there, too, the cache of the same model without windows.
    An indexer keeps one key of its width for each token more, layers that read another one's cache keep nothing, and linear
    attention keeps its state and the inputs of its convolution, however long the sequence is.

    bytes_each   of a number: 2 for bf16, 1 for int8 and fp8, 0.5 for int4
    share        layers of one kind that keep one cache together. A step reads it once for each of them all the same,
                 so share=1 gives the bytes that are read
    sink_tokens  tokens at the start that local layers keep beside their window (attention sinks)
    scale        bytes of the scales of one vector: a token's key, value, or latent vector in one KV head; 0: not quantised
    state_bytes  bytes of a number in a state of linear attention, which is summed up in float32; its inputs have `bytes_each`

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
    if plain(share, sink_tokens, scale) and (share < 1 or sink_tokens < 0 or scale < 0):
        raise ValueError(
            f"share is 1 or more, sink_tokens and scale are 0 or more, got share={share}, {sink_tokens=}, {scale=}"
        )
    return B * sum(n_bytes for _, n_bytes in caches(c, S, bytes_each, share, sink_tokens, scale, state_bytes))


@formula
def caches(c: Config, S, bytes_each=2, share=1, sink_tokens=0, scale=0, state_bytes=4) -> list[tuple]:
    """`kv_cache` of one sequence in its parts: (heads over which tp cuts it, None if it does not; bytes in all layers)."""
    out = []
    for kind, n in c.groups:
        mixer = c.mixer(kind)
        if kind.linear:
            out.append((mixer.heads, n * (mixer.state * state_bytes + mixer.inputs * bytes_each)))
            continue
        for x in mixer.scores(kind.window):
            if x.own:
                held = S if x.window is None else minimum(S, x.window + sink_tokens)
                held = held if x.every == 1 else held / x.every
                out.append((x.K, ceil(n / share) * held * (x.cached * bytes_each + x.vectors * scale)))
    return out
