"""Toy decoders of every family, those with unusual parts, and what a slow reading of a `Config` says about them: matrix by matrix."""

from math import prod

from helpers.costs.transformers.config import MLA, Config, MoE
from helpers.costs.transformers.mixers import Gemma3n, Indexer
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.states import Linear

TOY_MLA = MLA(q_rank=12, kv_rank=10, nope=6, rope=4, v=8)
DELTA = Linear(heads=4, key_heads=2, key=3, value=5, kernel=4)


def toy(L, N, K, H, F=40, **parts):
    return Config(16, L, N, K, H, F, 50, **parts)


TOYS = {
    "mha": toy(3, 4, 4, 4),
    "gqa": toy(3, 4, 2, 6),
    "mqa": toy(3, 4, 1, 6, tied=True),
    "plain-mlp": toy(2, 4, 4, 4, 64, gated=False, norm="layer", biases=("qkv", "o", "mlp"), positions=32),
    "parallel": toy(2, 4, 4, 4, 64, gated=False, norm="layer", norms=1, parallel=True, biases=("mlp", "unembed")),
    "parallel-gated": toy(2, 4, 2, 4, norm="layer-no-bias", norms=2, parallel=True, tied=True),
    "four-norms": toy(4, 4, 2, 8, norms=4, window=5, full_every=2, tied=True),
    "local": toy(3, 4, 2, 4, window=3),
    "mixed": toy(7, 4, 2, 4, window=4, full_every=3, qk_norm="head", norms=4),
    "qk-full": toy(2, 4, 2, 4, qk_norm="full"),
    "no-norms": toy(2, 4, 4, 4, norm="none", embed_norm=True),
    "moe": toy(3, 4, 2, 4, moe=MoE(E=4, k=2, F=24)),
    "moe-shared": toy(5, 4, 4, 4, moe=MoE(E=4, k=3, F=24, shared=2, first_dense=2)),
    "moe-every": toy(6, 4, 2, 4, window=4, full_every=3, moe=MoE(E=4, k=1, F=24, shared=1, every=2)),
    "gpt-oss": toy(
        4, 4, 2, 4, 24, biases=("qkv", "o", "mlp", "router"), window=4, full_every=2, sinks=True, moe=MoE(4, 2, 24)
    ),
    "mla": toy(2, 4, 4, None, mla=TOY_MLA),
    "mla-moe": toy(4, 4, 4, None, mla=TOY_MLA, moe=MoE(E=4, k=2, F=24, shared=1, first_dense=1)),
    "mla-lite": toy(2, 4, 4, None, mla=MLA(None, 10, 6, 4, 8)),
    "gpt-2-toy": model("gpt-2", D=16, L=2, N=2, K=2, H=8, F=64, V=50, positions=32),
}

# What has parts of `config.UNUSUAL`.
GATED_MOE = MoE(4, 2, 24, shared=1, first_dense=1, every=2, shared_gate=True)
UNUSUAL = {
    "linear": toy(7, 4, 2, 4, linear=DELTA, full_every=3, output_gate=True, qk_norm="head"),
    "linear-moe": toy(6, 4, 2, 4, linear=DELTA, full_every=2, moe=GATED_MOE),
    "all-linear": toy(3, 4, 4, 4, linear=DELTA, biases=("qkv", "o")),
    "gated": toy(3, 4, 2, 4, output_gate=True, moe=MoE(4, 2, 24, shared=2, shared_gate=True)),
    "indexer": toy(4, 4, 4, None, mla=TOY_MLA, indexer=Indexer(3, 6, top=5), moe=MoE(4, 2, 24, first_dense=1)),
    "sharing": toy(8, 4, 2, 4, window=4, full_every=2, shared_kv=3, qk_norm="head", biases=("qkv",)),
    "sharing-full": toy(5, 4, 2, 4, shared_kv=2, qk_norm="full"),
    "gemma-3n": toy(6, 4, 2, 4, tied=True, norms=4, qk_norm="head", window=4, full_every=3, shared_kv=2, gemma3n=Gemma3n(3, 2, 45, 7)),
}  # fmt: skip
EVERY = TOYS | UNUSUAL

# For formulas of any sizes, floats, arrays or tracers: D, L, N and F.
DECODERS = [(64.0, 4.0, 4.0, 256.0), (512.0, 8.0, 32.0, 1024.0)]


def any_size(D, L, N, F, **parts):
    """A decoder of any size: N heads of 16 on half as many KV heads."""
    return Config(D, L, N, N / 2, 16, F, 1000, **parts)


def any_mixture(D, L, N, F):
    """The same with windows, and experts in every other layer."""
    return any_size(D, L, N, F, window=64, full_every=2, norms=4, moe=MoE(8, 2, 32, shared=1, every=2))


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
        # The table of per-layer embeddings, and the norm of their projection.
        other += [(g.V, c.L * g.width), (g.width,)]
        matmul += [(c.D, c.L * g.width), *[(c.D, c.D)] * (2 * (g.streams - 1))]
        twice = c.L * c.D * g.streams  # the router, once to predict and once to correct
    unembedding = c.D * c.V
    active = size(matmul) + size(other) + (0 if c.tied else unembedding)
    return active + size(idle), active, size(matmul) + twice + unembedding
