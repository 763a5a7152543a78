"""What users were promised and got: percentiles of a log, and goodput (chapter 5).

A promise is two numbers: the first token comes within so many seconds, and the gaps between tokens are no longer than so many.

Source: Zhong et al., "DistServe" (2024), section 2.1 for promises and goodput, which is there the highest rate at which 90 % of
requests keep them; here it is the requests that did, a second, as in vLLM's `bench serve --goodput`.
"""

from collections.abc import Iterable
from math import floor
from typing import NamedTuple

from helpers.arguments import entries

from .request_log import Log, Served


class Percentiles(NamedTuple):
    """Seconds of the first token, of the gaps between tokens, and of the whole request."""

    first: float
    gap: float
    whole: float


def percentile(values: Iterable[float], p):
    """The value that p % are not above, between its two neighbours in proportion, as `numpy.percentile` does it; 0 of none.

    >>> [percentile([4, 1, 3, 2], p) for p in (0, 50, 90, 100)]
    [1.0, 2.5, 3.7, 4.0]
    """
    if not 0 <= p <= 100:
        raise ValueError(f"a percentile is one of 0 to 100, not {p}")
    values = sorted(values)
    if not values:
        return 0.0
    at = p / 100 * (len(values) - 1)
    low = floor(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def percentiles(log: Log, p) -> Percentiles:
    """Of all requests' first tokens, of all gaps of all requests, and of all requests' whole time.

    >>> from helpers.costs.inference.engine_simulation import interleaved
    >>> log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> percentiles(log, 50), percentiles(log, 100)
    (Percentiles(first=10.0, gap=1.0, whole=14.0), Percentiles(first=12.0, gap=5.0, whole=15.0))
    """
    return Percentiles(
        percentile([s.ttft for s in log.served], p),
        percentile([g for s in log.served for g in s.gaps], p),
        percentile([s.latency for s in log.served], p),
    )


def keeps(s: Served, first, gap, p=100) -> bool:
    """Whether a request's first token came within `first` seconds, and p % of its gaps, or all, are no longer than `gap`."""
    return s.ttft <= first and percentile(s.gaps, p) <= gap


def attainment(log: Log, first, gap, p=100) -> float:
    """Share of the requests that kept the promise."""
    return sum(keeps(s, first, gap, p) for s in log.served) / len(log.served)


def goodput(log: Log, first, gap, p=100) -> float:
    """Requests a second that kept the promise, from the first arrival to the last token.

    >>> from helpers.costs.inference.engine_simulation import interleaved
    >>> log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    >>> goodput(log, first=12, gap=5), goodput(log, first=12, gap=4), goodput(log, first=8, gap=1)
    (0.13333333333333333, 0.06666666666666667, 0.0)
    """
    return len(log.served) * attainment(log, first, gap, p) / log.span


entries(__name__)
