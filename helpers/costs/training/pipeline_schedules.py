"""Pipelines: in which order each device works on the microbatches, when, and how long it waits (chapter 4).

A model is cut into stages, a batch into m microbatches. Stage s of microbatch i has these tasks:
    F    forward; needs F of stage s-1
    B    the gradient of the stage's input, dX; needs B of stage s+1, and its own F
    W    the gradient of its weights, dW; needs its own B, and nobody waits for it
    BW   B and W in one piece, as a plain backward pass does; stage s-1 waits for both
A schedule is, for each of p devices, the list of its tasks in order; `simulate` starts each of them as soon as it can. Between
devices nothing takes time: an activation that is sent is small (`training_step.step` counts it).

    naive        one microbatch after the other, through all stages and back
    GPipe        all F, then all BW
    1F1B         as soon as the last stage has an F it does its BW: as long a bubble, but p microbatches in memory and not m
    interleaved  1F1B with v stages, far apart, on each device: the pipeline fills with pieces of 1/v. 1F1B with v > 1 is this
    ZB-H1        backward split in two: B at once, W where 1F1B would wait; every device holds what 1F1B's first one does
    ZB-H2        the same with up to twice the microbatches in memory: if B takes no longer than F, F and B together no longer
                 than two W, and m is 2p - 1 or more, no device waits between its first and its last task
    ZB-V         two stages on each device, on a V: as few waits in the memory of 1F1B, if F, B and W take equally long
    DualPipe     microbatches from both ends: every device has two stages, so all weights lie on two devices

Source: Huang et al., "GPipe" (2019); Narayanan et al., "Efficient Large-Scale Language Model Training" (2021);
Qi et al., "Zero Bubble Pipeline Parallelism" (2024); DeepSeek-AI, "DeepSeek-V3" (2024), Table 2, for DualPipe;
Austin et al. 2025, Section 5.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from helpers.arguments import Count, formula, record
from helpers.numeric import maximum, minimum, plain, where

KINDS = ("F", "B", "W", "BW")


class Task(NamedTuple):
    """What a device does at a time."""

    stage: int
    micro: int
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} of microbatch {self.micro} at stage {self.stage}"


Orders = tuple[tuple[Task, ...], ...]  # for each device its tasks


@formula
def naive(p: int, m: int) -> Orders:
    """One microbatch at a time: all devices but one wait."""
    return tuple(tuple(Task(d, i, k) for i in range(m) for k in ("F", "BW")) for d in range(p))


@formula
def gpipe(p: int, m: int) -> Orders:
    """All forward passes, then all backward ones."""
    return tuple(tuple(Task(d, i, k) for k in ("F", "BW") for i in range(m)) for d in range(p))


@formula
def in_groups(p: int, m: int) -> None:
    """ValueError unless an interleaved pipeline can pass m microbatches in groups of p."""
    if m % p:
        raise ValueError(f"interleaved stages pass microbatches in groups of p={p}, so m is a multiple of it, not {m}")


@formula
def one_f_one_b(p: int, m: int) -> Orders:
    """1F1B: device d begins with p-1-d forward passes, then one forward and one backward in turn."""
    return interleaved(p, m, 1)


@formula
def interleaved(p: int, m: int, v: int = 2) -> Orders:
    """1F1B with v stages on each device: d, p+d, 2p+d, … Microbatches go round in groups of p, so p divides m if v > 1."""
    if v > 1:
        in_groups(p, m)
    out, n = [], m * v
    for d in range(p):
        ahead = min(n, p - 1 - d if v == 1 else 2 * (p - 1 - d) + (v - 1) * p)
        forward = [Task(k // p % v * p + d, k // (p * v) * p + k % p, "F") for k in range(n)]
        back = [Task((v - 1 - k // p % v) * p + d, k // (p * v) * p + k % p, "BW") for k in range(n)]
        turns = [t for pair in zip(forward[ahead:], back) for t in pair]
        out.append((*forward[:ahead], *turns, *back[n - ahead :]))
    return tuple(out)


@formula
def zb_h1(p: int, m: int) -> Orders:
    """Zero bubble in the memory of 1F1B: F and B as there, and W later, so that every device holds up to p microbatches."""
    return _split(p, m, [p - d for d in range(p)], range(p))


@formula
def zb_h2(p: int, m: int) -> Orders:
    """Zero bubble with up to 2p-1 microbatches on every device."""
    return _split(p, m, [2 * (p - d) - 1 for d in range(p)], range(0, 2 * p, 2))


@formula
def zb_v(p: int, m: int) -> Orders:
    """Zero bubble on a V: device d has stages d and 2p-1-d, so the first device has the loss too, in the memory of 1F1B.

    Each device does, in turn, what is ready first of: an F, unless its last task was one or 2p activations are kept; a B; a W.
    """
    orders: list[list[Task]] = [[] for _ in range(p)]
    count = Counter()  # microbatches that a stage has done a kind of task for
    done: dict[Task, int] = {}  # the tick at which a task is over; every task takes one

    def ready(task: Task, tick: int) -> bool:
        needs = [next((done[n] for n in ways if n in done), tick + 1) for ways in _needs(task, 2 * p)]
        return task.micro < m and max(needs, default=0) <= tick

    def following(device: int, tick: int) -> Task | None:
        """What a device can begin now."""
        early, late = device, 2 * p - 1 - device
        kept = sum(count[stage, "F"] - count[stage, "W"] for stage in (early, late))
        forward = [Task(stage, count[stage, "F"], "F") for stage in (late, early) if kept < 2 * p]
        back = [Task(stage, count[stage, "B"], "B") for stage in (early, late)]
        weights = [Task(stage, count[stage, "W"], "W") for stage in (late, early)]
        ahead = [*back, *forward] if orders[device] and orders[device][-1].kind == "F" else [*forward, *back]
        return next((task for task in (*ahead, *weights) if ready(task, tick)), None)

    tick = 0
    while len(done) < 6 * p * m:
        for d, task in [(d, following(d, tick)) for d in range(p)]:
            if task:
                done[task] = tick + 1
                orders[d].append(task)
                count[task.stage, task.kind] += 1
        tick += 1
    return tuple(map(tuple, orders))


PIPELINES = {
    "naive": naive,
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "ZB-H1": zb_h1,
    "ZB-H2": zb_h2,
    "ZB-V": zb_v,
}
INTERLEAVES = ("1F1B", "interleaved")  # schedules that may have several stages on each device
SCHEDULES = (*PIPELINES, "DualPipe")
"""Those that have closed forms: DualPipe's microbatches come from both ends, so each stage lies on two devices, and no order is
written here."""


@formula
def pipeline(name: str, p: int, m: int, v: int = 1) -> Orders:
    """The schedule of that name for p devices and m microbatches; v stages on each device if "interleaved".

    >>> for device in pipeline("1F1B", p=2, m=3): print(*(f"{t.kind}{t.micro}" for t in device))
    F0 F1 BW0 F2 BW1 BW2
    F0 BW0 F1 BW1 F2 BW2
    """
    if name not in PIPELINES:
        raise ValueError(f"{name!r} is no pipeline with an order: there are {', '.join(PIPELINES)}")
    if any(not isinstance(n, int) or n < 1 for n in (p, m, v)):
        raise ValueError(
            f"p devices, m microbatches and v stages on each are whole numbers of 1 or more, got {p}, {m} and {v}"
        )
    if v > 1 and name not in INTERLEAVES:
        raise ValueError(f"{name} has its own number of stages on each device: v is for 1F1B")
    return interleaved(p, m, v) if name in INTERLEAVES else PIPELINES[name](p, m)


def _split(p: int, m: int, forward_lead: Sequence[int], gradient_lag: Sequence[int]) -> Orders:
    """F and B in turn as in 1F1B, and after a B the W of an earlier microbatch.

    forward_lead  microbatches that each device has between F and B
    gradient_lag  and those between B and W; once its F are over, it does a W after every B
    """
    out = []
    for d in range(p):
        n = min(m, forward_lead[d])
        order = [Task(d, i, "F") for i in range(n)]
        f, w = n, 0
        for b in range(m):
            order.append(Task(d, b, "B"))
            if b - w >= gradient_lag[d] or f == m:
                order.append(Task(d, w, "W"))
                w += 1
            if f < m:
                order.append(Task(d, f, "F"))
                f += 1
        out.append((*order, *(Task(d, i, "W") for i in range(w, m))))
    return tuple(out)


class Event(NamedTuple):
    """A task, the device that does it, and from when to when."""

    task: Task
    device: int
    start: float
    end: float


@record
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
        by_device = [[e for e in self.events if e.device == d] for d in range(self.devices)]
        spans = (max(e.end for e in events) - min(e.start for e in events) for events in by_device)
        return tuple(span - busy for span, busy in zip(spans, self.busy))

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


@formula
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
    end, free, done, events = {}, [0.0] * len(orders), [0] * len(orders), []
    left = sum(map(len, orders))
    while left:
        before = left
        for d, order in enumerate(orders):
            while done[d] < len(order):
                task = order[done[d]]
                needs = [next((end[n] for n in ways if n in end), None) for ways in _needs(task, stages)]
                if None in needs:
                    break
                start = max(free[d], *needs) if needs else free[d]
                end[task] = free[d] = start + seconds[task.kind]
                events.append(Event(task, d, start, free[d]))
                done[d], left = done[d] + 1, left - 1
        if left == before:
            d = max(d for d, order in enumerate(orders) if done[d] < len(order))
            raise ValueError(
                f"nothing can start: next would be, on device {d}, {orders[d][done[d]]}; put what it needs before it"
            )
    return Timeline(tuple(sorted(events, key=lambda e: (e.start, e.device))), len(orders))


def _needs(task: Task, stages: int) -> list[tuple[Task, ...]]:
    """What must be done before a task; of several in a tuple whichever the schedule has."""
    if task.kind == "F":
        return [(Task(task.stage - 1, task.micro, "F"),)] if task.stage else []
    same_stage = [(Task(task.stage, task.micro, "B" if task.kind == "W" else "F"),)]
    if task.kind == "W" or task.stage == stages - 1:
        return same_stage
    return [*same_stage, (Task(task.stage + 1, task.micro, "B"), Task(task.stage + 1, task.micro, "BW"))]


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


@formula
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
        if name in INTERLEAVES and v > 1:
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
    return (p - 1) * (F + B + W) / (v if name in INTERLEAVES else 1)


@formula
def bubble(name: str, p, m, v=1, F=1.0, B=1.0, W=1.0):
    """Share of the devices' time in which they wait: (p-1)/(m+p-1) for GPipe and 1F1B, (p-1)/(vm+p-1) interleaved.

    >>> [round(bubble(name, p=4, m=8), 3) for name in SCHEDULES]
    [0.75, 0.273, 0.273, 0.273, 0.111, 0.111, 0.059, 0.077]
    """
    lost = idle(name, p, m, v, F, B, W)
    return lost / (lost + m * (F + B + W))


@formula(signed="device")
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
    if name in INTERLEAVES and not (isinstance(v, int) and v == 1):
        return minimum(m, where(v > 1, (2 * (p - 1 - device) + (v - 1) * p + 1) / v, p - device))
    return minimum(m, p - device)


def _known(name: str) -> None:
    if name not in SCHEDULES:
        raise ValueError(f"{name!r} is no pipeline: there are {', '.join(SCHEDULES)}")
