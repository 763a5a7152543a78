"""Parts that newer decoders have beside attention and MLP: linear attention, an indexer, and what Gemma 3n adds (chapter 3).

Each record says the shapes of its matrices, and how many numbers it keeps besides. D is the model width, L its layers.

Source: Yang et al., "Gated Delta Networks" (2024) and Qwen3-Next (2025); DeepSeek-AI, "DeepSeek-V3.2-Exp" (2025); Gemma 3n (2025);
shapes as in the modelling code of Hugging Face's transformers.
"""

from dataclasses import dataclass

from helpers.arguments import formula, whole
from helpers.numeric import plain


@formula
@dataclass(frozen=True)
class Linear:
    """Gated DeltaNet: linear attention, whose cache is a state that does not grow with the sequence.

    heads      of values; each keeps a state of key·value numbers
    key_heads  of queries and keys, each shared by heads / key_heads of them
    key, value  width of one head's key, and of its value
    kernel     tokens that the short convolution over queries, keys and values sees; its last kernel - 1 inputs are kept too

    >>> qwen = Linear(heads=32, key_heads=16, key=128, value=128, kernel=4)
    >>> qwen.state, qwen.inputs
    (524288, 24576)
    """

    heads: int
    key_heads: int
    key: int
    value: int
    kernel: int

    def __post_init__(self):
        whole(heads=self.heads, key_heads=self.key_heads, key=self.key, value=self.value, kernel=self.kernel)
        if plain(self.heads, self.key_heads) and self.heads % self.key_heads:
            raise ValueError(
                f"heads={self.heads} of values cannot share key_heads={self.key_heads} evenly: make heads a multiple"
            )

    @property
    def channels(self):
        """Numbers of a token that the convolution runs over: its queries, keys and values."""
        return 2 * self.key_heads * self.key + self.heads * self.value

    @property
    def state(self):
        """Numbers in the states of all heads, for one sequence in one layer."""
        return self.heads * self.key * self.value

    @property
    def inputs(self):
        """Numbers of earlier tokens that the convolution needs, for one sequence in one layer."""
        return self.channels * (self.kernel - 1)

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name; z gates the result, and `decay` makes the two numbers of a head that say what to write and to forget."""
        wide = self.heads * self.value
        return {
            "q": (D, self.key_heads * self.key),
            "k": (D, self.key_heads * self.key),
            "v": (D, wide),
            "z": (D, wide),
            "decay": (D, 2 * self.heads),
            "o": (wide, D),
        }


@formula
@dataclass(frozen=True)
class Indexer:
    """Picks the keys that latent attention looks at: small heads give every earlier token a score, the `top` best are seen.

    heads  queries of a token; all share one key, which the cache holds beside the latent vector
    width  of a query or key
    top    keys that a token sees at most, itself included
    """

    heads: int
    width: int
    top: int

    def __post_init__(self):
        whole(heads=self.heads, width=self.width, top=self.top)

    def matrices(self, D, q_rank) -> dict[str, tuple]:
        """Shapes by name; queries are made from latent attention's vector of q_rank."""
        return {
            "index_q": (q_rank, self.heads * self.width),
            "index_k": (D, self.width),
            "index_weights": (D, self.heads),
        }


@formula
@dataclass(frozen=True)
class Gemma3n:
    """What Gemma 3n adds to a decoder.

    streams  of AltUp: copies of the residual stream, of which the layers compute one and predict the others
    laurel   rank of LAuReL, a product of two thin matrices beside attention
    V, width  per-layer embeddings: a table of V rows with `width` numbers for each layer
    """

    streams: int
    laurel: int
    V: int
    width: int

    def __post_init__(self):
        whole(streams=self.streams, laurel=self.laurel, V=self.V, width=self.width)

    def table(self, L):
        """Numbers in the table of per-layer embeddings."""
        return self.V * L * self.width

    def products(self, D, L):
        """Weights that a token is multiplied with; the router of AltUp counts twice, to predict and to correct."""
        n = self.streams
        layer = D * (2 * self.laurel + 2 * self.width + 2 * n) + n**2 + n**3
        return L * layer + D * L * self.width + 2 * (n - 1) * D * D

    def weights(self, D, L):
        """Parameters in all matrices but the table: those of `products`, the router once."""
        return self.products(D, L) - L * D * self.streams

    def sides(self, D, L):
        """Numbers that these products read and write for a token."""
        layer = (
            2 * (D + self.laurel) + 2 * (D + self.width) + 2 * (D + self.streams) + 2 * self.streams + self.streams**2
        )
        return L * (layer + self.streams) + D + L * self.width + 4 * (self.streams - 1) * D

    def scales(self, D, L):
        """Parameters of norms, and of the scale of AltUp's correction."""
        return L * 4 * D + self.width
