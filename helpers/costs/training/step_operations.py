"""What one device does in a training step under a `Layout`: products, attention, streams and collectives, in one list (chapter 4).

Of each kind of layer, for one microbatch: the matrix products with their sizes, attention, the arrays that norms and
activation functions read and write, and every collective with its bytes and how often it runs. FLOPs, memory, what is sent,
floors at published rates and the estimate are passes over this list; nothing of a layer is said anywhere else. A backward pass
has two products for each of the forward pass, with the same three sizes in another order.

tp shares heads, F and the vocabulary; KV heads beyond K are copied, and so are latent attention's narrow matrices. Experts are
not cut: of a group of ep·tp devices each has its share of them, and of the tokens, which tp has cut before.

Passes over arrays are counted by hand from Megatron-LM's layer (Narayanan et al. 2021; Korthikanti et al. 2022).
"""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

from helpers.arguments import formula, record
from helpers.costs.sharding.collective_prices import Group, domains_reached
from helpers.costs.transformers.config import UNUSUAL, Config
from helpers.costs.transformers.layer_products import (
    QKV,
    Product,
    Routed,
    feed_forward_products,
    mixer_products,
    model_matrices,
)
from helpers.costs.transformers.mixers import LayerKind, NoMixer
from helpers.costs.transformers.parameters_and_flops import pairs, parameters
from helpers.costs.transformers.training_memory_bytes import unread, up_projections
from helpers.numeric import maximum, minimum, plain, where

from .layout import Layout
from .layout_set import stage_layers

RESIDUAL = 11, 22  # arrays of D numbers a token, forward and backward: two norms, dropouts and additions read or write
HIDDEN = 2, 3  # arrays of F numbers: an activation function; each gated matrix brings one more, backward two
SCORES = 6, 10  # arrays of T·S numbers a head, where attention keeps them: products, softmax, dropout
ROUTED = 4, 8  # arrays of D numbers for each copy of a token: put in its expert's place, and back


@record
class Attention:
    """Queries times keys, softmax, and shares times values, of one device.

    rows    queries
    heads   of one device
    keys    that a query looks at, on average; `every` if none is hidden
    width   of a head, as the mean of a key's and a value's
    hops    kernels that do it, each on a chip's share of the keys, as cp's ring brings it
    cached  numbers of keys and values of one token, which that ring sends on
    """

    rows: float
    heads: float
    keys: float
    every: float
    width: float
    hops: float = 1.0
    cached: float = 0.0

    def flops(self, masked: bool = True):
        """FLOPs forward: of the pairs that the mask leaves, or of all."""
        return 4 * self.rows * self.heads * self.width * (self.keys if masked else self.every)

    @cached_property
    def scores(self):
        """Numbers in the T·S arrays of all heads."""
        return self.rows * self.heads * self.every


@record
class Send:
    """A collective of one device, whatever it is priced with.

    axes     of the layout; several are gathered over together
    role     "weights", "gradients" or "activations", "keys" for keys and values, "tokens" on the way to experts
    bytes    of the array on one device where it is whole along the axes (all shards together for an AllToAll)
    forward, backward  times that it runs in a microbatch's pass
    update   times that it runs at a step's end
    again    times more in the backward pass, by policy
    hides    nothing waits for it, so it can run beside the products
    copies   of a token among what an AllToAll sends
    nodes    domains that they go to, at most; 0 as many as chance gives
    """

    kind: str
    axes: tuple[str, ...]
    role: str
    bytes: float
    forward: float = 0
    backward: float = 0
    update: float = 0
    again: Mapping[str, float] = field(default_factory=dict)
    hides: bool = True
    copies: float = 1
    nodes: int = 0

    def reached(self, group: Group):
        """Domains that the copies of a token go to, of those of a group; None where chance alone says."""
        return minimum(self.nodes, domains_reached(self.copies, group.domains)) if self.nodes else None

    @property
    def runs(self) -> bool:
        """Whether it runs at all, as far as can be seen: counts of arrays of layouts differ."""
        counts = self.forward, self.backward, self.update, *self.again.values()
        return not plain(*counts) or any(counts)

    def passes(self, policy: str) -> tuple:
        """Times in the forward and in the backward pass."""
        return self.forward, self.backward + self.again.get(policy, 0)


@record
class Held:
    """Parameters of a device before fsdp and zero share them; `dense` are all but experts."""

    dense: float
    experts: float

    def share(self, layout: Layout, zero_shares=True):
        """Those that it keeps: fsdp shares all of them, and zero among chips that would have the same, if it shares these."""
        copies, ep = where(zero_shares, layout.dp * layout.cp, 1), where(zero_shares, layout.ep, 1)
        return (self.dense / (copies * ep) + self.experts / copies) / layout.fsdp


