"""What requests to an engine met: times of every token, spans of a timeline, and what users were promised and got (chapter 5).

Times are seconds from the start of a simulation by `engine_simulation`, or steps of an engine of `kernels.inference`.
A promise is two numbers: the first token comes within so many seconds, and the gaps between tokens are no longer than so many.

Source: Zhong et al., "DistServe" (2024), section 2.1 for promises and goodput, which is there the highest rate at which 90 % of
requests keep them; here it is the requests that did, a second, as in vLLM's `bench serve --goodput`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import floor
from typing import NamedTuple

from helpers.arguments import formula, record
from helpers.moved import old_field, old_parameter

from .request_loads import Request
from .scheduler import Job, Pass


class Span(NamedTuple):
    """A bar of a timeline: what a lane (a server, the network or a slot) does, and for which requests."""

    lane: str
    start: float
    end: float
    kind: str  # "prefill", "generate", "transfer" or "mixed", a step with a chunk of a prompt in it
    requests: tuple[int, ...]


@record
class Served:
    """What one request met, in seconds from the start of the simulation.

    start   of its prefill
    tokens  when each of its tokens came
    slot    where it generated: server and slot
    joined  when it could have begun to: it had its first token and its slot
    """

    request: Request
    start: float
    tokens: tuple[float, ...]
    slot: tuple[int, int]
    joined: float

    @property
    def ttft(self) -> float:
        """Time to first token."""
        return self.tokens[0] - self.request.arrival

    @property
    def latency(self) -> float:
        """Seconds from arrival to the last token."""
        return self.tokens[-1] - self.request.arrival

    @property
    def gaps(self) -> tuple[float, ...]:
        """Seconds from token to token."""
        return tuple(b - a for a, b in zip(self.tokens, self.tokens[1:]))


@record
class Log:
    """A served load.

    served  for each request, in the order in which they were given
    spans   in the order of their start
    steps   (sequences at work, slots of the server) of every decode step
    padded  tokens of padding that prefills computed
    stays   for each request and each time that it had a slot: while it was read there, and while it generated; (): once each
    preempted, recomputed, swapped   how often a request gave its pages up, tokens read again, pages that went to the hosts
    """

    served: tuple[Served, ...]
    spans: tuple[Span, ...]
    steps: tuple[tuple[int, int], ...]
    padded: int = 0
    stays: tuple[Span, ...] = ()
    preempted: int = 0
    recomputed: int = 0
    swapped: int = 0

    @cached_property
    def span(self) -> float:
        """Seconds from the first arrival to the last token."""
        return max(s.tokens[-1] for s in self.served) - min(s.request.arrival for s in self.served)

    @property
    def tokens(self) -> int:
        """Tokens made."""
        return sum(len(s.tokens) for s in self.served)

    @property
    def throughput(self) -> float:
        """Tokens made a second."""
        return self.tokens / self.span

    @property
    def slot_use(self) -> float:
        """Share of the slots of all decode steps that made a token; 1 if no step was needed."""
        return sum(n for n, _ in self.steps) / sum(n for _, n in self.steps) if self.steps else 1.0

    @property
    def padding(self) -> float:
        """Share of the tokens that prefills computed that were padding."""
        real = sum(s.request.prompt - s.request.known for s in self.served)
        return self.padded / (real + self.padded)

    @property
    def ttft(self) -> float:
        """Mean time to first token."""
        return sum(s.ttft for s in self.served) / len(self.served)

    @property
    def per_token(self) -> float:
        """Mean seconds from token to token, over all of them."""
        gaps = [g for s in self.served for g in s.gaps]
        return sum(gaps) / len(gaps) if gaps else 0.0

    @property
    def worst_gap(self) -> float:
        """The longest that anybody waited between two tokens: jitter, and after the first token the way into a slot."""
        return max((g for s in self.served for g in s.gaps), default=0.0)

    def slot_spans(self) -> tuple[Span, ...]:
        """One bar for each request in the slot that it generated in, from when it came there to its last token; or its stays."""
        if self.stays:
            return self.stays
        bars = ((_lane(s.slot), s.joined, s.tokens[-1]) for s in self.served)
        return tuple(Span(*bar, "generate", (number,)) for number, bar in enumerate(bars))


def _lane(slot: tuple[int, int]) -> str:
    return f"slot {slot[0]}.{slot[1]}"


@dataclass
class Record:
    """What is written down while requests are served: by a simulation, in seconds, or by an engine, in steps."""

    start: dict[int, float] = field(default_factory=dict)
    tokens: dict[int, list[float]] = field(default_factory=dict)
    slot: dict[int, tuple[int, int]] = field(default_factory=dict)
    joined: dict[int, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    stays: list[Span] = field(default_factory=list)
    stay: dict[int, tuple[float, str]] = field(default_factory=dict)  # where the bar of a request in a slot began
    preempted: int = 0
    recomputed: int = 0
    swapped: int = 0
    returned: int = 0  # pages from the host

    def begun(self, work: Pass, now: float) -> None:
        """Who leaves, starts or takes a slot before a pass."""
        for job in work.preempted:
            self._leave(job.number, now)
        for job in work.started:
            self.start.setdefault(job.number, now)
        for job in work.seated:
            if job.number in self.tokens and job.number not in self.slot:
                self.joined[job.number] = now  # its prompt was read ahead, or elsewhere
            self.slot[job.number] = 0, job.slot
            unread = job.sequences[0].length - job.sequences[0].computed
            self.stay[job.number] = now, "prefill" if unread > 1 or job.fresh else "generate"
        self.preempted += len(work.preempted)
        self.swapped += work.pages_out
        self.returned += work.pages_back

    def passed(self, work: Pass, begin: float, end: float, slots: int, lane: str = "server") -> None:
        """A pass from `begin` to `end`."""
        kind = "generate" if not work.pieces else "mixed" if work.generating else "prefill"
        self.spans.append(Span(lane, begin, end, kind, tuple(part.job.number for part in work.parts)))
        if work.generating:
            self.steps.append((len(work.generating), slots))
        self.recomputed += work.recomputed

    def token(self, job: Job, end: float, last: bool) -> bool:
        """A request has one token more, perhaps its last."""
        self.tokens.setdefault(job.number, []).append(end)
        self.joined.setdefault(job.number, end)
        if job.number in self.stay and (last or self.stay[job.number][1] == "prefill"):
            self._leave(job.number, end)
            if not last:
                self.stay[job.number] = end, "generate"
        return last

    def _leave(self, number: int, now: float) -> None:
        begin, kind = self.stay.pop(number, (now, ""))
        if now > begin:
            self.stays.append(Span(_lane(self.slot[number]), begin, now, kind, (number,)))

    def log(self, load: Sequence[Request], with_stays: bool = False) -> Log:
        """What the requests of a load met; with `with_stays`, each time that one of them had a slot."""
        served = (
            Served(r, self.start[i], tuple(self.tokens[i]), self.slot.get(i, (0, 0)), self.joined[i])
            for i, r in enumerate(load)
        )
        counts = {name: getattr(self, name) for name in ("preempted", "recomputed", "swapped")}
        stayed = tuple(sorted(self.stays)) if with_stays else ()
        return Log(tuple(served), tuple(sorted(self.spans)), tuple(self.steps), stays=stayed, **counts)


class Percentiles(NamedTuple):
    """Seconds of the first token, of the gaps between tokens, and of the whole request."""

    ttft: float
    gap: float
    whole: float

    first = old_field("first", "ttft")


@formula
def percentile(values: Iterable[float], percent):
    """The value that `percent` % are not above, between its two neighbours in proportion, as `numpy.percentile` does it; 0 of none.

    >>> [percentile([4, 1, 3, 2], p) for p in (0, 50, 90, 100)]
    [1.0, 2.5, 3.7, 4.0]
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile is one of 0 to 100, not {percent}")
    values = sorted(values)
    if not values:
        return 0.0
    position = percent / 100 * (len(values) - 1)
    low = floor(position)
    return values[low] + (position - low) * (values[min(low + 1, len(values) - 1)] - values[low])


