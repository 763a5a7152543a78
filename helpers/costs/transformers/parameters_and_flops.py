"""Parameters, FLOPs, bytes and KV cache of a decoder, from its `Config` (chapter 3).

B sequences of T tokens, each of which sees S keys; other symbols as in `config`.
A multiply-add is 2 FLOPs. Norms, softmax, rotations, masks, biases and activation functions are left out of FLOPs:
they grow with B·T·D, B·T·F or B·T·S·N, without a second factor of D, F or H.
Layers of one kind are counted together, so a model of 126 layers costs no more than one of two.

Source: Austin et al. 2025, Section 4; errors of its text are listed in the course's errata.
"""

from dataclasses import dataclass

from helpers.arguments import Count, entries
from helpers.costs.rooflines.roofline import Work
from helpers.numeric import beside, minimum, where

from .attention_shapes import attention_matrices, keys_read, traffic, weights
from .config import NORMS, Config, LayerKind

PAIRS = {
    "all": "every query times every key, as a plain einsum computes them, masked or not",
    "causal": "the pairs that the causal mask and the windows leave, exactly",
    "half": "half of every query times every key: a common approximation of the causal mask, windows ignored",
}


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


def _expert_layers(c: Config):
    return sum(n for kind, n in c.groups if kind.moe)


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
    moe, L_moe = c.moe, _expert_layers(c)
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
    moe, L_moe = c.moe, _expert_layers(c)
    attention = sum(n * one for one, n in weights(c))
    convolution = sum(n * c.linear.channels * c.linear.kernel for kind, n in c.mixers if kind.linear)
    mlp = (c.L - L_moe) * c.matrices * c.D * c.F
    expert = c.matrices * c.D * moe.F if moe else 0
    E, k, shared = (moe.E, moe.k, moe.shared) if moe else (0, 0, 0)
    biases, idle = _biases(c)
    router = L_moe * c.D * (E + (moe.shared_gate if moe else 0))
    table, added, met = (0, 0, 0) if c.gemma3n is None else _added(c)
    return Parameters(
        embedding=c.V * c.D + table,
        positions=c.positions * c.D,
        attention=attention + convolution,
        mlp=mlp,
        experts=L_moe * E * expert,
        shared=L_moe * shared * expert,
        router=router,
        norms=_norms(c),
        biases=biases,
        sinks=c.L * c.N * c.sinks,
        added=added,
        unembedding=0 if c.tied else c.D * c.V,
        inactive=L_moe * (E - k) * expert + idle,
        matmul=attention + mlp + L_moe * (k + shared) * expert + router + c.D * c.V + met,
    )


def _added(c: Config):
    g = c.gemma3n
    return g.table(c.L), g.weights(c.D, c.L), g.products(c.D, c.L)


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
    tokens, moe, L_moe = B * T, c.moe, _expert_layers(c)
    expert = 2 * c.matrices * c.D * moe.F if moe else 0
    slots = tokens * (moe.k if moe else 0) if slots is None else slots
    width, projections = _attention_flops(c, B, T, S, absorbed)
    top = c.indexer.top if c.indexer else None
    seen = sum(n * pairs(T, S, kind.window or top, count) for kind, n in c.groups if not kind.linear)
    scored = c.L * pairs(T, S, None, count) * c.indexer.heads * c.indexer.width if c.indexer else 0
    states = sum(n * 3 * c.linear.state for kind, n in c.mixers if kind.linear)
    return Flops(
        projections=projections,
        attention=2 * B * beside(seen * width + scored + T * beside(states, T), B),
        mlp=(c.L - L_moe) * 2 * tokens * c.matrices * c.D * c.F,
        experts=L_moe * slots * expert,
        shared=L_moe * tokens * (moe.shared if moe else 0) * expert,
        router=L_moe * 2 * tokens * c.D * (moe.E + moe.shared_gate if moe else 0),
        added=2 * tokens * (c.gemma3n.products(c.D, c.L) if c.gemma3n else 0 * c.D),
        unembedding=2 * B * (T if logits is None else logits) * c.D * c.V,
        convention=f"matrix products, 2 FLOPs a multiply-add; {PAIRS[count]}",
    )


def _attention_flops(c: Config, B, T, S, absorbed):
    """Multiply-adds for each pair of query and key, and FLOPs of all layers' projections."""
    m = c.mla
    if m is None:
        return 2 * c.N * c.H, sum(n * (2 * B * T * one) for one, n in weights(c))
    size = {name: a * b for name, (a, b) in attention_matrices(c).items()}
    if absorbed:  # kv_up is split: its key half multiplies queries, its value half what attention gives
        return c.N * (2 * m.kv_rank + m.rope), c.L * (2 * B * T * sum(size.values()))
    every = size.pop("kv_up")
    return c.N * (c.qk + m.v), c.L * (2 * B * T * sum(size.values()) + 2 * B * S * every)


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
    S, tokens, moe, L_moe = T if S is None else S, B * T, c.moe, _expert_layers(c)
    f, last = flops(c, B, T, S, count, logits, absorbed=absorbed), T if logits is None else logits

    def product(rows, matrices, reads, n, flops):
        return Work(flops, n * (beside(w * matrices, rows) + x * rows * reads), dtype=dtype)

    mlp = lambda F: (c.matrices * c.D * F, c.matrices * (c.D + F))  # noqa: E731
    kinds = traffic(c, B, T, S, absorbed)
    moved = sum(n * x * around for n, _, _, around in kinds) + (x if cache is None else cache) * keys_read(
        c, B, T, S, absorbed
    )
    if c.linear:
        moved = moved + 2 * B * sum(n for kind, n in c.mixers if kind.linear) * (
            4 * c.linear.state + x * c.linear.inputs
        )
    out = {
        "projections": Work(
            f.projections,
            sum(n * (beside(w * numbers, sides) + x * sides) for n, numbers, sides, _ in kinds),
            dtype=dtype,
        ),
        "attention": Work(f.attention, moved, dtype=dtype),
        "mlp": product(tokens, *mlp(c.F), c.L - L_moe, f.mlp),
        "unembedding": product(B * last, c.D * c.V, c.D + c.V, 1, f.unembedding),
    }
    if moe:
        matrices, reads = mlp(moe.F)
        used = where(moe.k == 0, moe.E, minimum(moe.E, tokens * moe.k))
        out["experts"] = product(tokens * moe.k, used * matrices, reads, L_moe, f.experts)
        out["shared"] = product(tokens * moe.shared, moe.shared * matrices, reads, L_moe, f.shared)
        columns = moe.E + moe.shared_gate
        out["router"] = product(tokens, c.D * columns, c.D + columns, L_moe, f.router)
    if c.gemma3n:
        out["added"] = product(tokens, c.gemma3n.weights(c.D, c.L), c.gemma3n.sides(c.D, c.L), 1, f.added)
    return {role: work for role, work in out.items() if not isinstance(work.flops, int) or work.flops}


entries(__name__)
