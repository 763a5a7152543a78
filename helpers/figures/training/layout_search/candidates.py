"""The layouts that the live figure of chapter 4 tries, the best of them, and the functions that its page calls.

The set: chips in powers of two as tp·cp·ep·fsdp·pp or tp·cp·ep·dp·pp, cp up to 64, every zero, microbatches in powers of two.
`best` searches it by `training_step.step` on arrays; the page does the same with `wires` and `step`, traced by
`helpers.live.jaxpr_to_javascript` in stages, and its own loop in the same order (`layout_search.js`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import AXES, Layout, Wires, wires
from helpers.costs.training.layout_search import SEARCHED, slices
from helpers.costs.training.training_step import Step, rules, step
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import POLICIES
from helpers.figures.transformers.decoder_sizes.decoder import build, structure
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.renaming import renamed
from helpers.live.stages import staged

KEPT = POLICIES[:3]
DOMAINS = 512  # NVSwitch domains at most
PARTS = ("math", "hbm", "tp", "cp", "ep", "pp", "fsdp", "cp+ep+fsdp+dp", "cp+fsdp+dp", "cp+ep+dp", "cp+dp")
ROLES = ("weights", "gradients", "optimizer", "gathered", "activations", "working", "logits")
TIMES = (
    "hidden",
    "memory",
    "lower",
    "upper",
    "mfu",
    "bubble",
)  # what a traced step gives first; then parts, then roles
NAMES_OF_STEP = (
    *TIMES,
    *(f"t{n}" for n in range(len(PARTS))),
    *(f"m{n}" for n in range(len(ROLES))),
)  # as a traced step has them
NEAR = 1 + 1e-9  # times that differ by less are equal: rounding decides nothing
MOST_CP = 64
EACH = len(fields(Wires))  # numbers of an axis of a mesh


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


def numbered(p: Place) -> tuple[tuple[int, ...], int, str]:
    """What a page knows of a place: the arguments of its wires, the chips of its slice, its words.

    >>> numbered(places("v5p")[2]), numbered(places("H100")[4])
    (((2, 2, 1, 0, 0, 0, 1), 4, '2x2x1'), ((8, 2), 8, '2 domains of 8'))
    """
    s = p.slice
    if not s.chip.axes:
        return (*s.shape, p.pods), s.chips, str(p)
    more = 3 - len(s.shape)
    return (*s.shape, *(1,) * more, *map(int, s.wraps), *(0,) * more, p.pods), s.chips, str(p)


@cache
def divide(c: Config) -> dict[str, tuple[int, ...]]:
    """For each axis the powers of two that a model's sizes allow, by the rules of `training`; cp is left to the context.

    >>> from helpers.costs.transformers.public_models import model
    >>> divide(model("llama-3.1-405b"))
    {'tp': (1, 2, 4, 8, 16, 32, 64, 128), 'ep': (1,), 'pp': (1, 2)}
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
    """The layout with the fewest seconds if what can hide does, of all that fit.

    Of equals the one that needs least memory, then the one with the lower zero, the earlier policy, and the simpler mesh.

    >>> from helpers.costs.transformers.public_models import model
    >>> at = best(model("llama-2-13b"), places("v5p")[6], 2**20, 4096)
    >>> str(at.step.layout)
    'fsdp=16 cp=4 zero=3 microbatches=16 policy=everything'
    """
    if tokens < T or not len(rows := candidates(c, place.chips, tokens, T)):
        return Found(None, 0, 0)
    laid, hidden, memory = priced(c, place, rows, tokens, T, policies)
    fits = memory <= place.slice.chip.hbm_bytes
    zero = laid.zero + 0 * hidden
    n, i = first(np.where(fits, hidden, np.inf), memory, zero) if fits.any() else first(memory, hidden, zero)
    layout = one(rows[i], place, policies[n])
    return Found(step(c, layout, tokens, T, place.slice), fits.size, int(fits.sum()))


def priced(c: Config, place: Place, rows: np.ndarray, tokens: int, T: int, policies: tuple[str, ...]) -> tuple:
    """The layouts of `candidates` as one `Layout` of arrays; their seconds and bytes, of shape (policies, layouts)."""
    laid = Layout(**dict(zip(SEARCHED, rows.T)), pods=place.pods)
    on, found = wires(laid, place.slice), []
    for policy in policies:
        at = step(c, replace(laid, policy=policy), tokens, T, place.slice, at=on)
        found.append((at.hidden + 0 * laid.dp, at.memory.total + 0 * laid.dp))
    return laid, *(np.stack(x) for x in zip(*found))


def one(row: np.ndarray, place: Place, policy: str) -> Layout:
    """One row of `candidates` as a layout of plain numbers."""
    return Layout(**dict(zip(SEARCHED, map(int, row))), pods=place.pods, policy=policy)


def axes(layout: Layout) -> str:
    """A layout without its policy, which pages name beside it, whichever it is.

    >>> axes(Layout(fsdp=16, microbatches=4, policy="everything"))
    'fsdp=16 microbatches=4'
    """
    return str(replace(layout, policy=Layout.policy))


def held_up(hidden, parts) -> tuple:
    """Whether what is sent beside the products is what a step takes `hidden` for, and which of PARTS it is."""
    sent = np.stack(np.broadcast_arrays(hidden, *parts[2:])[1:])
    most = sent.max(axis=0)
    return (most * NEAR >= hidden) & (most > np.maximum(parts[0], parts[1])), 2 + sent.argmax(axis=0)


