"""A layer as a list of operations: a training step's, a served pass's, and the counts of chapter 3, of configs that are drawn."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from helpers.costs.inference import serving_operations as serving
from helpers.costs.training import step_operations as training
from helpers.costs.training.layout import Layout
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.public_models import model
from tests.tiers import repeats
from tests.twins.settings import SERVED, TRAINED

KNOWN = sorted({*TRAINED} & {*SERVED})


def drawn(seed: int) -> Config:
    """A public model with other sizes: its kinds of layers, norms, biases and experts stay."""
    draw = random.Random(seed)
    like = model(draw.choice(KNOWN))
    K = 2 ** draw.randint(0, 4)
    N = K if like.mla or like.N == like.K else K * draw.randint(1, 6)
    moe = like.moe and replace(like.moe, E=draw.randint(like.moe.k, 200), F=64 * draw.randint(1, 40))
    L = draw.randint(1, 12) * (like.full_every or 1) * (like.moe.every if like.moe else 1) + (
        moe.first_dense if moe else 0
    )
    H = like.H if like.mla else 8 * draw.randint(2, 32)
    return replace(like, D=64 * draw.randint(2, 200), L=L, N=N, K=N if like.mla else K, H=H, F=64 * draw.randint(2, 400),
                   V=draw.randint(1000, 300_000), moe=moe, shared_kv=0, name="")  # fmt: skip


def by_role(layers, head) -> Counter:
    """FLOPs forward of the products of all layers."""
    found = Counter({"unembedding": head.flops})
    for layer in layers:
        for p in layer.products:
            found[p.role] += layer.count * p.flops
    return found


def test_training_serving_and_chapter_3_count_the_same():
    kinds = Counter()
    for seed in range(repeats(150, 3000)):
        c, draw = drawn(seed), random.Random(seed)
        B, T = draw.randint(1, 64), draw.randint(1, 20_000)
        step = training.operations(c, Layout(), B, T)
        at = serving.operations(c, serving.Deployment(), serving.Batch(prefill=B * T, prompts=B), B * T)
        exact = {role: n for role, n in flops(c, B, T, count="causal").by_role.items() if n}
        pairs = sum(layer.count * layer.reading.prefill for layer in at.layers)
        for layers, head, attention in ((step.layers, step.head, step.attention()), (at.layers, at.head, pairs)):
            assert by_role(layers, head) | {"attention": attention} == pytest.approx(exact, rel=1e-12), seed
        p = parameters(c)
        assert step.held.dense + step.held.experts == pytest.approx(p.total, rel=1e-12), seed
        held = sum(layer.count * x.weights * (c.moe.E / x.groups if x.role == "experts" else 1)
                   for layer in at.layers for x in layer.products)  # fmt: skip
        others = p.embedding + p.positions + p.unembedding + p.norms + p.biases + p.sinks
        assert held == pytest.approx(p.total - others, rel=1e-12), seed
        kinds.update({"experts": bool(c.moe), "latent": bool(c.mla), "windows": bool(c.window), "dense": not c.moe})
    assert min(kinds.values()) > repeats(5, 100), kinds
