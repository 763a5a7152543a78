"""How long a training step takes, not at best but probably (chapter 4).

A bound takes every chip at its published rates. The estimate takes the shares of them that `step_estimate_constants` holds,
adds what a bound leaves out (traffic of norms and softmax, launches, hops, tiles that are not full, slow hosts), and
says how far off it may be.
Kernels are priced by the root of the sum of squares of their parts, as `roofline.Calibration` does.
Dense decoders only. Layers are counted together; every size and number of chips may be an array or a tracer.

Passes over arrays are counted by hand from Megatron-LM's layer (Narayanan et al. 2021; Korthikanti et al. 2022).
"""

from dataclasses import dataclass

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.occupancy import wave_efficiency
from helpers.costs.transformers.config import Config, LayerKind
from helpers.costs.transformers.parameters_and_flops import flops, pairs, parameters
from helpers.costs.transformers.training_memory_bytes import POLICIES, arrays
from helpers.numeric import ceil, maximum, minimum, where

from .step_estimate_constants import CONSTANTS, Constants

TILE = 128, 256  # of a product's result, which one core computes at a time
STEP = 64  # a head's width is rounded up to a multiple of this
RESIDUAL = 11, 22  # arrays of D numbers a token, forward and backward: two norms, dropouts and additions read or write
HIDDEN = 2, 3  # arrays of F numbers: an activation function; each gated matrix brings one more, backward two
SCORES = 6, 10  # arrays of T·S numbers a head, where attention keeps them: products, softmax, dropout
LOGITS = 20  # bytes a logit: float32 and bf16, read and written by softmax and its gradient
GRADIENT, WEIGHT = 4, 2  # bytes a parameter that data parallelism reduces, and gathers
ADAM = 30  # bytes a parameter that an update reads or writes: gradient 4, two moments and a float32 copy 24, weight 2
# Rate of a fused attention kernel relative to a large product: assumed, not fitted. FlashAttention-2 reaches 50 to 73 % of
# an A100's peak (Dao 2023), 0.63 to 0.92 of the share that `gpu` says. That range moves the estimates of published steps by
# half a percent in the median, and by 16 % that of the longest sequence (test_step_estimate).
FUSED = 0.75
HOST_ADAM = 2.6e-10  # seconds a parameter that a host's processors update: 10e9 in 2.57 s (Ren et al. 2021, "ZeRO-Offload", Table 4)
HOST_BYTES = 4  # bytes a parameter over PCIe then: the gradient down, the weight up, in bf16
OFFLOADS = ("", "activations", "optimizer")


# No `layout.Layout`: micro counts sequences, as publications do, not microbatches; software has a part; ep and cp have none.
@dataclass(frozen=True)
class Setup:
    """How a step lies over chips, and what its software does.

    dp      copies of the model; with zero 1 or 2 they share the optimizer's state
    fsdp    chips over which every array of the model and of its state is cut (ZeRO-3), each with sequences of its own
    tp, pp  chips that share a layer's matrices; stages of layers
    pods    copies of all that, joined by the data-centre network
    micro   sequences that one copy takes through the model at a time
    interleave  runs of layers that one stage has (virtual stages)
    sequence_parallel  norms and residuals are cut over tp, too
    policy  what the backward pass computes again: see `training_memory_bytes`
    fused   attention keeps its T·S weights on the chip and leaves out what the mask hides
    offload "activations" or "optimizer": what lives in the host's memory

    >>> Setup(tp=8, pp=4, micro=2).chips
    32
    >>> Setup(tp=8, interleave=2)
    Traceback (most recent call last):
    ValueError: one stage has nothing to interleave: give pp=2 or more, or interleave=1
    """

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    pods: int = 1
    micro: int = 1
    interleave: int = 1
    zero: int = 0
    sequence_parallel: bool = False
    policy: str = "block"
    fused: bool = True
    offload: str = ""

    def __post_init__(self):
        for name in ("dp", "fsdp", "tp", "pp", "pods", "micro", "interleave"):
            n = getattr(self, name)
            if isinstance(n, int | float) and (isinstance(n, bool) or n < 1 or n != int(n)):
                raise ValueError(f"{name} is a whole number of 1 or more, got {n!r}")
        if self.policy not in POLICIES:
            raise ValueError(f"policy is one of {', '.join(POLICIES)}, not {self.policy!r}")
        if self.offload not in OFFLOADS:
            raise ValueError(f"offload is one of {', '.join(map(repr, OFFLOADS))}, not {self.offload!r}")
        if isinstance(self.zero, int) and self.zero not in (0, 1, 2):
            raise ValueError(f"zero is 0, 1 or 2, not {self.zero!r}: ZeRO-3 is fsdp")
        if isinstance(self.pp, int) and isinstance(self.interleave, int) and self.pp == 1 < self.interleave:
            raise ValueError("one stage has nothing to interleave: give pp=2 or more, or interleave=1")

    @property
    def copies(self):
        """Groups of chips that have sequences of their own."""
        return self.dp * self.fsdp * self.pods

    @property
    def chips(self):
        """All chips."""
        return self.copies * self.tp * self.pp


