"""Engines that serve a load of requests, as a simulation of events in seconds (chapter 5).

    batched        up to `slots` prompts are padded to the longest and prefilled together; then all generate until the
                   last is done, and only then come the next ones (static batching)
    interleaved    whenever a slot is free the next prompt is prefilled alone, and everybody else waits that long; slots
                   are refilled as they empty (continuous batching)
    chunked        every pass reads a piece of a prompt, up to `chunk` tokens, beside the decode step: one pass for both, a
                   mixed step. A prompt is read also while no slot is free, and then waits for one
    disaggregated  prefill servers work in the order of arrival and send caches over a network to generating servers,
                   which never wait for a prompt

`token_budget.budgeted` is continuous batching with several pieces of prompts in a pass, and with pages that run out.

How long things take is the caller's: prefill(T) seconds of a prompt of T tokens, step(B, S) of a decode step of B sequences
with S keys each on the average, mixed(B, S, T, done) of such a step with T more tokens of a prompt of which `done` are read,
transfer(T) of a cache; `timings` makes them of a `Replica` on a slice. A prefill ends in the first token, a step in one more
for each sequence of its batch. Choosing tokens and filling slots takes no time. Tokens that a prefix cache knows are not
computed again: then a prefill takes prefill(T) - prefill(known), but in a padded batch.

Source: Austin et al. 2025, Section 7; Yu et al., "Orca" (2022) for continuous batching; Agrawal et al., "Sarathi-Serve"
(2024) for chunks; Zhong et al., "DistServe" (2024).
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import Layout, divisors, lies

from . import sharded_decode_step as sharded
from .prefill_and_decode_step import Replica
from .request_log import Log, Request, Served, Span, requests, whole


@dataclass
class Run:
    """What is written down while a simulation runs."""

    load: Sequence[Request]
    start: dict[int, float] = field(default_factory=dict)
    tokens: dict[int, list[float]] = field(default_factory=dict)
    slot: dict[int, tuple[int, int]] = field(default_factory=dict)
    joined: dict[int, float] = field(default_factory=dict)
    worked: Counter = field(default_factory=Counter)
    spans: list[Span] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    padded: int = 0

    def left(self, i: int) -> int:
        return self.load[i].output - len(self.tokens[i])

    def context(self, i: int) -> int:
        """Keys that the next token of a request sees: its prompt and what it has said, the token fed in included."""
        return self.load[i].prompt + len(self.tokens[i])

    def prefilled(self, lane: str, some: Iterable[int], begin: float, end: float) -> None:
        some = tuple(some)
        for i in some:
            self.start.setdefault(i, begin)
            self.tokens[i] = [end]
            self.joined[i] = end
        self.spans.append(Span(lane, begin, end, "prefill", some))

    def stepped(
        self, lane: str, some: Iterable[int], slots: int, begin: float, end: float, took: float, kind="generate"
    ):
        """A decode step that would have taken `took` alone; a "mixed" one has a piece of a prompt in it."""
        some = tuple(some)
        for i in some:
            self.tokens[i].append(end)
            self.worked[i] += took
        self.spans.append(Span(lane, begin, end, kind, some))
        self.steps.append((len(some), slots))

    def log(self) -> Log:
        served = (
            Served(r, self.start[i], tuple(self.tokens[i]), self.slot[i], self.joined[i], self.worked[i])
            for i, r in enumerate(self.load)
        )
        return Log(tuple(served), tuple(sorted(self.spans)), tuple(self.steps), self.padded)


Prefill, Step = Callable[[int], float], Callable[[int, float], float]
Mixed = Callable[[int, float, int, int], float]


def batched(
    load: Iterable[tuple],
    slots: int,
    prefill: Prefill,
    step: Step,
    together: Callable[[int, int], float] | None = None,
) -> Log:
    """Static batching: a batch of prompts, padded, then of answers.

    together  seconds of n prompts of T tokens in one prefill, together(n, T); None: n times as long as one, as where
              arithmetic decides

    A batch is what waits when the server is free, no more than `slots` requests.

    >>> log = batched([(0, 8, 4), (0, 4, 2), (0, 8, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> [s.tokens for s in log.served], log.slot_use, log.padded
    ([(16, 17, 18, 19), (16, 17), (27, 28)], 0.625, 4)
    """
    run, queue = started(load, slots)
    now = 0
    while queue:
        now = max(now, run.load[queue[0]].arrival)
        some = []
        while queue and len(some) < slots and run.load[queue[0]].arrival <= now:
            some.append(queue.popleft())
        longest = max(run.load[i].prompt for i in some)
        run.padded += sum(longest - run.load[i].prompt for i in some)
        begin, now = now, now + (together(len(some), longest) if together else len(some) * prefill(longest))
        run.prefilled("server", some, begin, now)
        run.slot |= {i: (0, n) for n, i in enumerate(some)}
        while active := [i for i in some if run.left(i)]:
            begin, now = now, now + _seconds(run, active, step)
            run.stepped("server", active, slots, begin, now, now - begin)
    return run.log()


def interleaved(load: Iterable[tuple], slots: int, prefill: Prefill, step: Step) -> Log:
    """Continuous batching on one server: a free slot takes the next prompt, alone and at once, while all others wait.

    >>> log = interleaved([(0, 8, 4), (0, 4, 2), (0, 8, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> [s.tokens for s in log.served], round(log.slot_use, 3)
    ([(8, 13, 22, 23), (12, 13), (21, 22)], 0.833)
    """
    run, queue = started(load, slots)
    now, active, free = 0, [], list(range(slots))
    while queue or active:
        if not active:
            now = max(now, run.load[queue[0]].arrival)
        begin = now
        if queue and free and run.load[queue[0]].arrival <= now:
            i = queue.popleft()
            run.slot[i] = (0, heapq.heappop(free))
            now += _prompt(run.load[i], prefill)
            run.prefilled("server", (i,), begin, now)
            active.append(i)
        else:
            now += _seconds(run, active, step)
            run.stepped("server", active, slots, begin, now, now - begin)
        _leave(run, active, free)
    return run.log()


def _leave(run: Run, active: list[int], free: list[int]) -> None:
    """Those that are done leave their slots."""
    for i in [i for i in active if not run.left(i)]:
        active.remove(i)
        heapq.heappush(free, run.slot[i][1])


def chunked(load: Iterable[tuple], slots: int, step: Step, mixed: Mixed, chunk: int) -> Log:
    """Continuous batching with chunked prefill: each pass is a decode step and a piece of one prompt, whichever there is.

    chunk  most tokens of a prompt in a pass

    One prompt at a time is read, in the order of arrival, whether a slot is free or not; once read it has its first token and
    takes the first slot that is free before the next pass. No further prompt is begun while one waits for a slot.

    Two prompts of 8 tokens in pieces of 4, a pass of one second: the first one's tokens go on while the second is read.

    >>> one = lambda B, S, T, done: 1
    >>> log = chunked([(0, 8, 4), (0, 8, 2), (0, 4, 1)], 1, step=lambda B, S: 1, mixed=one, chunk=4)
    >>> [s.tokens for s in log.served], [s.joined for s in log.served]
    ([(2, 3, 4, 5), (4, 6), (6,)], [2, 5, 6])
    """
    run, queue = started(load, slots)
    whole("chunk", chunk)
    now, active, free = 0, [], list(range(slots))
    part = read = None  # the prompt under way and how much of it is read; the one that is read and has no slot yet
    while queue or active or part or read is not None:
        if read is not None and free:
            run.slot[read], run.joined[read] = (0, heapq.heappop(free)), now
            active.append(read)
            read = None
        if not active and not part:
            now = max(now, run.load[queue[0]].arrival)
        if not part and read is None and queue and run.load[queue[0]].arrival <= now:
            i = queue.popleft()
            run.start[i], part = now, (i, run.load[i].known)
        if part:
            now, part, read = _mixed(run, active, part, chunk, slots, step, mixed, now)
        else:
            begin, now = now, now + _seconds(run, active, step)
            run.stepped("server", active, slots, begin, now, now - begin)
        _leave(run, active, free)
    return run.log()


def _mixed(run: Run, active: list[int], part: tuple[int, int], chunk, slots, step: Step, mixed: Mixed, now: float):
    """One pass with a piece of a prompt in it: the time after it, what is under way, and what is read and wants a slot."""
    i, done = part
    T, keys = min(chunk, run.load[i].prompt - done), [run.context(j) for j in active]
    begin, now = now, now + mixed(len(keys), sum(keys) / max(len(keys), 1), T, done)
    if active:
        run.stepped("server", active, slots, begin, now, _seconds(run, active, step), "mixed")
    else:
        run.spans.append(Span("server", begin, now, "prefill", (i,)))
    if done + T < run.load[i].prompt:
        return now, (i, done + T), None
    run.tokens[i], run.joined[i], run.slot[i] = [now], now, (0, 0)
    return now, None, i if run.left(i) else None


def disaggregated(
    load: Iterable[tuple],
    slots: int,
    prefill: Prefill,
    step: Step,
    transfer: Callable[[int], float] = lambda T: 0,
    pools: tuple[int, int] = (1, 1),
) -> Log:
    """Prefill servers and generating servers apart: (how many of each), with `slots` on each generating one.

    transfer  seconds of one cache of T tokens over the network, which carries one after the other

    A prompt goes to the first free server. A cache goes to the idle generating server of the least number, or else to the
    one that has a free slot first. The first token comes with the prefill, the second one after the cache has arrived.

    >>> log = disaggregated([(0, 8, 4), (0, 4, 2), (0, 8, 2)], 2, lambda T: T, lambda B, S: 1, transfer=lambda T: 2)
    >>> [s.tokens for s in log.served]
    [(8, 11, 12, 13), (12, 15), (20, 23)]
    """
    run, queue = started(load, slots)
    for name, n in zip(("prefill servers", "generating servers"), pools):
        whole(name, n)
    servers, net, ready = [(0, n) for n in range(pools[0])], 0, []
    while queue:
        i = queue.popleft()
        free, n = heapq.heappop(servers)
        begin = max(free, run.load[i].arrival)
        end = begin + _prompt(run.load[i], prefill)
        run.prefilled(f"prefill {n}", (i,), begin, end)
        heapq.heappush(servers, (end, n))
        run.slot[i] = (0, 0)
        if run.left(i):
            ready.append((end, i))
    arrived = []
    for end, i in sorted(ready):
        begin = max(end, net)
        net = begin + transfer(run.load[i].prompt)
        if net > begin:
            run.spans.append(Span("network", begin, net, "transfer", (i,)))
        arrived.append((net, i))
    _generate(run, deque(arrived), slots, step, pools[1])
    return run.log()


def _generate(run: Run, arrived: deque, slots: int, step: Step, servers: int) -> None:
    """Continuous batching on servers that only generate: `arrived` has (when, request) in order."""
    active = [[] for _ in range(servers)]
    free = [list(range(slots)) for _ in range(servers)]
    due = [(0, n) for n in range(servers)]  # when each server can begin its next step
    while arrived or any(active):
        now, n = heapq.heappop(due)
        if not active[n] and not arrived:
            continue  # this server is done
        if not active[n]:
            now = max(now, arrived[0][0])
        if due and due[0] < (now, n):
            heapq.heappush(due, (now, n))  # another one comes first
            continue
        busy = {m for end, m in due if end > now}  # their last step still runs, also where its requests are done
        others = [len(free[m]) for m in range(servers) if m != n and not active[m] and m not in busy]
        while arrived and arrived[0][0] <= now and free[n] and len(free[n]) >= max(others, default=0):
            _, i = arrived.popleft()
            run.slot[i] = (n, heapq.heappop(free[n]))
            run.joined[i] = now
            active[n].append(i)
        begin = now
        if active[n]:
            now += _seconds(run, active[n], step)
            run.stepped(f"generate {n}", active[n], slots, begin, now, now - begin)
        for i in [i for i in active[n] if not run.left(i)]:
            active[n].remove(i)
            heapq.heappush(free[n], run.slot[i][1])
        heapq.heappush(due, (now, n))


def _prompt(r: Request, prefill: Prefill) -> float:
    return prefill(r.prompt) - (prefill(r.known) if r.known else 0)


def _seconds(run: Run, some: Sequence[int], step: Step) -> float:
    return step(len(some), sum(run.context(i) for i in some) / len(some))


def started(load: Iterable[tuple], slots: int) -> tuple[Run, deque]:
    """A run, and its requests in the order of arrival."""
    load = requests(load)
    whole("slots", slots)
    if not load:
        raise ValueError("a load has one request or more: (arrival, prompt, output) each")
    for i, r in enumerate(load):
        if r.arrival < 0:
            raise ValueError(f"a request arrives at 0 or later; number {i} is {r}")
        if not 0 <= r.known < r.prompt:
            raise ValueError(f"a prefill computes one token or more: known is 0 to {r.prompt - 1}; number {i} is {r}")
    return Run(load), deque(sorted(range(len(load)), key=lambda i: (load[i].arrival, i)))


class Timings(NamedTuple):
    """Seconds of an engine's passes, for the engines above."""

    prefill: Prefill
    step: Step
    mixed: Mixed


def timings(r: Replica, s: Slice) -> Timings:
    """The passes of an engine on a slice, links included.

    Its weights lie once, for all its passes: tensor parallelism over all chips, and the cache over as many as it has KV
    heads and over sequences beyond (`sharded_decode_step`). So a layer of a prefill, too, gathers and scatters twice over all
    chips, where one of a step sends two AllReduces.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> v5e = chip("v5e")
    >>> prefill, step, mixed = timings(Replica(model("llama-3-8b"), v5e), Slice(v5e, (2, 4)))
    >>> f"{1e3 * prefill(1024):.1f} ms {1e3 * step(16, 4096):.2f} ms {1e3 * mixed(16, 4096, 256, 1024):.2f} ms"
    '19.8 ms 3.91 ms 6.19 ms'
    """
    heads, n = 1 if r.config.mla else r.config.K, s.chips
    Y = max(Y for Y in divisors(n) if heads % Y == 0 and lies(Layout(tp=Y, dp=n // Y), s))
    at = sharded.links(s, Y, n // Y)
    return Timings(
        lambda T: sharded.prefill(r, s, n, 1, T).seconds,
        lambda B, S: sharded.decode(r, s, Y, n // Y, B, S, at=at).seconds,
        lambda B, S, T, done: sharded.mixed(r, s, Y, n // Y, B, S, T, done, at=at).seconds,
    )


def prefill_alone(r: Replica, s: Slice) -> Prefill:
    """prefill(T) of a server that does nothing else: cut in the best way for each prompt, links included.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> v5e = chip("v5e")
    >>> f"{1e3 * prefill_alone(Replica(model('llama-3-8b'), v5e), Slice(v5e, (2, 4)))(1024):.1f} ms"
    '14.4 ms'
    """
    return lambda T: sharded.splits(r, s, "prefill", 1, T)[0].time.seconds


def transfer_time(kv, W_dcn):
    """Seconds to send kv bytes of a cache over a network of W_dcn bytes/s, one way, of all chips that send their shares of it.

    >>> round(transfer_time(6.7e9, 8 * 3.125e9), 3)                  # 8192 tokens of LLaMA-2 13B from 8 v5e
    0.268
    """
    return kv / W_dcn


entries(__name__)
