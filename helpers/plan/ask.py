"""What is asked of a plan: which model, on how many of which chips."""

import argparse
import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import inf, prod
from pathlib import Path

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.training import layout_search
from helpers.costs.training.layout import divisors
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import model

EXAMPLE = "512xH100"
COMMAND = f"python -m helpers.plan train llama-3-70b --chips {EXAMPLE} --tokens 4194304 --length 8192"
SERVES = "python -m helpers.plan serve deepseek-v3 --chips 16xH200 --weights fp8 --in 4000 --out 1000 --speed 50"
MOST = 131072  # chips


def room(text: str) -> tuple[Slice, int]:
    """The slice and the number of pods, or of domains, that so many chips are: a shape is taken as it is written.

    >>> at, pods = room("512xH100")
    >>> at.shape, pods, room("64xv5p")[0].shape, room("6144xv5p")[0].shape
    ((8,), 64, (4, 4, 4), (16, 16, 24))
    >>> [(s.shape, pods) for s, pods in map(room, ("576xGB200", "512xGB200", "8192xv5p", "4x8xv5e"))]
    [((72,), 8), ((64,), 8), ((16, 16, 16), 2), ((4, 8), 1)]
    """
    found = re.fullmatch(r"(\d[\d,_]*(?:x\d+)*) *x? *([a-z].*)", text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"--chips is how many of which, such as {EXAMPLE}, and not {text!r}")
    shape, of = tuple(int(n) for n in re.sub("[,_]", "", found[1]).lower().split("x")), chip(found[2])
    if len(shape) > 1 and of.axes:
        return Slice(of, shape), 1
    n = prod(shape)
    if not 1 <= n <= MOST:
        raise ValueError(f"--chips is from 1 to {MOST:,} of them, and not {n:,}")
    if there := next(_rooms(of, n), None):
        return there
    near = [next(m for m in way if next(_rooms(of, m), None)) for way in (range(n, 0, -1), range(n, 2 * MOST))]
    of_what = "slice, nor several slices alike" if of.axes else f"whole number of domains of {of.pod[0]}"
    raise ValueError(f"{n} {of.name} are no {of_what}: take {near[0]} or {near[1]}")


def _rooms(of: Chip, n: int) -> Iterator[tuple[Slice, int]]:
    """Ways to have so many chips: as one slice, or as several alike, the largest first."""
    if not of.axes:
        domain = of.pod[0]
        trays = of.chips_per_host if domain % of.chips_per_host == 0 else domain  # a rack may be used in part
        some = range(domain, domain // 2 - 1, -trays) if n > domain else (n,)
        yield from ((Slice(of, (m,)), n // m) for m in some if n % m == 0)
        return
    for pods in divisors(n):
        if pods == 1 or n // pods >= of.chips_per_host:
            if shapes := _shapes(of, n // pods):
                yield Slice(of, min(shapes, key=sum)), pods


def _shapes(of: Chip, n: int) -> list[tuple[int, ...]]:
    """Slices of n chips: those that the vendor doubles, and of cubes of 4x4x4 every whole number."""
    doubled = [s.shape for s in layout_search.slices(of) if s.chips == n]
    if of.axes < 3 or doubled:
        return doubled
    most = of.sides[::-1]
    sides = (d for d in divisors(n) if d % 4 == 0 and d <= most[-1])
    some = combinations_with_replacement(sides, of.axes)
    return [s for s in some if prod(s) == n and all(a <= b for a, b in zip(s, most))]


def of_chips(text: str) -> tuple[Chip, int | None]:
    """A chip and how many of them: None, as few as needed, where the text has no number.

    >>> [(of.name, n) for of, n in map(of_chips, ("16xH200", "h200", "1,024xB200"))]
    [('H200', 16), ('H200', None), ('B200', 1024)]
    """
    found = re.fullmatch(r"(?:(\d[\d,_]*) *x? *)?([a-z].*)", text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"--chips is how many of which, such as 16xH200, or H200 alone, and not {text!r}")
    n = int(re.sub("[,_]", "", found[1])) if found[1] else None
    if n is not None and not 1 <= n <= MOST:
        raise ValueError(f"--chips is from 1 to {MOST:,} of them, and not {n:,}")
    return chip(found[2]), n


def where(s: Slice, pods: int) -> str:
    """What these chips are, in words.

    >>> [where(*room(text)) for text in ("512xH100", "4xH100", "8192xv5p", "64xv5e")]
    ['64 domains of 8', 'in one domain', '2 slices of 16x16x16', 'a slice of 8x8']
    """
    if s.chip.axes:
        shape = "x".join(map(str, s.shape))
        return f"{pods} slices of {shape}" if pods > 1 else f"a slice of {shape}"
    return f"{pods} domains of {s.chips}" if pods > 1 else "in one domain"


def asked(options) -> tuple[Config, str]:
    """The model and what it is called."""
    if bool(options.model) == bool(options.config):
        raise ValueError(f"give a public model or --config with the path of a config.json, one of the two: {COMMAND}")
    if options.model:
        return model(options.model), options.model
    try:
        return Config.from_hf(options.config), Path(options.config).name
    except OSError as e:
        raise ValueError(f"{options.config} cannot be read ({e.strerror}): give the path of a config.json") from None


def number(text: str) -> int:
    """A whole number, perhaps with commas between its thousands."""
    digits = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text)
    if not re.fullmatch(r"-?\d+", digits):
        raise argparse.ArgumentTypeError(f"a whole number such as 8192, and not {text!r}")
    return int(digits)


def amount(text: str) -> float:
    """A number above 0."""
    try:
        if 0 < (x := float(text)) < inf:
            return x
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"a number above 0, such as 2.5 or 1e12, and not {text!r}")
