"""Products: of two arrays of any dimensions, and those of a decoder's layer, a mixer and a feed-forward (chapter 3).

Training steps, prefills and decode steps multiply by the same matrices: `step_operations` and `serving_operations` say how many
rows a device has, and how tp and ep cut the matrices. Parameters, FLOPs and bytes of a whole model are passes over
`model_matrices`. B sequences of T tokens, each of which sees S keys; other symbols as in `config`.

Source of `einsum`: Austin et al. 2025, Section 4, "Counting dots".
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from string import ascii_letters

from helpers.arguments import formula, record
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.numeric import ceil, fitting, maximum, minimum, plain

from .config import Config
from .mixers import Heads, LayerKind, Score
from .states import State

USUAL = LayerKind()
READS = {
    "o": "heads", "o_down": "heads", "o_up": "groups", "kv_up": "keys", "q_up": "queries", "index_q": "queries",
    "decay_up": "decays", "z_up": "gates",
}  # fmt: skip
"""The rows that a matrix of a mixer reads; the others read the layer's input."""
HEADS = "q", "q_up", "kv_up", "output_gate"  # matrices with a part for each head, whose columns tp cuts
NARROW = "decay_down", "z_down"  # of a state's mixer, which tp does not cut
QKV = "q", "k", "v"


@record
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


@formula
def mixer_products(
    c: Config, kind: LayerKind, rows, tp, cached=0.0, pad_heads: bool = False, fused: Sequence[str] | None = None
) -> list[Product]:
    """Products with the matrices of a mixer; matrices that are one in memory are one product.

    tp         chips that share heads; KV heads beyond K are copied, and so are latent attention's narrow matrices
    pad_heads  heads of queries that do not divide are padded
    cached     tokens in caches whose keys and values latent attention makes once more, for a piece of a prompt that sees them
    fused      matrices that are one; left out: all that read the same rows, as engines have it

    >>> [(p.n, p.k) for p in mixer_products(model("llama-3-8b"), LayerKind(), 1.0, 16)]
    [(512.0, 4096), (4096, 256.0)]
    """
    shapes: dict = {}
    mixer = c.mixer(kind)
    N = getattr(mixer, "N", 1)
    heads = ceil(N / tp) if pad_heads else N / tp
    idle = idle_matrices(mixer)
    for name, (k, n) in mixer.matrices(c.D).items():
        if name in idle:
            continue
        if isinstance(mixer, State):
            k, n = (k / tp, n) if name == "o" else (k, n) if name in NARROW else (k, n / tp)
        elif isinstance(mixer, Heads) and name in ("k", "v"):
            n = maximum(mixer.K / tp, 1) * (n / mixer.K)
        elif name in ("o", "o_down"):
            k = heads * (k / N)
        elif name in HEADS:
            n = heads * (n / N)
        reads = READS.get(name, "input")
        key = reads if fused is None or name in fused else name
        shapes[key] = reads, k, shapes.get(key, (reads, k, 0))[2] + n
    return [Product("projections", rows + cached if reads == "keys" else rows, n, k) for reads, k, n in shapes.values()]


@formula
def idle_matrices(mixer) -> tuple[str, ...]:
    """Names of matrices that no row meets: an indexer's where an earlier layer has chosen the keys."""
    x = mixer.indexer
    return tuple(x.matrices(1, 1)) if x and not x.chooses else ()


@record
class Routed:
    """What one device multiplies of a layer's experts: rows of the router, rows of each expert, experts that it has, and their F."""

    routed: float
    each: float
    experts: float
    width: float


@formula
def feed_forward_products(c: Config, rows, tp, routed: Routed | None = None, kind: LayerKind = USUAL) -> list[Product]:
    """Products of an MLP whose width tp shares; or, if tokens are routed, of router, experts, and shared experts.

    Experts of narrower rows have two matrices more, which all tokens meet: these count with the shared experts.

    >>> [(p.n, p.k) for p in feed_forward_products(model("llama-3-8b"), 1.0, 8)]
    [(3584.0, 4096), (4096, 1792.0)]
    """
    gated, m = c.matrices - 1, c.moe

    def pair(role, rows, width, D=c.D, groups=1):
        return [Product(role, rows, gated * width, D, groups), Product(role, rows, D, width, groups)]

    if routed is None:
        return [] if kind.F == 0 else pair("mlp", rows, c.width(kind) / tp)
    router = Product("router", routed.routed, m.E + m.shared_gate, c.D)
    ways = [] if m.latent is None else [(m.latent, c.D), (c.D, m.latent)]
    latent = [Product("shared", rows, *sizes) for sizes in ways]
    shared = pair("shared", rows, m.shared_width / tp) if m.shared else []
    return [router, *latent, *pair("experts", routed.each, routed.width, m.row(c.D), routed.experts), *shared]


