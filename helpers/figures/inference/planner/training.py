"""The planner's training half: every mesh of chips with its best setting, ranked, a layout that is typed, and what a step takes.

`costs.training.layout_search` ranks; `candidates` has the traced functions with which the page does. Here is what the page says of
a line, and what a price and a number of tokens make of a step.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.machines import Machine, machines
from helpers.costs.training.layout import AXES, GRAMMAR, MASTER, Bytes, Layout, Spelling, lies, read
from helpers.costs.training.layout_search import KEPT, Rank, Ranking, ranking
from helpers.costs.training.layout_set import TABLES
from helpers.costs.training.partial_layout import FOLDED, PARTIAL, completed_layout, unfolded
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.config import Config
from helpers.figures.training.layout_search.candidates import NAMES_OF_STEP, POWERS, Wired, axes, legal, row
from helpers.figures.transformers.decoder_sizes.decoder import SIZES
from helpers.live.jaxpr_to_javascript import javascript
from helpers.numeric import where
from helpers.plan.train import also

from . import tiers
from .words import FEW, LAYOUT, NAMED

BILL = ("rate", "each", "days", "hours", "run", "million")
LARGEST = 131072  # chips that the menu offers
NUMBERS = (*AXES, "zero", "microbatches", "v")
TYPED = {name: GRAMMAR[name] for name in NUMBERS} | {"policy": Spelling(Layout.policy, KEPT), FOLDED: PARTIAL[FOLDED]}
"""What a layout says that is typed on the page; what else `GRAMMAR` has, only the command prices."""


@dataclass(frozen=True)
class Ranked:
    """One mesh with the setting that suits it: the best that fits, or the one that needs least memory.

    name  sizes of the axes, as a link carries them
    also  sizes of fsdp of meshes that are no other design
    """

    name: str
    layout: Layout
    seconds: float
    memory: float
    rank: Rank
    also: tuple[int, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.rank.lacks

    @property
    def words(self) -> str:
        """Its axes, without the domains over which they lie."""
        said = axes(replace(self.layout, pods=1))
        words = (NAMED["row"] if self.name == "own" else LAYOUT).format(layout=said, policy=self.layout.policy)
        return words + also(self.also)


@cache
def places(name: str) -> tuple[Machine, ...]:
    """1, 2, 4, … chips: up to the largest slice, or domains of GPUs up to LARGEST.

    >>> [places(name)[-1].chips for name in ("v5e", "H100", "GB200", "Trn2")]
    [256, 131072, 131072, 131072]
    """
    return tuple(machines(chip(name), LARGEST))


def found(
    c: Config, machine: Machine, tokens: int, T: int, policies: tuple[str, ...] = KEPT, stored: Bytes = MASTER
) -> Ranking:
    """What the search of all layouts finds."""
    return ranking(c, tokens, T, machine.slice, Layout(pods=machine.pods, stored=stored), policies)


def lines(listed: Ranking) -> tuple[Ranked, ...]:
    """Every design of a ranking in plain numbers."""
    out = []
    for line, (n, *_) in enumerate(listed.designs):
        layout, seconds, memory = listed.layout(n), float(listed.seconds[n]), float(listed.memory[n])
        name = ".".join(str(getattr(layout, a)) for a in AXES)
        out.append(Ranked(name, layout, seconds, memory, listed.rank_of(n), listed.also(line)))
    return tuple(out)


def equal(rows: tuple[Ranked, ...]) -> tuple[int, float]:
    """How many are as good as the first, and the seconds of the fastest of them."""
    good = [r for r in rows if r.fits and not r.rank.slower]
    same = [r.seconds for r in good if r.rank.exposed == good[0].rank.exposed]
    return len(same), min(same, default=math.inf)


def own(
    text: str,
    c: Config,
    sizes: tuple[int, ...],
    machine: Machine,
    tokens: int,
    T: int,
    name: str,
    stored: Bytes = MASTER,
    policy: str = "",
) -> Step:
    """The step of a layout that is typed, completed by search; ValueError, in one sentence, if it cannot be read or breaks a rule.

    sizes   of the model, in the order of SIZES
    policy  what is kept, if the text does not say
    """
    given = ({"policy": policy} if policy else {}) | unfolded(read(text, NAMED, TYPED), machine.chips)
    try:
        layout = completed_layout(c, given, tokens, T, machine.slice, Layout(pods=machine.pods, stored=stored)).layout
    except ValueError:
        sentence = broken(Layout(**{"pods": machine.pods} | given), c, sizes, machine, tokens, T, name)
        raise ValueError(sentence or FEW.format(n=f"{machine.chips:,}")) from None
    return step(c, layout, tokens, T, machine.slice, "causal")


def beside(listed: Ranking, typed: Step) -> tuple[Ranked, ...]:
    """The ranking with one more line, which moves no other."""
    mine = Ranked("own", typed.layout, float(typed.estimate.mid), float(typed.memory.total), listed.beside(typed))
    return tuple(sorted((*lines(listed), mine), key=lambda r: r.rank))


def broken(layout: Layout, c: Config, sizes, machine: Machine, tokens: int, T: int, name: str) -> str:
    """The first rule that a layout breaks, in a sentence with what would be right; "" if it keeps them all."""
    n, sequences = machine.chips, tokens // T
    shards = prod((layout.dp, layout.fsdp, layout.ep))
    by = {a: getattr(layout, a) for a in NUMBERS} | {"n": f"{n:,}", "took": f"{layout.chips:,}", "T": f"{T:,}"}
    by |= {"who": name, "L": c.L, "place": str(machine), "sequences": f"{sequences:,}", "shards": f"{shards:,}"}
    if layout.chips != n:
        more = n % layout.chips == 0
        return NAMED["more" if more else "other"].format(**by | {"fsdp": layout.fsdp * (n // layout.chips)})
    if machine.slice.chip.axes and not lies(layout, machine.slice):
        return NAMED["lies"].format(**by)
    for axis, at in (("tp", 0), ("ep", 1)):
        ways = [tuple(x if k == at else 1 for k in range(3)) for x in (getattr(layout, axis), *POWERS)]
        if not legal(c, *sizes, *ways[0]):
            fit = [str(x) for x, way in zip(POWERS, ways[1:]) if legal(c, *sizes, *way)]
            return NAMED["suits"].format(**by | {"axis": axis, "value": getattr(layout, axis), "fit": ", ".join(fit)})
    if layout.stages > c.L + TABLES:
        return NAMED["stages"].format(**by)
    if layout.v > 1 and layout.pp == 1:
        return NAMED["pieces"].format(**by)
    if layout.v > 1 and layout.microbatches % layout.pp:
        return NAMED["interleaved"].format(**by)
    if T % layout.cp:
        return NAMED["cp"].format(**by)
    return NAMED["batch"].format(**by) if sequences % (shards * layout.microbatches) else ""


def values(
    c: Config,
    machine: Machine,
    picked: Ranked,
    tokens: int,
    T: int,
    budget: float,
    price: float,
    oversubscription: float = 1.0,
) -> dict[str, float]:
    """All numbers of one layout; `budget` is the tokens of the whole run, `price` that of a chip for an hour."""
    step_of = step(c, picked.layout, tokens, T, machine.slice, "causal")
    out = dict(zip(NAMES_OF_STEP, map(float, row(step_of, step_of.estimate))))
    out |= tiers.values(step_of, machine, oversubscription)
    return out | dict(zip(BILL, bill(out["mid"], machine.chips, tokens, budget, price)))


def bill(seconds, chips, tokens, budget, price) -> tuple:
    """What BILL names: tokens/s, and those of a chip; days and chip-hours of a run; money for it and for a million tokens.

    >>> [round(float(x), 3) for x in bill(2.0, 4, 1e6, 1e9, 3.0)]
    [500000.0, 125000.0, 0.023, 2.222, 6.667, 0.007]
    """
    rate = tokens / seconds
    days = budget / rate / 86400
    hours = days * 24 * chips
    return rate, rate / chips, days, hours, hours * price, 1e6 / rate / 3600 * chips * price


def _rows(*x):
    """Whether axes of these lengths take whole rows of a torus of three sides."""
    a = Layout(**dict(zip(AXES, x)))
    return where(lies(a, Wired(chip("v5p"), x[len(AXES) :], (False,) * 3)), 1, 0)


@cache
def functions(structures: tuple[Config, ...]) -> tuple[str, str, list[str]]:
    """`bill` as JavaScript, whether axes take whole rows, and for each structure whether its axes may be so long."""
    may = [javascript(lambda *x: legal(like, *x), *[8.0] * (len(SIZES) + 3)) for like in structures]  # noqa: B023
    return javascript(bill, *[8.0] * 5), javascript(_rows, *[8.0] * (len(AXES) + 3)), may
