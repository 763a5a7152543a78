"""Count: what a JAX program does, read from the program and not from a clock.

`count(f, *args)` reads FLOPs and bytes from the jaxpr; nothing is run and nothing is allocated.
`sent(f, *args)` reads the collectives of a sharded program, `sent_by(exported, mesh)` those of an exported one, and
`merged` joins those that are one on paper.
`made(f, *args)` reads the collectives of the compiled program; `compiled.aot_compile_tpu` compiles for TPUs that are not here.
`saved(f, *args)` lists what the forward pass keeps for the backward pass.
`attended(f, *args)` reads what attention does: tokens, scores, the largest block of them, bytes of the cache.
`squares(f, *args, T=…, S=…)` lists arrays of T·S numbers, `moved(f, *args, M=…)` the bytes of a blocked program.
`two_level_memory` walks schedules in a toy memory.
`walk` is the reading itself: one visit per equation, with how often it runs and on how many devices.
Rooms by what is read: jaxpr, stablehlo, compiled. May import: helpers.costs, helpers.kernels. Tests: tests/helpers/trace.
"""

from .compiled.compiled_program import Program, made
from .jaxpr.arrays import Arrays, Attended, Moved, attended, moved, saved, squares
from .jaxpr.collectives import Sent, merged, sent
from .jaxpr.walk import Count, Tally, Visit, count, walk
from .stablehlo.collectives import sent_by

__all__ = [
    "Arrays", "Attended", "Count", "Moved", "Program", "Sent", "Tally", "Visit",
    "attended", "count", "made", "merged", "moved", "saved", "sent", "sent_by", "squares", "walk",
]  # fmt: skip

GONE = {  # what readings of the last release call, and what they call now
    "compare": "jax.jit(f).lower(*args).compile().cost_analysis() has XLA's counts, trace.count(f, *args) ours",
    "kernels": "trace.walk visits each pallas_call, whose params hold its grid",
}


def __getattr__(name: str):
    """
    >>> from helpers import trace
    >>> trace.kernels
    Traceback (most recent call last):
    AttributeError: trace.kernels is gone: trace.walk visits each pallas_call, whose params hold its grid
    """
    raise AttributeError(f"trace.{name} is gone: {GONE[name]}" if name in GONE else f"trace has no {name!r}")
