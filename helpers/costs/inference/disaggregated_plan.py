"""Disaggregated serving: how many servers for prompts and for decoding, what moves between them, what users see (chapter 5).

Prefill servers send the cache of each prompt over the network to a decode server, whose steps have no prompts in them. Both are
estimated by `serving_estimate`, and numbered so that neither waits for the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from helpers.arguments import Count, formula
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import kv_cache

from .engine_simulation import transfer_time
from .latency_and_throughput import waiting
from .serving_constants import Engine
from .serving_estimate import Estimate, Server
from .serving_operations import BITS, Deployment
from .serving_plan import SIZES, USUAL, Target, check, deployments

BUSY = 0.7  # of the time that prefill servers compute: beyond it prompts that come at random wait for long


@formula
@dataclass(frozen=True)
class Disaggregated:
    """Some prefill servers beside some decode servers.

    prefill, decode  one server of each kind
    servers    how many of each
    batch      sequences of one decode server
    first, gap  seconds to the first token and between tokens; of the first one's parts "network" is the cache's way
    rate       requests/s
    sent       bytes of one cache over the network
    """

    prefill: Server
    decode: Server
    servers: tuple[int, int]
    batch: int
    first: Estimate
    gap: Estimate
    rate: float
    sent: float
    answer: float

    @property
    def chips(self) -> int:
        return self.servers[0] * int(self.prefill.deployment.chips) + self.servers[1] * int(
            self.decode.deployment.chips
        )

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


@formula
def disaggregated_plans(
    c: Config, chip: Chip, chips: Count, prompt: Count, answer: Count, engine: Engine, types: Deployment = USUAL
) -> Iterator[Disaggregated]:
    """Every pair of servers with every batch that fits, as many of each as serve most.

    A prompt waits as in a queue with one server that is busy BUSY of the time; its cache goes over the network cards of all chips
    of its prefill server. Decode servers get no more requests than the others read.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> from .serving_constants import ENGINES
    >>> best = max(disaggregated_plans(model("llama-3-8b"), chip("H100"), 8, 4000, 500, ENGINES["vllm"]), key=lambda a: a.rate)
    >>> best.chips <= 8, best.gap.parts["prompts"] if "prompts" in best.gap.parts else "no prompts"
    (True, 'no prompts')
    """
    ways: dict[int, list[Server]] = {}
    for deployment in deployments(c, chip, chips, types):
        server = Server(c, chip, replace(deployment, replicas=1), engine)
        ways.setdefault(int(server.deployment.chips), []).append(server)
    fitting = {n: [s for s in servers if s.most(prompt) >= s.deployment.dp] for n, servers in ways.items()}
    readers = [(n, min(servers, key=lambda s: s.prefill(prompt).mid)) for n, servers in fitting.items() if servers]
    sent = kv_cache(c, prompt, 1, BITS[types.cache] / 8)
    for n, reader in readers:
        read = reader.prefill(prompt)
        rate = BUSY / read.mid
        parts = {"own": read.mid, "others": waiting(rate, read.mid), "host": engine.first}
        first = reader.within(parts | {"network": transfer_time(sent, n * chip.dcn_bandwidth)}, "first")
        for m, servers in ways.items():
            for server in servers:
                for B in (B for B in SIZES if server.deployment.dp <= B <= server.most(prompt + answer)):
                    gap = server.decode(B, prompt + answer / 2)
                    answered = B / (answer * gap.mid)
                    if numbers := _numbers(chips, n, rate, m, answered):
                        served = min(numbers[0] * rate, numbers[1] * answered)
                        yield Disaggregated(reader, server, numbers, B, first, gap, served, sent, answer)


def _numbers(chips: int, n: int, rate: float, m: int, answered: float) -> tuple[int, int] | None:
    """How many servers of n chips that read `rate` prompts/s, and of m chips that answer `answered` requests/s, serve most."""
    pairs = ((x, (chips - x * n) // m) for x in range(1, (chips - m) // n + 1))
    return max(
        (p for p in pairs if p[1]),
        key=lambda p: (min(p[0] * rate, p[1] * answered), -p[0] * n - p[1] * m),
        default=None,
    )


@formula
def best_disaggregated(
    c: Config, chip: Chip, chips: Count, prompt: Count, answer: Count, target: Target, engine: Engine, types: Deployment
):
    """The pair that keeps a target and serves most, or None."""
    check(c, chip, prompt, answer, types)
    found = min(disaggregated_plans(c, chip, chips, prompt, answer, engine, types), key=target.rank, default=None)
    return found if found and target.kept(found) else None
