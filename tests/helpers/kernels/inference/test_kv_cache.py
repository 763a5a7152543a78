"""A cache changes nothing: rows at positions of their own, rings, chunks, and text made with it; what is counted is predicted."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.kernels.inference import kv_cache as slots, tiny_language_model
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import store, visible
from tests.helpers.kernels.transformers.families import DISTINCT, FAMILIES, random_params, tokens, toy

SMALL = dict(D=8, N=2, K=1, H=4, F=12, V=29)
MIXED = toy(**SMALL, L=2, window=3, full_every=2)
LOCAL = toy(**SMALL, L=2, window=3)
B, T, SIZE, C, SLACK = 3, 12, 14, 4, 3

close = partial(np.testing.assert_allclose, rtol=2e-3, atol=2e-4)


@cache
def model(c):
    """Parameters, text, and the logits of the whole text at once."""
    params, text = random_params(c), tokens(c, B, T)
    return params, text, np.asarray(jax.jit(lambda x: decoder.forward(params, x, c))(text))


@cache
def step(c, keep=0):
    """`extend` of C tokens a row as one program."""
    params = model(c)[0]
    return jax.jit(lambda held, x, at, n: slots.extend(params, held, x, at, c, n, keep))


def unwritten(c, B=B):
    """A cache that holds NaN wherever nothing was written: nobody looks there."""
    return jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), slots.empty(c, B, SIZE, slack=SLACK))


def go(c, held, text, at, n, keep=0):
    """The next n[b] tokens of each row, from at[b] on: their logits, row by row, and the cache. Padding is token V - 1."""
    x = np.full((B, C), c.V - 1, np.int32)
    for b in range(B):
        x[b, : n[b]] = text[b, at[b] : at[b] + n[b]]
    said, held = step(c, keep)(held, jnp.asarray(x), jnp.asarray(at), jnp.asarray(n))
    return [np.asarray(said[b, : n[b]]) for b in range(B)], held


# ---- the same logits, whatever the rows do


@pytest.mark.slow
@pytest.mark.parametrize(
    "c",
    [pytest.param(MIXED, id="mixed")] + [pytest.param(FAMILIES[n], id=n) for n in [*DISTINCT, "mha", "mqa", "mistral"]],
)
@pytest.mark.sample(quick=0, slow=8)
def test_rows_go_on_from_where_they_stand(c):
    """Each by chunks of its own lengths, 0 and 1 among them, past several wraps of a ring of 3."""
    _, text, whole = model(c)
    held, at = unwritten(c), [0] * B
    draw = np.random.default_rng(0)
    while min(at) < T:
        n = [min(int(k), T - t) for k, t in zip(draw.integers(0, C + 1, B), at)]
        said, held = go(c, held, text, at, n)
        for b in range(B):
            close(said[b], whole[b, at[b] : at[b] + n[b]])
        at = [t + k for t, k in zip(at, n)]


@pytest.mark.slow
def test_a_draft_that_is_given_up_leaves_no_trace():
    """Wrong tokens are written and overwritten; a ring needs room for them beyond its window, and shows why without it."""
    c, (_, text, whole) = MIXED, model(MIXED)
    wrong = (text + 1) % c.V

    def off(slack):
        held = slots.empty(c, B, SIZE, slack=slack)
        _, held = go(c, held, text, [0] * B, [4] * B)
        _, held = go(c, held, text, [4] * B, [3] * B)
        # One right, three wrong.
        _, held = go(c, held, jnp.concatenate([text[:, :8], wrong[:, 8:]], 1), [7] * B, [4] * B)
        said, _ = go(c, held, text, [8] * B, [4] * B)
        return max(np.abs(said[b] - whole[b, 8:12]).max() for b in range(B))

    assert off(SLACK) < 2e-3 < 1e-2 < off(0)


@pytest.mark.slow
def test_the_first_tokens_stay(keep=2):
    """Dense attention under the mask {k < s or i - k < window}, and rows that do not grow with the text."""
    c, (params, text, _) = LOCAL, model(LOCAL)
    i, k = np.indices((T, T))
    mask = jnp.asarray((k <= i) & ((k < keep) | (i - k < c.window)))
    assert np.array_equal(visible(jnp.arange(T), jnp.arange(T), c.window, keep), mask)

    def dense(x):
        empty = decoder.empty_cache(c, B, 1)
        x = decoder.embed(params, x, jnp.arange(T), c)
        x, _ = decoder.through(params, x, jnp.arange(T), c, empty, lambda kind, old, new: (old, new, mask))
        return decoder.unembed(params, x, c)

    whole = np.asarray(jax.jit(dense)(text))
    assert np.abs(whole - model(c)[2]).max() > 1e-2  # the first tokens matter
    held = slots.empty(c, B, SIZE, keep=keep)
    assert held[0]["k"].shape[2] == c.window + keep == slots.empty(c, B, 10 * SIZE, keep=keep)[0]["k"].shape[2]
    for at, n in (([0, 0, 0], [1, 2, 4]), ([1, 2, 4], [4, 4, 3]), ([5, 6, 7], [4, 4, 4]), ([9, 10, 11], [3, 2, 1])):
        said, held = go(c, held, text, at, n, keep)
        for b in range(B):
            close(said[b], whole[b, at[b] : at[b] + n[b]])


def test_the_oldest_makes_room_in_whatever_order_they_come():
    """More tokens at once than a ring has places: the last ones stay, by their positions; the first one is kept."""
    ring, at = dict(k=jnp.zeros((1, 4, 1))), jnp.array([[5, 4, 3, 2, 1, 0]])
    held = jax.jit(lambda ring, at: store(ring, dict(k=at[..., None] + 10.0), at, window=3, sink_tokens=1))(ring, at)
    assert held["k"].ravel().tolist() == [10, 14, 15, 13]  # position t ≥ 1 stands in place 1 + (t - 1) mod 3


def test_a_ring_holds_its_window_and_a_full_layer_everything():
    """As many bytes as predicted, those of slack and kept tokens besides, in proportion to K."""
    for size in (2, 3, 9):
        held = jax.eval_shape(lambda size=size: slots.empty(MIXED, B, size, jnp.bfloat16))
        assert decoder.cache_bytes(held) == kv_cache(MIXED, size, B)
    held = jax.eval_shape(lambda: slots.empty(MIXED, B, 9, jnp.bfloat16, slack=2, keep=1))
    assert decoder.cache_bytes(held) == kv_cache(MIXED, 9, B) + kv_cache(toy(**SMALL, L=1), 3, B)
    held = [decoder.cache_bytes(slots.empty(toy(K=K), B, 9)) for K in (1, 2, 4)]
    assert held == [held[0], 2 * held[0], 4 * held[0]]


# ---- a prompt in chunks


@pytest.mark.slow
def test_chunks_of_a_ragged_batch():
    c, (params, text, whole) = MIXED, model(MIXED)
    n = jnp.array([12, 5, 3])
    last, held = jax.jit(lambda x: slots.prefill(params, slots.empty(c, B, SIZE, slack=SLACK), x, c, 5, lengths=n))(
        text
    )
    close(last, whole[np.arange(B), n - 1])
    said, _ = go(c, held, text, [11, 5, 3], [1, 4, 4])  # row 0 hears its last token again, which changes nothing
    for b, (t, k) in enumerate([(11, 1), (5, 4), (3, 4)]):
        close(said[b], whole[b, t : t + k])


@pytest.mark.parametrize("chunk", [3, 1, 6])
@pytest.mark.sample(quick=1)
def test_the_largest_block_of_scores(chunk, L=24):
    """C × L, with a window C × (C + window - 1), as the traced program has it; T × T at once."""
    x = jax.ShapeDtypeStruct((B, L), jnp.int32)

    def block(c, f):
        return trace.attended(f, jax.eval_shape(lambda: random_params(c)), x).block

    def by_chunks(c):
        return block(c, lambda p, x: slots.prefill(p, slots.empty(c, B, L), x, c, chunk))

    full = toy(**SMALL, L=2)
    assert by_chunks(full) == (chunk, L)
    assert by_chunks(LOCAL) == (chunk, chunk + LOCAL.window - 1)
    assert block(full, lambda p, x: decoder.prefill(p, x, full, L)) == (L, L)


# ---- text


@pytest.mark.slow
def test_text_is_the_same_with_a_cache(n=2):
    c, (params, text, _) = MIXED, model(MIXED)
    prompt = text[:, :4]
    slow, said = jax.jit(lambda x: tiny_language_model.recompute(params, x, n, c))(prompt)
    fast, wanted = jax.jit(lambda x: tiny_language_model.generate(params, x, n, c))(prompt)
    assert np.array_equal(slow, fast) and slow.shape == (B, n)
    close(said, wanted)
    assert len(np.unique(slow)) > 1


def test_what_text_costs(n=5):
    """n(n + 1)/2 tokens and 1 + 4 + … + n² scores, or n tokens and n scores in each step."""
    c = toy(**SMALL, L=3)
    params, first = jax.eval_shape(lambda: random_params(c)), jax.ShapeDtypeStruct((1, 1), jnp.int32)
    slow = trace.attended(lambda p, x: tiny_language_model.recompute(p, x, n, c), params, first)
    assert slow.tokens == c.L * n * (n + 1) // 2
    assert slow.scores == c.L * c.N * sum(i * i for i in range(1, n + 1))
    fast = trace.attended(lambda p, x: tiny_language_model.generate(p, x, n, c, size=n), params, first)
    assert fast.tokens == c.L * n
    assert fast.scores == c.L * c.N * (1 + (n - 1) * n)  # of a full layer all places, empty ones too


def test_bad_input():
    c, (params, text, _) = MIXED, model(MIXED)
    held, at = slots.empty(c, B, 4), np.zeros(B, int)
    extend = partial(slots.extend, params, held)
    for sentence, call in {
        "row 1 would reach 5 tokens, and there are places for 4: make": lambda: extend(
            text[:, :2], np.array([2, 3, 0]), c
        ),
        "row 0 would reach 12 tokens, and there are": lambda: slots.prefill(params, held, text, c, 2),
        r"tokens\[B, T\] has the shape \[2, 12\], and B is 3: make it \[3, 12\]": lambda: extend(text[:2], at, c),
        "no token to go on from: give each row one or more": lambda: extend(text[:, :0], at, c),
        r"lengths\[B\] has the shape \[2\], and B is 3": lambda: extend(text, at, c, lengths=np.array([1, 2])),
        "chunk is a whole number, 1 or more, not 0": lambda: slots.prefill(params, held, text, c, 0),
        "size is a whole number, 1 or more, not 0": lambda: slots.empty(c, 3, 0),
        "n is a whole number, 1 or more, not 0": lambda: tiny_language_model.generate(params, text, 0, c),
        "an empty prompt has no last token": lambda: slots.room(c, 8, 0),
        "9 tokens does not fit 8 places in the cache: make it at least 9": lambda: slots.room(c, 8, 9),
        "5 tokens with 5 after it does not fit 8 places in the cache: make it at": lambda: slots.room(c, 8, 5, 5),
        "17 tokens does not fit 16 learned positions": lambda: slots.room(FAMILIES["gpt-2"], 99, 17),
        "take a Config without windows": lambda: slots.mixed({}, [], [1], [0], [1, 2], 0, LOCAL, row=1),
    }.items():
        with pytest.raises(ValueError, match=sentence):
            call()
    assert slots.room(c, 8, 5, 4) is None
    assert slots.room(LOCAL, 3, 1000, 1000) is None  # a model of local layers alone goes on for ever


@pytest.mark.parametrize(
    "name", ["llama", pytest.param("deepseek-v3", marks=pytest.mark.slow("the same with a latent cache"))]
)
def test_a_mixed_step_is_one_pass(name):
    """Its logits and cache are those of a decode step and then of the piece; B + T tokens pass the matrices, in one pass."""
    c = replace(FAMILIES[name], moe=None)
    params, n = random_params(c), np.array([9, 4, 5])
    text, size = tokens(c, B, 12), 16
    extend = jax.jit(lambda *a: slots.extend(params, *a[:3], c, a[3]))
    _, held = extend(slots.empty(c, B, size), text, np.zeros(B, int), n)
    words, piece = text[:2, 0], text[2, 5:9]
    run = lambda cache: slots.mixed(params, cache, words, n[:2], piece, 5, c, row=2)  # noqa: E731
    got, after = jax.jit(run)(held)
    step, then = extend(held, np.append(words, 0)[:, None], n, np.array([1, 1, 0]))
    last, then = extend(then, np.tile(piece, (3, 1)), n, np.array([0, 0, 4]))
    close(got, [*step[:2, 0], last[2, -1]])
    jax.tree.map(close, after, then)
    assert trace.attended(run, held).tokens == c.L * (2 + 4)
