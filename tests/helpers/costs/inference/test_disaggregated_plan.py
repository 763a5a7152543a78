"""Disaggregated serving against a search that tries everything."""

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, strategies as st

from helpers.costs.inference.disaggregated_plan import _numbers, disaggregated_plans
from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.serving_plan import deployments
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

OF_EIGHT = model("llama-3-8b"), chip("H100"), 8, 4000, 500, ENGINES["vllm"]


def test_no_other_number_of_servers_serves_more():
    for a in list(disaggregated_plans(*OF_EIGHT))[::7]:
        n, m = int(a.prefill.deployment.chips), int(a.decode.deployment.chips)
        reads = a.at_once * a.busy / a.prefill.prefill(4000, a.at_once).mid
        answers = a.batch / (500 * a.decode.decode(a.batch, 4250).mid)
        every = [min(x * reads, y * answers) for x in range(1, 9) for y in range(1, 9) if x * n + y * m <= 8]
        assert a.rate == pytest.approx(max(every)) and a.chips <= 8


@given(st.integers(2, 300), *(st.integers(1, 9) for _ in range(2)), *(st.floats(0.1, 50) for _ in range(2)))
def test_numbers_of_servers_are_those_of_a_loop(chips, n, m, rate, answered):
    loop = [(min(x * rate, y * answered)) for x in range(1, chips) if (y := (chips - x * n) // m) > 0]
    found = _numbers(chips, n, rate, m, answered)
    assert (found is None) == (not loop)
    assert found is None or min(found[0] * rate, found[1] * answered) == max(loop)


V3_ON_64 = model("deepseek-v3"), chip("H200"), 64, 1000, 500, ENGINES["sglang"], Deployment(weights="fp8", rest="fp8")


@cache
def prefill_servers() -> dict[int, list[tuple[float, float]]]:
    """Chips -> (prompts/s, first token) of every server with every number of prompts in a budget of 8,192 tokens."""
    every = {}
    for d in deployments(V3_ON_64[0], V3_ON_64[1], 64, V3_ON_64[-1]):
        s = Server(V3_ON_64[0], V3_ON_64[1], replace(d, replicas=1), V3_ON_64[-2])
        for each, busy in product((1, 2, 3, 4, 6, 8), (0.5, 0.7, 0.9)):
            n = each * s.deployment.dp
            if n <= s.most(1000):
                pass_seconds = s.prefill(1000, n).mid
                moved = n * kv_cache(V3_ON_64[0], 1000) / (s.deployment.chips * V3_ON_64[1].dcn_bandwidth)
                wait = busy / 2 / (1 - busy) * pass_seconds  # Pollaczek and Khinchine
                soon = pass_seconds + wait + moved + s.engine.first
                every.setdefault(s.deployment.chips, []).append((n * busy / pass_seconds, soon))
    return every


@walks([None, 2.0, 0.7, 0.05])
def test_prefill_servers_read_most_of_those_that_are_in_time(first):
    """The most prompts/s of every server on so many chips that keeps a first token, or where none does, the soonest."""
    every = prefill_servers()
    found = {(a.prefill.deployment.chips, a.first.mid) for a in disaggregated_plans(*V3_ON_64, first)}
    chips = {n for n, _ in found}
    assert len(chips) == len(found) > 1
    for n, soon in found:
        in_time = [x for x in every[n] if first is None or x[1] <= first]
        best = max(in_time)[1] if in_time else min(s for _, s in every[n])
        assert soon == pytest.approx(best)


def test_a_gap_has_no_prompts_and_a_first_token_waits_for_its_cache():
    some = list(disaggregated_plans(*OF_EIGHT))
    assert all(set(a.gap.parts) == set(a.decode.decode(1, 4250).parts) for a in some)
    a = max(some, key=lambda a: a.rate)
    bytes_sent = kv_cache(OF_EIGHT[0], 4000)
    assert a.sent == bytes_sent
    assert a.first.parts["network"] == pytest.approx(
        a.at_once * bytes_sent / (a.prefill.deployment.chips * OF_EIGHT[1].dcn_bandwidth)
    )
    assert sum(a.first.parts.values()) == pytest.approx(a.first.mid)
