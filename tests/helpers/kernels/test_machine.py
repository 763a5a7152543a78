"""Measuring this machine: what the kernels do is asserted, how long they take never is."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import trace
from helpers.kernels import machine


def poly_by_hand(x, k, n):
    """One element through poly(k, n), counting every operation as it is done."""
    ops, chains = 0, []
    for i in range(n):
        c = x + 0.1 * (i + 1)
        ops += 1
        for _ in range(k):
            c = c * 0.999 + 0.001
            ops += 2
        chains.append(c)
    total = chains[0]
    for c in chains[1:]:
        total += c
        ops += 1
    return total * 0.1, ops + 1


@pytest.mark.parametrize(("k", "chains"), [(5, 8), (0, 1), (3, 2), (0, 8), (1, 8), (32, 8), (7, 1)])
@pytest.mark.sample(quick=3, slow=2)
def test_poly_does_what_its_formula_says(k, chains):
    n = 1000
    value, ops = poly_by_hand(0.7, k, chains)
    work = machine.poly_work(k, n, chains)
    counted = trace.count(machine.poly(k, chains), jax.ShapeDtypeStruct((n,), jnp.float32))
    assert work.flops == n * ops == counted.flops == n * chains * 2 * (k + 1)
    assert work.bytes == counted.io_bytes == 8 * n
    assert work.intensity == chains * (k + 1) / 4
    assert np.allclose(machine.poly(k, chains)(jnp.full(n, 0.7)), value, rtol=1e-5)


@pytest.mark.parametrize("chains", [8, 1])
@pytest.mark.sample(quick=1)
def test_poly_works_in_place_and_stays_finite(chains):
    kernel, x = machine.poly(2, chains), jnp.ones(64)
    first = x
    for _ in range(200):
        x = kernel(x)
    assert first.is_deleted()  # donated
    assert bool(jnp.all(jnp.isfinite(x))) and bool(jnp.all(jnp.abs(x) > 1e-6))


@pytest.mark.parametrize("dtype", machine.DTYPES)
def test_matmul_work_is_what_the_program_does(dtype):
    B, D, F = 3, 5, 7
    x, w = (jax.ShapeDtypeStruct(s, machine.DTYPES[dtype]) for s in ((B, D), (D, F)))
    counted, work = trace.count(machine._matmul, x, w), machine.matmul_work(B, D, F, dtype)
    assert (work.flops, work.bytes, work.dtype) == (counted.flops, counted.io_bytes, dtype)
    assert counted.flops == 2 * 3 * 5 * 7


def test_sweeps_return_one_timing_for_each_point(monkeypatch):
    runs = []

    def once(run, budget=0.3, least=3):
        runs.append(jax.block_until_ready(run()))
        return 0.5, 1.5

    monkeypatch.setattr(machine, "runs", once)
    rows = machine.sweep_matmuls([1, 4], 8, 16)
    assert [t.at for t in rows] == [1, 4] and [r.shape for r in runs] == [(1, 16), (4, 16)]
    assert rows[1].work.flops == 2 * 4 * 8 * 16 and rows[1].rate == rows[1].work.flops / 0.5
    assert all(t.spread == 1.5 for t in rows)
    runs.clear()
    rows = machine.sweep_poly([0, 3], n=100)
    assert [t.work for t in rows] == [machine.poly_work(0, 100), machine.poly_work(3, 100)]
    assert [r.shape for r in runs] == [(100,), (100,)]
    assert machine.sweep_poly([2], n=100, chains=1)[0].work == machine.poly_work(2, 100, 1)


def test_best_is_the_minimum_after_one_warm_up(monkeypatch):
    clock = iter([0, 0, 9, 9, 10, 10, 14, 14])  # end; then start and stop of runs that take 9, 1 and 4 s
    calls = []
    monkeypatch.setattr(machine, "perf_counter", lambda: next(clock, 99))
    assert machine.runs(lambda: calls.append(1), budget=0, min_runs=3)[0] == 1
    assert len(calls) == 4


def test_spread_is_that_of_a_machine_on_which_others_run(monkeypatch):
    """Three runs of 2, 4 and 9 s: the best 2, the middle one twice that."""
    clock = iter([0, 0, 9, 9, 11, 11, 15, 15])
    monkeypatch.setattr(machine, "perf_counter", lambda: next(clock, 99))
    assert machine.runs(lambda: None, budget=0, min_runs=3) == (2, 2.0)
    assert machine.noise(2.0, 1.0).startswith("NOISY") and "NOISY" not in machine.noise(machine.QUIET, machine.WHOLE)


@pytest.mark.parametrize("busy, got", [(0, 1.0), (1, 0.5), (3, 0.25)])
def test_a_steady_load_shows_in_the_share_of_a_core(monkeypatch, busy, got):
    """Clocks of a thread that takes turns with `busy` others: runs are all alike, so their spread says nothing."""
    now = iter(range(10**6))
    at = [0]

    def clock():
        at[0] = next(now) / 1000
        return at[0]

    monkeypatch.setattr(machine, "perf_counter", clock)
    monkeypatch.setattr(machine, "thread_time", lambda: at[0] / (1 + busy))
    assert machine.share(0.2) == pytest.approx(got, rel=0.02)
    assert machine.noise(1.0, got).startswith("quiet" if busy == 0 else "NOISY")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample(quick=4, slow=4)
def test_what_is_said_of_the_bounds_is_true_of_the_rows(seed):
    """Any times at all: counted again row by row; with the sweep's own ceilings none is below its bound."""
    draw = np.random.default_rng(seed)
    timings = [machine.Timing(k, machine.poly_work(k, 1000), draw.uniform(1e-6, 1e-3)) for k in range(9)]
    own = machine.ceilings(timings)
    assert own == (max(t.work.flops / t.seconds for t in timings), max(8000 / t.seconds for t in timings))
    for C, W in (own, (timings[-1].rate, timings[0].work.bytes / timings[0].seconds)):  # the ends, as the page once had
        counted = dict.fromkeys(("between", "below", "above"), 0)
        for t in timings:
            math, memory = t.work.flops / C, t.work.bytes / W
            ratio, most = t.seconds / max(math, memory), (math + memory) / max(math, memory)
            counted["below" if ratio < 1 - 1e-9 else "above" if ratio > most + 1e-9 else "between"] += 1
        said = machine.against_bounds(timings, C, W)
        assert [int(n) for n in re.findall(r"\d+", said)] == [counted["between"], 9, counted["below"], counted["above"]]
        assert counted["below"] == 0 or (C, W) != own


def test_best_waits_for_the_result():
    class Pending:
        waited = 0

        def block_until_ready(self):
            Pending.waited += 1
            return self

    machine.runs(Pending, budget=0, min_runs=3)
    assert Pending.waited == 4


@pytest.mark.slow
def test_measure_is_positive_and_frozen(monkeypatch, capsys):
    real = machine.runs
    monkeypatch.setattr(machine, "runs", lambda run, budget=0, min_runs=1: real(run, 0, 1))  # measured once, for speed
    monkeypatch.setattr(machine, "_large", lambda: 2**16)
    m = machine.measure()
    assert min(m.flops, m.bandwidth, m.dispatch, m.elementwise, m.ridge) > 0
    assert m.spread >= 1 and 0 < m.share <= 1
    assert m.ridge == m.flops / m.bandwidth and m.dtype in machine.DTYPES
    assert capsys.readouterr().out == ""  # the progress bar is no output of a page
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.flops = 1
