"""The model that learns to speak on the page: its text, that it learns, and that it says what it has read."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.transformers.config import Config
from helpers.kernels.inference import tiny_language_model

RHYME = json.loads((Path(__file__).parents[4] / "book/data/rhyme.json").read_text(encoding="utf-8"))
TEXT = "\n".join(RHYME["lines"])
LETTERS = tiny_language_model.alphabet(TEXT)
TOKENS = tiny_language_model.encode(TEXT, LETTERS)
C = Config(D=32, L=1, N=2, K=1, H=16, F=64, V=len(LETTERS), tied=True)


@pytest.mark.slow
def test_a_few_steps_learn_and_the_same_seed_gives_the_same_weights():
    first, losses = tiny_language_model.train(C, TOKENS, steps=12)
    again, _ = tiny_language_model.train(C, TOKENS, steps=12)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again)))
    assert losses[0] > 0.9 * np.log(len(LETTERS))  # it knows nothing at first
    assert losses[-1] < 0.85 * losses[0]
    other, _ = tiny_language_model.train(C, TOKENS, steps=12, seed=1)
    assert not np.array_equal(first["embedding"], other["embedding"])


def test_what_it_has_never_read():
    with pytest.raises(ValueError, match=r"never read \['!', 'Q'\]"):
        tiny_language_model.encode("Q!", LETTERS)
    with pytest.raises(ValueError, match="no excerpt of 128"):
        tiny_language_model.train(C, TOKENS[:128], steps=1)


def exercise_319():
    """Our answer to Exercise 3.19, as a learner might write it."""
    source = (Path(__file__).parents[4] / "solutions/ch03_transformers.md").read_text(encoding="utf-8")
    space = {"jax": jax, "jnp": jnp}
    exec(re.search(r"grade_id: ch03-q19,.*?---\n(.*?)```", source, re.S)[1], space)
    return space["decoder_layer"]


@pytest.mark.slow("compiles four layers")
def test_a_layer_of_ones_own_stands_in_the_decoder():
    layer = exercise_319()
    assert tiny_language_model.agrees(layer)
    assert not tiny_language_model.agrees(lambda x, *weights: x)
    assert not tiny_language_model.agrees(lambda x, q, k, *rest: layer(x, k.repeat(2, 1), k, *rest))
    assert not tiny_language_model.agrees(lambda x, *w: layer(x, *w[:4], w[5], w[4], w[6]))
    with pytest.raises(ValueError, match="no positions in it"):
        tiny_language_model.train(C, TOKENS, steps=1, layer=layer)


@pytest.mark.slow("compiles two training steps")
def test_a_layer_of_ones_own_learns_alike():
    """Its norms have no scales: after some steps ours have, so equal losses show that they reach the right weights."""
    c = tiny_language_model.speaker(len(LETTERS), 256)
    params, theirs = tiny_language_model.train(c, TOKENS, steps=8, layer=exercise_319())
    _, ours = tiny_language_model.train(c, TOKENS, steps=8)
    assert np.allclose(theirs, ours, rtol=1e-3) and np.ptp(params["layers"][0]["norms"]) > 1e-3


@pytest.mark.slow
@pytest.mark.full("trains for half a minute; a few steps are trained by make test")
def test_words_come_out():
    params, losses = tiny_language_model.train(tiny_language_model.speaker(len(LETTERS)), TOKENS)
    assert losses[0] > 3 and np.mean(losses[-10:]) < 0.2
    start, c = "This is the page", tiny_language_model.speaker(len(LETTERS))
    tokens, _ = tiny_language_model.generate(params, jnp.array([tiny_language_model.encode(start, LETTERS)]), 90, c)
    assert start + tiny_language_model.decode(tokens[0], LETTERS) in TEXT