def enough(at: Step, batches: Iterable[int]) -> int | None:
    """The first batch that arithmetic bounds on the mesh, with the zero and policy, of a step: with some microbatches it fits.

    >>> from helpers.costs.transformers.public_models import model
    >>> enough(best(model("llama-2-13b"), places("v5p")[6], 2**20, 4096).step, (2**n for n in range(14, 27)))
    65536
    """
    a = at.layout
    for tokens in batches:
        most = tokens // at.T // (a.fsdp * a.dp * a.ep)
        laid = replace(a, microbatches=np.array([2.0**n for n in range(most.bit_length())]))
        some = step(at.config, laid, tokens, at.T, at.slice, at=wires(laid, at.slice))
        parts = row(some)[len(TIMES) : len(TIMES) + len(PARTS)]
        if most and ((some.missing == 0) & (parts[0] >= parts[1]) & ~held_up(some.hidden, parts)[0]).any():
            return tokens
    return None


def first(*keys: np.ndarray) -> tuple[int, int]:
    """Row and column of the least of the first key, of those the least of the second, and so on; then the first of all.

    >>> first(np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([[0.0, 5.0], [4.0, 4.0]]))
    (1, 0)
    """
    left = np.isfinite(keys[0])
    for key in keys:
        left = left & (key <= np.where(left, key, np.inf).min() * NEAR)
    row, column = np.unravel_index(int(left.argmax()), left.shape)
    return int(row), int(column)


@cache
def smallest(c: Config, name: str, beyond: int, tokens: int, T: int, policies: tuple[str, ...] = KEPT) -> Place | None:
    """The smallest number of chips above `beyond` on which something fits, or None."""
    larger = (p for p in places(name) if p.chips > beyond)
    return next((p for p in larger if best(c, p, tokens, T, policies).fitting), None)


class Wired(Slice):
    """A slice of sizes that JAX traces, which cannot be checked."""

    def __post_init__(self):
        pass


def _wires(torus: bool, *numbers) -> tuple:
    """`layout.wires` of one mesh: the fields of `Wires` for each axis."""
    W, dcn, *shape, pods = numbers[:9] if torus else numbers[:4]
    on = replace(chip("v5p" if torus else "H100"), link_bandwidth=W, dcn_bandwidth=dcn)
    at = Wired(on, tuple(shape[:3]), tuple(w > 0 for w in shape[3:])) if torus else Wired(on, tuple(shape), (False,))
    laid = Layout(**dict(zip(AXES, numbers[9 if torus else 4 :])), pods=pods)
    return tuple(getattr(w, f.name) for w in wires(laid, at).values() for f in fields(Wires))


def _step(like: Config, torus: bool, *numbers) -> tuple:
    """`training_step.step` under every policy: seconds and bytes of each, then TIMES, PARTS and ROLES of each."""
    sizes, (tokens, T, C, hbm_bandwidth, hbm, inside, pods), rest = numbers[:10], numbers[10:17], numbers[17:]
    on = replace(chip("v5p" if torus else "H100"), flops={"bf16": C}, hbm_bandwidth=hbm_bandwidth, hbm_bytes=hbm)
    laid = Layout(**dict(zip(SEARCHED, (*rest[:7], rest[-1]))), pods=1 if torus else pods)
    at = {axis: Wires(*rest[7 + EACH * n : 7 + EACH * (n + 1)]) for n, axis in enumerate(AXES)}
    s, c = Wired(on, (inside,), (False,)), build(like, *sizes)
    found = [step(c, replace(laid, policy=policy), tokens, T, s, at=at) for policy in KEPT]
    soon = [(at.hidden, at.memory.total) for at in found]
    return tuple(x for some in (*soon, *map(row, found)) for x in some)


def row(at: Step) -> tuple:
    """TIMES, PARTS and ROLES of a step; ValueError if it takes time for something that PARTS lacks."""
    if more := at.parts.keys() - set(PARTS):
        raise ValueError(f"PARTS lacks {', '.join(sorted(more))}: add what a step of this layout sends")
    times = (at.hidden, at.memory.total, at.time.lower, at.time.upper, at.mfu(at.hidden), at.bubble)
    return (*times, *(at.parts.get(name, 0.0) for name in PARTS), *vars(at.memory).values())


def plain(c: Config) -> Config:
    """The structure of a model, without windows: with all pairs counted they change nothing.

    >>> from helpers.costs.transformers.public_models import model
    >>> plain(model("mistral-7b")) == plain(model("llama-3-8b"))
    True
    """
    return structure(replace(c, window=None, full_every=None))


@cache
def functions(structures: tuple[Config, ...]) -> tuple[list, list]:
    """Every text of JavaScript once, and for each structure its places in them.

    They are: first the wires of a torus and those of GPUs; then, of each structure on either, the two stages of a step.
    """
    mesh = [8.0] * len(AXES)
    texts = [javascript(lambda *x, t=t: _wires(t, *x), *[8.0] * (9 if t else 4), *mesh) for t in (True, False)]
    at = []
    for like in structures:
        rows = [[8.0] * 17, [8.0] * (7 + EACH * len(AXES)), [8.0]]
        pairs = (staged(lambda *x: _step(like, t, *x), *rows, brief=6) for t in (True, False))  # noqa: B023
        at.append([[_place(texts, text) for text in pair] for pair in pairs])
    return renamed(texts), at


def _place(texts: list[str], text: str) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)