@record
class Matrices:
    """Weight matrices of one shape: `copies` in each of so many layers, of which `used` multiply a row of k numbers.

    reads  whose rows: those of all new "tokens", of "keys", the ones before them as well, or of the "last" tokens, which are unembedded
    """

    role: str
    k: float
    n: float
    layers: float
    copies: float = 1
    used: float = 1
    reads: str = "tokens"

    @cached_property
    def weights(self):
        """Numbers in all of them."""
        return self.layers * self.copies * (self.k * self.n)

    @cached_property
    def met(self):
        """Those that a token is multiplied with."""
        return self.layers * self.used * (self.k * self.n)


@formula
def model_matrices(c: Config, absorbed: bool = False) -> list[Matrices]:
    """All matrices of a model that multiply rows of tokens, by role; those of one role and shape are one entry.

    absorbed  latent attention's `kv_up` as its two halves: one makes queries latent, the other takes results out of the latent space

    >>> sum(x.weights for x in model_matrices(model("llama-3-8b"))), [x.used for x in model_matrices(model("mixtral-8x7b"))][5:]
    (7504658432, [6, 0, 1, 1])
    """
    out = []
    for kind, layers in c.mixers:
        mixer = c.mixer(kind)
        idle = idle_matrices(mixer)
        for name, (k, n) in mixer.matrices(c.D).items():
            if name == "kv_up" and absorbed:
                m, N = mixer.mla, mixer.N
                halves = (m.nope, m.kv_rank), (m.kv_rank, m.v)
                out += [Matrices("projections", *half, layers, N, N) for half in halves]
            else:
                reads = "keys" if name == "kv_up" else "tokens"
                out.append(Matrices("projections", k, n, layers, 1, 0 if name in idle else 1, reads))
    moe, each, mixed = c.moe, c.matrices, sum(n for kind, n in c.groups if kind.moe)
    dense = Counter(c.width(kind) for kind in c.layers if not kind.moe and kind.F != 0)
    widths = dense.items() if c.layers else [(c.F, c.L - mixed)]
    out += [Matrices("mlp", c.D, F, layers, each, each) for F, layers in widths]
    if moe:
        wide = moe.F if moe.shared_F is None else moe.shared_F
        out += [
            Matrices("experts", moe.row(c.D), moe.F, mixed, each * moe.E, each * moe.k),
            Matrices("shared", c.D, wide, mixed, each * moe.shared, each * moe.shared),
            Matrices("router", c.D, moe.E + moe.shared_gate, mixed),
        ]
        out += [Matrices("shared", c.D, moe.latent, mixed, 2, 2)] if moe.latent else []
    return [*out, Matrices("unembedding", c.D, c.V, 1, reads="last")]


@formula
def keys_read(c: Config, B, T, S, absorbed):
    """Numbers of keys and values, or of latent vectors, that all layers read."""

    def reach(x: Score):
        seen = S if x.window is None else minimum(S, x.window + T - 1)
        seen = seen if x.top is None else minimum(S, T * x.most)
        return seen if x.every == 1 else seen / x.every

    return B * fitting(sum(n * reach(x) * x.read for x, n in all_scores(c, absorbed)))


@formula
def all_scores(c: Config, absorbed: bool = False) -> list[tuple]:
    """What tokens look at in all layers: (`Score`, layers that have it)."""
    return [(x, n) for kind, n in c.groups if not kind.linear for x in c.mixer(kind).scores(kind.window, absorbed)]


@record
class Einsum:
    """A product of two arrays, with its letters sorted by what happens to them.

    batch       in both arrays and in the result
    contracted  in both arrays, summed over
    free        in one array and in the result
    """

    batch: str
    contracted: str
    free: str
    flops: float


