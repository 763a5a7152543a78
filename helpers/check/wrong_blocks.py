"""How the blocks that devices hold are off, where no named mistake explains it: by what they have in common with the right ones.

Nothing here knows an exercise, and nothing that is said is a number of a result: a factor, an axis, a place, an order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from helpers.trace.jaxpr.collectives import groups_along
from helpers.trace.jaxpr.equation_costs import short

from .dependence import NEARLY, Asked, Case, as_if, common_factor, listed, place, places

CLOSE = {"bf16": 0.01, "f16": 5e-3, "f32": 1e-4, "f64": 1e-9, "fp8": 0.1}
"""How far a number may be off, as a share of the largest one; whole numbers are exact."""
TURNED = "the other way round the ring: whose block has come after so many hops?"
FEW_DIGITS = 2**-8  # what bf16 leaves of a number
MANY = 64  # rows: each is held against each, n² comparisons
WHOLE = 0.01  # how near to -1 a factor is -1, in whatever type


@dataclass(frozen=True)
class Blocks:
    """What each device holds and should hold, in the order of the mesh.

    sizes   of the mesh's axes, by name
    parts   which part of the whole each device should hold; copies have the same
    starts  of arguments laid out like the result: what each device has of them, by name
    near    which numbers of an array are those of another one, as far as the type tells, or with so many times the slack
    silent  axes along which nothing was sent
    with_number  whether the function is given a number beside arrays, such as a learning rate: it may be what is missing
    asked   to ask for other results; None where no function of whole arrays is known
    """

    sizes: dict[str, int]
    held: Sequence[np.ndarray]
    wanted: Sequence[np.ndarray]
    parts: Sequence[str]
    starts: dict[str, Sequence[np.ndarray]]
    near: Callable[..., np.ndarray]
    silent: Sequence[str] = ()
    with_number: bool = False
    asked: Asked | None = None

    @classmethod
    def of(cls, result: jax.Array, expected, mesh: Mesh, stacked: bool, dtype, starts: dict, within=np.inf):
        """Those of a sharded result beside those of what is expected; copies that the result promises one by one.

        result  if it is `stacked`, a stack of partial sums, their sum is compared
        dtype   type that was computed in, which sets the tolerance: of whole numbers in narrow floats one rounding
        starts  whole arguments of the result's shape, by name: something may have been added to one
        within  the most that a number may be off where that is a share of the largest one
        """
        expected = np.asarray(expected, np.float64)
        if stacked:
            result = jax.device_put(np.asarray(result, np.float32).sum(0), jax.NamedSharding(mesh, jax.P()))
        rounding = 0.5 ** (jnp.finfo(dtype).nmant + 1) if is_narrow(dtype) and is_whole(expected) else 0.0
        share = 0.0 if rounding else min(within, CLOSE.get(short(dtype), 0) * np.abs(expected).max(initial=0))
        order = {d: i for i, d in enumerate(mesh.devices.flat)}
        shards = sorted(result.addressable_shards, key=lambda s: order[s.device])
        cut = lambda a: [np.asarray(a, np.float64)[s.index] for s in shards]  # noqa: E731
        return cls(
            sizes=dict(mesh.shape),
            held=[np.asarray(s.data, np.float64) for s in shards],
            wanted=cut(expected),
            parts=[str(s.index) for s in shards],
            starts={name: cut(a) for name, a in starts.items()},
            near=lambda h, w, slack=1: np.abs(h - w) <= slack * (share + rounding * np.abs(w)),  # NaN is not near
        )

    @property
    def right(self) -> bool:
        """Whether every device holds what it should."""
        return all(map(self.close, self.held, self.wanted))

    def close(self, held: np.ndarray, expected: np.ndarray) -> bool:
        return bool(np.all(self.near(held, expected)))

    def scaled(self, held: np.ndarray, factor, expected: np.ndarray) -> bool:
        """Whether an array is another one times a factor, rounded once more: in the size of the larger of the two."""
        small = np.all(np.abs(factor) < 1)
        return bool(np.all(self.near(held / factor, expected, 3) if small else self.near(held, factor * expected, 3)))

    @property
    def froms(self) -> list[tuple[str, Sequence[np.ndarray]]]:
        """What something may have been added to: zeros, and the arguments of the result's shape."""
        return [("", [np.zeros_like(h) for h in self.held]), *self.starts.items()]

    @property
    def wide(self) -> list[str]:
        """Axes of more than one device."""
        return [a for a, n in self.sizes.items() if n > 1]


def is_narrow(dtype) -> bool:
    """Whether these are floats of fewer bits than single precision has."""
    return jnp.issubdtype(dtype, jnp.floating) and jnp.dtype(dtype).itemsize < 4


