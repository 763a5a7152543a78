"""Speculative sampling: guess some tokens cheaply, check them all in one pass of the model, keep what it agrees with (chapter 5).

    target = Reader(params, c, size=160, width=5)
    tokens, passes = greedy(target, NGram(c.V), prompt, n=40, gamma=4)       # what plain greedy decoding says, in fewer passes
    tokens, passes = sample(key, target, DraftModel(small), prompt, n=40, gamma=4)   # drawn by the target's law
    passes                                                                  # tokens that each pass of the target gave

A drafter is any function  (tokens so far, k, key or None) -> (at most k guesses, the law q[k, V] that each was drawn by).
What it guesses changes how fast tokens come and nothing else: the greedy tokens are the same for any drafter, the drawn ones
have the same law.

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

Drafter = Callable[[Sequence[int], int, jax.Array | None], tuple[list[int], np.ndarray]]


# The rule.


def accept(key, guess, q, p):
    """Which guesses stay, and the token after them: (tokens[γ + 1], how many of them are guesses that stayed).

    guess   [γ], each drawn by its row of q
    q       [γ, V]: the drafter's laws; a row of zeros means that there was no guess
    p       [γ + 1, V]: the target's laws in the same places, and in the one after

    A guess x stays with the chance min(1, p(x)/q(x)). The first one that is refused is drawn again, from (p - q)₊; if none is
    refused, the target's law after them all gives one more. Tokens beyond that one are -1.
    """
    operands.fit({"guess[γ]": guess, "q[γ, V]": q, "p[γ+1, V]": p})
    gamma, chances, redraw = len(guess), *jax.random.split(key)
    u = jax.random.uniform(chances, (gamma,))
    mine, its = (jnp.take_along_axis(a[:gamma], guess[:, None], -1)[:, 0] for a in (q, p))
    stays = (mine > 0) & (u * mine < its)
    kept = jnp.cumprod(stays.astype(jnp.int32)).sum()
    law = residual(p, jnp.concatenate([q, jnp.zeros_like(p[:1])]))[kept]
    last = jax.random.categorical(redraw, jnp.log(law))
    place = jnp.arange(gamma + 1)
    tokens = jnp.where(place < kept, jnp.append(guess, 0), jnp.where(place == kept, last, -1))
    return tokens, kept


def agreed(guess: Sequence[int], best: Sequence[int]) -> list[int]:
    """The guesses that are the target's own choice, up to the first that is not, and its choice in that place.

    >>> agreed([4, 7, 1], best=[4, 7, 2, 9])
    [4, 7, 2]
    >>> agreed([4, 7, 2], best=[4, 7, 2, 9])
    [4, 7, 2, 9]
    """
    kept = next((i for i, (g, b) in enumerate(zip(guess, best)) if g != b), len(guess))
    return [int(t) for t in best[: kept + 1]]


# The loops.


def greedy(target: "Reader", drafter: Drafter, prompt: Sequence[int], n: int, gamma: int):
    """(n tokens, how many each pass of the target gave): always the target's likeliest token."""

    def check(guess, q, logits):
        return agreed(guess, logits.argmax(-1))

    return _speculate(target, drafter, prompt, n, gamma, check, lambda: None)


def sample(
    key, target: "Reader", drafter: Drafter, prompt: Sequence[int], n: int, gamma: int, temperature: float = 1.0
):
    """(n tokens, how many each pass of the target gave): drawn by the target's law at this temperature."""
    if temperature <= 0:
        raise ValueError(f"a temperature is above 0, got {temperature}: for the likeliest token call `greedy`")
    keys = iter(jax.random.split(key, 2 * n))  # for each pass one to draft with, and one to check with

    def check(guess, q, logits):
        padded = lambda a, rows: np.concatenate([a, np.zeros((rows - len(a), *a.shape[1:]), a.dtype)])  # noqa: E731
        guess, q, logits = padded(np.array(guess, np.int32), gamma), padded(q, gamma), padded(logits, gamma + 1)
        tokens, kept = jax.device_get(_accept(next(keys), guess, q, logits, temperature))
        return tokens[: kept + 1].tolist()

    return _speculate(target, drafter, prompt, n, gamma, check, lambda: next(keys))


@jax.jit
def _accept(key, guess, q, logits, temperature):
    return accept(key, guess, q, jax.nn.softmax(logits / temperature, -1))


def _speculate(target, drafter, prompt, n, gamma, check, key):
    if gamma < 0 or not len(prompt):
        raise ValueError(f"speculation needs a prompt and 0 or more guesses: got {len(prompt)} tokens and {gamma}")
    tokens, passes = [int(t) for t in prompt], []
    while (left := len(prompt) + n - len(tokens)) > 0:
        # A pass gives one token besides the guesses: at the end fewer are worth guessing.
        guess, q = drafter(tokens, min(gamma, left - 1), key())
        kept = check(guess, q, target(tokens + guess, len(guess) + 1))
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
        same = next(
            (i for i, (a, b) in enumerate(zip(tokens, self.known)) if a != b), min(len(tokens), len(self.known))
        )
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

    >>> guess, q = NGram(V=5, longest=2)([1, 2, 3, 4, 1, 2], 3)
    >>> guess
    [3, 4, 1]
    """

    def __init__(self, V: int, longest: int = 3, before: Sequence[int] = ()):
        self.V, self.longest, self.before = V, longest, list(before)

    def __call__(self, tokens, k, key=None):
        guess = self._after(self.before + list(tokens), k)
        return guess, np.eye(self.V, dtype=np.float32)[guess]  # certain of each

    def _after(self, tokens, k):
        for n in range(min(self.longest, len(tokens) - 1), 0, -1):
            for i in range(len(tokens) - n - 1, -1, -1):  # the latest place is the likeliest to go on alike
                if tokens[i : i + n] == tokens[-n:]:
                    return tokens[i + n : i + n + k]
        return []


class DraftModel:
    """A smaller model guesses, token by token: its likeliest ones, or, given a key, drawn at the temperature."""

    def __init__(self, reader: Reader, temperature: float = 1.0):
        self.reader, self.temperature = reader, temperature

    def __call__(self, tokens, k, key=None):
        guess, laws = [], []
        for i in range(k):
            logits = self.reader(list(tokens) + guess, 1)[0]
            if key is None:
                drawn, law = logits.argmax(), np.eye(len(logits), dtype=np.float32)[logits.argmax()]
            else:
                drawn, law = jax.device_get(_draw(key, i, logits, self.temperature))
            guess.append(int(drawn))
            laws.append(law)
        return guess, np.array(laws, np.float32).reshape(k, self.reader.c.V)


@jax.jit
def _draw(key, i, logits, temperature):
    """The i-th token by this key, and the law it was drawn by."""
    return jax.random.categorical(jax.random.fold_in(key, i), logits / temperature), jax.nn.softmax(
        logits / temperature
    )


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
