"""What the picked layout sends over each tier of links: `costs.racks.training_over_tiers` in Python, and traced for the page."""

from dataclasses import replace
from functools import cache

from helpers.costs.racks.training_over_tiers import KINDS, TIERS, Volume, cluster_of, divided, is_hsdp, volumes
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import Machine
from helpers.costs.training.layout import AXES, Bytes, Layout
from helpers.costs.training.layout_search import KEPT, SEARCHED
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.config import Config
from helpers.figures.training.layout_search.candidates import Wired
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.stages import renamed
from helpers.live.words import reading
from helpers.numeric import where
from helpers.plan.train import SENT

from . import words as say

NAMES = (*(f"w{t}" for t in range(len(TIERS))), *(f"b{t}_{k}" for t in range(len(TIERS)) for k in range(len(KINDS))))
"""Seconds of each tier, and in each tier the bytes of each kind, as `values` and the traced functions have them."""


def called(chip: Chip) -> tuple[str, ...]:
    """What has the links of each tier.

    >>> called(chip("H100")), called(chip("v5p"))[0]
    (('NVLink domain', 'leaf switches', 'spine switches'), 'slice')
    """
    return say.TIERS["slice" if chip.axes else "domain"].format(links=chip.names[1]), *say.TIERS["others"]


def said(chip: Chip, layout: Layout, values: dict[str, float]) -> str:
    """The tier whose links are busy longest, and whether the layout is HSDP; nothing where nothing is sent."""
    seconds = [values[f"w{t}"] for t in range(len(TIERS))]
    if not max(seconds) > 0:
        return ""
    longest = say.LINKS.format(tier=called(chip)[seconds.index(max(seconds))], busy=reading(max(seconds), "s"))
    outside = {kind: sum(values[f"b{t}_{k}"] for t in range(1, len(TIERS))) for k, kind in enumerate(KINDS)}
    return longest + (say.HSDP.format(inside=called(chip)[0]) if is_hsdp(layout, outside) else "")


def table(chip: Chip, values: dict[str, float]) -> list[tuple[str, ...]]:
    """The table's rows, the first with names of tiers and the last with seconds; nothing where nothing is sent.

    Tiers that carry nothing have no column, and kinds of which nothing is sent no row.
    """
    some = [t for t in range(len(TIERS)) if values[f"w{t}"] > 0]
    if not some:
        return []
    rows = [(say.TABLE["what"], *(called(chip)[t] for t in some))]
    for k, kind in enumerate(KINDS):
        sent = [values[f"b{t}_{k}"] for t in some]
        if any(sent):
            rows.append((SENT[kind], *(reading(x, "B") for x in sent)))
    return [*rows, (say.TABLE["busy"], *(reading(values[f"w{t}"], "s") for t in some))]


GATHERED = (("fsdp",), ("cp", "ep", "fsdp", "dp"), ("cp", "fsdp", "dp"), ("cp", "ep", "dp"), ("cp", "dp"))
VOLUMES = (
    ("AllGather", ("tp",), "tensor"),
    ("AllGather", ("cp",), "context"),
    ("AllToAll", ("tp", "ep"), "experts"),
    ("Permute", ("pp",), "stages"),
    *(("AllGather", axes, what) for what in ("weights", "gradients") for axes in GATHERED),
    *(("AllReduce", axes, "gradients") for axes in GATHERED[3:]),
)
"""Kind, axes and what of each volume that a layout of the page may send."""


