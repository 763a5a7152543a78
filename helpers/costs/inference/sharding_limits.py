"""How far to shard a model that answers: limits, messages and their seconds, as formulas (chapter 5).

Y chips share heads and F (tensor parallelism), Z share the batch of the KV cache, N = X·Y·Z. B sequences, one token of each.
W is bytes/s of one link in one direction, `Chip.link_bandwidth`, v5e 4.5e10. A torus axis that is a ring carries 2W; one that is a
line carries half of it: give W/2. W_hbm and C are those of one chip. x and w are bytes of an activation and of a weight.
Lists of `Collective` are what the programs of `kernels.inference` send on each device; `sharded_decode_step` prices a whole step.

Source: Austin et al. 2025, Section 7 and its appendices B and C; errors of its text are listed in the course's errata (E003).
Pope et al., "Efficiently Scaling Transformer Inference" (2022), for weight-stationary layouts.
"""

from dataclasses import replace

from helpers.arguments import formula
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import divisors
from helpers.costs.rooflines.torus import HOP
from helpers.costs.sharding.collectives import Collective, all_to_all, seconds
from helpers.costs.sharding.sharded_array import Axis, bytes_each
from helpers.costs.transformers.config import MLA, Config
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.numeric import maximum, minimum, nonzero, plain, sqrt, where

# How far to shard.


@formula
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


@formula
def prefill_degrees(F, C, W, chips: int, M=1, x=2) -> tuple[int, int]:
    """(tensor, sequence) ways for a prefill on so many chips: tensor up to its limit, and the sequence for the rest.

    >>> prefill_degrees(16384, 1.97e14, 4.5e10, 16)
    (4, 4)
    """
    most = prefill_limit(F, C, W, M, x)
    Y = max(d for d in divisors(chips) if d <= maximum(most, 1))
    return Y, chips // Y


@formula
def ici_ratio(chip: Chip, axes: int = 1):
    """Beta: W_hbm over the 2W of each of `axes` torus axes, rings. How much dearer it is to send than to read.

    >>> round(ici_ratio(chip("v5e")), 2), round(ici_ratio(chip("v6e")), 2), round(ici_ratio(chip("v5p")), 2)
    (9.0, 8.89, 15.56)
    """
    if chip.axes == 0:
        raise ValueError(f"{chip.name} has a domain, not a torus: divide its HBM's bytes/s by 2·link_bandwidth")
    if not 1 <= axes <= chip.axes:
        raise ValueError(f"{chip.name} has {chip.axes} torus axes, so 1 to {chip.axes}, not {axes}")
    return chip.hbm_bandwidth / (2 * chip.link_bandwidth * axes)


@formula
def decode_limit(F, B, beta, weight_bytes=2, bytes_each=2):
    """Ways of tensor parallelism up to which a decode step waits for weights from HBM, not for links: (w/x)·F / (B·beta),
    with w = weight_bytes and x = bytes_each.

    2·w·D·F/(Y·W_hbm) to read the two matrices against 2·x·B·D/2W of the two collectives. Beyond it more chips do not help.

    >>> round(decode_limit(16384, 32, 9.0), 1), round(decode_limit(16384, 114, 9.0), 1)
    (56.9, 16.0)
    """
    return weight_bytes / bytes_each * F / (B * beta)


@formula
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


@formula
def latency_limit(B, D, W, bytes_each=1, hop=HOP):
    """Ways of sharding [B, D] beyond which a collective over it waits for hops: one shard is less than W·hop bytes.

    W is one direction of a link (v5e 4.5e10, so 45 kB). It is the SHARD that is compared, not the array.

    >>> round(latency_limit(16, 8192, 4.5e10), 2), round(8 * 4.5e10 * HOP)              # BD/45,000 in int8; 8 ways: 360 kB
    (2.91, 360000)
    """
    return bytes_each * B * D / (W * hop)


# The KV cache over Y and Z.


@formula
def all_to_all_bytes(B, N, H, Y, bytes_each=2):
    """Bytes of one of the two AllToAlls over Z, all its shards together: queries or results of the N/Y heads of one Y.

    The cache, whose reading it saves, is S times K/N times as many in each of keys and values.

    >>> all_to_all_bytes(32, 32, 256, 8) / 1e3                   # 65.5 kB
    65.536
    """
    return bytes_each * B * N * H / Y


