"""One replica of a model: what fits, seconds of a prefill and of a decode step, and the choice among batches and chips (chapter 5).

B sequences are answered at once; a prompt has T tokens; a decode step makes one token of each sequence, which sees S keys.
Weights and caches lie on the replica's chips evenly, and nothing is sent between them: the floor under every sharding.
`sharding_limits` says what is sent.

Source: Austin et al. 2025, Section 7; Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Time, Work, time
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import Parameters, flops, kv_cache, parameters, works
from helpers.numeric import floor_near, maximum, plain

from .latency_and_throughput import reload_crossover


@formula
def shapes(chip: Chip) -> Iterator[tuple[int, ...]]:
    """Slices of 1, 2, 4, … chips up to a pod, each as near to a square or cube as can be.

    >>> [*shapes(chip("v5e"))][:6], [*shapes(chip("v5p"))][:4], [*shapes(chip("H100"))]
    ([(1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8)], [(1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 2, 2)], [(1,), (2,), (4,), (8,)])
    """
    shape = [1] * len(chip.pod)
    while True:
        yield tuple(sorted(shape))
        grow = [i for i, n in enumerate(shape) if 2 * n <= chip.sides[::-1][i]]
        if not grow:
            return
        i = min(grow, key=lambda i: (shape[i], -i))
        shape[i] *= 2


@formula
def smallest_slice(chip: Chip, n_bytes: float) -> Slice:
    """The smallest of `shapes` whose HBM holds that many bytes.

    >>> smallest_slice(chip("v5e"), 211.7e9).shape               # Austin et al. 2025, question 6: at least 13.2 chips
    (4, 4)
    """
    for shape in shapes(chip):
        s = Slice(chip, shape)
        if n_bytes <= s.chips * chip.hbm_bytes:
            return s
    raise ValueError(
        f"{n_bytes / 1e9:,.1f} GB do not fit a pod of {s.chips} {chip.name}: take fewer bytes or larger chips"
    )


def _width(kind):
    """Bytes of a number, from the name of its type or as they are given."""
    return bytes_each(kind) if isinstance(kind, str) else kind


@record
class Pass:
    """Seconds of a prefill or of a decode step.

    roles  seconds of each role's work, resource by resource
    """

    roles: dict[str, Time]

    @property
    def time(self) -> Time:
        """All of it: `lower` if everything overlaps, the next weights' reading with attention too; `upper` if nothing does."""
        return sum(self.roles.values())

    @property
    def seconds(self):
        """One role after the other, each computes while it reads and waits for links: between the two, at published rates."""
        links = sum(t.parts.get("ici", 0.0) for t in self.roles.values())
        return sum(maximum(t.parts["math"], t.parts["hbm"]) for t in self.roles.values()) + links

    @property
    def bound(self) -> tuple[str, str]:
        """The role that takes longest and what it waits for, such as ("attention", "hbm"); for plain numbers."""
        role = max(self.roles, key=lambda r: self.roles[r].lower)
        return role, self.roles[role].bound


