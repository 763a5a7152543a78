"""Searches over every model, chip, number of chips and length, and what of their answers cannot be: python -m tools.sweep

Prints each finding and how many searches were made; --every 8 takes an eighth of them, mixed, and ends in minutes, not hours.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np

from helpers.costs.attention.ring_attention import hidden_block
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.training import layout_search
from helpers.costs.training.layout import Layout
from helpers.costs.training.layout_set import rules
from helpers.costs.training.operation_seconds import CONSTANTS, Pace
from helpers.costs.training.step_estimate import utilisation
from helpers.costs.training.step_operations import operations
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.public_models import MODELS, model
from helpers.costs.transformers.training_memory_bytes import POLICIES
from helpers.plan.ask import room

CHOSEN = 1, 8, 64, 512, 8192  # chips
LENGTHS = 4096, 32768
EACH = 8192  # tokens of a step for each chip
LEAST = 2**19  # and of a step at least
NEAR = 1.1  # an estimate is no better than a tenth
LISTED = 20  # layouts of a search that are looked at


@dataclass(frozen=True)
class Case:
    """One setting: a model on chips, with sequences of T tokens."""

    model: str
    chip: str
    n: int
    T: int

    @property
    def tokens(self) -> int:
        """Of a step: whole sequences, and whole ones for each chip's share of EACH."""
        return max(LEAST, self.n * EACH, self.T)

    def __str__(self) -> str:
        return f"{self.model} on {self.n} {self.chip}, {self.tokens} tokens in sequences of {self.T}"


def trained() -> list[str]:
    """Models that a training step has a price for; it refuses the others in a sentence."""
    out = []
    for name in sorted(MODELS):
        with suppress(ValueError):
            operations(model(name), Layout(), 1, LENGTHS[0])
            out.append(name)
    return out


def cases(every: int = 1) -> list[Case]:
    """All settings, or one of so many, in an order that mixes them and is the same each time."""
    some = [Case(*x) for x in product(trained(), CHIPS, CHOSEN, LENGTHS)]
    random.Random(0).shuffle(some)
    return some[::every]


def findings(case: Case) -> Iterator[tuple[str, str]]:
    """What cannot be in the answer to one setting: its kind, and a sentence."""
    try:
        machine = room(f"{case.n}x{case.chip}")
        s, pods = machine.slice, machine.pods
    except ValueError:  # no such slice
        return
    c = model(case.model)
    found = layout_search.search(c, case.tokens, case.T, s, Layout(pods=pods), top=LISTED)
    for at in found.best:
        yield from impossible(at)
    if found.best:
        yield from doubtful(found.best[0], pods)


def impossible(step: Step) -> Iterator[tuple[str, str]]:
    """Of one step: more FLOPs/s than the chips have, bytes below nothing."""
    used = utilisation(step.config, step.slice.chip, step.layout, step.tokens / step.T, step.T, step.estimate.mid)
    for name, share in zip(("MFU", "HFU"), used):
        if not 0 < share < 1:
            yield name, f"{step.layout} has {name} {share:.2f}"
    below = {role: x for role, x in vars(step.memory).items() if not 0 <= x < inf}
    below |= {part: x for part, x in step.estimate.parts.items() if not 0 <= x < inf}
    if below:
        yield "negative", f"{step.layout} has {below}"
    if not step.estimate.low < step.estimate.mid < step.estimate.high or step.estimate.mid < step.math:
        yield "order", f"{step.layout}: floor {step.math:.3g} s, estimate {step.estimate.mid:.3g} s"


def doubtful(step: Step, pods: int) -> Iterator[tuple[str, str]]:
    """Of the first layout: tp over the network, or blocks of cp too short to hide, where another is within a tenth."""
    s, a, mid = step.slice, step.layout, step.estimate.mid
    if not s.chip.axes and a.tp > s.chips:
        inside = fastest(step, pods, lambda laid: (laid.tp <= s.chips) & hides(step, laid))
        if inside <= NEAR * mid:
            yield "tp", f"{a} takes {mid:.3g} s, and tp inside a domain {inside:.3g} s"
    if not hides(step, a):
        longer = fastest(step, pods, lambda laid: hides(step, laid))
        has = f"{a} has {step.T / a.cp:.0f} tokens a chip, {shortest(step, a):.0f} hide a hop"
        kind = "cp" if longer < inf else "cp, and nothing else fits"
        yield kind, f"{has}; {mid:.3g} s, and {longer:.3g} s with longer blocks or none"


def hides(step: Step, a: Layout):
    """Whether there is no ring, or its blocks are long enough."""
    return (a.cp == 1) | (step.T / a.cp >= shortest(step, a))


def shortest(step: Step, a: Layout):
    """Tokens of a sequence that a chip needs so that its work hides a hop of ring attention (chapter 6), stripes under the mask.

    At the rates that attention and links reach in the estimate; latent attention sends fewer numbers than its heads have.
    """
    of, c = step.slice.chip, step.config
    W, heads = Pace(of).rate(a.cp, a.tp), c.N / a.tp
    sent = c.mla.kv_rank + c.mla.rope if c.mla else 2 * np.maximum(c.K / a.tp, 1) * c.H
    G = heads * (c.qk + c.mla.v if c.mla else 2 * c.H) / sent
    return hidden_block(of.rate() * Pace(of).power * CONSTANTS.attention, W, G=G, share=0.5)


def fastest(example: Step, pods: int, keeps) -> float:
    """Seconds of the fastest layout that fits and `keeps` a condition: every one is priced, without the search's own ranking."""
    c, tokens, T, s = example.config, example.tokens, example.T, example.slice
    best = inf
    for laid in layout_search.grids(c, tokens, T, s, Layout(pods=pods)):
        ok = np.asarray(keeps(laid))
        for holds in rules(c, laid, tokens, T, s).values():
            ok = ok & holds
        first = step(c, laid, tokens, T, s, "causal")
        for policy in POLICIES[:3]:
            at = first.keeping(policy)
            best = min(best, float(np.where(ok & (at.missing == 0), at.estimate.mid, inf).min()))
    return best


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=__doc__.split("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="one of so many settings")
    some, kinds = cases(parser.parse_args(words).every), Counter()
    for case in some:
        for kind, sentence in findings(case):
            kinds[kind] += 1
            print(f"{kind}: {case}: {sentence}", flush=True)
    print(f"{len(some):,} searches: " + (", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "nothing found"))
    return bool(kinds)


if __name__ == "__main__":
    sys.exit(main())
