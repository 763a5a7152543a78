"""Pipelines, carried out: when each device does what it does, and how long it waits (chapter 4).

`pipeline_orders` has the schedules. `simulate` starts each task as soon as it can.
Between devices nothing takes time: an activation that is sent is small (`training_step.step` counts it).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from helpers.arguments import Count, entries
from helpers.numeric import maximum, minimum, plain

from .pipeline_orders import (
    KINDS,
    PIPELINES as PIPELINES,  # asked for beside `simulate`, as `pipeline` is
    SCHEDULES,
    Orders,
    Task,
    in_groups,
    pipeline as pipeline,
)


class Event(NamedTuple):
    """A task, the device that does it, and from when to when."""

    task: Task
    device: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A schedule, carried out.

    events  in the order of their start
    """

    events: tuple[Event, ...]
    devices: int

    @cached_property
    def span(self) -> float:
        """From the first start to the last end."""
        return max(e.end for e in self.events)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """Time that each device works."""
        return tuple(sum(e.end - e.start for e in self.events if e.device == d) for d in range(self.devices))

    @property
    def bubble(self) -> float:
        """Share of all devices' time, from the first start to the last end, in which they wait."""
        return 1 - sum(self.busy) / (self.devices * self.span)

    @property
    def gaps(self) -> tuple[float, ...]:
        """Time that each device waits between its own first and last task: all that is lost if steps follow on each other."""
        own = [[e for e in self.events if e.device == d] for d in range(self.devices)]
        return tuple(max(e.end for e in o) - min(e.start for e in o) - b for o, b in zip(own, self.busy))

    @cached_property
    def peak(self) -> tuple[int, ...]:
        """Most activations of a stage that each device holds at once, one for each microbatch from its F to its W."""
        out = []
        for d in range(self.devices):
            held = most = 0
            turns = [(e.end, -1) for e in self.events if e.device == d and e.task.kind in ("W", "BW")]
            turns += [(e.start, 1) for e in self.events if e.device == d and e.task.kind == "F"]
            for _, step in sorted(turns):
                held += step
                most = max(most, held)
            out.append(most)
        return tuple(out)


def simulate(orders: Sequence[Sequence[tuple]], F: float = 1.0, B: float = 1.0, W: float = 1.0) -> Timeline:
    """Start every task as soon as its device is free and what it needs is there.

    orders   for each device its tasks, (stage, microbatch, kind) each
    F, B, W  seconds that they take; BW takes B + W

    >>> t = simulate(pipeline("GPipe", p=4, m=8))
    >>> t.span, round(t.bubble, 4), bubble("GPipe", 4, 8) == t.bubble, t.peak
    (33.0, 0.2727, True, (8, 8, 8, 8))
    >>> t = simulate(pipeline("ZB-H2", p=4, m=8))
    >>> t.span, t.gaps, t.peak
    (27.0, (0.0, 0.0, 0.0, 0.0), (7, 7, 7, 7))
    >>> simulate([[(0, 0, "F"), (0, 0, "BW")], [(1, 0, "BW"), (1, 0, "F")]])
    Traceback (most recent call last):
    ValueError: nothing can start: next would be, on device 1, BW of microbatch 0 at stage 1; put what it needs before it
    """
    if odd := next((t for order in orders for t in order if len(t) != 3 or not plain(*t[:2])), None):
        raise ValueError(f"a task is (stage, microbatch, kind), the first two are numbers; one is {tuple(odd)}")
    orders = tuple(tuple(Task(*t) for t in order) for order in orders)
    stages = _checked(orders)
    seconds = {"F": F, "B": B, "W": W, "BW": B + W}
    end, free, at, events = {}, [0.0] * len(orders), [0] * len(orders), []
    left = sum(map(len, orders))
    while left:
        before = left
        for d, order in enumerate(orders):
            while at[d] < len(order):
                task = order[at[d]]
                needs = [next((end[n] for n in some if n in end), None) for some in _needs(task, stages)]
                if None in needs:
                    break
                start = max(free[d], *needs) if needs else free[d]
                end[task] = free[d] = start + seconds[task.kind]
                events.append(Event(task, d, start, free[d]))
                at[d], left = at[d] + 1, left - 1
        if left == before:
            d = max(d for d, order in enumerate(orders) if at[d] < len(order))
            raise ValueError(
                f"nothing can start: next would be, on device {d}, {orders[d][at[d]]}; put what it needs before it"
            )
    return Timeline(tuple(sorted(events, key=lambda e: (e.start, e.device))), len(orders))


def _needs(t: Task, stages: int) -> list[tuple[Task, ...]]:
    """What must be done before a task; of several in a tuple whichever the schedule has."""
    if t.kind == "F":
        return [(Task(t.stage - 1, t.micro, "F"),)] if t.stage else []
    own = [(Task(t.stage, t.micro, "B" if t.kind == "W" else "F"),)]
    if t.kind == "W" or t.stage == stages - 1:
        return own
    return [*own, (Task(t.stage + 1, t.micro, "B"), Task(t.stage + 1, t.micro, "BW"))]


