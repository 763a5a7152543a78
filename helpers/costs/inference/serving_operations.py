"""What one device does in a pass of an engine, operation by operation (chapter 5).

A pass has one token of each of some sequences (decode), a piece of some prompts (prefill), or both (a mixed step). Every
operation is a `Product` of `layer_products`, as in a training step, or a reading of caches; `serving_estimate` prices them.

tp chips share heads and the width of MLPs; beyond K of them KV heads are copied, and query heads that do not divide are padded.
dp groups of tp chips have sequences and caches of their own, beside experts that all tp·dp chips share: ep of them share the
experts, and each expert is cut over the tp·dp/ep others. Latent attention is absorbed for decoding; its cache is not cut by heads.
"""

import math
from dataclasses import replace
from functools import cached_property

from helpers.arguments import Count, formula, record
from helpers.costs.transformers.config import UNUSUAL, Config, LayerKind
from helpers.costs.transformers.layer_products import (
    Product,
    Routed,
    feed_forward_products,
    mixer_products,
)
from helpers.costs.transformers.parameters_and_flops import pairs
from helpers.numeric import ceil, log, maximum, minimum, plain, sqrt

BITS = {"bf16": 16, "fp8": 8, "int8": 8, "int4": 4.125, "mxfp4": 4.25, "nvfp4": 4.5}
"""Bits of a stored weight, its scale included: 16 for 128 numbers of int4 (GPTQ, AWQ), 8 for 32 of mxfp4 (OCP, Microscaling
Formats, 2023), 8 for 16 of nvfp4 (NVIDIA, 2025). Scales of fp8 and int8 stand for whole blocks or rows, and are left out."""
FOUR = ("int4", "mxfp4", "nvfp4")


