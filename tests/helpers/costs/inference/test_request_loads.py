"""Loads and what of them is kept: moments of the gaps, prefixes against a tree, the public trace; percentiles against NumPy's."""

import json
from pathlib import Path
from statistics import fmean, pvariance

import numpy as np
import pytest

from helpers.costs.inference.engine_simulation import interleaved
from helpers.costs.inference.request_loads import (
    Turn,
    bursts,
    even,
    in_session,
    load,
    mixed_load,
    poisson,
    requests,
    shared_prefixes,
    turns,
)
from helpers.costs.inference.serving_log import attainment, goodput, keeps, percentile, percentiles
from helpers.kernels.inference.prefix_cache import PrefixTree
from tests.helpers.costs.tables import refused, walks

TRACE = json.loads((Path(__file__).parents[4] / "book/data/azure_conversations.json").read_text(encoding="utf-8"))


def test_gaps_have_the_mean_and_the_variance_of_their_kind():
    for burstiness in (0.2, 1.0, 4.0):
        at = bursts(20_000, 5.0, burstiness, seed=3)
        gaps = np.diff(at)
        assert at[0] == 0 and gaps.min() >= 0 and gaps.mean() == pytest.approx(1 / 5, rel=0.05)
        assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1 / burstiness, rel=0.1)
        assert bursts(9, 5.0, burstiness, seed=3) == at[:9] != bursts(9, 5.0, burstiness, seed=4)
    gaps = np.diff(poisson(20_000, 5.0))  # the exponential's tail, which other distributions of its variance don't have
    assert [np.mean(gaps > t / 5) for t in (0.5, 1, 2)] == pytest.approx(np.exp([-0.5, -1, -2]), abs=0.01)
    counts = np.histogram(poisson(20_000, 5.0), np.arange(0, 3900))[0]
    assert counts.var() == pytest.approx(counts.mean(), rel=0.1)  # of a Poisson distribution
    assert set(np.diff(even(9, 4.0))) == {0.25}


