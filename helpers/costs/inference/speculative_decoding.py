"""Guessing ahead: how many drafted tokens are accepted, and what that gains (chapter 5).

A drafter proposes K tokens with law q; the target passes over all of them at once and keeps a prefix of them, so that what
comes out has the target's own law p. Accepting a token x with probability min(1, p(x)/q(x)), and drawing from (p - q)+,
normalised, after the first refusal, is what makes it so; a fixed threshold, or drawing from p again, does not.
a is the acceptance of one token, K tokens are drafted, c is seconds of one drafted token and v those of a target pass over
K + 1 tokens, both in units of the target's ordinary decode step.

Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2022); Chen et al. (2023);
Austin et al. 2025, Section 7, appendix D.
"""

from collections.abc import Sequence

from helpers.arguments import entries
from helpers.numeric import maximum, minimum, nonzero, plain, where


def acceptance(p, q):
    """Probability that a token drawn from q is accepted: the sum of min(p, q). p and q are laws over the same tokens.

    >>> acceptance([0.5, 0.5, 0.0], [0.5, 0.25, 0.25]), acceptance([1.0, 0.0], [0.0, 1.0])
    (0.75, 0.0)
    """
    _laws(p, q)
    return sum(minimum(a, b) for a, b in zip(p, q)) if isinstance(p, Sequence) else minimum(p, q).sum(-1)


def residual(p, q):
    """The law of the token that replaces a refused one: (p - q)+, normalised; p itself where nothing is ever refused.

    >>> residual([0.5, 0.5, 0.0], [0.5, 0.25, 0.25])
    [0.0, 1.0, 0.0]
    """
    _laws(p, q)
    if isinstance(p, Sequence):
        more = [maximum(a - b, 0.0) for a, b in zip(p, q)]
        return [m / sum(more) for m in more] if sum(more) else list(p)
    more = maximum(p - q, 0 * p)
    total = more.sum(-1)[..., None]
    return where(total > 0, more / nonzero(total), p)


def expected_tokens(a, K: int):
    """Tokens that one pass of the target gives on the average: (1 - a^(K+1)) / (1 - a), from 1 to K + 1.

    Each token is accepted with probability a, independently; after the last accepted one comes a token of the target's own.

    >>> expected_tokens(0.5, 2), expected_tokens(0.0, 4), expected_tokens(1.0, 4)
    (1.75, 1.0, 5.0)
    """
    _share(a)
    certain = a == 1
    return where(certain, K + 1.0, (1 - a ** (K + 1)) / nonzero(1 - a))


def speed_up(a, K, c, v=1.0):
    """Tokens per second against ordinary decoding: expected tokens over K drafted ones and one pass.

    v  1 while the target waits for its weights and caches, so that K + 1 tokens take as long as one; more beyond

    >>> round(speed_up(0.8, 4, 0.05), 2), round(speed_up(0.8, 4, 0.05, v=5), 2), speed_up(0.3, 0, 0.05)
    (2.8, 0.65, 1.0)
    """
    return expected_tokens(a, K) / (K * c + v)


def flops_ratio(a, K, f):
    """FLOPs of a token against ordinary decoding; f is those of a drafted token over those of the target.

    All K + 1 tokens are computed, and the refused ones for nothing.

    >>> round(flops_ratio(0.8, 4, 0.05), 2)
    1.55
    """
    return (K * f + K + 1) / expected_tokens(a, K)


def best_K(a: float, c: float, per_token: float = 0.0, most: int = 64) -> int:
    """How many tokens to draft: the K of 0 to `most` with the largest `speed_up`, the least of them in a tie.

    per_token  what each further token adds to the target's pass, in units of a decode step: v = 1 + K·per_token

    Drafting pays, with v = 1, if a > c: the first guess brings a more tokens for c more time.

    >>> [best_K(a, 0.05) for a in (0.04, 0.5, 0.8, 0.95)], best_K(0.8, 0.05, per_token=0.3)
    ([0, 3, 8, 21], 3)
    """
    if not plain(a, c, per_token) or not isinstance(most, int) or most < 0:
        raise ValueError(
            "best_K tries each K for plain numbers; take speed_up for arrays, and a whole `most` of 0 or more"
        )
    return max(range(most + 1), key=lambda K: (round(speed_up(a, K, c, 1 + K * per_token), 12), -K))


def _share(a) -> None:
    if plain(a) and not 0 <= a <= 1:
        raise ValueError(f"acceptance is a share between 0 and 1, not {a}")


def _laws(p, q) -> None:
    if len(p) != len(q):
        raise ValueError(f"p and q are laws over the same tokens, and these have {len(p)} and {len(q)}")
    for law in (p, q):
        if isinstance(law, Sequence) and (min(law) < 0 or abs(sum(law) - 1) > 1e-6):
            raise ValueError(f"a law has no negative entry and adds up to 1, got a sum of {sum(law):g}")


entries(__name__)
