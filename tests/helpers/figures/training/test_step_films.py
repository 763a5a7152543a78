"""The film of a training step: what it sends and holds against `helpers.costs`, and on a page."""

import pytest

from helpers.costs.training.closed_forms import WAYS, zero_memory
from helpers.figures.training.step_films.step_films import ZERO, film

COSTS = {"DP": "DP, summed once"}


@pytest.mark.parametrize("strategy", ZERO)
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_it_sends_what_the_costs_say(strategy, layers):
    """An AllReduce is a scatter and a gather."""
    kinds = [step.sends for step in film(strategy, layers).frames]
    gathers = kinds.count("AllGather") + kinds.count("AllReduce")
    scatters = kinds.count("ReduceScatter") + kinds.count("AllReduce")
    how = WAYS[COSTS.get(strategy, strategy)]
    want = [micro + step for micro, step in zip(how.micro, how.step)]
    assert [gathers, scatters] == [layers * n for n in want]


@pytest.mark.parametrize("strategy", ZERO)
def test_before_adam_a_device_holds_what_zero_memory_says(strategy):
    frames = film(strategy, 3).frames
    at = next(i for i, step in enumerate(frames) if step.label == "Adam") - 1
    share = {"part": 1 / 4, "whole": 1.0}
    for layer in frames[at].layers:
        weights, gradients, state = zero_memory(1.0, 4, ZERO[strategy])
        whole = zero_memory(1.0, 1, 0)
        got = share[layer.W], share[layer.dW], share[layer.A]
        want = [weights / whole[0], gradients / whole[1], state / whole[2]]
        if strategy == "ZeRO-1":
            want[1] = 1 / 4  # it is scattered before the update, but held whole until then
        assert list(got) == want


def test_fsdp_has_one_layer_whole_at_a_time():
    frames = film("FSDP", 4).frames
    assert max(sum(layer.W == "whole" for layer in step.layers) for step in frames) == 1
    for step in frames:
        if step.label.startswith(("Forward", "Backward")):
            assert step.layers[int(step.label[-1])].W == "whole"


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="no film of 'TP': there are DP"):
        film("TP")
