"""The estimate of serving: never below the floor, exact where it leaves nothing to chance, and against simulated engines."""

import random
from dataclasses import replace
from functools import lru_cache
from math import prod
from statistics import mean

import numpy as np
import pytest

from helpers.costs.inference.engine_simulation import chunked, interleaved
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.serving_constants import CONSTANTS, ENGINES
from helpers.costs.inference.serving_estimate import RESERVE, Server, arithmetic, loaded, tokens_per_second
from helpers.costs.inference.serving_operations import BITS, Batch, Deployment, met
from helpers.costs.inference.speculative_decoding import module
from helpers.costs.rooflines.chips import CHIPS, chip
from helpers.costs.sharding.collective_prices import IN_ENGINE
from helpers.costs.transformers.parameters_and_flops import kv_cache, parameters
from helpers.costs.transformers.public_models import MODELS, model
from tests.helpers.costs.tables import refused, walks
from tests.tiers import repeats

PRICED = [n for n in MODELS if not model(n).gemma3n]
LLAMA, VLLM = model("llama-3-8b"), ENGINES["vllm"]
TIDY = replace(VLLM, seen=1.0, queue=0.0, first=0.0)  # what `loaded` says of chance and waves left out
EVEN = replace(CONSTANTS, power=1.0)


def floor(s: Server, p, tokens):
    """Seconds at published rates, of which experts' weights are read as far as chance has a token go there."""
    m = s.config.moe
    share = met(m.E, m.k, tokens) / np.minimum(m.E, tokens * m.k) if m else 1.0
    return sum(
        np.maximum(t.parts["math"], t.parts["hbm"] * (share if role == "experts" else 1)) for role, t in p.roles.items()
    )


@walks(CHIPS)
def test_the_estimate_is_never_below_the_floor(name):
    """Of models, types, engines and numbers of chips by chance; all of them with FULL=1 and more draws."""
    draw, B = random.Random(name), np.array([1.0, 16.0, 256.0])
    for _ in range(repeats(3, 200)):
        c, tp = model(draw.choice(PRICED)), draw.choice((1, 2, 8, 16))
        at = Deployment(tp=tp, weights=draw.choice(("bf16", "fp8", "int8")), cache=draw.choice(("bf16", "int8")))
        s = Server(c, chip(name), at, ENGINES[draw.choice(list(ENGINES))])
        math = arithmetic(s.chip, at.weights)
        r = Replica(c, s.chip, tp, weights=BITS[at.weights] / 8, cache=at.cache, math=math)
        for est, p, tokens in (
            (s.decode(B, 4096), r.decode(B, 4096), B),
            (s.prefill(2048, B), r.prefill(2048, B), 2048 * B),
        ):
            assert (est.mid >= floor(s, p, tokens)).all(), (c.name, str(at), at.weights, s.engine)


@walks(ENGINES)
def test_ends_and_parts(engine):
    overlapping = Deployment(dp=8, ep=8, weights="fp8", overlap=True)
    servers = (
        Server(LLAMA, chip("H100"), Deployment(tp=4, weights="fp8"), ENGINES[engine]),
        Server(model("deepseek-v3"), chip("H200"), overlapping, ENGINES[engine]),
        Server(model("qwen-3.5-397b-a17b"), chip("v7"), Deployment(tp=16, pp=2), ENGINES[engine]),
    )
    for s in servers:
        at = loaded(s, 1000, 500, 640)
        for e in (s.decode(64, 3000), s.prefill(5000, 2), s.mixed(16, 3000, 512, 100), at.first, at.gap):
            assert 0 < e.low < e.mid < e.high
            assert sum(e.parts.values()) == pytest.approx(e.mid)
            assert all(x >= 0 for x in e.parts.values()), e.parts


def test_what_nobody_measured_is_less_sure():
    wide = lambda c, on, engine: (e := Server(c, on, Deployment(), ENGINES[engine]).decode(1, 100)).high / e.low  # noqa: E731
    new = replace(chip("H100"), name="H900")
    own = wide(LLAMA, chip("H100"), "vllm")
    assert wide(LLAMA, chip("H100"), "unknown") > own and wide(LLAMA, new, "vllm") > own
    assert wide(model("mixtral-8x7b"), chip("H100"), "vllm") > own


