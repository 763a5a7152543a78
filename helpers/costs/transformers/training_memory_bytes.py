"""What a training step keeps for its backward pass, and what it computes twice to keep less (chapter 3).

Policies, from the most bytes held between the two passes to the least:

    everything   all that the backward pass reads, each array once: the least; plain JAX keeps about twice as much
    matmuls      of each layer its input and the outputs of the products with weights; attention's T·S weights again
    block        of each layer its input; the layer again
    nothing      the tokens; the whole forward pass again, which then keeps everything: it saves no memory by itself

Frameworks have one between the first two, "selective": norms, activation functions and latent attention's up-projections again,
as DeepSeek-V3 did (DeepSeek-AI 2024, section 3.2.3) and Megatron-LM's `--recompute-modules` do.

Source: Austin et al. 2025, Section 4, "Gradient checkpointing"; Chen et al., "Sublinear Memory Cost" (2016).
"""

from helpers.arguments import formula, record

from .config import UNUSUAL, Config
from .layer_products import idle_matrices
from .mixers import LayerKind
from .parameters_and_flops import flops, parameters

POLICIES = ("everything", "matmuls", "block", "nothing")
POLICY_NAMES = (*POLICIES, "selective")  # all that a layout may name; a search tries those of chapter 3 alone
UP = "q_up", "kv_up"  # products whose columns are of all heads, from a latent


@formula
def known(policy: str) -> None:
    """ValueError if nobody knows a policy of that name."""
    if policy not in POLICY_NAMES:
        raise ValueError(f"{policy!r} is no policy: there are {', '.join(POLICY_NAMES)}")


@formula
def products(c: Config, kind: LayerKind) -> dict[str, float]:
    """Numbers that each product with weights gives for one token, in a layer of that kind.

    >>> products(Config(8, 1, 4, 2, 2, 32, 10), LayerKind())
    {'q': 8, 'k': 4, 'v': 4, 'o': 8, 'gate': 32, 'in': 32, 'out': 8}
    """
    c.check_usual("this list of arrays that a layer keeps", *(n for n in UNUSUAL if n != "gemma3n"))
    idle = idle_matrices(c.mixer(kind))
    attention = {name: b for name, (_, b) in c.mixer(kind).matrices(c.D).items() if name not in idle}
    gate, F = ("gate",) if c.gated else (), c.width(kind)
    if not kind.moe:
        return attention | (dict.fromkeys(gate, F) | {"in": F, "out": c.D} if kind.F != 0 else {})
    m = c.moe
    out = attention | {"router": m.E + m.shared_gate}
    if m.latent:
        out |= {"rows of experts": m.latent, "result of experts": c.D}
    for of, n, wide, D in (("experts", m.k, m.k * m.F, m.row(c.D)), ("shared", m.shared, m.shared_width, c.D)):
        if of == "experts" or m.shared:
            out |= {f"{name} of {of}": wide for name in (*gate, "in")} | {f"out of {of}": n * D}
    return out


@formula
def unread(c: Config, kind: LayerKind) -> tuple[str, ...]:
    """Products whose results only add to the layer's output: no gradient reads them, so none is kept or computed again.

    A norm after the product (4 norms a layer) reads it, and so do the shares of experts, and the gate of a shared one.

    >>> unread(Config(8, 1, 4, 4, 2, 32, 10), LayerKind()), unread(Config(8, 1, 4, 4, 2, 32, 10, parallel=True), LayerKind())
    (('out',), ('o', 'out'))
    """
    shared = kind.moe and c.moe.shared and not c.moe.shared_gate
    alone = kind.F == 0 and not kind.moe
    last = None if alone else "out" if not kind.moe else "out of shared" if shared else None
    o = ("o",) if c.parallel or alone else ()
    return (*o, *((last,) if last else ())) if c.norms < 4 else ()


