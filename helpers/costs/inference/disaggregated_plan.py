"""Disaggregated serving: how many servers for prompts and for decoding, what moves between them, what users see (chapter 5).

Prefill servers send the cache of each prompt over the network to a decode server, whose steps have no prompts in them. Both are
estimated by `serving_estimate`, and numbered so that neither waits for the other.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from math import inf

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import kv_cache

from .engine_simulation import transfer_time
from .latency_and_throughput import waiting
from .serving_constants import Engine
from .serving_estimate import Estimate, Server
from .serving_operations import BITS, Deployment
from .serving_plan import SIZES, USUAL, Target, check, deployments

# Shares of the time that prefill servers compute, which are tried: beyond 0.9 prompts wait for long.
BUSY = (0.5, 0.7, 0.9)


@record
class Disaggregated:
    """Some prefill servers beside some decode servers.

    prefill, decode  one server of each kind
    servers    how many of each
    at_once    prompts in a pass of one prefill server
    busy       share of the time that prefill servers would compute if decode servers kept up
    batch      sequences of one decode server
    first, gap  seconds to the first token and between tokens; of the first one's parts "network" is the cache's way
    rate       requests/s
    sent       bytes of one cache over the network
    """

    prefill: Server
    decode: Server
    servers: tuple[int, int]
    at_once: int
    busy: float
    batch: int
    first: Estimate
    gap: Estimate
    rate: float
    sent: float
    prompt: float
    answer: float

    @property
    def chips(self) -> int:
        return sum(n * int(x.deployment.chips) for n, x in zip(self.servers, (self.prefill, self.decode)))

    @property
    def read(self) -> float:
        """Tokens/s of prompts, of each chip that reads them."""
        return self.rate * self.prompt / (self.servers[0] * self.prefill.deployment.chips)

    @property
    def users(self) -> float:
        """Requests that get tokens at once."""
        return self.servers[1] * self.batch

    @property
    def speed(self) -> float:
        """Tokens/s of each user."""
        return 1 / self.gap.mid

    @property
    def throughput(self) -> float:
        """Tokens/s of all users."""
        return self.rate * self.answer


@record
class Reader:
    """A prefill server that reads so many prompts in a pass.

    at_once  prompts, of all its groups
    busy     share of the time that it computes
    rate     prompts/s
    first    seconds to the first token, the cache's way to the decode server included
    """

    server: Server
    at_once: int
    busy: float
    rate: float
    first: Estimate


@formula
def readers(servers: list[Server], prompt: Count, cache_bytes, chip: Chip) -> Iterator[Reader]:
    """Every server with every number of prompts in a pass that its budget of tokens takes, at least one in each group.

    Passes come to a server as requests to a queue that is busy a share of the time; caches of
    `cache_bytes` each go over the network cards of all its chips.
    """
    for server in servers:
        hits = server.deployment.hits
        most = int(max(server.engine.budget // (prompt * (1 - hits)), 1))
        for each in sorted({*SIZES[: bisect_right(SIZES, most)], most}):
            at_once = each * int(server.deployment.dp)
            if at_once > server.most(prompt):
                break
            read = server.prefill(prompt * (1 - hits), at_once, prompt * hits).mid
            way = transfer_time(at_once * cache_bytes, server.deployment.chips * chip.dcn_bandwidth)
            for busy in BUSY:
                others = waiting(busy / read, read)
                parts = {"own": read, "others": others, "host": server.engine.first, "network": way}
                yield Reader(server, at_once, busy, busy / read * at_once, server.within(parts, "first"))


@formula
def disaggregated_plans(
    c: Config,
    chip: Chip,
    chips: Count,
    prompt: Count,
    answer: Count,
    engine: Engine,
    types: Deployment = USUAL,
    deadline: float | None = None,
) -> Iterator[Disaggregated]:
    """Every decode server with every batch that fits, and of each number of chips the prefill server that reads most prompts/s
    of those whose first token comes by the deadline in seconds, or else the soonest; as many of each as serve most.

    Decode servers get no more requests than the others read.

    >>> best = max(disaggregated_plans(model("llama-3-8b"), chip("H100"), 8, 4000, 500, ENGINES["vllm"]), key=lambda a: a.rate)
    >>> best.chips <= 8, best.at_once, best.gap.parts["prompts"] if "prompts" in best.gap.parts else "no prompts"
    (True, 2, 'no prompts')
    """
    servers = [Server(c, chip, replace(d, replicas=1), engine) for d in deployments(c, chip, chips, types)]
    sent = kv_cache(c, prompt, 1, BITS[types.cache] / 8)
    best: dict[int, tuple[tuple, Reader]] = {}
    for reader in readers(servers, prompt, sent, chip):
        n, late = int(reader.server.deployment.chips), reader.first.mid > (deadline or inf)
        key = (late, reader.first.mid if late else -reader.rate)
        if n not in best or key < best[n][0]:
            best[n] = key, reader
    for server in servers:
        m, dp = int(server.deployment.chips), int(server.deployment.dp)
        for B in (each * dp for each in SIZES[: bisect_right(SIZES, server.most(prompt + answer) / dp)]):
            gap = server.decode(B, prompt + answer / 2)
            answered = B / (answer * gap.mid)
            for n, (_, reader) in best.items():
                if numbers := _numbers(chips, n, reader.rate, m, answered):
                    rate = min(numbers[0] * reader.rate, numbers[1] * answered)
                    load = reader.at_once, reader.busy, B, reader.first, gap, rate, sent, prompt, answer
                    yield Disaggregated(reader.server, server, numbers, *load)


def _numbers(
    chips: int, read_chips: int, read_rate: float, answer_chips: int, answer_rate: float
) -> tuple[int, int] | None:
    """How many servers of `read_chips` that read `read_rate` prompts/s, and
    of `answer_chips` that answer `answer_rate` requests/s, serve most.

    With more readers they read more, and fewer are left to answer: the best is the last number at which answers keep up, or the next.
    """
    most, left = (chips - answer_chips) // read_chips, lambda x: (chips - x * read_chips) // answer_chips
    if most < 1:
        return None
    x = bisect_right(range(1, most + 1), 0, key=lambda x: x * read_rate - left(x) * answer_rate)
    pairs = [(k, left(k)) for k in (x, x + 1) if 1 <= k <= most]
    return max(
        pairs, key=lambda p: (min(p[0] * read_rate, p[1] * answer_rate), -p[0] * read_chips - p[1] * answer_chips)
    )


@formula
def best_disaggregated(
    c: Config, chip: Chip, chips: Count, prompt: Count, answer: Count, target: Target, engine: Engine, types: Deployment
):
    """The pair that keeps a target and serves most, or None."""
    check(c, chip, prompt, answer, types)
    pairs = disaggregated_plans(c, chip, chips, prompt, answer, engine, types, target.first)
    found = min(pairs, key=target.rank, default=None)
    return found if found and target.kept(found) else None
