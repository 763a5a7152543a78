"""What the live figure of chapter 3 computes: parameters, FLOPs, KV cache and memory to train of a decoder of any sizes.

What a model is made of (gates, norms, biases, windows, experts, latent attention) is its structure, and sizes are numbers:
`counts` asks `costs` for everything from a structure and numbers, and `decoder` for the structure that a menu has chosen.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import nan

import numpy as np

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, parameters
from helpers.costs.transformers.public_models import model  # noqa: F401, for the doctests
from helpers.costs.transformers.training_memory_bytes import POLICIES, recomputed, training_memory
from helpers.numeric import choose, floor, maximum, minimum, where

SIZES = ("D", "L", "N", "K", "H", "F", "V", "E", "k", "FE")
MOST_HEADS = 256  # N and K on the page
KEPT = tuple(p for p in POLICIES if p != "nothing")  # which saves no memory by itself
PARTS = ("embedding", "attention", "mlp", "experts", "shared", "router", "rest", "unembedding")


def build(structure: Config, D, L, N, K, H, F, V, E, k, FE) -> Config:
    """A decoder of the structure of `like` and of these sizes, tracers welcome; what the structure lacks is ignored.

    >>> build(model("mixtral-8x7b"), 64, 2, 8, 2, 16, 99, 1000, 4, 1, 256).moe
    MoE(E=4, k=1, F=256, shared=0, first_dense=0, every=1)
    """
    moe = structure.moe and replace(structure.moe, E=E, k=k, F=FE)
    K, H = (N, None) if structure.mla else (K, H)
    return replace(structure, D=D, L=L, N=N, K=K, H=H, F=F, V=V, moe=moe, name="")


def counts(structure: Config, *sizes, T, B, policy, weight, gradient, state, activation) -> dict:
    """All results for one decoder; `policy` is a number, the place in KEPT."""
    c = build(structure, *sizes)
    p, f = parameters(c), flops(c, 1, T, count="causal")
    memories = [training_memory(c, B, T, name, weight, gradient, state, activation) for name in KEPT]
    m = vars(memories[0]) | {"activations": _pick(policy, [m.activations for m in memories])}
    again = _pick(policy, [recomputed(c, 1, T, name, count="causal") for name in KEPT]) / T
    parts = p.by_role | {"embedding": p.embedding + p.positions, "rest": p.norms + p.biases + p.sinks}
    return {
        "total": p.total,
        "active": p.active,
        **{f"p_{name}": parts[name] for name in PARTS},
        "forward": f.forward / T,
        "pairs": f.attention / T,
        "matrices": (f.forward - f.attention) / T,
        "train": f.train / T + again,
        "again": again,
        "cache": kv_cache(c, T),
        **{f"m_{role}": n for role, n in m.items()},
        "memory": sum(m.values()),
    }


def _pick(n, rows):
    return where(n == 0, rows[0], where(n == 1, rows[1], rows[2]))


def decoder(structures: Sequence[Config], family, mla, moe, positions, **settings) -> dict:
    """`counts` of structure number `family` of these; all unknown where `wrong` is 1 or 2.

    mla, moe   1 if it has latent attention, experts
    positions  rows of its table of positions; 0: none
    at         sizes, set_D, … as the model has them, T, B and what `counts` wants of precision

    wrong  1: N heads cannot share K evenly, 2: no token goes to k of E experts
    """
    N, K, E, k = (settings[name] for name in "NKEk")
    wrong = where((mla == 0) & (N % K != 0), 1, where((moe == 1) & (k > E), 2, 0))
    whole = settings | {"K": where(N % K != 0, N, K), "k": minimum(k, E)}  # which any structure takes
    sizes, rest = [whole.pop(name) for name in SIZES], {n: x for n, x in whole.items() if not n.startswith("set_")}
    found = choose(family, [partial(counts, like, *sizes, **rest) for like in structures])
    own = [(settings[name], settings[f"set_{name}"]) for name in SIZES]
    moved = sum(where(theirs == theirs, where(x != theirs, 1, 0), 0) for x, theirs in own)
    return (
        {name: where(wrong > 0, nan, x) for name, x in found.items()}
        | heads(N, K)
        | {
            "wrong": wrong,
            "who": where(moved > 0, 1, 0),
            "part": where(found["active"] != found["total"], 1, 0),
            "note": where((positions > 0) & (settings["T"] > positions), 1, 0),
            "positions": positions,
        }
    )


def heads(N, K) -> dict:
    """KV heads that would do for N query heads, at most K of them, and query heads for K KV heads, about N.

    >>> [(int(h["fit"]), h["near"]) for h in (heads(38, 8), heads(8, 12))]
    [(2, 32), (8, 12)]
    """
    row = np.arange(1.0, MOST_HEADS + 1)
    fit = where((floor(N / row) * row == N) & (row <= K), row, 0.0).max()
    return {"fit": fit, "near": K * maximum(1, floor(N / K))}


def sizes(c: Config) -> dict[str, int]:
    """The sizes of a model that sliders show.

    >>> sizes(model("qwen-3-30b-a3b"))
    {'D': 2048, 'L': 48, 'N': 32, 'K': 4, 'H': 128, 'V': 151936, 'E': 128, 'k': 8, 'FE': 768}
    """
    every = {s: getattr(c, s) for s in "DLNKHFV"}
    if c.moe:
        every |= {"E": c.moe.E, "k": c.moe.k, "FE": c.moe.F}
    return {name: n for name, n in every.items() if name not in unused(c)}


def unused(c: Config) -> tuple[str, ...]:
    """Sizes that the structure of a model has no use for.

    >>> unused(model("llama-3-8b")), unused(model("deepseek-v3")), unused(model("mixtral-8x7b"))
    (('E', 'k', 'FE'), ('K', 'H'), ('F',))
    """
    lacking = {"K", "H"} if c.mla else set()
    lacking |= {"E", "k", "FE"} if not c.moe else {"F"} if c.moe.every == 1 and not c.moe.first_dense else set()
    return tuple(s for s in SIZES if s in lacking)


def structure(c: Config) -> Config:
    """The model with its sizes made alike: two models of one structure are equal.

    >>> structure(model("llama-3-8b")) == structure(model("llama-3.1-405b")), structure(model("gpt-2")) == structure(model("gpt-3"))
    (True, False)
    """
    return build(c, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8)
