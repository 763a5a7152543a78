"""Planning for a target: the deployment of a model that serves most requests and keeps what its users were promised (chapter 5).

Every way to cut a number of chips into replicas, each with tp, dp with experts over all its chips, and pp beyond a domain, with
batches of 1, 2, 3, 4, 6, 8, 12, … requests, is estimated by `serving_estimate.loaded`. A deployment may be typed, such as tp=8 or
dp=16,ep=16: tp, dp, pp and ep that are left out are 1, but for what a typed ep needs, as many chips as share the experts. Where
experts lie, and whether their exchange hides behind a second half of the batch, is searched if it is not typed; so are the batch
and, from the number of chips, the replicas.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import divisors
from helpers.costs.training.layout import Spelling, read
from helpers.costs.transformers.config import Config
from helpers.moved import old_field

from .serving_constants import Engine
from .serving_estimate import Estimate, Loaded, Server, arithmetic, loaded
from .serving_operations import BITS, Deployment

MOST = 4096  # chips that are tried when as few as needed are asked for
USUAL = Deployment()
# Sizes of batches, and numbers of chips, that are tried.
SIZES = tuple(sorted(n for e in range(13) for n in (2**e, 3 * 2**e) if n <= MOST))
LARGEST = 64  # chips of one replica, or a rack's domain


@record
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

    def factors(self, plan) -> dict[str, float]:
        """Of each promise by how many times its estimate misses it: above 1, or 1 and less if it is kept.

        plan  disaggregated or not: what has a speed, a first token, users and a rate
        """
        has = {"speed": plan.speed, "first": 1 / plan.first.mid, "users": plan.users, "rate": plan.rate}
        return {n: (1 / x if n == "first" else x) / has[n] for n, x in vars(self).items() if x is not None}

    def missed(self, plan) -> list[str]:
        """Names of what is not kept, by the estimate."""
        return [n for n, factor in self.factors(plan).items() if factor > 1]

    def kept(self, plan) -> bool:
        """Whether all of it is kept."""
        return not self.missed(plan)

    def rank(self, plan) -> tuple:
        """The less, the better: plans that keep all of it by what they serve, then by their speed; before those that miss the fewest
        promises, of which the one is better whose worst is missed by the smaller factor."""
        if missed := self.missed(plan):
            return len(missed), max(self.factors(plan).values())
        return 0, -plan.throughput, -plan.speed


@record
class Plan:
    """A deployment with as many users as its replicas have in their batches.

    server  of one replica, `deployment.replicas` of which run
    load    what its users see
    """

    server: Server
    prompt: float
    answer: float
    load: Loaded

    at = old_field("at", "deployment")

    @property
    def deployment(self) -> Deployment:
        return self.server.deployment

    @property
    def first(self) -> Estimate:
        """Seconds to the first token."""
        return self.load.first

    @property
    def users(self) -> float:
        """Requests at once, of all replicas."""
        return self.load.batch * self.deployment.replicas

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
        caches = self.load.batch / self.deployment.dp * self.server.cache(self.prompt + self.answer)
        return {"weights": self.server.held, "caches": caches, "reserve": self.server.reserve}

    @property
    def bound(self) -> str:
        """The part of a gap that takes longest."""
        return max(self.load.gap.parts, key=lambda part: self.load.gap.parts[part])

    def price(self, chip_hour: float) -> tuple[float, float]:
        """Money for a million tokens of prompts, and of answers: the chips' time that each takes up."""
        second = chip_hour / 3600 * self.deployment.chips / self.deployment.replicas
        step = self.load.gap.mid - self.load.gap.parts["prompts"]
        return 1e6 * second * self.load.read / (self.prompt * self.deployment.dp), 1e6 * second * step / self.load.batch


