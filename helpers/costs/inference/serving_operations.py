"""What one device does in a pass of an engine, operation by operation (chapter 5).

A pass has one token of each of some sequences (decode), a piece of some prompts (prefill), or both (a mixed step). Every
operation is a `Product` of `step_operations`, as in a training step, or a reading of caches; `serving_estimate` prices them.

tp chips share heads and the width of MLPs; beyond K of them KV heads are copied, and query heads that do not divide are padded.
dp groups of tp chips have sequences and caches of their own, beside experts that all tp·dp chips share: ep of them share the
experts, and each expert is cut over the tp·dp/ep others. Latent attention is absorbed for decoding; its cache is not cut by heads.
"""

from dataclasses import dataclass
from functools import cached_property

from helpers.arguments import entries
from helpers.costs.training.step_operations import Product
from helpers.costs.transformers.attention_shapes import attention_matrices
from helpers.costs.transformers.config import UNUSUAL, Config, LayerKind
from helpers.costs.transformers.parameters_and_flops import pairs
from helpers.numeric import ceil, log, maximum, minimum, plain, sqrt

BITS = {"bf16": 16, "fp8": 8, "int8": 8, "int4": 4.125, "mxfp4": 4.25, "nvfp4": 4.5}
"""Bits of a stored weight, its scale included: 16 for 128 numbers of int4 (GPTQ, AWQ), 8 for 32 of mxfp4 (OCP, Microscaling
Formats, 2023), 8 for 16 of nvfp4 (NVIDIA, 2025). Scales of fp8 and int8 stand for whole blocks or rows, and are left out."""
FOUR = ("int4", "mxfp4", "nvfp4")
HEADS = "q", "q_up", "kv_up", "output_gate"  # matrices with a part for each head, whose columns tp cuts

READS = {"o": "heads", "kv_up": "keys", "q_up": "queries", "index_q": "queries"}
"""The rows that a matrix of attention reads; the others read the layer's input."""


