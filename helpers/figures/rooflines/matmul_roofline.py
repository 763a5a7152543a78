"""The live figure of chapter 1: where the product of two matrices stands on a chip's roofline."""

from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.roofline import attainable, critical_batch, matmul, time
from helpers.live.controls import Choice, Size
from helpers.live.drawings import Axis, Mark, Plot
from helpers.live.figure import LiveFigure
from helpers.live.tables import Result
from helpers.numeric import where

RATES = ("bf16", "int8", "fp8", "f32")
LOW, HIGH = 1e-1, 1e5  # FLOPs/byte, the ends of the horizontal axis


def point(B, D, F, x, w, out, rate, bf16, int8, fp8, f32, W):
    """Everything the figure shows of X[B, D] · W_in[D, F].

    x, w, out             bytes of an element of X, of W and of the result
    rate                  which of the next four the arithmetic runs at: 0, 1, 2 or 3
    bf16, int8, fp8, f32  the chip's FLOPs/s, NaN where it publishes none
    W                     its bytes/s of HBM
    """
    C = where(rate == 0, bf16, where(rate == 1, int8, where(rate == 2, fp8, f32)))
    work = matmul(B, D, F, x, w, out)
    t = time(work, C, W)
    return {
        "intensity": work.intensity,
        "math": t.math,
        "comms": t.comms,
        "lower": t.lower,
        "upper": t.upper,
        "bound": where(t.math >= t.comms, 1.0, where(t.math < t.comms, 0.0, t.math)),
        "critical": critical_batch(D, F, C, W, x, w, out) + 0 * C,  # an unknown rate stays unknown
        "alpha": C / W,
        "fastest": work.flops / t.lower,
        "slowest": work.flops / t.upper,
        "C": C,
        "low": LOW + 0 * C,
        "high": HIGH + 0 * C,
        "left": attainable(LOW, C, W),
    }


def _bytes(x: int, w: int, out: int, rate: str) -> dict[str, float]:
    return {"x": x, "w": w, "out": out, "rate": RATES.index(rate)}


FIGURE = LiveFigure(
    name="matmul-roofline",
    title="The product X[B, D] · W_in[D, F] on one chip",
    alt="Roofline of the chosen chip, FLOPs per second over FLOPs per byte, both logarithmic: it rises with the memory's "
    "bandwidth and is flat at the peak rate. A filled dot marks the product if transfers hide behind arithmetic, a ring if nothing "
    "overlaps. The table holds the same numbers.",
    function=point,
    controls=(
        Size("B", "B, rows (tokens)", 256, 1, 65536),
        Size("D", "D, numbers in a row", 8192, 256, 65536),
        Size("F", "F, columns", 8192, 256, 65536),
        Choice(
            "dtype",
            "Types",
            "bf16 × bf16",
            {
                "bf16 × bf16": _bytes(2, 2, 2, "bf16"),
                "int8 × int8": _bytes(1, 1, 1, "int8"),
                "bf16 × int8 weights": _bytes(2, 1, 2, "bf16"),
                "fp8 × fp8": _bytes(1, 1, 1, "fp8"),
                "f32 × f32": _bytes(4, 4, 4, "f32"),
            },
        ),
        Choice(
            "chip",
            "Chip",
            "H100",  # the riddle that opens chapter 1
            {
                name: {r: c.flops.get(r, float("nan")) for r in RATES} | {"W": c.hbm_bandwidth}
                for name, c in CHIPS.items()
            },
        ),
    ),
    results=(
        Result("intensity", "arithmetic intensity", "FLOPs/byte"),
        Result("alpha", "the chip's own C/W", "FLOPs/byte"),
        Result("math", "time of the arithmetic", "s"),
        Result("comms", "time of the HBM traffic", "s"),
        Result("lower", "lower bound: all overlaps", "s"),
        Result("upper", "sum: nothing overlaps", "s"),
        Result("bound", "bound by", words=("memory bandwidth", "arithmetic")),
        Result("critical", "critical B at this D and F"),
        Result("fastest", "rate at the lower bound", "FLOPs/s"),
    ),
    drawing=Plot(
        Axis("FLOPs per byte of HBM traffic", -1, 5),
        Axis("FLOPs/s", 10, 16, "FLOPs/s"),
        (
            Mark("line", "roofline", (("low", "left"), ("alpha", "C"), ("high", "C"))),
            Mark("dot", "all overlaps", (("intensity", "fastest"),)),
            Mark("ring", "nothing overlaps", (("intensity", "slowest"),)),
        ),
    ),
    sentence="B = {B}, D = {D}, F = {F}, {dtype} on {chip}: bound by {bound}, between {lower} and {upper}.",
    unknown="B = {B}, D = {D}, F = {F}, {dtype} on {chip}: for these types {chip} has no published FLOPs/s, so nobody can say what "
    "bounds the product; choose other types or another chip.",
)
