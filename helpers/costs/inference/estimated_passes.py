"""The estimate's seconds of passes, for the simulated engines (chapter 5).

    t = passes_of(server)
    log = budgeted(load, slots, t.passes, budget=8192, pages=t.pages(16))
    log = interleaved(load, slots, t.prefill, t.step)

Every pass takes `Server.seconds`: kernels, links and what the engine adds to each of its steps. What an engine does for a request
before its first pass (`Engine.first`) is not in a pass, and so not in a simulated log.
"""

from collections.abc import Callable
from typing import NamedTuple

from helpers.arguments import entries

from .engine_simulation import Mixed, Prefill, Step
from .serving_estimate import Server
from .serving_operations import Batch
from .token_budget import Passes


class Estimated(NamedTuple):
    """Seconds of an engine's passes, and how many pages of so many tokens its memory has."""

    prefill: Prefill
    step: Step
    mixed: Mixed
    passes: Passes
    pages: Callable[[int], int]


def passes_of(s: Server) -> Estimated:
    """What the simulations ask for, of an estimated server: B sequences and all pieces are those of its whole replica.

    Pieces of several prompts are priced as so many of equal length, with as much done before each that all pairs of query and
    key are there. Each of dp groups reads whole pieces, one at least, and the others wait for the fullest; sequences are shared evenly.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> from .serving_constants import ENGINES
    >>> from .serving_operations import Deployment
    >>> t = passes_of(Server(model("llama-3-70b"), chip("H100"), Deployment(tp=8, weights="fp8"), ENGINES["vllm"]))
    >>> step, both = t.step(64, 4096), t.passes(64, 4096, ((512, 0), (512, 1024)))
    >>> step < both < step + 2 * t.prefill(512), t.pages(16) // 1000
    (True, 96)
    """
    dp = s.at.dp

    def seconds(B, S, pieces=()):
        T, n = sum(T for T, _ in pieces), max(len(pieces), 1)
        done = (sum(T * done + T * T / 2 for T, done in pieces) - T * T / (2 * n)) / T if T else 0.0
        own = max(n / dp, 1.0)
        return sum(s.seconds(Batch(B / dp, S, T / n * own, own, done)).values())

    return Estimated(
        lambda T: seconds(0, 0, ((T, 0),)),
        seconds,
        lambda B, S, T, done: seconds(B, S, ((T, done),)),
        seconds,
        lambda page: int(s.most(page)),
    )


entries(__name__)