@formula
def einsum(equation: str, *shapes: Sequence[int]) -> Einsum:
    """FLOPs of `jnp.einsum(equation, A, B)`: twice the product of all sizes, each letter once.

    >>> einsum("np,pm->nm", (3, 5), (5, 7)).flops
    210
    >>> e = einsum("bij,bjk->bik", (4, 64, 32), (4, 32, 16))
    >>> e.batch, e.contracted, e.free, e.flops == 2 * 4 * 64 * 32 * 16
    ('b', 'j', 'ik', True)
    >>> einsum("ijkl,ijmno->klmno", (2, 3, 4, 5), (2, 3, 6, 7, 8)).flops == 2 * 2 * 3 * 4 * 5 * 6 * 7 * 8
    True
    """
    operands, _, out = equation.replace(" ", "").partition("->")
    names = operands.split(",")
    if "->" not in equation or len(names) != 2 or len(shapes) != 2:
        raise ValueError(
            f"an einsum of two arrays reads 'ij,jk->ik' and takes two shapes, got {equation!r} and {len(shapes)}"
        )
    size = {}
    for letters, shape in zip(names, shapes):
        if len(letters) != len(shape) or len(set(letters)) != len(letters) or letters.strip(ascii_letters):
            raise ValueError(f"{letters!r} names each dimension of {tuple(shape)} by a letter of its own")
        for letter, n in zip(letters, shape):
            if letter in size and plain(n, size[letter]) and size[letter] != n:
                raise ValueError(f"{letter!r} is {size[letter]} in one array and {n} in the other")
            size[letter] = n
    a, b = map(set, names)
    alone = (a ^ b) - set(out)
    if alone or not set(out) <= a | b or len(set(out)) != len(out):
        raise ValueError(
            f"in {equation!r} a letter of the result stands in an array, and a letter of one array only stands in the result"
        )
    sort = lambda letters: "".join(sorted(letters))  # noqa: E731
    return Einsum(sort(a & b & set(out)), sort((a & b) - set(out)), sort(a ^ b), 2 * prod(size.values()))


@formula
def backward(equation: str) -> tuple[str, str]:
    """The two products that give the gradients of Y = einsum(equation, A, B): dA from (dY, B), and dB from (A, dY).

    Each has the letters of the first, so as many FLOPs: a training step does three times the forward pass.

    >>> backward("np,pm->nm")           # dA = dY · Bᵀ, dB = Aᵀ · dY
    ('nm,pm->np', 'np,nm->pm')
    """
    operands, _, out = equation.replace(" ", "").partition("->")
    if operands.count(",") != 1:
        raise ValueError(f"an einsum of two arrays reads 'ij,jk->ik', got {equation!r}")
    a, b = operands.split(",")
    return f"{out},{b}->{a}", f"{a},{out}->{b}"


@formula
def sharded_flops(A: str, B: str, sizes: Mapping[str, int], mesh: Mesh) -> tuple[float, float]:
    """FLOPs of A[I_X, J_Y] · B[J_Y, K] over the whole mesh, and on each device.

    A mesh axis that cuts none of the letters makes every device along it do the same work again.

    >>> mesh = Mesh({"X": 4, "Y": 8, "Z": 4})
    >>> total, each = sharded_flops("A[B_X, D_Y]", "W[D_Y, F]", dict(B=64, D=64, F=64), mesh)
    >>> total == 2 * 64**3 * 4, each == 2 * 64**3 / (4 * 8)
    (True, True)
    """
    a, b = parse(A), parse(B)
    cut = dict(zip(a.dims, a.axes))
    for letter, axes in zip(b.dims, b.axes):
        if cut.setdefault(letter, axes) != axes:
            one, other = "".join(cut[letter]) or "nothing", "".join(axes) or "nothing"
            raise ValueError(f"{letter} is cut over {one} in {A} and over {other} in {B}: cut it alike")
    used = [axis for axes in cut.values() for axis in axes]
    if len(set(used)) != len(used):
        raise ValueError(f"{A} times {B} uses one mesh axis for two letters: each device would lack most of its pairs")
    if missing := [letter for letter in cut if letter not in sizes]:
        raise ValueError(f"give the size of {missing[0]}: {A} times {B} has {', '.join(cut)}")
    each = 2 * prod(sizes[letter] for letter in cut) / mesh.size(used)
    return each * mesh.devices, each
