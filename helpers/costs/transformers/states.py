"""Mixers that keep a state in place of keys and values: it does not grow with the sequence (chapter 3).

Each says the shapes of its matrices for a model of width D, what it has besides, and what it keeps of a sequence.

Source: Yang et al., "Gated Delta Networks" (2024) and Qwen3-Next (2025); Kimi Team, "Kimi Linear" (2025); Dao and Gu, "Transformers
are SSMs" (2024) and Nemotron-H (2025); shapes as in the modelling code of Hugging Face's transformers, and of Kimi's models.
"""

from helpers.arguments import record, whole
from helpers.numeric import plain


@record
class Mixer:
    """What mixes the tokens of a layer, and what most mixers are: no more than their matrices.

    said     what it is priced as, where that is something else
    indexer  what chooses the keys that it looks at
    shares   whether it reads the keys and values of an earlier layer, and makes none
    """

    said = ""
    indexer = None
    shares = False

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name, for a model of width D."""
        return {}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role; `scale` parameters for each element that is normed."""
        return {}

    def scores(self, window=None, absorbed=False) -> tuple:
        """What a token looks at, and what is kept for it: a `mixers.Score` for each kind of keys."""
        return ()


class State(Mixer):
    """A mixer that keeps a state, of so many numbers for one sequence in one layer.

    Its inputs pass a short convolution over `kernel` tokens, in so many `channels`.
    """

    def __post_init__(self):
        whole(**{name: n for name, n in vars(self).items() if not isinstance(n, bool)})

    @property
    def inputs(self):
        """Numbers of earlier tokens that the convolution needs, for one sequence in one layer."""
        return self.channels * (self.kernel - 1)


@record
class Linear(State):
    """Gated DeltaNet: each head's state is decayed as a whole, and corrected towards a value.

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
    adds = 3  # for each number of the state: what it has for a key, what is written, what a query reads

    def __post_init__(self):
        super().__post_init__()
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

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name; z gates the result, and `decay` makes the two numbers of a head that say what to write and to forget."""
        wide = self.heads * self.value
        key = D, self.key_heads * self.key
        return {"q": key, "k": key, "v": (D, wide), "z": (D, wide), "decay": (D, 2 * self.heads), "o": (wide, D)}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role: a norm of a head's result, the weights of the convolution, what decay starts from."""
        return {"norms": scale * self.value, "biases": 2 * self.heads, "attention": self.channels * self.kernel}


@record
class ChannelDecay(State):
    """Kimi Delta Attention: a delta rule whose states decay channel by channel.

    width   of a head's query, key and value alike, and of the narrow vectors that decay and gate are made from
    full_gate  the gate on the result is one matrix; else two, by way of a narrow vector

    >>> k3 = ChannelDecay(heads=96, width=128, kernel=4, full_gate=True)
    >>> k3.state, sum(a * b for a, b in k3.matrices(7168).values())
    (1572864, 443580416)
    """

    heads: int
    width: int
    kernel: int
    full_gate: bool = False
    adds = 3  # as of `Linear`
    said = "Kimi Delta Attention as Gated DeltaNet with a state of that size"

    @property
    def value(self):
        """Width of one head's result."""
        return self.width

    @property
    def channels(self):
        """Numbers of a token that the convolutions run over."""
        return 3 * self.heads * self.width

    @property
    def state(self):
        """Numbers in the states of all heads."""
        return self.heads * self.width**2

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name; `beta` says how much is written."""
        wide, w = self.heads * self.width, self.width
        gate = {"z": (D, wide)} if self.full_gate else {"z_down": (D, w), "z_up": (w, wide)}
        narrow = {"decay_down": (D, w), "decay_up": (w, wide), "beta": (D, self.heads)}
        return {"q": (D, wide), "k": (D, wide), "v": (D, wide), **gate, **narrow, "o": (wide, D)}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role: what decay starts from is one number for each channel, and one for each head."""
        start = self.heads * (self.width + 1)
        return {"norms": scale * self.width, "biases": start, "attention": self.channels * self.kernel}


@record
class Mamba2(State):
    """A state-space mixer: heads of `value` numbers, each of which has a state of `key` numbers; heads of a group share B and C.

    conv_bias, bias  whether the convolution, and the matrices, add a vector

    >>> nano = Mamba2(heads=64, value=64, groups=8, key=128, kernel=4)
    >>> nano.state, nano.matrices(2688)
    (524288, {'in': (2688, 10304), 'o': (4096, 2688)})
    """

    heads: int
    value: int
    groups: int
    key: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    adds = 2  # for each number of the state: what is written, what is read
    said = "Mamba-2 as linear attention with a state of that size, two multiply-adds a number"

    @property
    def channels(self):
        """Numbers of a token that the convolution runs over: x, B and C."""
        return self.heads * self.value + 2 * self.groups * self.key

    @property
    def state(self):
        """Numbers in the states of all heads."""
        return self.heads * self.value * self.key

    def matrices(self, D) -> dict[str, tuple]:
        """Shapes by name: one matrix makes the gate, x, B, C, and the step of each head."""
        wide = self.heads * self.value
        return {"in": (D, wide + self.channels + self.heads), "o": (wide, D)}

    def held(self, D, scale, biases) -> dict[str, float]:
        """Other parameters by role: of a head its decay, its skip and its step; a norm over the results of all heads."""
        wide = self.heads * self.value
        added = self.conv_bias * self.channels + self.bias * (wide + self.channels + self.heads + D)
        return {"norms": scale * wide, "biases": 3 * self.heads + added, "attention": self.channels * self.kernel}
