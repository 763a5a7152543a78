"""Latent attention (MLA) in a decode step: what absorbing its up-projections costs and saves, and what it sends (chapter 5).

N query heads; c is a cached token's latent vector of R = kv_rank numbers, beside a rotated key of P = rope numbers. A head's key
is [c W_UK, rotated key], nope + P numbers, and its value c W_UV, v numbers.

    as it is written   keys and values of all S cached tokens are made again in every step, for all heads
    absorbed           q · (c W_UK) = (q W_UK^T) · c, so W_UK goes to the query, once for each new token, and W_UV to the result:
                       N heads attend to one vector of R + P numbers, which is their value as well

Nothing is approximated: a product of matrices is grouped otherwise. Scores are R + P and results R numbers wide, in place of
nope + P and v, so absorbing pays for few new tokens, as in a decode step, and not for a prompt.

Source: DeepSeek-AI, "DeepSeek-V2" (2024), Section 2.1 and its Appendix C.
"""

from helpers.arguments import entries
from helpers.costs.sharding.collectives import Collective
from helpers.costs.transformers.config import MLA
from helpers.numeric import maximum, nonzero, where


def remade_flops(N, m: MLA):
    """FLOPs to make all heads' keys and values of one cached token again, in one layer: 2·R·N·(nope + v).

    >>> from helpers.costs.transformers.public_models import model
    >>> remade_flops(128, model("deepseek-v3").mla)
    33554432
    """
    return 2 * m.kv_rank * N * (m.nope + m.v)


def pair_flops(N, m: MLA, absorbed=True):
    """FLOPs of all heads for one new token and one cached one: scores and results, in the latent space or out of it.

    2·N·(2R + P) if absorbed, 2·N·(nope + P + v) if not.

    >>> from helpers.costs.transformers.public_models import model
    >>> [pair_flops(128, model("deepseek-v3").mla, absorbed) for absorbed in (True, False)]
    [278528, 81920]
    """
    return 2 * N * (2 * m.kv_rank + m.rope if absorbed else m.nope + m.rope + m.v)


def absorbed_intensity(N, m: MLA, x=2):
    """FLOPs per byte of absorbed attention over a long cache, x bytes a number: 2·N·(2R + P) / (x·(R + P)).

    All N heads read one vector, as if N query heads shared a KV head, and use its R numbers twice: about 2N in bf16, and not
    the G of keys and values in heads.

    >>> from helpers.costs.transformers.public_models import model
    >>> [round(absorbed_intensity(128, model("deepseek-v3").mla, x), 1) for x in (2, 1)]                   # bf16, fp8
    [241.8, 483.6]
    """
    return pair_flops(N, m) / (x * (m.kv_rank + m.rope))


def absorption_limit(m: MLA):
    """New tokens up to which absorbing takes fewer FLOPs, over a cache far longer than they are: R·(nope + v) / (2R - nope - v); inf: any.

    T tokens against S: T·S pairs cost 2N·(2R - nope - v) more each, and S times `remade_flops` are saved.

    >>> from helpers.costs.transformers.public_models import model
    >>> round(absorption_limit(model("deepseek-v3").mla), 1)
    170.7
    """
    more = 2 * m.kv_rank - m.nope - m.v  # FLOPs of a pair, absorbed; for a short latent vector they are fewer, too
    return where(more > 0, m.kv_rank * (m.nope + m.v) / nonzero(maximum(more, 0)), float("inf"))


# What one layer of attention sends in a decode step.


def _around(
    B: int, D: int, m: MLA, Y: int, Z: int, dtype: str
) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
    """Before attention the short vectors, which down-projections cut by columns leave on all chips; after it the sum over heads."""
    short, n = (m.q_rank or 0) + m.kv_rank + m.rope, Y * Z
    axes = tuple(a for a, ways in (("Y", Y), ("Z", Z)) if ways > 1)
    if not axes:
        return (), ()
    for name, r in (("q_rank", m.q_rank or 0), ("kv_rank", m.kv_rank), ("rope", m.rope)):
        if r % n:
            raise ValueError(
                f"Y·Z={n} ways do not divide {name}={r} columns of a down-projection: take a divisor of all three"
            )
    return (
        (Collective("AllGather", axes, (B, short // n), (B, short), dtype),),
        (Collective("AllReduce", axes, (B, D), (B, D), dtype),),
    )


def latent_collectives(B: int, N: int, D: int, m: MLA, Y: int, Z: int, dtype="bf16") -> tuple[Collective, ...]:
    """With the cache c[B_Z, S, R], on each of Y: the short vectors, the queries to their sequences, the results back, the sum.

    Z = 1: heads cut and the cache copied. Nothing depends on S.

    >>> for sent in latent_collectives(32, 128, 7168, MLA(1536, 512, 128, 64, 128), Y=1, Z=16): print(sent)
    AllGather_Z bf16[32, 132] -> [32, 2112]
    AllToAll_Z bf16[32, 8, 576] -> [2, 128, 576]
    AllToAll_Z bf16[2, 128, 512] -> [32, 8, 512]
    AllReduce_Z bf16[32, 7168] -> [32, 7168]
    """
    if B % Z or N % (Y * Z):
        raise ValueError(f"Z={Z} must divide B={B} sequences, and Y·Z={Y * Z} must divide N={N} heads: take fewer ways")
    before, after = _around(B, D, m, Y, Z, dtype)
    apart, there, R = (B, N // (Y * Z)), (B // Z, N // Y), m.kv_rank
    moves = (
        Collective("AllToAll", ("Z",), (*apart, R + m.rope), (*there, R + m.rope), dtype),
        Collective("AllToAll", ("Z",), (*there, R), (*apart, R), dtype),
    )
    return before + (moves if Z > 1 else ()) + after


def latent_sequence_collectives(
    B: int, N: int, D: int, m: MLA, Y: int, Z: int, dtype="bf16", reduced: bool = False
) -> tuple[Collective, ...]:
    """With the cache c[B, S_Z, R]: the queries of all of Z's heads are gathered, the (m, l, o) of all combined in float32.

    >>> for sent in latent_sequence_collectives(4, 128, 7168, MLA(1536, 512, 128, 64, 128), Y=1, Z=16): print(sent)
    AllGather_Z bf16[4, 132] -> [4, 2112]
    AllGather_Z bf16[4, 8, 576] -> [4, 128, 576]
    AllToAll_Z f32[1, 4, 128, 514] -> [16, 4, 8, 514]
    AllReduce_Z bf16[4, 7168] -> [4, 7168]
    """
    if N % (Y * Z):
        raise ValueError(f"Y·Z={Y * Z} must divide N={N} heads: take fewer ways")
    before, after = _around(B, D, m, Y, Z, dtype)
    own, all_of_Y, R = N // (Y * Z), N // Y, m.kv_rank
    gather = Collective("AllGather", ("Z",), (B, own, R + m.rope), (B, all_of_Y, R + m.rope), dtype)
    exchange = (Collective("AllToAll", ("Z",), (1, B, all_of_Y, R + 2), (Z, B, own, R + 2), "f32"),)
    if reduced:
        exchange = (
            Collective("AllReduce", ("Z",), (B, all_of_Y), (B, all_of_Y), "f32"),
            Collective("ReduceScatter", ("Z",), (B, all_of_Y, R + 1), (B, own, R + 1), "f32"),
        )
    return before + ((gather, *exchange) if Z > 1 else ()) + after


entries(__name__)
