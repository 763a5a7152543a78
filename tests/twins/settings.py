"""Settings that are drawn, for all twins: a model, chips of TPUs and of GPUs in turn, tokens and their context.

A seed's setting is the same everywhere. Even seeds draw TPUs, odd ones GPUs: any run of seeds has as many of the one as of the
other, and `of_family` gives the seeds of one alone.
"""

import random
from dataclasses import dataclass

from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.machines import Machine, machines
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import MODELS, model

TPUS = tuple(name for name, chip in CHIPS.items() if chip.kind == "tpu")
GPUS = tuple(name for name, chip in CHIPS.items() if chip.kind != "tpu")  # and Trainium, which is priced as they are
FAMILIES = {"TPU": TPUS, "GPU": GPUS}
MOST_CHIPS = 4096  # a search over more of them takes long, and has no branch that it has not here
TRAINED = tuple(name for name in MODELS if not {*model(name).unusual} - {"shared_gate"})
SERVED = tuple(name for name in MODELS if not model(name).gemma3n)
MIXTURES = tuple(name for name in TRAINED if model(name).moe)


def of_family(family: str, count: int) -> range:
    """So many seeds that draw chips of one family.

    >>> list(of_family("GPU", 3)), chip_name(random.Random(1), 1) in GPUS
    ([1, 3, 5], True)
    """
    return range([*FAMILIES].index(family), 2 * count, 2)


def chip_name(draw: random.Random, seed: int) -> str:
    """A chip of the seed's family."""
    return draw.choice((TPUS, GPUS)[seed % 2])


def place(draw: random.Random, seed: int, least: int = 1, most: int = MOST_CHIPS) -> Machine:
    """A slice of such a chip, or several domains."""
    return draw.choice([m for m in machines(CHIPS[chip_name(draw, seed)], most) if m.chips >= least])


@dataclass(frozen=True)
class Setting:
    """One question to a search: which layout of these chips trains a model fastest, in steps of so many tokens."""

    name: str
    place: Machine
    tokens: int
    T: int

    @property
    def config(self) -> Config:
        return model(self.name)


def setting(seed: int) -> Setting:
    """A training step: any public model that has a price, up to 4,096 chips, 8 to 2,048 sequences of 1,024 to 32,768 tokens.

    >>> setting(2).place.slice.chip.name, setting(2).tokens % setting(2).T
    ('v3', 0)
    """
    draw = random.Random(seed)
    chips, T = place(draw, seed), 2 ** draw.randint(10, 15)
    return Setting(draw.choice(TRAINED), chips, T * 2 ** draw.randint(3, 11), T)
