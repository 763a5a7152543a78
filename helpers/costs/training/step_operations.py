"""What one device does in a training step, operation by operation, under a `Layout` (chapter 4).

Of each kind of layer, for one microbatch: the matrix products with their sizes, attention, the arrays that norms and
activation functions read and write, and what is sent. `step_estimate` prices each and adds them up; a backward pass has two
products for each of the forward pass, with the same three sizes in another order.

tp shares heads, F and the vocabulary; KV heads beyond K are copied, and so are latent attention's narrow matrices. Experts are
not cut: of a group of ep·tp devices each has its share of them, and of the tokens, which tp has cut before.

Passes over arrays are counted by hand from Megatron-LM's layer (Narayanan et al. 2021; Korthikanti et al. 2022).
"""

from dataclasses import dataclass, replace
from functools import cached_property

from helpers.arguments import entries
from helpers.costs.transformers.config import Config, LayerKind
from helpers.costs.transformers.parameters_and_flops import pairs, parameters
from helpers.costs.transformers.training_memory_bytes import unread
from helpers.numeric import ceil, maximum, where

from .layout import Layout

RESIDUAL = 11, 22  # arrays of D numbers a token, forward and backward: two norms, dropouts and additions read or write
HIDDEN = 2, 3  # arrays of F numbers: an activation function; each gated matrix brings one more, backward two
SCORES = 6, 10  # arrays of T·S numbers a head, where attention keeps them: products, softmax, dropout
ROUTED = 4, 8  # arrays of D numbers for each copy of a token: put in its expert's place, and back


@dataclass(frozen=True)
class Product:
    """`groups` products of [m, k] by [k, n] with weights, on one device; together they are one kernel.

    read  some gradient reads the result, so that it is done again where it was not kept
    """

    role: str
    m: float
    n: float
    k: float
    groups: float = 1
    read: bool = True

    @cached_property
    def flops(self):
        """FLOPs forward."""
        # Rows of all groups first: those of one expert may be a fraction, and sums of what it rounds differ between Pythons.
        return 2 * (self.m * self.groups) * self.n * self.k

    @cached_property
    def weights(self):
        """Numbers in the matrices."""
        return self.n * self.k * self.groups

    @cached_property
    def backward(self) -> tuple["Product", "Product"]:
        """The gradient of the rows, and that of the weights."""
        return (
            Product(self.role, self.m, self.k, self.n, self.groups),
            Product(self.role, self.k, self.n, self.m, self.groups),
        )


@dataclass(frozen=True)
class Attention:
    """Queries times keys, softmax, and shares times values, of one device.

    rows   queries
    heads  of one device
    keys   that a query looks at, on average; `every` if none is hidden
    width  of a head, as the mean of a key's and a value's
    hops   kernels that do it, each on a chip's share of the keys, as cp's ring brings it
    """

    rows: float
    heads: float
    keys: float
    every: float
    width: float
    hops: float = 1.0

    def flops(self, masked: bool = True):
        """FLOPs forward: of the pairs that the mask leaves, or of all."""
        return 4 * self.rows * self.heads * self.width * (self.keys if masked else self.every)

    @cached_property
    def scores(self):
        """Numbers in the T·S arrays of all heads."""
        return self.rows * self.heads * self.every


@dataclass(frozen=True)
class Layer:
    """One layer of a kind on one device, for one microbatch; numbers of two are forward and backward.

    count     layers of this kind in the model
    streamed  numbers that norms, activation functions and sorting of tokens read or write
    block     numbers that tp gathers or sums around attention, and around the MLP
    keys      keys and values that cp gathers
    routed    numbers of the copies of tokens that go to experts
    vectors   numbers of norms and biases; the last norm and the sinks are spread over layers
    """

    kind: LayerKind
    count: float
    products: tuple[Product, ...]
    attention: Attention
    streamed: tuple[float, float]
    block: float
    keys: float
    routed: float
    vectors: float

    @cached_property
    def flops(self):
        """FLOPs of products with weights, forward."""
        return sum(p.flops for p in self.products)

    @cached_property
    def unread(self):
        """FLOPs of products that are not done again."""
        return sum(p.flops for p in self.products if not p.read)

    @cached_property
    def weights(self):
        """Parameters."""
        return sum(p.weights for p in self.products) + self.vectors

    @cached_property
    def experts(self):
        """Those of experts."""
        return sum(p.weights for p in self.products if p.role == "experts")


