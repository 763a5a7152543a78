"""How far to shard a model that answers: limits, messages and their seconds, as formulas (chapter 5).

Y chips share heads and F (tensor parallelism), Z share the batch of the KV cache, N = X·Y·Z. B sequences, one token of each.
W is bytes/s of one link in one direction, `Chip.link_bandwidth`, v5e 4.5e10. A torus axis that is a ring carries 2W; one that is a
line carries half of it: give W/2. W_hbm and C are those of one chip. x and w are bytes of an activation and of a weight.
Lists of `Collective` are what the programs of `kernels.inference` send on each device; `sharded_decode_step` prices a whole step.

Source: Austin et al. 2025, Section 7 and its appendices B and C; errors of its text are listed in the course's errata (E003).
Pope et al., "Efficiently Scaling Transformer Inference" (2022), for weight-stationary layouts.
"""

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.torus import HOP
from helpers.costs.sharding.collectives import Collective, all_to_all, seconds
from helpers.costs.sharding.sharded_array import Axis, bytes_each
from helpers.costs.training.layout import divisors
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.numeric import maximum, minimum, plain, sqrt

# How far to shard.


def prefill_limit(F, C, W, M=1, x=2):
    """Ways of tensor parallelism up to which a prefill is bound by arithmetic: 2·M·F·2W / (x·C), whatever the prompt.

    4·T·D·F/(Y·C) of arithmetic against the two collectives of x·T·D bytes each. In bf16 it is M·F/alpha,
    `training.dp_fsdp_tp.tensor_limit`; int8 halves the bytes and doubles C, so it stays.

    >>> round(prefill_limit(16384, 1.97e14, 4.5e10), 2)                             # v5e: F / 2189
    7.49
    >>> [round(prefill_limit(16384, 3.94e14, W, M=2, x=1), 1) for W in (2.25e10, 4.5e10)]       # int8, 4x4: lines; rings
    [7.5, 15.0]
    """
    return 2 * M * F * 2 * W / (x * C)


def prefill_degrees(F, C, W, chips: int, M=1, x=2) -> tuple[int, int]:
    """(tensor, sequence) ways for a prefill on so many chips: tensor up to its limit, and the sequence for the rest.

    >>> prefill_degrees(16384, 1.97e14, 4.5e10, 16)
    (4, 4)
    """
    most = prefill_limit(F, C, W, M, x)
    Y = max(d for d in divisors(chips) if d <= maximum(most, 1))
    return Y, chips // Y


def ici_ratio(chip: Chip, axes: int = 1):
    """Beta: W_hbm over the 2W of each of `axes` torus axes, rings. How much dearer it is to send than to read.

    >>> from helpers.costs.rooflines.chips import chip
    >>> round(ici_ratio(chip("v5e")), 2), round(ici_ratio(chip("v6e")), 2), round(ici_ratio(chip("v5p")), 2)
    (9.0, 8.89, 15.56)
    """
    if chip.axes == 0:
        raise ValueError(f"{chip.name} has a domain, not a torus: divide its HBM's bytes/s by 2·link_bandwidth")
    if not 1 <= axes <= chip.axes:
        raise ValueError(f"{chip.name} has {chip.axes} torus axes, so 1 to {chip.axes}, not {axes}")
    return chip.hbm_bandwidth / (2 * chip.link_bandwidth * axes)


def decode_limit(F, B, beta, w=2, x=2):
    """Ways of tensor parallelism up to which a decode step waits for weights from HBM, not for links: (w/x)·F / (B·beta).

    2·w·D·F/(Y·W_hbm) to read the two matrices against 2·x·B·D/2W of the two collectives. Beyond it more chips do not help.

    >>> round(decode_limit(16384, 32, 9.0), 1), round(decode_limit(16384, 114, 9.0), 1)
    (56.9, 16.0)
    """
    return w / x * F / (B * beta)


def decode_batch(F, Y, beta, w=2, x=2):
    """The same the other way round: batch up to which Y ways are bound by HBM.

    >>> round(decode_batch(16384, 16, 9.0), 1)
    113.8
    """
    return w / x * F / (Y * beta)