@walks(PRICED)
def test_weights_that_are_held_are_the_parameters(name):
    """Matrices of layers in their type, tables and vectors in bf16; convolutions of linear attention are left out."""
    c, p = model(name), parameters(model(name))
    held = lambda at: Server(c, chip("H100"), at, VLLM).held  # noqa: E731
    vectors = p.norms + p.biases + p.sinks + p.positions + p.embedding + p.unembedding
    assert held(Deployment()) == pytest.approx(2 * p.total, rel=1e-4)
    assert held(Deployment(weights="fp8")) == pytest.approx(p.total + vectors, rel=1e-4)
    assert held(Deployment(pp=2)) == pytest.approx(p.total, rel=1e-4)
    four = held(Deployment(weights="nvfp4", rest="fp8"))
    mlps = p.mlp + p.experts + p.shared if c.moe else p.total - vectors
    assert four == pytest.approx(mlps * 4.5 / 8 + (p.total - vectors - mlps) + 2 * vectors, rel=1e-4)
    if c.moe and c.moe.E % 4 == 0:
        cut = held(Deployment(dp=4, ep=4))
        assert cut == pytest.approx(2 * (p.total - p.experts) + 2 * p.experts / 4, rel=1e-4)
    assert p.total / 8 <= held(Deployment(tp=16)) < 2 * p.total


@walks(
    [("llama-3-8b", 4), ("llama-3-8b", 32), ("deepseek-v3", 8), ("gpt-oss-120b", 8)],
    [("bf16", 2), ("fp8", 1), ("nvfp4", 4.5 / 8)],
)
def test_as_many_sequences_as_fit(name, tp, cache, each):
    """By brute force: of whole sequences one more would not fit. KV heads beyond K are copied, latent vectors are not cut."""
    c, on = model(name), chip("H200")
    s = Server(c, on, Deployment(tp=tp, weights="fp8", cache=cache), VLLM)
    one = kv_cache(c, 5000, 1, each) / (1 if c.mla else min(tp, c.K))
    assert s.cache(5000) == pytest.approx(one)
    n = 0
    while s.held + (n + 1) * one <= on.hbm_bytes * (1 - RESERVE):
        n += 1
    assert n == int(s.most(5000)) > 0


def test_groups_have_caches_of_their_own_and_stages_share_them():
    c, on = model("deepseek-v3"), chip("B200")
    one, four = (Server(c, on, at, VLLM) for at in (Deployment(tp=8), Deployment(tp=2, dp=4, ep=8)))
    room = lambda s: on.hbm_bytes * (1 - RESERVE) - s.held  # noqa: E731
    assert four.most(4096) == pytest.approx(4 * max(room(four), 0) / kv_cache(c, 4096))
    assert one.cache(4096) == four.cache(4096) == 2 * Server(c, on, Deployment(tp=8, pp=2), VLLM).cache(4096)
    assert Server(c, chip("A100"), Deployment(), VLLM).most(1) == 0  # weights alone are too many


def test_the_reserve_is_of_all_or_of_what_weights_leave():
    """TensorRT-LLM keeps back a tenth of what weights leave, and begins a request when all of it has room; others before."""
    on, like = chip("H200"), Deployment(weights="fp8", cache="fp8")
    for engine, reserve, share in (("vllm", 14.1e9, 0.75), ("trtllm", None, 1.0)):
        s = Server(model("llama-3-70b"), on, like, ENGINES[engine])
        reserve = reserve or 0.1 * (on.hbm_bytes - s.held)
        room = on.hbm_bytes - reserve - s.held
        assert s.reserve == pytest.approx(reserve) and s.most(4096) == pytest.approx(room / s.cache(4096))
        assert loaded(s, 1000, 4000, 1e6).batch == pytest.approx(room / s.cache(1000 + share * 4000))
        # Its layers see 4,096 keys, and TensorRT-LLM keeps all.
        windowed = replace(s, config=model("mistral-7b")).cache(3 * 4096)
        assert windowed == pytest.approx((3 if share == 1 else 1) * kv_cache(model("mistral-7b"), 4096, 1, 1))


def rounds(s: Server, prompt, answer, requests) -> float:
    """Tokens/s of requests that come at once, by steps: as many as have room read their prompts and answer, then the next."""
    seconds, left = 0.0, requests
    while left:
        n = min(left, int(s.most(prompt + answer)))
        read = loaded(s, prompt, answer, n).gap.parts["prompts"] * answer
        seconds += read + sum(s.decode(n, prompt + t).mid for t in range(answer))
        left -= n
    return requests * answer / seconds


