"""Pipelines: orders that a real net can follow, start times checked task by task, bubbles counted in slots."""

from itertools import product

import numpy as np
import pytest

from helpers.costs.training.pipeline_schedules import (
    INTERLEAVES,
    PIPELINES,
    bubble,
    idle,
    in_flight,
    pipeline,
    simulate,
    zb_v,
)
from tests.helpers.costs.tables import refused, walks
from tests.tiers import some

SIZES = [(p, m) for p in (1, 2, 3, 4, 6) for m in (1, 2, 4, 6, 8, 12, 24)]
TIMES = [(1.0, 1.0, 1.0), (1.0, 1.5, 0.5), (1.0, 0.5, 1.5), (2.0, 1.0, 1.0), (1.0, 2.0, 2.0)]
WHOLE = ("naive", "GPipe", "1F1B", "interleaved")


def several(name, p, m):
    return (1, 2, 3) if name in INTERLEAVES and m % p == 0 else (1,)


def thin(name, v):
    """Stages of a device."""
    return 2 if name == "ZB-V" else v


ALL = {name: [(p, m, v) for p, m in SIZES for v in several(name, p, m)] for name in PIPELINES}


def train(orders, stages, micros):
    """Gradients of a net of tanh stages, task by task in the order of the simulated starts; what is not there yet is a KeyError."""
    draw = np.random.default_rng(0)
    weights = draw.normal(size=(stages, 5, 5)) / 5**0.5
    x = draw.normal(size=(micros, 3, 5))
    act, dact, grads, held = {(i, 0): x[i] for i in range(micros)}, {}, np.zeros_like(weights), {}
    for e in sorted(simulate(orders).events, key=lambda e: e.end):
        s, i, kind = e.task
        if kind == "F":
            act[i, s + 1] = np.tanh(act[i, s] @ weights[s])
            if s == stages - 1:
                dact[i, stages] = 2 * act[i, stages]  # the loss is the sum of squares
        if kind in ("B", "BW"):
            held[i, s] = dact.pop((i, s + 1)) * (1 - act[i, s + 1] ** 2)
            dact[i, s] = held[i, s] @ weights[s].T
        if kind in ("W", "BW"):
            grads[s] += act[i, s].T @ held.pop((i, s))
    return weights, x, grads


def whole(weights, x):
    """The same gradients, for the batch as one."""
    acts = [x.reshape(-1, 5)]
    for w in weights:
        acts.append(np.tanh(acts[-1] @ w))
    d, grads = 2 * acts[-1], []
    for w, a, out in zip(weights[::-1], acts[-2::-1], acts[:0:-1]):
        d = d * (1 - out**2)
        grads.append(a.T @ d)
        d = d @ w.T
    return np.array(grads[::-1])


@walks(PIPELINES)
def test_every_pipeline_gives_the_gradients_of_the_whole_net(name):
    """In the simulated order each stage has what it needs, and gradients are those of one big batch."""
    for p, m, v in (a for a in ALL[name] if a[0] * a[1] <= 36):
        weights, x, grads = train(pipeline(name, p, m, v), p * thin(name, v), m)
        np.testing.assert_allclose(grads, whole(weights, x), rtol=1e-9, atol=1e-9)


@walks(PIPELINES)
def test_nothing_starts_early_or_twice_and_nothing_could_start_earlier(name):
    """Every start is the end of what came before on the device, or of what the task needs."""
    for p, m, v in ALL[name]:
        F, B, W = (1.0, 1.5, 0.5)
        t = simulate(pipeline(name, p, m, v), F, B, W)
        end = {(e.task.stage, e.task.micro, k): e.end for e in t.events for k in e.task.kind}  # BW ends as B and as W
        for d in range(p):
            free = 0.0
            for e in (e for e in t.events if e.device == d):
                s, i, kind = e.task
                needs = {"F": [(s - 1, i, "F")], "W": [(s, i, "B")]}.get(kind, [(s, i, "F"), (s + 1, i, "B")])
                assert e.start == max([free, *(end[n] for n in needs if 0 <= n[0] < p * thin(name, v))])
                free = e.end
        assert len(end) == 3 * m * p * thin(name, v)
        assert sum(t.busy) == pytest.approx(p * thin(name, v) * m * (F + B + W))


