"""Where operands may be sharded at will: the best shardings of a product, and of two products in a row (chapter 2)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import Time

from .matmul_plans import Case, Plan, finished, local_products, order
from .resharding import Route, named, routes, shardings, state
from .sharded_array import Mesh, Sharding, parse


@formula
def designs(C, sizes: Mapping[str, int], mesh: Mesh) -> list[Plan]:
    """Every way to shard A[I, J] and B[J, K] that needs no step before the product, with the steps to a wished C[I, K].

    The best of these is the best of all: where operands may lie as one likes, a step on them only costs.
    >>> cube = Slice(chip("v5p"), (4, 4, 4))
    >>> all_of_them = designs("C[I, K]", dict(I=8192, J=8192, K=8192), Mesh.on(cube, "XYZ"))
    >>> best = min(all_of_them, key=lambda p: order(p.time(cube.chip)))
    >>> t = best.time(cube.chip)
    >>> str(best.operands[0]), f"{t.math * 1e6:.1f} {t.parts['ici'] * 1e6:.0f}"
    ('A[I_XYZ, J]', '37.4 249')
    """
    C = parse(C)
    i, k = C.dims
    if len(sizes) != 3 or not {i, k} < set(sizes):
        raise ValueError(
            f"a product with the result {C} has sizes of {i}, of {k} and of one more dimension, got {dict(sizes)}"
        )
    (j,) = set(sizes) - {i, k}
    out = []
    for local in local_products((i, j, k), ((i, j), (j, k), (i, k)), mesh):
        A, B = named("A", (i, j), local[0]), named("B", (j, k), local[1])
        if _divides(A, sizes, mesh) and _divides(B, sizes, mesh):
            case = Case.of(A, B, C, sizes, mesh, "bf16")
            grains = case.grained[2]
            after = routes(local[2], state(C, mesh), mesh, grains)
            out += [Plan(case, local, (Route(), Route(), r)) for r in finished(after, mesh, grains)]
    return out


@record
class Block:
    """Two products in a row, In · W_in -> Tmp and Tmp · W_out -> Out.

    first, second  their plans
    """

    first: Plan
    second: Plan

    @property
    def weights(self) -> tuple[Sharding, Sharding]:
        """W_in and W_out."""
        return self.first.operands[1], self.second.operands[1]

    @property
    def peak(self) -> float:
        """Most bytes that one device holds: while one product runs, the weights of the other lie beside it."""
        size = lambda p: p.operands[1].bytes(p.sizes, p.mesh, p.case.dtype)  # noqa: E731
        return max(self.first.peak + size(self.second), self.second.peak + size(self.first))

    def time(self, chip: Chip) -> Time:
        """Seconds of both."""
        return self.first.time(chip) + self.second.time(chip)

    def __str__(self) -> str:
        return f"{self.first}\n{self.second}"


@formula
def block(
    In, W_in, W_out, Out, sizes: Mapping[str, int], mesh: Mesh, chip: Chip, limit: float | None = None
) -> Block | None:
    """The cheapest way through In[B, D] · W_in[D, F] · W_out[F, D] -> Out[B, D], over all shardings of Tmp; None if none fits.

    For each sharding of Tmp both products take their cheapest plans that fit; pairs that do not fit together are left out.
    What stands between the products costs no time: an activation function is elementwise.
    >>> s = Slice(chip("v5e"), (2, 2))
    >>> sizes, mesh = dict(B=128, D=8192, F=32768), Mesh.on(s, "XY")
    >>> best = block("In[B, D_XY]", "W[D, F_XY]", "V[F_XY, D]", "Out[B, D_XY]", sizes, mesh, s.chip, limit=300e6)
    >>> [c.kind for p in (best.first, best.second) for c in p.collectives], f"{best.time(s.chip).math * 1e6:.0f}"
    (['AllGather', 'ReduceScatter'], '174')
    """
    return _block(*map(parse, (In, W_in, W_out, Out)), tuple(sizes.items()), mesh, chip, limit)


@lru_cache(10_000)  # where a class is graded, many designs are the same
def _block(In, W_in, W_out, Out, sizes: tuple, mesh: Mesh, chip: Chip, limit: float | None) -> Block | None:
    asked = sizes, mesh, chip, limit
    made = [t for t in shardings("Tmp", (In.dims[0], W_in.dims[1]), mesh) if _divides(t, dict(sizes), mesh)]
    pairs = ((_best(In, W_in, t, *asked), _best(t, W_out, Out, *asked)) for t in made)
    found = [Block(first, second) for first, second in pairs if first and second]
    fitting = [b for b in found if limit is None or b.peak <= limit]
    return min(fitting, key=lambda b: order(b.time(chip)), default=None)


@formula
def block_seconds(sizes: Mapping[str, int], mesh: Mesh, chip: Chip, limit: float | None = None) -> list[float]:
    """Seconds of `block` for each sharding of In, W_in and W_out that fits, Out laid out like In; the least first."""
    dims = {"In": ("B", "D"), "W_in": ("D", "F"), "W_out": ("F", "D")}
    laid = ([a for a in shardings(name, d, mesh) if _divides(a, sizes, mesh)] for name, d in dims.items())
    asked = tuple(sizes.items()), mesh, chip, limit
    found = (_block(i, w, v, replace(i, name="Out"), *asked) for i, w, v in product(*laid))
    return sorted(b.time(chip).upper for b in found if b)


def _divides(a: Sharding, sizes: Mapping[str, int], mesh: Mesh) -> bool:
    return all(sizes[d] % mesh.size(cut) == 0 for d, cut in zip(a.dims, a.axes))


@lru_cache(10_000)  # products of many blocks
def _best(A, B, C, sizes: tuple, mesh: Mesh, chip: Chip, limit: float | None) -> Plan | None:
    """The cheapest plan in bf16 that fits, if any."""
    fitting = Case.of(A, B, C, dict(sizes), mesh, "bf16").best(chip, limit)
    return min(fitting, key=lambda p: order(p.time(chip)), default=None)
