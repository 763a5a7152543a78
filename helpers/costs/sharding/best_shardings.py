"""Where operands may be sharded at will: the best shardings of a product, and of two products in a row (chapter 2)."""

from collections.abc import Iterator, Mapping
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
def designs(C, sizes: Mapping[str, int], mesh: Mesh, dtype: str = "bf16", limit: float | None = None) -> list[Plan]:
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
        if all(sizes[d] % mesh.size(cut) == 0 for a in (A, B) for d, cut in zip(a.dims, a.axes)):
            case = Case.of(A, B, C, sizes, mesh, dtype)
            grains = case.grained[2]
            after = routes(local[2], state(C, mesh), mesh, grains, memory=limit is not None)
            out += [Plan(case, local, (Route(), Route(), r)) for r in finished(after, mesh, grains)]
    return [p for p in out if limit is None or p.peak <= limit]


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
    In,
    W_in,
    W_out,
    Out,
    sizes: Mapping[str, int],
    mesh: Mesh,
    chip: Chip,
    dtype: str = "bf16",
    limit: float | None = None,
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
    return _block(*map(parse, (In, W_in, W_out, Out)), tuple(sizes.items()), mesh, chip, dtype, limit)


@lru_cache(10_000)  # where a class is graded, many designs are the same
def _block(In, W_in, W_out, Out, sizes: tuple, mesh: Mesh, chip: Chip, dtype: str, limit: float | None) -> Block | None:
    sizes = dict(sizes)
    found = [
        Block(first, second)
        for tmp in shardings("Tmp", (In.dims[0], W_in.dims[1]), mesh)
        if all(sizes[d] % mesh.size(cut) == 0 for d, cut in zip(tmp.dims, tmp.axes))
        for first in _best(In, W_in, tmp, sizes, mesh, chip, dtype, limit)
        for second in _best(tmp, W_out, Out, sizes, mesh, chip, dtype, limit)
    ]
    fitting = [b for b in found if limit is None or b.peak <= limit]
    return min(fitting, key=lambda b: order(b.time(chip)), default=None)


@formula
def block_seconds(
    sizes: Mapping[str, int], mesh: Mesh, chip: Chip, dtype: str = "bf16", limit: float | None = None
) -> list[float]:
    """Seconds of the cheapest program for each sharding of In, W_in and W_out that fits, Out laid out like In; the least first.

    The parts of `block`, each pair of a product priced once.
    """
    dims = {"In": ("B", "D"), "W_in": ("D", "F"), "Tmp": ("B", "F"), "W_out": ("F", "D")}
    divides = lambda a: all(sizes[d] % mesh.size(cut) == 0 for d, cut in zip(a.dims, a.axes))  # noqa: E731
    ins, w_ins, tmps, w_outs = ([a for a in shardings(n, d, mesh) if divides(a)] for n, d in dims.items())
    given = sizes, mesh, chip, dtype, limit
    first = {(i, w, t): p for i in ins for w in w_ins for t in tmps for p in _best(i, w, t, *given)}
    second = {
        (t, v, i): p for t in tmps for v in w_outs for i in ins for p in _best(t, v, replace(i, name="Out"), *given)
    }
    seconds = {key: plan.time(chip).upper for key, plan in (first | second).items()}
    found = []
    for i, w, v in product(ins, w_ins, w_outs):
        pairs = [((i, w, t), (t, v, i)) for t in tmps if (i, w, t) in first and (t, v, i) in second]
        if limit is not None:
            pairs = [(a, b) for a, b in pairs if Block(first[a], second[b]).peak <= limit]
        found += [min(seconds[a] + seconds[b] for a, b in pairs)] if pairs else []
    return sorted(found)


def _best(A, B, C, sizes, mesh, chip, dtype, limit) -> Iterator[Plan]:
    """The cheapest plan that fits, if any."""
    found = Case.of(A, B, C, sizes, mesh, dtype).best(chip, limit)
    best = min(found, key=lambda p: order(p.time(chip)), default=None)
    yield from [] if best is None else [best]