def weights_times(n_bytes, n, W_hbm, W) -> dict[str, float]:
    """Seconds until all weights have been where they are multiplied, on n chips, by strategy.

    TP    each chip reads its share
    DP    each chip reads all of them, for its share of the batch: as long as on one chip
    FSDP  each chip holds its share, and the others' come over links; that is W_hbm/2W times slower than to read them

    >>> t = weights_times(18.4e9, 16, 8.1e11, 4.5e10)                                 # int8, v5e
    >>> [f"{name} {1e3 * s:.2f} ms" for name, s in t.items()]
    ['TP 1.42 ms', 'DP 22.72 ms', 'FSDP 191.67 ms']
    """
    return {
        "TP": n_bytes / (n * W_hbm),
        "DP": n_bytes / W_hbm,
        "FSDP": maximum((1 - 1 / n) * n_bytes / (2 * W), n_bytes / W_hbm),
    }


def latency_limit(B, D, W, x=1, hop=HOP):
    """Ways of sharding [B, D] beyond which a collective over it waits for hops: one shard is less than W·hop bytes.

    W is one direction of a link (v5e 4.5e10, so 45 kB). It is the SHARD that is compared, not the array.

    >>> round(latency_limit(16, 8192, 4.5e10), 2), round(8 * 4.5e10 * HOP)              # BD/45,000 in int8; 8 ways: 360 kB
    (2.91, 360000)
    """
    return x * B * D / (W * hop)


# The KV cache over Y and Z.


def cache_share(K, Y, Z=1):
    """Share of the whole cache that one device holds and reads: heads over Y, no further than K, and sequences over Z.

    >>> cache_share(8, 16), cache_share(8, 8, 2)                  # 16 chips and 8 KV heads: copies, or the batch cut in two
    (0.125, 0.0625)
    """
    return 1 / (minimum(Y, K) * Z)


def all_to_all_bytes(B, N, H, Y, x=2):
    """Bytes of one of the two AllToAlls over Z, all its shards together: queries or results of the N/Y heads of one Y.

    The cache, whose reading it saves, is S times K/N times as many in each of keys and values.

    >>> all_to_all_bytes(32, 32, 256, 8) / 1e3                   # 65.5 kB
    65.536
    """
    return x * B * N * H / Y


def all_to_all_time(B, N, H, Y, Z, W, x=2, hop=HOP):
    """Seconds of both AllToAlls of one layer over a ring of Z whose links carry W bytes/s one way: bytes or hops.

    >>> round(1e6 * all_to_all_time(32, 32, 256, Y=8, Z=2, W=4.5e10), 1), round(1e6 * all_to_all_time(512, 32, 256, 8, 8, 4.5e10), 1)
    (2.0, 8.0)
    """
    return 2 * seconds(all_to_all(all_to_all_bytes(B, N, H, Y, x), Axis(Z)), W, hop)


def cache_time(B, kv, K, Y, Z, W_hbm):
    """Seconds that a chip takes to read its share of B caches of kv bytes: of a layer's, or of all.

    Copies cost more than the AllToAlls save as soon as caches are long: 16 chips, 8 KV heads, one layer of 4 kB a token.

    >>> read = [cache_time(32, 4096 * 2048, 8, Y, Z, 8.1e11) for Y, Z in ((16, 1), (8, 2))]
    >>> [round(1e6 * t, 1) for t in read], 1e6 * all_to_all_time(32, 32, 256, 8, 2, 4.5e10)     # us
    ([41.4, 20.7], 2.0)
    """
    return B * kv * cache_share(K, Y, Z) / W_hbm


