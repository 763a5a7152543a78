"""What pages that rank layouts know: the functions of a step and of a rank, traced from `costs`, and what a model's axes may be.

The set of layouts and their rank are those of `costs.training.layout_search`. A page prices each with the step that
`helpers.live.jaxpr_to_javascript` traced in stages: what a mesh and its microbatches take, whatever part of its data parallelism is
FSDP, is computed once for all parts (`candidates.js`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import and_

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import Machine
from helpers.costs.training.layout import AXES, BF16, Bytes, Layout
from helpers.costs.training.layout_search import ALIKE, EQUAL, KEPT, NEAR, careful_seconds, exposed, rank
from helpers.costs.training.layout_set import STAGES as STAGES_EACH, TABLES, size_rules
from helpers.costs.training.operation_seconds import CONSTANTS, Constants, Pace
from helpers.costs.training.step_estimate import Estimate, prices, utilisation
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.config import Config
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build, sizes
from helpers.live.jaxpr_to_javascript import javascript
from helpers.live.stages import renamed, staged
from helpers.numeric import where

TAKES = {  # seconds of a step, in words
    "kernels": "kernels of the layers, forward and backward",
    "again": "kernels, done again",
    "tensor": "tp: activations",
    "experts": "ep: tokens to experts and back",
    "context": "cp: keys and values",
    "weights": "fsdp: weights and gradients",
    "unembedding": "unembedding and loss",
    "uneven": "pp: the fullest stage's more layers",
    "sends": "pp: activations between stages",
    "bubble": "pp: stages that wait",
    "gradients": "copies: sums of gradients",
    "update": "optimizer",
}
HELD = {  # by a device, in words
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "gathered": "gathered, two layers",
    "activations": "activations",
    "working": "made again, one layer",
    "logits": "logits",
    "library": "libraries",
}
PARTS, ROLES = tuple(TAKES), tuple(HELD)
# What a traced step gives first, shares in %; then parts, then roles.
TIMES = ("mid", "memory", "low", "high", "math", "mfu", "hfu")
# As a traced step has them.
NAMES_OF_STEP = (*TIMES, *(f"t{n}" for n in range(len(PARTS))), *(f"m{n}" for n in range(len(ROLES))))
LONGEST = 4096  # chips along one axis
POWERS = tuple(2**n for n in range(LONGEST.bit_length()))


def numbered(machine: Machine) -> tuple[int, int, str]:
    """What a page knows of a machine: its pods or domains, the chips of its slice, its words.

    >>> from helpers.costs.rooflines.machines import ways
    >>> [numbered(next(ways(chip(of), n))) for of, n in (("v5p", 8), ("H100", 16))]
    [(1, 8, '2x2x2'), (2, 8, '2 domains of 8')]
    """
    return machine.pods, machine.slice.chips, str(machine)


def whole(c: Config) -> dict[str, int]:
    """Every size of a model; where its structure has no use for one, F as it is published, which rules ask for, and else 1.

    >>> whole(model("mixtral-8x7b"))["F"], whole(model("llama-3-8b"))["E"]
    (14336, 1)
    """
    return dict.fromkeys(SIZES, 1) | {"F": c.F} | sizes(c)


def legal(structure: Config, *numbers):
    """Whether a model of these sizes lets tp, ep and pp be what they are, by the rules of `layout_set`."""
    c, (tp, ep, pp) = build(structure, *numbers[: len(SIZES)]), numbers[len(SIZES) :]
    return where(reduce(and_, size_rules(c, Layout(tp=tp, ep=ep, pp=pp)).values()), 1, 0)


@cache
def divide(c: Config) -> dict[str, tuple[int, ...]]:
    """For tp, ep and pp the powers of two that a model's sizes allow.

    >>> divide(model("llama-3.1-405b"))
    {'tp': (1, 2, 4, 8, 16, 32, 64, 128), 'ep': (1,), 'pp': (1, 2, 4, 8, 16, 32, 64, 128)}
    """
    has, alone = whole(c).values(), ("tp", "ep", "pp")
    return {axis: tuple(n for n in POWERS if legal(c, *has, *(n if a == axis else 1 for a in alone))) for axis in alone}


def axes(layout: Layout) -> str:
    """A layout without its policy and what it stores, which pages name beside it, whichever they are.

    >>> axes(Layout(fsdp=16, microbatches=4, policy="everything"))
    'fsdp=16 microbatches=4'
    """
    return str(replace(layout, policy=Layout.policy, stored=BF16))


class Wired(Slice):
    """A slice of sizes that JAX traces, which cannot be checked."""

    def __post_init__(self):
        pass


@dataclass(frozen=True)
class Split(Layout):
    """A layout of which dp·fsdp is traced as one number: what depends on that alone does not wait for how it is split."""

    data: float = 1

    @property
    def chips(self):
        return self.tp * self.cp * self.ep * self.data * self.pp

    @property
    def shards(self):
        return self.pods * self.data * self.ep


class Traced(Chip):
    """A chip whose pod is traced by JAX: its sides cannot be sorted, so they come with the longest first."""

    @property
    def sides(self):
        return self.pod


def speeds(chip: Chip) -> tuple[float, ...]:
    """What a traced step knows of a chip: rates, shares of them, cores, the sides of a pod, or a domain."""
    pace = Pace(chip)
    shares = CONSTANTS.share(chip) * pace.power, CONSTANTS.attention * pace.power
    sides = (*chip.sides, 1, 1)[:3]
    rates = chip.rate(), chip.hbm_bandwidth, chip.hbm_bytes, chip.link_bandwidth, chip.dcn_bandwidth
    return (*rates, *shares, chip.cores, chip.neighbours, *sides)


def _chip(torus: bool, C, W_hbm, hbm, W, dcn, share, attention, cores, neighbours, *sides) -> tuple[Chip, Constants]:
    """A chip of `speeds`, and the constants with its shares."""
    like = chip("v5p" if torus else "H100")
    rates = {"flops": {"bf16": C}, "hbm_bandwidth": W_hbm, "hbm_bytes": hbm, "link_bandwidth": W, "dcn_bandwidth": dcn}
    on = Traced(**vars(like) | rates | {"cores": cores, "neighbours": neighbours, "pod": sides if torus else sides[:1]})
    return on, replace(CONSTANTS, **{like.generation: share}, attention=attention)


STAGES = len(SIZES) + 2 + 12 + 2 + 2, 6, 3  # numbers that `_step` takes in each of its stages
BRIEF = 3 * len(KEPT) + 1  # results of which a search looks at all


def _step(structure: Config, torus: bool, switched: bool, *numbers) -> tuple:
    """`training_step.step` under every policy: seconds, careful ones and bytes of each, whether its ring is exposed; then all of `row`.

    switched  no chip that is asked for has links to neighbours of its own: what these do is left out of the text
    numbers   sizes of the model, tokens, T, `speeds`, chips of a slice, pods, bytes of a gradient and of the optimizer's state;
              tp, cp, ep, pp, dp·fsdp, microbatches; fsdp, zero, v
    """
    sizes_of, (tokens, T), known = numbers[:10], numbers[10:12], numbers[12:]
    neighbours = 0 if torus or switched else known[8]
    on, k = _chip(torus, *known[:8], neighbours, *known[9:12])
    inside, pods, gradient, state, tp, cp, ep, pp, data, microbatches, fsdp, zero, v = known[12:]
    stored = Bytes(gradient=gradient, state=state)
    laid = Split(
        data / fsdp, fsdp, tp, pp, ep, cp, 1 if torus else pods, zero, microbatches, v, stored=stored, data=data
    )
    s, c = Wired(on, (inside,), (False,)), build(structure, *sizes_of)
    first = step(c, laid, tokens, T, s, "causal")
    vars(first)["prices"] = prices(c, on, laid, first.operations, constants=k)  # with the shares of its chip
    some = [first.keeping(policy) for policy in KEPT]
    soon = [x for at in some for x in (at.estimate.mid, careful_seconds(at), at.memory.total)]
    return (*soon, exposed(first, k), *(x for at in some for x in row(at, at.estimate)))


def row(step: Step, e: Estimate) -> tuple:
    """TIMES, PARTS and ROLES of a step; ValueError if it takes time for something that PARTS lacks."""
    if more := {part for part in e.parts if part not in PARTS and not (part == "host" and not step.layout.offload)}:
        raise ValueError(f"PARTS lacks {', '.join(sorted(more))}: add what a step of this layout takes")
    used = utilisation(step.config, step.slice.chip, step.layout, step.tokens / step.T, step.T, e.mid)
    times = (e.mid, step.memory.total, e.low, e.high, step.math, *(100 * share for share in used))
    return (*times, *(e.parts[name] for name in PARTS), *vars(step.memory).values())


def longest(values: Mapping[str, float]) -> str:
    """What a step takes longest for, kernels of its layers apart, in words."""
    parts = [values[f"t{n}"] for n in range(2, len(PARTS))]
    return [*TAKES.values()][2 + parts.index(max(parts))]


def _rank(tp, cp, ep, fsdp, dp, pp, zero, microbatches, v, *numbers) -> tuple:
    """The fields of `layout_search.rank` as numbers, up to the sizes of axes, which the page has."""
    laid = Layout(dp, fsdp, tp, pp, ep, cp, zero=zero, microbatches=microbatches, v=v)
    ranks = vars(rank(laid, 0, *numbers))
    return tuple(ranks[name] for name in [*ranks][: [*ranks].index("tp")])


def ranks() -> str:
    """JavaScript: the rank of a layout, from what `_rank` takes."""
    return javascript(_rank, *[8.0] * (len(AXES) + 8))


def tools() -> dict:
    """What the pages' search knows beside its functions."""
    shares = {"near": NEAR, "equal": EQUAL, "alike": ALIKE}
    return shares | {
        "kept": KEPT, "pieces": STAGES_EACH, "depth": SIZES.index("L"), "tables": TABLES,
        "names": NAMES_OF_STEP, "times": len(TIMES), "parts": len(PARTS),
    }  # fmt: skip


@cache
def functions(structures: tuple[Config, ...], switched: bool = False) -> tuple[list, list]:
    """Every text of JavaScript once, and for each structure its places in them: the two stages of a step, on a torus, on GPUs."""
    stages = {}
    for like in structures:
        for torus in (True, False):
            rows = [[8.0] * n for n in STAGES]
            stages[like, torus] = staged(lambda *x: _step(like, torus, switched, *x), *rows, brief=BRIEF)  # noqa: B023
    every = dict.fromkeys(text for pair in stages.values() for text in pair)
    texts = sorted(every, key=len, reverse=True)  # in this order they are smallest when they are compressed
    at = [[[texts.index(text) for text in stages[like, torus]] for torus in (True, False)] for like in structures]
    return renamed(texts), at
