"""The best layout of a training step, by trying all of them (chapter 4).

Every way to write the chips of a slice as tp·cp·ep·fsdp·dp·pp, every zero, every number of microbatches, every policy.
They are ranked by the estimate of `step_estimate`, and not by a bound, which lets the slowest layouts look like the fastest;
of those that it cannot tell apart the simplest comes first. `training_step.step` takes arrays, so a search is
one call for some thousand meshes at a time. These are the only functions of `costs` that need NumPy.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.training_memory_bytes import POLICIES
from helpers.numeric import where

from .layout import AXES, Layout, divisors
from .operation_seconds import Pace
from .step_estimate_constants import CONSTANTS, Constants
from .training_step import Step, rules, step

SEARCHED = (*AXES, "zero", "microbatches")
BLOCK = 2048  # meshes at a time: a step's cost for Python is paid once for them
ANY = Layout()
CAREFUL = 1.12  # tp over several domains comes first only if it is more than a tenth faster, `EQUAL` apart: no measured step has it
LAST = 100.0  # blocks of cp that cannot hide a hop come after all others: that the ring runs then as it is priced is least sure
EQUAL = 1.01  # estimates that differ by less are equal: no estimate is that good


def factors(n: int, k: int) -> Iterator[tuple[int, ...]]:
    """Every way to write n as a product of k whole numbers, in order.

    >>> list(factors(4, 2)), sum(1 for _ in factors(4096, 6))
    ([(1, 4), (2, 2), (4, 1)], 6188)
    """
    if k == 1:
        yield (n,)
        return
    for d in divisors(n):
        for rest in factors(n // d, k - 1):
            yield (d, *rest)


def meshes(c: Config, tokens: int, T: int, s: Slice, pods: int = 1, schedule: str = "1F1B"):
    """One array for each axis, of all the meshes that keep the rules with one microbatch or more.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> {a: len(x) for a, x in meshes(model("llama-2-13b"), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4))).items()}
    {'tp': 194, 'cp': 194, 'ep': 194, 'fsdp': 194, 'dp': 194, 'pp': 194}
    """
    import numpy as np

    chips = s.chips if s.chip.axes else s.chips * pods
    rows = np.array(list(factors(chips, len(AXES))))
    rows = rows[rows[:, AXES.index("pp")] <= c.L]
    for at, sizes in (("tp", c.N), ("cp", T), ("ep", c.moe.E if c.moe else 1)):
        rows = rows[sizes % rows[:, AXES.index(at)] == 0]  # most go here, and fast
    laid = Layout(**dict(zip(AXES, rows.T)), pods=pods, schedule=schedule if schedule != "interleaved" else "1F1B")
    keep = np.ones(len(rows), bool)
    for holds, _ in rules(c, laid, tokens, T, s):
        keep &= holds
    return dict(zip(AXES, rows[keep].T))


def grids(c: Config, tokens: int, T: int, s: Slice, pods: int = 1, schedule: str = "1F1B"):
    """Layouts of arrays that broadcast: meshes down, then zero, then microbatches; together they are all layouts.

    A number of microbatches that does not divide a mesh's sequences is among them; `rules` tells.
    """
    import numpy as np

    each = meshes(c, tokens, T, s, pods, schedule)
    total = len(each["tp"])
    zero, microbatches = np.arange(4)[None, :, None], np.array(divisors(tokens // T))[None, None, :].astype(float)
    for begin in range(0, total, BLOCK):
        some = {a: x[begin : begin + BLOCK, None, None].astype(float) for a, x in each.items()}
        yield Layout(**some, pods=pods, zero=zero, microbatches=microbatches, schedule=schedule)


@dataclass(frozen=True)
class Found:
    """What a search found.

    best     steps of the layouts that fit, best first
    tried    layouts that keep all rules, once for each policy
    fitting  those of them that fit in memory
    least    bytes of the fullest device under the one that needs least; infinite if no layout keeps the rules
    """

    best: tuple[Step, ...]
    tried: int
    fitting: int
    least: float


def careful(at: Step, k: Constants = CONSTANTS):
    """What an estimate is multiplied by before it is ranked.

    That is `CAREFUL` where tp leaves its domain, `LAST` where cp's blocks are too short to hide a hop of its ring
    (`ring_attention.hidden_block`, at the rates that attention and links reach), or else 1.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> s, c = Slice(chip("H100"), (8,)), model("llama-3-8b")
    >>> [float(careful(step(c, Layout(tp=n, dp=16 // n, pods=2), 2**20, 4096, s))) for n in (8, 16)]
    [1.0, 1.12]
    >>> [float(careful(step(c, Layout(cp=8, fsdp=2, pods=2), 2**20, T, s))) for T in (4096, 32768)]
    [100.0, 1.0]
    """
    of, layout, layer = at.slice.chip, at.layout, at.at.layers[0]
    pace, queries = Pace(of, k=k), layer.attention
    shared = (
        2 * queries.heads * queries.width / (layer.keys / queries.rows / layout.cp)
    )  # G: queries' heads that share a key
    hidden = 2 * of.rate() * pace.power * k.attention / (pace.rate(layout.cp, layout.tp) * shared)
    exposed = (layout.cp > 1) & (at.T / layout.cp < hidden)
    return where(layout.tp > at.slice.chips, CAREFUL, 1.0) * where(exposed, LAST, 1.0)


def search(
    c: Config,
    tokens: int,
    T: int,
    s: Slice,
    like: Layout = ANY,
    policies: tuple[str, ...] = POLICIES[:3],
    top: int = 10,
) -> Found:
    """The layouts with the fewest estimated seconds (`Step.estimate`), of all that fit.

    Of those within a percent of the best the simplest comes first: fewest axes, no pipeline, fewest microbatches, the lower zero.
    One whose tp leaves its domain has to be a tenth faster than the others; one whose cp has too short blocks comes last (`careful`).
    A layout that has several names, as dp with zero=3 is fsdp, is listed once. Floors count the pairs that the mask leaves.

    like  whatever a layout says besides its axes, zero, microbatches and policy: pods, schedule, types of products and of what is stored

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> found = search(model("llama-2-13b"), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4)), top=1)
    >>> [str(at.layout) for at in found.best]
    ['dp=64 zero=2 microbatches=2 policy=everything']
    """
    import numpy as np

    ranked, tried, fitting, least = [], 0, 0, inf
    for grid in grids(c, tokens, T, s, like.pods, like.schedule):
        laid = replace(like, **{name: getattr(grid, name) for name in SEARCHED})
        ok = np.ones((), bool)
        for holds, _ in rules(c, laid, tokens, T, s):
            ok = ok & holds
        shape = np.broadcast_shapes(*(np.shape(getattr(laid, name)) for name in SEARCHED))
        ok = np.broadcast_to(ok, shape)
        first = step(c, laid, tokens, T, s, "causal")
        care = careful(first)
        for policy in policies:
            at = first.keeping(policy)
            fits = ok & (at.missing == 0)
            tried, fitting = tried + int(ok.sum()), fitting + int(fits.sum())
            least = min(least, float(np.where(ok, at.memory.total, inf).min()))
            ranked += _first(np, at, at.estimate.mid * care, fits, shape, top)
    best = min((one for one, *_ in ranked), default=inf)
    ranked.sort(key=lambda r: (r[0] > best * EQUAL, r[1] if r[0] <= best * EQUAL else (r[0],), r[0]))
    once: dict = {}
    for seconds, plain, layout in ranked:
        once.setdefault((f"{seconds:.9g}", f"{plain[-1]:.9g}"), layout)
    steps = (step(c, layout, tokens, T, s, "causal") for layout in once.values())
    return Found(tuple(islice(steps, top)), tried, fitting, least)


def _first(np, at: Step, seconds, fits, shape, top: int) -> list[tuple]:
    """(seconds, how involved, layout) of the fastest of one block, and of the simplest of those that are as fast."""
    seconds = np.where(fits, np.broadcast_to(seconds, shape), np.inf).ravel()
    numbers = {n: np.broadcast_to(getattr(at.layout, n), shape).ravel() for n in SEARCHED}
    memory = np.broadcast_to(at.memory.total, shape).ravel()
    axes = sum((numbers[a] > 1).astype(int) for a in AXES)
    many = min(64 * top, seconds.size)  # one layout has up to some dozen names, when dp with zero=3 is fsdp
    some = np.flatnonzero(seconds <= max(np.partition(seconds, many - 1)[many - 1], seconds.min() * EQUAL))
    some = some[np.isfinite(seconds[some])]
    plain = (axes, numbers["pp"] > 1, numbers["microbatches"], numbers["zero"], memory)
    some = some[np.lexsort(tuple(x[some] for x in reversed(plain)))]
    same = np.array([[f"{seconds[i]:.9g}", f"{memory[i]:.9g}"] for i in some]).reshape(-1, 2)
    some = some[np.sort(np.unique(same, axis=0, return_index=True)[1])] if len(some) else some
    near = some[seconds[some] <= seconds.min() * EQUAL][:top]
    far = some[np.argsort(seconds[some], kind="stable")][:top]
    out = []
    for i in dict.fromkeys((*near, *far)):
        picked = {n: int(x[i]) for n, x in numbers.items()}
        out.append((float(seconds[i]), tuple(float(x[i]) for x in plain), replace(at.layout, **picked)))
    return out


def slices(of: Chip) -> Iterator[Slice]:
    """Slices of a chip from the smallest on, each with one axis doubled: the shortest one that may grow.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [s.shape for s in slices(chip("v5e"))]
    [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8), (16, 8), (16, 16)]
    """
    shape, pod = [1] * len(of.pod), of.sides
    while True:
        yield Slice(of, tuple(shape))
        grow = [i for i in range(len(shape)) if 2 * shape[i] <= pod[i]]
        if not grow:
            return
        at = min(grow, key=lambda i: (shape[i], i))
        shape[at] *= 2


def rooms(of: Chip) -> Iterator[tuple[Slice, int]]:
    """Slices from the smallest on, one pod of each; of GPUs, after a whole domain, 2 of them, 4, … 1024.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [s.chips * pods for s, pods in rooms(chip("H100"))][:6]
    [1, 2, 4, 8, 16, 32]
    """
    for s in slices(of):
        yield s, 1
    if not of.axes:
        yield from ((s, 2**k) for k in range(1, 11))


def smallest(c: Config, tokens: int, T: int, of: Chip, policies: tuple[str, ...] = POLICIES[:3], like: Layout = ANY):
    """The smallest slice on which some layout of a step fits, with its number of pods, or None.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> at, pods = smallest(model("llama-2-13b"), 2**20, 4096, chip("v5e"))
    >>> at.shape, pods
    ((4, 4), 1)
    """
    fits = (r for r in rooms(of) if search(c, tokens, T, r[0], replace(like, pods=r[1]), policies, 1).fitting)
    return next(fits, None)


def check_fits(at: Step) -> None:
    """ValueError if a step's fullest device has too little memory: by how much, what fills it, and what would do.

    That is another layout of the slice, with the same policy if one fits, or else the smallest slice that holds the step,
    or else how much the best layout lacks on the largest one.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> at = step(model("llama-2-13b"), Layout(dp=64), 2**20, 4096, Slice(chip("v5p"), (4, 4, 4)))
    >>> check_fits(at)                                              # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: dp=64 needs 169.0 GB on a v5p, 73.0 GB more than it has, 104.1 GB of it optimizer; ... fits on this slice
    """
    if not at.missing:
        return
    chip, layout = at.slice.chip, at.layout
    role, most = max(vars(at.memory).items(), key=lambda r: r[1])
    said = (
        f"{layout} needs {at.memory.total / 1e9:.1f} GB on a {chip.name}, {at.missing / 1e9:.1f} GB more than it has, "
        f"{most / 1e9:.1f} GB of it {role}"
    )
    case = at.config, at.tokens, at.T
    for policies in ((layout.policy,), POLICIES[:3]):
        if best := search(*case, at.slice, layout, policies, 1).best:
            raise ValueError(f"{said}; {best[0].layout} fits on this slice")
    if room := smallest(*case, chip, like=layout):
        raise ValueError(
            f"{said}; no layout fits on this slice, the smallest slice that holds the step is {_named(*room)}"
        )
    *_, (largest, pods) = rooms(chip)
    over = search(*case, largest, replace(layout, pods=pods), top=1).least - chip.hbm_bytes
    lacks = f", where the best lacks {over / 1e9:.1f} GB a chip" if over < inf else ""
    raise ValueError(
        f"{said}; no layout fits on any slice of {chip.name} up to {_named(largest, pods)}{lacks}: "
        "give a smaller model, or chips with more memory"
    )


def _named(s: Slice, pods: int) -> str:
    return (f"{pods} domains of " if pods > 1 else "") + "x".join(map(str, s.shape))


entries(__name__)
