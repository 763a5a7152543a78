"""The live figure of chapter 6: what every form of attention moves on a chip, and how long it takes, for a prompt of S tokens."""

from math import inf, nan

from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.time_and_intensity import Rates, exp_rate, in_turn, seconds, variants
from helpers.costs.rooflines.chips import chip, menu
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.public_models import model
from helpers.live.controls import Choice, Size
from helpers.live.drawings import Box, Boxes, Label, named_bar
from helpers.live.figure import LiveFigure
from helpers.live.tables import Columns, Result
from helpers.numeric import maximum, minimum, where

MODELS = (
    "gpt-2-xl", "gpt-3", "falcon-7b", "palm-540b", "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b",
    "mistral-7b", "qwen-3-32b", "gemma-3-27b", "gpt-oss-120b",
)  # fmt: skip
WINDOW = 4096  # of a model that has none
FORMS = {
    "naive": "naive",
    "fused": "softmax fused",
    "chunked": "chunks of queries",
    "flash1": "Flash 1",
    "flash2": "Flash 2",
    "flash3": "Flash 3",
    "window": "Flash 2, window",
    "linear": "linear",
}
COLUMNS = {
    "seconds": "at least",
    "bound": "waits for",
    "bytes": "through HBM",
    "flops": "products",
    "held": "held besides",
}
# From one bar to the next and the height of one, in pixels; percents of the width.
STEP, BAR, LEFT, WIDE = 24, 16, 36, 44


def exponentials(chip: Chip) -> float:
    """Exponentials a second; without limit on a TPU, of which nobody publishes it.

    The clock is what the chip's rate in bf16 asks for.

    >>> f"{exponentials(chip('H100')):.3g}", exponentials(chip("v5e"))
    ('3.86e+12', inf)
    """
    if not chip.clock_exps:
        return inf
    return exp_rate(chip.cores, chip.rate("bf16") / chip.cores / chip.clock_flops, chip.clock_exps)


def attention(S, N, K, H, w, M, R, C, W, exps, **_) -> dict:
    """All numbers of every form, named form_what, of one sequence of S tokens under a causal mask in bf16.

    N, K, H     query heads, KV heads, width of a head; w keys of the window
    M, R        bytes of a core's fast memory; blocks of queries that share what is read of K and V
    C, W, exps  FLOPs/s, bytes/s of HBM, exponentials/s; Flash 3 is unknown where nobody says how fast these are
    """
    passes, rates = variants(Attention(S, N=N, K=K, H=H), M, window=w, sink_tokens=0, sharing=R), Rates(C, W, exps)
    numbers = {}
    for form in FORMS:
        p, overlaps = passes[form], form == "flash3"
        known = where(exps < inf, 1.0, nan) if overlaps else 1.0
        t = seconds(p, rates)
        time = (t.lower if overlaps else in_turn(p, rates)) * known
        math, hbm, exp = (t.parts[resource] for resource in ("math", "hbm", "exps"))
        on_chip = maximum(math, exp) if overlaps else math + exp
        numbers |= {
            f"{form}_seconds": time,
            f"{form}_beside": time,  # a result stands in one place: behind its bar, or in the table
            f"{form}_bound": where(on_chip <= hbm, 1.0, where(math >= exp, 0.0, 2.0)) * known,
            f"{form}_bytes": p.bytes * known,
            f"{form}_flops": p.flops * known,
            f"{form}_held": (p.held + 0 * S) * known,  # also of a form that holds nothing it is traced
        }
    fused, flash2, longest = numbers["fused_seconds"], numbers["flash2_seconds"], numbers["naive_seconds"]
    return numbers | {
        **{f"{form}_bar": minimum(numbers[f"{form}_seconds"] / longest, 1.0) for form in FORMS},
        "w": w,
        "faster": fused / flash2,
        "share": 100 * numbers["flash2_bytes"] / numbers["fused_bytes"],
    }


def _model(name: str) -> dict[str, float]:
    c = model(name)
    return {"N": c.N, "K": c.K, "H": c.H, "w": c.window or WINDOW}


def _chip(name: str) -> dict[str, float]:
    """Speeds, fast memory of a core, and for a GPU as many blocks that share one cache as it has SMs."""
    c = chip(name)
    speeds = {"C": c.rate(), "W": c.hbm_bandwidth, "exps": exponentials(c)}
    return {"M": c.fast_bytes // c.cores, "set_R": 1 if c.axes else c.cores} | speeds


def _bar(n: int, form: str) -> tuple[Box | Label, ...]:
    return named_bar(FORMS[form], STEP * n, BAR, (LEFT, WIDE), f"{form}_bar", f"{form}_beside")


def _row(form: str) -> tuple[Result, ...]:
    units = {"seconds": "s", "bytes": "B", "flops": "FLOPs", "held": "B"}
    numbers = (Result(f"{form}_{what}", unit=unit) for what, unit in units.items())
    return (
        *numbers,
        Result(f"{form}_beside", unit="s"),
        Result(f"{form}_bound", words=("products", "HBM", "exponentials")),
    )


FIGURE = LiveFigure(
    name="attention",
    title="Attention, side by side",
    function=attention,
    controls=(
        Choice("model", "Heads of", "llama-3-8b", {name: _model(name) for name in MODELS}),
        Choice("chip", "Chip", "H100", {text: _chip(name) for name, text in menu().items()}),
        Size("S", "S, tokens", 16384, 256, 2**20, parts=2, grain=128),
        Size("R", "Blocks that share keys", 132, 1, 256, parts=1, follows="set_R", until=("chip",)),
    ),
    results=(
        *(r for form in FORMS for r in _row(form)),
        *(Result(name, unit=unit) for name, unit in (("faster", ""), ("share", ""), ("w", "count"))),
    ),
    drawing=Boxes(STEP * len(FORMS), tuple(shape for n, form in enumerate(FORMS) for shape in _bar(n, form))),
    table=Columns("form", FORMS, COLUMNS),
    sentence="{model} on {chip}, causal, S = {S}: softmax fused takes {fused_seconds} and waits for {fused_bound}; Flash 2 takes "
    "{flash2_seconds} and waits for {flash2_bound}, {faster} times as fast with {share} % of the bytes. A window of {w} takes "
    "{window_seconds}, linear attention {linear_seconds}.",
    alt="A bar for each form of attention: the time that it takes at least, as a share of that of naive attention.",
    hint="Choose a model, whose heads attend, and a chip; then move the tokens. A chip sets how many blocks share what is read.",
    rules="Times are lower bounds of one layer's attention for one sequence in bf16, scores and sums in float32, without projections. "
    "Traffic is beside all else; products and exponentials take turns but in Flash 3, and exponentials are counted on GPUs alone, since "
    "nobody publishes the rate of a TPU's. Flash has the largest blocks that fit one TensorCore or SM with their scores, and pays for "
    "whole blocks. Blocks that share what is read of K and V through one cache are, at first, all SMs of a GPU.",
)  # fmt: skip
