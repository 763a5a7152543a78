"""Text from a decoder in two ways: the whole prefix again for every token, and with a cache (chapter 5).

To make n tokens, `recompute` passes 1 + 2 + … + n = n(n + 1)/2 tokens through the MLPs (for a prompt of one), and attention
computes 1 + 4 + … + n² scores. With a cache it is n tokens, and n scores in each step at most.

Source: Austin et al. 2025, Section 7.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.transformers import decoder

from . import kv_cache


def greedy(logits):
    """The likeliest token of logits[..., V]."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def recompute(params: dict, prompt, n: int, c: Config, choose: Callable = greedy):
    """n tokens after prompt[B, T], the whole text in every step: (tokens[B, n], logits[B, n, V] that chose them)."""
    _some(n)
    kv_cache.room(c, prompt.shape[1] + n, prompt.shape[1], n)
    text, said = prompt, []
    for _ in range(n):
        said.append(decoder.forward(params, text, c)[:, -1])
        text = jnp.concatenate([text, choose(said[-1])[:, None]], axis=1)
    return text[:, prompt.shape[1] :], jnp.stack(said, axis=1)


def generate(params: dict, prompt, n: int, c: Config, choose: Callable = greedy, size: int | None = None):
    """The same with a cache of `size` places (as many as are used, without it): the prompt once, then a token at a time.

    choose   a function of the logits alone, as it has no key to draw with
    """
    T = prompt.shape[1]
    size = T + n - 1 if size is None else size
    _some(n)
    kv_cache.room(c, size, T, n)
    first, cache = decoder.prefill(params, prompt, c, size)

    def step(state, t):
        logits, cache = state
        token = choose(logits)
        logits, cache = decoder.decode(params, cache, token, t, c)
        return (logits, cache), logits

    _, said = lax.scan(step, (first, cache), T + jnp.arange(n - 1))
    said = jnp.concatenate([first[:, None], said.swapaxes(0, 1)], axis=1)
    return choose(said), said


def _some(n: int) -> None:
    if n < 1:
        raise ValueError(f"one token or more is asked for, not {n}")
