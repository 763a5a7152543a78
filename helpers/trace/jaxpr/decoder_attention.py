"""What the layers of a decoder do, from its jaxpr: tokens, scores, and bytes that are read from a cache."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import jax

from .equation_costs import nbytes
from .walk import walk


@dataclass(frozen=True)
class Attended:
    """Of a decoder of `kernels.transformers.decoder`, all layers together.

    tokens   rows that pass through an MLP; through experts, once for each expert that a token goes to
    scores   numbers that attention takes the exponential of, all heads together
    block    (T, S) of the largest array of them
    read     bytes of the caches that layers look at, in the form in which they are held
    """

    tokens: int
    scores: int
    block: tuple[int, int]
    read: int


def attended(f: Callable, *args) -> Attended:
    """Read from the program of `f(*args)`; nothing is run. Arguments as those of `count`.

    Learned sinks are one score more for each query. Blocks of a running softmax (`kernels.attention.online_softmax`) are not counted.
    """
    tokens = scores = read = 0
    blocks = [(0, 0)]
    for v in walk(jax.make_jaxpr(f)(*args)):
        if v.opens:
            continue
        name = v.eqn.params.get("name") if v.name == "name" else None
        out = v.eqn.outvars[0].aval if v.eqn.outvars else None
        if name in ("W_out", "W_out of experts"):
            tokens += v.times * prod(out.shape[:-1])
        if name == "seen":
            read += v.times * nbytes(v.eqn.outvars[0])
        if v.name == "exp" and out.ndim >= 4:  # [B, …, T, S]; a router's has two axes
            scores += v.times * prod(out.shape)
            blocks.append(out.shape[-2:])
    return Attended(tokens, scores, max(blocks, key=prod), read)