@formula
def all_to_all_time(B, N, H, Y, Z, W, bytes_each=2, hop=HOP):
    """Seconds of both AllToAlls of one layer over a ring of Z whose links carry W bytes/s one way: bytes or hops.

    >>> round(1e6 * all_to_all_time(32, 32, 256, Y=8, Z=2, W=4.5e10), 1), round(1e6 * all_to_all_time(512, 32, 256, 8, 8, 4.5e10), 1)
    (2.0, 8.0)
    """
    return 2 * seconds(all_to_all(all_to_all_bytes(B, N, H, Y, bytes_each), Axis(Z)), W, hop)


@formula
def cache_time(B, kv, K, Y, Z, W_hbm):
    """Seconds that a chip takes to read its share of B caches of kv bytes: heads over Y, no further than K, sequences over Z.

    Copies cost more than the AllToAlls save as soon as caches are long: 16 chips, 8 KV heads, one layer of 4 kB a token.

    >>> read = [cache_time(32, 4096 * 2048, 8, Y, Z, 8.1e11) for Y, Z in ((16, 1), (8, 2))]
    >>> [round(1e6 * t, 1) for t in read], 1e6 * all_to_all_time(32, 32, 256, 8, 2, 4.5e10)     # us
    ([41.4, 20.7], 2.0)
    """
    return B * kv / (minimum(Y, K) * Z) / W_hbm


# Latent attention (MLA) in a decode step: what absorbing its up-projections costs and saves.
#
# N query heads; c is a cached token's latent vector of R = kv_rank numbers, beside a rotated key of P = rope numbers. A head's key
# is [c W_UK, rotated key], nope + P numbers, and its value c W_UV, v numbers.
#
#     as it is written   keys and values of all S cached tokens are made again in every step, for all heads
#     absorbed           q · (c W_UK) = (q W_UK^T) · c, so W_UK goes to the query, once for each new token, and W_UV to the result:
#                        N heads attend to one vector of R + P numbers, which is their value as well
#
# Nothing is approximated: a product of matrices is grouped otherwise. Scores are R + P and results R numbers wide, in place of
# nope + P and v, so absorbing pays for few new tokens, as in a decode step, and not for a prompt.
#
# Source: DeepSeek-AI, "DeepSeek-V2" (2024), Section 2.1 and its Appendix C.


@formula
def remade_flops(N, mla: MLA):
    """FLOPs to make all heads' keys and values of one cached token again, in one layer: 2·R·N·(nope + v).

    >>> remade_flops(128, model("deepseek-v3").mla)
    33554432
    """
    return 2 * mla.kv_rank * N * (mla.nope + mla.v)


@formula
def pair_flops(N, mla: MLA, absorbed=True):
    """FLOPs of all heads for one new token and one cached one: scores and results, in the latent space or out of it.

    2·N·(2R + P) if absorbed, 2·N·(nope + P + v) if not.

    >>> [pair_flops(128, model("deepseek-v3").mla, absorbed) for absorbed in (True, False)]
    [278528, 81920]
    """
    return 2 * N * (2 * mla.kv_rank + mla.rope if absorbed else mla.nope + mla.rope + mla.v)


@formula
def absorbed_intensity(N, mla: MLA, bytes_each=2):
    """FLOPs per byte of absorbed attention over a long cache: 2·N·(2R + P) / (bytes_each·(R + P)).

    All N heads read one vector, as if N query heads shared a KV head, and use its R numbers twice: about 2N in bf16, and not
    the G of keys and values in heads.

    >>> [round(absorbed_intensity(128, model("deepseek-v3").mla, x), 1) for x in (2, 1)]                   # bf16, fp8
    [241.8, 483.6]
    """
    return pair_flops(N, mla) / (bytes_each * (mla.kv_rank + mla.rope))


@formula
def absorption_limit(mla: MLA):
    """New tokens up to which absorbing takes fewer FLOPs, over a cache far longer than they are: R·(nope + v) / (2R - nope - v); inf: any.

    T tokens against S: T·S pairs cost 2N·(2R - nope - v) more each, and S times `remade_flops` are saved.

    >>> round(absorption_limit(model("deepseek-v3").mla), 1)
    170.7
    """
    more = (
        2 * mla.kv_rank - mla.nope - mla.v
    )  # FLOPs of a pair, absorbed; for a short latent vector they are fewer, too
    return where(more > 0, mla.kv_rank * (mla.nope + mla.v) / nonzero(maximum(more, 0)), float("inf"))


# What one layer of attention sends in a decode step.