def _checked(orders: Orders) -> int:
    """The number of stages; ValueError if a task is missing, comes twice, or a stage lies on two devices."""
    tasks = Counter(t for order in orders for t in order)
    if not tasks:
        raise ValueError("a schedule has tasks: for each device a list of (stage, microbatch, kind)")
    if odd := next((t for t in tasks if t.kind not in KINDS), None):
        raise ValueError(f"a task is one of {', '.join(KINDS)}, not {odd.kind!r}")
    if twice := next((t for t, n in tasks.items() if n > 1), None):
        raise ValueError(f"{twice} is done {tasks[twice]} times: once is right")
    stages, micros = (1 + max(t[i] for t in tasks) for i in (0, 1))
    for s in range(stages):
        for i in range(micros):
            has = {k for k in KINDS if Task(s, i, k) in tasks}
            if has not in ({"F", "BW"}, {"F", "B", "W"}):
                got = " and ".join(sorted(has)) or "nothing"
                raise ValueError(f"microbatch {i} has {got} at stage {s}: it needs F and BW, or F, B and W")
        places = {d for d, order in enumerate(orders) for t in order if t.stage == s}
        if len(places) > 1:
            raise ValueError(f"stage {s} has tasks on devices {sorted(places)}: its weights lie on one of them")
    return stages


def idle(name: str, p, m, v=1, F=1.0, B=1.0, W=1.0):
    """Seconds that a device waits from the first start to the last end of a step: the closed forms of the sources.

    p devices, m microbatches; F, B, W are a device's seconds for one of them, through all of its v stages.
    Qi et al. have (p-1)(F+B-W) for ZB-H1 and (p-1)(F+B-2W) for ZB-H2: time that a device waits between its own tasks.
    From start to end of all of them it cannot be below (p-1)F, for so long the last device has nothing to do.
    Theirs hold if m is at least p and 2p-1. Below that ours are exact for F = B = W, and else no more than the truth.
    Interleaved, m is a multiple of p. ZB-V: exact for F = B = W and m of 2p-1 or more, else no more than the truth.
    DualPipe: (p/2-1)((F&B) + B - 3W) of DeepSeek-V3, where B has W in it, and F&B is taken as F + B:
    no gain from the overlap of a forward and a backward pass.

    >>> [idle(name, p=4, m=8) for name in SCHEDULES]
    [72.0, 9.0, 9.0, 9.0, 3.0, 3.0, 1.5, 2.0]
    >>> idle("interleaved", 4, 8, v=3), idle("ZB-H1", 4, 8, B=1.5, W=0.5), idle("ZB-H2", 4, 8, B=1.5, W=0.5)
    (3.0, 6.0, 4.5)
    """
    _known(name)
    if plain(p, m, v):
        if min(p, m, v) < 1:
            raise ValueError(f"a pipeline has one stage, one microbatch or more, not p={p}, m={m}, v={v}")
        if name == "interleaved" and v > 1:
            in_groups(p, m)
    if name == "naive":
        return (p - 1) * m * (F + B + W)
    if name == "ZB-H1":
        return maximum((p - 1) * F, (p - 1) * B, (p - 1) * (F + B) - (minimum(m, p) - 1) * W)
    if name == "ZB-H2":
        return maximum((p - 1) * F, (p - 1) * (F + B) - (minimum(m, 2 * p - 1) - 1) * W)
    if name == "ZB-V":
        return (p - 1) * F / 2
    if name == "DualPipe":
        return maximum(0.0, (p / 2 - 1) * (F + 2 * B - W))
    return (p - 1) * (F + B + W) / (v if name == "interleaved" else 1)


def bubble(name: str, p, m, v=1, F=1.0, B=1.0, W=1.0):
    """Share of the devices' time in which they wait: (p-1)/(m+p-1) for GPipe and 1F1B, (p-1)/(vm+p-1) interleaved.

    >>> [round(bubble(name, p=4, m=8), 3) for name in SCHEDULES]
    [0.75, 0.273, 0.273, 0.273, 0.111, 0.111, 0.059, 0.077]
    """
    lost = idle(name, p, m, v, F, B, W)
    return lost / (lost + m * (F + B + W))


def in_flight(name: str, p: Count, m: Count, v: Count = 1, device: int = 0):
    """Microbatches that a device holds activations of at most; of several stages, in units of what 1F1B has on a device.

    >>> [in_flight(name, p=4, m=8) for name in SCHEDULES], in_flight("interleaved", 4, 8, v=2)
    ([1, 8, 4, 4, 4, 7, 4, 5], 5.5)
    """
    _known(name)
    if plain(p, device) and not 0 <= device < p:
        raise ValueError(f"the devices of a pipeline of {p} are 0 to {p - 1}, not {device}")
    if name == "naive":
        return minimum(1, m)
    if name == "GPipe":
        return m
    if name in ("ZB-H1", "ZB-H2", "ZB-V", "DualPipe"):
        return minimum(m, {"ZB-H2": 2 * p - 1, "DualPipe": p + 1}.get(name, p))
    if name == "interleaved" and not (isinstance(v, int) and v == 1):
        return minimum(m, (2 * (p - 1 - device) + (v - 1) * p + 1) / v)
    return minimum(m, p - device)


def _known(name: str) -> None:
    if name not in SCHEDULES:
        raise ValueError(f"{name!r} is no pipeline: there are {', '.join(SCHEDULES)}")


entries(__name__, signed="device")
