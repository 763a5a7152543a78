"""Kinds of layers: each is a mixer of tokens and a feed-forward (chapter 3).

A mixer says the shapes of its matrices for a model of width D, what it has besides, and by `scores` what a token looks at and what is
kept for it; those that keep a state instead are in `states`. `Gemma3n` is what that model has beside mixers and feed-forwards.

Source: DeepSeek-AI, "DeepSeek-V3" (2024), "DeepSeek-V3.2-Exp" (2025) and DeepSeek-V4 (2026); Gemma 3n (2025); shapes as in the
modelling code of Hugging Face's transformers.
"""

from helpers.arguments import record, whole

from .states import Mixer, State


@record
class MLA:
    """Multi-head latent attention: keys and values of all heads are made from one short vector for each token.

    q_rank   width of the vector that queries are made from; None: straight from the D inputs
    kv_rank  width of the vector that keys and values are made from, which is what the cache holds
    nope     width of the part of a query or key that has no positions in it
    rope     width of the part that has; one such key serves all heads, and the cache holds it too
    v        width of a value
    """

    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    v: int

    def __post_init__(self):
        whole(**{name: width for name, width in vars(self).items() if width is not None})


@record
class Indexer:
    """Picks the keys that attention looks at: small heads give every earlier token a score, the `top` best are seen.

    heads  queries of a token; all share one key, which the cache holds beside what attention keeps
    width  of a query or key
    top    keys that a token sees at most, itself included
    chooses  this layer's own; else it sees those that an earlier layer chose, and its own matrices stand idle
    """

    heads: int
    width: int
    top: int
    chooses: bool = True

    def __post_init__(self):
        whole(heads=self.heads, width=self.width, top=self.top)

    def matrices(self, D, q_rank) -> dict[str, tuple]:
        """Shapes by name; queries are made from latent attention's vector of q_rank."""
        return {
            "index_q": (q_rank, self.heads * self.width),
            "index_k": (D, self.width),
            "index_weights": (D, self.heads),
        }

    def scores(self, tokens_per_key=1) -> tuple:
        """Its queries times all keys, each of which stands for `tokens_per_key` tokens; none where an earlier layer chose."""
        return (Score(self.heads, self.width, 0, self.width, 1, every=tokens_per_key),) if self.chooses else ()


@record
class Score:
    """Queries times keys, and their shares times values.

    heads   of queries
    query, result  widths of one head's; an indexer has no result
    cached  numbers kept for a key and its value, in `vectors` that have a scale each where caches are quantised
    K       KV heads, over which tp cuts what is kept; None: it is copied, and where there is no result the queries too
    window, top  keys that a token looks at, at most: the last ones, or the best
    every   tokens that one key stands for
    own     whether this layer keeps them; else it reads those of an earlier one
    made    numbers of keys and values that are made of what is kept, and read in its place; None: what is kept is read
    """

    heads: float
    query: float
    result: float
    cached: float
    vectors: float
    K: float | None = None
    window: int | None = None
    top: int | None = None
    every: int = 1
    own: bool = True
    made: float | None = None

    @property
    def read(self):
        """Numbers read for a key and its value."""
        return self.cached if self.made is None else self.made

    @property
    def most(self):
        """Tokens that those keys stand for; None: all."""
        return self.window if self.top is None else self.top * self.every


