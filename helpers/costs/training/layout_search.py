"""The best layout of a training step, by trying all of them (chapter 4).

The layouts of `layout_set` under every policy are ranked by the estimate of `step_estimate`: a bound would let the slowest look like
the fastest. Of those that it cannot tell apart the simplest comes first (`Rank`). The shell searches here; pages have the same set
and the same `rank`, which `helpers.live` writes as JavaScript.

`training_step.step` takes arrays, so a search is one call for some thousand meshes. This and `layout_set` need NumPy.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import LARGEST, Machine, machines
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import POLICIES, POLICY_NAMES
from helpers.numeric import maximum, significant, where

from .layout import AXES, Layout
from .layout_set import ANY, NOTHING, grids, keeps
from .operation_seconds import CONSTANTS, TUNED, Constants, Pace, Software
from .training_step import TIGHT, Step, step

SEARCHED = (*AXES, "zero", "microbatches", "v")
KEPT = POLICIES[:3]  # "nothing" computes all layers again at once: no program of the course's sources does that
CAREFUL = 1.12  # tp over several domains comes first only if it is more than a tenth faster, `EQUAL` apart: no measured step has it
EQUAL = 1.01  # estimates that differ by less are equal: no estimate is that good
ALIKE = 1.02  # splits of dp·fsdp that take so much longer than a better one, or less, are no other design
NEAR = 1 + 1e-8  # a little more than what `significant` makes equal


@formula
def exposed(step: Step, constants: Constants = CONSTANTS):
    """1 where cp's blocks are too short to hide a hop of their ring, at the rates that attention and links reach, else 0.

    That block is `ring_attention.hidden_block`.

    >>> s, c = Slice(chip("H100"), (8,)), model("llama-3-8b")
    >>> [exposed(step(c, Layout(cp=8, fsdp=2, pods=2), 2**20, T, s)) for T in (4096, 32768)]
    [1, 0]
    """
    chip, layout, attention = step.slice.chip, step.layout, step.operations.keyed
    pace = Pace(chip, k=constants)
    heads = 2 * attention.heads * attention.width / attention.cached  # G: heads of queries that share one of keys
    hidden = 2 * chip.rate() * pace.power * constants.attention / (pace.rate(layout.cp, layout.tp) * heads)
    return where((layout.cp > 1) & (step.T / layout.cp < hidden), 1, 0)


@formula
def careful_seconds(step: Step):
    """Seconds by which a step is ranked: those of its estimate, `CAREFUL` times as many where tp leaves its domain."""
    return step.estimate.mid * where(step.layout.tp > step.slice.chips, CAREFUL, 1.0)


@formula
@dataclass(frozen=True, order=True)
class Rank:
    """What puts one layout before another: the fields are compared in order, and less comes first. They may be arrays.

    lacks    bytes that the fullest device has too few
    exposed  1 if its ring of cp does not hide: that it runs then as it is priced is least sure
    slower   seconds of its estimate, 0 if they are within a percent of the best that is as exposed: these cannot be told apart
    axes     in use
    staged   1 if it has a pipeline
    microbatches, v, zero
    memory   bytes of the fullest device
    seconds  of its estimate, careful as `careful_seconds` is
    tp, cp, ep, fsdp, dp, pp, policy  so that no two layouts are equal; the policy by its place in KEPT
    """

    lacks: float
    exposed: int
    slower: float
    axes: int
    staged: int
    microbatches: int
    v: int
    zero: int
    memory: float
    seconds: float
    tp: int
    cp: int
    ep: int
    fsdp: int
    dp: int
    pp: int
    policy: int

    def why(self, other: "Rank") -> str:
        """Why this one comes first, as a sentence goes on after "because"; "" if it does not.

        >>> simple, other = (Rank(0.0, 0, 0.0, axes, 0, 1, 1, 0, 8e9, 2.0, axes, 1, 1, 8, 1, 1, 0) for axes in (1, 2))
        >>> simple.why(other), other.why(simple)
        ('within a percent it is as fast, and it uses fewer axes', '')
        """
        if not self < other:
            return ""
        field = next(name for name, x in vars(self).items() if x != getattr(other, name))
        if field == "slower" and not self.slower:
            return "its estimate is within a percent of the shortest"
        reason = REASONS.get(field, "both are equal, and one has to come first")
        equal = field not in ("lacks", "exposed", "slower") and not self.slower
        return f"within a percent it is as fast, and {reason}" if equal else reason


REASONS = {
    "lacks": "a device lacks fewer bytes",
    "exposed": "its ring of cp hides, and that of the other does not",
    "slower": "its estimate is shorter",
    "axes": "it uses fewer axes",
    "staged": "it has no pipeline",
    "microbatches": "it has fewer microbatches",
    "v": "its stages are in fewer pieces",
    "zero": "its zero is lower",
    "memory": "it needs fewer bytes",
    "seconds": "its estimate is shorter",
}


@formula
def rank(layout: Layout, policy, seconds, held_bytes, ring_is_exposed, hbm_bytes, tie_seconds) -> Rank:
    """The rank of a layout, or of arrays of them.

    policy       its place in KEPT
    seconds      `careful_seconds`
    tie_seconds  seconds that are as good as the best, of those that are as exposed
    """
    sizes = [getattr(layout, axis) for axis in AXES]
    in_use = sum(where(n > 1, 1, 0) for n in sizes)
    slower, staged = where(seconds > tie_seconds, significant(seconds), 0.0), where(layout.pp > 1, 1, 0)
    first = significant(maximum(held_bytes - hbm_bytes, 0.0)), ring_is_exposed, slower, in_use, staged
    then = layout.microbatches, layout.v, layout.zero, significant(held_bytes), significant(seconds)
    return Rank(*first, *then, *sizes, policy)


@record
class Ranking:
    """The meshes of a machine, each with the settings that suit it best: numbers are arrays, best first.

    policies   places in POLICY_NAMES
    seconds    of the estimate
    memory     bytes of the fullest device
    rank       of each
    edges      careful seconds that are as good as the best, of what is not exposed and of what is
    tried      layouts of the set, once for each policy
    fitting    those of them that fit in memory
    least      bytes of the fullest device under the one that needs least; infinite if there is none
    hbm        bytes of a device
    """

    layouts: Layout
    policies: tuple
    seconds: tuple
    memory: tuple
    rank: Rank
    edges: tuple[float, float]
    tried: int
    fitting: int
    least: float
    hbm: float
    best: tuple[Step, ...] = ()

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def fits(self) -> int:
        """How many meshes fit, which come first."""
        return int((self.rank.lacks == 0).sum())

    @property
    def tight(self) -> int:
        """How many lack fewer bytes than a count of them is off, which come next."""
        return int((self.rank.lacks <= TIGHT * self.hbm).sum()) - self.fits

    @property
    def as_good(self) -> int:
        """How many designs are as good as the first: none where nothing fits."""
        slower, exposed, n = self.rank.slower, self.rank.exposed, self.fits
        return sum(int(slower[i] == 0 and exposed[i] == exposed[0]) for i, *_ in self.designs if i < n)

    @cached_property
    def designs(self) -> tuple[tuple[int, ...], ...]:
        """Places of meshes that are one line of a list: of the same tp, cp, ep and pp within `ALIKE`, or all without room."""
        lines, last, axes = [], {}, ("tp", "cp", "ep", "pp")
        columns = (x.tolist() for x in (self.seconds, self.rank.lacks > 0, *(getattr(self.layouts, a) for a in axes)))
        for n, (seconds, *design) in enumerate(zip(*columns)):
            line = last.get(tuple(design))
            if line is None or not (design[0] or seconds <= ALIKE * self.seconds[line[0]]):
                lines.append(line := [])
                last[tuple(design)] = line
            line.append(n)
        return tuple(map(tuple, lines))

    def also(self, line: int) -> tuple[int, ...]:
        """Sizes of fsdp that the other meshes of a line have, whose dp has the other chips."""
        return tuple(sorted(int(self.layouts.fsdp[n]) for n in self.designs[line][1:]))

    def layout(self, n: int) -> Layout:
        """The one in place n, in plain numbers."""
        numbers = {name: int(getattr(self.layouts, name)[n]) for name in SEARCHED}
        return replace(self.layouts, **numbers, policy=POLICY_NAMES[int(self.policies[n])])

    def rank_of(self, n: int) -> Rank:
        """The rank of the one in place n, in plain numbers."""
        return Rank(*(float(x[n]) for x in vars(self.rank).values()))

    def beside(self, step: Step) -> Rank:
        """The rank that a step has among these, whether its layout is one of the set or not."""
        late, policy = exposed(step), POLICY_NAMES.index(step.layout.policy)
        numbers = careful_seconds(step), step.memory.total, late, step.slice.chip.hbm_bytes, self.edges[late]
        return rank(step.layout, policy, *numbers)


@formula
def ranking(
    c: Config, tokens: int, T: int, slice: Slice, template: Layout = ANY, policies=KEPT, fixed=NOTHING, software=TUNED
) -> Ranking:
    """Every mesh once, the best first; those that do not fit come last, by the bytes that they lack.

    template  whatever a layout says besides its axes, zero, microbatches, v and policy: pods, schedule, types of products and
              of what is stored
    fixed     what of the layouts is not searched, under any name that they have

    >>> found = ranking(model("llama-2-13b"), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4)))
    >>> str(found.layout(0)), len(found), found.fits
    ('dp=64 zero=2 microbatches=2 policy=everything', 194, 194)
    """
    import numpy as np

    hbm, least, low = slice.chip.hbm_bytes, inf, (inf, inf)
    rows, tried, fitting = [], 0, 0
    for grid in grids(c, tokens, T, slice, template, fixed):
        priced = _priced(c, grid, tokens, T, slice, policies, "zero" in fixed, software)
        fits, held = priced.legal & (priced.memory <= hbm), np.where(priced.legal, priced.memory, inf)
        tried, fitting, least = tried + int(priced.legal.sum()), fitting + int(fits.sum()), min(least, held.min())
        took = np.where(fits, priced.careful, inf)
        low = tuple(min(low[x], took[priced.exposed == x].min(initial=inf)) for x in (0, 1))
        rows.append(_contenders(grid, priced, held, took, policies, low))
    columns = map(np.concatenate, zip(*rows)) if rows else [np.zeros(0)] * (len(SEARCHED) + 5)
    *numbers, policy, seconds, careful, memory, late = columns
    layouts, edges = replace(template, **dict(zip(SEARCHED, numbers))), tuple(EQUAL * x for x in low)
    ranks = rank(layouts, policy, careful, memory, late, hbm, np.where(late, *edges[::-1]))
    order = np.lexsort([*vars(ranks).values()][::-1])
    _, first_of_mesh = np.unique(np.array(numbers[: len(AXES)])[:, order], axis=1, return_index=True)
    order = order[np.sort(first_of_mesh)]
    layouts = replace(template, **{name: getattr(layouts, name)[order] for name in SEARCHED})
    ranks = Rank(*(x[order] for x in vars(ranks).values()))
    return Ranking(layouts, policy[order], seconds[order], memory[order], ranks, edges, tried, fitting, least, hbm)


@dataclass(frozen=True)
class _Priced:
    """Arrays over meshes, policies, zeros and microbatches; `legal`: in the set; `exposed` over meshes."""

    legal: tuple
    seconds: tuple
    careful: tuple
    memory: tuple
    exposed: tuple


def _priced(
    c: Config, layouts: Layout, tokens, T, slice: Slice, policies, keep_aliases: bool, software: Software
) -> _Priced:
    """Whether layouts of arrays are in the set, and their seconds and bytes under each policy."""
    import numpy as np

    any_policy = step(c, layouts, tokens, T, slice, "causal", software=software)
    shape = np.broadcast_shapes(*(np.shape(getattr(layouts, name)) for name in SEARCHED))
    legal = np.stack([np.broadcast_to(keeps(c, layouts, tokens, T, slice, keep_aliases), shape)] * len(policies), 1)
    steps = [any_policy.keeping(policy) for policy in policies]
    numbers = zip(*((x.estimate.mid, careful_seconds(x), x.memory.total) for x in steps))
    by_policy = (np.stack([np.broadcast_to(x, shape) for x in column], 1) for column in numbers)
    return _Priced(legal, *by_policy, np.broadcast_to(exposed(any_policy), shape)[:, 0, 0])


def _contenders(layouts: Layout, priced: _Priced, held_bytes, seconds, policies, best_seconds) -> list:
    """Columns of what may come first of its mesh in the end: what may be as good as the best, the fastest, or the smallest.

    held_bytes, seconds  bytes of what is in the set, and careful seconds of what fits, infinite elsewhere
    best_seconds         the fewest of these so far, of what is not exposed and of what is
    """
    import numpy as np

    fastest, smallest = (x.min((1, 2, 3), keepdims=True) for x in (seconds, held_bytes))
    edge = EQUAL * np.where(priced.exposed, *best_seconds[::-1])[:, None, None, None]
    fast = (seconds < inf) & (seconds <= maximum(edge, NEAR * fastest))
    # A mesh in pieces may have nothing in the set.
    may = fast | ((fastest == inf) & (held_bytes < inf) & (held_bytes <= NEAR * smallest))
    mesh, policy, zero, micro = np.nonzero(may)
    sizes, pieces = [getattr(layouts, axis).ravel()[mesh] for axis in AXES], layouts.v.ravel()[mesh]
    kept = np.array([POLICY_NAMES.index(name) for name in policies])[policy]
    numbers = priced.seconds[may], priced.careful[may], priced.memory[may], priced.exposed[mesh]
    return [*sizes, layouts.zero.ravel()[zero], layouts.microbatches.ravel()[micro], pieces, kept, *numbers]


@formula
def search(
    c: Config, tokens: int, T: int, slice: Slice, template: Layout = ANY, policies=KEPT, top: int = 10, software=TUNED
) -> Ranking:
    """The layouts with the fewest estimated seconds (`Step.estimate`), of all that fit: of each design the best.

    Of those within a percent of the best the simplest comes first: fewest axes, no pipeline, fewest microbatches, the lower zero.
    One whose tp leaves its domain has to be a tenth faster than the others; one whose cp has too short blocks comes last (`Rank`).
    Floors count the pairs that the mask leaves. `template` is as `ranking` takes it.

    >>> found = search(model("llama-2-13b"), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4)), top=1)
    >>> [str(step.layout) for step in found.best]
    ['dp=64 zero=2 microbatches=2 policy=everything']
    """
    every = ranking(c, tokens, T, slice, template, policies, software=software)
    heads = [n for n, *_ in every.designs if n < (every.fits or every.tight)][:top]
    steps = (step(c, every.layout(n), tokens, T, slice, "causal", software=software) for n in heads)
    return replace(every, best=tuple(steps))


@formula
def smallest(
    c: Config,
    tokens: int,
    T: int,
    chip: Chip,
    policies: tuple[str, ...] = KEPT,
    template: Layout = ANY,
    min_chips: int = 0,
    max_chips: int = LARGEST,
) -> Machine | None:
    """The smallest machine of `min_chips` to `max_chips` chips, on which some layout of a step fits, or None.

    >>> str(smallest(model("llama-2-13b"), 2**20, 4096, chip("v5e")))
    '4x4'
    """
    for m in machines(chip, max_chips):
        if m.chips >= min_chips and ranking(c, tokens, T, m.slice, replace(template, pods=m.pods), policies).fitting:
            return m
    return None


@formula
def check_fits(step: Step) -> None:
    """ValueError if a step's fullest device has too little memory: by how much, what fills it, and what would do.

    That is another layout of the slice, with the same policy if one fits, or else the smallest slice that holds the step,
    or else how much the best layout lacks on the largest one.

    >>> held = step(model("llama-2-13b"), Layout(dp=64), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4)))
    >>> check_fits(held)                                           # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: dp=64 needs 169.0 GB on a v5p, 73.0 GB more than it has, 104.1 GB of it optimizer; ... fits on this slice
    """
    if not step.missing:
        return
    chip, layout = step.slice.chip, step.layout
    role, most = max(vars(step.memory).items(), key=lambda r: r[1])
    lack = (
        f"{layout} needs {step.memory.total / 1e9:.1f} GB on a {chip.name}, {step.missing / 1e9:.1f} GB more than it has, "
        f"{most / 1e9:.1f} GB of it {role}"
    )
    case = step.config, step.tokens, step.T
    for policies in ((layout.policy,), KEPT):
        if best := search(*case, step.slice, layout, policies, 1).best:
            raise ValueError(f"{lack}; {best[0].layout} fits on this slice")
    if room := smallest(*case, chip, template=layout):
        raise ValueError(f"{lack}; no layout fits on this slice, the smallest slice that holds the step is {room}")
    *_, largest = machines(chip)
    over = ranking(*case, largest.slice, replace(layout, pods=largest.pods)).least - chip.hbm_bytes
    lacks = f", where the best lacks {over / 1e9:.1f} GB a chip" if over < inf else ""
    raise ValueError(
        f"{lack}; no layout fits on any slice of {chip.name} up to {largest}{lacks}: "
        "give a smaller model, or chips with more memory"
    )
