"""FLOPs of one product of two arrays, whatever their dimensions, and of its backward pass (chapter 3).

Source: Austin et al. 2025, Section 4, "Counting dots".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters

from helpers.arguments import entries
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.numeric import plain


@dataclass(frozen=True)
class Einsum:
    """A product of two arrays, with its letters sorted by what happens to them.

    batch       in both arrays and in the result
    contracted  in both arrays, summed over
    free        in one array and in the result
    """

    batch: str
    contracted: str
    free: str
    flops: float


def einsum(spec: str, *shapes: Sequence[int]) -> Einsum:
    """FLOPs of `jnp.einsum(spec, A, B)`: twice the product of all sizes, each letter once.

    >>> einsum("np,pm->nm", (3, 5), (5, 7)).flops
    210
    >>> e = einsum("bij,bjk->bik", (4, 64, 32), (4, 32, 16))
    >>> e.batch, e.contracted, e.free, e.flops == 2 * 4 * 64 * 32 * 16
    ('b', 'j', 'ik', True)
    >>> einsum("ijkl,ijmno->klmno", (2, 3, 4, 5), (2, 3, 6, 7, 8)).flops == 2 * 2 * 3 * 4 * 5 * 6 * 7 * 8
    True
    """
    operands, _, out = spec.replace(" ", "").partition("->")
    names = operands.split(",")
    if "->" not in spec or len(names) != 2 or len(shapes) != 2:
        raise ValueError(
            f"an einsum of two arrays reads 'ij,jk->ik' and takes two shapes, got {spec!r} and {len(shapes)}"
        )
    size = {}
    for letters, shape in zip(names, shapes):
        if len(letters) != len(shape) or len(set(letters)) != len(letters) or letters.strip(ascii_letters):
            raise ValueError(f"{letters!r} names each dimension of {tuple(shape)} by a letter of its own")
        for letter, n in zip(letters, shape):
            if letter in size and plain(n, size[letter]) and size[letter] != n:
                raise ValueError(f"{letter!r} is {size[letter]} in one array and {n} in the other")
            size[letter] = n
    a, b = map(set, names)
    alone = (a ^ b) - set(out)
    if alone or not set(out) <= a | b or len(set(out)) != len(out):
        raise ValueError(
            f"in {spec!r} a letter of the result stands in an array, and a letter of one array only stands in the result"
        )
    sort = lambda letters: "".join(sorted(letters))  # noqa: E731
    return Einsum(sort(a & b & set(out)), sort((a & b) - set(out)), sort(a ^ b), 2 * prod(size.values()))


def backward(spec: str) -> tuple[str, str]:
    """The two products that give the gradients of Y = einsum(spec, A, B): dA from (dY, B), and dB from (A, dY).

    Each has the letters of the first, so as many FLOPs: a training step does three times the forward pass.

    >>> backward("np,pm->nm")           # dA = dY · Bᵀ, dB = Aᵀ · dY
    ('nm,pm->np', 'np,nm->pm')
    """
    operands, _, out = spec.replace(" ", "").partition("->")
    if operands.count(",") != 1:
        raise ValueError(f"an einsum of two arrays reads 'ij,jk->ik', got {spec!r}")
    a, b = operands.split(",")
    return f"{out},{b}->{a}", f"{a},{out}->{b}"


def sharded_flops(A: str, B: str, sizes: Mapping[str, int], mesh: Mesh) -> tuple[float, float]:
    """FLOPs of A[I_X, J_Y] · B[J_Y, K] over the whole mesh, and on each device.

    A mesh axis that cuts none of the letters makes every device along it do the same work again.

    >>> mesh = Mesh({"X": 4, "Y": 8, "Z": 4})
    >>> total, each = sharded_flops("A[B_X, D_Y]", "W[D_Y, F]", dict(B=64, D=64, F=64), mesh)
    >>> total == 2 * 64**3 * 4, each == 2 * 64**3 / (4 * 8)
    (True, True)
    """
    a, b = parse(A), parse(B)
    cut = dict(zip(a.dims, a.axes))
    for letter, axes in zip(b.dims, b.axes):
        if cut.setdefault(letter, axes) != axes:
            one, other = "".join(cut[letter]) or "nothing", "".join(axes) or "nothing"
            raise ValueError(f"{letter} is cut over {one} in {A} and over {other} in {B}: cut it alike")
    used = [axis for axes in cut.values() for axis in axes]
    if len(set(used)) != len(used):
        raise ValueError(f"{A} times {B} uses one mesh axis for two letters: each device would lack most of its pairs")
    if missing := [letter for letter in cut if letter not in sizes]:
        raise ValueError(f"give the size of {missing[0]}: {A} times {B} has {', '.join(cut)}")
    each = 2 * prod(sizes[letter] for letter in cut) / mesh.size(used)
    return each * mesh.devices, each


entries(__name__)
