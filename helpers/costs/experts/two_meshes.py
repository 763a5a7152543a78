"""Two meshes of the same chips: attention on tp x cp x dp, experts on etp x ep x edp; what each sends and holds (chapter 8).

The chips of a pipeline stage are unflattened twice. So ep takes no chips of its own, and may exceed dp: it folds over tp and cp.

    etp  chips that share each expert's F, as tp does that of a dense layer
    ep   chips among which the experts of a layer are divided
    edp  copies of all experts: their gradients are summed over edp, those of everything else over dp

Source: derived here; Liu et al. 2025, "MoE Parallel Folding" (arXiv 2504.14960); Megatron Bridge, docs/training/moe-optimization.md;
torchtitan, distributed/parallel_dims.py, of which tests have the example.
"""

from math import inf

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.machines import divisors
from helpers.costs.training.closed_forms import expert_bytes
from helpers.numeric import where


@record
class Folding:
    """How the chips of a pipeline stage hold experts: neighbours share an expert, then come other experts, then copies of all."""

    etp: int
    ep: int
    edp: int

    @property
    def chips(self) -> int:
        """Chips of the stage."""
        return self.etp * self.ep * self.edp


@formula
def foldings(tp: Count, cp: Count, dp: Count, E: Count | None = None) -> tuple[Folding, ...]:
    """All ways to hold experts on the chips of tp x cp x dp: etp·ep·edp are as many; ep divides E, if that is given.

    >>> len(foldings(2, 2, 2)), max(f.ep for f in foldings(4, 2, 8, E=128))
    (10, 64)
    """
    chips = tp * cp * dp
    pairs = [(etp, ep) for etp in divisors(chips) for ep in divisors(chips // etp)]
    return tuple(Folding(etp, ep, chips // (etp * ep)) for etp, ep in pairs if E is None or E % ep == 0)


# What a device sends for one layer in a forward pass, with t tokens of its own.


@formula
def attention_sends(t, D, tp, bytes_each=2):
    """Bytes of tp with sequence parallelism: an AllGather of tokens and a ReduceScatter of results, t·D·(tp - 1) numbers each.

    >>> round(attention_sends(4096, 4096, 4) / 1e6)
    201
    """
    return 2 * bytes_each * t * D * (tp - 1)


@record
class ExpertSends:
    """Bytes that a device sends for the experts of a layer: exchange and tensor in a forward pass, gradients once in a step.

    exchange   dispatch and combine, over ep
    tensor     AllGather of rows and ReduceScatter of results, over etp
    gradients  AllReduce over edp
    """

    exchange: float
    tensor: float
    gradients: float


@formula
def expert_sends(t, D, F, E, k, folding: Folding, dispatch=2, combine=2, gradient=2, matrices=3) -> ExpertSends:
    """Bytes of one layer. Over etp alone tokens are gathered; beside ep it is the t·k copies that arrive, on the average.

    dispatch, combine, gradient  bytes of a number on its way to an expert, on its way back, and of a gradient

    >>> sends = [expert_sends(4096, 4096, 1536, 128, 8, Folding(*f)) for f in ((1, 8, 1), (8, 1, 1), (4, 2, 1), (1, 4, 2))]
    >>> [(round((x.exchange + x.tensor) / 1e6), round(x.gradients / 1e9, 2)) for x in sends]        # Qwen3-235B on 8 chips
    [(470, 0.0), (470, 0.0), (1879, 0.0), (403, 1.21)]
    """
    rows = t * where(folding.ep > 1, k, 1)
    held = E * matrices * D * F / (folding.ep * folding.etp)
    return ExpertSends(
        exchange=expert_bytes(t, D, k, folding.ep, (dispatch + combine) / 2),
        tensor=attention_sends(rows, D, folding.etp),
        gradients=2 * (1 - 1 / folding.edp) * held * gradient,
    )


# What a device holds.


@record
class HeldBytes:
    """Bytes of a device: weights and gradients of its experts and of all other layers, and its part of the optimizer's state."""

    experts: float
    others: float
    state: float

    @property
    def total(self) -> float:
        """All of them; activations are not counted."""
        return self.experts + self.others + self.state


@formula
def held_bytes(expert_parameters, other_parameters, pp, tp, folding: Folding, weight=6, state=12) -> HeldBytes:
    """Experts are divided by pp, ep and etp; all else by pp and tp, not by ep; state by all chips, over edp and over dp.

    expert_parameters, other_parameters  parameters of the model
    weight, state                        bytes for each: bf16 weights and f32 gradients; f32 weights and Adam's two moments

    >>> x = held_bytes(653.9e9, 17.1e9, pp=16, tp=1, folding=Folding(1, 64, 2))                  # DeepSeek-V3 on 2,048 chips
    >>> [round(b / 1e9, 1) for b in (x.experts, x.others, x.state, x.total)]
    [3.8, 6.4, 3.9, 14.2]
    """
    return HeldBytes(
        experts=weight * expert_parameters / (pp * folding.ep * folding.etp),
        others=weight * other_parameters / (pp * tp),
        state=state * (expert_parameters + other_parameters) / (pp * folding.chips),
    )


# FSDP over domains: all E experts of a layer enter every domain, whatever ep is inside it.


@formula
def expert_fsdp_tokens(C, domain_bandwidth, E, k, P=1, bytes_each=2, m=inf):
    """Tokens of a chip, in a step of one microbatch, from which FSDP's gathers into a domain hide behind the experts: E/k times a
    dense layer's.

    A domain receives bytes_each·3·E·D·F bytes of a layer, and its g chips do 6·k·D·F FLOPs for each of their g·t tokens. With P
    pipeline stages it has a P-th of the layers, and P times the tokens. ep inside it cancels, because each of its chips then
    gathers fewer experts, and no two gather the same.

    C                 FLOPs/s of a chip
    domain_bandwidth  bytes/s into a domain: its g cards, or two faces of a cube for each axis, W one way for each link
    m                 domains, each of which has an m-th of the weights already

    >>> [round(expert_fsdp_tokens(5e15, 72 * 5e10, 384, 6, P)) for P in (1, 16)]                # DeepSeek-V4-Pro, racks of GB200
    [88889, 5556]
    >>> round(expert_fsdp_tokens(4.59e14, 6 * 4 * 4 * 9e10, 256, 8))                     # DeepSeek-V3, cubes of v5p
    1700
    """
    return bytes_each / 2 * E / k * C * (1 - 1 / m) / (domain_bandwidth * P)