@dataclass(frozen=True)
class Operations:
    """A training step of one device.

    rows    tokens of a microbatch that one device has, tp apart
    rounds  microbatches
    layers  of each kind
    head    the unembedding
    table   numbers of the embedding, positions too
    """

    rows: float
    rounds: float
    layers: tuple[Layer, ...]
    head: Product
    table: float

    @cached_property
    def dense(self):
        """Parameters of all layers, but those of experts."""
        return sum(layer.count * (layer.weights - layer.experts) for layer in self.layers)

    @cached_property
    def experts(self):
        """Those of experts."""
        return sum(layer.count * layer.experts for layer in self.layers)

    @cached_property
    def products(self):
        """FLOPs of all layers' products with weights, forward, in one microbatch."""
        return sum(layer.count * layer.flops for layer in self.layers)

    @cached_property
    def unread(self):
        """FLOPs of those of them that are not done again."""
        return sum(layer.count * layer.unread for layer in self.layers)

    def forward(self, count: str = "causal"):
        """FLOPs of all products, the unembedding's too, in one microbatch."""
        return self.products + self.attention(count) + self.head.flops

    def again(self, policy: str, count: str = "causal"):
        """FLOPs that the backward pass does again in one microbatch, but for products that no gradient reads."""
        attention = self.attention(count)
        return {
            "everything": 0.0,
            "matmuls": attention,
            "block": self.products + attention - self.unread,
            "nothing": self.forward(count),
        }[policy]

    def attention(self, count: str = "causal"):
        """FLOPs of all layers' pairs of query and key: those that the mask leaves, "all", or "half"."""
        share = 0.5 if count == "half" else 1.0
        return share * sum(layer.count * layer.attention.flops(count == "causal") for layer in self.layers)


def _attention_products(c: Config, rows, tp) -> list[Product]:
    if c.mla is None:
        kv = maximum(c.K / tp, 1) * c.H
        return [
            Product("projections", rows, c.N / tp * c.H + 2 * kv, c.D),
            Product("projections", rows, c.D, c.N / tp * c.H),
        ]
    m, heads = c.mla, c.N / tp
    down = [] if m.q_rank is None else [Product("projections", rows, m.q_rank, c.D)]
    return [
        *down,
        Product("projections", rows, heads * c.qk, c.D if m.q_rank is None else m.q_rank),
        Product("projections", rows, m.kv_rank + m.rope, c.D),
        Product("projections", rows, heads * (m.nope + m.v), m.kv_rank),
        Product("projections", rows, c.D, heads * m.v),
    ]


def _mlp_products(c: Config, kind: LayerKind, rows, layout: Layout) -> list[Product]:
    wide, tp = c.matrices - 1, layout.tp
    if not kind.moe:
        return [Product("mlp", rows, wide * c.F / tp, c.D), Product("mlp", rows, c.D, c.F / tp)]
    m = c.moe
    here = m.E / (layout.ep * tp)
    each = rows / tp * m.k / here
    out = [
        Product("router", rows / tp, m.E + m.shared_gate, c.D),
        Product("experts", each, wide * m.F, c.D, here),
        Product("experts", each, c.D, m.F, here),
    ]
    if m.shared:
        width = m.shared * m.F / tp
        out += [Product("shared", rows, wide * width, c.D), Product("shared", rows, c.D, width)]
    return out