def attention_collectives(
    B: int, N: int, K: int, H: int, D: int, Y: int, Z: int, dtype="bf16"
) -> tuple[Collective, ...]:
    """What one layer of attention sends in a decode step with its cache [B_Z, S, K_Y, H]: two AllToAlls and an AllReduce.

    Q[B, N_YZ, H] -> [B_Z, N_Y, H], attention on the device's own sequences and heads, O[B_Z, N_Y, H] -> [B, N_YZ, H],
    and the sum of what W_O[N_YZ, H, D] gives. With Z = 1 nothing but the sum is sent. Nothing depends on S.

    >>> for sent in attention_collectives(32, 32, 8, 256, 4096, Y=8, Z=2): print(sent)
    AllToAll_Z bf16[32, 2, 256] -> [16, 4, 256]
    AllToAll_Z bf16[16, 4, 256] -> [32, 2, 256]
    AllReduce_YZ bf16[32, 4096] -> [32, 4096]
    """
    if K % Y:
        raise ValueError(f"Y={Y} ways do not divide K={K} KV heads: take a divisor of K, and more of Z")
    if B % Z or N % (Y * Z):
        raise ValueError(f"Z={Z} must divide B={B} sequences, and Y·Z={Y * Z} must divide N={N} heads: take fewer ways")
    apart, there = (B, N // (Y * Z), H), (B // Z, N // Y, H)
    axes = tuple(a for a, n in (("Y", Y), ("Z", Z)) if n > 1)
    moves = (Collective("AllToAll", ("Z",), apart, there, dtype), Collective("AllToAll", ("Z",), there, apart, dtype))
    total = (Collective("AllReduce", axes, (B, D), (B, D), dtype),)
    return (moves if Z > 1 else ()) + (total if axes else ())


def combine_bytes(B, N, H, x=4):
    """Bytes that one device adds to the result when the cache is cut along S: for each head a maximum, a sum and H numbers.

    Each device attends to its own keys, with the queries of N heads; `sequence_collectives` says how the (m, l, o) of all
    come together. S is not in it.

    >>> combine_bytes(1, 32, 256)
    33024
    """
    return x * B * N * (H + 2)


def sequence_collectives(
    B: int, N: int, H: int, D: int, Y: int, Z: int, dtype="bf16", reduced: bool = False
) -> tuple[Collective, ...]:
    """What one layer of attention sends in a decode step with its cache [B, S_Z, K_Y, H]. Nothing depends on S.

    Queries of Z's heads are gathered, the (m, l, o) of all combined in float32, and the sum taken of what W_O[N_YZ, H, D] gives.
    One AllToAll of (m, l, o); or `reduced`, an AllReduce of the largest m and a ReduceScatter of the (l, o).

    >>> for sent in sequence_collectives(32, 32, 256, 4096, Y=8, Z=2): print(sent)
    AllGather_Z bf16[32, 2, 256] -> [32, 4, 256]
    AllToAll_Z f32[1, 32, 4, 258] -> [2, 32, 2, 258]
    AllReduce_YZ bf16[32, 4096] -> [32, 4096]
    """
    if N % (Y * Z):
        raise ValueError(f"Y·Z={Y * Z} must divide N={N} heads: take fewer ways")
    own, all_of_Y = N // (Y * Z), N // Y
    gather = Collective("AllGather", ("Z",), (B, own, H), (B, all_of_Y, H), dtype)
    exchange = Collective("AllToAll", ("Z",), (1, B, all_of_Y, H + 2), (Z, B, own, H + 2), "f32")
    largest = Collective("AllReduce", ("Z",), (B, all_of_Y), (B, all_of_Y), "f32")
    sums = Collective("ReduceScatter", ("Z",), (B, all_of_Y, H + 1), (B, own, H + 1), "f32")
    axes = tuple(a for a, n in (("Y", Y), ("Z", Z)) if n > 1)
    total = (Collective("AllReduce", axes, (B, D), (B, D), dtype),)
    return ((gather, *((largest, sums) if reduced else (exchange,))) if Z > 1 else ()) + (total if axes else ())


# 2D weight-stationary: W_in[D_X, F_YZ], W_out[F_YZ, D_X]; M_X and M_YZ are the torus axes of X and of YZ.


def math_time(B, D, F, N, C):
    """Seconds of arithmetic of one layer of two products, however it is sharded over N chips: 4·B·D·F / (N·C)."""
    return 4 * B * D * F / (N * C)


def one_d_time(B, D, W, M=3, x=2):
    """Seconds of the links for one layer with F over all chips: gather and scatter [B, D]. It does not fall with N.

    >>> one_d_time(64, 8192, 4.5e10) == 4 * 64 * 8192 / (3 * 2 * 4.5e10)
    True
    """
    return 2 * x * B * D / (M * 2 * W)


def two_d_time(B, D, F, N, X, W, M_X=1, M_YZ=2, x=2):
    """Seconds of the links with D over X and F over the other N/X: AllGather, AllReduce_X of [B, F_YZ], ReduceScatter.

    2·x·B·D/(X·M_YZ·2W) of the outer two over YZ and 2·x·B·F/(N/X·M_X·2W) of the AllReduce.
    """
    return 2 * x * B * (D / (X * M_YZ) + F * X / (N * M_X)) / (2 * W)


def two_d_X(D, F, N, M_X=1, M_YZ=2):
    """The real X at which 2D sharding sends least: sqrt(N·D·M_X / (F·M_YZ)), which is sqrt(N/8) at F = 4D.

    >>> two_d_X(8192, 4 * 8192, 128)
    4.0
    """
    return sqrt(N * D * M_X / (F * M_YZ))


def two_d_best(B, D, F, N, W, M_X=1, M_YZ=2, x=2):
    """Seconds at that X: 4·x·B·sqrt(D·F / (N·M_X·M_YZ)) / 2W, falling with the root of N.

    >>> round(two_d_best(1, 8192, 4 * 8192, 64, W=0.5) / (8192 / 8), 1)             # 11.3·B·D / (sqrt(N)·2W)
    11.3
    """
    return 4 * x * B * sqrt(D * F / (N * M_X * M_YZ)) / (2 * W)


def two_d_crossover(D, F, M=3, M_X=1, M_YZ=2):
    """Chips from which 2D sharding sends less than 1D over M axes: 4·M²·F / (D·M_X·M_YZ), so 18·F/D on three axes.

    >>> two_d_crossover(8192, 4 * 8192), two_d_crossover(8192, 8192)
    (72.0, 18.0)
    """
    return 4 * M * M * F / (D * M_X * M_YZ)


def two_d_collectives(B: int, D: int, F: int, X: int, YZ: int, dtype="bf16") -> tuple[Collective, ...]:
    """What a layer sends in 2D, the axis of F called Y.

    >>> for sent in two_d_collectives(8, 64, 256, X=2, YZ=4): print(sent)
    AllGather_Y bf16[8, 8] -> [8, 32]
    AllReduce_X bf16[8, 64] -> [8, 64]
    ReduceScatter_Y bf16[8, 32] -> [8, 8]
    """
    if D % (X * YZ) or F % YZ:
        raise ValueError(f"X={X} and YZ={YZ} must divide D={D} together, and YZ={YZ} must divide F={F}: take divisors")
    cut, wide, inner = (B, D // (X * YZ)), (B, D // X), (B, F // YZ)
    outer = (
        Collective("AllGather", ("Y",), cut, wide, dtype),
        Collective("ReduceScatter", ("Y",), wide, cut, dtype),
    )
    inside = (Collective("AllReduce", ("X",), inner, inner, dtype),)
    return (outer[:1] if YZ > 1 else ()) + (inside if X > 1 else ()) + (outer[1:] if YZ > 1 else ())


# Experts over Z, each cut over Y.


def expert_weights(c: Config, Y, Z, weights: str = "bf16", spread: bool = True):
    """Bytes of weights on one chip when experts lie over Z and are cut over Y.

    spread  attention and the vocabulary are cut over Y and Z; or over Y only, with copies along Z

    >>> from helpers.costs.transformers.config import MoE
    >>> from helpers.costs.rooflines.chips import chip
    >>> c = Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none", moe=MoE(E=16, k=2, F=16384))
    >>> for spread in (True, False):                                              # Austin et al. 2025, question 6: int8, v5e 8x16
    ...     b = expert_weights(c, 8, 16, "int8", spread)
    ...     print(f"{b / 1e9:.2f} GB, {1e3 * b / chip('v5e').hbm_bandwidth:.2f} ms, {(16e9 - b) / 1e9:.2f} GB free")
    1.65 GB, 2.04 ms, 14.35 GB free
    2.30 GB, 2.84 ms, 13.70 GB free
    """
    if c.moe is None:
        raise ValueError("expert_weights is for a model with experts: give the Config a moe")
    if plain(c.moe.E, Z) and c.moe.E % Z:
        raise ValueError(f"Z={Z} does not divide E={c.moe.E} experts: take a divisor")
    p = parameters(c)
    return bytes_each(weights) * (p.experts / (Y * Z) + (p.total - p.experts) / (Y * Z if spread else Y))


entries(__name__)
