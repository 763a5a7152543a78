"""Toy decoders of every family, those with unusual parts, and what a slow reading of a `Config` says about them: matrix by matrix."""

from math import prod

from helpers.costs.transformers.config import MLA, Config, MoE
from helpers.costs.transformers.mixers import Gemma3n, Indexer, Linear
from helpers.costs.transformers.public_models import model

PLAIN = Config(D=16, L=3, N=4, K=4, H=4, F=40, V=50)
TOY_MLA = MLA(q_rank=12, kv_rank=10, nope=6, rope=4, v=8)

DELTA = Linear(heads=4, key_heads=2, key=3, value=5, kernel=4)

TOYS = {
    "mha": PLAIN,
    "gqa": Config(16, 3, 4, 2, 6, 40, 50),
    "mqa": Config(16, 3, 4, 1, 6, 40, 50, tied=True),
    "plain-mlp": Config(16, 2, 4, 4, 4, 64, 50, gated=False, norm="layer", biases=("qkv", "o", "mlp"), positions=32),
    "parallel": Config(
        16, 2, 4, 4, 4, 64, 50, gated=False, norm="layer", norms=1, parallel=True, biases=("mlp", "unembed")
    ),
    "parallel-gated": Config(16, 2, 4, 2, 4, 40, 50, norm="layer-no-bias", norms=2, parallel=True, tied=True),
    "four-norms": Config(16, 4, 4, 2, 8, 40, 50, norms=4, window=5, full_every=2, tied=True),
    "local": Config(16, 3, 4, 2, 4, 40, 50, window=3),
    "mixed": Config(16, 7, 4, 2, 4, 40, 50, window=4, full_every=3, qk_norm="head", norms=4),
    "qk-full": Config(16, 2, 4, 2, 4, 40, 50, qk_norm="full"),
    "no-norms": Config(16, 2, 4, 4, 4, 40, 50, norm="none", embed_norm=True),
    "moe": Config(16, 3, 4, 2, 4, 40, 50, moe=MoE(E=4, k=2, F=24)),
    "moe-shared": Config(16, 5, 4, 4, 4, 40, 50, moe=MoE(E=4, k=3, F=24, shared=2, first_dense=2)),
    "moe-every": Config(16, 6, 4, 2, 4, 40, 50, window=4, full_every=3, moe=MoE(E=4, k=1, F=24, shared=1, every=2)),
    "gpt-oss": Config(
        16,
        4,
        4,
        2,
        4,
        24,
        50,
        biases=("qkv", "o", "mlp", "router"),
        window=4,
        full_every=2,
        sinks=True,
        moe=MoE(4, 2, 24),
    ),
    "mla": Config(16, 2, 4, 4, None, 40, 50, mla=TOY_MLA),
    "mla-moe": Config(16, 4, 4, 4, None, 40, 50, mla=TOY_MLA, moe=MoE(E=4, k=2, F=24, shared=1, first_dense=1)),
    "mla-lite": Config(16, 2, 4, 4, None, 40, 50, mla=MLA(None, 10, 6, 4, 8)),
    "gpt-2-toy": model("gpt-2", D=16, L=2, N=2, K=2, H=8, F=64, V=50, positions=32),
}

# What has parts of `config.UNUSUAL`.
UNUSUAL = {
    "linear": Config(16, 7, 4, 2, 4, 40, 50, linear=DELTA, full_every=3, output_gate=True, qk_norm="head"),
    "linear-moe": Config(
        16,
        6,
        4,
        2,
        4,
        40,
        50,
        linear=DELTA,
        full_every=2,
        moe=MoE(4, 2, 24, shared=1, first_dense=1, every=2, shared_gate=True),
    ),
    "all-linear": Config(16, 3, 4, 4, 4, 40, 50, linear=DELTA, biases=("qkv", "o")),
    "gated": Config(16, 3, 4, 2, 4, 40, 50, output_gate=True, moe=MoE(4, 2, 24, shared=2, shared_gate=True)),
    "indexer": Config(
        16,
        4,
        4,
        4,
        None,
        40,
        50,
        mla=TOY_MLA,
        indexer=Indexer(heads=3, width=6, top=5),
        moe=MoE(4, 2, 24, first_dense=1),
    ),
    "sharing": Config(16, 8, 4, 2, 4, 40, 50, window=4, full_every=2, shared_kv=3, qk_norm="head", biases=("qkv",)),
    "sharing-full": Config(16, 5, 4, 2, 4, 40, 50, shared_kv=2, qk_norm="full"),
    "gemma-3n": Config(
        16,
        6,
        4,
        2,
        4,
        40,
        50,
        tied=True,
        norms=4,
        qk_norm="head",
        window=4,
        full_every=3,
        shared_kv=2,
        gemma3n=Gemma3n(streams=3, laurel=2, V=45, width=7),
    ),
}
EVERY = TOYS | UNUSUAL


def norm(c, width):
    """Shapes of one norm."""
    return {"rms": [(width,)], "layer": [(width,)] * 2, "layer-no-bias": [(width,)], "none": []}[c.norm]


