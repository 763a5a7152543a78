"""Which devices exchange with each other: XLA's replica groups read, and named by the axes of a mesh.

XLA writes groups in three ways, and the same program in different ways from version to version:
  {{0,2},{1,3}}                               the groups themselves; {} is one group of all
  [2,4]<=[4,2]T(1,0)                          0 ... 7 shaped [4,2], transposed, cut into 2 groups of 4
  mesh['X'=4,'Y'=2] {'X'}                     a mesh and the axes that a group runs along; 'X':(2)2 is the part of size
                                              2 of X that comes after a part of size 2
Numbers are partitions in the mesh's own order (its last axis fastest), not the chips' numbers.
"""

import re
from collections.abc import Mapping
from itertools import permutations
from math import prod

import numpy as np

from helpers.trace.jaxpr.collectives import groups_along

_IOTA = r"\[[\d,]+\](?:T\([\d,]+\))?"
_LISTS = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_CUT = re.compile(rf"replica_groups=\[(\d+),(\d+)\]<=({_IOTA})")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, ?device_ids=\(([^{]*?)\))? ?\{([^}]*)\}")
_SLICES = re.compile(r'_xla_megascale_target=(?:"\{([\d,]+)\}x\{(\d+):(\d+)\}"|\{((?:\{[\d,]+\},?)+)\})')
_SLICE = 100_000  # from a chip to its counterpart in the next slice, as XLA numbers them
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")


def groups(text: str, devices: int) -> list[list[int]]:
    """The groups that the attributes of an instruction name; [] if they name none.

    >>> groups("replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}", 8)
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    >>> groups("replica_groups=mesh['X'=4,'Y'=2] {'X':(2)2}, dimensions={0}", 8)
    [[0, 2], [1, 3], [4, 6], [5, 7]]
    """
    if m := _MESH.search(text):
        return _along_mesh(*m.groups())
    if m := _CUT.search(text):
        return _iota(m[3]).reshape(int(m[1]), int(m[2])).tolist()
    if m := _LISTS.search(text):
        return [_ints(g) for g in re.findall(r"\{([\d,]*)\}", m[1])] or [list(range(devices))]
    return []


def groups_between_slices(text: str, chips: int) -> list[list[int]]:
    """The groups of a transfer between the slices of a TPU cluster, of so many chips each; [] if the text names none.

    XLA counts slices from 1, and writes some with the chips of each, "{1,2}x{0:3}", or each chip as `_SLICE` times its slice and its
    number in there.

    >>> groups_between_slices('_xla_megascale_target="{1,2}x{0:1}"', 2)
    [[0, 2], [1, 3]]
    >>> groups_between_slices("_xla_megascale_target={{100000,100001,200000,200001}}", 4)
    [[0, 1, 4, 5]]
    """
    if not (m := _SLICES.search(text)):
        return []
    if m[1]:
        found = [[(s, c) for s in _ints(m[1])] for c in range(int(m[2]), int(m[3]) + 1)]
    else:
        found = [[divmod(d, _SLICE) for d in _ints(g)] for g in re.findall(r"\{([\d,]+)\}", m[4])]
    return [[(s - 1) * chips + c for s, c in g] for g in found]


def pairs(text: str) -> list[tuple[int, int]]:
    """(from, to) of a collective-permute.

    >>> pairs("source_target_pairs={{0,1},{1,0}}")
    [(0, 1), (1, 0)]
    """
    m = _PAIRS.search(text)
    return [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", m[1])] if m else []


def axes_of(groups: list[list[int]], sizes: Mapping[str, int]) -> tuple[str, ...] | None:
    """The mesh axes that groups run along, in the order of their members; None if they are not those of whole axes.

    sizes  devices along each axis of the mesh, in its order; an axis of one device is named only by groups of one

    >>> axes_of([[0, 2, 1, 3]], {"X": 2, "Y": 2}), axes_of([[0, 1], [2, 3]], {"X": 2, "Y": 2})
    (('Y', 'X'), ('Y',))
    """
    if not groups or len({len(g) for g in groups}) > 1:
        return None
    axes, exact = group_axes(np.array(groups), sizes)
    return axes if exact else None


def named_axes(text: str, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], int | None]:
    """The axes that replica groups name, and the devices of a group if only a part of an axis is named.

    >>> named_axes('axes = [#stablehlo.axis_ref<name = "X">]', {"X": 4, "Y": 2})
    (('X',), None)
    >>> named_axes('axes = [<name = "X", sub_axis_info = (1)2>, <name = "Y">]', {"X": 4, "Y": 2})
    (('X', 'Y'), 4)
    """
    found = re.findall(r'name = "([^"]*)"(?:,\s*sub_axis_info\s*=\s*\(\d+\)(\d+))?', text)
    axes = tuple(dict.fromkeys(name for name, _ in found))
    members = prod(int(part or sizes[name]) for name, part in found)
    return axes, None if members == prod(sizes[a] for a in axes) else members


