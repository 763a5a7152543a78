"""Pipelines: in which order each device works on the microbatches (chapter 4); `pipeline_schedules` says when, and how long it waits.

A model is cut into stages, a batch into m microbatches. Stage s of microbatch i has these tasks:
    F    forward; needs F of stage s-1
    B    the gradient of the stage's input, dX; needs B of stage s+1, and its own F
    W    the gradient of its weights, dW; needs its own B, and nobody waits for it
    BW   B and W in one piece, as a plain backward pass does; stage s-1 waits for both
A schedule is, for each of p devices, the list of its tasks in order.

    naive        one microbatch after the other, through all stages and back
    GPipe        all F, then all BW
    1F1B         as soon as the last stage has an F it does its BW: as long a bubble, but p microbatches in memory and not m
    interleaved  1F1B with v stages, far apart, on each device: the pipeline fills with pieces of 1/v
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
from typing import NamedTuple

from helpers.arguments import entries

KINDS = ("F", "B", "W", "BW")


class Task(NamedTuple):
    """What a device does at a time."""

    stage: int
    micro: int
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} of microbatch {self.micro} at stage {self.stage}"


Orders = tuple[tuple[Task, ...], ...]  # for each device its tasks


def naive(p: int, m: int) -> Orders:
    """One microbatch at a time: all devices but one wait."""
    return tuple(tuple(Task(d, i, k) for i in range(m) for k in ("F", "BW")) for d in range(p))


def gpipe(p: int, m: int) -> Orders:
    """All forward passes, then all backward ones."""
    return tuple(tuple(Task(d, i, k) for k in ("F", "BW") for i in range(m)) for d in range(p))


def in_groups(p: int, m: int) -> None:
    """ValueError unless an interleaved pipeline can pass m microbatches in groups of p."""
    if m % p:
        raise ValueError(f"interleaved stages pass microbatches in groups of p={p}, so m is a multiple of it, not {m}")


def one_f_one_b(p: int, m: int) -> Orders:
    """1F1B: device d begins with p-1-d forward passes, then one forward and one backward in turn."""
    return interleaved(p, m, 1)


def interleaved(p: int, m: int, v: int = 2) -> Orders:
    """1F1B with v stages on each device: d, p+d, 2p+d, … Microbatches go round in groups of p, so p divides m if v > 1."""
    if v > 1:
        in_groups(p, m)
    out = []
    for d in range(p):
        n = m * v
        first = min(n, p - 1 - d if v == 1 else 2 * (p - 1 - d) + (v - 1) * p)
        there = [Task(k // p % v * p + d, k // (p * v) * p + k % p, "F") for k in range(n)] if v > 1 else []
        back = [Task((v - 1 - k // p % v) * p + d, k // (p * v) * p + k % p, "BW") for k in range(n)] if v > 1 else []
        if v == 1:
            there, back = ([Task(d, i, kind) for i in range(m)] for kind in ("F", "BW"))
        turns = [t for pair in zip(there[first:], back) for t in pair]
        out.append((*there[:first], *turns, *back[n - first :]))
    return tuple(out)


def zb_h1(p: int, m: int) -> Orders:
    """Zero bubble in the memory of 1F1B: F and B as there, and W later, so that every device holds up to p microbatches."""
    return _split(p, m, [p - d for d in range(p)], range(p))


def zb_h2(p: int, m: int) -> Orders:
    """Zero bubble with up to 2p-1 microbatches on every device."""
    return _split(p, m, [2 * (p - d) - 1 for d in range(p)], range(0, 2 * p, 2))


def zb_v(p: int, m: int) -> Orders:
    """Zero bubble on a V: device d has stages d and 2p-1-d, so the first device has the loss too, in the memory of 1F1B.

    Each device does, in turn, what is ready first of: an F, unless its last task was one or 2p activations are kept; a B; a W.
    """
    at = _V(p, m)
    while any(at.left):
        ready = [(d, at.next(d)) for d in range(p)]
        for d, task in ready:
            if task:
                at.do(d, task)
        at.tick += 1
    return tuple(map(tuple, at.orders))


class _V:
    """Who has done what, tick by tick, on a V of 2p stages; every task takes a tick."""

    def __init__(self, p: int, m: int):
        self.p, self.m, self.tick, self.end = p, m, 0, {}
        self.orders: list[list[Task]] = [[] for _ in range(p)]
        self.count = Counter()  # microbatches that a stage has done a kind of task for
        self.left, self.held = [6 * m] * p, [0] * p

    def next(self, d: int) -> Task | None:
        """What device d can begin now."""
        first, last = d, 2 * self.p - 1 - d
        there = (Task(s, self.count[s, "F"], "F") for s in (last, first) if self.held[d] < 2 * self.p)
        back = (Task(s, self.count[s, "B"], "B") for s in (first, last))
        ahead = [*back, *there] if self.orders[d] and self.orders[d][-1].kind == "F" else [*there, *back]
        late = (Task(s, self.count[s, "W"], "W") for s in (last, first))
        return next((t for t in (*ahead, *late) if t.micro < self.m and self._ready(t)), None)

    def _ready(self, t: Task) -> bool:
        needs = [Task(t.stage - 1, t.micro, "F")] if t.kind == "F" and t.stage else []
        if t.kind != "F":
            needs = [Task(t.stage, t.micro, "F" if t.kind == "B" else "B")]
        if t.kind == "B" and t.stage < 2 * self.p - 1:
            needs.append(Task(t.stage + 1, t.micro, "B"))
        return all(self.end.get(n, self.tick + 1) <= self.tick for n in needs)

    def do(self, d: int, t: Task) -> None:
        self.end[t] = self.tick + 1
        self.orders[d].append(t)
        self.count[t.stage, t.kind] += 1
        self.left[d] -= 1
        self.held[d] += {"F": 1, "W": -1}.get(t.kind, 0)


PIPELINES = {
    "naive": naive,
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "ZB-H1": zb_h1,
    "ZB-H2": zb_h2,
    "ZB-V": zb_v,
}
SCHEDULES = (*PIPELINES, "DualPipe")
"""Those that have closed forms: DualPipe's microbatches come from both ends, so each stage lies on two devices, and no order is
written here."""


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
    if v > 1 and name != "interleaved":
        raise ValueError(f"{name} has its own number of stages on each device: v is for 'interleaved'")
    return interleaved(p, m, v) if name == "interleaved" else PIPELINES[name](p, m)


def _split(p: int, m: int, ahead: Sequence[int], behind: Sequence[int]) -> Orders:
    """F and B in turn as in 1F1B, and after a B the W of an earlier microbatch.

    ahead   microbatches that each device has between F and B
    behind  and those between B and W; once its F are over, it does a W after every B
    """
    out = []
    for d in range(p):
        n = min(m, ahead[d])
        order = [Task(d, i, "F") for i in range(n)]
        f, w = n, 0
        for b in range(m):
            order.append(Task(d, b, "B"))
            if b - w >= behind[d] or f == m:
                order.append(Task(d, w, "W"))
                w += 1
            if f < m:
                order.append(Task(d, f, "F"))
                f += 1
        out.append((*order, *(Task(d, i, "W") for i in range(w, m))))
    return tuple(out)


entries(__name__)