@walks([(1, 7), (16, 100), (16, 5), (8, 0), (4, 16)])
def test_what_is_known_is_what_a_tree_finds(page, system):
    """Tokens that nobody else has, for each message and each answer; the tree gets what was read, after each request."""
    some = turns(12, 4, rate=0.5, pause=8.0, messages=(1, 40), outputs=(1, 30), seed=page)
    tree, texts, fresh = PrefixTree(10_000, page), {}, iter(range(1_000_000))
    made = shared_prefixes(some, system, page)
    assert len(made) == 48 and [r.arrival for r in made] == sorted(r.arrival for r in made)
    start = [-1 - i for i in range(system)]
    for turn, request in zip(some, made):
        prompt = texts.get(turn.session, start) + [next(fresh) for _ in range(turn.message)]
        assert (request.prompt, request.output) == (len(prompt), turn.output)
        assert request.known == tree.matched(tree.match(prompt[:-1]))
        texts[turn.session] = prompt + [next(fresh) for _ in range(turn.output)]
        read = texts[turn.session][:-1]
        tree.insert(read, [None] * (len(read) // page))
    assert sum(r.known for r in made) > 100


def test_sessions():
    some = turns(400, 5, rate=2.0, pause=30.0, messages=(7, 7), seed=5)
    own = [[t.arrival for t in some if t.session == i] for i in range(400)]
    assert all(len(at) == 5 for at in own) and {t.message for t in some} == {7}
    assert fmean(g for at in own for g in np.diff(at)) == pytest.approx(30, rel=0.1)
    begun = np.diff(sorted(at[0] for at in own))
    assert begun.mean() == pytest.approx(1 / 2, rel=0.1) and pvariance(begun) == pytest.approx(1 / 4, rel=0.3)


def test_the_public_trace():
    """As its rows say; and its licence lets it be here."""
    rows = requests(TRACE["requests"])
    assert len(rows) == 300 and TRACE["licence"].startswith("CC BY 4.0") and "github.com/Azure" in TRACE["source"]
    assert tuple(rows[0]) == (0.0, 374, 44, 0) and tuple(rows[2]) == (4.542, 879, 55, 0)  # 18:15:46.68059, :51.222469
    assert [r.arrival for r in rows] == sorted(r.arrival for r in rows)


LOG = interleaved(mixed_load(60, 3, 0.2, (4, 60), (1, 40)), 4, lambda T: T / 8, lambda B, S: 1 + S / 64)


@walks([0, 1, 37.5, 50, 90, 99, 100])
def test_percentiles_are_those_of_numpy(p):
    draw = np.random.default_rng(0)
    for n in (1, 2, 5, 100):
        values = draw.exponential(size=n).tolist()
        assert percentile(values, p) == pytest.approx(np.percentile(values, p))
    got = percentiles(LOG, p)
    ends = [(s.request.arrival, s.tokens) for s in LOG.served]
    assert got.ttft == pytest.approx(np.percentile([tokens[0] - at for at, tokens in ends], p))
    assert got.gap == pytest.approx(np.percentile(np.concatenate([np.diff(tokens) for _, tokens in ends]), p))
    assert got.whole == pytest.approx(np.percentile([tokens[-1] - at for at, tokens in ends], p))


def test_goodput_by_counting():
    first, gap = percentiles(LOG, 70).ttft, percentiles(LOG, 95).gap
    kept = 0
    for s in LOG.served:
        on_time = s.tokens[0] - s.request.arrival <= first
        kept += on_time and all(b - a <= gap for a, b in zip(s.tokens, s.tokens[1:]))
    assert 0 < kept < sum(s.ttft <= first for s in LOG.served) < 60
    last = max(s.tokens[-1] for s in LOG.served)
    assert goodput(LOG, first, gap) == pytest.approx(kept / last) and attainment(LOG, first, gap) == kept / 60
    assert goodput(LOG, 1e9, 1e9) == pytest.approx(60 / last) and goodput(LOG, 0, 1e9) == 0
    assert attainment(LOG, first, gap, percent=90) > kept / 60  # one gap in ten may be longer


def test_an_answer_of_one_token_has_no_gaps_to_keep():
    log = interleaved([(0, 8, 1)], 1, lambda T: T, lambda B, S: 1)
    assert keeps(log.served[0], 8, 0) and not keeps(log.served[0], 7, 0) and percentiles(log, 50) == (8, 0, 8)


def test_errors_say_what_would_be_right():
    refused(
        (lambda: bursts(3, 1.0, 0.0), "burstiness is above 0, not 0.0"),
        (lambda: poisson(3, 0.0), "a rate above 0 a second, not 0.0"),
        (lambda: even(3, 0.0), "a rate above 0 a second, not 0.0"),
        (lambda: load([0.0], [(3, 3), (4, 4)]), "these are 1 and 2"),
        (lambda: turns(3, 3, 1.0, 1.0, messages=(9, 3)), r"not from \(9, 3\)"),
        (lambda: shared_prefixes([Turn(0.0, 0, 3, 3)], 5, 0), "page is a whole number of 1 or more"),
        (lambda: percentile([1], 101), "0 to 100, not 101"),
    )


@walks([1, 2, 7], [0, 300])
def test_a_session_in_the_mean_is_that_of_its_turns(turns, answer):
    """The requests of one session by a prefix cache of whole tokens, whose last token of an answer was never read."""
    messages = [Turn(n, 0, 1000, answer) for n in range(turns)]
    requests = shared_prefixes(messages, system=0)
    prompt, hits = in_session(1000, max(answer, 1), turns)
    assert prompt == pytest.approx(fmean(r.prompt for r in requests), abs=turns)
    assert hits == pytest.approx(sum(r.known for r in requests) / sum(r.prompt for r in requests), abs=2e-3)
