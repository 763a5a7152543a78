"""What a program of permutes sends over each wire, read from its jaxpr. It knows nothing of helpers.costs or helpers.trace."""

from collections import Counter
from dataclasses import dataclass

import jax
import jax.numpy as jnp

COMMUNICATE = ("ppermute", "psum", "psum2", "psum_invariant", "all_gather", "all_gather_invariant", "reduce_scatter")
COMMUNICATE += ("all_to_all", "pmax", "pmin", "pbroadcast", "ragged_all_to_all", "pgather")


@dataclass(frozen=True)
class Wires:
    """links: bytes from each device to each other one; hops: permutes one after the other; kinds: all that communicates."""

    links: dict[tuple[int, int], int]
    hops: int
    kinds: Counter

    @property
    def busiest(self) -> int:
        return max(self.links.values(), default=0)


def read(f, n: int, shape: tuple[int, ...], dtype=jnp.float32) -> Wires:
    """What per-device function f, of blocks of this shape on a ring of n devices called X, sends. No device is needed."""
    mesh = jax.sharding.AbstractMesh((n,), ("X",), axis_types=(jax.sharding.AxisType.Auto,))
    one = jax.P("X")
    whole = jax.ShapeDtypeStruct((n * shape[0], *shape[1:]), dtype)
    program = jax.shard_map(f, mesh=mesh, in_specs=one, out_specs=one, check_vma=False)
    return of(jax.make_jaxpr(program)(whole).jaxpr)


def of(jaxpr) -> Wires:
    """What a program sends, on a mesh of one axis."""
    links, kinds = Counter(), Counter()
    depth = _walk(jaxpr, [0] * len(jaxpr.invars), links, kinds)
    return Wires(dict(links), max(depth, default=0), kinds)


def _walk(jaxpr, depths, links, kinds) -> list[int]:
    """Permutes on the longest way to each output, given those on the way to each input."""
    at = dict(zip(jaxpr.invars, depths)) | {v: 0 for v in jaxpr.constvars}
    see = lambda v: 0 if hasattr(v, "val") else at[v]  # noqa: E731
    for e in jaxpr.eqns:
        name, ins = e.primitive.name, [see(v) for v in e.invars]
        if name in COMMUNICATE:
            kinds[name] += 1
        if name == "ppermute":
            size = sum(v.aval.size * v.aval.dtype.itemsize for v in e.invars)
            for s, t in e.params["perm"]:
                links[s, t] += size * (s != t)
            out = [d + 1 for d in ins]
        elif inner := e.params.get("jaxpr") if name in ("jit", "pjit", "shard_map", "closed_call") else None:
            out = _walk(getattr(inner, "jaxpr", inner), ins, links, kinds)
        else:
            assert name not in ("scan", "while", "cond"), "loops are not read here"
            out = [max(ins, default=0)] * len(e.outvars)
        at.update(zip(e.outvars, out))
    return [see(v) for v in jaxpr.outvars]
