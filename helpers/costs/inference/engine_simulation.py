"""Engines that serve a load of requests, as a simulation of events in seconds (chapter 5).

    batched        up to `slots` prompts are padded to the longest and prefilled together; then all generate until the
                   last is done, and only then come the next ones (static batching)
    interleaved    whenever a slot is free the next prompt is prefilled alone, and everybody else waits that long; slots
                   are refilled as they empty (continuous batching)
    chunked        every pass reads a piece of a prompt, up to `chunk` tokens, beside the decode step: one pass for both, a
                   mixed step. A prompt is read also while no slot is free, and then waits for one
    disaggregated  a prefill server works in the order of arrival and sends caches over a network to a generating server,
                   which never waits for a prompt

`budgeted` is continuous batching with several pieces of prompts in a pass, and with pages that run out. All are policies of one
`scheduler`, and `simulate` is the loop that adds up its passes.

How long things take is the caller's: prefill(T) seconds of a prompt of T tokens, step(B, S) of a decode step of B sequences
with S keys each on the average, mixed(B, S, T, done) of such a step with T more tokens of a prompt of which `done` are read,
transfer(T) of a cache; `timings` makes them of a `Replica` on a slice. A prefill ends in the first token, a step in one more
for each sequence of its batch. Choosing tokens and filling slots takes no time. Tokens that a prefix cache knows are not
computed again: then a prefill takes prefill(T) - prefill(known), but in a padded batch.

Source: Austin et al. 2025, Section 7; Yu et al., "Orca" (2022) for continuous batching; Agrawal et al., "Sarathi-Serve"
(2024) for chunks; Zhong et al., "DistServe" (2024).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from helpers.arguments import Count, formula
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.machines import divisors
from helpers.costs.training.layout import Layout, lies
from helpers.numeric import ceil

from . import scheduler, sharded_decode_step as sharded
from .prefill_and_decode_step import Replica
from .request_loads import Request, requests
from .scheduler import Job, PageCount, Part, Policy, Scheduler
from .serving_log import Log, Record, Span

Prefill, Step = Callable[[int], float], Callable[[int, float], float]
Mixed = Callable[[int, float, int, int], float]
# Seconds of a pass: B sequences that generate and see S keys each on the average, pieces (T, done) of prompts.
Passes = Callable[[int, float, Sequence[tuple[int, int]]], float]


@formula
def simulate(
    server: Scheduler,
    record: Record,
    passes: Passes,
    swap: Callable[[int], float] = lambda pages: 0,
    lane: str = "server",
) -> None:
    """All passes of a server, each as soon as the last one is done.

    swap    seconds for so many pages to or from the hosts, one way; the server waits for them
    """
    now = 0
    while server.running or server.waiting:
        if not server.running:
            now = max(now, server.waiting[0].arrival)
        work = server.next_pass(now)
        record.begun(work, now)
        begin = now + sum(swap(pages) for pages in (work.pages_out, work.pages_back) if pages)
        if begin > now:
            record.spans.append(Span("hosts", now, begin, "transfer", tuple(part.job.number for part in work.parts)))
        generating, pieces = work.generating, tuple((part.tokens, part.done) for part in work.pieces)
        keys = sum(part.sequence.length for part in generating) / max(len(generating), 1)
        now = begin + passes(len(generating), keys, pieces)
        record.passed(work, begin, now, server.policy.slots, lane)

        def token(part: Part, sequence: scheduler.Sequence, end=now) -> bool:
            return record.token(part.job, end, sequence.length == part.job.prompt + part.job.output)

        server.finish(work, token)


def _simulated(load: list[Request], jobs: list[Job], policy: Policy, passes: Passes) -> Log:
    record = Record()
    simulate(Scheduler(policy, jobs), record, passes)
    return record.log(load)


@formula
def batched(
    load: Iterable[tuple],
    slots: Count,
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
    load, jobs = started(load)
    together = together or (lambda n, T: n * prefill(T))
    for job in jobs:
        job.known = 0  # rows of one array are as long as the longest prompt, whatever is known of them

    def passes(B, S, pieces):
        return together(len(pieces), max(T for T, _ in pieces)) if pieces else step(B, S)

    log = _simulated(load, jobs, Policy.of("static", slots), passes)
    batches = [[load[i].prompt for i in span.requests] for span in log.spans if span.kind == "prefill"]
    return replace(log, padded=sum(len(prompts) * max(prompts) - sum(prompts) for prompts in batches))


@formula
def interleaved(load: Iterable[tuple], slots: Count, prefill: Prefill, step: Step) -> Log:
    """Continuous batching on one server: a free slot takes the next prompt, alone and at once, while all others wait.

    >>> log = interleaved([(0, 8, 4), (0, 4, 2), (0, 8, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> [s.tokens for s in log.served], round(log.slot_use, 3)
    ([(8, 13, 22, 23), (12, 13), (21, 22)], 0.833)
    """

    return _simulated(*started(load), Policy.of("interleaved", slots), _one_prompt(prefill, step))


@formula
def chunked(load: Iterable[tuple], slots: Count, step: Step, mixed: Mixed, chunk: Count) -> Log:
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
    load, jobs = started(load)

    def passes(B, S, pieces):
        return mixed(B, S, *pieces[0]) if pieces else step(B, S)

    return _simulated(load, jobs, Policy.of("chunked", slots, chunk), passes)


@formula
def disaggregated(
    load: Iterable[tuple],
    slots: Count,
    prefill: Prefill,
    step: Step,
    transfer: Callable[[int], float] = lambda T: 0,
) -> Log:
    """A prefill server and a generating server apart, with `slots` on the generating one.

    transfer  seconds of one cache of T tokens over the network, which carries one after the other

    The first token comes with the prefill, the second one after the cache has arrived and found a slot.

    >>> log = disaggregated([(0, 8, 4), (0, 4, 2), (0, 8, 2)], 2, lambda T: T, lambda B, S: 1, transfer=lambda T: 2)
    >>> [s.tokens for s in log.served]
    [(8, 11, 12, 13), (12, 15), (20, 23)]
    """
    load, jobs = started(load)
    record = Record()
    # For the server that reads, each answer has one token.
    reader = Scheduler(Policy(1, readers=1, ahead=True), [replace(job, output=1) for job in jobs])
    simulate(reader, record, _one_prompt(prefill, step), lane="prefill 0")
    network_is_free, arrived = 0, []
    for job in sorted(jobs, key=lambda job: (record.tokens[job.number], job.number)):
        if job.output > 1:
            begin = max(record.tokens[job.number][0], network_is_free)
            network_is_free = begin + transfer(job.prompt)
            if network_is_free > begin:
                record.spans.append(Span("network", begin, network_is_free, "transfer", (job.number,)))
            read = scheduler.Sequence(job.prompt + 1, computed=job.prompt)
            arrived.append(replace(job, arrival=network_is_free, sequences=[read]))
    generator = Scheduler(Policy.of("disaggregated", slots), arrived)
    simulate(generator, record, _one_prompt(prefill, step), lane="generate 0")
    return record.log(load)


def _one_prompt(prefill: Prefill, step: Step) -> Passes:
    """Seconds of passes that read a prompt alone, what is known of it left out, or generate."""

    def passes(B, S, pieces):
        if not pieces:
            return step(B, S)
        ((T, known),) = pieces
        return prefill(known + T) - (prefill(known) if known else 0)

    return passes


@formula
def started(load: Iterable[tuple]) -> tuple[list[Request], list[Job]]:
    """The requests of a load, and what is to be done for them, in the order of arrival."""
    load = requests(load)
    jobs = [Job(r.arrival, i, r.prompt, r.output, r.known) for i, r in enumerate(load)]
    return load, sorted(jobs, key=lambda job: job.order)


class Timings(NamedTuple):
    """Seconds of an engine's passes, for the engines above."""

    prefill: Prefill
    step: Step
    mixed: Mixed


@formula
def timings(replica: Replica, slice: Slice) -> Timings:
    """The passes of an engine on a slice, links included.

    Its weights lie once, for all its passes: tensor parallelism over all chips, and the cache over as many as it has KV
    heads and over sequences beyond (`sharded_decode_step`). So a layer of a prefill, too, gathers and scatters twice over all
    chips, where one of a step sends two AllReduces.

    >>> v5e = chip("v5e")
    >>> prefill, step, mixed = timings(Replica(model("llama-3-8b"), v5e), Slice(v5e, (2, 4)))
    >>> f"{1e3 * prefill(1024):.1f} ms {1e3 * step(16, 4096):.2f} ms {1e3 * mixed(16, 4096, 256, 1024):.2f} ms"
    '19.8 ms 3.91 ms 6.19 ms'
    """
    heads, n = sharded.ways_by_heads(replica.config), slice.chips
    Y = max(Y for Y in divisors(n) if heads % Y == 0 and lies(Layout(tp=Y, dp=n // Y), slice))
    groups = sharded.links(slice, Y, n // Y)
    return Timings(
        lambda T: sharded.prefill(replica, slice, n, 1, T).seconds,
        lambda B, S: sharded.decode(replica, slice, Y, n // Y, B, S, groups=groups).seconds,
        lambda B, S, T, done: sharded.mixed(replica, slice, Y, n // Y, B, S, T, done, groups=groups).seconds,
    )


@formula
def prefill_alone(replica: Replica, slice: Slice) -> Prefill:
    """prefill(T) of a server that does nothing else: cut in the best way for each prompt, links included.

    >>> v5e = chip("v5e")
    >>> f"{1e3 * prefill_alone(Replica(model('llama-3-8b'), v5e), Slice(v5e, (2, 4)))(1024):.1f} ms"
    '14.4 ms'
    """
    return lambda T: sharded.splits(replica, slice, "prefill", 1, T)[0].time.seconds


@formula
def transfer_time(kv, W_dcn):
    """Seconds to send kv bytes of a cache over a network of W_dcn bytes/s, one way, of all chips that send their shares of it.

    >>> round(transfer_time(6.7e9, 8 * 3.125e9), 3)                  # 8192 tokens of LLaMA-2 13B from 8 v5e
    0.268
    """
    return kv / W_dcn


# An engine with a budget of tokens for each pass and pages that are taken as tokens come, as in `scheduler`. A pass has two kinds
# of work in it: many sequences of one token each, whose caches are read, and a few pieces of many tokens, which compute.
# Of vLLM the budget is max_num_batched_tokens, the slots max_num_seqs, the chunk long_prefill_token_threshold; its page for a
# prompt's token is taken when that is read, and here all of a prompt's at once.


@formula
def one_piece(step: Step, mixed: Mixed) -> Passes:
    """passes(B, S, pieces) of an estimate for one piece of a prompt: step(B, S) and mixed(B, S, T, done) seconds.

    All pieces are priced as one of as many tokens, whose `done` is such that it has as many pairs of query and key, or 0 if
    even that has more. So FLOPs are exact, or a few of attention's too many; caches of read tokens are counted for one prompt.

    >>> passes = one_piece(step=lambda B, S: 1, mixed=lambda B, S, T, done: (T, done))
    >>> passes(3, 10, ((4, 8),)), passes(3, 10, ((2, 0), (2, 8))), passes(3, 10, ())
    ((4, 8.0), (4, 3.0), 1)
    """

    def passes(B, S, pieces):
        if not pieces:
            return step(B, S)
        T = sum(T for T, _ in pieces)
        pairs = sum(T * done + T * (T + 1) / 2 for T, done in pieces)
        return mixed(B, S, T, max(0.0, pairs / T - (T + 1) / 2))

    return passes


@formula
def budgeted(
    load: Iterable[tuple],
    slots: Count,
    passes: Passes,
    budget: Count,
    pages: Count | None = None,
    page: Count = 16,
    policy: str = "recompute",
    chunk: Count | None = None,
    swap: Callable[[int], float] = lambda n: 0,
) -> Log:
    """Continuous batching with up to `budget` tokens in a pass, and `pages` of `page` tokens.

    pages   None: as many as the load can come to
    policy  "recompute", "swap" or "reserve", as in `scheduler`
    chunk   most tokens of one prompt in a pass; None: the budget
    swap    seconds for n pages to or from the hosts, one way; the engine waits for them

    Tokens that a prefix cache knows are not read, neither at first nor again after a preemption; their pages count for each
    request, as if no two shared one.

    Two prompts of 8 tokens, a budget of 6: the first pass reads 6 of the first, the second its last 2 and 4 of the other.

    >>> log = budgeted([(0, 8, 4), (0, 8, 2)], 2, lambda B, S, pieces: 1, budget=6)
    >>> [s.tokens for s in log.served]
    [(2, 3, 4, 5), (3, 4)]

    Five pages of four tokens are too few for both: the second gives its own up, and later reads 8 tokens again.

    >>> log = budgeted([(0, 8, 9), (0, 8, 5)], 2, lambda B, S, pieces: 1, budget=16, pages=5, page=4)
    >>> [s.tokens[-1] for s in log.served], log.preempted, log.recomputed
    ([9, 13], 1, 8)
    """
    load, jobs = started(load)
    counted = PageCount(sum(-(-(j.prompt + j.output - 1) // page) for j in jobs) if pages is None else pages, page)
    record = Record()
    server = Scheduler(Policy(slots, chunk or budget, budget, when_full=policy), jobs, counted)
    simulate(server, record, passes, swap)
    return record.log(load, with_stays=True)


class Schedule(NamedTuple):
    """running: requests in each step; recomputed: tokens; swapped: pages out, and as many back."""

    running: tuple[int, ...]
    recomputed: int
    swapped: int

    @property
    def steps(self) -> int:
        return len(self.running)

    @property
    def at_once(self) -> int:
        return max(self.running)


@formula
def paged_schedule(
    load: Iterable[tuple],
    slots: Count,
    pages: Count,
    page: Count,
    chunk: Count,
    policy: str,
    budget: Count | None = None,
) -> Schedule:
    """`budgeted` where a pass takes a step: up to `slots` sequences in it, and `chunk` tokens of each.

    load    (arrival, prompt, output) each: the step in which it comes, tokens; served in this order of arrival
    policy  "reserve", "recompute" or "swap", as in `scheduler`
    budget  most tokens of a pass, of all sequences together; None: chunk of each. The oldest come first

    >>> load = [(0, 4, 9), (0, 4, 3), (0, 4, 3), (0, 4, 9), (0, 4, 3)]          # 1 page of 4 tokens each at first, 2 or 3 at last
    >>> logs = [paged_schedule(load, 4, 6, 4, 4, policy) for policy in ("reserve", "recompute", "swap")]
    >>> [(s.steps, s.at_once, s.recomputed, s.swapped) for s in logs]
    [(15, 2, 0, 0), (12, 4, 9, 0), (11, 4, 0, 3)]
    """
    budget = slots * chunk if budget is None else budget
    load = [request._replace(arrival=ceil(request.arrival)) for request in requests(load)]
    log = budgeted(load, slots, lambda B, S, pieces: 1, budget, pages, page, policy, chunk)
    running = Counter(step for stay in log.stays for step in range(stay.start, stay.end))
    last = max(served.tokens[-1] for served in log.served)
    return Schedule(tuple(running[step] for step in range(last)), log.recomputed, log.swapped)
