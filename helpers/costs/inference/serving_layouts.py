"""A deployment that is typed, such as tp=8 or dp=16,ep=16: what it leaves out, and how it does beside the best (chapter 5).

tp, dp, pp and ep that are not typed are 1, but for what a typed ep needs: as many chips as share the experts. Where experts lie,
and whether their exchange hides behind a second half of the batch, is searched if it is not typed; so are the batch and, from the
number of chips, the replicas.
"""

from dataclasses import replace

from helpers.arguments import Count, formula
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import divisors
from helpers.costs.training.layout import Spelling, read
from helpers.costs.transformers.config import Config

from .serving_constants import Engine
from .serving_estimate import Server, loaded
from .serving_operations import Deployment
from .serving_plan import USUAL, Plan

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

    >>> from helpers.costs.transformers.public_models import model
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


def _ways(c: Config, given: dict, types: Deployment) -> list[Deployment]:
    """What is typed with all that it leaves open, perhaps some that cannot be."""
    ep, fixed = given.get("ep"), {n: x for n, x in given.items() if n not in ("tp", "dp", "ep", "overlap", "replicas")}
    groups = [(given.get("tp", 1), given.get("dp", 1))]
    if ep and groups[0][0] * groups[0][1] < ep:  # its chips hold attention as well, in a way that is searched
        pairs = [(tp, ep // tp) for tp in divisors(ep)]
        groups = [p for p in pairs if all(given.get(name, n) == n for name, n in zip(("tp", "dp"), p))]
    out = []
    for tp, dp in groups:
        parts = (ep,) if ep else sorted({1, tp * dp}) if c.moe else (1,)
        hides = (given["overlap"],) if "overlap" in given else (False, True) if dp > 1 else (False,)
        out += [replace(types, tp=tp, dp=dp, ep=n, overlap=over, **fixed) for n in parts for over in hides]
    return out


@formula
def at_users(
    c: Config, chip: Chip, chips: Count, prompt: Count, answer: Count, users, engine: Engine, ways: list[Deployment]
) -> list[Plan]:
    """What so many users at once see of each way that holds the model, replicated over so many chips, or as many as users need.

    Ways with more groups than users are left out, unless there are no others: they would serve more than are there.
    """
    single = [replace(d, replicas=1) for d in ways]
    many = [replace(d, replicas=max(min(chips // int(d.chips), int(users)), 1)) for d in single if d.chips <= chips]
    fitting = [s for s in (Server(c, chip, d, engine) for d in many) if s.most(prompt + answer) >= s.deployment.dp]
    plans = [Plan(s, prompt, answer, loaded(s, prompt, answer, users)) for s in fitting]
    return [p for p in plans if p.users <= users] or plans