def is_whole(numbers: np.ndarray) -> bool:
    """Whether all of them are whole numbers."""
    return bool(np.all(numbers == np.rint(numbers)))


def described(blocks: Blocks) -> str:
    """A sentence on what is wrong: the first of these that all devices agree on."""
    with np.errstate(all="ignore"):  # what stands on stderr costs points
        return next(sentence for way in WAYS if (sentence := way(blocks)))


def _no_numbers(b: Blocks) -> str | None:
    """NaN or infinity, or nothing but zeros."""
    finite = lambda arrays: all(np.isfinite(a).all() for a in arrays)  # noqa: E731
    if finite(b.wanted) and not finite(b.held):
        return "the result holds NaN or infinity: was 0 divided by 0, -inf taken from -inf, or exp taken of a large number?"
    return None if any(h.any() for h in b.held) else "all that comes out is zeros."


def _too_often(b: Blocks) -> str | None:
    """All numbers, or what is added to an argument, times a product of axis sizes, or divided by it, or times any one factor."""
    counts = sorted({prod(c) for k in range(len(b.sizes)) for c in combinations(b.sizes.values(), k + 1)} - {1})
    for name, start in b.froms:
        what = f"what is added to {name}" if name else "every number"
        held, wanted = ([x - y for x, y in zip(arrays, start)] for arrays in (b.held, b.wanted))
        pairs, factor = list(zip(held, wanted)), common_factor(np.stack(held), np.stack(wanted))
        unused = ", or is a number not used that the function is given" if b.with_number else ""
        for n in counts:
            if all(b.close(h, n * w) for h, w in pairs):
                return f"{what} is {n} times too large: was something summed that was already whole{unused}?"
            if all(b.close(n * h, w) for h, w in pairs):
                mean = "is something divided by the number of devices, a mean taken for a sum"
                return f"{what} is {n} times too small: {mean}{unused}?"
        several = np.count_nonzero(np.stack(wanted)) > 1 and f"{factor:.3g}" not in "01"
        if several and all(b.scaled(h, factor, w) for h, w in pairs):
            if abs(factor + 1) < WHOLE:
                return f"the sign of {what} is wrong." if name else "the sign is wrong."
            return f"{what} is {factor:.3g} times what it should be{b.sizes and f', on {_mesh(b)}' or ''}."
        if name and all(map(b.close, held, b.wanted)):
            return f"the result is right, with {name} added to it."
        alone = name and common_factor(np.stack(b.held), np.stack(wanted))
        if alone and all(b.scaled(h, alone, w) for h, w in zip(b.held, wanted)):
            return f"the result is what should be added to {name}, times {alone:.3g}, and {name} is not in it."
    return None


def _missing_sum(b: Blocks) -> str | None:
    """What devices along some axes hold, or add to an argument, adds up to what each of them should hold."""
    for k in range(1, len(b.wide) + 1):
        for axes in combinations(b.wide, k):
            over = " and ".join(axes)
            for name, start in b.froms:
                added = {i: sum(b.held[j] - start[j] for j in g) for g in groups_along(axes, b.sizes) for i in g}
                if all(b.close(start[i] + added[i], b.wanted[i]) for i in added):
                    what = f"add to {name}" if name else "hold"
                    return f"a sum over {over} is missing: what the devices along {over} {what} adds up to what is asked for."
    return None


def _on_other_devices(b: Blocks) -> str | None:
    """Every device holds the block of another one."""
    different = [i for i, part in enumerate(b.parts) if part not in b.parts[:i]]
    numbers = [next((k for k, j in enumerate(different) if b.close(h, b.wanted[j])), None) for h in b.held]
    if None in numbers:
        return None
    if len(set(numbers)) == 1 < len(different):
        one = place(different[numbers[0]], b.sizes)
        return f"every device holds the block of the device at {one}: which one is its own depends on its place."
    sentence, order = "the blocks are right and on the wrong devices", _order(numbers)
    if len(b.wide) == 1 and len(different) == len(b.held):
        return f"{sentence}{order}: device i is to hold block i."
    return f"{sentence}{order}." if order else f"{sentence}: which axis of a subscript is the major one?"


def _as_if(b: Blocks) -> str | None:
    """What would be right for other arguments."""
    if not (asked := b.asked):
        return None
    case = Case({cut.name: array for cut, array in zip(asked.cuts, asked.arrays)}, b.held, b.wanted)
    blocks = lambda **arrays: [asked.ours(*arrays.values())[index] for index in asked.index[-1]]  # noqa: E731
    said = as_if([case], lambda held, right: all(map(b.close, held, right)), blocks, min_cases=1)
    return said and f"{said}."


