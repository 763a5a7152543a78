"""The planner's serving half: every cut of a model over chips, ranked, and what a decode step of one of them takes.

`token_price.decode_step` has the numbers and the traced functions; here is the ranking, which `planner.js` repeats.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.sharded_decode_step import splits
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import Config
from helpers.figures.inference.token_price.decode_step import NAMES, row
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build
from helpers.live.jaxpr_to_javascript import javascript

from .words import CUT

SHOWN = (*NAMES, "kv")
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)  # that the small table shows
ALWAYS = ("held", "m_weights", "m_caches", "m_copies", "free", "critical", "kv", "most")  # of what does not fit, too


def order(fits: bool, seconds: float, memory: float) -> tuple:
    """What decides a rank: nine digits, so that rounding does not.

    >>> order(True, 1.0, 5e9) < order(True, 1.0 + 1e-12, 6e9) < order(False, 0.5, 3e11)
    True
    """
    rounded = [float(f"{x:.9g}") for x in ((seconds, memory) if fits else (memory, seconds))]
    return (not fits, *rounded)


@dataclass(frozen=True)
class Ranked:
    """One cut: Y chips share heads, Z the batch of the caches."""

    name: str
    Y: int
    Z: int
    seconds: float
    memory: float
    fits: bool

    @property
    def words(self) -> str:
        return CUT.format(Y=self.Y, Z=self.Z)


def ranked(r: Replica, s: Slice, B: int, S: int) -> tuple[Ranked, ...]:
    """Every cut: those that fit by seconds, then those that do not, by bytes.

    >>> from helpers.costs.transformers.public_models import model
    >>> from helpers.figures.inference.token_price.decode_step import places
    >>> r = Replica(model("llama-3-8b"), chip("v5e"), 16, 2, 2)
    >>> [(c.Y, c.Z) for c in ranked(r, places(chip("v5e"), 16)[-1], 16, 8192)][:2]
    [(8, 2), (4, 4)]
    """
    out = [
        Ranked(str(c.Y), c.Y, c.Z, float(c.time.seconds), float(c.held), c.fits) for c in splits(r, s, "decode", B, S)
    ]
    return tuple(sorted(out, key=lambda c: (*order(c.fits, c.seconds, c.memory), c.Y)))


def values(r: Replica, s: Slice, at: Ranked, B: int, S: int, price: float) -> dict[str, float]:
    """All numbers of one cut."""
    return row(r, s, price, at.Y, at.Z, B, S) | {"kv": r.kv(S)}


def batches(r: Replica, s: Slice, at: Ranked, S: int, price: float) -> list[tuple[float, float, float, bool]]:
    """Of the cut at each of BATCHES: seconds for a token, tokens/s of a chip, the price of a million tokens, whether it fits."""
    some = [row(r, s, price, at.Y, at.Z, B, S) for B in BATCHES]
    return [(x["seconds"], x["per_chip"], x["cost"], x["held"] <= s.chip.hbm_bytes) for x in some]


def _cache(like: Config, *x):
    """Bytes of the caches of one sequence."""
    *numbers, cached, S = x
    return Replica(build(like, *numbers), chip("v5p"), 1, 2, cached).kv(S)


@cache
def functions(structures: Sequence[Config]) -> list[str]:
    """Of each structure, the bytes of a sequence's caches as JavaScript."""
    return [javascript(lambda *x: _cache(like, *x), *[8.0] * (len(SIZES) + 2)) for like in structures]  # noqa: B023


NONE = dict.fromkeys((*NAMES, "kv"), math.nan)
