"""What a decoder is made of: one record for GPT-2, Llama, Gemma, Mixtral, DeepSeek and their kin (chapter 3).

Symbols: D model width, L layers, N query heads, K KV heads, G = N/K, H width of a head, F width of the MLP, V vocabulary;
E experts of which a token uses k.
Sizes may be arrays or tracers, which are not checked; plain numbers are checked where the record is made.
"""

from collections import Counter
from dataclasses import field, replace
from math import lcm
from os import PathLike
from typing import Literal

from helpers.arguments import record, whole
from helpers.numeric import plain

from . import hf_families
from .mixers import MLA, Gemma3n, Heads, Indexer, Latent, LayerKind
from .states import Linear, Mixer

NORMS = {"rms": 1, "layer": 2, "layer-no-bias": 1, "none": 0}  # parameters for each element normalised
BIASES = ("qkv", "o", "mlp", "router", "unembed")
UNUSUAL = {
    "linear": "a layer of linear attention",
    "indexer": "an indexer of keys",
    "shared_kv": "a KV cache that several layers read",
    "output_gate": "a gate on the output of attention",
    "shared_gate": "a gate on shared experts",
    "gemma3n": "an AltUp of streams, with LAuReL and per-layer embeddings",
    "layers": "a list of layers, with mixers of several kinds",
}


@record
class MoE:
    """Experts in place of the MLP.

    E            experts, each an MLP of width F
    k            experts that a token goes to
    shared       experts, of the same width, that every token goes to besides
    first_dense  layers at the start that keep a dense MLP
    every        after these, the n-th, 2n-th, … layer of the model has experts, the others a dense MLP
    shared_gate  whether what the shared experts give is multiplied with a number of the token's, of D weights
    latent       width of the rows that the experts see, which one matrix makes of the D and another brings back; None: D
    shared_F     width of a shared expert; None: F
    """

    E: int
    k: int
    F: int
    shared: int = 0
    first_dense: int = 0
    every: int = 1
    shared_gate: bool = field(default=False, repr=False)
    latent: int | None = field(default=None, repr=False)
    shared_F: int | None = field(default=None, repr=False)

    def __post_init__(self):
        whole(E=self.E, k=self.k, F=self.F, every=self.every)
        whole(0, shared=self.shared, first_dense=self.first_dense)
        if plain(self.E, self.k) and self.k > self.E:
            raise ValueError(f"a token cannot go to k={self.k} of E={self.E} experts: k is at most E")
        if self.shared_gate and plain(self.shared) and not self.shared:
            raise ValueError("shared_gate is for shared experts: give shared, or leave the gate out")

    @property
    def shared_width(self):
        """Width of all shared experts together."""
        return self.shared * (self.F if self.shared_F is None else self.shared_F)

    def row(self, D):
        """Width of the rows that the experts see."""
        return D if self.latent is None else self.latent


