"""Prefill and decode on servers of their own, against every number of servers, and against what they do together."""

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_disaggregated import BUSY, best_disaggregated, disaggregated_plans
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.serving_plan import Target, plan
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.kv_cache import kv_cache
from helpers.costs.transformers.public_models import model

CASE = model("llama-3-8b"), chip("H100"), 8, 4000, 500, ENGINES["vllm"]


def test_no_other_number_of_servers_serves_more():
    for a in list(disaggregated_plans(*CASE))[::7]:
        n, m = int(a.prefill.at.chips), int(a.decode.at.chips)
        reads, answers = BUSY / a.prefill.prefill(4000).mid, a.batch / (500 * a.decode.decode(a.batch, 4250).mid)
        every = [min(x * reads, y * answers) for x in range(1, 9) for y in range(1, 9) if x * n + y * m <= 8]
        assert a.rate == pytest.approx(max(every)) and a.chips <= 8


def test_a_gap_has_no_prompts_and_a_first_token_waits_for_its_cache():
    some = list(disaggregated_plans(*CASE))
    assert all(set(a.gap.parts) == set(a.decode.decode(1, 4250).parts) for a in some)
    a = max(some, key=lambda a: a.rate)
    bytes_sent = kv_cache(CASE[0], 4000)
    assert a.sent == bytes_sent
    assert a.first.parts["network"] == pytest.approx(bytes_sent / (a.prefill.at.chips * CASE[1].dcn_bandwidth))
    assert sum(a.first.parts.values()) == pytest.approx(a.first.mid)


def test_steps_are_shorter_than_beside_prompts():
    """At the same speed for each user a batch is larger where no prompts are read."""
    target = Target(speed=100)
    a, together = best_disaggregated(*CASE[:5], target, CASE[5]), plan(*CASE[:5], target, CASE[5], Deployment()).best
    assert target.kept(a)
    assert a.batch / a.decode.at.chips > together.load.batch / together.at.chips * together.at.replicas
    assert best_disaggregated(*CASE[:5], Target(speed=1e6), CASE[5]) is None
