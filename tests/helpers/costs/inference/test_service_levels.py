"""Percentiles against NumPy's, and a promise's keepers counted one by one."""

import numpy as np
import pytest

from helpers.costs.inference.engine_simulation import interleaved
from helpers.costs.inference.request_log import mixed_load
from helpers.costs.inference.service_levels import attainment, goodput, keeps, percentile, percentiles
from tests.helpers.costs.tables import refused, walks

LOG = interleaved(mixed_load(60, 3, 0.2, (4, 60), (1, 40)), 4, lambda T: T / 8, lambda B, S: 1 + S / 64)


@walks([0, 1, 37.5, 50, 90, 99, 100])
def test_percentiles_are_those_of_numpy(p):
    draw = np.random.default_rng(0)
    for n in (1, 2, 5, 100):
        values = draw.exponential(size=n).tolist()
        assert percentile(values, p) == pytest.approx(np.percentile(values, p))
    got = percentiles(LOG, p)
    ends = [(s.request.arrival, s.tokens) for s in LOG.served]
    assert got.first == pytest.approx(np.percentile([tokens[0] - at for at, tokens in ends], p))
    assert got.gap == pytest.approx(np.percentile(np.concatenate([np.diff(tokens) for _, tokens in ends]), p))
    assert got.whole == pytest.approx(np.percentile([tokens[-1] - at for at, tokens in ends], p))


def test_goodput_by_counting():
    first, gap = percentiles(LOG, 70).first, percentiles(LOG, 95).gap
    kept = 0
    for s in LOG.served:
        on_time = s.tokens[0] - s.request.arrival <= first
        kept += on_time and all(b - a <= gap for a, b in zip(s.tokens, s.tokens[1:]))
    assert 0 < kept < sum(s.ttft <= first for s in LOG.served) < 60
    last = max(s.tokens[-1] for s in LOG.served)
    assert goodput(LOG, first, gap) == pytest.approx(kept / last) and attainment(LOG, first, gap) == kept / 60
    assert goodput(LOG, 1e9, 1e9) == pytest.approx(60 / last) and goodput(LOG, 0, 1e9) == 0
    assert attainment(LOG, first, gap, p=90) > kept / 60  # one gap in ten may be longer


def test_an_answer_of_one_token_has_no_gaps_to_keep():
    log = interleaved([(0, 8, 1)], 1, lambda T: T, lambda B, S: 1)
    assert keeps(log.served[0], 8, 0) and not keeps(log.served[0], 7, 0) and percentiles(log, 50) == (8, 0, 8)


def test_a_percentile_is_one_of_a_hundred():
    refused((lambda: percentile([1], 101), "0 to 100, not 101"))