@dataclass(frozen=True)
class Estimate:
    """Seconds of a step: `mid` is the estimate, [low, high] where the measured time should lie.

    parts  of `mid`, in seconds, which add up to it. "bubble": stages that wait; "skew": for the slowest host.
    """

    low: float
    mid: float
    high: float
    parts: dict


def _rate(chip: Chip, n, inside, k: Constants):
    """Bytes/s, one way, that each of n chips gets in a ring of them, if neighbours in it are `inside` chips apart.

    GPUs: NVLink within a host; beyond, its members' network cards together. TPUs: both directions of each torus axis.
    """
    if chip.axes == 0:
        near, members = chip.chips_per_host, maximum(1.0, minimum(n, chip.chips_per_host / inside))
        far = minimum(chip.link_bandwidth * k.link, chip.dcn_bandwidth * members * k.network)
        return where(n * inside <= near, chip.link_bandwidth * k.link, far)
    longest, spanned, size = sorted(chip.pod, reverse=True), 1.0, 1
    for axis in longest[:-1]:
        size = size * axis
        spanned = spanned + where(n > size, 1.0, 0.0)
    return 2 * chip.link_bandwidth * spanned * k.link


def _ring(V, n, rate, hop):
    """Seconds of an AllGather or ReduceScatter of V bytes over n chips, in one go."""
    return (n - 1) / n * V / rate + where(n > 1, hop * minimum(n - 1, 16.0), 0.0)


def _both(math, memory, launch):
    return (math**2 + memory**2) ** 0.5 + launch


def _product(rows, inner, columns, chip: Chip, k: Constants):
    """Seconds of one matrix product, in bf16: FLOPs, with tiles and waves that are not full, and bytes."""
    tiles = ceil(rows / TILE[0]) * ceil(columns / TILE[1])
    full = rows * columns / (TILE[0] * TILE[1] * tiles)
    rate = chip.rate("bf16") * k.math(chip.kind) * full * wave_efficiency(tiles, chip.cores)
    read = 2 * (rows * inner + inner * columns + rows * columns)
    return _both(2 * rows * inner * columns / rate, read / (chip.hbm_bandwidth * k.memory), k.launch)


def _passes(rows, inner, columns, chip: Chip, k: Constants):
    """Seconds of a product with weights, forward, and of the two products of its backward pass."""
    back = _product(rows, columns, inner, chip, k) + _product(inner, rows, columns, chip, k)
    return _product(rows, inner, columns, chip, k), back


def _attention(c: Config, rows, T, s: Setup, chip: Chip, k: Constants):
    """Seconds of queries times keys, softmax, and shares times values, forward and backward, of one layer's mean."""
    heads, rate = c.N / s.tp, chip.rate("bf16") * k.math(chip.kind) * c.H / (STEP * ceil(c.H / STEP))
    every = 4 * rows * T * c.H * heads  # FLOPs, masked or not
    seen = sum(n * pairs(T, T, kind.window) for kind, n in c.groups) / (c.L * T * T)
    scores = 2 * rows * T * heads / (chip.hbm_bandwidth * k.memory)
    stored = [_both(n * every / rate, n_scores * scores, 5 * k.launch) for n, n_scores in zip((1, 2), SCORES)]
    whole = [n * every * seen / (rate * FUSED) + k.launch for n in (1, 2.5)]  # backward makes the scores again
    return tuple(where(s.fused, a, b) for a, b in zip(whole, stored))


