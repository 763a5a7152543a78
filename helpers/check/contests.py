"""Design contests: where an answer stands among all designs of a problem of its check, to try it and not to judge it.

The best of all is known because all are tried; what is printed is how many take longer, and their histogram.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from helpers import show
from helpers.costs.racks.training_over_tiers import hsdp_tokens, tensor_share
from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding import best_shardings
from helpers.costs.sharding.sharded_array import Axis, Mesh, parse
from helpers.costs.training.pipeline_schedules import simulate

from .raised import attempt, called

HEIGHTS = " ▁▂▃▄▅▆▇█"
BINS = 16  # of the histogram, from the least to the most
EQUAL = 1 + 1e-6  # up to here what two designs take differs by rounding


class Contest(NamedTuple):
    """What a contest compares: the less of it the better.

    score    of what an answer gives for the problem; None where that is no design, or does not fit
    every    scores of all designs that fit, the least first
    """

    problem: tuple
    score: Callable
    every: Callable[[], list[float]]
    designs: str
    printed: Callable[[float], str]


BLOCK, SQUARE = dict(B=128, D=8192, F=32768), Mesh({axis: Axis(2, False) for axis in "XY"})
LIMIT = 300e6  # bytes of each of the four chips, as in the visible case of the check


def block_score(cut: Mapping[str, str]) -> float | None:
    In, W_in, W_out = (parse(cut[name]) for name in ("In", "W_in", "W_out"))
    if [a.dims for a in (In, W_in, W_out)] != [("B", "D"), ("D", "F"), ("F", "D")]:
        return None
    block = best_shardings.block(In, W_in, W_out, In, BLOCK, SQUARE, chip("v5e"), limit=LIMIT)
    return block and block.time(chip("v5e")).upper


@cache
def blocks() -> list[float]:
    return best_shardings.block_seconds(BLOCK, SQUARE, chip("v5e"), limit=LIMIT)


STAGES, MICROBATCHES = 2, 4


def schedule_score(orders: Sequence[Sequence[tuple[str, int]]]) -> float | None:
    """Slots of a schedule in which each device holds no more microbatches than there are stages."""
    tasks = [[(stage, int(i), str(kind)) for kind, i in order] for stage, order in enumerate(orders)]
    whole = sorted(product(range(MICROBATCHES), "BFW"))
    if len(tasks) != STAGES or any(sorted(task[1:] for task in order) != whole for order in tasks):
        return None
    try:
        timeline = simulate(tasks)
    except ValueError:  # some stage waits for ever
        return None
    return timeline.span if max(timeline.peak) <= STAGES else None


@cache
def schedules() -> list[float]:
    """Slots of each schedule whose stages take the microbatches in turn."""

    def may_follow(order: tuple[str, ...], kind: str) -> bool:
        F, B, W = map(order.count, "FBW")
        return F < min(MICROBATCHES, W + STAGES) if kind == "F" else B < F if kind == "B" else W < B

    orders = [()]
    for _ in range(3 * MICROBATCHES):
        orders = [(*order, kind) for order in orders for kind in "FBW" if may_follow(order, kind)]
    named = [[(kind, order[:i].count(kind)) for i, kind in enumerate(order)] for order in orders]
    return sorted(filter(None, map(schedule_score, product(named, repeat=STAGES))))


# Of the check's visible cases that with the most layouts: P, F, tokens, micro, C, g, m, W, W_dcn, bytes of a chip's memory.
RACKS = 7e10, 28672, 5e5, 1, 2.5e15, 64, 8, 9e11, 5e10, 1.9e11


@cache
def layouts() -> dict[tuple[int, str], float]:
    """Seconds of a step under each layout that fits, as multiples of those of its arithmetic."""
    P, F, tokens, micro, C, g, m, W, W_dcn, hbm = RACKS
    found = {}
    for Y in (2**i for i in range(g.bit_length()) if g % 2**i == 0):
        group_tokens = tokens * Y / (g * m * micro)  # a TP group is one chip of Y times the rates
        gathered, summed = hsdp_tokens(Y * C, g / Y, m, Y * W, Y * W_dcn)
        inside, across = tensor_share(C, Y, W, F) + gathered / group_tokens, summed / group_tokens
        fsdp = max(1, inside, across)
        # Across beside the last of the backward passes.
        hsdp = max(1, inside) + 2 / (3 * micro) * (fsdp - max(1, inside))
        for how, times, shards in (("fsdp", fsdp, g * m), ("hsdp", hsdp, g)):
            if 16 * P <= shards * hbm:
                found[Y, how] = times
    return found


CONTESTS = {
    "2.26": Contest((*BLOCK.values(), {"X": 2, "Y": 2}, False, "v5e", LIMIT), block_score, blocks, "shardings", show.seconds),
    "4.18": Contest((STAGES, MICROBATCHES), schedule_score, schedules, "schedules", "{:.0f} slots".format),
    "7.15": Contest(
        RACKS, lambda layout: layouts().get((layout["tp"], layout["how"])), lambda: sorted(layouts().values()),
        "layouts", "{:.2f}× the arithmetic".format,
    ),
}  # fmt: skip


def standing(score: float, scores: Sequence[float], designs: str, formatter: Callable[[float], str]) -> str:
    """Where a design stands among all, and their histogram with its own place.

    >>> print(standing(2, [1, 1, 2, 4], "layouts", "{:.0f} s".format))
    2 s: faster than 25 % of all 4 layouts that fit, 100.0 % above the best.
    1 s █    ▄          ▄ 4 s
             ▲
    """
    least, most, worse = scores[0], scores[-1], len(scores) - bisect(scores, score * EQUAL)
    bin_of = lambda x: min(BINS - 1, int(BINS * (x / least - 1) / (most / least - 1 or 1) * EQUAL))  # noqa: E731
    counts = Counter(map(bin_of, scores))
    bars = "".join(HEIGHTS[-(-8 * counts[i] // max(counts.values()))] for i in range(BINS))
    share = f"faster than {100 * worse // len(scores)} % of all {len(scores):,} {designs} that fit"
    above = f"{100 * (score / least - 1):.1f} % above the best" if score > least * EQUAL else "and none is faster"
    begin = f"{formatter(least)} "
    left = " " * (len(begin) + bin_of(score))
    return f"{formatter(score)}: {share}, {above}.\n{begin}{bars} {formatter(most)}\n{left}▲"


def contest(number: str, answer: Callable) -> None:
    """Print where an answer stands among all designs; what is not done, or no design, has a sentence."""
    rules = CONTESTS[number]
    design, why = attempt(lambda: called(answer, rules.problem, {}), answer.__name__)
    try:
        score = rules.score(design)
    except (AttributeError, KeyError, TypeError, ValueError):
        score = None
    if score is None:
        print(why or f"What {answer.__name__} returns is no design that fits: the check above says why.")
    else:
        print(standing(score, rules.every(), rules.designs, rules.printed))
