"""What the live figure of chapter 6 computes: attention in every form on one chip, side by side.

Each phase is one function of numbers over `costs.attention.flops_and_bytes`, `linear_attention`, `io_complexity` and `seconds`;
`attention` chooses among them, and says which of the figure's phrases are true.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import nan
from operator import add

from helpers.costs.attention.flops_and_bytes import Attention, Pass, chunked, decode, flash, fused, naive
from helpers.costs.attention.io_complexity import Layout, block_bytes, largest_block
from helpers.costs.attention.linear_attention import linear, state_bytes
from helpers.costs.attention.time_and_intensity import Rates, exp_rate, in_turn, seconds
from helpers.costs.rooflines.hardware import Chip
from helpers.figures.transformers.decoder_sizes.decoder import heads
from helpers.numeric import choose, maximum, minimum, where

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
PHASES = {
    "prefill": "prefill, causal",
    "unmasked": "prefill, no mask",
    "training": "forward and backward, causal",
    "decode": "decode, one token",
}
TRAINING, DECODE = (list(PHASES).index(name) for name in ("training", "decode"))
WHAT = ("seconds", "bound", "bytes", "flops", "memory")
RESOURCES = ("math", "hbm", "exps")
WIDTHS = {  # bytes of Q, K, V and O, bytes of scores and sums, and the rates that would do
    "bf16, scores and sums in float32": (2, 4, ("bf16",)),
    "bf16, scores and sums too": (2, 2, ("bf16",)),
    "8 bits, scores and sums in float32": (1, 4, ("fp8", "int8")),
    "float32": (4, 4, ("f32",)),
}
CHUNK = 128  # queries of `chunked`
SMALLEST = 16  # block
KIB = 1024
CHARTS = ("seconds", "bytes", "flops", "memory")


@dataclass(frozen=True)
class Setting:
    """Numbers, or tracers.

    S, B, N, K, H   keys (and queries, except in decode), sequences, query heads, KV heads, width of a head
    w, b, R         keys of a window; queries and keys of a block; blocks of queries at once that share what is read of K and V
    fit, back       largest blocks that fit on the chip, forward and backward; 0: not even the smallest
    gpu             1: a backward pass is one kernel that adds to dQ in memory; 0: two kernels that add nothing up there
    x, s            bytes of a number of Q, K, V and O, and of a score or a sum
    C, W, exps      FLOPs/s, bytes/s of HBM, exponentials/s
    """

    S: float
    B: float
    N: float
    K: float
    H: float
    w: float
    b: float
    R: float
    fit: float
    back: float
    gpu: float
    x: float
    s: float
    C: float
    W: float
    exps: float


def forms(phase: str) -> tuple[str, ...]:
    """What a phase knows: no windows without a mask, no backward pass of linear attention, one pass over a cache.

    >>> forms("decode")
    ('naive', 'fused', 'flash2', 'window', 'linear')
    """
    left = {"unmasked": {"window"}, "training": {"linear"}, "decode": {"chunked", "flash1", "flash3"}}.get(phase, ())
    return tuple(f for f in FORMS if f not in left)


def exponentials(chip: Chip) -> float:
    """Exponentials a second; without limit on a TPU, of which nobody publishes it.

    The clock is what the chip's rate in bf16 asks for.

    >>> f"{exponentials(chip('H100')):.3g}", exponentials(chip("v5e"))
    ('3.86e+12', inf)
    """
    if not chip.clock_exps:
        return float("inf")
    return exp_rate(chip.cores, chip.rate("bf16") / chip.cores / chip.clock_flops, chip.clock_exps)


def rate(chip: Chip, widths: str) -> float | None:
    """FLOPs/s of products of such numbers, if the chip has a published one.

    >>> rate(chip("H100"), "float32"), rate(chip("v5e"), "float32"), rate(chip("v5e"), "8 bits, scores and sums in float32")
    (67000000000000.0, None, 394000000000000.0)
    """
    return next((chip.flops[name] for name in WIDTHS[widths][2] if name in chip.flops), None)


def room(widths: str, gpu, M, H) -> dict:
    """The largest block in M bytes, and what the smallest would take; forward, then backward. On a GPU scores and sums stay in registers.

    >>> {name: int(n) for name, n in room(next(iter(WIDTHS)), 0, 128 * 2**20, 128).items()}
    {'fit': 4576, 'need': 30336, 'back': 3184, 'need_back': 60672}
    """
    x, s, _ = WIDTHS[widths]
    out = {}
    for backward, names in ((False, ("fit", "need")), (True, ("back", "need_back"))):
        tpu, on_gpu = (
            (largest_block(M, H, at, backward), block_bytes(SMALLEST, SMALLEST, H, at, backward))
            for at in (Layout(x, s, scores=inside, sums=inside) for inside in (True, False))
        )
        out |= {name: where(gpu > 0, b, a) for name, a, b in zip(names, tpu, on_gpu)}
    return out


def arguments(a: Attention):
    """Bytes of Q, K, V and O.

    >>> arguments(Attention(1, 8192, N=32, K=8)) == decode(Attention(1, 8192, N=32, K=8)).bytes
    True
    """
    return a.x * 2 * a.B * a.H * (a.N * a.T + a.K * a.S)


def compared(phase: str, v: Setting) -> dict[str, tuple]:
    """For each form its passes, one after the other, and the bytes of HBM that it needs with its arguments.

    >>> v = Setting(8192, 1, 32, 8, 128, 4096, 512, 1, 4576, 2432, 0, 2, 4, 1.97e14, 8.1e11, float("inf"))
    >>> {form: f"{memory / 1e6:.0f} MB" for form, (_, memory) in compared("prefill", v).items()}     # doctest: +ELLIPSIS
    {'naive': '17348 MB', 'fused': '17348 MB', 'chunked': '436 MB', 'flash1': '168 MB', ...}
    """
    whole = Attention(1 if phase == "decode" else v.S, v.S, v.N, v.K, v.H, v.B, phase != "unmasked", x=v.x, s=v.s)
    near = replace(whole, window=v.w) if whole.causal else None
    if phase == "decode":
        kept = replace(whole, S=minimum(v.S, v.w))
        return {
            "naive": ((naive(whole),), arguments(whole) + naive(whole).held),
            "fused": ((fused(whole),), arguments(whole) + fused(whole).held),
            "flash2": ((decode(whole),), arguments(whole)),
            "window": ((decode(near),), arguments(kept)),
            "linear": ((linear(whole),), arguments(replace(whole, S=1)) + state_bytes(whole)),
        }
    b = maximum(minimum(v.b, v.fit), SMALLEST)
    later = {"flash2": (whole, 2), "flash3": (whole, 3)} | ({"window": (near, 2)} if near else {})
    ways = {"naive": naive, "fused": fused, "chunked": lambda a, backward=False: chunked(a, CHUNK, backward)}
    if phase == "training":
        back = maximum(minimum(v.b, v.back), SMALLEST)
        pairs = {form: (way(whole), way(whole, True)) for form, way in ways.items()}
        pairs["flash1"] = (flash(whole, b, 1), flash(whole, back, 1, True))
        for form, (a, version) in later.items():
            pairs[form] = (flash(a, b, version, rows=b * v.R), _back(a, back, version, v))
        held = arguments(whole)
        return {form: (two, _most(held, *two)) for form, two in pairs.items()}
    each = {form: way(whole) for form, way in ways.items()}
    each["flash1"] = flash(whole, b, 1)
    each |= {form: flash(a, b, version, rows=b * v.R) for form, (a, version) in later.items()}
    each["linear"] = linear(whole)
    return {form: ((p,), arguments(whole) + p.held) for form, p in each.items()}


def _back(a: Attention, b, version, v: Setting) -> Pass:
    one, two = (flash(a, b, version, True, rows=b * v.R, kernels=kernels) for kernels in (1, 2))
    return Pass(**{name: where(v.gpu > 0, x, getattr(two, name)) for name, x in vars(one).items()})


def _most(held, forward: Pass, backward: Pass):
    """Bytes at the fullest moment: backward the gradients of all arguments are there too, and what the forward pass left."""
    return maximum(held + forward.held + forward.kept, 2 * held + forward.kept + backward.held)


def rows(phase: str, v: Setting) -> dict[str, dict]:
    """Seconds, the resource that takes longest (a place in RESOURCES), bytes, FLOPs and memory of each form of a phase.

    Seconds are lower bounds, pass after pass: products and exponentials take turns, in Flash 3 both are done at once. Flash is
    unknown where no block fits, and Flash 3 where nobody says how fast exponentials are.

    >>> v = Setting(8192, 1, 32, 8, 128, 4096, 512, 1, 4576, 2432, 0, 2, 4, 1.97e14, 8.1e11, float("inf"))
    >>> {form: f"{at['seconds'] * 1e3:.3g} ms" for form, at in rows("prefill", v).items()}     # doctest: +ELLIPSIS
    {'naive': '74.4 ms', 'fused': '42.6 ms', 'chunked': '23.1 ms', 'flash1': '2.97 ms', 'flash2': '2.97 ms', ...}
    """
    at, out = Rates(v.C, v.W, v.exps), {}
    for form, (passes, memory) in compared(phase, v).items():
        times, both = [seconds(p, at) for p in passes], maximum if form == "flash3" else add
        parts = [sum(t.parts[r] for t in times) for r in RESOURCES]
        values = {
            "seconds": sum(t.lower for t in times) if form == "flash3" else sum(in_turn(p, at) for p in passes),
            "bound": where(both(parts[0], parts[2]) <= parts[1], 1.0, where(parts[0] >= parts[2], 0.0, 2.0)),
            "bytes": sum(p.bytes for p in passes),
            "flops": sum(p.flops for p in passes),
            "memory": memory,
        }
        if form in ("flash1", "flash2", "flash3", "window") and phase != "decode":
            fits = (minimum(v.fit, v.back) if phase == "training" else v.fit) > 0
            fits = fits & (v.exps < float("inf")) if form == "flash3" else fits
            values = {name: where(fits, x, float("nan")) for name, x in values.items()}
        out[form] = values
    return out


def attention(phase, chart, width, hbm, M, **sizes) -> dict:
    """All numbers of every form, named form_what, at a setting; unknown where `wrong` is not 0, and for forms that a phase lacks.

    phase, chart, width  places in PHASES, CHARTS and WIDTHS; hbm bytes of the chip's memory; M KiB of its fast one
    at                   the rest of a `Setting`, with C0, C1, … of each entry of WIDTHS in place of C, and set_N, … of the model

    wrong  1: heads cannot share keys evenly, 2: no published rate
    `what` is a place in PHASES, or behind them if no block fits; form_over 1 if its memory is more than the chip has
    """
    N, K, H, b = (sizes[name] for name in "NKHb")
    C = sum(where((width == n) & (sizes[f"C{n}"] > 0), sizes[f"C{n}"], 0.0) for n in range(len(WIDTHS)))
    blocks = choose(width, [partial(room, widths, sizes["gpu"], M * KIB, H) for widths in WIDTHS])
    fit, back = blocks["fit"], blocks["back"]
    known = sizes | {"fit": fit, "back": back, "C": where(C > 0, C, 1.0), "K": where(N % K != 0, N, K)}
    v = Setting(**{name: known[name] for name in Setting.__dataclass_fields__})
    wrong = where(N % K != 0, 1, where(C > 0, 0, 2))
    found = {f: {what: where(wrong > 0, nan, x) for what, x in row.items()} for f, row in _phase(phase, v).items()}
    over = {form: where(row["memory"] > hbm, 1, 0) for form, row in found.items()}
    before = {form: sum(list(over.values())[:n], start=0) for n, form in enumerate(FORMS)}
    training, tiled = phase == TRAINING, phase != DECODE
    cramped = tiled & ((fit == 0) | (training & (back == 0)))
    tight = where(training & (b > minimum(fit, back)), 2, where(tiled & (b > fit), 1, 0))
    fused, flash2, flash3 = found["fused"], found["flash2"], found["flash3"]["seconds"]
    own = (N != sizes["set_N"]) | (K != sizes["set_K"]) | (H != sizes["set_H"])
    return {
        **{f"{form}_{what}": x for form, row in found.items() for what, x in row.items()},
        **{f"{form}_over": x for form, x in over.items()},
        **{f"{form}_named": where(x > 0, where(before[form] > 0, 2, 1), 0) for form, x in over.items()},
        **{
            f"{form}_chart": sum(where(chart == n, row[q], 0.0) for n, q in enumerate(CHARTS))
            for form, row in found.items()
        },
        **heads(N, K),
        "wrong": wrong,
        "what": where(cramped, len(PHASES), phase),
        "who": where(own, 1, 0),
        "tight": tight,
        "sooner": where(flash3 == flash3, 1, 0),
        "lacks": where(sum(over.values()) > 0, 1, 0),
        "fits": fit,
        "backs": back,
        "used": minimum(b, fit),
        "need": where(fit == 0, blocks["need"], blocks["need_back"]),
        "faster": fused["seconds"] / flash2["seconds"],
        "share": 100 * flash2["bytes"] / fused["bytes"],
        "hbm": hbm,
        "quantity": chart,
        "alt": chart,
        "other": width,
    }


def _phase(phase, v: Setting) -> dict[str, dict]:
    """`rows` of a phase by its number, for every form."""

    def flat(name: str) -> dict[str, float]:
        found = rows(name, v)
        return {f"{form}_{what}": found[form][what] if form in found else nan for form in FORMS for what in WHAT}

    found = choose(phase, [partial(flat, name) for name in PHASES])
    return {form: {what: found[f"{form}_{what}"] for what in WHAT} for form in FORMS}
