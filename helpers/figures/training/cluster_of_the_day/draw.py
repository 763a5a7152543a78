"""Which cluster a day has: a model, chips and a batch, from the date alone.

Each is a riddle: many layouts fit, the best is well below the median and uses more than one axis, and nothing that the rank puts later
is faster by more than a percent. `test_cluster_of_the_day` holds that of all of them; the chips are of kinds with measured steps.
"""

import re
from dataclasses import dataclass
from datetime import date
from itertools import product

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.machines import Machine, ways

FIRST = date(2026, 1, 1)  # day 0, as record.js counts days
STRIDE = 99  # rows from one day to the next, so that model and chip change; prime to the number of rows
BATCHES = dict(zip("abcdef", product((1, 2), (2048, 4096, 8192))))  # sequences a chip, T
MACHINES = {
    "llama-2-13b": "v6e 16a 64abd 128ac, v5e 128a 256abcdef, v7 16abcd 32a 64a, B200 64bd, GB200 64a",
    "llama-3-8b": "v6e 64a, v7 16a 32a 64a, H100 64a, B200 32bd 64abd, GB200 32a 64abd",
    "llama-3-70b": "v6e 256a, v7 16a 32a 128a, H100 256bd, B200 128a, GB200 128abcdef",
    "llama-3.1-405b": "v7 64abde, H100 128abde 256abde 512abcdef, B200 64abde 128abcdef 256abcdef 512abcde, GB200 512c",
    "qwen-2.5-72b": "v6e 256ad, v7 16a 32a 128a, H100 256bde, B200 128af, GB200 128abdef",
    "mistral-nemo-12b": "v5e 256ab, v6e 64a 128a, v7 16a 32a 64ad, B200 64abd, GB200 64a",
    "mixtral-8x7b": "v6e 64abc 128a 256a, v7 16abd 32abd 64abd, B200 32a 64abd",
    "mixtral-8x22b": "v6e 128ad 256abcdef, v7 32abd 64abd 128abd 256abd, H100 64a 128a 256a, B200 32abd 64abd 128abd 256abcdef",
    "qwen-3-30b-a3b": "v5e 64bcdef 128abcdef 256ac, v6e 32bcef 64abcdef 128abcdef 256ab",
}
"""Of each model its chips, with how many of them and the letters of their batches."""


@dataclass(frozen=True)
class Cluster:
    """What is given on a day."""

    model: str
    chip: str
    n: int
    tokens: int
    T: int

    @property
    def machine(self) -> Machine:
        return next(ways(chip(self.chip), self.n))


ROWS = tuple(
    Cluster(name, part.split()[0], int(n), int(n) * BATCHES[x][0] * BATCHES[x][1], BATCHES[x][1])
    for name, chips in MACHINES.items()
    for part in chips.split(", ")
    for n, letters in re.findall(r" (\d+)(\w+)", part)
    for x in letters
)


def cluster(day: int) -> Cluster:
    """The cluster of a day after FIRST.

    >>> cluster(0)
    Cluster(model='llama-2-13b', chip='v6e', n=16, tokens=32768, T=2048)
    """
    return ROWS[day * STRIDE % len(ROWS)]