@formula
def arrays(c: Config, kind: LayerKind, policy: str, S) -> dict[str, float]:
    """Numbers that one layer keeps for one token that looks at S keys, array by array.

    "everything" lists what the formulas need, each array once; a compiler keeps some in two forms, or makes some again.

    >>> c = Config(8, 1, 4, 2, 2, 32, 10)
    >>> [sum(arrays(c, LayerKind(), p, S=16).values()) for p in POLICIES]
    [216, 96, 8, 0]
    """
    known(policy)
    if policy == "nothing":
        return {}
    if policy == "block":
        return {"input": c.D}
    never = unread(c, kind)
    never = (*never, "o_up") if "o" in never else never
    kept = {name: n for name, n in products(c, kind).items() if name not in never}
    if policy == "matmuls":
        return {"input": c.D} | kept
    mixer, m = c.mixer(kind), c.moe
    if kind.linear:
        mixed = {"convolved": mixer.channels, "heads": mixer.heads * mixer.value}
    else:
        N = getattr(mixer, "N", 0)
        mixed = {"shares": N * S, "heads": N * mixer.value}
    if not kind.moe:
        hidden = {"hidden": c.width(kind)}
    else:
        hidden = {"hidden of experts": m.k * m.F} | ({"hidden of shared": m.shared_width} if m.shared else {})
    normed = {"first norm": c.D} if c.norms == 1 or kind.parts == 1 else {"first norm": c.D, "second norm": c.D}
    again = (*normed, *hidden, *UP) if policy == "selective" else ()
    return {name: n for name, n in ({"input": c.D} | normed | kept | mixed | hidden).items() if name not in again}


@formula
def up_projections(c: Config, kind: LayerKind):
    """FLOPs for one token of latent attention's matrices that lead up to heads."""
    return sum(2 * a * b for name, (a, b) in c.mixer(kind).matrices(c.D).items() if name in UP)


@formula
def saved(c: Config, B, T, policy: str, bytes_each=2):
    """Bytes that the layers keep from the forward pass of B sequences of T tokens; embedding and logits come on top.

    >>> [round(saved(model("llama-3-8b"), 1, 8192, p) / 1e9, 1) for p in POLICIES]
    [173.9, 22.5, 2.1, 0.0]
    """
    each = sum(n * sum(arrays(c, kind, policy, T).values()) for kind, n in c.groups)
    return B * T * bytes_each * each


@formula
def recomputed(c: Config, B, T, policy: str, count="all"):
    """FLOPs of matrix products that the backward pass does again: for "matmuls" queries times keys and their shares times
    values, 4·B·T²·N·H a layer.

    >>> c = Config(64, 3, 4, 4, 16, 256, 100)
    >>> recomputed(c, 2, 32, "matmuls") == 3 * 4 * 2 * 32**2 * 4 * 16
    True
    >>> f = flops(c, 2, 32)
    >>> recomputed(c, 2, 32, "block") == f.layers - 3 * 2 * 2 * 32 * 64 * 256      # all but the last product
    True
    """
    known(policy)
    f = flops(c, B, T, count=count)
    if policy == "everything":
        return 0
    if policy == "selective":
        return B * T * sum(n * up_projections(c, kind) for kind, n in c.groups)
    if policy == "matmuls":
        return f.attention
    if policy == "nothing":
        return f.forward

    def rows(kind, name):
        if name == "o":
            return list(c.mixer(kind).matrices(c.D).values())[-1][0]
        return c.width(kind) if name == "out" else c.moe.shared_width

    return f.layers - sum(n * (2 * B * T * rows(kind, name) * c.D) for kind, n in c.groups for name in unread(c, kind))


@formula
def train_flops(c: Config, B, T, policy: str = "everything", count="all"):
    """FLOPs of a training step: forward, backward, and what is done again. Short contexts: 6ND, or about 8ND with "block".

    >>> c = Config(4096, 32, 32, 32, 128, 16384, 32000)
    >>> [round(train_flops(c, 1, 512, p) / parameters(c).matmul / 512, 2) for p in POLICIES]
    [6.09, 6.12, 7.6, 8.12]
    """
    return flops(c, B, T, count=count).train + recomputed(c, B, T, policy, count)


@record
class Memory:
    """Bytes of a training step by role.

    optimizer    state that lives as long as the weights
    activations  what the layers keep from the forward pass
    logits       of all tokens, in float32, which the loss keeps
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def total(self):
        """All of them, on one device or over all that share them evenly."""
        return sum(vars(self).values())


@formula
def training_memory(c: Config, B, T, policy: str = "block", weight=2, gradient=2, state=8, activation=2) -> Memory:
    """Bytes to train on B sequences of T tokens at once, from bytes for each number.

    state  of the optimizer for each parameter: 8 for Adam's two float32 moments, 12 with a float32 copy of the weights

    >>> m = training_memory(model("llama-2-13b"), 1, 4096)
    >>> round(m.weights / 1e9), round(m.optimizer / 1e9), round((m.weights + m.optimizer) / 1e9)
    (26, 104, 130)
    """
    N = parameters(c).total
    peak = "everything" if policy == "nothing" else policy  # the second forward pass keeps all of it
    return Memory(weight * N, gradient * N, state * N, saved(c, B, T, peak, activation), 4 * B * T * c.V)