@formula
def percentiles(log: Log, percent) -> Percentiles:
    """Of all requests' first tokens, of all gaps of all requests, and of all requests' whole time.

    >>> from helpers.costs.inference.engine_simulation import interleaved
    >>> log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> percentiles(log, 50), percentiles(log, 100)
    (Percentiles(ttft=10.0, gap=1.0, whole=14.0), Percentiles(ttft=12.0, gap=5.0, whole=15.0))
    """
    return Percentiles(
        percentile([s.ttft for s in log.served], percent),
        percentile([g for s in log.served for g in s.gaps], percent),
        percentile([s.latency for s in log.served], percent),
    )


@formula
def keeps(request: Served, ttft, gap, percent=100) -> bool:
    """Whether a request's first token came within `ttft` seconds, and `percent` % of its gaps are no longer than `gap`."""
    return request.ttft <= ttft and percentile(request.gaps, percent) <= gap


@old_parameter("first", "ttft")
@formula
def attainment(log: Log, ttft, gap, percent=100) -> float:
    """Share of the requests that kept the promise."""
    return sum(keeps(s, ttft, gap, percent) for s in log.served) / len(log.served)


@old_parameter("first", "ttft")
@formula
def goodput(log: Log, ttft, gap, percent=100) -> float:
    """Requests a second that kept the promise, from the first arrival to the last token.

    >>> from helpers.costs.inference.engine_simulation import interleaved
    >>> log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> goodput(log, ttft=12, gap=5), goodput(log, ttft=12, gap=4), goodput(log, ttft=8, gap=1)
    (0.13333333333333333, 0.06666666666666667, 0.0)
    """
    return len(log.served) * attainment(log, ttft, gap, percent) / log.span


