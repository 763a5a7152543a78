"""Schedules of engines: the log of the kernels' orchestrator, on an engine without a model, and the simulation in `costs`.

In steps: a prompt of T tokens takes ceil(T / chunk). The paged server's are held against `budgeted` in
tests/helpers/kernels/inference/test_engine.py, over loads that are drawn too.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import pytest

from helpers.costs.inference import engine_simulation
from helpers.kernels.inference.continuous_batching import DESIGNS, Orchestrator
from helpers.kernels.inference.engine import Prefix
from tests.helpers.kernels.inference.test_engine import C, load
from tests.tiers import repeats


@dataclass(frozen=True)
class Lengths:
    """`Engine` without a model: a prefix is its length, and the next token is 0."""

    slots: int
    chunk: int
    c, size, page = C, 40, 40
    pages = property(lambda self: self.slots)

    empty = lambda self: None  # noqa: E731
    room = lambda self, *_: None  # noqa: E731
    nothing = lambda self: Prefix(None, 0, None)  # noqa: E731
    insert = free = lambda self, *_: None  # noqa: E731
    bytes = lambda self, prefix: prefix.length  # noqa: E731

    def read_together(self, params, prefixes, pieces):
        return [Prefix(None, prefix.length + len(piece), 0) for prefix, piece in zip(prefixes, pieces)]

    def generate(self, params, state):
        return state, np.zeros(self.slots, int)


def simulated(design: str, requests, engine: Lengths, network):
    """The simulation's log."""
    reading, one = lambda T: ceil(T / engine.chunk), lambda B, S: 1
    given = [(r.arrives, len(r.prompt), r.n) for r in requests]
    if design == "chunked":
        return engine_simulation.chunked(given, engine.slots, one, lambda B, S, T, done: 1, engine.chunk)
    if design == "static":
        return engine_simulation.batched(given, engine.slots, reading, one, together=lambda n, T: reading(T))
    if design == "interleaved":
        return engine_simulation.interleaved(given, engine.slots, reading, one)
    transfer = lambda T: ceil(T / network) if network else 0  # noqa: E731
    return engine_simulation.disaggregated(given, engine.slots, reading, one, transfer)


def bars(log):
    """For each lane, kind and requests, unless they only generate: from when and until when."""
    ends = {}
    for x in log.spans:
        if x.kind != "generate":
            start, _ = ends.get((x.lane, x.kind, x.requests), x[1:3])
            ends[x.lane, x.kind, x.requests] = start, x.end
    return ends


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.sample(quick=2)
def test_the_engines_log_is_that_of_the_simulation(design):
    moved = 0
    for seed in range(repeats(40, 1000)):
        draw = np.random.default_rng(seed)
        slots, chunk, n, arrivals = (int(draw.integers(*ends)) for ends in ((1, 6), (1, 7), (1, 25), (0, 60)))
        engine, requests = Lengths(slots, chunk), load(n, seed, arrivals)
        network = float(draw.uniform(0.5, 12)) if design == "disaggregated" and seed % 2 else None
        log = Orchestrator(engine, None, design, network=network).serve(requests)
        entries = [log.entries[r.name] for r in requests]
        wanted = simulated(design, requests, engine, network)
        got = log.timeline
        same = lambda log: [(s.start, s.tokens, s.slot, s.joined) for s in log.served]  # noqa: E731
        assert same(got) == same(wanted) and got.steps == wanted.steps, seed
        # What an entry says of itself; a token of step 3 is there at 4.
        assert [tuple(t + 1 for t in e.times) for e in entries] == [s.tokens for s in wanted.served], seed
        assert [e.first_token_after for e in entries] == [s.ttft for s in wanted.served], seed
        moving = [(e, s) for e, s in zip(entries, wanted.served) if e.request.n > 1]
        assert [(e.slot, e.inserted) for e, _ in moving] == [(s.slot[1], s.joined) for _, s in moving], seed
        # A prompt is one bar of the simulation, and one for each of its pieces in a log.
        assert bars(got) == bars(wanted), seed
        moved += bool(network)
    assert moved > 9 or design != "disaggregated"
