"""The planner's layout that a reader types: what it says, the first rule that it breaks, and its place among the others.

The grammar is that of `helpers.plan --layout`, with spaces or commas between; `planner.js` repeats all of it.
"""

import re
from math import prod

from helpers.costs.training.layout import AXES, Layout, lies
from helpers.costs.training.layout_search import careful
from helpers.costs.training.training_step import step
from helpers.costs.transformers.config import Config
from helpers.figures.training.layout_search.candidates import KEPT, Place
from helpers.plan.train import SET

from .training import LONGEST, Ranked, legal
from .words import NAMED

NUMBERS = (*AXES, "zero", "microbatches")
ELSEWHERE = tuple(name for name in SET if name not in (*NUMBERS, "policy"))  # what only the command prices
POWERS = tuple(2**n for n in range(LONGEST.bit_length()))


def read(text: str) -> dict[str, int | str]:
    """Names and values; ValueError, in one sentence, if one of them is nonsense.

    >>> read("tp=8, fsdp=4 policy=matmuls")
    {'tp': 8, 'fsdp': 4, 'policy': 'matmuls'}
    >>> read("tp=8,tp=4")
    Traceback (most recent call last):
    ValueError: tp stands there twice: give it once.
    """
    found: dict[str, int | str] = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, _, value = part.partition("=")
        by = {
            "part": part,
            "name": name,
            "value": value,
            "names": ", ".join((*NUMBERS, "policy")),
            "kept": ", ".join(KEPT),
        }
        if name in ELSEWHERE:
            raise ValueError(NAMED["elsewhere"].format(**by))
        if name not in (*NUMBERS, "policy") or not value:
            raise ValueError(NAMED["unknown"].format(**by))
        if name in found:
            raise ValueError(NAMED["twice"].format(**by))
        if name == "policy":
            if value not in KEPT:
                raise ValueError(NAMED["policy"].format(**by))
            found[name] = value
            continue
        number = int(value) if re.fullmatch(r"[0-9]{1,7}", value) else -1
        if not (0 <= number <= 3 if name == "zero" else number >= 1):
            raise ValueError(NAMED["zero" if name == "zero" else "whole"].format(**by))
        found[name] = number
    return found


def row(text: str, c: Config, sizes: tuple[int, ...], place: Place, tokens: int, T: int, who: str) -> Ranked:
    """What was typed as one more line of the ranking; ValueError, in one sentence, if it breaks a rule.

    sizes  of the model, in the order of SIZES
    """
    laid = Layout(**{"pods": place.pods} | read(text))
    if sentence := broken(laid, c, sizes, place, tokens, T, who):
        raise ValueError(sentence)
    at = step(c, laid, tokens, T, place.slice, "causal")
    return Ranked("own", laid, float(at.estimate.mid), float(at.memory.total), not at.missing, float(careful(at)))


def broken(laid: Layout, c: Config, sizes, place: Place, tokens: int, T: int, who: str) -> str:
    """The first rule that a layout breaks, in a sentence with what would be right; "" if it keeps them all."""
    n, sequences = place.chips, tokens // T
    shards = prod((laid.dp, laid.fsdp, laid.ep))
    by = {a: getattr(laid, a) for a in NUMBERS} | {
        "n": f"{n:,}",
        "took": f"{laid.chips:,}",
        "who": who,
        "T": f"{T:,}",
        "L": c.L,
    }
    by |= {"place": str(place), "sequences": f"{sequences:,}", "shards": f"{shards:,}"}
    if laid.chips != n:
        more = n % laid.chips == 0
        return NAMED["more" if more else "other"].format(**by | {"fsdp": laid.fsdp * (n // laid.chips)})
    if place.slice.chip.axes and not lies(laid, place.slice):
        return NAMED["lies"].format(**by)
    for axis, at in (("tp", 0), ("ep", 1)):
        ways = [tuple(x if k == at else 1 for k in range(3)) for x in (getattr(laid, axis), *POWERS)]
        if not legal(c, *sizes, *ways[0]):
            fit = [str(x) for x, way in zip(POWERS, ways[1:]) if legal(c, *sizes, *way)]
            return NAMED["suits"].format(**by | {"axis": axis, "value": getattr(laid, axis), "fit": ", ".join(fit)})
    if laid.pp > c.L:
        return NAMED["stages"].format(**by)
    if T % laid.cp:
        return NAMED["cp"].format(**by)
    return NAMED["batch"].format(**by) if sequences % (shards * laid.microbatches) else ""
