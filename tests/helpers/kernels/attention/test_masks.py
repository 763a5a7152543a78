"""Masks as rules, arrays and blocks, and attention with its whole matrix."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.attention import dense_attention, flash_attention, masks
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask
from helpers.kernels.transformers import decoder_layers
from tests.helpers.kernels.attention import reference

LIMITED = [Mask(True, 1), Mask(True, 3), Mask(True, 4, 2), Mask(True, 2, 5), Mask(False, 2, 3)]
RULES = [FULL, CAUSAL, Mask(window=3), *LIMITED]


@pytest.mark.parametrize("T,S", [(1, 1), (5, 5), (1, 7), (4, 9), (7, 3)])
def test_a_rule_says_of_each_pair_what_it_says(T, S):
    for rule, t, s in itertools.product(RULES, range(T), range(S)):
        at = t + S - T
        near = rule.window is None or abs(at - s) < rule.window or s < rule.sinks
        assert rule.array(T, S)[t, s] == (near and (s <= at or not rule.causal)), (rule, t, s)


@pytest.mark.parametrize("T,S", [(8, 8), (7, 7), (3, 10), (10, 3), (1, 9)])
def test_blocks_are_those_with_something_to_see(T, S):
    """Against the pairs themselves: which blocks are computed, and which of them need no mask."""
    for rule, (rows, columns) in itertools.product(RULES, [(1, 1), (2, 3), (3, 2), (8, 4)]):
        seen = rule.array(T, S)
        plan = masks.plan(T, S, rows, columns, rule)
        for i, j in itertools.product(*map(range, plan.shape)):
            part = seen[i * plan.rows : (i + 1) * plan.rows, j * plan.columns : (j + 1) * plan.columns]
            mine = [b for b in plan.blocks if (b.i, b.j) == (i, j)]
            assert len(mine) == part.any(), (rule, i, j)
            if mine:
                assert mine[0].whole == (part.all() and part.shape == (plan.rows, plan.columns)), (rule, i, j)
                full = np.asarray(plan.sees(i, j))
                np.testing.assert_array_equal(full[: part.shape[0], : part.shape[1]], part)
                assert not full[:, part.shape[1] :].any()


@pytest.mark.parametrize(
    "K", [2, *(pytest.param(k, marks=pytest.mark.slow("one KV head, or one for each query")) for k in (1, 6))]
)
def test_groups_share_keys_that_are_never_repeated(K):
    """MQA, GQA and MHA in one function, as with repeated heads and as in the decoder; no [.., S, N, H]."""
    q, k, v, do = reference.draw(2, 3, 7, 6, K, 4)
    want = reference.dense(q, k, v, do, Mask(True, 4).array(3, 7))
    got = jax.jit(reference.pulled(lambda *x: dense_attention.attention(*x, Mask(True, 4))))(q, k, v, do)
    reference.close(got, want, 2e-6)
    scores = np.einsum("btkgh,bskh->bkgts", np.reshape(q, (2, 3, K, -1, 4)), k) / 2
    shares = jax.jit(decoder_layers.weigh)(scores, Mask(True, 4).array(3, 7))
    np.testing.assert_allclose(np.einsum("bkgts,bskh->btkgh", shares, v).reshape(q.shape), want[0], atol=1e-6)
    if K < 6:
        for attend in (dense_attention.attention, flash_attention.flash):
            made = reference.arrays(jax.grad(lambda *x: attend(*x).sum(), (0, 1, 2)), q, k, v)  # noqa: B023
            assert not [s for s in made if np.prod(s, dtype=int) >= 2 * 7 * 6 * 4], K


def test_masks_of_every_shape():
    q, k, _, _ = reference.draw(2, 3, 4, 2, 1, 4)
    v = np.broadcast_to(np.eye(4, dtype="float32")[:, None], (2, 4, 1, 4))  # so that the result is the softmax itself
    seen = np.random.default_rng(0).random((2, 2, 3, 4)) < 0.6
    shapes = [(seen, seen), (seen[:, 0], seen[:, :1]), (seen[0, 0], seen[:1, :1]), (seen[:, :1], seen[:, :1])]
    found = jax.jit(lambda q, k: [dense_attention.attention(q, k, v, mask) for mask, _ in shapes])(q, k)
    for P, (_, want) in zip(found, shapes):
        P = np.asarray(P).swapaxes(1, 2)  # [B, N, T, S]
        assert ((P > 0) == np.broadcast_to(want, P.shape)).all()


@pytest.mark.parametrize("f", [dense_attention.attention, flash_attention.flash], ids=["dense", "flash"])
def test_nothing_leaks_from_before_every_window(f):
    q, k, v, do = reference.draw(2, 2, 9, 4, 2, 8)
    rule = Mask(True, 3, 1)
    gone = jnp.asarray(~rule.reach(2, 9))[None, :, None, None]
    assert gone.sum() == 4
    spoilt = [jnp.where(gone, jnp.nan, x) for x in (k, v)]
    assert all(np.isfinite(x).all() for x in jax.jit(reference.pulled(lambda *x: f(*x, rule)))(q, *spoilt, do))


BAD = [
    (dict(S=0), {}, "an empty sequence: attention needs a query and a key, not T = 3 and S = 0"),
    (dict(T=0), {}, "an empty sequence"),
    ({}, dict(mask=np.ones((3, 4), int)), "a mask is bool, True where a query sees a key; this is int64"),
    ({}, dict(mask=np.ones((4, 3), bool)), r"shape \(4, 3\) does not fit the scores: make it \[T, S\] = \(3, 5\)"),
    ({}, dict(mask=np.ones(5, bool)), r"shape \(5,\) does not fit"),
    ({}, dict(mask=~CAUSAL.array(3, 5)), "shows each query the keys after it and hides the rest: True means seen, so pass ~mask"),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "more", "says"), BAD)
def test_bad_input_is_told_in_one_sentence(sizes, more, says):
    q, k, v, _ = reference.draw(**dict(B=2, T=3, S=5, N=2, K=1, H=4) | sizes)
    with pytest.raises(ValueError, match=says):
        dense_attention.attention(q, k, v, **more)
    if not more:
        with pytest.raises(ValueError, match=says):
            flash_attention.flash(q, k, v)


def test_bad_rules_and_shapes():
    q, k, v, _ = reference.draw(2, 3, 5, 2, 1, 4)
    for bad, says in (
        (lambda: Mask(True, 0), "window is a whole number, 1 or more, not 0"),
        (lambda: Mask(True, None, 2), "sinks are first keys seen besides a window"),
        (lambda: flash_attention.flash(q, k, v, CAUSAL, rows=0), "rows is a whole number, 1 or more, not 0"),
        (lambda: flash_attention.flash(q, k, v, CAUSAL.array(3, 5)), r"a rule is asked for, as Mask\(causal=True\)"),
        (lambda: dense_attention.plain(q, k, v, CAUSAL.array(3, 5)), "a rule is asked for"),
        (lambda: dense_attention.efficient(q, k, v, keep="all"), 'keep is "scores", "state" or "rows", not \'all\''),
        (lambda: dense_attention.attention(q[0], k, v), r"q\[B, T, N, H\] has 4 dimensions"),
        (
            lambda: dense_attention.attention(q, k[:, :4], v),
            r"v\[B, S, K, V\] has the shape \[2, 5, 1, 4\], and S is 4",
        ),
        (lambda: dense_attention.attention(q, k[..., :2], v), "and H is 4"),
    ):
        with pytest.raises(ValueError, match=says):
            bad()
