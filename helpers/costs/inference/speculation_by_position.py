"""Speculative decoding where later drafts are accepted less often, and in batches that wait for their slowest (chapter 5).

`a` has one number for each of the K drafted tokens of a pass: the probability that it is accepted if all before it were. A
pass gives the accepted ones and one token of the target's own. Sequences, and the passes of one, are taken to be independent.

Source: Leviathan et al. (2022) for one `a` at all positions; Li et al., "EAGLE-2" (2024) for acceptance that depends
on the position; Qian et al., "BASS" (2024), for batches whose sequences accept different numbers of tokens.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from helpers.arguments import Count, entries
from helpers.numeric import plain


def tokens_of_a_pass(a: Sequence[float]):
    """Tokens that a pass gives on the average: 1 + a₁ + a₁a₂ + …

    >>> tokens_of_a_pass([0.5, 0.5]), tokens_of_a_pass([0.75, 0.5, 0.25]), tokens_of_a_pass([])
    (1.75, 2.21875, 1)
    """
    return 1 + sum(_reached(a))


def accepted(a: Sequence[float]) -> tuple[float, ...]:
    """Probabilities that exactly 0, 1, …, K drafted tokens are accepted.

    >>> accepted([0.75, 0.5])
    (0.25, 0.375, 0.375)
    """
    at_least = (1, *_reached(a), 0)
    return tuple(p - q for p, q in zip(at_least, at_least[1:]))


def positions(tokens: Sequence[int], K: Count) -> tuple[float, ...]:
    """Acceptance by position as it was counted, from the tokens that each pass of K drafts gave; nan where none came so far.

    >>> positions([3, 1, 2, 3], K=2)
    (0.75, 0.6666666666666666)
    """
    if any(not 1 <= n <= K + 1 for n in tokens):
        raise ValueError(f"a pass of {K} drafts gives 1 to {K + 1} tokens, got {sorted(set(tokens))}")
    at_least = [sum(n > i for n in tokens) for i in range(K + 1)]
    return tuple(after / before if before else float("nan") for before, after in zip(at_least, at_least[1:]))


def together(a: Sequence[float], B: Count):
    """Tokens that a pass gives to each of B sequences that have to advance by the same number: what the least lucky accepts.

    So do programs whose batch has one length for all rows. 1 + a₁^B + (a₁a₂)^B + …

    >>> together([0.5, 0.5], 1), together([0.5, 0.5], 2)
    (1.75, 1.3125)
    """
    return 1 + sum(p**B for p in _reached(a))


def passes(a: Sequence[float], n: Count, B: Count = 1) -> float:
    """Passes until each of B sequences has n tokens, on the average, if none takes another's place: those of the slowest.

    Each advances by what it accepts itself. The distribution of one sequence's passes is computed token by token, and the
    slowest of B is done after t passes with the B-th power of the probability that one is.

    >>> passes([0.5], 2), passes([0.5], 2, B=2), passes([], 5, B=9), passes([1.0], 5)
    (1.5, 1.75, 5.0, 3.0)
    """
    gives = accepted(a)
    short, expected = [1.0] + [0.0] * (n - 1), 0.0  # the probabilities of 0 to n - 1 tokens so far
    while (left := sum(short)) > 1e-13:
        expected += 1 - max(0.0, 1 - left) ** B
        short = [sum(gives[j] * short[i - 1 - j] for j in range(min(len(gives), i))) for i in range(n)]
    return expected


def best_length(a: Sequence[float], c: float, per_token: float = 0.0) -> int:
    """How many of these tokens to draft: 0 to K, with most tokens for the time; the least of them in a tie.

    c          seconds of a drafted token, in decode steps
    per_token  what each adds to the target's pass, as in `speculative_decoding.best_K`

    >>> best_length([0.9, 0.8, 0.4, 0.1], c=0.1), best_length([0.05], c=0.1)
    (3, 0)
    """
    gain = [tokens_of_a_pass(a[:K]) / (1 + K * (c + per_token)) for K in range(len(a) + 1)]
    return max(range(len(gain)), key=lambda K: (round(gain[K], 12), -K))


def _reached(a: Sequence[float]) -> list[float]:
    """Probabilities that the first token, the first two, … are all accepted."""
    if any(plain(p) and not 0 <= p <= 1 for p in a):
        raise ValueError(f"acceptance is a share between 0 and 1 at every position, not {list(a)}")
    return list(accumulate(a, mul))


entries(__name__)