@record(signed="source")
class Config:
    """A decoder.

    H           width of a head; None: D/N
    gated       an MLP of three matrices (two of them multiplied together), or of two
    tied        the unembedding is the embedding, transposed
    norm        "rms" (a scale), "layer" (scale and shift), "layer-no-bias" (a scale), "none" (no parameters)
    norms       norms of width D in a layer: 2; after attention and MLP too: 4; one for a parallel block that shares it: 1
    qk_norm     "head": one norm of width H for queries, one for keys; "full": of widths NH and KH; "": none
    biases      where vectors are added: any of "qkv", "o", "mlp" (experts too), "router", "unembed"
    positions   rows of a learned table of positions; 0: none (rotary and the like have no parameters)
    window      keys that a local layer sees, the token itself included; None: every layer is full
    full_every  the n-th, 2n-th, … layer is full and the others local, or linear; None: all are, if there is a window or `linear`
    sinks       a learned logit for each head that takes part in the softmax
    final_norm, embed_norm   a norm before the unembedding, and after the embedding
    parallel    attention and MLP read the same input, and both are added to it
    moe, mla    see there; with `mla`, K = N and H is its v
    linear      the layers that are not full have linear attention, in place of a window
    indexer     of latent attention, in every layer
    shared_kv   layers at the end that read the keys and values of the last layer of their kind before them, and make none
    output_gate  attention's result is multiplied, number by number, with a gate that one more matrix makes of the input
    gemma3n     see there
    layers      where no rule says what each layer is: one `LayerKind` for each, with its mixer. N, K, H and mla are then those of
                most layers with keys and values, and a layer that is a mixer or a feed-forward alone has half the norms
    beside      numbers that a layer multiplies a token with beside mixer and feed-forward (several residual streams), and numbers that
                a checkpoint holds once for all (those that balance the load of experts, scales): together they are `added`
    said        sentences of what is priced as something else; no part of the value

    >>> Config(D=64, L=2, N=8, K=2, H=None, F=256, V=1000).H
    8
    >>> Config(D=64, L=2, N=8, K=3, H=8, F=256, V=1000)
    Traceback (most recent call last):
    ValueError: N=8 query heads cannot share K=3 KV heads evenly: make N a multiple of K
    """

    D: int
    L: int
    N: int
    K: int
    H: int | None
    F: int
    V: int
    gated: bool = True
    tied: bool = False
    norm: Literal[*NORMS] = "rms"
    norms: int = 2
    qk_norm: Literal["", "head", "full"] = ""
    biases: str | tuple[str, ...] = ()
    positions: int = 0
    window: int | None = None
    full_every: int | None = None
    sinks: bool = False
    final_norm: bool = True
    embed_norm: bool = False
    parallel: bool = False
    moe: MoE | None = None
    mla: MLA | None = None
    linear: Linear | None = None
    indexer: Indexer | None = None
    shared_kv: int = 0
    output_gate: bool = False
    gemma3n: Gemma3n | None = None
    layers: tuple[LayerKind, ...] = field(default=(), repr=False)
    beside: tuple[int, int] = field(default=(0, 0), repr=False)
    name: str = ""
    said: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self):
        if self.H is None:
            object.__setattr__(self, "H", self._head())
        asked = (self.biases,) if isinstance(self.biases, str) else tuple(self.biases)
        object.__setattr__(self, "biases", (*(b for b in BIASES if b in asked), *(b for b in asked if b not in BIASES)))
        whole(**{s: getattr(self, s) for s in ("D", "L", "N", "K", "H", "F", "V")})
        whole(0, norms=self.norms, positions=self.positions, shared_kv=self.shared_kv)
        for name in ("window", "full_every"):
            if getattr(self, name) is not None:
                whole(**{name: getattr(self, name)})
        for sentence in (*self._wrong_mixers(), *self._wrong_layers()):
            raise ValueError(sentence)

    @classmethod
    def from_hf(cls, source: dict | str | PathLike) -> "Config":
        """The decoder of a config.json as huggingface.co has it, from its path or as a dict; `hf_families` says of which families.

        What a `Config` cannot say is refused. Heads for multi-token prediction, vision and audio are left out.

        >>> phi = dict(model_type="phi3", hidden_size=5120, num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=10)
        >>> Config.from_hf(phi | dict(intermediate_size=17920, vocab_size=100352, tie_word_embeddings=False)).H
        128
        >>> Config.from_hf(phi)
        Traceback (most recent call last):
        ValueError: the config.json of a phi3 has no vocab_size: add it, or take one that has it
        """
        given = hf_families.fields(source)
        return cls(**given | ({"moe": MoE(**given["moe"])} if "moe" in given else {}))

    def _head(self):
        if self.mla:
            return self.mla.v
        if plain(self.D, self.N) and (self.N < 1 or self.D % self.N):
            raise ValueError(f"D={self.D} does not split into N={self.N} heads: give the width of a head as H")
        return self.D // self.N if plain(self.D, self.N) else self.D / self.N

    # What is wrong with a decoder, sentence by sentence.

    def _wrong_mixers(self):
        for b in self.biases:
            if b not in BIASES:
                yield f"biases are any of {', '.join(map(repr, BIASES))}, not {b!r}"
        if plain(self.N, self.K) and self.N % self.K:
            yield f"N={self.N} query heads cannot share K={self.K} KV heads evenly: make N a multiple of K"
        if self.full_every is not None and self.window is None and self.linear is None:
            yield "full_every says which layers have no window: give the others a window too"
        if self.mla and plain(self.N, self.K) and self.K != self.N:
            yield f"with mla every query head has keys of its own: K is N={self.N}, not {self.K}"
        if self.mla and plain(self.H, self.mla.v) and self.H != self.mla.v:
            yield f"with mla a head is as wide as its values: H is None or v={self.mla.v}, not {self.H}"
        if self.mla and (self.qk_norm or {"qkv", "o"} & set(self.biases)):
            yield "mla brings norms of its own and has no biases: leave qk_norm, 'qkv' and 'o' out"
        if self.linear and self.window is not None:
            yield "layers that are not full are local or linear: give window or linear, not both"
        if self.indexer and (self.mla is None or self.mla.q_rank is None or self.window is not None):
            yield "an indexer chooses keys of latent attention without windows: give mla with a q_rank"
        if self.mla and (self.linear or self.output_gate or (plain(self.shared_kv) and self.shared_kv)):
            yield "latent attention has no linear, output_gate or shared_kv here: leave them out, or mla"

    def _wrong_layers(self):
        if plain(self.shared_kv, self.L) and self.shared_kv:
            cached = self.L - self.shared_kv
            if self.linear or cached < (self.full_every or 1) or (self.moe and self.moe.first_dense > cached):
                yield (
                    f"the last shared_kv={self.shared_kv} of L={self.L} layers read caches of earlier ones: "
                    "leave a layer of each kind before them, none of them linear"
                )
        if self.layers and len(self.layers) != self.L:
            yield f"layers has {len(self.layers)} of the L={self.L} layers: list each of them"
        if self.layers and (self.window or self.full_every or self.linear or self.shared_kv or self.indexer):
            yield "layers say what each layer is: leave window, full_every, linear, indexer and shared_kv out"
        if any(kind.moe for kind in self.layers) and self.moe is None:
            yield "layers have experts: give moe too"
        if self.moe and plain(self.L, self.moe.first_dense) and self.moe.first_dense >= self.L:
            first = self.moe.first_dense
            yield f"all L={self.L} layers are among the first_dense={first} without experts: drop moe or lower first_dense"

    @property
    def G(self):
        """Query heads for each KV head."""
        return self.N // self.K if isinstance(self.N, int) and isinstance(self.K, int) else self.N / self.K

    @property
    def qk(self):
        """Width of one head's query or key."""
        return self.mla.nope + self.mla.rope if self.mla else self.H

    @property
    def matrices(self) -> int:
        """Weight matrices of one MLP or expert."""
        return 3 if self.gated else 2

    def kind(self, layer: int) -> LayerKind:
        """What layer 0, 1, … L-1 is.

        >>> c = Config(64, 4, 8, 8, 8, 256, 1000, window=16, full_every=2, moe=MoE(E=4, k=2, F=128, first_dense=1))
        >>> [(k.window, k.moe) for k in map(c.kind, range(4))]
        [(16, False), (None, True), (16, True), (None, True)]
        """
        if self.layers:
            return self.layers[layer]
        full = self.full_every is not None and (layer + 1) % self.full_every == 0
        moe = self.moe is not None and layer >= self.moe.first_dense and (layer + 1) % self.moe.every == 0
        linear = self.linear is not None and not full
        shares = (not plain(self.shared_kv) or self.shared_kv > 0) and layer >= self.L - self.shared_kv
        return LayerKind(None if full else self.window, moe, linear, shares)

    def mixer(self, kind: LayerKind) -> Mixer:
        """What mixes tokens in a layer of that kind.

        >>> Config(64, 4, 8, 2, 8, 256, 1000).mixer(LayerKind())
        Heads(N=8, K=2, H=8, v=None, norm='', gate='', shares=False, one=False, sinks=False, indexer=None)
        """
        if kind.mixer is not None:
            return kind.mixer
        if kind.linear:
            return self.linear
        if self.mla:
            return Latent(self.N, self.mla, self.indexer)
        gate = "full" if self.output_gate else ""
        return Heads(self.N, self.K, self.H, None, self.qk_norm, gate, kind.shares, False, self.sinks)

    def width(self, kind: LayerKind):
        """F of a layer's dense MLP."""
        return self.F if kind.F is None else kind.F

    @property
    def groups(self) -> tuple[tuple[LayerKind, int], ...]:
        """Kinds of layers, and how many there are of each: counted by division, not one by one.

        >>> Config(64, 126, 8, 8, 8, 256, 1000).groups
        ((LayerKind(window=None, moe=False), 126),)
        >>> mixed = Config(64, 48, 8, 8, 8, 256, 1000, window=1024, full_every=6)
        >>> [(kind.window, n) for kind, n in mixed.groups]
        [(1024, 40), (None, 8)]
        """
        if self.layers:
            return tuple(Counter(self.layers).items())
        linear = self.linear is not None
        kinds = [(self.window, moe, linear) for moe in (False, True)] + [(None, moe, False) for moe in (False, True)]
        every = own = self._first(self.L)
        if not plain(self.shared_kv) or self.shared_kv:
            own = self._first(self.L - self.shared_kv)
        out = [(LayerKind(*kind), n) for kind, n in zip(kinds, own)]
        if own is not every:
            out += [(LayerKind(*kind, shares=True), n - m) for kind, n, m in zip(kinds, every, own)]
        return tuple((kind, n) for kind, n in out if not (plain(n) and n == 0))

    def _first(self, L) -> tuple:
        """Of the first L layers, how many are local (or linear) and how many full: with a dense MLP, and with experts."""
        m, mixed = self.moe, self.window is not None or self.linear is not None
        every = self.full_every if mixed else 1
        full = L if every == 1 else _multiples(every, 0, L) if every else 0
        moe = _multiples(m.every, m.first_dense, L) if m else 0
        both = moe if every == 1 else _multiples(lcm(m.every, every), m.first_dense, L) if m and every else 0
        return 0 if every == 1 else L - full - moe + both, moe - both, full - both, both

    @property
    def mixers(self) -> tuple[tuple[LayerKind, int], ...]:
        """Layers by the weights of their attention, windows and experts apart: (kind, how many)."""
        if self.layers:
            return tuple(Counter(replace(kind, window=None, moe=False, F=None) for kind in self.layers).items())
        linear, shared = sum(n for kind, n in self.groups if kind.linear), self.shared_kv
        counts = {LayerKind(): self.L - linear - shared, LayerKind(linear=True): linear, LayerKind(shares=True): shared}
        return tuple((kind, n) for kind, n in counts.items() if not (plain(n) and n == 0))

    @property
    def unusual(self) -> tuple[str, ...]:
        """Which of `UNUSUAL` the model has."""
        return tuple(n for n in UNUSUAL if getattr(self.moe if n == "shared_gate" else self, n, None))

    def check_usual(self, user: str, *counted: str) -> None:
        """ValueError if the model has parts that the `user` does not count; `counted` are those that it does.

        >>> Config(64, 4, 8, 8, 8, 256, 1000, output_gate=True).check_usual("a training step")
        Traceback (most recent call last):
        ValueError: a training step does not know a gate on the output of attention, and this model has one: \
parameters, flops and kv_cache count it
        """
        if missing := [n for n in self.unusual if n not in counted]:
            raise ValueError(
                f"{user} does not know {UNUSUAL[missing[0]]}, and {self.name or 'this model'} has one: "
                "parameters, flops and kv_cache count it"
            )


def _multiples(step: int, low, high):
    """Multiples of `step` among low + 1, …, high."""
    return high - low if step == 1 else high // step - low // step
