"""Speculative decoding: how many drafted tokens are accepted, and what that gains (chapter 5).

A draft model proposes gamma tokens with distribution q; the target passes over all of them at once and keeps a prefix of them, so
that what comes out has the target's own distribution p. Accepting a token x with probability min(1, p(x)/q(x)), and drawing from
(p - q)+, normalised, after the first refusal, is what makes it so; a fixed threshold, or drawing from p again, does not.
a is the acceptance of one token, gamma tokens are drafted, c is seconds of one drafted token and v those of a target pass over
gamma + 1 tokens, both in units of the target's ordinary decode step.

Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2022); Chen et al. (2023);
Austin et al. 2025, Section 7, appendix D.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

from helpers.arguments import Count, formula
from helpers.costs.rooflines.roofline import matmul, time
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.moved import old_function
from helpers.numeric import maximum, minimum, nonzero, plain, where

from .prefill_and_decode_step import Replica


@formula
def acceptance(p, q):
    """Probability that a token drawn from q is accepted: the sum of min(p, q). p and q are distributions over the same tokens.

    >>> acceptance([0.5, 0.5, 0.0], [0.5, 0.25, 0.25]), acceptance([1.0, 0.0], [0.0, 1.0])
    (0.75, 0.0)
    """
    _check_distributions(p, q)
    return sum(minimum(a, b) for a, b in zip(p, q)) if isinstance(p, Sequence) else minimum(p, q).sum(-1)


@formula
def residual(p, q):
    """The distribution of the token that replaces a refused one: (p - q)+, normalised; p itself where nothing is ever refused.

    >>> residual([0.5, 0.5, 0.0], [0.5, 0.25, 0.25])
    [0.0, 1.0, 0.0]
    """
    _check_distributions(p, q)
    if isinstance(p, Sequence):
        more = [maximum(a - b, 0.0) for a, b in zip(p, q)]
        return [m / sum(more) for m in more] if sum(more) else list(p)
    more = maximum(p - q, 0 * p)
    total = more.sum(-1)[..., None]
    return where(total > 0, more / nonzero(total), p)


@formula
def expected_tokens(acceptance, gamma: int):
    """Tokens that one pass of the target gives on the average, with a the acceptance: (1 - a^(gamma+1)) / (1 - a), from 1 to gamma + 1.

    Each token is accepted with probability a, independently; after the last accepted one comes a token of the target's own.

    >>> expected_tokens(0.5, 2), expected_tokens(0.0, 4), expected_tokens(1.0, 4)
    (1.75, 1.0, 5.0)
    """
    if plain(acceptance) and not 0 <= acceptance <= 1:
        raise ValueError(f"acceptance is a share between 0 and 1, not {acceptance}")
    return where(acceptance == 1, gamma + 1.0, (1 - acceptance ** (gamma + 1)) / nonzero(1 - acceptance))


@formula
def speed_up(acceptance, gamma, c, v=1.0):
    """Tokens per second against ordinary decoding: expected tokens over gamma drafted ones and one pass.

    v  1 while the target waits for its weights and caches, so that gamma + 1 tokens take as long as one; more beyond

    >>> round(speed_up(0.8, 4, 0.05), 2), round(speed_up(0.8, 4, 0.05, v=5), 2), speed_up(0.3, 0, 0.05)
    (2.8, 0.65, 1.0)
    """
    return expected_tokens(acceptance, gamma) / (gamma * c + v)


@formula
def flops_ratio(acceptance, gamma, f):
    """FLOPs of a token against ordinary decoding; f is those of a drafted token over those of the target.

    All gamma + 1 tokens are computed, and the refused ones for nothing.

    >>> round(flops_ratio(0.8, 4, 0.05), 2)
    1.55
    """
    return (gamma * f + gamma + 1) / expected_tokens(acceptance, gamma)


@formula
def best_gamma(acceptance: float, c: float, token_cost: float = 0.0) -> int:
    """How many tokens to draft: the gamma of 0 to 64 with the largest `speed_up`, the least of them in a tie.

    token_cost  what each further token adds to the target's pass, in units of a decode step: v = 1 + gamma·token_cost

    Drafting pays, with v = 1, if a > c: the first draft brings a more tokens for c more time.

    >>> [best_gamma(a, 0.05) for a in (0.04, 0.5, 0.8, 0.95)], best_gamma(0.8, 0.05, token_cost=0.3)
    ([0, 3, 8, 21], 3)
    """
    if not plain(acceptance, c, token_cost):
        raise ValueError("best_gamma tries each gamma for plain numbers; take speed_up for arrays")
    return best_length([acceptance] * 64, c, token_cost)


best_K = old_function("best_K", best_gamma)


def _check_distributions(p, q) -> None:
    if len(p) != len(q):
        raise ValueError(f"p and q are distributions over the same tokens, and these have {len(p)} and {len(q)}")
    for probabilities in (p, q):
        if isinstance(probabilities, Sequence) and (min(probabilities) < 0 or abs(sum(probabilities) - 1) > 1e-6):
            raise ValueError(
                f"a distribution has no negative entry and adds up to 1, got a sum of {sum(probabilities):g}"
            )


# Speculative decoding where later drafts are accepted less often, and in batches that wait for their slowest.
#
# `a` has one number for each of the gamma drafted tokens of a pass: the probability that it is accepted if all before it were. A
# pass gives the accepted ones and one token of the target's own. Sequences, and the passes of one, are taken to be independent.
#
# Source: Leviathan et al. (2022) for one `a` at all positions; Li et al., "EAGLE-2" (2024) for acceptance that depends
# on the position; Qian et al., "BASS" (2024), for batches whose sequences accept different numbers of tokens.


@formula
def tokens_of_a_pass(acceptance: Sequence[float]):
    """Tokens that a pass gives on the average: 1 + a₁ + a₁a₂ + …

    >>> tokens_of_a_pass([0.5, 0.5]), tokens_of_a_pass([0.75, 0.5, 0.25]), tokens_of_a_pass([])
    (1.75, 2.21875, 1)
    """
    return 1 + sum(_reached(acceptance))


@formula
def accepted(acceptance: Sequence[float]) -> tuple[float, ...]:
    """Probabilities that exactly 0, 1, …, gamma drafted tokens are accepted.

    >>> accepted([0.75, 0.5])
    (0.25, 0.375, 0.375)
    """
    at_least = (1, *_reached(acceptance), 0)
    return tuple(p - q for p, q in zip(at_least, at_least[1:]))


@formula
def together(acceptance: Sequence[float], B: Count):
    """Tokens that a pass gives to each of B sequences that have to advance by the same number: what the least lucky accepts.

    So do programs whose batch has one length for all rows. 1 + a₁^B + (a₁a₂)^B + …

    >>> together([0.5, 0.5], 1), together([0.5, 0.5], 2)
    (1.75, 1.3125)
    """
    return 1 + sum(p**B for p in _reached(acceptance))


@formula
def passes(acceptance: Sequence[float], n: Count, B: Count = 1) -> float:
    """Passes until each of B sequences has n tokens, on the average, if none takes another's place: those of the slowest.

    Each advances by what it accepts itself. The distribution of one sequence's passes is computed token by token, and the
    slowest of B is done after t passes with the B-th power of the probability that one is.

    >>> passes([0.5], 2), passes([0.5], 2, B=2), passes([], 5, B=9), passes([1.0], 5)
    (1.5, 1.75, 5.0, 3.0)
    """
    gives = accepted(acceptance)
    short, expected = [1.0] + [0.0] * (n - 1), 0.0  # the probabilities of 0 to n - 1 tokens so far
    while (left := sum(short)) > 1e-13:
        expected += 1 - max(0.0, 1 - left) ** B
        short = [sum(gives[j] * short[i - 1 - j] for j in range(min(len(gives), i))) for i in range(n)]
    return expected


@formula
def best_length(acceptance: Sequence[float], c: float, token_cost: float = 0.0) -> int:
    """How many of these tokens to draft: 0 to gamma, with most tokens for the time; the least of them in a tie.

    c           seconds of a drafted token, in decode steps
    token_cost  what each adds to the target's pass, as in `speculative_decoding.best_gamma`

    >>> best_length([0.9, 0.8, 0.4, 0.1], c=0.1), best_length([0.05], c=0.1)
    (3, 0)
    """
    gain = [
        tokens_of_a_pass(acceptance[:gamma]) / (1 + gamma * (c + token_cost)) for gamma in range(len(acceptance) + 1)
    ]
    return max(range(len(gain)), key=lambda gamma: (round(gain[gamma], 12), -gamma))


def _reached(acceptance: Sequence[float]) -> list[float]:
    """Probabilities that the first token, the first two, … are all accepted."""
    if any(plain(p) and not 0 <= p <= 1 for p in acceptance):
        raise ValueError(f"acceptance is a share between 0 and 1 at every position, not {list(acceptance)}")
    return list(accumulate(acceptance, mul))


# Multi-token prediction: a layer of the model's own that drafts the token after the next, what it costs and gives.
#
# The module takes the model's last activations of a token and the embedding of the token that came after it, [2D] in all,
# projects them to D, and passes them through one more layer like the last one and the model's own unembedding. So it drafts one
# token for the price of a layer; for more the modules, or one of them again and again, run in turn. It is trained
# with the model, and can be dropped.
#
# Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), sections 2.2 and 5.4.3; Gloeckle et al., "Better & faster large
# language models via multi-token prediction" (2024), whose heads draft at once and don't see each other's tokens.


@formula
def module(c: Config) -> Config:
    """The module's layer as a decoder of one layer, with the model's vocabulary: one like the last, and a full one.

    >>> module(model("deepseek-v3")).L, module(model("deepseek-v3")).moe.first_dense
    (1, 0)
    """
    c.check_usual("a module that predicts one more token", "indexer")
    moe = replace(c.moe, first_dense=0, every=1) if c.moe and c.L % c.moe.every == 0 else None
    return replace(c, L=1, moe=moe, window=None, full_every=None, name="")


@formula
def own_parameters(c: Config):
    """Parameters that the module has to itself: a layer, the projection of 2D to D and the norms of what comes in.

    Embedding and unembedding are the model's. DeepSeek says 11.5 billion, which is the layer without the projection.

    >>> f"{own_parameters(model('deepseek-v3')) / 1e9:.1f} billion"
    '11.6 billion'
    """
    p = parameters(module(c))
    final = c.D if c.final_norm else 0
    return p.total - p.embedding - p.unembedding - final + 2 * c.D**2 + 2 * c.D


@formula
def draft_cost(replica: Replica, B, S):
    """Seconds of one drafted token of each of B sequences that see S keys, in decode steps: c of `speculative_decoding.speed_up`.

    >>> r = Replica(model("deepseek-v3"), chip("H200"), 16, weights="fp8", math="fp8")
    >>> [round(draft_cost(r, B, 4096), 3) for B in (1, 16, 256)]
    [0.044, 0.02, 0.019]
    """
    math, w, D = replica.math, replica.weights, replica.config.D
    x, w = bytes_each(math), bytes_each(w) if isinstance(w, str) else w
    projection = time(matmul(B, 2 * D, D, x, w, x, dtype=math), replica.C, replica.W_hbm)
    step = replace(replica, config=module(replica.config)).decode(B, S).seconds
    return (step + projection.lower) / replica.decode(B, S).seconds