def _layer(c: Config, rows, T, s: Setup, chip: Chip, k: Constants):
    """Seconds of one layer on one of its tp chips: forward, backward, and what the backward pass does again."""
    heads = c.N * c.H / s.tp
    kv = maximum(c.K / s.tp, 1.0) * c.H
    shapes = (
        (c.D, heads + 2 * kv),
        (heads, c.D),
        (c.D, (c.matrices - 1) * c.F / s.tp),
        (c.F / s.tp, c.D),
    )
    attention = _attention(c, rows, T, s, chip, k)
    products = [_passes(rows, *shape, chip, k) for shape in shapes]
    residual = c.D * where(s.sequence_parallel, 1 / s.tp, 1.0)
    gate = c.matrices - 2
    stream = [
        2 * rows * (r * residual + (h + g * gate) * c.F / s.tp) / (chip.hbm_bandwidth * k.memory) + 6 * k.launch
        for r, h, g in zip(RESIDUAL, HIDDEN, (1, 2))
    ]
    forward, backward = (sum(p[i] for p in products) + attention[i] + stream[i] for i in (0, 1))
    again = {"everything": 0.0, "matmuls": attention[0] + stream[0] * where(s.fused, 1.0, 0.0)}.get(s.policy, forward)
    return forward, backward, again


def _tensor(c: Config, rows, s: Setup, chip: Chip, k: Constants):
    """Seconds of one layer's collectives over tp: two AllReduces forward, two backward, again if the layer is."""
    once = _ring(2 * rows * c.D, s.tp, _rate(chip, s.tp, 1, k), k.hop)
    n = 8 + where(s.sequence_parallel, 2, 0) + (4 if s.policy in ("block", "nothing") else 0)
    return n * once


def _head(c: Config, rows, s: Setup, chip: Chip, k: Constants):
    """Seconds of the unembedding and the loss, forward and backward."""
    logits = LOGITS * rows * c.V / s.tp / (chip.hbm_bandwidth * k.memory)
    return sum(_passes(rows, c.D, c.V / s.tp, chip, k)) + logits


def _data(c: Config, s: Setup, P, rounds, chip: Chip, k: Constants):
    """Seconds of data parallelism, for P parameters on a chip's stage and cut: FSDP's, layer by layer, in every round;
    and once a step what copies of the model reduce."""
    model = s.tp
    gather, reduce = WEIGHT * P, GRADIENT * P
    near = _rate(chip, s.fsdp, model, k)
    calls = c.L / s.pp * k.hop * minimum(s.fsdp - 1, 16)
    fsdp = where(s.fsdp > 1, (s.fsdp - 1) / s.fsdp * (2 * gather + reduce) / near + 3 * calls, 0.0)
    shared = where(s.zero == 0, 2 * reduce, reduce + gather) / s.fsdp
    dp = (s.dp - 1) / s.dp * shared / _rate(chip, s.dp, model * s.fsdp, k)
    pods = (s.pods - 1) / s.pods * 2 * reduce / (s.fsdp * s.dp) / (chip.dcn_bandwidth * k.network)
    return rounds * fsdp, dp + pods


def _host(c: Config, s: Setup, mine, rows, T, rounds, chip: Chip, k: Constants):
    """Seconds of traffic with the host: kept activations down and up, which may hide; an update there, which may not."""
    if not s.offload:
        return 0.0, 0.0
    if not chip.pcie_bandwidth:
        raise ValueError(f"nobody publishes how fast a host reads a {chip.name}: leave offload out")
    rate = chip.pcie_bandwidth * k.network
    if s.offload == "optimizer":
        return 0.0, mine * (HOST_BYTES / rate + HOST_ADAM * minimum(s.chips, chip.chips_per_host))
    kept = sum(arrays(c, LayerKind(), s.policy, T).values())
    return 2 * 2 * rounds * rows * kept * c.L / s.pp / s.tp / rate, 0.0


def _stage(c: Config, layer, head, s: Setup):
    """Seconds of the slowest stage. Where layers do not divide, the stage with the unembedding gets fewer."""
    chunks = s.pp * s.interleave
    most = ceil(c.L / chunks) * s.interleave * layer
    even = c.L / s.pp * layer
    return where(c.L % chunks == 0, even + head, maximum(most, even + head / s.pp))


