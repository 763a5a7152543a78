"""A small decoder that is trained on the page, in less than a minute, and then says the text it has read (chapter 5).

    letters = alphabet(text)
    c = speaker(len(letters))
    params, losses = train(c, encode(text, letters))
    tokens, _ = generate(params, jnp.array([encode("This is the page", letters)]), 60, c)
    decode(tokens[0], letters)

A token is a character. The same text, sizes and seed give the same weights on the same machine.

Text comes from it, or from any decoder, in two ways: the whole prefix again for every token, and with a cache. To make n tokens,
`recompute` passes 1 + 2 + … + n = n(n + 1)/2 tokens through the MLPs (for a prompt of one), and attention computes
1 + 4 + … + n² scores. With a cache it is n tokens, and n scores in each step at most.

Source: Austin et al. 2025, Section 7.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.adam import Adam
from helpers.kernels.transformers.decoder import hidden, init, loss, unembed

from . import kv_cache

ROWS, SPAN = 8, 128  # excerpts in a step of training, tokens in each: the model has seen no position beyond


def alphabet(text: str) -> str:
    """The characters of a text, each once, in order: the place of one is its token.

    >>> alphabet("banana")
    'abn'
    """
    return "".join(sorted(set(text)))


def encode(text: str, letters: str) -> list[int]:
    """
    >>> encode("ban", "abn")
    [1, 0, 2]
    """
    if strange := sorted(set(text) - set(letters)):
        raise ValueError(f"the model has never read {strange}: it knows the letters {letters!r}")
    return [letters.index(x) for x in text]


def decode(tokens, letters: str) -> str:
    """
    >>> decode([1, 0, 2], "abn")
    'ban'
    """
    return "".join(letters[int(t)] for t in tokens)


def speaker(V: int, positions: int = 0) -> Config:
    """The model that speaks.

    positions   rows of a learned table of positions, for layers that have none in them; 0: queries and keys are rotated
    """
    return Config(D=64, L=2, N=4, K=2, H=16, F=128, V=V, tied=True, positions=positions)


def with_layer(layer: Callable | None) -> Callable:
    """What puts somebody's layer in the place of the decoder's own, for `decoder.loss` and `decoder.hidden`; None: ours stays.

    layer   (x[B, T, D], W_Q, W_K, W_V, W_O, W_gate, W_in, W_out) -> [B, T, D], of Exercise 3.19: its norms have no scales and its
            queries and keys no positions. So scales are multiplied into the weights that read them, and the model
            needs a learned table of positions
    """

    def around(given_layer: Callable) -> Callable:
        def run(x, params: dict):
            one, two = params["norms"][:, 0]  # [D] each
            heads = [one[:, None, None] * params[name] for name in ("W_Q", "W_K", "W_V")]
            return layer(
                x, *heads, params["W_O"], *(two[:, None] * params[name] for name in ("W_gate", "W_in")), params["W_out"]
            )

        return run if layer else given_layer

    return around


def agrees(layer: Callable) -> bool:
    """Whether a layer gives what ours gives, on seven random tokens."""
    c = Config(D=8, L=1, N=4, K=2, H=4, F=12, V=5, positions=7)
    params, tokens = init(c, jax.random.key(0)), jnp.arange(7)[None] % c.V
    return np.allclose(hidden(params, tokens, c, with_layer(layer)), hidden(params, tokens, c), atol=1e-3)


def logits(params: dict, tokens, c: Config, layer: Callable | None = None):
    """Of the token after each of tokens[B, T], without a cache: [B, T, V]."""
    return unembed(params, hidden(params, tokens, c, with_layer(layer)), c)


def train(c: Config, tokens, steps: int = 250, seed: int = 0, layer: Callable | None = None):
    """(parameters, the loss before each step [steps]): each step reads ROWS excerpts of SPAN tokens, drawn at random.

    layer   somebody's own, as in `with_layer`
    """
    if layer and not c.positions:
        raise ValueError("a layer of one's own has no positions in it: train a model with a table, speaker(V, 256)")
    if len(tokens) <= SPAN:
        raise ValueError(f"a text of {len(tokens)} tokens has no excerpt of {SPAN} and the one after: make it longer")
    starts = np.random.default_rng(seed).integers(0, len(tokens) - SPAN, (steps, ROWS))
    return _train(c, layer, jnp.asarray(tokens, jnp.int32), jnp.asarray(starts), jax.random.key(seed))


@partial(jax.jit, static_argnums=(0, 1))
def _train(c: Config, layer: Callable | None, tokens, starts, key):
    """All steps as one program. A narrow model takes longer steps, and they shrink to nothing, which settles the weights."""
    adam = Adam(rate=0.5 / c.D, b2=0.99)

    def step(carry, start_and_rate):
        params, moments = carry
        at, left = start_and_rate
        excerpts = tokens[at[:, None] + jnp.arange(SPAN + 1)]  # [ROWS, SPAN + 1]
        before, gradients = jax.value_and_grad(loss)(params, excerpts, c, with_layer(layer))
        moved, moments = adam.update(params, gradients, moments)
        params = jax.tree.map(lambda p, m: p + left * (m - p), params, moved)
        return (params, moments), before

    params = init(c, key)
    left = 1 - jnp.arange(len(starts)) / len(starts)
    (params, _), losses = lax.scan(step, (params, adam.start(params)), (starts, left))
    return params, losses


# Text from any decoder.


def greedy(logits):
    """The likeliest token of logits[..., V]."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def recompute(params: dict, prompt, n: int, c: Config, choose: Callable = greedy):
    """n tokens after prompt[B, T], the whole text in every step: (tokens[B, n], logits[B, n, V] that chose them)."""
    operands.whole(n=n)
    kv_cache.room(c, prompt.shape[1] + n, prompt.shape[1], n)
    text, said = prompt, []
    for _ in range(n):
        said.append(decoder.forward(params, text, c)[:, -1])
        text = jnp.concatenate([text, choose(said[-1])[:, None]], axis=1)
    return text[:, prompt.shape[1] :], jnp.stack(said, axis=1)


def generate(
    params: dict, prompt, n: int, c: Config, choose: Callable = greedy, size: int | None = None, layer: Callable = decoder.block
):  # fmt: skip
    """The same with a cache of `size` places (as many as are used, without it): the prompt once, then a token at a time.

    choose   a function of the logits alone, as it has no key to draw with
    layer    as in `decoder.through`
    """
    T = prompt.shape[1]
    size = size or T + n - 1
    operands.whole(n=n)
    kv_cache.room(c, size, T, n)
    first, cache = decoder.prefill(params, prompt, c, size, layer)

    def step(state, t):
        logits, cache = state
        token = choose(logits)
        logits, cache = decoder.decode(params, cache, token, t, c, layer)
        return (logits, cache), logits

    _, said = lax.scan(step, (first, cache), T + jnp.arange(n - 1))
    said = jnp.concatenate([first[:, None], said.swapaxes(0, 1)], axis=1)
    return choose(said), said
