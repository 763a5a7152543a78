"""Planning for a target: the deployment of a model that serves most requests and keeps what its users were promised (chapter 5).

Every way to cut a number of chips into replicas, each with tp, dp with experts over all its chips, and pp beyond a domain, with
batches of 1, 2, 3, 4, 6, 8, 12, … requests, is estimated by `serving_estimate.loaded`. Of those that keep all promises the one
that serves most is best.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from helpers.arguments import Count, entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config

from .serving_constants import Engine
from .serving_estimate import RESERVE, Estimate, Loaded, Server, arithmetic, loaded
from .serving_operations import BITS, FOUR, Deployment

MOST = 4096  # chips that are tried when as few as needed are asked for
USUAL = Deployment()
SIZES = tuple(
    sorted({n for e in range(MOST.bit_length()) for n in (2**e, 3 * 2**e) if n <= MOST})
)  # of batches, and of numbers of chips
LARGEST = 64  # chips of one replica, or a rack's domain


@dataclass(frozen=True)
class Target:
    """What users are promised; None: nothing.

    speed  tokens/s of each user, once an answer has begun
    first  seconds to the first token
    users  requests at once
    rate   requests/s
    """

    speed: float | None = None
    first: float | None = None
    users: float | None = None
    rate: float | None = None

    def __post_init__(self):
        for name, x in vars(self).items():
            if x is not None and not x > 0:
                raise ValueError(f"{name} is above 0, or left out, and not {x}")

    def factors(self, at) -> dict[str, float]:
        """Of each promise by how many times its estimate misses it: above 1, or 1 and less if it is kept.

        at  a plan, disaggregated or not: what has a speed, a first token, users and a rate
        """
        has = {"speed": at.speed, "first": 1 / at.first.mid, "users": at.users, "rate": at.rate}
        return {n: (1 / x if n == "first" else x) / has[n] for n, x in vars(self).items() if x is not None}

    def kept(self, at) -> bool:
        """Whether all of it is kept, by the estimate."""
        return not self.missed(at)

    def missed(self, at) -> list[str]:
        """Names of what is not kept."""
        return [n for n, factor in self.factors(at).items() if factor > 1]


@dataclass(frozen=True)
class Plan:
    """A deployment with as many users as its replicas have in their batches.

    server  of one replica, `at.replicas` of which run
    load    what its users see
    """

    server: Server
    prompt: float
    answer: float
    load: Loaded

    @property
    def at(self) -> Deployment:
        return self.server.at

    @property
    def first(self) -> Estimate:
        """Seconds to the first token."""
        return self.load.first

    @property
    def users(self) -> float:
        """Requests at once, of all replicas."""
        return self.load.batch * self.at.replicas

    @property
    def speed(self) -> float:
        """Tokens/s of each user."""
        return 1 / self.load.gap.mid

    @property
    def rate(self) -> float:
        """Requests/s of all replicas: each user asks again when answered."""
        return self.users / self.load.request

    @property
    def throughput(self) -> float:
        """Tokens/s of all users."""
        return self.rate * self.answer

    @property
    def memory(self) -> dict[str, float]:
        """Bytes of a chip, by role; caches are those of full requests."""
        s, of = self.server, self.server.chip.hbm_bytes
        caches = self.load.batch / self.at.dp * s.cache(self.prompt + self.answer)
        return {"weights": s.held, "caches": caches, "reserve": RESERVE * of}

    @property
    def bound(self) -> str:
        """The part of a gap that takes longest."""
        return max(self.load.gap.parts, key=lambda part: self.load.gap.parts[part])

    def price(self, chip_hour: float) -> tuple[float, float]:
        """Money for a million tokens of prompts, and of answers: the chips' time that each takes up."""
        second = chip_hour / 3600 * self.at.chips / self.at.replicas
        step = self.load.gap.mid - self.load.gap.parts["prompts"]
        return 1e6 * second * self.load.read / (self.prompt * self.at.dp), 1e6 * second * step / self.load.batch