def values(step: Step, machine: Machine, oversubscription: float) -> dict[str, float]:
    """What NAMES has: 0 where there is no such tier."""
    c = cluster_of(machine.slice, machine.pods, oversubscription=1.0 if machine.slice.chip.axes else oversubscription)
    numbers = _spread(volumes(step), step.layout, step.slice, c.domains // c.groups, c.groups, c.oversubscription)
    return dict(zip(NAMES, map(float, numbers)))


def _spread(sends, layout: Layout, s: Slice, group, groups, oversubscription=1.0) -> tuple:
    """Seconds of each tier, then the bytes of each kind in each."""
    over = divided(sends, layout, s, group, groups, oversubscription)
    none = 0.0 * layout.tp
    lacks = len(TIERS) - len(over)
    seconds = (*(x.seconds + none for x in over), *(none,) * lacks)
    return (*seconds, *(x.bytes[k] + none for x in over for k in KINDS), *(none,) * lacks * len(KINDS))


def _sends(structure: Config, *numbers) -> tuple:
    """Bytes of VOLUMES, and the copies of a token.

    numbers  sizes of the model, tokens, T, bytes of a gradient, of SEARCHED, the place of a policy in KEPT
    """
    n = len(SIZES)
    sizes, (tokens, T, gradient), rest = numbers[:n], numbers[n : n + 3], numbers[n + 3 :]
    laid, here = (
        Layout(**dict(zip(SEARCHED, rest)), stored=Bytes(gradient=gradient)),
        Wired(chip("H100"), (rest[0] * 1.0,), (False,)),
    )
    first, every = step(build(structure, *sizes), laid, tokens, T, here, "causal", 0.0), []
    for policy in KEPT:
        found = {(x.kind, x.axes, x.what): x for x in volumes(first.keeping(policy))}
        if more := found.keys() - set(VOLUMES):
            raise ValueError(f"VOLUMES lacks {more}: add what a step sends")
        copies = next((x.copies for x in found.values() if x.kind == "AllToAll"), 1.0)
        every.append((*(found[key].bytes if key in found else 0.0 for key in VOLUMES), copies))
    return tuple(_pick(rest[-1], some) + 0.0 * tokens for some in zip(*every))


def _pick(n, options):
    *first, last = options
    for k, x in reversed(list(enumerate(first))):
        last = x if x is last else where(n == k, x, last)
    return last


def _over(torus: bool, *numbers) -> tuple:
    """`_spread` over the tiers of a torus, or of GPUs.

    numbers  bytes of VOLUMES; copies of a token, bytes/s of links and of the network, domains of a group, groups; what `wired` gives;
             sizes of AXES
    """
    n = len(VOLUMES)
    sent, (copies, W, dcn, group, groups), rest = numbers[:n], numbers[n : n + 5], numbers[n + 5 :]
    sides, rings, axes = rest[:3], rest[3:6], rest[6:]
    on = replace(chip("v5p" if torus else "H100"), link_bandwidth=W, dcn_bandwidth=dcn)
    s = Wired(on, sides, tuple(w > 0 for w in rings)) if torus else Wired(on, sides[:1], (False,))
    some = tuple(Volume(*key, n, copies if key[0] == "AllToAll" else 1) for key, n in zip(VOLUMES, sent))
    laid = Layout(**dict(zip(AXES, axes)), pods=1 if torus else group * groups)
    return _spread(some, laid, s, group, groups)


def wired(machine: Machine) -> tuple[int, ...]:
    """The sides of a slice and which of them are rings, as the traced functions take them; of GPUs the chips of a domain.

    >>> from .training import places
    >>> wired(places("v5e")[4]), wired(places("H100")[4])
    ((4, 4, 1, 0, 0, 0), (8, 1, 1, 0, 0, 0))
    """
    s = machine.slice
    return (*s.shape, 1, 1)[:3] + (*map(int, s.wraps), 0, 0)[:3]


@cache
def functions(structures: tuple[Config, ...]) -> tuple[list[str], list[str]]:
    """JavaScript: for each structure what it sends, and how that is divided over tiers, on a torus and on GPUs."""
    row, over = [8.0] * (len(SIZES) + 3 + len(SEARCHED) + 1), [8.0] * (len(VOLUMES) + 5 + 6 + len(AXES))
    some = [javascript(lambda *x: _sends(like, *x), *row) for like in structures]  # noqa: B023
    return renamed(some), [javascript(lambda *x: _over(torus, *x), *over) for torus in (True, False)]  # noqa: B023
