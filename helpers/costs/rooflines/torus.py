"""Distances and transfers between chips on lines, rings and tori, and a product whose weights come over them (chapter 1).

W is bytes/s of one link in one direction; a hop takes `hop` seconds.
Source: Austin et al. 2025, Section 2.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

from helpers.arguments import formula, record

from .hardware import HOP, Slice
from .roofline import Time


@formula(signed="source target")
def line_distance(source: int, target: int, chips: int, is_ring: bool) -> int:
    """Hops from a source to a target in a row of chips, the short way round if the row is a ring.

    >>> line_distance(0, 3, 4, is_ring=False), line_distance(0, 3, 4, is_ring=True)
    (3, 1)
    """
    if not (0 <= source < chips and 0 <= target < chips):
        raise ValueError(f"chips of an axis of {chips} are numbered 0 to {chips - 1}, got {source} and {target}")
    d = abs(source - target)
    return min(d, chips - d) if is_ring else d


@formula
def distance(source: Sequence[int], target: Sequence[int], slice: Slice) -> int:
    """Hops of a shortest path between two chips of a slice.

    >>> distance((0, 0), (3, 3), Slice(chip("v5e"), (4, 4)))
    6
    """
    _check(slice, source, target)
    return sum(line_distance(a, b, n, w) for a, b, n, w in zip(source, target, slice.shape, slice.wraps))


@formula
def diameter(slice: Slice) -> int:
    """Hops between the two chips that are farthest apart: n//2 for each ring, n-1 for each line.

    >>> diameter(Slice(chip("v5e"), (16, 16))), diameter(Slice(chip("v5e"), (4, 4)))
    (16, 6)
    """
    _check(slice)
    return sum(n // 2 if w else n - 1 for n, w in zip(slice.shape, slice.wraps))


@record
class Transfer:
    """A message from chip to chip: `first` seconds until its first byte arrives, `total` until the last one has."""

    hops: int
    paths: int
    first: float
    total: float


@formula
def send(n_bytes: float, source: Sequence[int], target: Sequence[int], slice: Slice, hop: float = HOP) -> Transfer:
    """Send `n_bytes` from chip to chip, split over all shortest paths that share no link.

    There is one such path for each axis along which the two chips differ.
    (An even ring has two ways to its opposite chip, which doubles that axis.)

    >>> t = send(2 * 8 * 128 * 8192, (0, 0), (3, 3), Slice(chip("v5e"), (4, 4)))
    >>> t.hops, t.paths, f"{t.first:.1e} {t.total:.4e}"
    (6, 2, '6.0e-06 1.9241e-04')
    """
    hops = distance(source, target, slice)
    if hops == 0:
        return Transfer(0, 0, 0.0, 0.0)
    paths = 0
    for a, b, n, wraps in zip(source, target, slice.shape, slice.wraps):
        d = line_distance(a, b, n, wraps)
        paths += 0 if d == 0 else 2 if wraps and 2 * d == n and n > 2 else 1
    first = hops * hop
    return Transfer(hops, paths, first, first + n_bytes / (paths * slice.chip.link_bandwidth))


@formula
def gather_to_one(n_bytes: float, target: Sequence[int], slice: Slice) -> float:
    """Seconds until one chip holds an array that was spread evenly over the slice. Latency (microseconds) is left out.

    What lies outside of a block of chips around it must come in over the links into that block (max-flow min-cut), and the
    tightest block decides: the chip alone, with its ports, or in a narrow slice all chips on one side of it, whose
    links end at the walls. Only blocks that are as thin as the chip or reach to a wall can be the tightest.

    >>> v5e = chip("v5e")
    >>> f"{gather_to_one(2**34, (0, 0), Slice(v5e, (4, 4))):.3f}"
    '0.179'
    >>> gather_to_one(8 * v5e.link_bandwidth, (1, 0), Slice(v5e, (8, 1)))     # six eighths come in from one side
    6.0
    """
    _check(slice, target)
    sides = [list(_blocks(a, n, wraps)) for a, n, wraps in zip(target, slice.shape, slice.wraps)]
    most = 0.0
    for block in product(*sides):
        chips = prod(size for size, _ in block)
        links = sum(chips // size * open_ for size, open_ in block)
        if links:
            most = max(most, (slice.chips - chips) / links)
    return n_bytes / slice.chips * most / slice.chip.link_bandwidth


def _blocks(position: int, n: int, is_ring: bool) -> set[tuple[int, int]]:
    """(chips, links that lead into it) of the rows around a position on an axis: it alone, it and one side or both up to the walls."""
    if is_ring:
        return {(1, min(n - 1, 2)), (n, 0)}
    return {(high - low + 1, (low > 0) + (high < n - 1)) for low in {0, position} for high in {position, n - 1}}


def _check(slice: Slice, *chips: Sequence[int]) -> None:
    if not slice.chip.axes:
        raise ValueError(f"{slice.chip.name}s hang on a switch, one hop from each other: they have no place on a torus")
    for c in chips:
        if len(c) != len(slice.shape) or any(not 0 <= a < n for a, n in zip(c, slice.shape)):
            raise ValueError(
                f"{tuple(c)} is no chip of a {'x'.join(map(str, slice.shape))} slice of {prod(slice.shape)}"
            )


@formula
def offloaded_matmul(rows: int, D: int, F: int, slice: Slice, weight_bytes: float = 1, dtype: str = "bf16") -> Time:
    """x[rows, D] · W_in[D, F] on chip 0, with W_in (weight_bytes each) in host memory spread over the slice.

    W crosses PCIe to all chips at once, ICI to chip 0, HBM into the matrix unit; x is small and left out. In `lower` all four
    stages stream at once, in `upper` each waits for the one before (Austin et al. 2025, Section 2).

    >>> t = offloaded_matmul(8, 2**17, 2**17, Slice(chip("v5e"), (4, 4)))
    >>> " ".join(f"{name} {1e3 * x:.1f}ms" for name, x in t.parts.items()), t.bound
    ('pcie 71.6ms ici 179.0ms hbm 21.2ms math 1.4ms', 'ici')
    """
    if slice.chip.pcie_bandwidth is None:
        raise ValueError(f"{slice.chip.name} has no published bandwidth to its host: replace(chip, pcie_bandwidth=…)")
    n_bytes = weight_bytes * D * F
    return Time(
        {
            "pcie": n_bytes / (slice.chips * slice.chip.pcie_bandwidth),
            "ici": gather_to_one(n_bytes, (0,) * len(slice.shape), slice),
            "hbm": n_bytes / slice.chip.hbm_bandwidth,
            "math": 2 * rows * D * F / slice.chip.rate(dtype),
        }
    )