def mlp(c, F, biased):
    into = [(c.D, F)] * (2 if c.gated else 1)
    weights = [*into, (F, c.D)]
    return weights, [(b,) for _, b in weights] if biased and "mlp" in c.biases else []


def is_linear(c, i):
    return bool(c.linear) and not (c.full_every and (i + 1) % c.full_every == 0)


def gated_delta_net(m, D):
    """Matrices, and all other shapes, of `Qwen3NextGatedDeltaNet` in transformers' modeling_qwen3_next.py."""
    keys, values = m.key * m.key_heads, m.value * m.heads
    weights = [(D, 2 * keys + 2 * values), (D, 2 * m.heads), (values, D)]  # in_proj_qkvz, in_proj_ba, out_proj
    return weights, [(2 * keys + values, m.kernel), (m.heads,), (m.heads,), (m.value,)]  # conv1d, dt_bias, A_log, norm


def gemma_3n(g, D):
    """The same of what a layer of `Gemma3nTextDecoderLayer` has beside attention and MLP; its router runs twice."""
    laurel = [(D, g.laurel), (g.laurel, D)]
    altup = [(g.streams, g.streams), (g.streams, g.streams**2), (D, g.streams)]  # correction, prediction, router
    return [*laurel, *altup, (D, g.width), (g.width, D)], [(D,)] * 4  # scale; norms of LAuReL, of the router, per layer


def layer(c, i):
    """(matrices that a token multiplies, each with how many times; all other shapes; matrices that stand idle)."""
    moe = c.moe and i >= c.moe.first_dense and (i + 1) % c.moe.every == 0
    own = i < c.L - c.shared_kv  # keys and values of its own
    weights, rest, idle = [], [], []
    if c.gemma3n:
        weights, rest = gemma_3n(c.gemma3n, c.D)
    if is_linear(c, i):
        weights, rest = gated_delta_net(c.linear, c.D)
    elif c.mla:
        m = c.mla
        q = [(c.D, c.N * (m.nope + m.rope))]
        if m.q_rank:
            q = [(c.D, m.q_rank), (m.q_rank, c.N * (m.nope + m.rope))]
            rest += norm(c, m.q_rank)
        weights += [*q, (c.D, m.kv_rank), (c.D, m.rope)]
        weights += [(m.kv_rank, c.N * m.nope), (m.kv_rank, c.N * m.v), (c.N * m.v, c.D)]
        rest += norm(c, m.kv_rank)
        if x := c.indexer:  # wq_b, wk, weights_proj, and a LayerNorm of keys
            weights += [(m.q_rank, x.heads * x.width), (c.D, x.width), (c.D, x.heads)]
            rest += [(x.width,)] * 2
    else:
        weights += [(c.D, c.N * c.H)] * (2 if c.output_gate else 1) + [(c.N * c.H, c.D)]
        weights += [(c.D, c.K * c.H)] * 2 if own else []
        rest += [(c.N * c.H,), *([(c.K * c.H,)] * 2 if own else [])] if "qkv" in c.biases else []
        rest += [(c.D,)] if "o" in c.biases else []
        if c.qk_norm == "head":
            rest += norm(c, c.H) * (2 if own else 1)
        if c.qk_norm == "full":
            rest += norm(c, c.N * c.H) + (norm(c, c.K * c.H) if own else [])
        rest += [(c.N,)] if c.sinks else []
    for _ in range(c.norms):
        rest += norm(c, c.D)
    if not moe:
        w, b = mlp(c, c.F, True)
        return weights + w, rest + b, idle
    weights += [(c.D, c.moe.E)] + ([(c.D, 1)] if c.moe.shared_gate else [])
    rest += [(c.moe.E,)] if "router" in c.biases else []
    for e in range(c.moe.E):
        w, b = mlp(c, c.moe.F, True)
        if e < c.moe.k:
            weights, rest = weights + w, rest + b
        else:
            idle += w + b
    for _ in range(c.moe.shared):
        weights += mlp(c, c.moe.F, False)[0]
    return weights, rest, idle


def counted(c):
    """(all parameters, active parameters, weights that a token multiplies), from a list of all shapes."""
    matmul, other, idle = [], [(c.V, c.D)], []
    for i in range(c.L):
        w, r, lazy = layer(c, i)
        matmul, other, idle = matmul + w, other + r, idle + lazy
    other += [(c.positions, c.D)] if c.positions else []
    other += norm(c, c.D) * (c.final_norm + c.embed_norm)
    other += [(c.V,)] if "unembed" in c.biases else []
    size = lambda shapes: sum(map(prod, shapes))  # noqa: E731
    twice = 0
    if g := c.gemma3n:
        other += [
            (g.V, c.L * g.width),
            (g.width,),
        ]  # the table of per-layer embeddings, and the norm of their projection
        matmul += [(c.D, c.L * g.width), *[(c.D, c.D)] * (2 * (g.streams - 1))]
        twice = c.L * c.D * g.streams  # the router, once to predict and once to correct
    unembedding = c.D * c.V
    active = size(matmul) + size(other) + (0 if c.tied else unembedding)
    return active + size(idle), active, size(matmul) + twice + unembedding