@walks(PIPELINES)
def test_closed_forms_of_idle_time_and_memory(name):
    """Bubble shares and peaks, against those counted in the simulated schedule."""
    for (p, m, v), (F, B, W) in some(product(ALL[name], TIMES), 17):
        n = thin(name, v)
        t = simulate(pipeline(name, p, m, v), F / n, B / n, W / n)
        lost = t.span - m * (F + B + W)
        form = idle(name, p, m, v, F, B, W)
        alike, many = F == B == W, m >= {"ZB-H1": p}.get(name, 2 * p - 1)
        if name in WHOLE or (alike and many if name == "ZB-V" else alike or many):
            assert lost == pytest.approx(form)
            assert t.bubble == pytest.approx(bubble(name, p, m, v, F, B, W))
        assert lost >= form - 1e-9
        assert lost >= (p - 1) * F / n - 1e-9  # the last device cannot begin before
        for d in range(p) if name in ("naive", "GPipe", "1F1B") else (0,):
            assert t.peak[d] / n == in_flight(name, p, m, v, d)
        assert max(t.peak) == t.peak[0]


def test_zb_h2_waits_inside_unless_its_passes_are_balanced():
    """No device waits between its own tasks where B <= F and F + B <= 2W, and somewhere one does in every other case."""
    seconds = (0.5, 0.75, 1.0, 1.25, 2.0)
    for (p, m), F, B, W in product(((2, 4), (3, 5), (4, 8)), seconds, seconds, seconds):
        t = simulate(pipeline("ZB-H2", p, m), F, B, W)
        assert (max(t.gaps) == 0) == (B <= F and F + B <= 2 * W), (p, m, F, B, W)


def test_zb_v_waits_only_for_its_first_task_in_the_memory_of_1f1b():
    """Where tasks take equally long: Qi et al. 2024; the first device has the loss."""
    for p in (2, 3, 5, 8, 16):
        t = simulate(zb_v(p, 2 * p))
        assert t.span == 6 * 2 * p + p - 1 and max(t.peak) == 2 * p
        assert {e.device for e in t.events if e.task.stage == 2 * p - 1} == {0}


def test_dualpipe_is_table_2_of_deepseek_v3():
    """Bubble (PP/2 - 1)(F&B + B - 3W), against (PP - 1)(F + B - 2W) of ZB1P and (PP - 1)(F + B) of 1F1B; their B has W in it."""
    p, m, F, B, W = 16, 64, 1.0, 1.2, 0.8
    full = B + W
    assert idle("DualPipe", p, m, 1, F, B, W) == pytest.approx((p / 2 - 1) * ((F + full) + full - 3 * W))
    assert idle("ZB-H1", p, m, 1, F, B, W) == pytest.approx((p - 1) * (F + full - 2 * W))
    assert idle("1F1B", p, m, 1, F, B, W) == pytest.approx((p - 1) * (F + full))
    assert in_flight("DualPipe", p, m) == p + 1


F0, BW0, F1, BW1 = (0, 0, "F"), (0, 0, "BW"), (1, 0, "F"), (1, 0, "BW")


def test_errors_say_what_would_be_right():
    refused(
        (lambda: pipeline("DualPipe", 2, 2), "'DualPipe' is no pipeline with an order: there are naive, GPipe"),
        (lambda: pipeline("1F1B", 0, 2), "whole numbers of 1 or more, got 0, 2 and 1"),
        (lambda: pipeline("GPipe", 2, 2, 2), "GPipe has its own number of stages on each device: v is for 1F1B"),
        (lambda: pipeline("interleaved", 4, 6, 2), "groups of p=4, so m is a multiple of it, not 6"),
        (lambda: simulate([[], []]), "a schedule has tasks"),
        (lambda: simulate([[F0, BW0, BW0]]), "BW of microbatch 0 at stage 0 is done 2 times: once is right"),
        (lambda: simulate([[F0, BW0], [F1]]), "microbatch 0 has F at stage 1: it needs F and BW, or F, B and W"),
        (lambda: simulate([[F0, BW0], [F1], [BW1]]), r"stage 1 has tasks on devices \[1, 2\]"),
        (lambda: simulate([[(0, 0, "G")]]), "a task is one of F, B, W, BW, not 'G'"),
        (lambda: simulate([[BW0, F0]]), "nothing can start: next would be, on device 0, BW of microbatch 0 at stage 0"),
        (lambda: simulate([[F0, (0, 0, "W"), (0, 0, "B")]]), "on device 0, W of microbatch 0 at stage 0"),
        (lambda: idle("2F2B", 2, 2), "'2F2B' is no pipeline"),
        (lambda: bubble("1F1B", 0, 0), "one stage, one microbatch or more, not p=0, m=0, v=1"),
        (lambda: bubble("interleaved", 8, 3, v=5), "groups of p=8, so m is a multiple of it, not 3"),
    )
