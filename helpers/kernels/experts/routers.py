"""Routers: which experts a token goes to, and with which weights; and how they are kept in balance (chapter 8).

A router makes E logits of a token. Public models differ in five switches: the function that makes scores of logits, whether it looks
at all experts or at the chosen ones, a bias that counts for the choice alone, a limit on groups of experts, and how weights are scaled.

    r = ROUTERS["deepseek-v3"]
    expert, weight = choose(logits, r, bias)             # [T, k] each
    bias = nudged(bias, loads(expert, 256), 0.001)       # after a step

Softmax of the k best logits is softmax of all E, cut to the k best and divided by their sum: the sum over all E cancels.

Source: DeepSeek-AI, "DeepSeek-V3" (2024), Section 2.1.2, and its `modeling_deepseek.py` for groups; OpenAI, `gpt-oss`, `model.py`;
Fedus et al., "Switch Transformer" (2021) for the loss; Wang et al., "Auxiliary-Loss-Free Load Balancing" (2024) for the bias.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from helpers.kernels import operands

SCORES = {
    "softmax": lambda logits: jax.nn.softmax(logits, axis=-1),
    "sigmoid": jax.nn.sigmoid,
    "sqrt softplus": lambda logits: jnp.sqrt(jax.nn.softplus(logits)),
    "softmax of the chosen": lambda logits: logits,
}
"""What makes scores of logits[..., E]; a softmax of the chosen is taken when they are known."""


@dataclass(frozen=True)
class Router:
    """How a model turns the logits of a token into experts and weights.

    k          experts of a token
    scores     a name of `SCORES`
    divided    whether weights are divided by their sum
    scale      what they are multiplied with at the end
    groups     equal parts of the experts, in their order; a token's experts lie in `limit` of them
    limit      1 to `groups`; the groups whose two best experts have the largest sums
    """

    k: int
    scores: str = "softmax"
    divided: bool = True
    scale: float = 1.0
    groups: int = 1
    limit: int = 1

    def __post_init__(self):
        operands.whole(k=self.k, groups=self.groups, limit=self.limit)
        if self.limit > self.groups:
            raise ValueError(f"a token cannot go to {self.limit} of {self.groups} groups: limit is at most groups")


ROUTERS = {
    "mixtral-8x22b": Router(2),
    "qwen-3-235b-a22b": Router(8),
    "olmoe-1b-7b": Router(8, divided=False),
    "gpt-oss-120b": Router(4, "softmax of the chosen", divided=False),
    "llama-4-maverick": Router(1, "sigmoid", divided=False),
    "deepseek-v3": Router(8, "sigmoid", scale=2.5, groups=8, limit=4),
    "kimi-k2": Router(8, "sigmoid", scale=2.827),
    "deepseek-v4-flash": Router(6, "sqrt softplus", scale=1.5),
}
"""Routers of public models. Llama 4 multiplies what goes into the expert with its weight, the others what comes out."""


def choose(logits, router: Router, bias=None, fixed_expert=None):
    """Experts of tokens with logits[T, E]: (expert[T, k], best first, weight[T, k]). Of equal ones the first is taken.

    bias          [E], added to scores for the choice; weights are those of the scores alone
    fixed_expert  [T, k], experts that a table has for each token's number, as in DeepSeek-V4's first layers, so that no score chooses them
    """
    E = logits.shape[-1]
    if router.k > E * router.limit // router.groups or E % router.groups:
        raise ValueError(
            f"a token cannot go to {router.k} of {E} experts in {router.limit} of {router.groups} equal groups"
        )
    scores = SCORES[router.scores](logits)
    by = scores if bias is None else scores + bias
    if router.limit < router.groups:
        by = jnp.where(allowed(by, router.groups, router.limit), by, -jnp.inf)
    expert = lax.top_k(by, router.k)[1] if fixed_expert is None else fixed_expert
    weight = jnp.take_along_axis(scores, expert, axis=-1)
    if router.scores == "softmax of the chosen":
        weight = jax.nn.softmax(weight, axis=-1)
    if router.divided:
        weight = weight / weight.sum(-1, keepdims=True)
    return expert, router.scale * weight


def allowed(scores, groups: int, limit: int):
    """Whether an expert lies in one of the `limit` groups whose two best scores have the largest sums: [T, E] of scores[T, E]."""
    T, E = scores.shape
    best, _ = lax.top_k(scores.reshape(T, groups, -1), min(2, E // groups))
    _, kept = lax.top_k(best.sum(-1), limit)  # [T, limit]
    return jnp.repeat(jax.nn.one_hot(kept, groups, dtype=bool).any(1), E // groups, axis=1)


def parts_met(expert, E: int, parts: int):
    """In how many of `parts` equal parts of the experts, hosts or devices, each token has one: [T] of expert[T, k]."""
    return jax.nn.one_hot(expert * parts // E, parts, dtype=bool).any(-2).sum(-1)


# Balance.


def loads(expert, E: int, axes=()):
    """[E]: how many choices each expert got, on all devices along `axes` if this is run on several: E numbers in one AllReduce."""
    counted = jnp.zeros(E, jnp.int32).at[expert.reshape(-1)].add(1)
    return lax.psum(counted, axes) if axes else counted


def nudged(bias, load, step: float):
    """The bias[E] after a step of training: `step` up for experts with less than the mean of load[E], `step` down for those with more."""
    return bias + step * jnp.sign(load.mean() - load)


def even_bias(scores, k: int, rounds: int = 20):
    """A bias[E] with which each expert is chosen by about as many of the tokens of scores[T, E]: what `nudged` tends to, at once.

    In each round a token's bar lies between its k-th and its next best sum, and an expert's bias moves half the way to where a share
    of k/E of the tokens have its sum above their bar. Half, because all experts move at the same time.
    """
    E, bias = scores.shape[-1], jnp.zeros(scores.shape[-1])
    for _ in range(rounds):
        bar = lax.top_k(scores + bias, k + 1)[0][:, k - 1 :].mean(-1, keepdims=True)
        bias = bias - jnp.quantile(scores + bias - bar, 1 - k / E, axis=0) / 2
    return bias


def balance_loss(scores, expert, axes=()):
    """E · sum of f · P: 1 if all is even, E if one expert gets all; its gradient flows through P alone.

    scores   [T, E], those of a token add up to 1; P[E] is their mean over tokens
    expert   [T, k]; f[E] is an expert's share of the choices
    axes     mesh axes over which tokens lie, as many on each device. f is that of all tokens, one AllReduce of E numbers; with it
             the mean over devices of what each device finds is the loss of the whole batch, since P is a mean. A product of two
             local means would be another loss, that of each device's own balance.
    """
    E = scores.shape[-1]
    f = loads(expert, E, axes) / (expert.size * (lax.axis_size(axes) if axes else 1))
    mine = E * jnp.sum(f * scores.mean(0))
    return lax.pmean(mine, axes) if axes else mine
