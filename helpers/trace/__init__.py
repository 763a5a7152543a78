"""Count: what a JAX program does, read from the program and not from a clock.

`count(f, *args)` reads FLOPs and bytes from the jaxpr; nothing is run and nothing is allocated.
`sent(f, *args)` reads the collectives of a sharded program, `sent_by(exported, mesh)` those of an exported one, and
`merged` joins those that are one on paper.
`xla(f, *args)` asks the compiler for its own figures, and `compare` sets the two side by side.
`made(f, *args)` reads the collectives of the compiled program, and `beside` sets them next to ours; `compiled.aot_compile_tpu`
compiles for TPUs that are not here.
`saved(f, *args)` lists what the forward pass keeps for the backward pass.
`attended(f, *args)` reads what attention does: tokens, scores, the largest block of them, bytes of the cache.
`squares(f, *args, T=…, S=…)` lists arrays of T·S numbers, `moved(f, *args, M=…)` the bytes of a blocked program, `kernels(f,
*args)` what Pallas kernels bring in, look at and compute. `two_level_memory` walks schedules
in a toy memory.
`walk` is the reading itself: one visit per equation, with how often it runs and on how many devices.
Rooms by what is read: jaxpr, stablehlo, compiled. May import: helpers.costs, helpers.kernels. Tests: tests/helpers/trace.
"""

from .compiled.compiled_program import Program, made
from .compiled.program_vs_compiled import Beside, Comparison, Compiled, beside, compare, xla
from .jaxpr.arrays import Arrays, Attended, Moved, attended, moved, saved, squares
from .jaxpr.collectives import Sent, merged, sent
from .jaxpr.pallas_kernels import Kernel, kernels
from .jaxpr.walk import Count, Tally, Visit, count, walk
from .stablehlo.collectives import sent_by

__all__ = [
    "Arrays", "Attended", "Beside", "Comparison", "Compiled", "Count", "Kernel", "Moved", "Program", "Sent", "Tally", "Visit",
    "attended", "beside", "compare", "count", "kernels", "made", "merged", "moved", "saved", "sent", "sent_by",
    "squares", "walk", "xla",
]  # fmt: skip