@record
class Replica:
    """A model on chips that share its weights and caches evenly.

    chips    how many: a number, or an array of them
    weights, cache   types of the weights and of the cached numbers, or bytes of one
    math     type of the arithmetic and of activations
    reserve  bytes of each chip's HBM that neither weights nor caches may take: activations, programs

    Scales of narrow weights and caches are left out (one for a column of a matrix is a share of 1/D).

    >>> r = Replica(model("llama-2-13b"), chip("v5e"), 8)
    >>> f"{r.weight_bytes / 1e9:.1f} GB {r.kv(8192) / 1e9:.2f} GB", int(r.largest_batch(8192))
    ('26.0 GB 6.71 GB', 15)
    >>> f"{1e3 * r.decode(8, 8192).seconds:.2f} ms", r.decode(8, 8192).bound, r.prefill(8192).bound
    ('12.26 ms', ('attention', 'hbm'), ('mlp', 'math'))
    """

    config: Config
    chip: Chip
    chips: float = 1
    weights: str | float = "bf16"
    cache: str | float = "bf16"
    math: str = "bf16"
    reserve: float = 0.0

    def __post_init__(self):
        _width(self.weights), _width(self.cache), self.chip.rate(self.math)
        if plain(self.chips) and self.chips < 1:
            raise ValueError(f"a replica lies on 1 chip or more, not {self.chips}")
        if plain(self.reserve, self.chip.hbm_bytes) and not 0 <= self.reserve < self.chip.hbm_bytes:
            raise ValueError(
                f"of {self.chip.name}'s {self.chip.hbm_bytes:.3g} bytes of HBM a part can be reserved, not {self.reserve:.3g}"
            )

    @cached_property
    def parameters(self) -> Parameters:
        """Of the model, by role."""
        return parameters(self.config)

    @property
    def C(self):
        """FLOPs/s of all chips."""
        return self.chips * self.chip.rate(self.math)

    @property
    def W_hbm(self):
        """Bytes/s of HBM of all chips."""
        return self.chips * self.chip.hbm_bandwidth

    @property
    def pcie(self):
        """Bytes/s between all chips and their hosts, one way."""
        if self.chip.pcie_bandwidth is None:
            raise ValueError(
                f"{self.chip.name} has no published bandwidth to its host: replace(chip, pcie_bandwidth=…)"
            )
        return self.chips * self.chip.pcie_bandwidth

    @property
    def weight_bytes(self):
        """Bytes of all weights."""
        return self.parameters.total * _width(self.weights)

    def kv(self, S, B=1):
        """Bytes of the caches of B sequences of S tokens."""
        return kv_cache(self.config, S, B, _width(self.cache))

    @property
    def room(self):
        """Bytes that are left for caches; below 0 if the weights do not fit."""
        return self.chips * (self.chip.hbm_bytes - self.reserve) - self.weight_bytes

    def largest_batch(self, S):
        """Sequences of S tokens whose caches fit beside the weights; 0 if the weights leave no room.

        All caches together are spread evenly over the chips. If whole sequences, or whole heads, have to lie on a chip, fewer
        may fit: `sharded_decode_step.held` and `points` there take the fullest chip.
        """
        return floor_near(maximum(self.room, 0) / self.kv(S))

    def works(self, B, T, S=None, logits=None, absorbed=False) -> dict[str, Work]:
        """A forward pass of T new tokens of each of B sequences, the last of S, as roofline's work of all chips together."""
        if plain(B, T) and (B < 1 or T < 1):
            raise ValueError(f"a pass has one sequence and one new token or more, got B={B} and T={T}")
        # Without absorption attention reads keys and values that were just made, not the cache.
        cached = None if self.config.mla and not absorbed else _width(self.cache)
        w, x = _width(self.weights), bytes_each(self.math)
        return works(self.config, B, T, S, w, x, "causal", self.math, cached, logits, absorbed)

    def mixed_works(self, B, S, T, cached) -> dict[str, Work]:
        """A mixed step as roofline's work: one token of each of B sequences that see S keys, and T more tokens of a prompt of
        which `cached` are in the cache.

        It is one pass: FLOPs, activations and caches of both add up, but every weight is read once for all B + T tokens. Of
        the prompt's tokens the last one is unembedded. Latent attention is absorbed for both, as in the programs that look
        into a cache. B = 0 is a piece of a prompt alone, T = 0 a decode step.

        Source: Agrawal et al., "Sarathi-Serve" (2024), Section 4.
        """
        if plain(B, T) and (B < 0 or T < 0 or B + T < 1):
            raise ValueError(f"a pass has a sequence or a token of a prompt or both, got B={B} and T={T}")
        latent = self.config.mla is not None
        if plain(T) and not T:
            return self.works(B, 1, S, absorbed=latent)
        piece = self.works(1, T, cached + T, 1, latent)
        if plain(B) and not B:
            return piece
        step = self.works(B, 1, S, absorbed=latent)
        once, by_step, by_piece = map(self.weights_read, (B + T, B, T))
        out, nothing = {}, Work(dtype=self.math)
        for role in step | piece:  # beside arrays a pass of plain sizes lacks roles in which it does nothing
            more = once.get(role, 0.0) - by_step.get(role, 0.0) - by_piece.get(role, 0.0)
            out[role] = step.get(role, nothing) + piece.get(role, nothing) + Work(bytes=more, dtype=self.math)
        return out

    def weights_read(self, tokens) -> dict[str, float]:
        """Bytes of weights that a pass over so many tokens reads, by role: of experts, those that some token goes to."""
        read = works(self.config, tokens, 1, 1, w=_width(self.weights), x=0, cache_bytes=0)
        return {role: work.bytes for role, work in read.items() if role != "attention"}

    def mixed(self, B, S, T, cached) -> Pass:
        """Seconds of a mixed step.

        >>> r = Replica(model("llama-3-8b"), chip("v5e"), 8)
        >>> step, piece, both = r.decode(16, 4096), r.mixed(0, 0, 256, 0), r.mixed(16, 4096, 256, 0)
        >>> [f"{1e3 * p.seconds:.2f} ms" for p in (step, piece, both)]                 # one pass, not two
        ['3.66 ms', '2.55 ms', '3.95 ms']
        """
        return self._priced(self.mixed_works(B, S, T, cached))

    def _priced(self, work_by_role: dict[str, Work]) -> Pass:
        return Pass({role: time(w, self.C, self.W_hbm) for role, w in work_by_role.items()})

    def forward(self, B, T, S=None, logits=None, absorbed=False) -> Pass:
        """Seconds of it."""
        return self._priced(self.works(B, T, S, logits, absorbed))

    def prefill(self, T, B=1) -> Pass:
        """Seconds of B prompts of T tokens, the last of which is unembedded."""
        return self.forward(B, T, logits=1)

    def decode(self, B, S) -> Pass:
        """Seconds of one token for each of B sequences, which sees S keys, itself included."""
        return self.forward(B, 1, S, absorbed=self.config.mla is not None)

    def verify(self, B, gamma, S):
        """Seconds of a pass over gamma drafted tokens and the one before them, S keys in all, in units of a decode step.

        It is v of `speculative_decoding.speed_up`: near 1 while the step waits for HBM, and up to gamma + 1 beyond.
        """
        return self.forward(B, gamma + 1, S, absorbed=self.config.mla is not None).seconds / self.decode(B, S).seconds

    def reload_crossover(self, setup=0.0):
        """Tokens of a prefix from which reloading is faster than computing, both in full layers and bound by FLOPs."""
        self.config.check_usual("this crossover", "output_gate", "shared_gate", "gemma3n")
        f = flops(self.config, 1, 1, logits=0)
        return reload_crossover(self.kv(1), (f.layers - f.attention) / 2, self.C, self.pcie, f.attention, setup)


