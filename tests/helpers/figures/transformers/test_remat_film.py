"""The film of chapter 3: what its layers hold against `helpers.costs`, and on a page."""

from dataclasses import replace

import pytest

from helpers import figures
from helpers.costs.transformers.parameters_and_flops import flops
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.training_memory_bytes import POLICIES, saved, train_flops
from helpers.figures.transformers.remat_film.figure import remat

C, T = replace(model("llama-3-8b"), L=3), 2048


@pytest.mark.parametrize("policy", POLICIES[:3])
def test_layers_hold_what_the_policy_keeps_and_in_the_end_nothing(policy):
    film = remat(C, T, policy)
    kept = saved(C, 1, T, policy) / C.L
    assert film.full == pytest.approx(saved(C, 1, T, "everything") / C.L)
    assert film.frames[C.L].held == pytest.approx((kept,) * C.L) and set(film.frames[-1].held) == {0}
    for before, frame in zip(film.frames, film.frames[1:]):
        wanted = {"forward": kept, "forward again": film.full, "backward": 0}[frame.kind]
        assert frame.held[frame.layer] == pytest.approx(wanted)
        others = [(a, b) for i, (a, b) in enumerate(zip(before.held, frame.held)) if i != frame.layer]
        assert all(a == pytest.approx(b) for a, b in others)
    f = flops(C, 1, T)
    assert film.frames[-1].spent == pytest.approx(C.L * (train_flops(C, 1, T, policy) - 3 * f.unembedding) / f.layers)


def test_before_its_backward_pass_a_layer_holds_everything():
    for film in figures.figure("remat").films.values():
        for before, frame in zip(film.frames, film.frames[1:]):
            if frame.kind == "backward":
                assert before.held[frame.layer] == pytest.approx(film.full)


def test_it_draws_every_layer():
    figure = figures.figure("remat")
    film = figure.films["block"]
    assert figure.drawing(film, film.frames[0]).count("layer ") == len(film.frames[0].held)