def _elsewhere(b: Blocks) -> str | None:
    """Along a dimension some numbers stand where others belong, on every device."""
    for d, n in enumerate(b.held[0].shape):
        rows = lambda blocks, i, d=d: [np.take(block, i, d) for block in blocks]  # noqa: E731
        if not 2 <= n <= MANY or any(len(np.unique(w)) < 2 for w in b.wanted):
            continue
        belongs = [[j for j in range(n) if all(map(b.close, rows(b.held, i), rows(b.wanted, j)))] for i in range(n)]
        order = [i if i in places or len(places) != 1 else places[0] for i, places in enumerate(belongs)]
        moved = [i for i in range(n) if order[i] != i]
        if any(i not in places for i, places in enumerate(belongs) if i not in moved):
            continue
        if n > 2 and order == [*range(n)][::-1]:
            return f"the right numbers stand in reverse order along dimension {d}."
        if n > 2 and {(j - i) % n for i, j in enumerate(order)} in ({1}, {n - 1}):
            return f"the right numbers stand one place off along dimension {d}."
        if len(moved) == 2 and [order[i] for i in moved] == moved[::-1]:
            return f"the numbers at {moved[0]} and at {moved[1]} along dimension {d} have changed places."
        if len(moved) == 1:
            return f"at {moved[0]} along dimension {d} stand the numbers that belong at {order[moved[0]]}."
    return None


def _copies_differ(b: Blocks) -> str | None:
    """Devices that should hold the same hold different numbers."""
    differ = lambda i, j: b.parts[i] == b.parts[j] and not b.close(b.held[i], b.held[j])  # noqa: E731
    axes = [a for a in b.wide if any(differ(i, g[0]) for g in groups_along([a], b.sizes) for i in g)]
    if not axes:
        return None
    if (orders := [_rearranged(b, i) for i in range(len(b.held))]) and None not in orders:
        return f"each device joins the right blocks in an order of its own{_own_orders(b, orders)}"
    along = " and ".join(axes)
    if any(a in b.silent for a in axes):
        return f"nothing is sent along {along}, and each device has its own result: a sum or a gather over {along} is missing."
    if right := [place(i, b.sizes) for i, (h, w) in enumerate(zip(b.held, b.wanted)) if b.close(h, w)]:
        return f"devices along {along} should hold copies of a block, and only those at {listed(right)} hold what is asked for."
    return (
        f"devices along {along} should hold copies of a block, and hold different numbers that are no partial sums of it: "
        f"was something not gathered, or not summed, over {along} before it was used?{b.asked.unread() if b.asked else ''}"
    )


def _own_orders(b: Blocks, orders: Sequence[list[int]]) -> str:
    """What the orders of all devices have in common: numbers of blocks counted down, or the own one first."""
    for axes in [*([a] for a in b.wide), b.wide]:
        places = {i: k for g in groups_along(axes, b.sizes) for k, i in enumerate(g)}
        if any(len(order) != prod(b.sizes[a] for a in axes) for order in orders):
            continue
        if all(order[0] == places[i] for i, order in enumerate(orders)):
            return ": its own comes first, and not block 0."
        if all(order[places[i]] == places[i] and _counted_down(order) for i, order in enumerate(orders)):
            return f": its own stands at its place, and the others {TURNED}"
    return ": block n of the array belongs at place n, whatever the device."


def _factors(b: Blocks) -> str | None:
    """One factor for each device, or one for each row; any single number is off by some factor."""
    factors = [common_factor(h, w) for h, w in zip(b.held, b.wanted)]
    if b.sizes and b.held[0].size > 1 and all(c and b.scaled(h, c, w) for h, w, c in zip(b.held, b.wanted, factors)):
        each = listed(f"{c:.3g} where {place(i, b.sizes)}" for i, c in enumerate(factors))
        return f"each device's numbers are off by a factor of its own: {each}."
    for d in reversed([d for d, n in enumerate(b.held[0].shape) if n > 1]):  # one number is always off by a factor
        dots = [[(x * w).sum(d, keepdims=True) for x in (h, w)] for h, w in zip(b.held, b.wanted)]
        rows = [np.divide(x, y, out=np.ones_like(x), where=y != 0) for x, y in dots]
        if all(
            b.scaled(h, c, w) and (c > 0).all() and (np.abs(c - 1) > WHOLE).sum() > 1
            for h, w, c in zip(b.held, b.wanted, rows)
        ):
            return f"what stands along dimension {d} is off by one factor, and by another one in each row: what is a row divided by?"
    return None


