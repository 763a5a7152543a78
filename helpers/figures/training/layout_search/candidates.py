"""The layouts that the live figure of chapter 4 tries, the best of them, and the functions that its page calls.

The set: chips in powers of two as tp·cp·ep·fsdp·pp or tp·cp·ep·dp·pp, cp up to 64, every zero, microbatches in powers of two.
`best` searches it by the estimate of `training_step.step` on arrays; the page does the same with the step that
`helpers.live.jaxpr_to_javascript` traced in stages, and its own loop in the same order (`layout_search.js`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.training.layout import AXES, Layout
from helpers.costs.training.layout_search import EQUAL, SEARCHED, careful, slices
from helpers.costs.training.operation_seconds import Pace
from helpers.costs.training.step_estimate import Estimate, prices, utilisation
from helpers.costs.training.step_estimate_constants import CONSTANTS, GENERATIONS, Constants
from helpers.costs.training.training_step import Step, rules, step
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import POLICIES
from helpers.figures.transformers.decoder_sizes.decoder import build
from helpers.live.renaming import renamed
from helpers.live.stages import staged

KEPT = POLICIES[:3]
DOMAINS = 512  # NVSwitch domains at most
PARTS = ("kernels", "again", "tensor", "experts", "context", "weights", "unembedding", "uneven", "sends", "bubble", "gradients",
         "update")  # fmt: skip
ROLES = ("weights", "gradients", "optimizer", "gathered", "activations", "working", "logits", "library")
TIMES = ("mid", "memory", "low", "high", "math", "mfu", "hfu")  # what a traced step gives first; then parts, then roles
NAMES_OF_STEP = (
    *TIMES,
    *(f"t{n}" for n in range(len(PARTS))),
    *(f"m{n}" for n in range(len(ROLES))),
)  # as a traced step has them
NEAR = 1 + 1e-9  # numbers that differ by less are equal: rounding decides nothing
MOST_CP = 64


@dataclass(frozen=True)
class Place:
    """Chips that a reader can choose: a slice, or several domains of GPUs."""

    slice: Slice
    pods: int = 1

    @property
    def chips(self) -> int:
        return self.slice.chips * self.pods

    def __str__(self) -> str:
        """The shape of a slice; of GPUs their domains.

        >>> [str(p) for p in (places("v5e")[4], places("H100")[5], places("H100")[1])]
        ['4x4', '4 domains of 8', 'one domain']
        """
        if self.slice.chip.axes:
            return "x".join(map(str, self.slice.shape))
        return f"{self.pods} domains of {self.slice.chips}" if self.pods > 1 else "one domain"


@cache
def places(name: str) -> tuple[Place, ...]:
    """1, 2, 4, … chips, up to the largest slice or number of domains.

    >>> [p.chips for p in places("v5e")]
    [1, 2, 4, 8, 16, 32, 64, 128, 256]
    """
    of = chip(name)
    inside = tuple(Place(s) for s in slices(of))
    return inside if of.axes else (*inside, *(Place(inside[-1].slice, 2**n) for n in range(1, DOMAINS.bit_length())))


def numbered(p: Place) -> tuple[int, int, str]:
    """What a page knows of a place: its pods or domains, the chips of its slice, its words.

    >>> numbered(places("v5p")[2]), numbered(places("H100")[4])
    ((1, 4, '2x2x1'), (2, 8, '2 domains of 8'))
    """
    return p.pods, p.slice.chips, str(p)


@cache
def divide(c: Config) -> dict[str, tuple[int, ...]]:
    """For each axis the powers of two that a model's sizes allow, by the rules of `training`; cp is left to the context.

    >>> from helpers.costs.transformers.public_models import model
    >>> divide(model("llama-3.1-405b"))
    {'tp': (1, 2, 4, 8, 16, 32, 64, 128), 'ep': (1,), 'pp': (1, 2, 4, 8, 16, 32, 64)}
    """
    out, T = {}, 4096
    for axis in ("tp", "ep", "pp"):
        fit = (p.chips for p in places("v5p") if _legal(c, Layout(**{axis: p.chips}), T * 4096, T, p.slice))
        out[axis] = tuple(fit)
    return out


def _legal(c: Config, layout: Layout, tokens: int, T: int, s: Slice) -> bool:
    return all(bool(holds) for holds, _ in rules(c, layout, tokens, T, s))


def meshes(c: Config, chips: int, tokens: int, T: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """(tp, cp, ep, fsdp, dp, pp), and the microbatches that each may have at most, simple ones first.

    >>> from helpers.costs.transformers.public_models import model
    >>> list(meshes(model("llama-3-8b"), 2, 2**15, 8192))[:3]
    [((1, 1, 1, 2, 1, 1), 2), ((1, 1, 1, 1, 2, 1), 2), ((2, 1, 1, 1, 1, 1), 4)]
    """
    may, sequences = divide(c), tokens // T
    for pp in may["pp"]:
        for ep in may["ep"]:
            for cp in (2**n for n in range(min(T, MOST_CP).bit_length())):
                for tp in may["tp"]:
                    rest = chips // (pp * ep * cp * tp)
                    if rest and ep * rest <= sequences:
                        yield from (
                            ((tp, cp, ep, *data, pp), sequences // (ep * rest))
                            for data in ((rest, 1), (1, rest))[:rest]
                        )


def candidates(c: Config, chips: int, tokens: int, T: int) -> np.ndarray:
    """All layouts, one a row: the six axes, zero, microbatches. Zero is 0 where no chips hold the same weights."""
    rows = []
    for mesh, most in meshes(c, chips, tokens, T):
        _, cp, ep, _, dp, _ = mesh
        for zero in range(4 if cp * ep * dp > 1 else 1):
            rows += [(*mesh, zero, 2**n) for n in range(most.bit_length())]
    return np.array(rows, dtype=float).reshape(-1, len(AXES) + 2)


@dataclass(frozen=True)
class Found:
    """What a search found.

    step     the fastest step that fits; if none does, the one that needs least memory
    tried    layouts, once for each policy
    fitting  those of them that fit
    """

    step: Step | None
    tried: int
    fitting: int


def best(c: Config, place: Place, tokens: int, T: int, policies: tuple[str, ...] = KEPT) -> Found:
    """The layout with the fewest estimated seconds, of all that fit.

    Of those within a percent of the best the simplest, see `plain_first`; then the earlier policy and mesh.

    >>> from helpers.costs.transformers.public_models import model
    >>> at = best(model("llama-2-13b"), places("v5p")[6], 2**20, 4096)
    >>> str(at.step.layout)
    'dp=64 zero=2 microbatches=2 policy=everything'
    """
    if tokens < T or not len(rows := candidates(c, place.chips, tokens, T)):
        return Found(None, 0, 0)
    laid, seconds, memory, care = priced(c, place, rows, tokens, T, policies)
    fits = memory <= place.slice.chip.hbm_bytes
    n, i = suited(laid, seconds * care, memory, fits)
    layout = one(rows[i], place, policies[n])
    return Found(step(c, layout, tokens, T, place.slice, "causal"), fits.size, int(fits.sum()))


def suited(
    laid: Layout, seconds: np.ndarray, memory: np.ndarray, fits: np.ndarray, edge: float = 0.0
) -> tuple[int, int]:
    """Policy and layout that are best: the simplest of the fastest that fit; if none does, the one that needs least memory.

    edge  seconds up to which layouts are as fast as the best of more than these
    """
    if not fits.any():
        return least(memory, memory.min() * NEAR, (-laid.microbatches, rounded(seconds), laid.zero))
    seconds = np.where(fits, seconds, np.inf)
    fastest = seconds.min()
    return least(seconds, edge if fastest <= edge else fastest * EQUAL, plain_first(laid, memory))


def plain_first(laid: Layout, memory) -> tuple:
    """What makes one layout simpler than another: fewer axes, no pipeline, fewer microbatches, the lower zero, less memory."""
    axes_used = sum((getattr(laid, a) > 1) * 1 for a in AXES)
    return axes_used, (laid.pp > 1) * 1, laid.microbatches, laid.zero, rounded(memory)


def rounded(x):
    """To nine digits, so that rounding decides nothing.

    >>> rounded(np.array([123456789012.0, 1 / 3]))
    array([1.23456789e+11, 3.33333333e-01])
    """
    scale = 10.0 ** (8 - np.floor(np.log10(np.where(x > 0, x, 1.0))))
    return np.round(x * scale) / scale


def least(by: np.ndarray, limit: float, then: tuple) -> tuple[int, int]:
    """Row and column of those up to a limit, the first by other numbers, in order.

    >>> least(np.array([[2.0, 1.005], [1.0, 9.0]]), 1.01, (np.array([[0, 5], [4, 4]]),))
    (1, 0)
    """
    some = np.flatnonzero(by <= limit)
    keys = [np.broadcast_to(x, by.shape).ravel()[some] for x in then]
    row, column = np.unravel_index(int(some[np.lexsort((some, *reversed(keys)))[0]]), by.shape)
    return int(row), int(column)


def priced(c: Config, place: Place, rows: np.ndarray, tokens: int, T: int, policies: tuple[str, ...]) -> tuple:
    """The layouts of `candidates` as one `Layout` of arrays; their seconds and bytes, of shape (policies, layouts); `careful` of each."""
    laid = Layout(**dict(zip(SEARCHED, rows.T)), pods=place.pods)
    first, found = step(c, laid, tokens, T, place.slice, "causal"), []
    for at in map(first.keeping, policies):
        found.append((at.estimate.mid + 0 * laid.dp, at.memory.total + 0 * laid.dp))
    return laid, *(np.stack(x) for x in zip(*found)), careful(first) + 0 * laid.dp


def one(row: np.ndarray, place: Place, policy: str) -> Layout:
    """One row of `candidates` as a layout of plain numbers."""
    return Layout(**dict(zip(SEARCHED, map(int, row))), pods=place.pods, policy=policy)


def axes(layout: Layout) -> str:
    """A layout without its policy, which pages name beside it, whichever it is.

    >>> axes(Layout(fsdp=16, microbatches=4, policy="everything"))
    'fsdp=16 microbatches=4'
    """
    return str(replace(layout, policy=Layout.policy))


@cache
def smallest(c: Config, name: str, beyond: int, tokens: int, T: int, policies: tuple[str, ...] = KEPT) -> Place | None:
    """The smallest number of chips above `beyond` on which something fits, or None."""
    larger = (p for p in places(name) if p.chips > beyond)
    return next((p for p in larger if best(c, p, tokens, T, policies).fitting), None)


class Wired(Slice):
    """A slice of sizes that JAX traces, which cannot be checked."""

    def __post_init__(self):
        pass


class Traced(Chip):
    """A chip whose pod is traced by JAX: its sides cannot be sorted, so they come with the longest first."""

    @property
    def sides(self):
        return self.pod


def speeds(of: Chip) -> tuple[float, ...]:
    """What a traced step knows of a chip: rates, shares of them, cores, the sides of a pod, or a domain."""
    pace = Pace(of)
    shares = CONSTANTS.share(of.name) * pace.power, CONSTANTS.attention * pace.power
    sides = (*of.sides, 1, 1)[:3]
    return (of.rate(), of.hbm_bandwidth, of.hbm_bytes, of.link_bandwidth, of.dcn_bandwidth, *shares, of.cores, *sides)


def _chip(torus: bool, C, hbm_bandwidth, hbm, W, dcn, share, attention, cores, *sides) -> tuple[Chip, Constants]:
    """A chip of `speeds`, and the constants with its shares."""
    like = chip("v5p" if torus else "H100")
    rates = {
        "flops": {"bf16": C},
        "hbm_bandwidth": hbm_bandwidth,
        "hbm_bytes": hbm,
        "link_bandwidth": W,
        "dcn_bandwidth": dcn,
    }
    on = Traced(**vars(like) | rates | {"cores": cores, "pod": sides if torus else sides[:1]})
    return on, replace(CONSTANTS, **{GENERATIONS[like.name]: share}, attention=attention)


def _step(like: Config, torus: bool, *numbers) -> tuple:
    """`training_step.step` under every policy: estimated seconds, bytes and rank of each, then TIMES, PARTS and ROLES of each."""
    sizes, (tokens, T), known = numbers[:10], numbers[10:12], numbers[12:]
    on, k = _chip(torus, *known[:11])
    inside, pods, *rest = known[11:]
    laid = Layout(**dict(zip(SEARCHED, rest)), pods=1 if torus else pods)
    s, c = Wired(on, (inside,), (False,)), build(like, *sizes)
    first, found = step(c, laid, tokens, T, s, "causal"), []
    vars(first)["prices"] = prices(c, on, laid, first.at, k=k)  # with the shares of its chip
    for policy in KEPT:
        one = first.keeping(policy)
        found.append((one, one.estimate))
    care = careful(first, k)
    soon = [(e.mid, one.memory.total, e.mid * care) for one, e in found]
    return tuple(x for some in (*soon, *(row(*f) for f in found)) for x in some)


def row(at: Step, e: Estimate) -> tuple:
    """TIMES, PARTS and ROLES of a step; ValueError if it takes time for something that PARTS lacks."""
    if more := {part for part in e.parts if part not in PARTS and not (part == "host" and not at.layout.offload)}:
        raise ValueError(f"PARTS lacks {', '.join(sorted(more))}: add what a step of this layout takes")
    used = utilisation(at.config, at.slice.chip, at.layout, at.tokens / at.T, at.T, e.mid)
    times = (e.mid, at.memory.total, e.low, e.high, at.math, *used)
    return (*times, *(e.parts[name] for name in PARTS), *vars(at.memory).values())


@cache
def functions(structures: tuple[Config, ...]) -> tuple[list, list]:
    """Every text of JavaScript once, and for each structure its places in them: the two stages of a step, on a torus, on GPUs."""
    texts, at = [], []
    for like in structures:
        rows = [[8.0] * 25, [8.0] * 7, [8.0]]
        pairs = (staged(lambda *x: _step(like, t, *x), *rows, brief=9) for t in (True, False))  # noqa: B023
        at.append([[_place(texts, text) for text in pair] for pair in pairs])
    return renamed(texts), at


def _place(texts: list[str], text: str) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)
