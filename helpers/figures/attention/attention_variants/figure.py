"""The live figure of chapter 6: what every form of attention moves, and how long it takes."""

import math

from helpers.costs.rooflines.chips import chip, menu
from helpers.costs.transformers.public_models import model
from helpers.live.controls import Choice, Size
from helpers.live.curves import Curve, Curves
from helpers.live.drawings import Axis
from helpers.live.figure import LiveFigure
from helpers.live.tables import Columns, Result

from .variants import CHUNK, FORMS, KIB, PHASES, SMALLEST, WIDTHS, attention, exponentials, rate

MODELS = (
    "gpt-2-xl", "gpt-3", "falcon-7b", "palm-540b", "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b",
    "mistral-7b", "qwen-3-32b", "gemma-3-27b", "gpt-oss-120b",
)  # fmt: skip
WINDOW = 4096  # of a model that has none
CHARTS = {  # what the vertical axis can show, with its name and unit
    "time": ("time, s", "s"),
    "bytes through HBM": ("bytes through HBM", "B"),
    "FLOPs of products": ("FLOPs of products", "FLOPs"),
    "bytes held in HBM": ("bytes held in HBM", "B"),
}
CURVES = {  # a short name and a stroke for each form
    "naive": ("naive", "stroke-width:1.5;stroke-dasharray:1,3"),
    "fused": ("fused", "stroke-width:1.5"),
    "chunked": ("chunked", "stroke-width:1.5;stroke-dasharray:7,3"),
    "flash1": ("Flash 1", "stroke-width:1.5;stroke-dasharray:7,3,1,3"),
    "flash2": ("Flash 2", "stroke-width:3;stroke:var(--live-mark)"),
    "flash3": ("Flash 3", "stroke-width:1.5;stroke:var(--live-mark)"),
    "window": ("window", "stroke-width:2.5;stroke-dasharray:9,4;stroke:var(--live-mark)"),
    "linear": ("linear", "stroke-width:2.5;stroke-dasharray:2,3;stroke:var(--live-mark)"),
}
COLUMNS = {
    "seconds": "time, at least",
    "bound": "waits for",
    "bytes": "through HBM",
    "flops": "products",
    "memory": "held in HBM",
    "over": "",
}
OTHERS = tuple(next(text for name, text in menu().items() if rate(chip(name), widths)) for widths in WIDTHS)

BOTH = (
    "softmax fused takes {fused_seconds} and waits for {fused_bound}; Flash 2 in blocks of {used} takes {flash2_seconds} and waits for "
    "{flash2_bound}, {faster} times as fast with {share} % of the bytes. "
)
WORDS = (
    Result("wrong", words=(
        "{who} on {chip}, {phase}, S = {S}: {what}{lacks}",
        "N = {N} query heads cannot share K = {K} KV heads evenly, so all is unknown: K = {fit} would do, or N = {near}.",
        "{chip} has no published rate for {widths}, so all is unknown: choose other numbers, or a chip that has one, such as {other}.",
    )),
    Result("what", words=(
        BOTH + "A window of {w} takes {window_seconds}, linear attention {linear_seconds}.{sooner}{tight}",
        BOTH + "Linear attention takes {linear_seconds}.{sooner}{tight}",
        BOTH + "A window of {w} takes {window_seconds}.{sooner}{tight}",
        "softmax fused takes {fused_seconds} and waits for {fused_bound}; one pass over the cache takes {flash2_seconds} and waits "
        "for {flash2_bound}, {faster} times as fast with {share} % of the bytes. A window of {w} takes {window_seconds}, linear attention "
        "{linear_seconds}.",
        f"Flash is unknown, for not even blocks of {SMALLEST} fit into {{M}} KiB: with heads of {{H}} they take {{need}}. "
        "Take more memory on the chip or narrower heads.",
    )),
    Result("who", words=("{model}", "Heads of your own")),
    Result("sooner", words=("", " Flash 3, whose exponentials run beside products, takes {flash3_seconds}.")),
    Result("tight", words=(
        "",
        " Into {M} KiB fit blocks of {fits}, not of {b}.",
        " Into {M} KiB fit blocks of {fits}, and of {backs} backward, not of {b}.",
    )),
    Result("lacks", words=("", " More than {hbm} of memory: " + "".join(f"{{{form}_named}}" for form in FORMS) + ".")),
    *(Result(f"{form}_named", words=("", CURVES[form][0], f", {CURVES[form][0]}")) for form in FORMS),
    *(Result(name, unit="count") for name in ("fit", "near", "fits", "backs", "used")),
    *(Result(name, unit=unit) for name, unit in (("faster", ""), ("share", ""), ("need", "B"), ("hbm", "B"))),
    Result("other", words=OTHERS),
    Result("quantity", words=tuple(label for label, _ in CHARTS.values())),
    Result("alt", words=tuple(chart[0].upper() + chart[1:] for chart in CHARTS)),
)  # fmt: skip