@record
class Layer:
    """One layer of a kind on one device, for one microbatch; numbers of two are forward and backward.

    count     layers of this kind in the model
    streamed  numbers that norms, activation functions and sorting of tokens read or write
    held      its parameters; the last norm and the sinks are spread over layers
    sends     its collectives, whose weights bring the tables of the vocabulary along, spread over a stage's layers
    latent    FLOPs of up-projections, which "selective" does again
    """

    kind: LayerKind
    count: float
    products: tuple[Product, ...]
    attention: Attention
    streamed: tuple[float, float]
    held: Held
    sends: tuple[Send, ...]
    latent: float

    @cached_property
    def flops(self):
        """FLOPs of products with weights, forward."""
        return sum(p.flops for p in self.products)

    @cached_property
    def unread(self):
        """FLOPs of products that are not done again."""
        return sum(p.flops for p in self.products if not p.read)


@record
class Operations:
    """A training step of one device.

    rows    tokens of a microbatch that one device has, tp apart
    rounds  microbatches
    layers  of each kind
    head    the unembedding
    table   numbers of the embedding, positions too
    held    parameters of the fullest device
    handed  what a stage of a pipeline sends to the next one in each microbatch
    pods    the sum of gradients over pods, at the end; none if there is one pod
    """

    rows: float
    rounds: float
    layers: tuple[Layer, ...]
    head: Product
    table: float
    held: Held
    handed: tuple[Send, ...]
    pods: tuple[Send, ...]

    @property
    def keyed(self) -> Attention:
        """Attention of the first kind of layer that looks at keys; of the first of all if none does."""
        looks = (n for n in self.layers if not n.kind.linear and not isinstance(n.kind.mixer, NoMixer))
        return next(looks, self.layers[0]).attention

    @cached_property
    def products(self):
        """FLOPs of all layers' products with weights, forward, in one microbatch."""
        return sum(layer.count * layer.flops for layer in self.layers)

    def attention(self, count: str = "causal"):
        """FLOPs of all layers' pairs of query and key: those that the mask leaves, "all", or "half"."""
        half = lambda layer: 0.5 if count == "half" and not layer.kind.linear else 1.0  # noqa: E731
        return sum(half(n) * n.count * n.attention.flops(count == "causal") for n in self.layers)

    def forward(self, count: str = "causal") -> tuple:
        """FLOPs in one microbatch: of products with weights, of pairs of query and key, of the unembedding."""
        return self.products, self.attention(count), self.head.flops

    def again(self, policy: str, count: str = "causal") -> tuple:
        """Those of the same that the backward pass does again, but for products that no gradient reads."""
        products, attention, head = self.forward(count)
        never = sum(layer.count * layer.unread for layer in self.layers)
        return {
            "everything": (0.0, 0.0, 0.0),
            "selective": (sum(layer.count * layer.latent for layer in self.layers), 0.0, 0.0),
            "matmuls": (0.0, attention, 0.0),
            "block": (products - never, attention, 0.0),
            "nothing": (products, attention, head),
        }[policy]


@formula
def operations(c: Config, layout: Layout, B, T) -> Operations:
    """What one device does in a step of B sequences of T tokens.

    >>> from helpers.costs.transformers.parameters_and_flops import flops
    >>> c, layout = model("llama-3-8b"), Layout(dp=2, tp=4, pp=2, microbatches=4)
    >>> listed = operations(c, layout, B=16, T=4096)
    >>> listed.rows, [(p.m, p.n, p.k) for p in listed.layers[0].products]
    (8192.0, [(8192.0, 1536.0, 4096), (8192.0, 4096, 1024.0), (8192.0, 7168.0, 4096), (8192.0, 4096, 3584.0)])
    >>> of_all = layout.dp * layout.tp * layout.microbatches                   # of each layer
    >>> of_all * listed.products == sum(flops(c, 16, 4096).by_role[r] for r in ("projections", "mlp"))
    True
    >>> [(x.kind, x.axes, x.forward, x.backward) for x in listed.layers[0].sends][:2]
    [('AllGather', ('tp',), 2, 2), ('ReduceScatter', ('tp',), 2, 2)]
    """
    c.check_usual("a training step", *(n for n in UNUSUAL if n != "gemma3n"))
    p, rows = parameters(c), 1.0 * B * T / (layout.shards * layout.cp * layout.microbatches)
    head, table = Product("unembedding", rows, c.V / layout.tp, c.D), (p.embedding + p.positions) / layout.tp
    tables = where(layout.pp == 1, table + (0 if c.tied else head.weights), maximum(table, head.weights))
    projections = sum(x.weights for x in model_matrices(c) if x.role == "projections" and x.used)
    small = p.norms + p.added + p.attention - projections  # convolutions, and what stands idle
    vectors, stage = (small + (p.biases + p.sinks) / layout.tp) / c.L, stage_layers(c, layout)
    layers = tuple(_layer(c, kind, n, rows, T, layout, vectors, tables / stage) for kind, n in c.groups)
    dense = stage / c.L * sum(layer.count * layer.held.dense for layer in layers)
    held = Held(dense + tables, stage / c.L * sum(layer.count * layer.held.experts for layer in layers))
    # Over pods each device sums what it keeps of its slice's gradients with its like.
    sums = Send("AllReduce", ("pods",), "gradients", layout.stored.gradient * held.share(layout), update=1)
    pods = () if plain(layout.pods) and layout.pods == 1 else (sums,)
    return Operations(rows, layout.microbatches, layers, head, table, held, _handed(c, layout, rows), pods)


