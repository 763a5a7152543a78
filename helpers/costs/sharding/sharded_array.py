"""Named-axis sharding: which block of an array each device holds (chapter 2).

`A[I_X, J_YZ] {U_W}` has dimensions I and J, cut over the mesh axes X and YZ, and is a partial sum over W.
Axes are single capital letters. In a subscript the first axis is the major one: I_XY numbers the blocks of I
by x·|Y| + y, I_YX by y·|X| + x. An axis that is not named holds copies.

Source: Austin et al. 2025, Section 3, "Partitioning notation".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Literal

from helpers.arguments import formula, record, whole
from helpers.costs.rooflines.hardware import Slice
from helpers.numeric import floor, plain, where

WIDTH = {
    "f32": 4, "bf16": 2, "f16": 2, "fp8": 1, "int8": 1, "int16": 2, "int32": 4, "uint8": 1, "uint32": 4,
    "bool": 1, "int4": 0.5, "fp4": 0.5, "f64": 8, "int64": 8,
}  # fmt: skip


@formula
def bytes_each(dtype: str) -> float:
    """Bytes of one number.

    >>> bytes_each("bf16"), bytes_each("int4")
    (2, 0.5)
    """
    if dtype not in WIDTH:
        raise ValueError(f"no number type is called {dtype!r} here; there are {', '.join(WIDTH)}")
    return WIDTH[dtype]


@record
class Axis:
    """`n` chips in a row along one axis of the torus: a ring if `wraps`, else a line.

    link    "ici", or "dcn" for an axis whose chips are in as many slices, joined by the network between them; no torus has it
    stride  the axis takes every so manieth chip of a row, and shares its links with as many others

    >>> Axis(4), Axis(2, False, "dcn")
    (Axis(n=4, wraps=True), Axis(n=2, wraps=False, link='dcn'))
    """

    n: int
    wraps: bool = True
    link: Literal["ici", "dcn"] = "ici"
    stride: int = 1

    def __post_init__(self):
        whole(n=self.n)

    def __repr__(self) -> str:
        network = "" if self.link == "ici" else f", link={self.link!r}"
        apart = "" if plain(self.stride) and self.stride == 1 else f", stride={self.stride}"
        return f"Axis(n={self.n}, wraps={self.wraps}{network}{apart})"

    @property
    def steps(self):
        """Hops until every chip has heard from every other one, both directions in use: n//2 on a ring, n-1 on a line.

        >>> Axis(4).steps, Axis(5).steps, Axis(4, wraps=False).steps
        (2, 2, 3)
        """
        return where(self.wraps, floor(self.n / 2), self.n - 1)


@formula
class Mesh:
    """Devices in a grid with named axes: `Mesh({"X": 4, "Y": 2})`.

    sizes  for each axis a number (that many chips in a ring), an `Axis`, or several Axis that it is laid over:
           {"X": (Axis(4), Axis(4))} is an axis of 16 on two rings of 4

    Devices are numbered with the last axis fastest, as `jax.make_mesh` does on simulated devices.
    """

    def __init__(self, sizes: Mapping[str, int | Axis | tuple[Axis, ...]]):
        laid = {}
        for name, s in sizes.items():
            if not re.fullmatch("[A-Z]", str(name)):
                raise ValueError(f"a mesh axis is called by one capital letter, not {name!r}")
            if plain(s) and s < 1:
                raise ValueError(f"axis {name} needs 1 or more chips, got {s}")
            laid[name] = (s,) if isinstance(s, Axis) else s if isinstance(s, tuple) else (Axis(s),)
            if not laid[name] or not all(isinstance(a, Axis) for a in laid[name]):
                raise ValueError(f"axis {name} is a number of chips, an Axis or several Axis, not {s!r}")
        self._laid = laid
        self.names = tuple(laid)
        self.sizes = {name: prod(a.n for a in axes) for name, axes in laid.items()}
        self.devices = prod(self.sizes.values())
        self._key = tuple(laid.items())

    @classmethod
    def on(cls, slice: Slice, names: str | Sequence[str] | Mapping[str, Sequence[int]]) -> "Mesh":
        """The mesh that lays named axes over a slice: one name for each axis, or for each name the axes it takes.

        >>> Mesh.on(Slice(chip("v5e"), (4, 4)), "XY").wires("XY")
        (Axis(n=4, wraps=False), Axis(n=4, wraps=False))
        >>> Mesh.on(Slice(chip("v5p"), (4, 4, 4)), {"X": (0, 1), "Y": (2,)})["X"]
        16
        """
        laid = names if isinstance(names, Mapping) else {name: (i,) for i, name in enumerate(names)}
        used = [i for axes in laid.values() for i in axes]
        if sorted(used) != list(range(len(slice.shape))):
            raise ValueError(f"the {len(slice.shape)} axes of the slice are each used once, got {dict(laid)}")
        return cls({name: tuple(Axis(slice.shape[i], slice.wraps[i]) for i in axes) for name, axes in laid.items()})

    def __getitem__(self, name: str) -> int:
        if name not in self.sizes:
            raise ValueError(f"the mesh has no axis {name}: it has {', '.join(self.names) or 'none'}")
        return self.sizes[name]

    def size(self, names: str | Sequence[str]) -> int:
        """Devices along these axes together.

        >>> Mesh({"X": 4, "Y": 2}).size("XY"), Mesh({"X": 4}).size("")
        (8, 1)
        """
        return prod(self[n] for n in names)

    def wires(self, names: str | Sequence[str]) -> tuple[Axis, ...]:
        """The rings and lines of chips under these axes."""
        return tuple(a for n in names for a in (self[n] and self._laid[n]))

    def coordinates(self) -> Iterator[dict[str, int]]:
        """Where each device stands, in the order of their numbers.

        >>> list(Mesh({"X": 2, "Y": 2}).coordinates())[2]
        {'X': 1, 'Y': 0}
        """
        for d in range(self.devices):
            where_ = {}
            for name in reversed(self.names):
                d, where_[name] = divmod(d, self.sizes[name])
            yield {name: where_[name] for name in self.names}

    def __eq__(self, other):
        return isinstance(other, Mesh) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        return f"Mesh({', '.join(f'{n}={s}' for n, s in self.sizes.items())})"


@record
class Sharding:
    """An array's dimensions, the mesh axes that cut each of them, and the axes over which it is a partial sum.

    name       "A"
    dims       ("I", "J")
    axes       for each dimension the mesh axes that cut it, major first: (("X",), ("Y", "Z"))
    unreduced  the axes of {U_…}: devices along them hold partial sums, and the array is their sum
    """

    name: str
    dims: tuple[str, ...]
    axes: tuple[tuple[str, ...], ...]
    unreduced: tuple[str, ...] = ()

    def __post_init__(self):
        if len(self.dims) != len(self.axes):
            raise ValueError(f"{self.name} has {len(self.dims)} dimensions and subscripts for {len(self.axes)}")
        if twice := sorted({d for d in self.dims if self.dims.count(d) > 1}):
            raise ValueError(f"{self} names dimension {twice[0]} twice: give its dimensions different names")
        if twice := sorted({a for a in self.used if self.used.count(a) > 1}):
            raise ValueError(
                f"{self} names axis {twice[0]} twice: an axis that cuts one dimension is used up, so leave it to one of them"
            )

    @cached_property
    def used(self) -> tuple[str, ...]:
        """Every axis that the notation names: those of the dimensions, then the unreduced ones."""
        return tuple(a for axes in self.axes for a in axes) + self.unreduced

    def at(self, dim: str) -> tuple[str, ...]:
        """The axes that cut a dimension.

        >>> parse("A[I_XY, J]").at("I")
        ('X', 'Y')
        """
        if dim not in self.dims:
            raise ValueError(f"{self} has no dimension {dim}: it has {', '.join(self.dims)}")
        return self.axes[self.dims.index(dim)]

    def check(self, mesh: Mesh, sizes: Mapping[str, int] | None = None) -> None:
        """ValueError if an axis is unknown to the mesh or does not divide its dimension.

        >>> parse("A[I_X, J]").check(Mesh({"X": 4}), {"I": 10, "J": 8})
        Traceback (most recent call last):
        ValueError: A[I_X, J]: X is 4 and does not divide I = 10; the nearest that it divides are 8 and 12
        """
        for a in self.used:
            if a not in mesh.sizes:
                raise ValueError(f"{self} names axis {a}: use one that the mesh has, {', '.join(mesh.names) or 'none'}")
        for dim, axes in zip(self.dims, self.axes) if sizes is not None else ():
            if dim not in sizes:
                raise ValueError(f"{self} has a dimension {dim} whose size is not given; sizes: {dict(sizes)}")
            n = mesh.size(axes)
            if sizes[dim] % n:
                below = sizes[dim] // n * n
                near = f"{below} and {below + n}" if below else f"{n} and its multiples"
                raise ValueError(
                    f"{self}: {''.join(axes)} is {n} and does not divide {dim} = {sizes[dim]}; the nearest that it divides are {near}"
                )

    def local(self, sizes: Mapping[str, int], mesh: Mesh) -> tuple[int, ...]:
        """Shape of one device's block.

        >>> parse("A[I_XY, J]").local({"I": 1024, "J": 4096}, Mesh({"X": 8, "Y": 2}))
        (64, 4096)
        """
        self.check(mesh, sizes)
        return tuple(sizes[d] // mesh.size(axes) for d, axes in zip(self.dims, self.axes))

    def bytes(self, sizes: Mapping[str, int], mesh: Mesh, dtype: str = "bf16") -> float:
        """Bytes that one device holds.

        >>> parse("A[I_XY, J]").bytes({"I": 1024, "J": 4096}, Mesh({"X": 8, "Y": 2}), "f32") == 2**20
        True
        >>> A, mesh = parse("A[I_XY, J]"), Mesh({"X": 2, "Y": 8, "Z": 2})
        >>> A.bytes({"I": 128, "J": 2048}, mesh, "int8"), mesh.devices * A.bytes({"I": 128, "J": 2048}, mesh, "int8") / 2**10
        (16384, 512.0)
        """
        return bytes_each(dtype) * prod(self.local(sizes, mesh))

    def parts(self, mesh: Mesh) -> int:
        """Blocks that the array is cut into."""
        return prod(mesh.size(axes) for axes in self.axes)

    def copies(self, mesh: Mesh) -> int:
        """Devices that hold the same block: those along the axes that are not named.

        >>> parse("A[I_X, J, K]").copies(Mesh({"X": 4, "Y": 8, "Z": 2}))
        16
        """
        self.check(mesh)
        return mesh.devices // mesh.size(self.used)

    def block(self, coordinates: Mapping[str, int], mesh: Mesh) -> tuple[int, ...]:
        """Number of the device's block along each dimension; the first axis of a subscript counts most.

        >>> mesh = Mesh({"X": 2, "Y": 2})
        >>> parse("A[I_XY, J]").block({"X": 1, "Y": 0}, mesh), parse("A[I_YX, J]").block({"X": 1, "Y": 0}, mesh)
        ((2, 0), (1, 0))
        """
        out = []
        for axes in self.axes:
            n = 0
            for a in axes:
                n = n * mesh[a] + coordinates[a]
            out.append(n)
        return tuple(out)

    def slices(
        self, coordinates: Mapping[str, int], sizes: Mapping[str, int], mesh: Mesh
    ) -> tuple[tuple[int, int], ...]:
        """(start, stop) of the device's block along each dimension.

        >>> parse("A[I_X, J]").slices({"X": 1}, {"I": 8, "J": 3}, Mesh({"X": 4}))
        ((2, 4), (0, 3))
        """
        return tuple((b * n, (b + 1) * n) for b, n in zip(self.block(coordinates, mesh), self.local(sizes, mesh)))

    def __str__(self) -> str:
        dims = ", ".join(d + ("_" + "".join(a) if a else "") for d, a in zip(self.dims, self.axes))
        return f"{self.name}[{dims}]" + (" {U_" + "".join(self.unreduced) + "}" if self.unreduced else "")


_ARRAY = re.compile(r"\s*(?P<name>[A-Za-z]\w*)\s*\[(?P<dims>[^\[\]]*)\]\s*(?:\{\s*U_\{?(?P<un>[A-Z]+)\}?\s*\})?\s*")
_DIM = re.compile(r"\s*([A-Za-z][A-Za-z0-9']*)(?:_\{?([A-Z]+)\}?)?\s*")


@formula
def parse(text: "str | Sharding") -> Sharding:
    """The sharding that a text in the notation describes; `str` prints it back.

    >>> A = parse("A[I_X, J_YZ] {U_W}")
    >>> A.axes, A.unreduced, str(A)
    ((('X',), ('Y', 'Z')), ('W',), 'A[I_X, J_YZ] {U_W}')
    >>> parse("A[I_X, J_X]")
    Traceback (most recent call last):
    ValueError: A[I_X, J_X] names axis X twice: an axis that cuts one dimension is used up, so leave it to one of them
    >>> parse("A(I, J)")
    Traceback (most recent call last):
    ValueError: 'A(I, J)' is not in the notation; write an array as A[I_X, J_YZ] or A[I, J] {U_X}
    """
    if isinstance(text, Sharding):
        return text
    whole = _ARRAY.fullmatch(str(text))
    parts = [_DIM.fullmatch(d) for d in whole["dims"].split(",")] if whole and whole["dims"].strip() else []
    if not whole or not all(parts):
        raise ValueError(f"{text!r} is not in the notation; write an array as A[I_X, J_YZ] or A[I, J] {{U_X}}")
    axes = tuple(tuple(p[2] or "") for p in parts)
    return Sharding(whole["name"], tuple(p[1] for p in parts), axes, tuple(whole["un"] or ""))