def _row(form: str) -> tuple[Result, ...]:
    units = {"seconds": "s", "bytes": "B", "flops": "FLOPs", "memory": "B"}
    return (
        *(Result(f"{form}_{what}", unit=unit) for what, unit in units.items()),
        Result(f"{form}_bound", words=("arithmetic", "HBM", "exponentials")),
        Result(f"{form}_over", words=("", " > {hbm}")),
    )


def _model(name: str) -> dict[str, float]:
    """What a model sets: heads, and the window of its local layers."""
    c = model(name)
    return {"set_N": c.N, "set_K": c.K, "set_H": c.H, "set_w": c.window or WINDOW}


def _chip(name: str) -> dict[str, float]:
    """What a chip sets, KiB of fast memory of a core and blocks at once behind one cache; and its speeds."""
    of = chip(name)
    speeds = {"W": of.hbm_bandwidth, "exps": exponentials(of), "hbm": of.hbm_bytes, "gpu": int(not of.axes)}
    rates = {f"C{n}": rate(of, widths) or math.nan for n, widths in enumerate(WIDTHS)}
    return {"set_M": round(of.fast_bytes / of.cores / KIB), "set_R": 1 if of.axes else of.cores} | speeds | rates


def _set(by: str, name: str, *arguments, **steps) -> Size:
    return Size(name, *arguments, follows=f"set_{name}", until=(by,), **steps)


S = Size("S", "S, tokens", 8192, 256, 2**20, parts=2, grain=128)
FIGURE = LiveFigure(
    name="attention",
    title="What attention moves",
    function=attention,
    controls=(
        Choice("model", "Heads of", "llama-3-8b", {name: _model(name) for name in MODELS}),
        Choice("chip", "Chip", "v5e", {text: _chip(name) for name, text in menu().items()}),
        Choice("phase", "Phase", "prefill, causal", {text: {"phase": n} for n, text in enumerate(PHASES.values())}),
        Choice("widths", "Numbers", next(iter(WIDTHS)), {
            text: {"x": x, "s": s, "width": n} for n, (text, (x, s, _)) in enumerate(WIDTHS.items())
        }),
        Choice("chart", "Chart", "time", {text: {"chart": n} for n, text in enumerate(CHARTS)}),
        S,
        Size("B", "B, sequences", 1, 1, 1024, parts=1),
        _set("model", "N", "N, query heads", 32, 1, 256),
        _set("model", "K", "K, KV heads", 8, 1, 256),
        _set("model", "H", "H, width of a head", 128, 32, 512, parts=2, grain=16),
        _set("model", "w", "Window, tokens", 4096, 128, 2**17, parts=1),
        Size("b", "Block, queries and keys", 256, 16, 4096, parts=1),
        _set("chip", "M", "Memory on the chip, KiB", 131072, 16, 2**18, parts=1),
        _set("chip", "R", "Blocks at once, one cache", 1, 1, 256, parts=1),
    ),
    results=(*(r for form in FORMS for r in _row(form)), *WORDS),
    drawing=Curves(
        S,
        Axis("tokens", 2, 7),
        tuple(Curve(f"{form}_chart", *CURVES[form]) for form in FORMS),
        "{quantity}",
        tuple(unit for _, unit in CHARTS.values()),
        "quantity",
    ),
    table=Columns("form", FORMS, COLUMNS),
    sentence="{wrong}",
    alt="{alt} of each form of attention against the number of tokens, with the chosen number marked",
    hint="Choose a model, a chip and a phase, then move any size. A chip sets its memory and its blocks at once, a model its heads.",
    rules="Times are lower bounds of one layer's attention without its projections. Traffic is beside all else; products and exponentials "
    "take turns but in Flash 3, and exponentials are counted on GPUs alone, since nobody publishes the rate of a TPU's. Naive, fused and "
    f"in chunks compute masked pairs too; Flash pays for whole blocks. Chunks have {CHUNK} queries; linear attention has as many features "
    "as a head is wide. Memory on the chip is that of one TensorCore or SM. Blocks at once that share what is read of K and V through one "
    "cache are, at first, all SMs of a GPU.",
)  # fmt: skip
