"""The live figure of the start page: rows times a matrix of weights on an H100: its two times, and the arrays to scale."""

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import matmul, time
from helpers.live.controls import Size
from helpers.live.drawings import Box, Boxes, Follows, Label
from helpers.live.figure import LiveFigure
from helpers.live.tables import Result
from helpers.numeric import where

D = 8192
ROWS = 256
CHIP = chip("H100")
SQUARE = 150  # pixels of the weights' side
END, TICK = 140e-6, 25e-6  # seconds at the right end of the bars, and between two ticks
PRODUCT = 140  # pixels above the square: on a phone the drawing ends here


def rows(B):
    """Times of X[B, 8192] · W[8192, 8192] in bf16 on an H100: both, what of the reading is weights, and what decides.

    >>> from helpers import show
    >>> t = rows(256)
    >>> show.seconds(t["memory"]), show.seconds(t["arithmetic"]), t["bound"]
    ('42.6 µs', '34.7 µs', 0.0)
    """
    work = matmul(B, D, D)
    t = time(work, CHIP.rate(), CHIP.hbm_bandwidth)
    return {
        "B": B,
        "memory": t.comms,
        "weights": 2 * D * D / CHIP.hbm_bandwidth,
        "rows": t.comms - 2 * D * D / CHIP.hbm_bandwidth,
        "arithmetic": t.math,
        "lower": t.lower,
        "bound": where(t.math >= t.comms, 1.0, 0.0),
        "top": PRODUCT + SQUARE / 2 - SQUARE * B / D / 2,
    }


def _sliver(x: str) -> Box:
    return Box("rows", x, Follows("top", 1), str(SQUARE), Follows("B", SQUARE / D))


def _product() -> tuple[Box | Label, ...]:
    """Rows, weights and rows out, to scale."""
    middle = PRODUCT + SQUARE // 2
    return (
        _sliver("0"),
        Label("75", middle + 28, "rows", anchor="middle"),
        Label("167", middle + 5, "×", anchor="middle"),
        Box("weights", "184", str(PRODUCT), str(SQUARE), str(SQUARE)),
        Label("259", middle - 4, "weights", anchor="middle", kind="live-on"),
        Label("259", middle + 14, f"{D:,} × {D:,}", anchor="middle", kind="live-on"),
        Label("351", middle + 5, "=", anchor="middle"),
        _sliver("368"),
        Label("443", middle + 28, "rows out", anchor="middle"),
    )


def _bars() -> tuple[Box | Label, ...]:
    """Memory, of weights and rows, over arithmetic, on one axis."""
    part = 100 / END
    weights = 100 * 2 * D * D / CHIP.hbm_bandwidth / END
    ticks = range(int(END / TICK) + 1)
    return (
        Label("0", 14, "memory", "memory"),
        Box("weights", "0", "22", f"{weights:.2f}%", "20"),
        Box("rows", f"{weights:.2f}%", "22", Follows("rows", part, "%"), "20"),
        Label("0", 64, "arithmetic", "arithmetic"),
        Box("work", "0", "72", Follows("arithmetic", part, "%"), "20"),
        Box("axis", "0", "102", "100%", "1"),
        *(
            Label(f"{100 * n * TICK / END:.2f}%", 120, f"{n * TICK * 1e6:.0f}", anchor="middle" if n else "start")
            for n in ticks
        ),
        Label("100%", 120, "µs", anchor="end"),
    )


FIGURE = LiveFigure(
    name="rows",
    title="Rows times 8,192 × 8,192 weights on an H100",
    alt="Two bars: memory, almost all of it weights, and arithmetic. With few rows the bar of memory is the longer, with many that of "
    "arithmetic. Under them rows times a square of weights, which gives as many rows, drawn to scale.",
    function=rows,
    controls=(Size("B", "Rows", ROWS, 1, 1024),),
    results=(
        Result("memory", unit="s"),
        Result("arithmetic", unit="s"),
        Result("lower", unit="s"),
        Result("bound", words=("memory", "arithmetic")),
    ),
    drawing=Boxes(PRODUCT + SQUARE + 6, (*_bars(), *_product())),
    sentence="{B} rows: at least {lower}, waiting for {bound}",
)