def _another_order(b: Blocks) -> str | None:
    """The right numbers on the right device, in the order of blocks, rows or numbers."""
    orders = [_rearranged(b, i) for i in range(len(b.held))]
    if None not in orders:
        order = next(order for order in orders if order != sorted(order))
        n = len(order)  # by two axes of a subscript, the minor one first
        if any(n % m == 0 and order == np.arange(n).reshape(m, -1).T.ravel().tolist() for m in b.sizes.values()):
            return "the right blocks are joined in another order: which axis of a subscript is the major one?"
        return f"the right blocks are joined in another order{_order(order)}."
    if any(len(np.unique(w)) < max(3, w.size / 2) for w in b.wanted):  # zeros are anywhere
        return None
    if all(b.close(np.sort(h, None), np.sort(w, None)) for h, w in zip(b.held, b.wanted)):
        return f"{'each device has ' if b.sizes else ''}the right numbers, in another order."
    if b.close(*(np.sort([x[b.parts.index(p)] for p in dict.fromkeys(b.parts)], None) for x in (b.held, b.wanted))):
        return "the right numbers are there, at other places and in part on other devices."
    return None


def _rearranged(b: Blocks, device: int) -> list[int] | None:
    """For each block of what a device holds the number of the right one that it is, if it is made of all of these."""
    held, wanted, sizes = b.held[device], b.wanted[device], [b.sizes[a] for a in b.wide]
    counts = {prod(c) for k in range(1, len(sizes) + 1) for c in combinations(sizes, k)}
    for d in range(held.ndim):
        for n in sorted(n for n in counts if held.shape[d] % n == 0):
            mine, right = np.split(held, n, d), np.split(wanted, n, d)
            order = [[k for k, w in enumerate(right) if b.close(h, w)] for h in mine]
            if all(len(k) == 1 for k in order) and len({k for (k,) in order}) == n:
                return [k for (k,) in order]
    return None


def _order(numbers: Sequence[int]) -> str:
    """How the order of blocks differs from 0, 1, 2, …; "" if nothing plain can be said."""
    n = len(numbers)
    if list(numbers) == list(range(n))[::-1]:
        return ", in reverse order"
    if n > 2 and _counted_down(numbers):
        return ", counted the other way round"
    on = {(k - i) % n for i, k in enumerate(numbers)}
    return f", all of them {min(*on, n - numbers[0])} places off" if len(on) == 1 else ""


def _counted_down(numbers: Sequence[int]) -> bool:
    return len({(k + i) % len(numbers) for i, k in enumerate(numbers)}) == 1


def _few_digits(b: Blocks) -> str | None:
    """Nearly right, everywhere."""
    size = lambda w: np.abs(w) + 0.1 * np.abs(w).max(initial=0)  # noqa: E731
    near = all((np.abs(h - w) / size(w)).max(initial=0) <= FEW_DIGITS for h, w in zip(b.held, b.wanted))
    return "every number is right to two digits: is some of it in fewer bits, or rounded?" if near else None


def _where(b: Blocks) -> str:
    """Which devices are right, and of those that are not which places are off, and whether zeros stand there."""
    right = [i for i, (h, w) in enumerate(zip(b.held, b.wanted)) if b.close(h, w)]
    wrong = [i for i in range(len(b.held)) if i not in right]
    devices = f"the result is wrong: on {_mesh(b)}, " if b.sizes else ""
    if right:
        devices += f"on the devices at {listed(place(i, b.sizes) for i in wrong)}, and not on the others, "
    off = np.stack([~b.near(b.held[i], b.wanted[i]) for i in wrong])
    held, wanted = (np.stack([x[i] for i in wrong])[off] for x in (b.held, b.wanted))
    factor = common_factor(held, wanted)
    if not held.any():
        how = "zeros stand where numbers belong"
    elif not wanted.any():
        how = "numbers stand where zeros belong"
    elif held.size > 1 and b.scaled(held, factor, wanted):
        sign_alone = abs(factor + 1) < WHOLE
        wrong_by = "have the wrong sign" if sign_alone else f"are {factor:.3g} times what they should be"
        how = f"{off.sum():,} of {off.size:,} numbers {wrong_by}"
    else:
        little = np.abs(held - wanted).max() < NEARLY * max(np.abs(w).max() for w in b.wanted)
        how = f"{off.sum():,} of {off.size:,} numbers are off{', each by little' if little else ''}"
    if where := places(off[0]):
        how += f"; on the first of these devices {where}" if b.sizes else f": {where}"
    return f"{devices}{how}.{b.asked.unread() if b.asked else ''}"


def _mesh(b: Blocks) -> str:
    return "a mesh of " + ", ".join(f"{a} = {n}" for a, n in b.sizes.items())


WAYS = (
    _no_numbers, _too_often, _missing_sum, _on_other_devices, _as_if, _elsewhere, _copies_differ, _few_digits, _another_order, _factors,
    _where,
)  # fmt: skip
"""How blocks may be off, the plainest first; the last one always has something to say."""
