"""What the live figure of chapter 6 computes: attention in every form on one chip, side by side.

Each phase is one function of numbers over `costs.attention.flops_and_bytes`, `linear_attention`, `io_complexity` and `seconds`, which
`helpers.live.jaxpr_to_javascript` traces; `attention_variants.js` calls it at the chosen length and along a curve.
"""

from dataclasses import dataclass, replace
from functools import cache
from operator import add

from helpers.costs.attention.flops_and_bytes import Attention, Pass, chunked, decode, flash, fused, naive
from helpers.costs.attention.io_complexity import Layout, block_bytes, largest_block
from helpers.costs.attention.linear_attention import linear, state_bytes
from helpers.costs.attention.time_and_intensity import Rates, exp_rate, in_turn, seconds
from helpers.costs.rooflines.hardware import Chip
from helpers.live.jaxpr_to_javascript import javascript
from helpers.numeric import maximum, minimum, where

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


ARGS = tuple(Setting.__dataclass_fields__)


def forms(phase: str) -> tuple[str, ...]:
    """What a phase knows: no windows without a mask, no backward pass of linear attention, one pass over a cache.

    >>> forms("decode")
    ('naive', 'fused', 'flash2', 'window', 'linear')
    """
    left = {"unmasked": {"window"}, "training": {"linear"}, "decode": {"chunked", "flash1", "flash3"}}.get(phase, ())
    return tuple(f for f in FORMS if f not in left)


def exponentials(of: Chip) -> float:
    """Exponentials a second; without limit on a TPU, of which nobody publishes it.

    The clock is what the chip's rate in bf16 asks for.

    >>> from helpers.costs.rooflines.chips import chip
    >>> f"{exponentials(chip('H100')):.3g}", exponentials(chip("v5e"))
    ('3.86e+12', inf)
    """
    if not of.clock_exps:
        return float("inf")
    return exp_rate(of.cores, of.rate("bf16") / of.cores / of.clock_flops, of.clock_exps)


def rate(of: Chip, widths: str) -> float | None:
    """FLOPs/s of products of such numbers, if the chip has a published one.

    >>> from helpers.costs.rooflines.chips import chip
    >>> rate(chip("H100"), "float32"), rate(chip("v5e"), "float32"), rate(chip("v5e"), "8 bits, scores and sums in float32")
    (67000000000000.0, None, 394000000000000.0)
    """
    return next((of.flops[name] for name in WIDTHS[widths][2] if name in of.flops), None)


def layout(widths: str, gpu: bool) -> Layout:
    """What a block takes on the chip: on a GPU scores and sums stay in registers."""
    x, s, _ = WIDTHS[widths]
    return Layout(x, s, scores=not gpu, sums=not gpu)


def room(M, H) -> tuple:
    """For numbers of each kind, on a TPU and on a GPU: the largest block in M bytes, and what the smallest would take; forward,
    then backward.

    >>> [int(n) for n in room(128 * 2**20, 128)[:4]]
    [4576, 30336, 3184, 60672]
    """
    out = []
    for widths in WIDTHS:
        for gpu in (False, True):
            at = layout(widths, gpu)
            for backward in (False, True):
                out += [largest_block(M, H, at, backward), block_bytes(SMALLEST, SMALLEST, H, at, backward)]
    return tuple(out)


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


def flat(phase: str, *numbers) -> tuple:
    """`rows` of numbers in the order of ARGS: form after form, each in the order of WHAT."""
    found = rows(phase, Setting(*numbers))
    return tuple(found[form][name] for form in forms(phase) for name in WHAT)


@cache
def functions() -> list[str]:
    """The text in JavaScript of every phase's function, and of `room`."""
    return [javascript(lambda *v, p=p: flat(p, *v), *[8.0] * len(ARGS)) for p in PHASES] + [javascript(room, 8.0, 8.0)]
