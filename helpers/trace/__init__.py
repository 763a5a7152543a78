"""Count: what a JAX program does, read from the program and not from a clock.

`count(f, *args)` reads FLOPs and bytes from the jaxpr; nothing is run and nothing is allocated.
`sent(f, *args)` reads the collectives of a sharded program, `sent_by(exported, mesh)` those of an exported one, and
`merged` joins those that are one on paper.
`xla(f, *args)` asks the compiler for its own figures, and `compare` sets the two side by side.
`made(f, *args)` reads the collectives of the compiled program, and `beside` sets them next to ours; `absent` compiles for
TPUs that are not here.
`saved(f, *args)` lists what the forward pass keeps for the backward pass.
`attended(f, *args)` reads what attention does: tokens, scores, the largest block of them, bytes of the cache.
`squares(f, *args, T=…, S=…)` lists arrays of T·S numbers, `moved(f, *args, M=…)` the bytes of a blocked program, `kernels(f,
*args)` what Pallas kernels bring in, look at and compute. `io` walks schedules in a toy memory.
`walk` is the reading itself: one visit per equation, with how often it runs and on how many devices.
"""

from . import absent, io
from .attention import Attended, attended
from .beside import Beside, beside
from .blocks import Moved, moved, squares
from .collectives import Sent, merged, sent
from .compiled import Comparison, Compiled, compare, xla
from .counting import Count, Tally, count
from .outcome import Program, made
from .pallas import Kernel, kernels
from .program import Visit, walk
from .residuals import Saved, saved
from .stablehlo import sent_by

__all__ = [
    "Attended", "Beside", "Comparison", "Compiled", "Count", "Kernel", "Moved", "Program", "Saved", "Sent", "Tally", "Visit",
    "absent", "attended", "beside", "compare", "count", "io", "kernels", "made", "merged", "moved", "saved", "sent", "sent_by",
    "squares", "walk", "xla",
]  # fmt: skip
