"""Guessing ahead changes how many passes the target makes, never what it says: token for token, and law for law."""

from functools import partial
from os.path import commonprefix

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.inference.speculative_decoding import acceptance
from helpers.kernels.inference.speculative_decoding import DraftModel, NGram, Reader, accept, chance, greedy
from helpers.kernels.transformers.decoder import forward
from tests.helpers.kernels.transformers.families import FAMILIES, random_params

WRONG_ONCE_IN = 1000  # a right sampler fails a test of its law with this chance; the keys are fixed, so it does not

# The law, on a vocabulary of five tokens. The drafter is far off in places, and never draws one that the target may.

V, K, DRAWS = 5, 2, 40_000
P = jnp.array([[0.4, 0.3, 0.2, 0.1, 0.0], [0.1, 0.2, 0.3, 0.2, 0.2], [0.05, 0.05, 0.3, 0.3, 0.3]])
Q = jnp.array([[0.1, 0.3, 0.3, 0.2, 0.1], [0.4, 0.3, 0.3, 0.0, 0.0]])


@jax.jit
def draws(key):
    def one(key):
        drafting, checking = jax.random.split(key)
        return accept(checking, jax.random.categorical(drafting, jnp.log(Q)), Q, P)

    return jax.vmap(one)(jax.random.split(key, DRAWS))


def test_what_is_drawn_has_the_targets_law():
    """Of each place's tokens, given that all before were kept guesses: the chance to be that far off the target's law."""
    tokens, kept = jax.device_get(draws(jax.random.key(5)))
    by_place = [chance(np.bincount(tokens[kept >= i, i], minlength=V), p) for i, p in enumerate(P)]
    assert min(by_place) > 1 / WRONG_ONCE_IN
    first, second = (float(a) for a in acceptance(P[:K], Q))
    assert (first, second) == pytest.approx((0.7, 0.6))
    # Of the guesses the expected share stays: 40,000 draws, four standard deviations of a count.
    assert abs((kept >= 1).mean() - first) < 4 * (first * (1 - first) / DRAWS) ** 0.5
    assert abs((kept == 2).mean() - first * second) < 4 * (0.42 * 0.58 / DRAWS) ** 0.5


# ---- the loops, on a small decoder. Its greedy text is found with no cache and no guesses.

C = FAMILIES["one layer"]
PARAMS = random_params(C)
PROMPT, N, GUESSES = [3, 1, 4, 1, 5], 24, 3
forward_padded = jax.jit(partial(forward, c=C))


@pytest.fixture(scope="module")
def plain():
    tokens = list(PROMPT)
    for _ in range(N):
        padded = jnp.array([tokens + [0] * (len(PROMPT) + N - len(tokens))])
        tokens.append(int(forward_padded(PARAMS, padded)[0, len(tokens) - 1].argmax()))
    return tokens[len(PROMPT) :]


def reader():
    return Reader(PARAMS, C, size=len(PROMPT) + N, width=GUESSES + 1)


def at_random(tokens, k):
    """Some guesses, sometimes fewer than were asked for."""
    draw = np.random.default_rng(len(tokens))
    return draw.integers(0, C.V, draw.integers(0, k + 1)).tolist()


def looked_up(said):
    """Tokens of each pass when guesses come from the text so far: where its last three, two or one stood before."""
    text, now, passes = "".join(map(chr, said)), len(PROMPT), []
    while now < len(text):
        seen = [
            text.rfind(text[now - n : now], 0, now - 1) + n for n in (3, 2, 1) if text[now - n : now] in text[: now - 1]
        ]
        guess = text[seen[0] : min(now, seen[0] + GUESSES)] if seen else ""
        kept = len(commonprefix([guess, text[now : len(text) - 1]])) + 1
        passes.append(kept)
        now += kept
    return passes


def test_greedy_says_what_it_would_say_alone(plain):
    """Whatever the guesser; n-grams take the passes that a search of the text says, and K + 1 tokens a pass of
    a text that goes in circles."""
    said = PROMPT + plain

    def right(tokens, k):
        return said[len(tokens) : len(tokens) + k]

    def wrong(tokens, k):
        return [(t + 1) % C.V for t in said[len(tokens) : len(tokens) + k]]

    drafters = dict(
        ngram=NGram(),
        knows=NGram(len(said), said[:-1]),
        right=right,
        wrong=wrong,
        random=at_random,
        itself=DraftModel(reader()),
    )
    passes = {}
    for name, drafter in drafters.items():
        tokens, passes[name] = greedy(reader(), drafter, PROMPT, N, GUESSES)
        assert tokens == plain, name
        assert sum(passes[name]) == N and all(1 <= n <= GUESSES + 1 for n in passes[name])
    assert len(passes["wrong"]) == N
    assert len(passes["right"]) == len(passes["itself"]) == N / (GUESSES + 1)
    assert len(passes["knows"]) <= N / (GUESSES + 1) + 1  # the text is in what it looks at: wrong only at its end
    assert passes["ngram"] == looked_up(said) and len(passes["ngram"]) < N  # random weights soon go in circles
    assert greedy(CIRCLE, NGram(), [0, 1, 2, 0], 12, GUESSES) == ([1, 2, 0] * 4, [GUESSES + 1] * 3)


def test_a_guess_costs_the_target_no_second_reading(plain):
    target = reader()
    _, passes = greedy(target, NGram(), PROMPT, N, 0)
    assert len(passes) == N and target.tokens_read == len(PROMPT) + N - 1


class Table:
    """What needs no model: the next token depends on the last one only."""

    def __init__(self, *laws):
        self.laws = np.array(laws)

    def __call__(self, tokens, count):
        return np.log(self.laws[list(tokens[-count:])])


CIRCLE = Table(*(np.roll(np.eye(3), 1, 1) + 1e-9))


def test_n_grams_look_for_the_latest_place_and_in_what_stands_before():
    assert NGram()([1, 2, 3, 1, 2], 2) == [3, 1] and NGram()([1, 2, 3], 2) == []
    assert NGram(before=[7, 2, 5, 6])([1, 2], 2) == [5, 6]


def test_what_cannot_be_speculated():
    with pytest.raises(ValueError, match="needs a prompt"):
        greedy(reader(), at_random, [], 3, 2)
    with pytest.raises(ValueError, match="do not fit|does not fit"):
        greedy(reader(), at_random, PROMPT, N + 5, 2)
