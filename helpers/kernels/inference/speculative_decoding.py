"""Speculative decoding: draft some tokens cheaply, check them all in one pass of the model, keep what it agrees with (chapter 5).

    target = Reader(params, c, size=160, width=5)
    tokens, passes = greedy(target, NGram(), prompt, n=40, gamma=4)  # what plain greedy decoding says, in fewer passes
    passes                                                         # tokens that each pass of the target gave
    tokens, kept = accept(key, guess, q, p)                         # the rule for tokens that are drawn

A drafter is any function  (tokens so far, k) -> at most k guesses. What it guesses changes how fast tokens come and nothing else:
the greedy tokens are the same for any drafter, and drawn ones have the target's distribution.

Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2022); Chen et al. (2023);
Saxena, "Prompt Lookup Decoding" (2023) for guesses from the text itself.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from helpers.costs.inference.speculative_decoding import residual
from helpers.costs.transformers.config import Config
from helpers.kernels import operands

from . import kv_cache

Drafter = Callable[[Sequence[int], int], list[int]]


# The rule.


def accept(key, drafted, q, p):
    """Which guesses stay, and the token after them: (tokens[γ + 1], how many of them are guesses that stayed).

    drafted  [γ], each drawn by its row of q
    q        [γ, V]: the drafter's distributions; a row of zeros means that there was no guess
    p        [γ + 1, V]: the target's distributions in the same places, and in the one after

    A guess x stays with probability min(1, p(x)/q(x)). The first one that is refused is drawn again, from (p - q)₊; if none is
    refused, the target's distribution after them all gives one more. Tokens beyond that one are -1.
    """
    operands.fit({"guess[γ]": drafted, "q[γ, V]": q, "p[γ+1, V]": p})
    gamma, chances, redraw = len(drafted), *jax.random.split(key)
    u = jax.random.uniform(chances, (gamma,))
    mine, its = (jnp.take_along_axis(a[:gamma], drafted[:, None], -1)[:, 0] for a in (q, p))
    stays = (mine > 0) & (u * mine < its)
    kept = jnp.cumprod(stays.astype(jnp.int32)).sum()
    law = residual(p, jnp.concatenate([q, jnp.zeros_like(p[:1])]))[kept]
    last = jax.random.categorical(redraw, jnp.log(law))
    place = jnp.arange(gamma + 1)
    return jnp.where(place < kept, jnp.append(drafted, 0), jnp.where(place == kept, last, -1)), kept


def agreed(drafted: Sequence[int], choices: Sequence[int]) -> list[int]:
    """The guesses that are the target's own choice, up to the first that is not, and its choice in that place.

    >>> agreed([4, 7, 1], choices=[4, 7, 2, 9])
    [4, 7, 2]
    >>> agreed([4, 7, 2], choices=[4, 7, 2, 9])
    [4, 7, 2, 9]
    """
    return [int(t) for t in choices[: _alike(drafted, choices) + 1]]


def _alike(tokens: Sequence[int], other_tokens: Sequence[int]) -> int:
    """How many tokens two sequences have in common from their beginning."""
    return next(
        (i for i, (x, y) in enumerate(zip(tokens, other_tokens)) if x != y), min(len(tokens), len(other_tokens))
    )


# The loop.


def greedy(target: "Reader", drafter: Drafter, prompt: Sequence[int], n: int, gamma: int):
    """(n tokens, how many each pass of the target gave): always the target's likeliest token, guessed up to γ at a time."""
    if gamma < 0 or not len(prompt):
        raise ValueError(f"speculation needs a prompt and 0 or more drafts: got {len(prompt)} tokens and gamma={gamma}")
    tokens, passes = [int(t) for t in prompt], []
    while (left := len(prompt) + n - len(tokens)) > 0:
        # A pass gives one token besides the guesses: at the end fewer are worth guessing.
        guess = drafter(tokens, min(gamma, left - 1))
        kept = agreed(guess, target(tokens + guess, len(guess) + 1).argmax(-1))
        tokens += kept
        passes.append(len(kept))
    return tokens[len(prompt) :], passes


class Reader:
    """A model, and the cache of the one text that it is reading.

    `reader(tokens, count)` gives logits[count, V], after each of the last `count` tokens. What it has in the cache it does
    not read again; where the text differs from the one it read, as after a refused guess, it goes back to that place.

    size    tokens that the cache holds;  width   tokens that one pass reads at most
    """

    def __init__(self, params, c: Config, size: int, width: int):
        self.params, self.c, self.size, self.width = params, c, size, width
        self.cache, self.known = kv_cache.empty(c, 1, size, slack=width), []
        self.tokens_read = 0

    def __call__(self, tokens: Sequence[int], count: int) -> np.ndarray:
        kv_cache.room(self.c, self.size, len(tokens))
        same = _alike(tokens, self.known)
        start = min(same, len(tokens) - count)
        out = []
        for at in range(start, len(tokens), self.width):
            piece = list(tokens[at : at + self.width])
            padded = np.array([piece + [0] * (self.width - len(piece))], np.int32)
            logits, self.cache = _read(self.params, self.cache, padded, np.array([at]), self.c, np.array([len(piece)]))
            out.append(np.asarray(logits[0, : len(piece)]))
        self.known = list(tokens)
        self.tokens_read += len(tokens) - start
        return np.concatenate(out)[-count:]


_read = jax.jit(kv_cache.extend, static_argnums=4)


# Drafters.


class NGram:
    """Looks for the last few tokens earlier in the text, and guesses what stood after them: no model, nearly no cost.

    longest   tokens to look for at first; when they never stood before, one less, and so on
    before    a text to look in besides, such as the document that a question is about

    >>> NGram(max_n=2)([1, 2, 3, 4, 1, 2], 3)
    [3, 4, 1]
    """

    def __init__(self, max_n: int = 3, before: Sequence[int] = ()):
        self.longest, self.before = max_n, list(before)

    def __call__(self, tokens, k):
        tokens = self.before + list(tokens)
        for n in range(min(self.longest, len(tokens) - 1), 0, -1):
            for i in range(len(tokens) - n - 1, -1, -1):  # the latest place is the likeliest to go on alike
                if tokens[i : i + n] == tokens[-n:]:
                    return tokens[i + n : i + n + k]
        return []


class DraftModel:
    """A smaller model guesses its likeliest tokens, one after the other."""

    def __init__(self, reader: Reader):
        self.reader = reader

    def __call__(self, tokens, k):
        guess = []
        for _ in range(k):
            guess.append(int(self.reader(list(tokens) + guess, 1)[0].argmax()))
        return guess


# Whether draws have a law.


def chance(counts, p) -> float:
    """The chance that draws by p differ from their expected counts as much as these do, or more (Pearson's chi-square test).

    A test that calls a law wrong below 0.001 is wrong itself once in a thousand times that the law is right.

    >>> round(chance([60, 40], [0.5, 0.5]), 4)
    0.0455
    """
    counts, expected = np.asarray(counts, float), np.asarray(p, float) * np.sum(counts)
    can = expected > 0
    if counts[~can].any():
        return 0.0  # a token that p never draws was drawn
    statistic = ((counts - expected)[can] ** 2 / expected[can]).sum()
    return float(jax.scipy.special.gammaincc((can.sum() - 1) / 2, statistic / 2))