def _layer(c: Config, kind: LayerKind, count, rows, T, layout: Layout, vectors, tables) -> Layer:
    tp, m = layout.tp, c.moe
    cut = 1 / tp if layout.sequence_parallel else 1.0
    hidden = rows * c.width(kind) / tp if not kind.moe else rows / tp * (m.k * m.F + m.shared_width)
    routed = rows / tp * m.k * m.row(c.D) if kind.moe else 0.0
    gates = c.matrices - 2
    streamed = tuple(
        kind.parts / 2 * residual * rows * c.D * cut + (h + g * gates) * hidden + r * routed
        for residual, h, g, r in zip(RESIDUAL, HIDDEN, (1, 2), ROUTED)
    )
    attention = _attention(c, kind, rows, T, layout)
    experts = None
    if kind.moe:  # tp has cut the tokens before the router, and no expert
        mine = m.E / (layout.ep * tp)
        experts = Routed(rows / tp, rows / tp * m.k / mine, mine, m.F)
    products = mixer_products(c, kind, rows, tp, fused=QKV) + feed_forward_products(c, rows, tp, experts, kind)
    in_experts = sum(p.weights for p in products if p.role == "experts")
    held = Held(sum(p.weights for p in products) + vectors - in_experts, in_experts)
    keys = layout.stored.activation * (rows * layout.cp * attention.cached)
    sends = (
        *_blocks(c, layout, kind, rows),
        Send("AllGather", ("cp",), "keys", keys, 1, 1, 0, {"block": 1, "nothing": 1}),  # they go round the ring
        Send("ReduceScatter", ("cp",), "keys", keys, 0, 1),  # and their gradients come back
        *(_tokens(c, layout, routed) if kind.moe else ()),
        *_weights(layout, held.dense + tables, ("cp", "ep", "dp")),
        *(_weights(layout, held.experts, ("cp", "dp")) if kind.moe else ()),
    )
    up = rows / tp * up_projections(c, kind)
    return Layer(kind, count, _read(c, kind, products), attention, streamed, held, sends, up)


def _attention(c: Config, kind: LayerKind, rows, T, layout: Layout) -> Attention:
    """Attention of a layer; what an indexer, or a second set of keys, adds is counted as more keys of the first.

    A state is priced as attention of its heads to as many keys as have its FLOPs: 3/2 of a key's width, of 2 FLOPs a multiply-add.
    """
    mixer, tp = c.mixer(kind), layout.tp
    if kind.linear:
        keys = mixer.adds * mixer.state / (2 * mixer.heads * mixer.value)
        passed = 2 * mixer.state / tp / T  # on to the next chip of cp once a sequence, in float32
        return Attention(rows, mixer.heads / tp, keys, keys, mixer.value, layout.cp, passed)
    if not (scores := mixer.scores(kind.window)):
        return Attention(rows, 0.0, 1.0, 1.0, 1.0)
    first, seen, every, cached = scores[0], 0.0, 0.0, 0.0
    for x in scores:
        more = 1.0 if x is first else x.heads * (x.query + x.result) / (first.heads * (first.query + first.result))
        seen, every = seen + more * (pairs(T, T, x.most, "causal") / x.every), every + more * T / x.every
        cached = cached + (x.cached if x.K is None else x.cached / x.K * maximum(x.K / tp, 1)) / x.every
    return Attention(rows, first.heads / tp, seen / T, every, (first.query + first.result) / 2, layout.cp, cached)


