"""An engine with a budget of tokens for each pass and pages that are taken as tokens come, in seconds (chapter 5).

A pass reads up to `budget` tokens: the last token of every sequence that generates and, with what is left, the next tokens of
prompts, as many prompts as fit. So it is one pass with two kinds of work in it: many sequences of one token each, whose caches
are read, and a few pieces of many tokens, which compute. The last piece of a prompt brings its first token.

Pages as in `preemption`: a request starts when there are pages for its prompt, takes one more whenever a token has no place,
and if there is none the request that came last gives up all of its own and comes back later.

How long a pass takes is the caller's: passes(B, S, pieces) for B sequences that see S keys each on the average and pieces
(T, done), T more tokens of a prompt of which `done` are in the cache. Choosing tokens and filling slots takes no time.

Source: Agrawal et al., "Sarathi-Serve" (2024), Section 4.3 for the budget; Kwon et al., "PagedAttention" (2023), section 4.5.
Of vLLM the budget is max_num_batched_tokens, the slots max_num_seqs, the chunk long_prefill_token_threshold; its page for a
prompt's token is taken when that is read, and here all of a prompt's at once.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from helpers.arguments import Count, entries

from .engine_simulation import Mixed, Run, Step, started
from .preemption import Job, Pool
from .request_log import Log, Span, whole

Passes = Callable[[int, float, tuple[tuple[int, int], ...]], float]


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


@dataclass
class _Paged:
    """A run with a pool: what is written down besides."""

    run: Run
    free: list[int]
    stays: list[Span] = field(default_factory=list)
    since: dict[int, tuple[float, str]] = field(default_factory=dict)  # where a bar of each request in a slot began
    preempted: int = 0
    recomputed: int = 0
    swapped: int = 0

    def bar(self, i: int, now: float, then: str | None) -> None:
        """The bar of a request in its slot ends, and another begins, or none."""
        begin, kind = self.since.pop(i)
        if now > begin:
            self.stays.append(Span(f"slot 0.{self.run.slot[i][1]}", begin, now, kind, (i,)))
        if then:
            self.since[i] = now, then
        else:
            heapq.heappush(self.free, self.run.slot[i][1])

    def log(self) -> Log:
        made = self.run.log()
        return Log(
            made.served, made.spans, made.steps, 0, tuple(sorted(self.stays)), self.preempted, self.recomputed, self.swapped
        )  # fmt: skip


def budgeted(
    load: Iterable[tuple],
    slots: int,
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
    policy  "recompute", "swap" or "reserve", as in `preemption.paged_schedule`
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
    run, queue = started(load, slots)
    jobs = [Job(*run.load[i], number=i, text=run.load[i].prompt) for i in queue]
    for name, n in dict(budget=budget, page=page, chunk=chunk or budget).items():
        whole(name, n)
    if pages is None:
        pages = sum(-(-(j.prompt + j.output - 1) // page) for j in jobs)
    pool = Pool(page, pages, slots, chunk or budget, budget, policy, jobs)
    now, held = 0, _Paged(run, list(range(slots)))
    while pool.waiting or pool.running:
        if not pool.running:
            now = max(now, pool.waiting[0].arrival)
        parts = pool.turn(now)
        for job in pool.preempted:
            held.bar(job.number, now, None)
        _seat(held, pool, now)
        now = _moved(held, pool, parts, now, swap)
        now = _pass(held, pool, parts, now, passes, slots)
    return held.log()


def _seat(held: _Paged, pool: Pool, now: float) -> None:
    """Who has just been admitted takes the first free slot."""
    for job in pool.running:
        if job.number not in held.since:
            held.run.slot[job.number] = 0, heapq.heappop(held.free)
            held.run.start.setdefault(job.number, now)
            reads = job.text - job.read > 1 or job.number not in held.run.tokens
            held.since[job.number] = now, "prefill" if reads else "generate"


def _moved(held: _Paged, pool: Pool, parts, now: float, swap) -> float:
    """The time after this turn's pages went to the hosts and came back."""
    held.preempted += len(pool.preempted)
    held.swapped += pool.out
    end = now + sum(swap(n) for n in (pool.out, pool.back) if n)
    if end > now:
        held.run.spans.append(Span("hosts", now, end, "transfer", tuple(job.number for job, _ in parts)))
    return end


def _pass(held: _Paged, pool: Pool, parts, begin: float, passes: Passes, slots: int) -> float:
    """One pass over these parts: the time after it."""
    run = held.run
    going = [job.number for job, n in parts if n == 1 and job.read == job.text - 1 and run.tokens.get(job.number)]
    pieces = [(job, n) for job, n in parts if job.number not in going]
    keys = sum(map(run.context, going)) / max(len(going), 1)
    end = begin + passes(len(going), keys, tuple((n, job.read) for job, n in pieces))
    kind = "generate" if not pieces else "mixed" if going else "prefill"
    run.spans.append(Span("server", begin, end, kind, tuple(job.number for job, _ in parts)))
    if going:
        run.steps.append((len(going), slots))
        alone = passes(len(going), keys, ()) if pieces else end - begin
        run.worked.update(dict.fromkeys(going, alone))
    held.recomputed += pool.read(parts)
    for job, _ in parts:
        i = job.number
        if len(run.tokens.get(i, ())) < job.text - job.prompt:
            run.tokens.setdefault(i, []).append(end)
            run.joined.setdefault(i, end)
            if not run.left(i) or held.since[i][1] == "prefill":
                held.bar(i, end, "generate" if run.left(i) else None)
    return end


entries(__name__)