@record
class Deployment:
    """How one model lies over chips, and in which types.

    tp        chips that share heads and the width of MLPs
    dp        groups of tp chips with sequences and caches of their own, where experts lie over all tp·dp chips
    ep        chips that share the experts; each expert is cut over the tp·dp/ep others
    pp        stages
    replicas  of all that: each serves requests of its own
    weights   type of stored weights. Of four bits: in a model with experts only the experts' and MLPs'; the others are `rest`
    rest      type of what four bits are not used for
    cache     type of cached numbers
    spread    where tp is more than the KV heads, caches are cut along sequences besides, and not copied
    overlap   a batch is cut in two, and what one half sends hides behind what the other computes
    hits      share of a prompt that is in caches already
    drafts    acceptance of each token that is drafted before a pass, if those before it were accepted, as of `tokens_of_a_pass`;
              a module of one layer drafts them, as of multi-token prediction or EAGLE
    waits     steps on average for which requests gather before any of them is read, by an engine's option: all of
              TensorRT-LLM's batch_wait_timeout_iters or timeout_iters, half of SGLang's --scheduler-recv-interval

    >>> d = Deployment(tp=2, dp=4, ep=8, weights="fp8")
    >>> d.group, d.chips, str(d)
    (8, 8, 'tp=2 dp=4 ep=8')
    """

    tp: float = 1
    dp: float = 1
    ep: float = 1
    pp: float = 1
    replicas: float = 1
    weights: str = "bf16"
    rest: str = "bf16"
    cache: str = "bf16"
    spread: bool = False
    overlap: bool = False
    hits: float = 0.0
    drafts: tuple[float, ...] = ()
    waits: float = 0.0

    def __post_init__(self):
        for name, known in (("weights", BITS), ("rest", BITS), ("cache", ("bf16", "fp8", "int8", "nvfp4"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}, not {getattr(self, name)!r}")
        for name in ("tp", "dp", "ep", "pp", "replicas"):
            n = getattr(self, name)
            if plain(n) and (n < 1 or n != int(n)):
                raise ValueError(f"{name} is a whole number, 1 or more, not {n}")
        if plain(self.hits) and not 0 <= self.hits < 1:
            raise ValueError(f"hits is a share of a prompt, from 0 to below 1, not {self.hits}")
        if plain(self.tp, self.dp, self.ep) and self.group % self.ep:
            raise ValueError(f"ep is a part of tp·dp = {self.group} chips, not {self.ep}")

    def __str__(self) -> str:
        ways = {name: getattr(self, name) for name in ("tp", "dp", "ep", "pp", "replicas")}
        hows = [f"{name}=True" for name in ("spread", "overlap") if getattr(self, name)]
        return " ".join([*(f"{name}={n}" for name, n in ways.items() if n != 1), *hows]) or "one chip"

    def in_type(self, weights: str) -> "Deployment":
        """The same with weights of a type: what four bits are not used for is in bf16.

        >>> Deployment(cache="fp8").in_type("nvfp4").rest, Deployment().in_type("fp8").rest
        ('bf16', 'fp8')
        """
        return replace(self, weights=weights, rest="bf16" if weights in FOUR else weights)

    @property
    def group(self):
        """Chips that work on one layer together."""
        return self.tp * self.dp

    @property
    def chips(self):
        """All of them."""
        return self.tp * self.dp * self.pp * self.replicas

    def cache_share(self, K):
        """Part of a cache of K heads that a device keeps: one head at least, or less where caches are cut along sequences; what has
        no heads (K is None: a latent vector, an indexer's keys) is not cut."""
        if K is None:
            return 1.0
        return (K / self.tp if self.spread else maximum(K / self.tp, 1)) / K

    def type_of(self, c: Config, role: str) -> str:
        """Type of the weights of a role, as checkpoints are made: the unembedding stays in bf16."""
        if role == "unembedding":
            return "bf16"
        if self.weights in FOUR and c.moe and role not in ("experts", "shared", "mlp"):
            return self.rest
        return self.weights


@record
class Batch:
    """What a pass works on, in one group of tp chips.

    decode  sequences that get tokens
    keys    that each of them sees
    prefill tokens of prompts
    prompts pieces that these belong to; each sees `done` tokens of its prompt besides
    tokens  of each sequence: one, and those that were drafted
    """

    decode: float = 0.0
    keys: float = 0.0
    prefill: float = 0.0
    prompts: float = 1.0
    done: float = 0.0
    tokens: float = 1.0

    @property
    def rows(self):
        """Tokens."""
        return self.decode * self.tokens + self.prefill


@record
class Reading:
    """Attention of one device in a layer: what it reads of caches, and what it computes.

    cached   numbers of keys and values, or of latent vectors
    state    numbers of states of linear attention, read and written in float32
    decode   FLOPs of the sequences that get one token
    prefill  FLOPs of pieces of prompts, of the pairs that the mask leaves
    """

    cached: float
    state: float
    decode: float
    prefill: float


@record
class Layer:
    """One kind of layer on one device.

    count     layers of it in the model
    sums      numbers that tp sums after attention and after the MLP, each
    routed    numbers of the tokens that go to experts of other groups, and come back
    """

    kind: LayerKind
    count: float
    products: tuple[Product, ...]
    reading: Reading
    sums: float
    routed: float


@record
class Operations:
    """A pass of one device: layers of each kind, and the unembedding."""

    layers: tuple[Layer, ...]
    head: Product

    @cached_property
    def weights(self):
        """Numbers of weights that are read in all layers and the unembedding, for all stages."""
        return sum(n.count * p.weights for n in self.layers for p in n.products) + self.head.weights


@formula
def met(E, k, tokens):
    """Experts, of E, that some of so many tokens goes to, each to k, as chance has it: E·(1 - (1 - k/E)^tokens).

    >>> round(met(256, 8, 32)), met(8, 2, 1)
    (163, 2.0)
    """
    return E * (1 - (1 - k / E) ** tokens)


@formula
def fullest(mean_load, devices, occupancy=0.0):
    """Tokens that the fullest device gets, about, if they go to devices by chance, `mean_load` to each in the mean.

    Counts vary by the root of their mean, and the largest of n normal variables is √(2·ln n) - 0.62 deviations out, to
    within 4 % for n up to 1,000 devices (`largest_normal` has it exactly).

    occupancy  share of a device's places that is taken in the mean, where each is taken once at most: counts vary less the fuller
               devices are, and not at all at 1

    >>> fullest(100.0, 1), round(fullest(4.0, 8), 1), round(fullest(400.0, 8)), fullest(32.0, 8, occupancy=1.0)
    (100.0, 6.8, 428, 32.0)
    """
    return mean_load + maximum(sqrt(2 * log(devices)) - 0.62, 0.0) * sqrt(mean_load * (1 - occupancy))


# Imbalance: what chance alone makes of the fullest device's tokens over the mean, where routing is uniform.
#
# Devices that work on one pass wait for the one that has most to do. So a pass takes as many times its even share as this says,
# where tokens decide its time; where weights are read for few tokens it does not matter.
#
# Source: tokens that go to k of E experts at random have a hypergeometric distribution on each device; the largest of many nearly
# normal numbers is the usual order statistic (David and Nagaraja, "Order Statistics", 2003).


@formula
def expected_imbalance(tokens: Count, E: Count, k: Count, devices: Count) -> float:
    """Mean of the fullest device's rows over the mean of all, where every token goes to k experts at random, E/devices of which lie
    on each; if each device's rows are many enough to be nearly normal.

    A token has k/n of its rows on one of n devices on the average, with the hypergeometric variance
    k (1/n) (1 - 1/n) (E - k) / (E - 1); tokens add up. The rows of all devices add up to a fixed number, so the fullest has
    sqrt(n/(n - 1)) standard deviations more than the mean for each of those that the largest of n normal numbers has. With 8
    rows a device it is a few per cent too little.

    >>> [round(expected_imbalance(B, 256, 8, 32), 2) for B in (64, 1024, 16384)]         # DeepSeek-V3's experts on 32 devices
    [1.51, 1.13, 1.03]
    """
    if k > E or E % devices:
        raise ValueError(
            f"a token goes to k of E experts, of which each device has as many: not k={k}, E={E}, {devices} devices"
        )
    if devices == 1 or k == E:
        return 1.0
    variance = tokens * k / devices * (1 - 1 / devices) * (E - k) / (E - 1)
    mean = tokens * k / devices
    return 1 + math.sqrt(variance * devices / (devices - 1)) * largest_normal(devices) / mean


@formula
def largest_normal(n: Count) -> float:
    """Mean of the largest of n independent standard normal numbers: the integral of 1 - F^n above 0, less that of F^n below.

    >>> [round(largest_normal(n), 3) for n in (1, 2, 10, 100)]                  # 0, 1/sqrt(pi), and as in tables
    [0.0, 0.564, 1.539, 2.508]
    """
    steps, end, total = 4000, 10.0, 0.0  # midpoints, out to ten deviations
    for i in range(steps):
        x = (i + 0.5) * end / steps
        half = math.erf(x / math.sqrt(2)) / 2
        total += 1 - (0.5 + half) ** n - (0.5 - half) ** n
    return total * end / steps


# The pass itself.


@formula
def on_fullest(c: Config, deployment: Deployment, rows) -> Routed:
    """Experts of the fullest device, that some token goes to: each is cut over the chips that do not share them."""
    m, tokens = c.moe, rows * deployment.dp
    experts_met = met(m.E, m.k, tokens)
    experts = minimum(fullest(experts_met / deployment.ep, deployment.ep, experts_met / m.E), m.E / deployment.ep)
    choices = fullest(tokens * m.k / deployment.ep, deployment.ep)
    return Routed(rows, choices / experts, experts, m.F * deployment.ep / deployment.group)


@formula
def reading(c: Config, kind: LayerKind, deployment: Deployment, batch: Batch) -> Reading:
    """What attention reads and computes in a layer: of decoding sequences all that they see, of prompts their pieces and what is done."""
    prompts, seen = batch.prompts * (batch.prefill > 0), batch.done + batch.prefill / batch.prompts
    mixer = c.mixer(kind)
    if kind.linear:
        state = mixer.state / deployment.tp
        return Reading(0.0, state * (batch.decode + prompts), 2 * mixer.adds * state * batch.rows, 0.0)
    cached = decode = prefill = 0.0
    for x, made in zip(mixer.scores(kind.window, absorbed=True), mixer.scores(kind.window)):
        reach = lambda S, x=x: (S if x.most is None else minimum(S, x.most)) / x.every  # noqa: E731
        causal = batch.prompts * (pairs(seen, seen, x.most) - pairs(batch.done, batch.done, x.most)) / x.every
        indexes = plain(x.result) and not x.result
        heads = x.heads if indexes else ceil(x.heads / deployment.tp)  # each device has all of an indexer
        cached = cached + x.cached * deployment.cache_share(x.K) * (
            batch.decode * reach(batch.keys) + prompts * reach(seen)
        )
        decode = decode + 2 * (x.query + x.result) * heads * batch.decode * batch.tokens * reach(batch.keys)
        prefill = prefill + 2 * (made.query + made.result) * heads * causal
    return Reading(cached, 0.0, decode, prefill)


@formula
def operations(c: Config, deployment: Deployment, batch: Batch, logits) -> Operations:
    """A pass of one device, of which `logits` rows are unembedded.

    >>> from helpers.costs.transformers.parameters_and_flops import parameters
    >>> c = model("llama-3-8b")
    >>> ops = operations(c, Deployment(), Batch(decode=4, keys=1000), 4)
    >>> p = parameters(c)
    >>> ops.weights == p.total - p.norms - p.embedding
    True
    """
    c.check_usual("an estimate of serving", *(n for n in UNUSUAL if n != "gemma3n"))
    layers, again = [], batch.prompts * batch.done * (batch.prefill > 0)
    for kind, n in c.groups:
        experts = on_fullest(c, deployment, batch.rows) if kind.moe else None
        mixer = mixer_products(c, kind, batch.rows, deployment.tp, again, pad_heads=True)
        products = (*mixer, *feed_forward_products(c, batch.rows, deployment.tp, experts, kind))
        sent = batch.rows * c.moe.row(c.D) * minimum(c.moe.k, deployment.dp) * (deployment.dp > 1) if kind.moe else 0.0
        layers.append(Layer(kind, n, products, reading(c, kind, deployment, batch), batch.rows * c.D, sent))
    return Operations(tuple(layers), Product("unembedding", logits, c.V / deployment.tp, c.D))