@walks([("llama-3-70b", 1, 500), ("llama-3-70b", 2, 1000), ("llama-3-8b", 1, 300), ("gpt-oss-20b", 1, 3000)])
def test_requests_that_come_at_once_are_served_in_rounds(name, tp, requests):
    like = Deployment(tp=tp, weights="mxfp4" if "oss" in name else "fp8", cache="fp8")
    s = Server(model(name), chip("H200"), like, ENGINES["trtllm"])
    assert tokens_per_second(s, 1000, 200, requests) == pytest.approx(rounds(s, 1000, 200, requests), rel=0.02)


@walks([("H100", 8), ("B200", 2), ("v5e", 16), ("GB200", 64)])
def test_an_all_reduce_is_its_seconds_at_first_and_its_bytes_at_last(name, n):
    on = chip(name)
    s = Server(LLAMA, on, Deployment(tp=n), VLLM)
    W = 2 * on.axes * on.link_bandwidth if on.axes else on.link_bandwidth  # a torus has two links an axis
    assert s.sums(1e13, n) == pytest.approx(2 * (n - 1) / n * 2e13 / (W * CONSTANTS.link), rel=1e-3)
    hops = 2 * on.axes * (n ** (1 / on.axes) - 1) * on.hop if on.axes else CONSTANTS.sums
    assert s.sums(1.0, n) == pytest.approx(VLLM.launch * hops, rel=1e-3)
    assert s.sums(1e6, 1) == 0


@walks([1, 2])
def test_an_all_reduce_over_domains_waits_for_links_or_cards(slower):
    """A ring for each card: of 15/16 of the bytes, twice, a chip's NVLink carries 7/8 and its card 1/8, at their own shares."""
    on = replace(chip("H100"), dcn_bandwidth=chip("H100").dcn_bandwidth / slower)
    s = Server(LLAMA, on, Deployment(), VLLM)
    inside, outside = s.sums(1e12, 8), s.sums(1e12, 16)
    cards = 1 / 8 / (on.dcn_bandwidth * IN_ENGINE.network)
    links = 7 / 8 / (on.link_bandwidth * s.constants.link)
    assert outside / inside == pytest.approx(15 / 16 * max(links, cards) / links, rel=1e-3)
    assert (cards > links) == (slower == 2)
    assert s.sums(1, 16) == pytest.approx(s.sums(1, 8) + 2 * IN_ENGINE.network_hop, rel=1e-3)


@walks([(128, 23.1), (1024, 23.2), (2048, 23.3), (3072, 23.6), (4096, 23.7), (8192, 24.0)])
def test_tensor_parallelism_over_two_hosts(prompt, ms):
    """DeepSeek-R1-0528 by SGLang on 16 H100 and InfiniBand, one request at a time, 128 tokens out (tenstorrent/tt-inference-server,
    issue 356): no constant has seen it."""
    like = Deployment(tp=16, weights="fp8", rest="fp8")
    s = Server(model("deepseek-v3"), chip("H100"), like, ENGINES["sglang"])
    assert loaded(s, prompt, 128, 1).gap.mid == pytest.approx(ms / 1e3, rel=0.15)


@walks(["H200", "v5p"])
def test_an_exchange_is_its_seconds_at_first_and_its_bytes_at_last(name):
    on, c = chip(name), model("deepseek-v3")
    s = Server(c, on, Deployment(dp=8, ep=8), VLLM)
    links = lambda B: s.seconds(Batch(decode=B, keys=1.0))["links"] / 58  # noqa: E731 (layers with experts)
    W = 2 * on.link_bandwidth if on.axes else on.link_bandwidth * 8 / 7  # pairs on three axes; an eighth stays in place
    each = c.D * 8 * (1 + 2)  # a copy for each of eight groups, there in fp8 and back in bf16
    assert (links(2e9) - links(1e9)) / 1e9 == pytest.approx(each / (W * CONSTANTS.link), rel=1e-6)
    own = 2 * 3 * on.hop if on.axes else 2 * CONSTANTS.exchange
    assert links(1.0) - each / (W * CONSTANTS.link) == pytest.approx(own, rel=1e-6)


def simulated(s: Server, prompt: int, users: int, answers: list[int], engine: str, slots: int = 0):
    """A closed loop: all requests wait, and a place that is free takes the next at once. Gap, requests/s, first after the start."""
    step = lru_cache(None)(lambda B, S: s.decode(B, S).mid)
    near, read = lambda B, S: step(B, 32 * round(S / 32)), loaded(s, prompt, mean(answers), users).read
    load = [(0, prompt, n) for n in answers]
    if engine == "interleaved":
        log = interleaved(load, slots or users, lambda T: read, near)
    else:
        mixed = lambda B, S, T, done: s.mixed(B, S, T, done).mid if B else s.prefill(T, 1, done).mid  # noqa: E731
        log = chunked(load, slots or users, near, mixed, prompt)
    some = log.served[3 * users : -3 * users]  # neither the first wave nor the last
    ends = [x.tokens[-1] for x in some]
    gap = sum(x.tokens[-1] - x.tokens[0] for x in some) / sum(len(x.tokens) - 1 for x in some)
    return gap, len(some) / (max(ends) - min(ends)), mean(x.tokens[0] - x.start for x in some)