# A simulated timeline as a Chrome trace, for chrome://tracing and ui.perfetto.dev.
#
#     Path("trace.json").write_text(json.dumps(chrome_trace(log)))
#
# Source: Google, "Trace Event Format": a complete event has the phase X and begins at ts, for dur, both in microseconds; a
# process pid and a thread tid are rows, and metadata events (phase M) name them.


@formula
def chrome_trace(log: Log) -> dict:
    """The trace of a log, ready for `json.dumps`.

    What servers, network and hosts do is process 1, requests in their slots process 2, with a thread for each lane; an event is
    named after its kind, and its arguments are the requests' numbers.

    >>> from helpers.costs.inference.engine_simulation import interleaved
    >>> log = interleaved([(0, 8, 2)], 1, prefill=lambda T: T / 8, step=lambda B, S: 0.5)
    >>> events = chrome_trace(log)["traceEvents"]
    >>> [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 1]
    [('prefill', 0.0, 1000000.0), ('generate', 1000000.0, 500000.0)]
    """
    events = _process(1, "servers", log.spans) + _process(2, "slots", log.slot_spans())
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _process(pid: int, name: str, spans: Iterable[Span]) -> list[dict]:
    """A row for each lane and a bar for each span; what takes no time has none."""
    spans = [s for s in spans if s.end > s.start]
    by_number = lambda lane: tuple(int(x) if x.isdigit() else x for x in lane.replace(".", " ").split())  # noqa: E731
    lanes = {
        lane: tid for tid, lane in enumerate(sorted({s.lane for s in spans}, key=by_number), 1)
    }  # slot 0.10 after 0.9
    named = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}]
    named += [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": lane}}
        for lane, tid in lanes.items()
    ]
    for s in spans:
        times = {"ts": 1e6 * s.start, "dur": 1e6 * (s.end - s.start)}
        row = {"ph": "X", "name": s.kind, "pid": pid, "tid": lanes[s.lane]}
        named.append(row | times | {"args": {"requests": list(s.requests)}})
    return named