@record
class Point:
    """A way to run a model.

    latency     seconds for a token of every sequence
    throughput  tokens/s of the replica
    per_chip    tokens/s of one chip: its inverse is chip-seconds a token, the cost
    fits        whether caches and weights do
    """

    chips: int
    B: int
    latency: float
    throughput: float
    per_chip: float
    fits: bool
    bound: tuple[str, str]


@formula
def cheapest(candidates: Iterable[Point], latency) -> Point:
    """Of those that fit and take no more than `latency` seconds a token, the one that makes most tokens/s of a chip.

    >>> from .sharded_decode_step import points
    >>> slices = [Slice(chip("v5e"), shape) for shape in ((2, 2), (2, 4), (4, 4))]
    >>> p = cheapest(points(Replica(model("llama-3-8b"), chip("v5e")), 2048, (1, 4, 16, 64), slices), latency=0.004)
    >>> p.chips, p.B, f"{1e3 * p.latency:.1f} ms"
    (16, 64, '3.1 ms')
    """
    fit = [p for p in candidates if p.fits]
    ok = [p for p in fit if p.latency <= latency]
    if not ok:
        least = f"the quickest that fits takes {1e3 * min(p.latency for p in fit):.3g} ms" if fit else "nothing fits"
        raise ValueError(f"no batch on any of these chips answers within {1e3 * latency:.3g} ms: {least}")
    return max(ok, key=lambda p: (p.per_chip, -p.latency))
