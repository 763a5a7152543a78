"""What the live figure of chapter 8 computes: the times of one layer of experts, forward, and what would hide its exchange.

Every number comes from `costs.experts`; tests hold `layer` against `exchange_seconds`, `least_width` and `domains_reached`.
"""

from helpers.costs.inference.serving_operations import met
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model
from helpers.live.controls import Choice, Size
from helpers.live.drawings import Box, Boxes, Label, named_bar
from helpers.live.figure import LiveFigure
from helpers.live.tables import Result
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


MODELS = (
    "mixtral-8x22b", "dbrx", "qwen-3-30b-a3b", "qwen-3-235b-a22b", "qwen-3.5-397b-a17b", "gpt-oss-120b", "llama-4-maverick",
    "glm-4.5", "glm-5", "minimax-m2", "deepseek-v3", "kimi-k2",
)  # fmt: skip
MACHINES = {  # chip, chips of a domain, what one is called, longest ring of a slice
    "H100 hosts of 8": ("H100", 8, "host", 0),
    "H800 hosts of 8": ("H800", 8, "host", 0),
    "B200 hosts of 8": ("B200", 8, "host", 0),
    "GB200 NVL72 racks": ("GB200", 72, "rack", 0),
    "TPU v5p slices of 4×4×4": ("v5p", 64, "slice", 4),
    "TPU v7 slices of 4×4×4": ("v7", 64, "slice", 4),
}
TYPES = {
    "bf16": {"rate": 0, "dispatch": 2, "combine": 2, "weight": 2},
    "fp8 on the way there": {"rate": 0, "dispatch": 1, "combine": 2, "weight": 2},
    "fp8 there and in arithmetic": {"rate": 1, "dispatch": 1, "combine": 2, "weight": 1},
}
COPIES = {"one for each domain": {"alone": 0}, "one for each expert": {"alone": 1}}
LABELS = {"weights": "weights, read", "products": "products", "inside": "over links", "across": "over cards"}
HEAD, STEP, BAR, LEFT, WIDE = 4, 26, 17, 27, 55  # heights, and percents of the width


def _model(name: str) -> dict[str, float]:
    c = model(name)
    return {"D": c.moe.row(c.D), "F": c.moe.F, "E": c.moe.E, "k": c.moe.k}


def _machine(name: str, g: int, domain: str, ring: int) -> dict[str, float | str]:
    c, nan = chip(name), float("nan")
    rates = {"W": c.link_bandwidth, "card": c.dcn_bandwidth, "W_hbm": c.hbm_bandwidth}
    flops = {t: c.flops.get(t, nan) for t in ("bf16", "fp8")}
    return {"g": g, "path": ring / 8 if ring else 1 - 1 / g, "domain": domain} | rates | flops


def _bar(n: int, name: str) -> tuple[Box | Label, ...]:
    kind = "fill" if n < 2 else "hatch"  # times of a chip, and of what is sent
    return named_bar(LABELS[name], HEAD + STEP * n, BAR, (LEFT, WIDE), f"{name}_bar", f"{name}_beside", kind)


FIGURE = LiveFigure(
    name="expert-layer",
    title="A layer of experts and its exchange",
    function=layer,
    controls=(
        Choice("model", "Model", "deepseek-v3", {name: _model(name) for name in MODELS}),
        Choice("machine", "Machine", "H100 hosts of 8", {text: _machine(*of) for text, of in MACHINES.items()}),
        Size("m", "Hosts, racks or slices", 8, 1, 16, steps=(1, 2, 3, 4, 6, 8, 12, 16)),
        Size("t", "Tokens on each chip", 4096, 1, 32768, parts=2),
        Choice("types", "Types", "fp8 there and in arithmetic", TYPES),
        Choice("copy", "Copies over cards", "one for each domain", COPIES),
    ),
    results=(
        Result("products", "products", "s"),
        Result("weights", "weights, read from memory", "s"),
        Result("inside", "exchange inside a domain", "s"),
        Result("across", "exchange across domains", "s"),
        Result("least", "least F that hides the exchange"),
        Result("copies", "copies of a token, its own domain's included"),
        *(Result(f"{name}_beside", unit="s") for name in BARS),  # a result stands in one place: behind its bar, or in the table
        Result("exchange", unit="s"),
        *(Result(name, unit="count") for name in ("n", "E", "F")),
        Result("wrong", words=(
            "{model} on {count}, {t} tokens on each chip: the exchange takes {exchange}, {tier}, beside products of {products}. {hides} "
            "An expert has F = {F} and would need {least}{wide}",
            "The {E} experts of {model} cannot be spread over {n} chips: take fewer domains, or another model.",
        )),
        Result("count", words=("1 {domain}", "{m} {domain}s")),
        Result("tier", words=("over links inside", "over network cards")),
        Result("hides", words=(
            "It hides behind them.",
            "It is longer than these, but hides behind the weights that are read.",
            "It does not hide.",
        )),
        Result("wide", words=(", whatever the tokens.", ", and more tokens do not help.")),
    ),
    drawing=Boxes(HEAD + STEP * len(BARS), tuple(shape for n, name in enumerate(BARS) for shape in _bar(n, name))),
    sentence="{wrong}",
    unknown="{machine}, {types}: this chip has no published FLOPs/s of these types, or the {E} experts of {model} cannot be spread over "
    "{n} chips. Take other types, fewer domains, or another model.",
    alt="Four bars: how long the weights of the experts are read, how long their products take, and how long the exchange takes inside "
    "the domains over links, and across them over cards. The table has the numbers.",
    hint="Choose a model, a machine and its types; then move the tokens, which change everything but the verdict.",
    rules="Forward, at published rates of one direction of each link, with even routing. Products are those of routed experts; all of them "
    "are shared by all chips, and weights are those of the experts that the batch meets. With one copy for each domain a token crosses "
    "cards once for each domain that it meets besides its own, at random; DeepSeek-V3's limit of four hosts is left out, so "
    "it takes longer here than in the chapter's riddle.",
)  # fmt: skip