def deployments(c: Config, of: Chip, chips: Count, like: Deployment = USUAL) -> Iterator[Deployment]:
    """Ways to lay replicas over so many chips: powers of two each, tp inside a domain, stages beyond it, experts over all.

    like  the types of what is stored

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> [str(at) for at in deployments(model("llama-3-8b"), chip("H100"), 4)]
    ['replicas=4', 'tp=2 replicas=2', 'tp=4']
    >>> [str(at) for at in deployments(model("deepseek-v3"), chip("H200"), 8) if at.replicas == 1]
    ['tp=8', 'tp=8 ep=8', 'tp=4 dp=2 ep=8', 'tp=2 dp=4 ep=8', 'dp=8 ep=8']
    """
    domain = of.pod[0] if not of.axes else LARGEST
    size = 1
    while size <= min(chips, max(LARGEST, domain)):
        replicas = chips // size
        inside = min(size, domain)
        while inside > c.N:
            inside //= 2
        if size <= domain and inside == size:
            yield replace(like, tp=size, replicas=replicas)
        elif not c.moe and size // inside <= c.L:
            yield replace(like, tp=inside, pp=size // inside, replicas=replicas)
        if c.moe and size > 1 and c.moe.E % size == 0:
            tp = inside
            while tp >= 1:
                yield replace(like, tp=tp, dp=size // tp, ep=size, replicas=replicas)
                tp //= 2
        size *= 2


def replicas(c: Config, of: Chip, prompt, answer, engine: Engine, like: Deployment = USUAL) -> list[list[Plan]]:
    """Of each way to lay one replica over chips that holds the model, every batch of SIZES that fits.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> from .serving_constants import ENGINES
    >>> some = replicas(model("llama-3-70b"), chip("H100"), 4000, 1000, ENGINES["vllm"])
    >>> [(str(one[0].at), len(one)) for one in some][:2]
    [('tp=2', 1), ('tp=4', 12)]
    """
    out = []
    for at in deployments(c, of, MOST, like):
        s = Server(c, of, replace(at, replicas=1), engine)
        batches = SIZES[: bisect_right(SIZES, s.most(prompt + answer) / at.dp)]
        out.append([Plan(s, prompt, answer, loaded(s, prompt, answer, B * at.dp)) for B in batches])
    return [one for one in out if one]


def on(chips: Count, some: list[list[Plan]]) -> list[list[Plan]]:
    """As many replicas of each as so many chips hold."""
    out = []
    for one in some:
        if n := chips // int(one[0].at.chips):
            out.append([replace(p, server=replace(p.server, at=replace(p.at, replicas=n))) for p in one])
    return out


def plans(c: Config, of: Chip, chips: Count, prompt, answer, engine: Engine, like: Deployment = USUAL) -> list[Plan]:
    """Every deployment over so many chips, with every batch of SIZES that fits."""
    return [p for one in on(chips, replicas(c, of, prompt, answer, engine, like)) for p in one]


def frontier(some: list[Plan]) -> list[Plan]:
    """Plans of which no other serves more requests at the same speed for each user, from the slowest on."""
    out: list[Plan] = []
    for one in sorted(some, key=lambda p: (-p.speed, -p.rate)):
        if not out or one.rate > out[-1].rate:
            out.append(one)
    return out[::-1]


@dataclass(frozen=True)
class Answer:
    """What a search found.

    best      the plan, or the nearest that can be had
    kept      whether it keeps the target
    frontier  of all plans on as many chips
    """

    best: Plan
    kept: bool
    frontier: tuple[Plan, ...]


def plan(
    c: Config,
    of: Chip,
    chips: Count | None,
    prompt: Count,
    answer: Count,
    target: Target,
    engine: Engine,
    like: Deployment,
):
    """The plan that keeps a target and serves most, on so many chips, or (None) on as few as needed.

    If none keeps it, the nearest: of those that miss the fewest promises the one whose worst is missed by the smallest factor.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> from .serving_constants import ENGINES
    >>> asked = model("llama-3-8b"), chip("H100"), None, 4000, 1000
    >>> found = plan(*asked, Target(speed=100, users=64), ENGINES["vllm"], Deployment())
    >>> str(found.best.at), found.kept
    ('tp=4', True)
    """
    check(c, of, prompt, answer, like)
    nearest, each = None, replicas(c, of, prompt, answer, engine, like)
    for n in (chips,) if chips else SIZES:
        some = [p for one in on(n, each) for p in one]
        good = [p for p in some if target.kept(p)]
        if good:
            return Answer(max(good, key=lambda p: (p.throughput, p.speed)), True, tuple(frontier(some)))
        if some:
            best = min(some, key=lambda p: _short(target, p))
            if nearest is None or _short(target, best) < _short(target, nearest.best):
                nearest = Answer(best, False, tuple(frontier(some)))
    if nearest is None:
        raise ValueError(_no_room(c, of, chips, prompt + answer, engine, like))
    return nearest


def _short(target: Target, p: Plan) -> tuple[int, float]:
    """How far a plan is from a target: promises that it misses, and the largest factor of them."""
    factors = target.factors(p).values()
    return len(target.missed(p)), max(factors, default=0.0)


def check(c: Config, of: Chip, prompt, answer, like: Deployment) -> None:
    """ValueError, in one sentence, for what cannot be served."""
    if c.positions and prompt + answer > c.positions:
        raise ValueError(
            f"{prompt:,} + {answer:,} tokens are more than the model's {c.positions:,} positions: give shorter prompts or answers"
        )
    if like.cache not in ("bf16", "int8") and arithmetic(of, like.cache) == "bf16":
        raise ValueError(f"the {of.name} has no arithmetic in {like.cache}: keep caches in bf16, or in int8")


def _no_room(c: Config, of: Chip, chips, S, engine: Engine, like: Deployment) -> str:
    """Why nothing fits, and what would."""
    said = f"the weights in {like.weights} and one cache of {S:,} tokens do not fit on {chips or MOST:,} {of.name}"
    for n in (2**e for e in range(13)):
        if n > (chips or MOST) and any(
            Server(c, of, at, engine).most(S) >= at.dp for at in deployments(c, of, n, like)
        ):
            return f"{said}: {n:,} would do"
    narrow = next((w for w in ("fp8", *FOUR) if BITS[w] < BITS[like.weights]), None)
    return f"{said}: take chips with more memory, {f'weights in {narrow}, ' if narrow else ''}or shorter requests"


entries(__name__)
