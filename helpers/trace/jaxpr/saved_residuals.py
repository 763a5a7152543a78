"""What a program keeps between its forward and its backward pass, from the jaxpr of its vjp (chapter 3)."""

from collections.abc import Callable
from html import escape

import jax

from helpers import show

from .collectives import short
from .equation_costs import is_literal, nbytes
from .walk import open_jaxpr


class Saved(tuple):
    """Arrays kept for the backward pass, as (shape, dtype), largest first; printed as a table.

    bytes   of all of them
    """

    def __new__(cls, arrays=(), bytes: int = 0):
        self = super().__new__(cls, arrays)
        self.bytes = bytes
        return self

    def rows(self) -> list[tuple[str, str]]:
        """The table: an array, and how many of its kind there are."""
        kinds = dict.fromkeys(self)
        return [(f"{dtype}{list(shape)}", str(self.count((shape, dtype)))) for shape, dtype in kinds]

    def __str__(self) -> str:
        return "\n".join([*(f"{n} x {a}" for a, n in self.rows()), f"saved: {show.bytes(self.bytes)}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = '<tr><th scope="col">saved array</th><th scope="col">how many</th></tr>'
        body = "".join(f"<tr><td>{escape(a)}</td><td>{n}</td></tr>" for a, n in self.rows())
        return f'<table class="table">{head}{body}</table><p>{escape(show.bytes(self.bytes))} in all</p>'


def saved(f: Callable, *args) -> Saved:
    """What the forward pass of `f(*args)` hands to its backward pass; nothing is run.

    args  arrays or `jax.ShapeDtypeStruct`s (or trees of them); the gradient is taken by those that hold floats

    Arguments are not listed: they lie in memory anyway. One array that is needed twice is listed once. A `scan` keeps one
    array for all its trips.

    >>> x, w = (jax.ShapeDtypeStruct(s, "float32") for s in ((8, 4), (4, 16)))
    >>> saved(lambda x, w: jax.numpy.sin(x @ w), x, w)          # the cosine; x and w are arguments
    1 x f32[8, 16]
    saved: 512 B
    """
    leaves, tree = jax.tree.flatten(args)
    gradients = [jax.numpy.issubdtype(a.dtype, jax.numpy.inexact) for a in leaves]

    def residuals(*leaves):
        def by_floats(*some):
            at = iter(some)
            return f(*jax.tree.unflatten(tree, [next(at) if s else a for a, s in zip(leaves, gradients)]))

        return jax.tree.leaves(jax.vjp(by_floats, *(a for a, s in zip(leaves, gradients) if s))[1])

    jaxpr = open_jaxpr(jax.make_jaxpr(residuals)(*leaves))
    given = {*jaxpr.invars, *jaxpr.constvars}
    kept = [v for v in dict.fromkeys(v for v in jaxpr.outvars if not is_literal(v)) if v not in given]
    kept.sort(key=nbytes, reverse=True)
    return Saved(((tuple(v.aval.shape), short(v.aval.dtype)) for v in kept), sum(map(nbytes, kept)))