@walks([(8, 512, 128), (32, 256, 64), (4, 2048, 64)])
def test_a_closed_loop_is_as_simulated(users, prompt, answer):
    """Prompts read alone, answers of many lengths: gaps within 2 %, requests/s (users over a request's time) within 5 %."""
    s = Server(LLAMA, chip("H100"), Deployment(), replace(TIDY, budget=float(prompt)), EVEN)
    draw = random.Random(0)
    answers = [draw.randint(answer // 2, 3 * answer // 2) for _ in range(20 * users)]
    gap, rate, _ = simulated(s, prompt, users, answers, "interleaved")
    at = loaded(s, prompt, answer, users)
    assert at.gap.mid == pytest.approx(gap, rel=0.02)
    assert users / at.request == pytest.approx(rate, rel=0.05)
    assert at.gap.parts["prompts"] > 0.04 * at.gap.mid  # others' prompts are worth counting


def test_a_loop_of_mixed_steps_is_as_simulated():
    """Prompts ride along with decode steps: what `read` is; requests/s within 5 %, a first token within 1 %."""
    users, prompt, answer = 16, 1024, 128
    s = Server(LLAMA, chip("H100"), Deployment(), replace(TIDY, budget=float(prompt)), EVEN)
    draw = random.Random(1)
    answers = [draw.randint(64, 192) for _ in range(20 * users)]
    _, rate, first = simulated(s, prompt, users, answers, "chunked")
    at = loaded(s, prompt, answer, users)
    assert users / at.request == pytest.approx(rate, rel=0.05)
    assert at.first.parts["own"] == pytest.approx(first, rel=0.01)


def test_requests_in_waves_see_half_of_the_others_prompts():
    """All answers of one length: users begin together, and each waits for half of the others, before its first token and after."""
    users, prompt, answer = 16, 1024, 256
    engine = replace(TIDY, prompts_first=True, budget=float(prompt))
    s = Server(LLAMA, chip("H100"), Deployment(), engine, EVEN)
    gap, _, _ = simulated(s, prompt, users, [answer] * (10 * users), "interleaved")
    at = loaded(s, prompt, answer, users, equal_lengths=True)
    assert at.gap.mid == pytest.approx(gap, rel=0.01)
    assert at.first.parts["others"] == pytest.approx(mean(n * at.read for n in range(users)))


@walks([1, 2, 64])
def test_equal_requests_come_in_groups_where_passes_mix(users):
    s = Server(LLAMA, chip("H100"), Deployment(), VLLM)
    at, alike = (loaded(s, 1024, 512, users, equal_lengths=equal) for equal in (False, True))
    more = alike.first.mid - at.first.mid
    assert more == pytest.approx(min(CONSTANTS.group, users - 1) * at.read) and alike.gap == at.gap


def test_requests_gather_for_as_many_steps_as_an_engine_is_told():
    at, later = (loaded(Server(LLAMA, chip("H100"), Deployment(waits=n), VLLM), 1024, 512, 8) for n in (0, 20))
    step = at.gap.mid - at.gap.parts["prompts"]
    assert later.first.mid - at.first.mid == pytest.approx(20 * step) and later.gap == at.gap


def test_a_queue_is_where_caches_do_not_fit():
    """Little's law: those who wait are the rate times their wait; and the rate is that of a simulated full server, within 5 %."""
    prompt, answer, users = 512, 128, 64
    small = replace(chip("H100"), hbm_bytes=20e9)
    s = Server(LLAMA, small, Deployment(), replace(TIDY, budget=float(prompt)), EVEN)
    fit = int(s.most(prompt + 0.75 * answer))
    small = replace(small, hbm_bytes=small.hbm_bytes - (s.most(prompt + 0.75 * answer) - fit) * s.cache(608) / 0.9)
    s = replace(s, chip=small)
    assert 8 < fit < users
    at, full = loaded(s, prompt, answer, users), loaded(s, prompt, answer, fit)
    assert at.batch == pytest.approx(fit) and full.first.parts["no room"] == pytest.approx(0, abs=1e-6)
    assert at.gap.mid == pytest.approx(full.gap.mid)
    draw = random.Random(2)
    answers = [draw.randint(64, 192) for _ in range(20 * fit)]
    _, rate, _ = simulated(s, prompt, fit, answers, "interleaved")
    assert users / at.request == pytest.approx(rate, rel=0.05)
    assert rate * at.first.parts["no room"] == pytest.approx(users - fit, rel=0.05)


def test_an_overlap_hides_links_and_reads_weights_twice():
    c, on = model("deepseek-v3"), chip("H800")
    slow, hidden = (
        Server(c, on, Deployment(dp=32, ep=32, weights="fp8", overlap=o), VLLM).prefill(4096, 64).parts
        for o in (False, True)
    )
    assert hidden["links"] < 0.5 * slow["links"] and hidden["others"] == pytest.approx(2 * slow["others"])


def test_bad_input_gets_one_sentence():
    refused(
        (lambda: Server(LLAMA, "H100", Deployment(), VLLM), "Server: chip is a Chip, not 'H100'"),
        (lambda: Server(LLAMA, chip("H100"), Deployment(), "vllm"), "Server: engine is an Engine, not 'vllm'"),
        (lambda: loaded(Server(LLAMA, chip("H100"), Deployment(), VLLM), 10, 0, 4), "divides by zero"),
        (lambda: loaded(Server(LLAMA, chip("H100"), Deployment(), VLLM), -1, 10, 4), "prompt is 0 or more, not -1"),
        (lambda: Batch(decode=-1), "Batch: decode is 0 or more, not -1"),
    )


@walks([0.25, 0.5, 0.9], [1, 16])
def test_what_is_in_caches_is_seen_and_not_read(hits, users):
    """Reading takes what a pass of the new tokens adds that see the others, so half of a long prompt is about half of the seconds."""
    like = Deployment(tp=2, weights="fp8")
    s, free = (Server(LLAMA, chip("H100"), replace(like, hits=h), TIDY) for h in (hits, 0.0))
    step = Batch(users, 8000 + 50)
    new = 8000 * (1 - hits)
    piece = min(8192, users * new)
    both = replace(step, prefill=piece, prompts=piece / new, done=8000 * hits)
    adds = (sum(free.seconds(both).values()) - sum(free.seconds(step).values())) * new / piece
    seen, before = loaded(s, 8000, 100, users), loaded(free, 8000, 100, users)
    if piece >= new:
        assert seen.read == pytest.approx(adds)
    assert (1 - hits) * 0.9 < seen.read / before.read < 1 and seen.batch == before.batch
    assert seen.gap.mid - seen.gap.parts["prompts"] == pytest.approx(before.gap.mid - before.gap.parts["prompts"])


@walks([(0.8,), (0.9, 0.7), (0.85, 0.7, 0.5)], ["llama-3-70b", "deepseek-v3"])
def test_drafts_gain_what_speculative_decoding_says(drafts, name):
    """One sequence at a time, where a step of γ + 1 tokens takes hardly longer than one of one: 1 + a + ab + ... tokens for a step and
    γ drafts (Leviathan et al. 2022). Experts of more tokens are more, which the gain pays for."""
    like = Deployment(tp=8, weights="fp8", rest="fp8")
    s, c = Server(model(name), chip("H200"), like, ENGINES["sglang"]), model(name)
    step, draft = (Server(x, chip("H200"), like, s.engine).decode(1, 4000).mid for x in (c, module(c)))
    cost = (draft - s.engine.host - s.engine.sequence) / step
    tokens = 1 + sum(prod(drafts[: n + 1]) for n in range(len(drafts)))
    met_more = sum(
        Server(c, chip("H200"), like, s.engine).decode(len(drafts) + 1, 4000).parts[x] for x in ("experts", "links")
    )
    v = 1 + (met_more - sum(s.decode(1, 4000).parts[x] for x in ("experts", "links"))) / step
    gain = step / Server(c, chip("H200"), replace(like, drafts=drafts), s.engine).decode(1, 4000).mid
    assert gain == pytest.approx(tokens / (v + len(drafts) * cost), rel=0.04) and gain > 1


def test_a_drafting_module_needs_room():
    like = Deployment(tp=8, weights="fp8", rest="fp8")
    plain, drafting = (Server(model("deepseek-v3"), chip("H200"), replace(like, drafts=a), VLLM) for a in ((), (0.8,)))
    # As DeepSeek says of its module, and a projection.
    assert drafting.held - plain.held == pytest.approx(11.6e9 / 8, rel=0.01)
