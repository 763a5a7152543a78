"""The films of chapter 6: what they show against `helpers.costs`, and on a page."""

import numpy as np
import pytest

from helpers.costs.attention.flops_and_bytes import Attention, flash as flash_cost
from helpers.costs.attention.io_complexity import visits
from helpers.costs.attention.ring_attention import ring_time, work
from helpers.figures.attention.block_films import flash_memory, ring_steps
from helpers.figures.attention.block_films.tiles import flash, ring


@pytest.mark.parametrize("n, C, window", [(4, 8, None), (5, 4, None), (4, 8, 8), (6, 4, 9), (3, 1, None)])
def test_flash_visits_the_blocks_that_the_mask_leaves_once(n, C, window):
    want = visits(n * C, n * C, C, C, window=window)
    for version in (1, 2):
        film = flash(n, C, version, window)
        seen = [t for step in film.frames for t in step.now]
        assert len(seen) == len(set(seen)) == want.all == len(film.frames) - 1
        assert tuple(sum(t[0] == i for t in seen) for i in range(n)) == want.rows
        full = sum(all(run == (0, C) for run in runs) for runs in film.runs.values())
        assert full == want.full
        for step, then in zip(film.frames, film.frames[1:]):
            assert then.done == step.done | set(step.now)


def test_what_flash_moves_is_what_costs_say():
    """Bytes of one head with numbers of one byte, beside the l and m that the film leaves out."""
    n, C, H = 4, 8, 1024
    for version, rows in ((2, 4 * n * C), (1, 4 * 4 * 10 * C)):
        said = [x for x in flash(n, C, version).frames[-1].notes if ": " in x]
        moved = {name: int(count) for name, count in (x.split(": ") for x in said)}
        blocks = 2 * moved["K and V, each"] + moved["Q"] + moved["O"]
        bytes_ = flash_cost(Attention(n * C, H=H, x=1), C, version).bytes - rows
        assert blocks * C * H == bytes_, version


@pytest.mark.parametrize("cut", ["contiguous", "striped"])
@pytest.mark.parametrize("n, C", [(4, 8), (3, 5)])
def test_a_ring_computes_every_pair_once(cut, n, C):
    film = ring(n, C, cut)
    hops = film.frames[:-1]
    seen = [t for step in hops for t in step.now]
    assert len(seen) == len(set(seen)) == n * n
    for step in hops:  # what the mask leaves of a block, counted
        assert step.pairs == tuple(sum(b - a for a, b in filter(None, film.runs[t])) for t in step.now)
    assert sum(sum(step.pairs) for step in hops) == n * C * (n * C + 1) // 2
    *totals, _, waited = film.frames[-1].notes
    assert totals == [f"{sum(step.pairs[i] for step in hops)} pairs in all" for i in range(n)]
    assert waited == f"waited for: {ring_time(n, C, cut):.0f}"


@pytest.mark.parametrize("causal", [True, False])
def test_what_flash_writes_is_dense_attention(causal):
    """Of each query the last m, l and O, against a softmax of whole rows; and blocks of O are done in order."""
    Q, K, V = (np.array(x, float) for x in (flash_memory.Q, flash_memory.K, flash_memory.V))
    scores = np.where(np.tri(6, dtype=bool) | (not causal), np.outer(Q, K), -np.inf)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    film = flash_memory.film(causal)
    last = {row.query: row for step in film.frames for row in step.rows}
    assert [last[t].O / last[t].total for t in range(6)] == pytest.approx(shares @ V)
    assert [last[t].m for t in range(6)] == scores.max(1).tolist()
    assert len(film.frames) - 1 == visits(6, 6, 2, 2, causal=causal).all
    assert [step.done for step in film.frames] == sorted(step.done for step in film.frames)
    assert film.frames[-1].done == 3


def test_a_ring_hands_on_what_costs_say():
    """The keys at each hop are those of the device so many before, and blocks left out are those without work."""
    for causal in (True, False):
        film = ring_steps.film(causal)
        for r, (hop, pairs) in enumerate(zip(film.frames, work(4, 5), strict=True)):
            assert hop.keys == tuple((i - r) % 4 for i in range(4))
            assert hop.works == tuple(bool(p) or not causal for p in pairs)
        assert [len(s) for s in film.frames[-1].seen] == [1 + i if causal else 4 for i in range(4)]
        assert sum(hop.sends for hop in film.frames) == 3


def test_keys_go_to_the_next_device():
    for step, then in zip((frames := ring(4, 2).frames), frames[1:-1]):
        keys, later = dict(step.now), dict(then.now)
        assert all(later[(i + 1) % 4] == j for i, j in keys.items())