@formula
def attention_sends(
    B, N, D, query_size, result_size, Y, Z, dtype="bf16", short_size=0, cache_cut: str = "batch"
) -> tuple[Collective, ...]:
    """All that is sent where Z shares the cache along the batch, or the sequence; of one chip too, which sends nothing.

    query_size, result_size  numbers of a head's query and of what attention gives for it
    short_size               numbers of a token's short vectors in latent attention, which down-projections cut by columns
                             leave on all chips
    cache_cut                "batch": queries go to the chips of Z that have their sequences' caches, and results come back;
                             "sequence": all of Z get them, and put together in float32 what each gives for its own keys:
                             the maximum m and sum l of a softmax, and its row o of results;
                             "sequence, reduced": an AllReduce of m, and a ReduceScatter of (l, o)

    Sizes may be arrays, and a part of what does not divide a fraction, as prices have it.
    """
    heads, heads_of_Y, sequences = _part(N, Y * Z), _part(N, Y), _part(B, Z)
    gather = Collective("AllGather", ("Y", "Z"), (B, _part(short_size, Y * Z)), (B, short_size), dtype)
    if cache_cut == "batch":
        moves = (
            Collective("AllToAll", ("Z",), (B, heads, query_size), (sequences, heads_of_Y, query_size), dtype),
            Collective("AllToAll", ("Z",), (sequences, heads_of_Y, result_size), (B, heads, result_size), dtype),
        )
    else:
        moves = (Collective("AllGather", ("Z",), (B, heads, query_size), (B, heads_of_Y, query_size), dtype),)
        if cache_cut == "sequence, reduced":
            moves += (
                Collective("AllReduce", ("Z",), (B, heads_of_Y), (B, heads_of_Y), "f32"),
                Collective(
                    "ReduceScatter", ("Z",), (B, heads_of_Y, result_size + 1), (B, heads, result_size + 1), "f32"
                ),
            )
        else:
            parts = (1, B, heads_of_Y, result_size + 2), (Z, B, heads, result_size + 2)
            moves += (Collective("AllToAll", ("Z",), *parts, "f32"),)
    total = Collective("AllReduce", ("Y", "Z"), (B, D), (B, D), dtype)
    return (*([gather] if not plain(short_size) or short_size else ()), *moves, total)


def _part(size, divisor):
    return size // divisor if plain(size, divisor) and size % divisor == 0 else size / divisor


def _between_chips(sends: tuple[Collective, ...], Y: int, Z: int) -> tuple[Collective, ...]:
    """Of these what is sent: an axis of one chip has no part in it."""
    several = {axis for axis, ways in (("Y", Y), ("Z", Z)) if ways > 1}
    left = (replace(sent, axes=tuple(axis for axis in sent.axes if axis in several)) for sent in sends)
    return tuple(sent for sent in left if sent.axes)


@formula
def attention_collectives(
    B: int, N: int, K: int, H: int, D: int, Y: int, Z: int, dtype="bf16"
) -> tuple[Collective, ...]:
    """What one layer of attention sends with its cache [B_Z, S, K_Y, H]: two AllToAlls and an AllReduce.

    Q[B, N_YZ, H] -> [B_Z, N_Y, H], attention on the device's own sequences and heads, O[B_Z, N_Y, H] -> [B, N_YZ, H],
    and the sum of what W_O[N_YZ, H, D] gives. With Z = 1 nothing but the sum is sent. Nothing depends on S.

    >>> for sent in attention_collectives(32, 32, 8, 256, 4096, Y=8, Z=2): print(sent)
    AllToAll_Z bf16[32, 2, 256] -> [16, 4, 256]
    AllToAll_Z bf16[16, 4, 256] -> [32, 2, 256]
    AllReduce_YZ bf16[32, 4096] -> [32, 4096]
    """
    if K % Y:
        raise ValueError(f"Y={Y} ways do not divide K={K} KV heads: take a divisor of K, and more of Z")
    _check_divides(N, Y, Z, B)
    return _between_chips(attention_sends(B, N, D, H, H, Y, Z, dtype), Y, Z)


@formula
def sequence_collectives(
    B: int, N: int, H: int, D: int, Y: int, Z: int, dtype="bf16", reduced: bool = False
) -> tuple[Collective, ...]:
    """What one layer of attention sends with its cache [B, S_Z, K_Y, H]. Nothing depends on S.

    Queries of Z's heads are gathered, the (m, l, o) of all combined in float32, and the sum taken of what W_O[N_YZ, H, D] gives.
    One AllToAll of (m, l, o); or `reduced`, an AllReduce of the largest m and a ReduceScatter of the (l, o).

    >>> for sent in sequence_collectives(32, 32, 256, 4096, Y=8, Z=2): print(sent)
    AllGather_Z bf16[32, 2, 256] -> [32, 4, 256]
    AllToAll_Z f32[1, 32, 4, 258] -> [2, 32, 2, 258]
    AllReduce_YZ bf16[32, 4096] -> [32, 4096]
    """
    _check_divides(N, Y, Z)
    along = "sequence, reduced" if reduced else "sequence"
    return _between_chips(attention_sends(B, N, D, H, H, Y, Z, dtype, cache_cut=along), Y, Z)