def _check(c: Config, s: Setup, B):
    if c.moe or c.mla:
        raise ValueError("the estimate knows dense decoders with plain heads: give a Config without moe and mla")
    if isinstance(B, int) and isinstance(s.copies, int) and isinstance(s.micro, int) and B % (s.copies * s.micro):
        n = s.copies * s.micro
        raise ValueError(
            f"a batch of {B} sequences does not split into {s.copies} copies of micro={s.micro}: take {-(-B // n) * n}"
        )


def step_seconds(c: Config, chip: Chip, s: Setup, B, T, k: Constants = CONSTANTS) -> Estimate:
    """Seconds of a training step on B sequences of T tokens.

    low   all collectives hidden behind FLOPs, or the FLOPs behind them
    high  nothing hidden
    Both are widened by `spread`, since the same run differs as much between versions of one software.

    >>> from helpers.costs.rooflines.chips import chip
    >>> gpt3 = Config(12288, 96, 96, 96, 128, 49152, 51200, gated=False, tied=True)
    >>> e = step_seconds(gpt3, chip("A100"), Setup(tp=8, pp=8, interleave=3, fused=False), B=64, T=2048)
    >>> e.low < e.mid < e.high
    True
    """
    _check(c, s, B)
    rows = 1.0 * s.micro * T
    rounds = B / (s.copies * s.micro)
    forward, backward, again = _layer(c, rows, T, s, chip, k)
    wires, head = _tensor(c, rows, s, chip, k), _head(c, rows, s, chip, k)
    held = 1.0 * (parameters(c).total - (0 if c.tied else c.V * c.D)) / (s.tp * s.pp)  # one of the two tables
    mine = held / s.fsdp / where(s.zero == 0, 1, s.dp)
    sends = 4 * s.interleave * _send(c, rows, s, chip, k)
    along, after = _data(c, s, held, rounds, chip, k)
    hides, update = _host(c, s, mine, rows, T, rounds, chip, k)
    if s.offload != "optimizer":
        update = ADAM * mine / (chip.hbm_bandwidth * k.memory)

    def total(shown):  # seconds of passes and bubble, with that share of tp's collectives
        layer = forward + backward + again + shown * wires
        return rounds * (_stage(c, layer, head, s) + shown * sends), (s.pp - 1) / s.interleave * c.L / s.pp * layer

    math, idle = total(0.0)
    passes, bubble = total(k.tensor(chip.kind))
    along = along + hides
    visible = maximum(k.data * along, along - (passes + bubble) * 2 / 3) + k.reduce * after
    wait = maximum(s.chips / chip.chips_per_host, 1.0) ** k.skew
    parts = {
        "kernels": math,
        "tensor and sends": passes - math,
        "bubble": bubble,
        "data": visible,
        "update": update,
    }
    mid = sum(parts.values()) * wait
    every = sum(total(1.0)) - math - idle + along + after
    low = minimum(mid, maximum(math + idle, every) + update)
    high = maximum(mid, math + idle + every + update) * wait
    return Estimate(low / k.spread, mid, high * k.spread, parts | {"skew": mid - mid / wait})


def _send(c: Config, rows, s: Setup, chip: Chip, k: Constants):
    """Seconds to hand a micro-batch to the next stage, each of the tp chips its share: half, as it sends and receives at once."""
    far = chip.dcn_bandwidth * k.network if chip.axes == 0 else chip.link_bandwidth * k.link
    near = where(s.chips <= chip.chips_per_host, chip.link_bandwidth * k.link, far)
    return where(s.pp > 1, (2 * rows * c.D / s.tp / near + k.hop) / 2, 0.0)


def six_nd_seconds(c: Config, chip: Chip, s: Setup, B, T, share=0.4):
    """A baseline: 6 FLOPs for each parameter and token, at 40 % of peak."""
    return 6.0 * parameters(c).total * B * T / (share * chip.rate("bf16") * s.chips)


def half_of_peak_seconds(c: Config, chip: Chip, s: Setup, B, T, share=0.5):
    """A baseline that is hard to beat: all FLOPs, those done again too, at half of peak, times the pipeline's bubble."""
    f = flops(c, B, T, count="half" if s.fused else "all")
    again = {"everything": 0.0, "matmuls": f.attention}.get(s.policy, f.layers)
    bubble = (s.pp - 1) / (s.interleave * B / (s.copies * s.micro))
    return 1.0 * (f.train + again) / (share * chip.rate("bf16") * s.chips) * (1 + bubble)


entries(__name__)