@dataclass(frozen=True)
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

    def __post_init__(self):
        for name, known in (("weights", BITS), ("rest", BITS), ("cache", ("bf16", "fp8", "int8", "nvfp4"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}, not {getattr(self, name)!r}")
        for name in ("tp", "dp", "ep", "pp", "replicas"):
            n = getattr(self, name)
            if plain(n) and (n < 1 or n != int(n)):
                raise ValueError(f"{name} is a whole number, 1 or more, not {n}")
        if plain(self.tp, self.dp, self.ep) and self.group % self.ep:
            raise ValueError(f"ep is a part of tp·dp = {self.group} chips, not {self.ep}")

    def __str__(self) -> str:
        some = {n: getattr(self, n) for n in ("tp", "dp", "ep", "pp", "replicas")}
        return " ".join(f"{n}={x}" for n, x in some.items() if x != 1) or "one chip"

    @property
    def group(self):
        """Chips that work on one layer together."""
        return self.tp * self.dp

    @property
    def chips(self):
        """All of them."""
        return self.tp * self.dp * self.pp * self.replicas

    def heads(self, c: Config):
        """KV heads of which a device keeps the cache: one at least, or less than one where caches are cut along sequences."""
        return c.K / self.tp if self.spread else maximum(c.K / self.tp, 1)

    def type_of(self, c: Config, role: str) -> str:
        """Type of the weights of a role, as checkpoints are made: the unembedding stays in bf16."""
        if role == "unembedding":
            return "bf16"
        if self.weights in FOUR and c.moe and role not in ("experts", "shared", "mlp"):
            return self.rest
        return self.weights


@dataclass(frozen=True)
class Batch:
    """What a pass works on, in one group of tp chips.

    decode  sequences that get one token
    keys    that each of them sees
    prefill tokens of prompts
    prompts pieces that these belong to; each sees `done` tokens of its prompt besides
    """

    decode: float = 0.0
    keys: float = 0.0
    prefill: float = 0.0
    prompts: float = 1.0
    done: float = 0.0

    @property
    def rows(self):
        """Tokens."""
        return self.decode + self.prefill


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Layer:
    """One kind of layer on one device.

    count     layers of it in the model
    sums      numbers that tp sums after attention and after the MLP, each
    routed    numbers of the tokens that go to experts of other groups, and come back
    met       experts of a device that some token goes to
    """

    kind: LayerKind
    count: float
    products: tuple[Product, ...]
    reading: Reading
    sums: float
    routed: float
    met: float


@dataclass(frozen=True)
class Operations:
    """A pass of one device: layers of each kind, and the unembedding."""

    layers: tuple[Layer, ...]
    head: Product

    @cached_property
    def weights(self):
        """Numbers of weights that are read in all layers and the unembedding, for all stages."""
        return sum(n.count * p.weights for n in self.layers for p in n.products) + self.head.weights


def met(E, k, tokens):
    """Experts, of E, that some of so many tokens goes to, each to k, as chance has it: E·(1 - (1 - k/E)^tokens).

    >>> round(met(256, 8, 32)), met(8, 2, 1)
    (163, 2.0)
    """
    return E * (1 - (1 - k / E) ** tokens)


def fullest(mean, n):
    """Of n devices to which tokens go by chance, as many as `mean` to each in the mean: how many the fullest gets, about.

    Counts vary by the root of their mean, and the largest of n normal variables is √(2·ln n) - 0.62 deviations out, to within
    4 % for n up to 1,000 (`load_imbalance.largest_normal` has it exactly).

    >>> fullest(100.0, 1), round(fullest(4.0, 8), 1), round(fullest(400.0, 8))
    (100.0, 6.8, 428)
    """
    return mean + maximum(sqrt(2 * log(n)) - 0.62, 0.0) * sqrt(mean)


def _cut(c: Config, name: str, shape: tuple, tp):
    """Rows and columns of one matrix of attention on one device."""
    k, n = shape
    if name in ("k", "v"):
        return k, maximum(c.K / tp, 1) * c.H
    if name == "o":
        return ceil(c.N / tp) * (k / c.N), n
    return (k, ceil(c.N / tp) * (n / c.N)) if name in HEADS else shape


def attention_products(c: Config, kind: LayerKind, rows, tp, again=0.0) -> list[Product]:
    """Products with the matrices of attention: those that read the same rows are one, as engines fuse them.

    again  tokens in caches whose keys and values latent attention makes once more, for a piece of a prompt that sees them

    >>> from helpers.costs.transformers.public_models import model
    >>> [(p.n, p.k) for p in attention_products(model("llama-3-8b"), LayerKind(), 1.0, 16)]
    [(512.0, 4096), (4096, 256.0)]
    """
    fused: dict = {}
    for name, shape in attention_matrices(c, kind).items():
        if kind.linear:
            k, n = (shape[0] / tp, shape[1]) if name == "o" else (shape[0], shape[1] / tp)
        else:
            k, n = _cut(c, name, shape, tp)
        reads = READS.get(name, "input")
        fused[reads] = k, fused.get(reads, (k, 0))[1] + n
    made = lambda reads: rows + again if reads == "keys" else rows  # noqa: E731
    return [Product("projections", made(reads), n, k) for reads, (k, n) in fused.items()]


def mlp_products(c: Config, kind: LayerKind, at: Deployment, rows) -> tuple[list[Product], float]:
    """Products of the MLP, or of router and experts of the fullest device; and how many experts it reads."""
    wide = c.matrices - 1
    if not kind.moe:
        n = c.F / at.tp
        return [Product("mlp", rows, wide * n, c.D), Product("mlp", rows, c.D, n)], 0.0
    m, tokens = c.moe, rows * at.dp
    mean = tokens * m.k / at.ep
    most = fullest(mean, at.ep)
    here = minimum(met(m.E, m.k, tokens) / at.ep * most / mean, m.E / at.ep)
    width, each = m.F * at.ep / at.group, most / here
    out = [
        Product("router", rows, m.E + m.shared_gate, c.D),
        Product("experts", each, wide * width, c.D, here),
        Product("experts", each, c.D, width, here),
    ]
    if m.shared:
        n = m.shared * m.F / at.tp
        out += [Product("shared", rows, wide * n, c.D), Product("shared", rows, c.D, n)]
    return out, here


def reading(c: Config, kind: LayerKind, at: Deployment, b: Batch) -> Reading:
    """What attention reads and computes in a layer: of decoding sequences all that they see, of prompts their pieces and what is done."""
    heads, seen = ceil(c.N / at.tp), b.done + b.prefill / b.prompts
    if kind.linear:
        one = c.linear.state / at.tp
        flops = 6 * one * (b.decode + b.prefill)
        return Reading(0.0, one * (b.decode + b.prompts * (b.prefill > 0)), flops, 0.0)
    top = c.indexer.top if c.indexer else None
    reach = lambda S: S if kind.window is None and top is None else minimum(S, kind.window or top)  # noqa: E731
    if c.mla:
        each, decode, piece = c.mla.kv_rank + c.mla.rope, 2 * (2 * c.mla.kv_rank + c.mla.rope), 2 * (c.qk + c.mla.v)
    else:
        each, decode, piece = 2 * at.heads(c) * c.H, 4 * c.H, 4 * c.H
    cached = each * (b.decode * reach(b.keys) + b.prompts * reach(seen) * (b.prefill > 0))
    if c.indexer:
        cached = cached + c.indexer.width * (b.decode * b.keys + b.prompts * seen * (b.prefill > 0))
    causal = lambda near: b.prompts * (pairs(seen, seen, near) - pairs(b.done, b.done, near))  # noqa: E731
    score = (
        2 * c.indexer.heads * c.indexer.width if c.indexer else 0
    )  # FLOPs of a pair; each device has all of an indexer
    return Reading(
        cached,
        0.0,
        b.decode * (decode * heads * reach(b.keys) + score * b.keys),
        piece * heads * causal(kind.window or top) + score * causal(None),
    )


def operations(c: Config, at: Deployment, b: Batch, logits) -> Operations:
    """A pass of one device, of which `logits` rows are unembedded.

    >>> from helpers.costs.transformers.public_models import model
    >>> from helpers.costs.transformers.parameters_and_flops import parameters
    >>> c = model("llama-3-8b")
    >>> ops = operations(c, Deployment(), Batch(decode=4, keys=1000), 4)
    >>> p = parameters(c)
    >>> ops.weights == p.total - p.norms - p.embedding
    True
    """
    c.check_usual("an estimate of serving", *(n for n in UNUSUAL if n != "gemma3n"))
    layers, again = [], b.prompts * b.done * (b.prefill > 0)
    for kind, n in c.groups:
        mlp, here = mlp_products(c, kind, at, b.rows)
        products = (*attention_products(c, kind, b.rows, at.tp, again), *mlp)
        routed = b.rows * c.D * minimum(c.moe.k, at.dp) * (at.dp > 1) if kind.moe else 0.0
        layers.append(Layer(kind, n, products, reading(c, kind, at, b), b.rows * c.D, routed, here))
    return Operations(tuple(layers), Product("unembedding", logits, c.V / at.tp, c.D))


entries(__name__)
