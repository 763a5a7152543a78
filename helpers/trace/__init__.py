"""Count: what a JAX program does, read from the program and not from a clock.

`count(f, *args)` reads FLOPs and bytes from the jaxpr; nothing is run and nothing is allocated.
`xla(f, *args)` asks the compiler for its own figures, and `compare` sets the two side by side.
`walk` is the reading itself: one visit per equation, with how often it runs and on how many devices.
"""

from .compiled import Comparison, Compiled, compare, xla
from .counting import Count, Tally, count
from .program import Visit, walk

__all__ = ["Compiled", "Comparison", "Count", "Tally", "Visit", "compare", "count", "walk", "xla"]
