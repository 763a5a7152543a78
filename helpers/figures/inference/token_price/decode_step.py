"""What the live figure of chapter 5 computes: a decode step of a model on a slice, cut in the best way.

`best` asks `costs.inference.sharded_decode_step` for every cut in Python; the page does the same with `row`, traced by
`helpers.live.jaxpr_to_javascript` in stages (`token_price.js` loops over the cuts), and tests hold the one against the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

from helpers.costs.inference.latency_and_throughput import cost_per_million, saturating_batch
from helpers.costs.inference.prefill_and_decode_step import Pass, Replica, shapes
from helpers.costs.inference.sharded_decode_step import Choice, decode, held, links, splits
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import divisors
from helpers.costs.sharding.collective_prices import Group
from helpers.costs.training.layout import Layout, lies
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import model
from helpers.figures.training.layout_search.candidates import Wired
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build, sizes, structure
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.stages import renamed, staged
from helpers.numeric import floor, maximum, where

MATH = "bf16"  # arithmetic; weights and caches may be narrower
WIDTHS = {2: "bf16", 1: "int8"}
ROLES = ("projections", "attention", "mlp", "unembedding", "experts", "shared", "router")
RESOURCES = ("math", "hbm", "ici")
SOON = ("seconds", "per_chip", "held", "most")  # what a search looks at
NAMES = (
    *SOON, "lower", "t_weights", "t_caches", "t_rest", "t_math", "t_links", "rate", "hours",
    "m_weights", "m_caches", "m_copies", "free", "critical", "bound",
)  # fmt: skip


def places(chip: Chip, most: int) -> tuple[Slice, ...]:
    """1, 2, 4, … chips: as many as a pod has, and no more than `most`.

    >>> [s.shape for s in places(chip("v5e"), 16)], len(places(chip("H100"), 256))
    ([(1, 1), (1, 2), (2, 2), (2, 4), (4, 4)], 4)
    """
    return tuple(s for s in (Slice(chip, shape) for shape in shapes(chip)) if s.chips <= most)


def ways(s: Slice) -> list[int]:
    """How many chips may share heads on this slice: whole rows.

    >>> ways(places(chip("v5p"), 8)[-1])
    [1, 2, 4, 8]
    """
    return [Y for Y in divisors(s.chips) if lies(Layout(tp=Y, dp=s.chips // Y), s)]


def widest(c: Config) -> int:
    """The most chips, as a power of two, among which N heads can be shared evenly.

    >>> widest(model("llama-3-70b")), widest(model("llama-2-13b"))
    (64, 8)
    """
    return c.N & -c.N


def bound(step: Pass):
    """The role that takes longest and what it waits for, as one number: `Pass.bound` for numbers that JAX traces."""
    top, at = -1.0, 0
    for n, role in enumerate(ROLES):
        for m, resource in enumerate(RESOURCES):
            seconds = step.roles[role].parts[resource] if role in step.roles else -1.0
            more = seconds > top
            top, at = where(more, seconds, top), where(more, n * len(RESOURCES) + m, at)
    return at


def room(r: Replica, s: Slice, Y, Z, S):
    """Sequences of S tokens that fit beside the weights: as many on each of the Z."""
    return Z * floor(maximum(s.chip.hbm_bytes - held(r, s, Y, Z), 0) / held(replace(r, weights=0.0), s, Y, Z, Z, S))


def row(r: Replica, s: Slice, Y, Z, B, S, reading=None, hop=None) -> dict:
    """All numbers of one cut: Y chips share heads, Z the batch of the caches.

    A step reads the caches that a chip holds; weights are told from activations by weights of no bytes.
    """
    bare = replace(r, weights=0.0)
    step = decode(r, s, Y, Z, B, S, hop, reading)
    parts = step.time.parts
    weights = parts["hbm"] - decode(bare, s, Y, Z, B, S, hop, reading).time.parts["hbm"]
    caches = held(bare, s, Y, Z, B, S) / s.chip.hbm_bandwidth
    seconds, n, hbm = step.seconds, s.chips, s.chip.hbm_bytes
    of_weights = held(r, s, Y, Z)
    total, even = held(r, s, Y, Z, B, S), r.kv(S, B) / n
    E, k = (r.config.moe.E, r.config.moe.k) if r.config.moe else (1, 1)
    critical = {width: saturating_batch(s.chip, name, MATH, E, k) for width, name in WIDTHS.items()}
    return {
        "seconds": seconds, "per_chip": B / seconds / n, "held": total,
        "most": room(r, s, Y, Z, S),
        "lower": step.time.lower, "t_weights": weights, "t_caches": caches, "t_rest": parts["hbm"] - weights - caches,
        "t_math": parts["math"], "t_links": parts["ici"], "rate": B / seconds,
        "hours": cost_per_million(1.0, n, B / seconds),
        "m_weights": of_weights, "m_caches": even, "m_copies": total - of_weights - even, "free": maximum(hbm - total, 0),
        "critical": where(r.weights == 2, critical[2], critical[1]), "bound": bound(step),
    }  # fmt: skip


@dataclass(frozen=True)
class Cut:
    """The best way to cut a model.

    most  sequences that fit on these chips at all, cut in whatever way
    """

    Y: int
    Z: int
    fits: bool
    most: int
    values: dict[str, float]


def best(r: Replica, s: Slice, B: int, S: int) -> Cut:
    """The quickest cut that fits, as `costs.inference.sharded_decode_step.splits` finds it; if none fits, the one that needs least memory.

    >>> at = best(Replica(model("llama-3-8b"), chip("v5e"), weights=2, cache=2), places(chip("v5e"), 16)[-1], 16, 8192)
    >>> at.Y, at.Z, at.fits, at.most
    (8, 2, True, 222)
    """
    some = splits(r, s, "decode", B, S)
    at = chosen(some)
    values = row(r, s, at.Y, at.Z, B, S)
    return Cut(at.Y, at.Z, at.fits, int(max(room(r, s, c.Y, c.Z, S) for c in some)), values)


def chosen(choices: Sequence[Choice]) -> Choice:
    """Of cuts, the quickest first, the one to take."""
    return choices[0] if choices[0].fits else min(choices, key=lambda c: c.held)


def curve(r: Replica, s: Slice, S: int, batches: Sequence[int]) -> list[tuple[float, float, bool]]:
    """Seconds for a token, tokens/s of a chip and whether it fits, for every batch."""
    some = [chosen(splits(r, s, "decode", B, S)) for B in batches]
    return [(c.time.seconds, B / c.time.seconds / s.chips, c.fits) for B, c in zip(batches, some)]


def enough(r: Replica, chip: Chip, most: int, B: int, S: int) -> Slice | None:
    """The fewest chips on which it fits, or None."""
    larger = (s for s in places(chip, min(most, widest(r.config))))
    return next((s for s in larger if splits(r, s, "decode", B, S)[0].fits), None)


def numbers(c: Config) -> list[int]:
    """The sizes of a model in the order of SIZES; 1 for what its structure has no use for."""
    has = dict.fromkeys(SIZES, 1) | sizes(c)
    return [has[name] for name in SIZES]


def wired(s: Slice) -> tuple[float, ...]:
    """A slice as numbers: three sizes of a torus, and which of them wrap; of GPUs how many there are."""
    if not s.chip.axes:
        return s.shape
    more = (1,) * (3 - len(s.shape))
    return (*s.shape, *more, *(int(w) for w in s.wraps), *(0 for _ in more))


def _links(torus: bool, W, *numbers) -> tuple:
    """`sharded_decode_step.links` of one cut, as the fields of three `Group`s."""
    on, (*shape, Y, Z) = replace(chip("v5p" if torus else "H100"), link_bandwidth=W), numbers
    s = Wired(on, tuple(shape[:3]), tuple(w > 0 for w in shape[3:])) if torus else Wired(on, tuple(shape), (False,))
    return tuple(getattr(w, f.name) for w in links(s, Y, Z) for f in fields(Group))


def _row(structure: Config, *x) -> tuple:
    """`row` of numbers: sizes, speeds of a chip, bytes, tokens, chips; Y, Z and their links; B."""
    n = len(SIZES)
    C, through, hbm, W, hop, w, cached, S, chips, Y, Z, *wires, B = x[n:]
    on = replace(chip("v5p"), flops={MATH: C}, hbm_bandwidth=through, hbm_bytes=hbm, link_bandwidth=W)
    each = len(fields(Group))
    at = tuple(Group(*wires[each * k : each * (k + 1)]) for k in range(3))
    r, s = Replica(build(structure, *x[:n]), on, chips, w, cached), Wired(on, (chips,), (False,))
    found = row(r, s, Y, Z, B, S, at, hop)
    return tuple(found[name] for name in NAMES)


@cache
def functions(structures: Sequence[Config]) -> tuple[list[str], list]:
    """Every text of JavaScript once, and for each structure its places in them.

    They are: first the links of a torus and those of GPUs; then the two stages of a step of each structure.
    """
    texts = [javascript(lambda *x, t=t: _links(t, *x), *[8.0] * (9 if t else 4)) for t in (True, False)]
    at = []
    for like in structures:
        rows = [[8.0] * (len(SIZES) + 9), [8.0] * (2 + 3 * len(fields(Group))), [8.0]]
        pair = staged(lambda *x: _row(like, *x), *rows, brief=len(SOON))  # noqa: B023
        texts += [text for text in pair if text not in texts]
        at.append([texts.index(text) for text in pair])
    return renamed(texts), at


def alike(names: Sequence[str]) -> tuple[tuple[Config, ...], list[int]]:
    """The structures of models, each once, and the number of each model's."""
    every = [structure(model(name)) for name in names]
    some = tuple(dict.fromkeys(every))
    return some, [some.index(c) for c in every]