@record
class Heads(Mixer):
    """Softmax attention with keys and values of its own.

    N, K    query and KV heads
    H, v    width of a head's key, and of its value; v None: H
    norm    of queries and keys, as `Config`'s qk_norm
    gate    on the result: "full" number by number, "head" one for each head, "" none
    shares  reads the keys and values of an earlier layer, and makes none
    one     keys are values: one matrix makes both, and the cache holds both, for only the keys are rotated
    sinks   a learned logit for each head
    indexer chooses the keys, of which it takes whole blocks; its queries are made from the layer's input, and normed as its key is

    >>> Heads(8, 2, 24, v=16).matrices(256)
    {'q': (256, 192), 'k': (256, 48), 'v': (256, 32), 'o': (128, 256)}
    """

    N: int
    K: int
    H: int
    v: int | None = None
    norm: str = ""
    gate: str = ""
    shares: bool = False
    one: bool = False
    sinks: bool = False
    indexer: Indexer | None = None

    @property
    def value(self):
        """Width of one head's result."""
        return self.H if self.v is None else self.v

    @property
    def said(self) -> str:
        """What it is priced as."""
        return "attention to chosen blocks as attention to as many chosen keys" if self.indexer else ""

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name."""
        v = {} if self.one else {"v": (D, self.K * self.value)}
        own = {} if self.shares else {"k": (D, self.K * self.H), **v}
        gates = {"full": self.N * self.value, "head": self.N}
        gate = {"output_gate": (D, gates[self.gate])} if self.gate else {}
        index = {}
        if self.indexer:
            index = {"index_qs": (D, self.indexer.heads * self.indexer.width), "index_k": (D, self.indexer.width)}
        return {"q": (D, self.N * self.H), **gate, **own, **index, "o": (self.N * self.value, D)}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role."""
        keys = 0 if self.shares else 1
        normed = {"": 0, "head": (1 + keys) * self.H, "full": (self.N + keys * self.K) * self.H}[self.norm]
        index = 2 * self.indexer.width if self.indexer else 0
        values = 0 if self.one else self.value
        added = ("qkv" in biases) * (self.N * self.H + keys * self.K * (self.H + values)) + ("o" in biases) * D
        return {"norms": scale * (normed + index), "biases": added, "sinks": self.sinks * self.N}

    def scores(self, window=None, absorbed=False) -> tuple[Score, ...]:
        """One, and its indexer's."""
        x = self.indexer
        cached, top = self.K * (self.H + self.value), x.top if x else None
        one = Score(self.N, self.H, self.value, cached, 2 * self.K, self.K, window, top, 1, not self.shares)
        return (one, *(x.scores() if x else ()))


@record
class Latent(Mixer):
    """Latent attention with N heads.

    gate  the result is multiplied, number by number, with a gate that one more matrix makes of the input
    """

    N: int
    mla: MLA
    indexer: Indexer | None = None
    gate: bool = False

    @property
    def value(self):
        """Width of one head's result."""
        return self.mla.v

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name; `kv_up` makes keys and values of the cached vector."""
        m, N = self.mla, self.N
        qk = m.nope + m.rope
        q = {"q": (D, N * qk)} if m.q_rank is None else {"q_down": (D, m.q_rank), "q_up": (m.q_rank, N * qk)}
        gate = {"output_gate": (D, N * m.v)} if self.gate else {}
        index = self.indexer.matrices(D, m.q_rank) if self.indexer else {}
        kv = {"kv_down": (D, m.kv_rank + m.rope), "kv_up": (m.kv_rank, N * (m.nope + m.v))}
        return q | gate | kv | index | {"o": (N * m.v, D)}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role; an indexer's norm has a shift, whatever the others have."""
        index = 2 * self.indexer.width if self.indexer else 0
        return {"norms": scale * ((self.mla.q_rank or 0) + self.mla.kv_rank) + index}

    def scores(self, window=None, absorbed=False) -> tuple[Score, ...]:
        """One, out of the latent space or absorbed, in it; and its indexer's."""
        m, x = self.mla, self.indexer
        latent, qk = m.kv_rank + m.rope, m.nope + m.rope
        query, result = (latent, m.kv_rank) if absorbed else (qk, m.v)
        made = None if absorbed else self.N * (qk + m.v)
        one = Score(self.N, query, result, latent, 1, None, window, x.top if x else None, made=made)
        return (one, *(x.scores() if x else ()))


@record
class Compressed(Mixer):
    """DeepSeek-V4's attention: to the last tokens, and to keys that stand for `every` tokens each; keys are values, of one head.

    q_rank   width of the vector that queries are made from
    groups, o_rank  the result's heads are projected in groups, to o_rank numbers each, and these to the D outputs
    every    tokens of a compressed key; None: the layer has none
    indexer  chooses compressed keys; such a layer's overlap, so that two vectors are made of each token
    """

    N: int
    H: int
    q_rank: int
    groups: int
    o_rank: int
    every: int | None = None
    indexer: Indexer | None = None
    said = "DeepSeek-V4's attention without the making of compressed keys, a sum over few tokens"

    @property
    def value(self):
        """Width of one head's result."""
        return self.H

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name; of o_down those of all groups side by side."""
        made, x = (2 if self.indexer else 1) * self.H, self.indexer
        shapes = {
            "q_down": (D, self.q_rank),
            "q_up": (self.q_rank, self.N * self.H),
            "kv_down": (D, self.H),
        }
        if self.every:
            shapes |= {"compressed": (D, made), "compressed_gate": (D, made)}
        if x:
            shapes |= {"index_q": (self.q_rank, x.heads * x.width), "index_weights": (D, x.heads)}
            shapes |= {"index_k": (D, 2 * x.width), "index_gate": (D, 2 * x.width)}
        out = {"o_down": (self.N * self.H // self.groups, self.groups * self.o_rank)}
        return shapes | out | {"o_up": (self.groups * self.o_rank, D)}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role; a compressed key's shares of its tokens start from numbers of their own."""
        made, index = (2 if self.indexer else 1) * self.H, self.indexer.width if self.indexer else 0
        start = (self.every or 0) * (made + 2 * index)
        normed = self.q_rank + self.H + (self.H if self.every else 0) + index
        return {"norms": scale * normed, "biases": start, "sinks": self.N}

    def scores(self, window=None, absorbed=False) -> tuple[Score, ...]:
        """To the last tokens, to compressed keys, and its indexer's."""
        near = Score(self.N, self.H, self.H, self.H, 1, None, window)
        if not self.every:
            return (near,)
        x = self.indexer
        far = Score(self.N, self.H, self.H, self.H, 1, None, None, x.top if x else None, self.every)
        return (near, far, *(x.scores(self.every) if x else ()))