@formula
def deployments(c: Config, chip: Chip, chips: Count, types: Deployment = USUAL) -> Iterator[Deployment]:
    """Ways to lay replicas over so many chips: powers of two each, tp inside a domain, stages beyond it, experts over all.

    Where experts' exchange goes over network cards, it is tried with and without an overlap of two half batches.

    types  a deployment with the types of what is stored

    >>> [str(d) for d in deployments(model("llama-3-8b"), chip("H100"), 4)]
    ['replicas=4', 'tp=2 replicas=2', 'tp=4']
    >>> [str(d) for d in deployments(model("deepseek-v3"), chip("H200"), 8) if d.replicas == 1]
    ['tp=8', 'tp=8 ep=8', 'tp=4 dp=2 ep=8', 'tp=2 dp=4 ep=8', 'dp=8 ep=8']
    """
    domain = chip.pod[0] if not chip.axes else LARGEST
    size = 1
    while size <= min(chips, max(LARGEST, domain)):
        replicas = chips // size
        inside = min(size, domain)
        while inside > c.N:
            inside //= 2
        if size <= domain and inside == size:
            yield replace(types, tp=size, replicas=replicas)
        elif not c.moe and size // inside <= c.L:
            yield replace(types, tp=inside, pp=size // inside, replicas=replicas)
        if c.moe and size > 1 and c.moe.E % size == 0:
            tp = inside
            while tp >= 1:
                for overlap in (False, True) if size > domain else (False,):
                    yield replace(types, tp=tp, dp=size // tp, ep=size, replicas=replicas, overlap=overlap)
                tp //= 2
        size *= 2


@formula
def replicas(
    c: Config, chip: Chip, prompt, answer, engine: Engine, types: Deployment = USUAL, candidates=()
) -> list[list[Plan]]:
    """Of each way to lay one replica over chips that holds the model, every batch of SIZES that fits.

    candidates  those that are looked at; none: all

    >>> ways = replicas(model("llama-3-70b"), chip("H100"), 4000, 1000, ENGINES["vllm"])
    >>> [(str(batches[0].deployment), len(batches)) for batches in ways][:2]
    [('tp=2', 1), ('tp=4', 12)]
    """
    out = []
    for deployment in candidates or deployments(c, chip, MOST, types):
        s = Server(c, chip, replace(deployment, replicas=1), engine)
        batches = SIZES[: bisect_right(SIZES, s.most(prompt + answer) / deployment.dp)]
        out.append([Plan(s, prompt, answer, loaded(s, prompt, answer, B * deployment.dp)) for B in batches])
    return [plans for plans in out if plans]


@formula
def replicated(chips: Count, plans_by_deployment: list[list[Plan]]) -> list[list[Plan]]:
    """As many replicas of each way as so many chips hold."""
    out = []
    for batches in plans_by_deployment:
        if n := chips // int(batches[0].deployment.chips):
            more = replace(batches[0].deployment, replicas=n)
            out.append([replace(p, server=replace(p.server, deployment=more)) for p in batches])
    return out


@formula
def plans(c: Config, chip: Chip, chips: Count, prompt, answer, engine: Engine, types: Deployment = USUAL) -> list[Plan]:
    """Every deployment over so many chips, with every batch of SIZES that fits."""
    ways = replicas(c, chip, prompt, answer, engine, types)
    return [plan for batches in replicated(chips, ways) for plan in batches]


@formula
def frontier(candidates: list[Plan]) -> list[Plan]:
    """Plans of which no other serves more requests at the same speed for each user, from the slowest on."""
    out: list[Plan] = []
    for plan in sorted(candidates, key=lambda p: (-p.speed, -p.rate)):
        if not out or plan.rate > out[-1].rate:
            out.append(plan)
    return out[::-1]


@record
class Answer:
    """What a search found.

    best      the plan, or the nearest that can be had
    kept      whether it keeps the target
    frontier  of all plans on as many chips
    """

    best: Plan
    kept: bool
    frontier: tuple[Plan, ...]


@formula
def plan(
    c: Config,
    chip: Chip,
    chips: Count | None,
    prompt: Count,
    answer: Count,
    target: Target,
    engine: Engine,
    types: Deployment,
    candidates: Sequence[Deployment] = (),
) -> Answer:
    """The plan that keeps a target and serves most, on so many chips, or (None) on as few as needed; if none keeps it, the nearest.

    candidates  of one replica, that are looked at; none: all

    >>> asked = model("llama-3-8b"), chip("H100"), None, 4000, 1000
    >>> found = plan(*asked, Target(speed=100, users=64), ENGINES["vllm"], Deployment())
    >>> str(found.best.deployment), found.kept
    ('tp=2 replicas=3', True)
    """
    check(c, chip, prompt, answer, types)
    by_deployment, found = replicas(c, chip, prompt, answer, engine, types, candidates), None
    for n in (chips,) if chips else SIZES:
        plans = [p for batches in replicated(n, by_deployment) for p in batches]
        best = min(plans, key=target.rank, default=None)
        if best and (found is None or target.rank(best) < target.rank(found.best)):
            found = Answer(best, target.kept(best), tuple(frontier(plans)))
        if found and found.kept:
            break
    if found is None:
        raise ValueError(_no_room(c, chip, chips, prompt + answer, engine, types, candidates))
    return found


@formula
def check(c: Config, chip: Chip, prompt, answer, types: Deployment) -> None:
    """ValueError, in one sentence, for what cannot be served."""
    if c.positions and prompt + answer > c.positions:
        raise ValueError(
            f"{prompt:,} + {answer:,} tokens are more than the model's {c.positions:,} positions: give shorter prompts or answers"
        )
    if types.cache not in ("bf16", "int8") and arithmetic(chip, types.cache) == "bf16":
        raise ValueError(f"the {chip.name} has no arithmetic in {types.cache}: keep caches in bf16, or in int8")


def _no_room(c: Config, chip: Chip, chips, S, engine: Engine, types: Deployment, candidates) -> str:
    """Why nothing fits, and what would: more chips, or weights in narrower types."""

    def holds(n, weights: str) -> bool:
        every = (d.in_type(weights) for d in candidates or deployments(c, chip, n, types))
        return any(Server(c, chip, d, engine).most(S) >= d.dp for d in every)

    n, layout = chips or MOST, f" as {candidates[0]}" if candidates else ""
    why = f"the weights in {types.weights} and one cache of {S:,} tokens do not fit on {n:,} {chip.name}{layout}"
    more = () if candidates else (m for m in SIZES if m > n and m & (m - 1) == 0)
    would = [f"{m:,}" for m in more if holds(m, types.weights)][:1]
    narrow = [w for w in BITS if BITS[w] < BITS[types.weights] and holds(n, w)]
    if narrow:
        would.append(f"weights in {' or '.join([', '.join(narrow[:-1]), narrow[-1]] if narrow[1:] else narrow)}")
    if would:
        return f"{why}: {', or '.join(would)} would do"
    return f"{why}: take chips with more memory{', another layout' if candidates else ''} or shorter requests"


GRAMMAR = {name: Spelling(1) for name in ("tp", "dp", "ep", "pp", "replicas")} | {
    name: Spelling(False, ("True", "False")) for name in ("spread", "overlap")
}
"""The names of a deployment that is typed, and what may stand behind each."""
WRONG = {
    "unknown": "--layout of serve is names and values such as tp=8 or dp=16,ep=16, with names of {names}, and not {part!r}",
    "elsewhere": "{name} is of a training step: --layout of serve has {names}, such as tp=8 or dp=16,ep=16",
    "twice": "--layout names {name} twice: give it once",
    "value": "{name} is {range}, not {value!r}",
}


@formula
def completed(c: Config, chips: Count | None, text: str, types: Deployment = USUAL) -> list[Deployment]:
    """The deployments of one replica that a typed one may mean; so many chips are to hold it, or None: as many as it takes.

    Groups of a dense model share nothing, so its dp, as engines call it, is a number of replicas, which follows from the chips.

    types  a deployment with the types of what is stored

    >>> [str(d) for d in completed(model("llama-3-70b"), 8, "tp=4")], [str(d) for d in completed(model("deepseek-v3"), 8, "ep=8,tp=4")]
    (['tp=4'], ['tp=4 dp=2 ep=8', 'tp=4 dp=2 ep=8 overlap=True'])
    >>> completed(model("llama-3-70b"), 8, "tp=16")
    Traceback (most recent call last):
    ValueError: tp=16 takes 16 chips, and there are 8: give more chips, or a smaller layout
    """
    given = read(text, WRONG, GRAMMAR)
    if not given:
        raise ValueError(WRONG["unknown"].format(names=", ".join(GRAMMAR), part=text))
    if not c.moe and given.get("ep", 1) > 1:
        raise ValueError(f"{c.name or 'a dense model'} has no experts to share: leave ep out")
    if (pp := given.get("pp", 1)) > c.L:
        raise ValueError(f"pp={pp} stages are more than the model's {c.L} layers")
    ways = [d for d in _ways(c, given, types) if d.ep == 1 or c.moe.E % d.ep == 0]
    if not ways:
        raise ValueError(f"{text}: ep divides tp·dp chips, and the model's {c.moe.E} experts")
    if chips and (takes := int(ways[0].chips)) > chips:
        raise ValueError(f"{text} takes {takes:,} chips, and there are {chips:,}: give more chips, or a smaller layout")
    if chips and given.get("replicas", chips // takes) != chips // takes:
        raise ValueError(f"on {chips:,} chips there are {chips // takes:,} replicas of {takes:,}: leave replicas out")
    return ways if c.moe else [replace(d, dp=1, overlap=False) for d in ways[:1]]


def _ways(c: Config, fields: dict, types: Deployment) -> list[Deployment]:
    """What is typed with all that it leaves open, perhaps some that cannot be."""
    ep = fields.get("ep")
    others = {n: x for n, x in fields.items() if n not in ("tp", "dp", "ep", "overlap", "replicas")}
    groups = [(fields.get("tp", 1), fields.get("dp", 1))]
    if ep and groups[0][0] * groups[0][1] < ep:  # its chips hold attention as well, in a way that is searched
        pairs = [(tp, ep // tp) for tp in divisors(ep)]
        groups = [p for p in pairs if all(fields.get(name, n) == n for name, n in zip(("tp", "dp"), p))]
    out = []
    for tp, dp in groups:
        parts = (ep,) if ep else sorted({1, tp * dp}) if c.moe else (1,)
        hides = (fields["overlap"],) if "overlap" in fields else (False, True) if dp > 1 else (False,)
        out += [replace(types, tp=tp, dp=dp, ep=n, overlap=over, **others) for n in parts for over in hides]
    return out


@formula
def at_users(
    c: Config, chip: Chip, chips: Count, prompt: Count, answer: Count, users, engine: Engine, candidates
) -> list[Plan]:
    """What so many users at once see of each way that holds the model, replicated over so many chips, or as many as users need.

    Ways with more groups than users are left out, unless there are no others: they would serve more than are there.
    """
    single = [replace(d, replicas=1) for d in candidates]
    many = [replace(d, replicas=max(min(chips // int(d.chips), int(users)), 1)) for d in single if d.chips <= chips]
    fitting = [s for s in (Server(c, chip, d, engine) for d in many) if s.most(prompt + answer) >= s.deployment.dp]
    plans = [Plan(s, prompt, answer, loaded(s, prompt, answer, users)) for s in fitting]
    return [p for p in plans if p.users <= users] or plans
