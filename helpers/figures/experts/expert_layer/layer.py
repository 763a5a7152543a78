"""What the live figure of chapter 8 computes: the times of one layer of experts, forward, and what would hide its exchange.

Every number comes from `costs.experts`; tests hold `layer` against `exchange_seconds`, `least_width` and `domains_reached`.
"""

from helpers.costs.inference.serving_operations import met
from helpers.numeric import maximum, nonzero, where

MOST = 10
"""Experts of a token at most, of all models in the menu."""
BARS = ("weights", "products", "inside", "across")


def domains_met(E, k, m):
    """`domains_reached` for a k that is no plain number: of m domains those that have one of a token's k experts of E, on the average.

    >>> from helpers.costs.sharding.collectives import domains_reached
    >>> round(domains_met(256, 8, 8), 4) == round(domains_reached(8, 8, 256), 4)
    True
    """
    none = 1.0
    for i in range(MOST):
        none = none * where(i < k, maximum(E - E / m - i, 0.0) / nonzero(E - i), 1.0)
    return m * (1 - none)


def layer(t, m, D, F, E, k, g, path, W, card, W_hbm, bf16, fp8, rate, dispatch, combine, weight, alone):
    """Everything the figure shows.

    t           tokens on each chip; m domains of g chips
    path        bytes over a link for each byte that a chip sends inside: 1 - 1/g behind a switch, A/8 on a ring of A chips
    card        bytes/s of a chip's network card; bf16 and fp8 its FLOPs/s, NaN where there are none
    rate        0 bf16, 1 fp8; dispatch, combine and weight are bytes of a number
    alone       1: a copy for each expert, 0: for each domain
    """
    n = m * g
    wrong = where(n > E, 1, 0)
    C = where(rate == 0, bf16, fp8)
    copies = where(alone > 0, k, domains_met(E, k, m))
    weights = met(E, k, t * n) / n * 3 * D * F * weight / W_hbm
    products = 6 * t * k * D * F / C
    inside = (dispatch + combine) * t * k * D * path / W
    across = (dispatch + combine) * t * copies * D * (1 - 1 / m) / card
    exchange = maximum(inside, across)
    longest = maximum(weights, products, exchange)
    lost = where(wrong > 0, float("nan"), 1.0)
    times = {"weights": weights, "products": products, "inside": inside, "across": across}
    return {
        "wrong": wrong, "n": n, "E": E, "F": F, "copies": copies * lost, "exchange": exchange * lost,
        **{name: x * lost for name, x in times.items()}, **{f"{name}_beside": x * lost for name, x in times.items()},
        **{f"{name}_bar": x / nonzero(longest) * lost for name, x in times.items()},
        "least": F * exchange / products * lost, "tier": where(inside >= across, 0, 1),
        "hides": where(exchange <= products, 0, where(exchange <= weights, 1, 2)),
        "wide": where(exchange <= products, 0, 1), "count": where(m == 1, 0, 1),
    }  # fmt: skip
