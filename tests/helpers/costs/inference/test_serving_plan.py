"""Plans, disaggregated ones too, against a search that tries everything; what cannot be had."""

from dataclasses import replace
from functools import cache, lru_cache
from itertools import product

import pytest
from hypothesis import given, strategies as st

from helpers.costs.inference.disaggregated_plan import _numbers, disaggregated_plans
from helpers.costs.inference.serving_constants import CONSTANTS, ENGINES
from helpers.costs.inference.serving_estimate import Server, loaded
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.serving_plan import Plan, Target, deployments, frontier, plan, plans
from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.transformers.parameters_and_flops import kv_cache
from helpers.costs.transformers.public_models import MODELS, model
from tests.helpers.costs.tables import refused, walks
from tests.tiers import some

VLLM, H100, USUAL = ENGINES["vllm"], chip("H100"), Deployment()
SMALL = replace(H100, pod=(2,))  # a domain of two: what is larger needs stages, or experts over it
LLAMA, MIXTRAL = model("llama-3-8b"), model("mixtral-8x7b")
ASKED = 2000, 500


def everything(c, on, chips):
    """Every way in powers of two to cut chips into replicas, of which those that the search leaves out are no plans."""
    sizes = [2**i for i in range(chips.bit_length())]
    for tp, dp, pp, ep in product(sizes, repeat=4):
        group = tp * dp * pp
        if group > chips or tp > min(c.N, on.pod[0]):
            continue
        whole = ep == dp == 1 and (pp == 1 or (not c.moe and tp == on.pod[0]))  # stages begin where a domain ends
        spread = c.moe and pp == 1 and ep == tp * dp > 1 and c.moe.E % ep == 0
        if not (whole or spread):
            continue
        for overlap in (False, True) if spread and group > on.pod[0] else (False,):  # of an exchange over cards
            s = Server(c, on, Deployment(tp, dp, ep, pp, chips // group, overlap=overlap), VLLM)
            for B in (n for n in range(1, 5000) if n & (n - 1) == 0 or n % 3 == 0 and n // 3 & (n // 3 - 1) == 0):
                if B * dp <= s.most(sum(ASKED)):
                    yield Plan(s, *ASKED, loaded(s, *ASKED, B * dp * s.deployment.replicas))


CASES = [
    (LLAMA, SMALL, 4),
    (LLAMA, H100, 8),
    (MIXTRAL, H100, 4),
    (MIXTRAL, SMALL, 8),
    (LLAMA, H100, 6),
    (LLAMA, H100, 2),
]


FEW = some(range(5), 3)


@lru_cache(None)
def every_plan(case):
    return tuple(everything(*CASES[case]))


def named(some):
    return {(str(p.deployment), p.users, round(p.speed, 9)) for p in some}


@walks(FEW)
def test_every_plan_is_tried_once(case):
    found = list(plans(*CASES[case], *ASKED, VLLM))
    assert len(found) == len(named(found)) and named(found) == named(every_plan(case))


@walks(
    FEW,
    [Target(), Target(speed=60), Target(first=0.5), Target(users=24, speed=45), Target(rate=1.0, first=1.0, speed=40)],
)
def test_the_best_is_that_of_a_loop(case, target):
    def keeps(p):
        have = {"speed": p.speed, "users": p.users, "rate": p.users / p.load.request, "first": -p.load.first.mid}
        return all(have[n] >= (-x if n == "first" else x) for n, x in vars(target).items() if x is not None)

    found = plan(*CASES[case], *ASKED, target, VLLM, USUAL)
    good = [p for p in every_plan(case) if keeps(p)]
    assert found.kept and target.kept(found.best) and target.missed(found.best) == []
    assert found.best.throughput == pytest.approx(max(p.throughput for p in good))


@walks(FEW)
def test_the_frontier_is_what_no_other_plan_beats(case):
    every = every_plan(case)
    seen = [(p.speed, p.rate) for p in every]
    beaten = [any((v > x and w >= y) or (v >= x and w > y) for v, w in seen) for x, y in seen]
    found = frontier(list(every))
    assert named(found) == named(p for p, worse in zip(every, beaten) if not worse)
    assert [p.speed for p in found] == sorted(p.speed for p in found)
    assert found == [*plan(*CASES[case], *ASKED, Target(), VLLM, USUAL).frontier]


def test_as_few_chips_as_needed():
    """No smaller number of the ladder keeps the target."""
    target = Target(speed=100, users=300)
    found = plan(LLAMA, H100, None, *ASKED, target, VLLM, USUAL)
    fewer = [n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n < found.best.deployment.chips]
    assert found.kept and fewer
    assert not any(target.kept(p) for n in fewer for p in everything(LLAMA, H100, n))


def test_what_no_number_of_chips_reaches_has_a_nearest():
    """One user's tokens cannot come faster and faster; the nearest is the fastest that there is."""
    found = plan(LLAMA, H100, None, *ASKED, Target(speed=1e5), VLLM, USUAL)
    fastest = max(p.speed for p in everything(LLAMA, H100, 16))
    assert not found.kept and found.best.speed == pytest.approx(fastest) and found.best.deployment.chips <= 16
    assert Target(speed=1e5).missed(found.best) == ["speed"]


def test_the_nearest_misses_the_fewest_and_those_by_the_smallest_factor():
    target, every = Target(speed=200, users=400, first=0.3), every_plan(5)

    def misses(p):
        factors = [200 / p.speed, 400 / p.users, p.load.first.mid / 0.3]
        return sum(x > 1 for x in factors), max(factors)

    found = plan(LLAMA, H100, 2, *ASKED, target, VLLM, USUAL)
    assert not found.kept and misses(found.best) == pytest.approx(min(map(misses, every)))


@walks([n for n in MODELS if not model(n).gemma3n])
def test_deployments_fit_the_model_and_the_chips(name):
    c = model(name)
    for on, chips in ((H100, 16), (chip("GB200"), 128), (chip("v5e"), 256), (chip("A100"), 3)):
        some = list(deployments(c, on, chips))
        assert len({str(at) for at in some}) == len(some) and str(some[0]) in ("one chip", f"replicas={chips}")
        for at in some:
            assert chips // 2 < at.chips <= chips and at.tp <= c.N and at.pp <= c.L and (at.pp == 1 or not c.moe)
            assert at.ep == 1 or (c.moe.E % at.ep == 0 and at.ep == at.group)
            assert on.axes or at.tp <= on.pod[0]


@walks(FEW)
def test_numbers_of_a_plan(case):
    """Requests/s by Little's law; bytes within the chip; a dear part is the longest; the price is that of the chips' time."""
    for p in every_plan(case):
        assert p.rate * p.load.request == pytest.approx(p.users) and p.throughput == pytest.approx(500 * p.rate)
        assert sum(p.memory.values()) <= p.server.chip.hbm_bytes * (1 + 1e-9) and min(p.memory.values()) > 0
        assert p.load.gap.parts[p.bound] == max(p.load.gap.parts.values())


@walks([(LLAMA, Deployment(tp=2, replicas=3)), (MIXTRAL, Deployment(dp=4, ep=4)), (LLAMA, Deployment(pp=4))])
def test_prices_of_prompts_and_answers_are_the_hire_of_the_chips(c, at):
    """Of an engine that is busy with nothing else: an hour's tokens at these prices cost the chips' hour, within 5 %."""
    engine = replace(VLLM, seen=1.0, queue=0.0, first=0.0)
    s = Server(c, H100, at, engine, replace(CONSTANTS, power=1.0))
    p = Plan(s, 1000, 1000, loaded(s, 1000, 1000, 64 * at.chips))
    prompts, answers = p.price(2.0)
    paid = 3600 * p.rate * (1000 * prompts + 1000 * answers) / 1e6
    assert paid == pytest.approx(2.0 * at.chips, rel=0.05) and answers > prompts


@walks(some(CHIPS, 6))
def test_every_chip_has_a_plan(name):
    found = plan(model("llama-3.2-1b"), chip(name), 1, 20000, 1000, Target(rate=0.01), VLLM, USUAL)
    assert found.kept and found.best.deployment.chips == 1


def asked(c=LLAMA, on=H100, chips=8, prompt=1000, answer=1000, target=Target(speed=10), like=USUAL, engine=VLLM):  # noqa: B008
    return plan(c, on, chips, prompt, answer, target, engine, like)


def test_what_cannot_be_served_gets_one_sentence():
    refused(
        (lambda: asked(model("deepseek-v3"), chips=2, like=Deployment(weights="fp8")),
         "the weights in fp8 and one cache of 2,000 tokens do not fit on 2 H100: 16 would do"),
        (lambda: asked(model("deepseek-v3"), chips=8),
         "do not fit on 8 H100: 32, or weights in int4, mxfp4 or nvfp4 would do"),
        (lambda: asked(chips=1, on=replace(H100, hbm_bytes=12e9)), "on 1 H100: 2, or weights in fp8, int8, int4, mxfp4 or nvfp4 would do"),
        (lambda: asked(model("gpt-3"), replace(H100, hbm_bytes=1e8), chips=None),
         "do not fit on 4,096 H100: take chips with more memory or shorter requests"),
        (lambda: asked(model("gpt-3"), prompt=2000),
         "2,000 + 1,000 tokens are more than the model's 2,048 positions: give shorter prompts or answers"),
        (lambda: asked(on=chip("A100"), like=Deployment(cache="fp8")),
         "the A100 has no arithmetic in fp8: keep caches in bf16, or in int8"),
        (lambda: asked(like=Deployment(cache="nvfp4")), "the H100 has no arithmetic in nvfp4: keep caches in bf16"),
        (lambda: asked(model("gemma-3n-e2b")), "an estimate of serving does not know an AltUp"),
        (lambda: Target(speed=0), "speed is above 0, or left out, and not 0"),
        (lambda: Target(first=-1), "first is above 0, or left out, and not -1"),
        (lambda: asked(chips=0), "chips is a whole number of 1 or more or None, not 0"),
        (lambda: asked(answer=0), "answer is a whole number of 1 or more, not 0"),
        (lambda: asked(prompt=2.5), "prompt is a whole number of 1 or more, not 2.5"),
        (lambda: asked(engine="vllm"), "engine is an Engine, not 'vllm'"),
    )  # fmt: skip


@pytest.mark.slow("plans DeepSeek-V3 six times")
def test_what_would_do_does():
    """The number that a refusal names holds the model, and half of it does not; so do the types, and no others."""
    c, like = model("deepseek-v3"), Deployment(weights="fp8")
    assert asked(c, chips=16, like=like).best.deployment.chips == 16
    refused((lambda: asked(c, chips=8, like=like), "8 H100: 16, or weights in int4, mxfp4 or nvfp4 would do"))
    for weights in ("int4", "mxfp4", "nvfp4"):
        assert asked(c, chips=8, like=like.in_type(weights)).best.deployment.chips == 8
    refused((lambda: asked(c, chips=8, like=like.in_type("int8")), "8 H100: 16, or weights in int4"))


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