@record
class NoMixer(Mixer):
    """Of a layer that is a feed-forward alone."""

    value = 0


@record
class LayerKind:
    """What tells layers of one model apart.

    window  keys that a token sees at most, itself included; None: all up to itself
    moe     experts, or a dense MLP
    linear  a state in place of a KV cache
    shares  reads the keys and values of an earlier layer, and makes none
    mixer   where the model lists its layers; None: what its own fields say
    F       width of the dense MLP; None: the model's; 0: the layer has no feed-forward

    >>> LayerKind(window=16), LayerKind(moe=True, linear=True)
    (LayerKind(window=16, moe=False), LayerKind(window=None, moe=True, linear=True))
    """

    window: int | None = None
    moe: bool = False
    linear: bool = False
    shares: bool = False
    mixer: Mixer | None = None
    F: int | None = None

    def __post_init__(self):
        if self.mixer is not None:
            object.__setattr__(self, "linear", isinstance(self.mixer, State))
            object.__setattr__(self, "shares", self.mixer.shares)

    def __repr__(self):
        rare = [f", {name}=True" for name in ("linear", "shares") if getattr(self, name)]
        more = [f", {name}={x!r}" for name in ("mixer", "F") if (x := getattr(self, name)) is not None]
        return f"LayerKind(window={self.window}, moe={self.moe}{''.join((*rare, *more))})"

    @property
    def parts(self) -> int:
        """Mixer and feed-forward, or one of them."""
        return 2 - isinstance(self.mixer, NoMixer) - (self.F == 0 and not self.moe)


@record
class Gemma3n:
    """What Gemma 3n, and the small ones of Gemma 4, add to a decoder.

    streams  of AltUp: copies of the residual stream, of which the layers compute one and predict the others; 1: no AltUp
    laurel   rank of LAuReL, a product of two thin matrices beside attention; 0: none
    V, width  per-layer embeddings: a table of V rows with `width` numbers for each layer
    """

    streams: int
    laurel: int
    V: int
    width: int

    def __post_init__(self):
        whole(streams=self.streams, V=self.V, width=self.width)
        whole(0, laurel=self.laurel)

    def table(self, L):
        """Numbers in the table of per-layer embeddings."""
        return self.V * L * self.width

    def products(self, D, L):
        """Weights that a token is multiplied with; the router of AltUp counts twice, to predict and to correct."""
        n, up = self.streams, self.streams > 1
        layer = D * (2 * self.laurel + 2 * self.width + up * 2 * n) + up * (n**2 + n**3)
        return L * layer + D * L * self.width + 2 * (n - 1) * D * D

    def weights(self, D, L):
        """Parameters in all matrices but the table: those of `products`, the router once."""
        return self.products(D, L) - (self.streams > 1) * L * D * self.streams

    def sides(self, D, L):
        """Numbers that these products read and write for a token."""
        n, up = self.streams, self.streams > 1
        laurel = (self.laurel > 0) * 2 * (D + self.laurel)
        layer = laurel + 2 * (D + self.width) + up * (2 * (D + n) + 2 * n + n**2 + n)
        return L * layer + D + L * self.width + 4 * (n - 1) * D

    def scales(self, D, L):
        """Parameters of norms, and of the scale of AltUp's correction."""
        return L * (1 + (self.laurel > 0) + 2 * (self.streams > 1)) * D + self.width
