"""Whether the program for small arguments, which is run, is the one for large arguments, which is counted.

Both are read, and what stands at the same place in both must be the same up to the sizes: a dimension of n numbers for
large arguments has to shrink as the arguments' dimensions do.
"""

from collections import Counter
from fractions import Fraction
from itertools import product

from helpers.trace import merged

from .traced_program import Reading

WHY = "does an if look at a size, or does something count the calls?"


class Shrinking:
    """How dimensions become smaller from large arguments to small ones.

    One may shrink as one of theirs does, as a product of some, or as the sum of parts of two; what is padded or halved may be
    off by less than one. One that stays as it is counts devices, or has no more numbers than there are devices.

    >>> from jax import ShapeDtypeStruct as S
    >>> s = Shrinking([S((4096, 8000), "float32")], [S((24, 120), "float32")], devices=4)
    >>> s(2000, 30), s(4095, 23), s(4, 4), s(2000 * 4096, 30 * 24), s(4096 + 2000, 24 + 30)
    (True, True, True, True, True)
    >>> s(2000, 120), s(1, 24), s(30, 30), s(1, 720)
    (False, False, False, False)
    """

    def __init__(self, large, small, devices: int):
        pairs: Counter = Counter()
        for a, b in zip(large, small):
            pairs |= Counter((n, m) for n, m in zip(a.shape, b.shape) if n)
        self.pairs, self.devices = sorted(pairs), devices
        self.ratios: set[Fraction] = set()
        for n, m in pairs.elements():
            self.ratios |= {Fraction(m, n), *(r * Fraction(m, n) for r in self.ratios)}
        self.parts = {Fraction(k, n) for k, n in product(range(1, devices + 1), repeat=2)}
        self.known: dict[tuple[int, int], bool] = {}

    def __call__(self, large: int, small: int) -> bool:
        if (large, small) not in self.known:
            self.known[large, small] = self._shrinks(large, small)
        return self.known[large, small]

    def _shrinks(self, large: int, small: int) -> bool:
        if large == small <= self.devices or any(abs(small - large * r) < 1 for r in self.ratios):
            return True
        for (n, m), (k, j), a in product(self.pairs, self.pairs, self.parts):
            b = (large - a * n) / k
            if b in self.parts and small == a * m + b * j:
                return True
        return False

    def shapes(self, large: tuple[int, ...], small: tuple[int, ...]) -> bool:
        return len(large) == len(small) and all(map(self, large, small))


def unlike(large: Reading, small: Reading, shrinks: Shrinking, sizes: dict[str, int], held: bool) -> str | None:
    """A sentence on the first thing in which the small program is another one.

    sizes  of the mesh
    held   compare all arrays that they make as well
    """
    if small.sent.doubts:
        return (
            f"what is sent must not depend on the sizes: for small blocks it cannot be counted. {small.sent.doubts[0]}"
        )
    kinds = [merged(r.sent).kinds for r in (large, small)]
    if kinds[0] != kinds[1]:
        a, b = (str(k) if k else "nothing" for k in kinds)
        return f"what is sent must not depend on the sizes: for large blocks it is {a}, for small ones {b}; {WHY}"
    for a, b in zip(large.sent, small.sent):
        if not _same(a, b, shrinks, sizes):
            return f"what is sent must shrink as the blocks do: for large ones it is {a}, for small ones {b}."
    if len(large.sent) != len(small.sent):
        return f"what is sent must not depend on the sizes: for large blocks it is cut into other pieces than for small ones; {WHY}"
    if large.far != small.far:
        return (
            "where something is sent must not depend on the sizes: "
            f"for large blocks no permute goes farther than {large.far}, for small ones {small.far}; {WHY}"
        )
    return _unlike_arrays(large.made, small.made, shrinks) if held else None


def _same(a, b, shrinks: Shrinking, sizes: dict[str, int]) -> bool:
    plain = [(c.kind, [x for x in c.axes if sizes[x] > 1], c.dtype, c.times, c.within) for c in (a, b)]
    return plain[0] == plain[1] and shrinks.shapes(a.shape, b.shape) and shrinks.shapes(a.out, b.out)


def _unlike_arrays(large, small, shrinks: Shrinking) -> str | None:
    for (shape, dtype), (other, kind) in zip(large, small):
        if dtype != kind or not shrinks.shapes(shape, other):
            return (
                "what a device holds must shrink as the blocks do: "
                f"for large ones your program makes {dtype}{list(shape)} where for small ones it makes {kind}{list(other)}."
            )
    if len(large) != len(small):
        return (
            "what a device holds must shrink as the blocks do: "
            f"for large ones your program makes {len(large)} arrays, for small ones {len(small)}."
        )
    return None