def _read(c: Config, kind: LayerKind, products: list[Product]) -> tuple[Product, ...]:
    """The products, with those marked that no gradient reads: o is the last of attention, out that of an MLP or of shared experts."""
    roles = {"o": "projections", "out": "mlp", "out of shared": "shared"}
    never = [[i for i, p in enumerate(products) if p.role == roles[name]][-1] for name in unread(c, kind)]
    return tuple(replace(p, read=i not in never) for i, p in enumerate(products))


def _blocks(c: Config, layout: Layout, kind: LayerKind, rows) -> tuple[Send, ...]:
    """What tp sends around attention and around an MLP or shared experts.

    With sequence parallelism an AllGather of In and a ReduceScatter of Out, and each is the other's gradient: g and its
    conjugate of "Reducing Activation Recomputation" (2022). Without it, f and its conjugate: all of In is there, and an
    AllReduce sums Out forward and In's gradient backward; of experts, whose tokens tp has cut, it puts Out together.
    """
    size, tp = layout.stored.activation * (rows * c.D), ("tp",)
    mixes, feeds = not isinstance(kind.mixer, NoMixer), kind.moe or kind.F != 0
    dense = feeds and (not kind.moe or c.moe.shared > 0 or not layout.sequence_parallel)
    n = 1 if c.parallel else mixes + dense
    # Again: all of the forward pass; or of each layer attention, whose Out the MLP reads, once it is gathered.
    late, out = (0, 0) if c.parallel else (n - 1, 1) if n else (0, 0)
    again = {"block": out, "nothing": n}
    if not layout.sequence_parallel:
        return (Send("AllReduce", tp, "activations", size, n, n, 0, again, hides=False),)
    return (
        Send("AllGather", tp, "activations", size, n, n, 0, {"block": late, "nothing": n}, hides=False),
        Send("ReduceScatter", tp, "activations", size, n, n, 0, again, hides=False),
        Send("AllGather", tp, "activations", size, 0, n, 0, {"block": -late}),  # In again: no gradient waits for it
    )


def _tokens(c: Config, layout: Layout, routed) -> tuple[Send, ...]:
    """Tokens go to their experts and back, and so do gradients; what came is kept, and as many numbers that went back are not."""
    size, again = layout.stored.activation * routed * layout.ep * layout.tp, {"block": 2, "nothing": 2}
    hides = layout.overlaps_experts
    return (Send("AllToAll", ("tp", "ep"), "tokens", size, 2, 2, 0, again, hides, c.moe.k, layout.nodes),)


def _weights(layout: Layout, numbers, copies: tuple[str, ...]) -> tuple[Send, ...]:
    """Weights under fsdp, and under zero=3 those that are copied along other axes: gathered for each pass, gradients scattered; or, in
    a pipeline, both once a step, since frameworks keep weights and gradients whole over its microbatches.

    Otherwise gradients are summed over the copies, at the end, or with zero=2 after every microbatch; after pp of them where a device
    has several stages, since it computes one for pp microbatches before it turns to the next. Weights are sent in the
    type that products read, and so are a microbatch's gradients; sums at a step's end in the type in which gradients are stored.
    """
    z, whole = layout.zero, (*copies[:-1], "fsdp", "dp")
    size, stored = min(layout.stored.weight, layout.stored.activation) * numbers, layout.stored.gradient
    gathers = []
    for axes, on in ((("fsdp",), z < 3), (whole, z == 3)):
        each, once = on * where(layout.pp > 1, 0, 1), on * where(layout.pp > 1, 1, 0)
        gathers.append(Send("AllGather", axes, "weights", size, each, each, once, {"nothing": each}))
        gathers.append(Send("ReduceScatter", axes, "gradients", size, 0, each, once))
    # What is not kept is sent all the same.
    sums = where(stored > 0, stored, layout.stored.weight) * (numbers / layout.fsdp)
    return (
        *gathers,
        Send("AllReduce", copies, "gradients", sums, update=1 * (z == 0)),
        Send("ReduceScatter", copies, "gradients", sums, 0, (z == 2) / where(layout.v > 1, layout.pp, 1), 1 * (z == 1)),
        Send("AllGather", copies, "weights", size / layout.fsdp, update=1 * ((z == 1) | (z == 2))),
    )


def _handed(c: Config, layout: Layout, rows) -> tuple[Send, ...]:
    """A device between two others hands on v activations of each microbatch: each chip of tp its share of them.

    Without sequence parallelism the next stage puts the shares together (Narayanan et al. 2021, "scatter/gather").
    """
    whole, n = layout.stored.activation * rows * c.D, layout.stages / layout.pp * (layout.pp > 1)
    share = Send("Permute", ("pp",), "activations", whole / layout.tp, n, n)
    if layout.sequence_parallel:
        return (share,)
    return share, Send("AllGather", ("tp",), "activations", whole, n, n, hides=False)
