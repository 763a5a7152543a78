"""The planner's serving half: deployments of a model over chips, with the batch that suits a target, ranked.

`serving_plan` has the set, the target and the frontier; here each replica is estimated once, however many of it there are, and `planner.js`
does the same in the same order with the functions of `deployments`.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from helpers.costs.inference.serving_constants import Engine
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.serving_plan import SIZES, Plan, Target, frontier, replicas, replicated
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.config import Config

from .deployments import of
from .words import MISSES, SERVING


@dataclass(frozen=True)
class Asked:
    """What a reader asks; chips None: as few as needed."""

    prompt: float
    answer: float
    chips: int | None
    target: Target


@dataclass(frozen=True)
class Ranked:
    """A deployment with one of its batches.

    missed  what it does not keep
    key     what decides its rank: nine digits, so that rounding does not
    """

    plan: Plan
    missed: tuple[str, ...]
    key: tuple[float, ...]

    @property
    def name(self) -> str:
        """tp, dp, ep, pp and the batch of a replica, as a link carries them."""
        return f"{shape(self.plan.deployment)}.{self.plan.load.batch:.0f}"

    @property
    def fits(self) -> bool:
        """Whether it keeps all that is asked."""
        return not self.missed

    @property
    def words(self) -> str:
        return "; ".join((SERVING["row"].format(**self._by), *(MISSES[name] for name in self.missed)))

    @property
    def layout(self) -> str:
        """The same in a sentence."""
        return SERVING["replicas" if self.plan.deployment.replicas > 1 else "one"].format(**self._by)

    @property
    def _by(self) -> dict[str, str]:
        at = self.plan.deployment
        return {
            "replicas": f"{at.replicas:,}",
            "shape": str(replace(at, replicas=1)),
            "batch": f"{self.plan.load.batch:,.0f}",
        }


def shape(deployment: Deployment) -> str:
    """A replica as a link carries it.

    >>> shape(Deployment(tp=2, dp=4, ep=8)), shape(Deployment(dp=32, ep=32, overlap=True))
    ('2.4.8.1', '1.32.32.1.overlap')
    """
    return f"{deployment.tp}.{deployment.dp}.{deployment.ep}.{deployment.pp}{'.overlap' * deployment.overlap}"


@lru_cache(32)
def every(c: Config, name: str, prompt, answer, engine: Engine, template: Deployment) -> list[list[Plan]]:
    """Of each way to lay one replica over chips: its batches that fit."""
    return replicas(c, chip(name), prompt, answer, engine, template)


def judged(target: Target, p: Plan) -> Ranked:
    """A plan beside a target."""
    return Ranked(p, tuple(target.missed(p)), tuple(float(f"{x:.9g}") for x in target.rank(p)))


@dataclass(frozen=True)
class Found:
    """What a setting leads to: chips, each deployment with its batch, best first, and the frontier of all batches."""

    chips: int
    rows: tuple[Ranked, ...]
    frontier: tuple[Ranked, ...]


def search(c: Config, name: str, asked: Asked, engine: Engine, template: Deployment, pick: str = "") -> Found | None:
    """On the chips at hand, or the fewest that keep the target, or else come nearest; None if the model fits on none of them.

    pick  the deployment and batch that is looked at, which takes the place of the batch that suits best
    """
    some = every(c, name, asked.prompt, asked.answer, engine, template)
    found = None
    for n in (asked.chips,) if asked.chips else SIZES:
        plans = [[judged(asked.target, p) for p in one] for one in replicated(n, some)]
        best = min((r for one in plans for r in one), key=lambda r: r.key, default=None)
        if best and (found is None or best.key < found[0].key):
            found = best, n, plans
        if best and best.fits:
            break
    if not found:
        return None
    _, n, plans = found
    rows = [next((r for r in one if r.name == pick), min(one, key=lambda r: r.key)) for one in plans]
    edge = frontier([r.plan for one in plans for r in one])
    return Found(n, tuple(sorted(rows, key=lambda r: r.key)), tuple(judged(asked.target, p) for p in edge))


def least(c: Config, name: str, asked: Asked, engine: Engine, template: Deployment) -> int | None:
    """The fewest chips, in powers of two, on which the model and one cache fit."""
    sizes = [one[0].deployment.chips for one in every(c, name, asked.prompt, asked.answer, engine, template) if one]
    return min(sizes, default=None)


def values(r: Ranked, chips: int, price: float) -> dict[str, float]:
    """All numbers of one deployment; `price` is that of a chip for an hour."""
    p, numbers = r.plan, of(r.plan)
    gap, first = p.load.gap, p.load.first
    return numbers | {
        "speed": p.speed, "gap_low": gap.low, "gap_high": gap.high, "first_low": first.low, "first_high": first.high,
        "users": p.users, "rate": p.rate, "throughput": p.throughput, "each": p.throughput / chips,
        "memory": numbers["m_weights"] + numbers["m_caches"] + numbers["m_reserve"],
        "most": math.floor(numbers["most"]) * p.deployment.replicas,
        "cost_in": numbers["hours_in"] * price, "cost_out": numbers["hours_out"] * price,
    }  # fmt: skip