@formula
def latent_collectives(
    B: int, N: int, D: int, mla: MLA, Y: int, Z: int, dtype="bf16", cache_cut: str = "batch"
) -> tuple[Collective, ...]:
    """With a cache of latent vectors, c[B_Z, S, R], on each of Y: the short vectors, the queries to their sequences, the results
    back, the sum. Z = 1: heads cut and the cache copied. With c[B, S_Z, R] the cut is `cache_cut` the "sequence". Nothing depends on S.

    >>> for sent in latent_collectives(32, 128, 7168, MLA(1536, 512, 128, 64, 128), Y=1, Z=16): print(sent)
    AllGather_Z bf16[32, 132] -> [32, 2112]
    AllToAll_Z bf16[32, 8, 576] -> [2, 128, 576]
    AllToAll_Z bf16[2, 128, 512] -> [32, 8, 512]
    AllReduce_Z bf16[32, 7168] -> [32, 7168]
    """
    for name, columns in (("q_rank", mla.q_rank or 0), ("kv_rank", mla.kv_rank), ("rope", mla.rope)):
        if columns % (Y * Z):
            raise ValueError(
                f"Y·Z={Y * Z} ways do not divide {name}={columns} columns of a down-projection: take a divisor of all three"
            )
    _check_divides(N, Y, Z, B if cache_cut == "batch" else 0)
    latent, short = mla.kv_rank + mla.rope, (mla.q_rank or 0) + mla.kv_rank + mla.rope
    return _between_chips(attention_sends(B, N, D, latent, mla.kv_rank, Y, Z, dtype, short, cache_cut), Y, Z)


def _check_divides(N: int, Y: int, Z: int, B: int = 0) -> None:
    """ValueError unless heads can be cut over all chips, and a batch, if it is cut, over Z."""
    if B % Z or N % (Y * Z):
        batch = f"Z={Z} must divide B={B} sequences, and " if B else ""
        raise ValueError(f"{batch}Y·Z={Y * Z} must divide N={N} heads: take fewer ways")


# 2D weight-stationary: W_in[D_X, F_YZ], W_out[F_YZ, D_X]; M_X and M_YZ are the torus axes of X and of YZ.


@formula
def one_d_time(B, D, W, M=3, bytes_each=2):
    """Seconds of the links for one layer with F over all chips: gather and scatter [B, D]. It does not fall with N.

    >>> one_d_time(64, 8192, 4.5e10) == 4 * 64 * 8192 / (3 * 2 * 4.5e10)
    True
    """
    return 2 * bytes_each * B * D / (M * 2 * W)


@formula
def two_d_best(B, D, F, N, W, M_X=1, M_YZ=2, bytes_each=2):
    """Seconds at the best X, sqrt(N·D·M_X / (F·M_YZ)): 4·bytes_each·B·sqrt(D·F / (N·M_X·M_YZ)) / 2W,
    falling with the root of N.

    >>> round(two_d_best(1, 8192, 4 * 8192, 64, W=0.5) / (8192 / 8), 1)             # 11.3·B·D / (sqrt(N)·2W)
    11.3
    """
    return 4 * bytes_each * B * sqrt(D * F / (N * M_X * M_YZ)) / (2 * W)


@formula
def two_d_crossover(D, F, M=3, M_X=1, M_YZ=2):
    """Chips from which 2D sharding sends less than 1D over M axes: 4·M²·F / (D·M_X·M_YZ), so 18·F/D on three axes.

    >>> two_d_crossover(8192, 4 * 8192), two_d_crossover(8192, 8192)
    (72.0, 18.0)
    """
    return 4 * M * M * F / (D * M_X * M_YZ)


# Experts over Z, each cut over Y.


@formula
def expert_weights(c: Config, Y, Z, weights: str = "bf16", attention_over_Z: bool = True):
    """Bytes of weights on one chip when experts lie over Z and are cut over Y.

    attention_over_Z  attention and the vocabulary are cut over Y and Z; or over Y only, with copies along Z

    >>> from helpers.costs.transformers.config import MoE
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
    return bytes_each(weights) * (p.experts / (Y * Z) + (p.total - p.experts) / (Y * Z if attention_over_Z else Y))