def _read(c: Config, kind: LayerKind, products: list[Product]) -> tuple[Product, ...]:
    """The products, with those marked that no gradient reads: o is the last of attention, out that of an MLP or of shared experts."""
    roles = {"o": "projections", "out": "mlp", "out of shared": "shared"}
    never = [[i for i, p in enumerate(products) if p.role == roles[name]][-1] for name in unread(c, kind)]
    return tuple(replace(p, read=i not in never) for i, p in enumerate(products))


def _layer(c: Config, kind: LayerKind, count, rows, T, layout: Layout, vectors) -> Layer:
    tp, m = layout.tp, c.moe
    cut = 1 / tp if layout.sequence_parallel else 1.0
    hidden = rows * c.F / tp if not kind.moe else rows / tp * (m.k + m.shared) * m.F
    routed = rows / tp * m.k * c.D if kind.moe else 0.0
    gates = c.matrices - 2
    streamed = tuple(
        of * rows * c.D * cut + (h + g * gates) * hidden + r * routed
        for of, h, g, r in zip(RESIDUAL, HIDDEN, (1, 2), ROUTED)
    )
    width = (c.qk + c.mla.v) / 2 if c.mla else c.H
    latent = c.mla.kv_rank + c.mla.rope if c.mla else 2 * maximum(c.K / tp, 1) * c.H
    products = _attention_products(c, rows, tp) + _mlp_products(c, kind, rows, layout)
    return Layer(
        kind,
        count,
        _read(c, kind, products),
        Attention(rows, c.N / tp, pairs(T, T, kind.window, "causal") / T, T, width, layout.cp),
        streamed,
        rows * c.D,
        rows * layout.cp * latent,
        routed,
        vectors,
    )


def operations(c: Config, layout: Layout, B, T) -> Operations:
    """What one device does in a step of B sequences of T tokens.

    >>> from helpers.costs.transformers.public_models import model
    >>> from helpers.costs.transformers.parameters_and_flops import flops
    >>> c, layout = model("llama-3-8b"), Layout(dp=2, tp=4, pp=2, microbatches=4)
    >>> at = operations(c, layout, B=16, T=4096)
    >>> at.rows, [(p.m, p.n, p.k) for p in at.layers[0].products]
    (8192.0, [(8192.0, 1536.0, 4096), (8192.0, 4096, 1024.0), (8192.0, 7168.0, 4096), (8192.0, 4096, 3584.0)])
    >>> of_all = layout.dp * layout.tp * layout.microbatches                   # of each layer
    >>> of_all * sum(l.count * l.flops for l in at.layers) == sum(flops(c, 16, 4096).by_role[r] for r in ("projections", "mlp"))
    True
    """
    c.check_usual("a training step", "shared_gate")
    rounds, tp, p = layout.microbatches, layout.tp, parameters(c)
    rows = 1.0 * B * T / (layout.shards * layout.cp * rounds)
    vectors = (p.norms + (p.biases + p.sinks) / tp) / c.L
    layers = tuple(_layer(c, kind, n, rows, T, layout, vectors) for kind, n in c.groups)
    head = Product("unembedding", rows, c.V / tp, c.D)
    return Operations(rows, rounds, layers, head, (p.embedding + p.positions) / tp)


def stage_layers(c: Config, layout: Layout):
    """Layers of the fullest stage: all have as many, or else some one more for each of v.

    >>> from helpers.costs.transformers.public_models import model
    >>> [float(stage_layers(model("llama-3.1-405b"), Layout(pp=n))) for n in (1, 14, 16)]
    [126.0, 9.0, 8.0]
    """
    stages = layout.stages
    return where(c.L % stages == 0, c.L / layout.pp, 1.0 * ceil(c.L / stages) * (stages / layout.pp))


def slowest_stage(c: Config, layer, head, layout: Layout):
    """Seconds of the slowest stage, of those of a layer and of the unembedding.

    Where layers do not divide, the stage with the unembedding gets fewer of them.
    """
    most, even = stage_layers(c, layout) * layer, c.L / layout.pp * layer
    return where(c.L % layout.stages == 0, even + head, maximum(most, even + head / layout.pp))


entries(__name__)
