"""Drawings of chapter 3: what they show is what the cost functions count."""

from dataclasses import replace
from math import prod

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from helpers import plot
from helpers.costs.transformers.layer_products import backward, einsum
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import saved, train_flops
from helpers.kernels.transformers import mixture_of_experts as moe
from helpers.plot.transformers.attention_parts import exchanged, queues
from helpers.plot.transformers.kept_over_time import schedule
from helpers.plot.transformers.products import PASSES
from tests.helpers.plot.drawn import ALT, texts

CHOICES = [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (2, 1)]


@pytest.mark.parametrize("spec", ["btd,df->btf", "btnh,bsnh->btsn", "ijkl,ijmno->klmno"])
def test_letters_stand_where_einsum_sorts_them(spec):
    said, of = (
        texts(plot.einsum_letters([spec], ALT)),
        einsum(spec, *([2] * len(x) for x in spec.split("->")[0].split(","))),
    )
    first = spec.partition(",")[0]
    wanted = [
        of.batch,
        of.contracted,
        "".join(x for x in of.free if x in first),
        "".join(x for x in of.free if x not in first),
    ]
    assert all(("  ".join(letters) or "–") in said for letters in wanted)


def test_the_three_products_are_those_of_the_backward_pass():
    """By the letters: Y[B, F] = X[B, D] · W[D, F], and the two that `backward` gives for it."""
    drawn = [tuple(sides.lower() for _, _, sides in row[1:4]) for row in PASSES]
    wanted = []
    for spec in ("bd,df->bf", *backward("bd,df->bf")):
        operands, out = spec.split("->")
        wanted.append(({*map(frozenset, operands.split(","))}, frozenset(out)))
    assert [({frozenset(a), frozenset(b)}, frozenset(out)) for a, b, out in drawn] == wanted
    for a, b, out in drawn:
        assert a[1] == b[0] and out == a[0] + b[1] and prod(map(len, {a, b, out})) == 8


@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_the_router_drops_what_the_program_drops(factor):
    logits = np.zeros((6, 4))
    for t, chosen in enumerate(CHOICES):
        logits[t, list(chosen)] = 2, 1
    r = moe.route(jnp.asarray(logits), 2)
    C = moe.capacity(6, 4, 2, factor)
    served, dropped = queues(CHOICES, 4, C)
    assert sum(map(len, dropped)) == int(r.dropped(C)) and sum(map(len, served)) == 12 - int(r.dropped(C))
    for t, e in np.ndindex(6, 2):
        assert (t in served[int(r.expert[t, e])]) == bool(r.served(C)[t, e])
    ax = plot.routed(CHOICES, 4, ALT, factor=factor).figure.axes[0]
    empty = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_linestyle() == "--"]
    assert len(empty) == 4 * C - sum(map(len, served))
    assert [t.get_text() for t in ax.texts].count(f"C = {C}") == 1


def test_two_all_to_alls_bring_every_block_to_its_expert_and_back():
    before, between, after = exchanged(4)
    assert all(e == d for d, blocks in enumerate(between) for _, e in blocks)
    assert before == after and sorted(sum(before, [])) == sorted(sum(between, []))
    said = texts(plot.expert_exchange(4, ALT))
    assert said.count("AllToAll") == 2 and said.count("3") == 3 * 4


@pytest.mark.parametrize("policy", ["everything", "matmuls", "block"])
def test_a_step_over_time_keeps_and_repeats_what_is_counted(policy):
    c, T = replace(model("llama-3-8b"), L=8), 2048
    steps = schedule(c, T, policy)
    after_forward = [held for kind, _, _, held in steps if kind == "forward"]
    assert after_forward[-1] == pytest.approx(saved(c, 1, T, policy)) and steps[-1][3] == 0
    layers = flops(c, 1, T).layers
    lost = train_flops(c, 1, T, policy) - 3 * flops(c, 1, T).unembedding
    assert sum(length for _, _, length, _ in steps) == pytest.approx(8 * lost / layers)
    most = max(held for *_, held in steps)
    assert most == pytest.approx(saved(c, 1, T, "everything") / 8 * (8 if policy == "everything" else 1) + (
        0 if policy == "everything" else saved(c, 1, T, policy) * 7 / 8))  # fmt: skip
