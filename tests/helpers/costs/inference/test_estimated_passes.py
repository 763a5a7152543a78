"""The estimate's passes in a simulation: each is the server's own, and a simulated load takes what its passes take."""

import pytest

from helpers.costs.inference.engine_simulation import chunked, disaggregated, interleaved
from helpers.costs.inference.estimated_passes import passes_of
from helpers.costs.inference.request_log import mixed_load
from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server
from helpers.costs.inference.serving_operations import Batch, Deployment, reading
from helpers.costs.inference.token_budget import budgeted
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.config import LayerKind
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

DENSE = Server(model("llama-3-70b"), chip("H100"), Deployment(tp=8, weights="fp8"), ENGINES["vllm"])
SPARSE = Server(model("deepseek-v3"), chip("H200"), Deployment(tp=2, dp=8, ep=16, weights="fp8"), ENGINES["sglang"])


@walks([DENSE, SPARSE])
def test_a_pass_is_the_servers(s):
    t = passes_of(s)
    assert t.step(64, 4096) == pytest.approx(s.decode(64, 4096).mid) == t.passes(64, 4096, ())
    assert t.prefill(2048) == pytest.approx(s.prefill(2048).mid) == t.passes(0, 0, ((2048, 0),))
    one = s.seconds(Batch(64 / s.at.dp, 4096, 512, 1, 1024))  # a piece lies on one group, and the others wait for it
    assert t.mixed(64, 4096, 512, 1024) == pytest.approx(sum(one.values()))
    for n in (4, 32):
        assert t.passes(0, 0, ((512, 64),) * n) == pytest.approx(s.prefill(512, B=n, done=64).mid)
    assert t.pages(16) * 16 * s.cache(1) / s.at.dp <= s.chip.hbm_bytes * 0.9 - s.held  # they fit beside the weights


def test_pieces_have_all_their_pairs(monkeypatch):
    """FLOPs of attention of unequal pieces, which the estimate is asked for as equal ones, are those of each by itself."""
    seen = []
    monkeypatch.setattr(Server, "seconds", lambda self, b: seen.append(b) or {"all": 1.0})
    pieces = ((100, 300), (7, 0), (405, 2000))
    passes_of(DENSE).passes(5, 99, pieces)
    flops = lambda *b: reading(DENSE.config, LayerKind(), DENSE.at, Batch(0.0, 0.0, *b)).prefill  # noqa: E731
    (b,) = seen
    assert (b.decode, b.keys, b.prefill, b.prompts) == (5, 99, 512, 3)
    assert flops(b.prefill, b.prompts, b.done) == pytest.approx(sum(flops(T, 1, done) for T, done in pieces))


def test_a_simulated_load_takes_what_its_passes_take():
    """Every design, with the estimate's seconds: bars of the server are passes, one by one."""
    t = passes_of(DENSE)
    load = mixed_load(6, seed=2, rate=4.0, prompts=(200, 3000), outputs=(2, 20))
    log = budgeted(load, 4, t.passes, 1024, t.pages(16))
    known = {t.step(B, S) for B in (1,) for S in range(200, 3100)}
    alone = [x for x in log.spans if x.kind == "generate" and len(x.requests) == 1]
    assert alone and all(any(abs(x.end - x.start - k) < 1e-9 for k in known) for x in alone)
    one = load[:1]
    first = t.prefill(one[0].prompt)
    for made in (
        interleaved(one, 4, t.prefill, t.step),
        disaggregated(one, 4, t.prefill, t.step),
        chunked(one, 4, t.step, t.mixed, 4096),
        budgeted(one, 4, t.passes, 4096),
    ):
        assert made.ttft == pytest.approx(first)
        assert made.worst_gap == pytest.approx(t.step(1, one[0].prompt + one[0].output - 1))
