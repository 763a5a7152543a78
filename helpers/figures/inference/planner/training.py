"""The planner's training half: every mesh of chips with its best setting, ranked, and what a step of one of them takes.

`candidates` has the set and the traced functions of a step; here are the ranking in Python, which `planner.js`
repeats in the same order, and what a price and a number of tokens make of a step.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from helpers.costs.rooflines.chips import chip
from helpers.costs.training.layout import AXES, Layout, lies
from helpers.costs.training.layout_search import EQUAL, SEARCHED
from helpers.costs.training.training_step import rules, step
from helpers.costs.transformers.config import Config
from helpers.figures.training.layout_search import candidates as of_search
from helpers.figures.training.layout_search.candidates import (
    KEPT,
    NAMES_OF_STEP,
    Place,
    Wired,
    axes,
    candidates,
    one,
    plain_first,
    priced,
    row,
    suited,
)
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build
from helpers.live.jaxpr_to_javascript import javascript
from helpers.numeric import where

from . import tiers
from .words import LAYOUT, NAMED

BILL = ("rate", "each", "days", "hours", "run", "million")
LONGEST = 4096  # chips along one axis
LARGEST = 131072  # chips that the menu offers


@dataclass(frozen=True)
class Ranked:
    """One mesh with the setting that suits it: the fastest that fits, or the one that needs least memory.

    name  sizes of the axes, as a link carries them
    """

    name: str
    layout: Layout
    seconds: float
    memory: float
    fits: bool
    careful: float = 1.0

    @property
    def rank(self) -> float:
        """Seconds by which it is ranked."""
        return self.seconds * self.careful

    @property
    def words(self) -> str:
        """Its axes, without the domains over which they lie."""
        said = axes(replace(self.layout, pods=1))
        return (NAMED["row"] if self.name == "own" else LAYOUT).format(layout=said, policy=self.layout.policy)


@cache
def places(name: str) -> tuple[Place, ...]:
    """1, 2, 4, … chips: up to the largest slice, or domains of GPUs up to LARGEST.

    >>> [places(name)[-1].chips for name in ("v5e", "H100", "GB200", "Trn2")]
    [256, 131072, 131072, 131072]
    """
    there = of_search.places(name)
    inside = [p for p in there if p.pods == 1]
    if chip(name).axes:
        return there
    whole = inside[-1].slice
    return (*inside, *(Place(whole, 2**n) for n in range(1, (LARGEST // whole.chips).bit_length())))


def equal(rows: tuple[Ranked, ...]) -> tuple[int, float]:
    """How many are as good as the first, and the seconds of the fastest."""
    edge = EQUAL * min((r.rank for r in rows if r.fits), default=math.inf)
    same = [r.seconds for r in rows if r.fits and r.rank <= edge]
    return len(same), min(same, default=math.inf)


def beside(rows: tuple[Ranked, ...], own: Ranked) -> tuple[Ranked, ...]:
    """The ranking with one more line, which moves no other."""
    edge = EQUAL * min((r.rank for r in rows if r.fits), default=math.inf)
    return tuple(sorted((*rows, own), key=lambda r: order(r, edge)))


def ranked(c: Config, place: Place, tokens: int, T: int, policies: tuple[str, ...] = KEPT) -> tuple[Ranked, ...]:
    """Every mesh once: those that fit by seconds, the simplest of those within a percent of the best first; then the others, by bytes.

    >>> from helpers.figures.training.layout_search.candidates import places
    >>> from helpers.costs.transformers.public_models import model
    >>> some = ranked(model("llama-2-13b"), places("v5p")[6], 2**20, 4096)
    >>> str(some[0].layout), len(some), sum(r.fits for r in some)
    ('dp=64 zero=2 microbatches=2 policy=everything', 125, 125)
    """
    if tokens < T or not len(rows := candidates(c, place.chips, tokens, T)):
        return ()
    rows = rows[~((rows[:, AXES.index("dp")] > 1) & (rows[:, len(AXES)] == 3))]  # that is fsdp by another name
    laid, seconds, memory, care = priced(c, place, rows, tokens, T, policies)
    fits = memory <= place.slice.chip.hbm_bytes
    ranks = seconds * care
    edge = EQUAL * ranks[fits].min(initial=math.inf)
    begins = np.flatnonzero(np.any(np.diff(rows[:, : len(AXES)], axis=0, prepend=-1), axis=1))
    out = []
    for low, high in zip(begins, (*begins[1:], len(rows))):
        some = (x[:, low:high] for x in (ranks, memory, fits))
        numbers = {name: getattr(laid, name)[low:high] for name in SEARCHED}
        n, i = suited(replace(laid, **numbers), *some, edge)
        layout = one(rows[low + i], place, policies[n])
        name = ".".join(str(getattr(layout, a)) for a in AXES)
        at = n, low + i
        out.append(Ranked(name, layout, float(seconds[at]), float(memory[at]), bool(fits[at]), float(care[low + i])))
    return tuple(sorted(out, key=lambda r: order(r, edge)))


def order(r: Ranked, edge: float) -> tuple:
    """What decides a rank: nine digits, so that rounding does not. `edge` is what is as fast as the best.

    >>> some = [Ranked("", Layout(tp=t), s, 5e9, s < 2) for t, s in ((2, 1.0), (1, 1.005), (1, 1.2), (1, 9.0))]
    >>> [round(r.seconds, 3) for r in sorted(some, key=lambda r: order(r, 1.01))]
    [1.005, 1.0, 1.2, 9.0]
    """
    seconds, memory = (float(f"{x:.9g}") for x in (r.rank, r.memory))
    if not r.fits:
        return (2, memory, seconds)
    if r.rank > edge:
        return (1, seconds, memory)
    return (0, *(float(x) for x in plain_first(r.layout, r.memory)), seconds)


def values(
    c: Config, place: Place, at: Ranked, tokens: int, T: int, budget: float, price: float, oversubscription: float = 1.0
) -> dict[str, float]:
    """All numbers of one layout; `budget` is the tokens of the whole run, `price` that of a chip for an hour."""
    step_of = step(c, at.layout, tokens, T, place.slice, "causal")
    out = dict(zip(NAMES_OF_STEP, map(float, row(step_of, step_of.estimate))))
    out |= tiers.values(step_of, place, oversubscription)
    return out | dict(zip(BILL, bill(out["mid"], place.chips, tokens, budget, price)))


def bill(seconds, chips, tokens, budget, price) -> tuple:
    """What BILL names: tokens/s, and those of a chip; days and chip-hours of a run; money for it and for a million tokens.

    >>> [round(float(x), 3) for x in bill(2.0, 4, 1e6, 1e9, 3.0)]
    [500000.0, 125000.0, 0.023, 2.222, 6.667, 0.007]
    """
    rate = tokens / seconds
    days = budget / rate / 86400
    hours = days * 24 * chips
    return rate, rate / chips, days, hours, hours * price, 1e6 / rate / 3600 * chips * price


def legal(like: Config, *numbers):
    """Whether a model of these sizes lets tp, ep and pp be what they are, by the rules of `training`."""
    c, (tp, ep, pp) = build(like, *numbers[: len(SIZES)]), numbers[len(SIZES) :]
    T, here = 4096, Wired(chip("v5p"), (tp * ep * pp, 1, 1), (False,) * 3)
    ok = True
    for holds, _ in rules(c, Layout(tp=tp, ep=ep, pp=pp), T * 4096.0, T, here)[2:6]:  # those of the model's sizes
        ok = ok & holds
    return where(ok, 1, 0)


def _rows(*x):
    """Whether axes of these lengths take whole rows of a torus of three sides."""
    a = Layout(**dict(zip(AXES, x)))
    return where(lies(a, Wired(chip("v5p"), x[len(AXES) :], (False,) * 3)), 1, 0)


@cache
def functions(structures: tuple[Config, ...]) -> tuple[str, str, list[str]]:
    """`bill` as JavaScript, whether axes take whole rows, and for each structure whether its axes may be so long."""
    may = [javascript(lambda *x: legal(like, *x), *[8.0] * (len(SIZES) + 3)) for like in structures]  # noqa: B023
    return javascript(bill, *[8.0] * 5), javascript(_rows, *[8.0] * (len(AXES) + 3)), may


NONE = dict.fromkeys((*NAMES_OF_STEP, *BILL), math.nan)