def group_axes(groups: np.ndarray, sizes: Mapping[str, int]) -> tuple[tuple[str, ...], bool]:
    """The mesh axes whose devices make up these groups, in order, and True; or the fewest that contain them, and False.

    groups  device numbers [groups, members], numbered along the mesh with its last axis fastest

    >>> group_axes(np.array([[0, 2, 4, 6], [1, 3, 5, 7]]), {"X": 4, "Y": 2})
    (('X',), True)
    >>> group_axes(np.array([[0, 2, 4, 6, 1, 3, 5, 7]]), {"X": 4, "Y": 2})
    (('Y', 'X'), True)
    >>> group_axes(np.array([[0, 2], [4, 6], [1, 3], [5, 7]]), {"X": 4, "Y": 2})
    (('X',), False)
    """
    wide = [a for a, n in sizes.items() if n > 1]
    ones = [a for a, n in sizes.items() if n == 1]
    if groups.shape[1] == 1 and ones:
        return (ones[0],), True
    rows = {tuple(int(d) for d in g if d >= 0) for g in groups}  # shorter groups are filled up with -1
    every = [axes for n in range(1, len(wide) + 1) for axes in permutations(wide, n)]
    devices = lambda axes: prod(sizes[a] for a in axes)  # noqa: E731
    for axes in every:
        if devices(axes) == groups.shape[1] and rows == set(map(tuple, groups_along(axes, sizes))):
            return axes, True
    holds = lambda axes: all(any(set(r) <= set(g) for g in groups_along(axes, sizes)) for r in rows)  # noqa: E731
    around = (axes for axes in every if list(axes) == sorted(axes, key=wide.index) and holds(axes))
    return min(around, key=devices), False


def _along_mesh(mesh: str, order: str | None, axes: str) -> list[list[int]]:
    """Groups along axes, or parts of axes, of a mesh that XLA names itself."""
    sizes = {a: int(n) for a, n in re.findall(r"'([^']+)'=(\d+)", mesh)}
    parts = [
        (a, int(before or 1), int(n or sizes[a])) for a, before, n in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", axes)
    ]
    # Cut every axis at the borders of its wanted parts; each piece is then an axis of its own.
    pieces = []
    for a, size in sizes.items():
        cuts = sorted({1, size} | {c for b, before, n in parts if b == a for c in (before, before * n)})
        pieces += [(a, low, high) for low, high in zip(cuts, cuts[1:])]
    along = [
        i for a, before, n in parts for i, (b, low, high) in enumerate(pieces) if a == b and before <= low < before * n
    ]
    shape = [high // low for _, low, high in pieces]
    ids = np.arange(prod(shape)) if not order else _iota(order) if "[" in order else np.array(_ints(order))
    rest = [i for i in range(len(pieces)) if i not in along]
    return ids.reshape(shape).transpose(rest + along).reshape(-1, prod(shape[i] for i in along)).tolist()


def _iota(text: str) -> np.ndarray:
    """[4,2]T(1,0): 0 ... 7 shaped 4 by 2, transposed, in one row."""
    shape, _, order = text.partition("T")
    ids = np.arange(prod(_ints(shape))).reshape(_ints(shape))
    return (ids.transpose(_ints(order)) if order else ids).ravel()


def _ints(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]
