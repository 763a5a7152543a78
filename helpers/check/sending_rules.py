"""What must hold of what a sharded program sends and multiplies, and of how it leaves arrays cut: the statements of `Program` on that."""

from collections.abc import Callable, Mapping
from functools import partial, wraps

from helpers import show, trace
from helpers.costs.sharding import sharded_array
from helpers.costs.sharding.collectives import KINDS
from helpers.costs.sharding.sharded_array import bytes_each

from .judged_program import ENDLESS
from .likely_mistakes import either
from .raised import Unclear
from .traced_program import Reading, Setting

NAMES = {
    "all_gather": "AllGather", "psum_scatter": "ReduceScatter", "psum": "AllReduce", "pmean": "AllReduce",
    "all_to_all": "AllToAll", "ppermute": "Permute",
} | {k: k for k in KINDS}  # fmt: skip

FLAT = (
    "no collective runs over X and Y together: first the chips of a host among themselves, then the chips at the same place "
    "of all hosts, or the other way round"
)
FULL_HOSTS = "inside the hosts more is sent than needed: each chip has to get no more than what it will hold or pass on"


def statement(rule: Callable) -> Callable:
    """A rule that a check states of a program: kept until `report` asks it. It gives a complaint or None."""

    @wraps(rule)
    def stated(self, *args, **kwargs) -> None:
        self.todo.append(partial(rule, self, *args, **kwargs))

    return stated


class SendingRules:
    """Statements on a program as it is read in full size; nothing of it is run.

    todo      what is asked of the program, in this order: each gives a complaint or None
    mistakes  named ones, by all that they send
    """

    setting: Setting
    reading: Reading
    todo: list[Callable[[], str | None]]
    mistakes: list[tuple[str, dict[str, int]]]

    def sends(self, **kinds: int) -> None:
        """The program sends exactly these: AllGather=1, ReduceScatter=2. Gathering over X, then Y, counts as one."""
        kinds_of(kinds)
        self._sends(kinds)

    @statement
    def _sends(self, kinds: dict[str, int]) -> str | None:
        if self.logical.kinds != kinds:
            return self._named() or f"expected {_listed(kinds)}, your program sends {_listed(self.logical.kinds)}."

    @statement
    def sends_bytes(self, max_bytes: float) -> str | None:
        """Each device sends no more than this many bytes, by the ring algorithms."""
        if self.logical.wire <= max_bytes * (1 + 1e-9):
            return None
        wide = [c.dtype for c in self.logical if bytes_each(c.dtype) > bytes_each(self.setting.widest)]
        travels = f" Some of it travels as {wide[0]}, and the arguments are {self.setting.widest}." if wide else ""
        sent, limit = show.bytes(self.logical.wire), show.bytes(max_bytes)
        return self._named() or f"your program sends {sent} from each device, the limit is {limit}.{travels}"

    @statement
    def sends_numbers(self, max_numbers: float) -> str | None:
        """Each device sends no more than this many numbers, of whatever type, by the ring algorithms: sums may travel in more bits."""
        sent = sum(c.wire(self.logical.sizes) / bytes_each(c.dtype) for c in self.logical)
        if sent <= max_numbers * (1 + 1e-9):
            return None
        limit = f"your program sends {sent:,.0f} numbers from each device, the limit is {max_numbers:,.0f}."
        return self._named() or limit

    @statement
    def copies_as_given(self) -> str | None:
        """What is gathered has no more bits on the way than the arguments have; partial sums may."""
        for c in self.logical:
            if c.kind == "AllGather" and bytes_each(c.dtype) > bytes_each(self.setting.widest):
                return (
                    f"sums may travel in more bits, and copies need not: an {c.kind} of your program "
                    f"carries {c.dtype}, and the arguments are {self.setting.widest}."
                )

    @statement
    def gathers_no_sum(self, *axes: str) -> str | None:
        """What a ReduceScatter along these axes, or any, leaves on a device is not gathered again along them, unless for another sum."""
        sent = self.logical
        for i, (c, feed) in enumerate(zip(sent, sent.feeds)):
            back = feed is not None and sent[feed].kind == "ReduceScatter" and set(sent[feed].axes) & set(c.axes)
            last = all(later.kind != "ReduceScatter" for later in sent[i:])
            if c.kind == "AllGather" and back and last and set(axes or c.axes) & set(c.axes):
                return "a sum that is scattered and then gathered is an AllReduce in two halves: keep the part that the scatter leaves."

    @statement
    def multiplies(self, max_flops: float) -> str | None:
        """The products of a device take no more FLOPs than these, loops run out."""
        flops = self.reading.flops
        if flops is None:
            raise Unclear(ENDLESS)
        if flops > max_flops:
            return (
                f"the products on each device take {flops / max_flops:.3g} times the FLOPs that are asked for: "
                "is more multiplied than is kept, or the same twice?"
            )

    @statement
    def refuses(self, message: str, is_bad: Callable[[trace.Sent], bool]) -> str | None:
        """The program does not send so: a function of its logical collectives, in the program's order."""
        return message if is_bad(self.logical) else None

    def in_tiers(self, inside: float, across: float, too_much: str) -> None:
        """No collective runs over both axes; a device sends `across` bytes at most along X, between hosts, and `inside` in its own.

        too_much  what is said where more crosses between hosts
        """
        self.refuses(FLAT, lambda _: any(len(c.axes) > 1 for c in self.reading.sent))
        self.refuses(too_much, lambda _: self.reading.sent.along("X") > across * (1 + 1e-9))
        self.refuses(FULL_HOSTS, lambda _: self.reading.sent.wire - self.reading.sent.along("X") > inside * (1 + 1e-9))

    def only(self, *names: str) -> None:
        """The program sends by these alone, as jax.lax calls them: "ppermute"."""
        self._only(names, kinds_of(names))

    @statement
    def _only(self, names: tuple[str, ...], kinds: set[str]) -> str | None:
        if other := {k: n for k, n in self.logical.kinds.items() if k not in kinds}:
            return self._named() or f"use {' and '.join(names)} alone: your program sends {_listed(other)}."

    @statement
    def to_neighbours(self) -> str | None:
        """Whatever the program permutes goes to the next device of a ring, up or down, as links do."""
        far = self.reading.far
        return f"a link leads to a neighbour, and one of your permutes goes {far} places on." if far > 1 else None

    @statement
    def multiplies_what_comes(self) -> str | None:
        """Some product waits for no permute, some for one, some for two, and so on to the last: each block meets its own at once."""
        waits = set(self.reading.waits())
        if waits != set(range(len(waits))):
            return "multiply each block as soon as it is there: a product of your program waits for blocks that come later."

    @statement
    def keeps_cut(self, *dims: str) -> str | None:
        """No collective makes all of these dimensions whole at once: `keeps_cut("D", "F")` for W[D_X, F_Y], which no device has whole."""
        specs = [a for a in map(sharded_array.parse, self.setting.ins) if set(dims) <= set(a.dims)]
        axes = {axis for a in specs for d in dims for axis in a.at(d)}
        sizes = [self.setting.sizes[d] for d in dims]
        for c in self.logical:
            if axes <= set(c.axes) and all(c.out.count(n) >= sizes.count(n) for n in sizes):
                names, along, over = (" and ".join(x) for x in ([a.name for a in specs], dims, c.axes))
                return f"no device is to have {names} whole along {along}, and an {c.kind} over {over} makes {c.dtype}{list(c.out)}."

    @property
    def logical(self) -> trace.Sent:
        """What is sent, as logical collectives; ValueError if the program does not say exactly."""
        if self.reading.sent.doubts:
            raise Unclear(f"what your program sends cannot be counted exactly. {self.reading.sent.doubts[0]}")
        return trace.merged(self.reading.sent)

    def _named(self) -> str | None:
        sent = self.logical.kinds
        if m := either([m for m, kinds in self.mistakes if kinds == sent]):
            return f"{m}{'' if m.endswith(('.', '?', '!')) else '.'} (Your program sends {_listed(sent)}.)"


def kinds_of(names) -> set[str]:
    """The kinds of collectives that have these names; ValueError for a name that none has."""
    if unknown := [n for n in names if n not in NAMES]:
        raise ValueError(f"{unknown[0]!r} is no collective: there are {', '.join(NAMES)}")
    return {NAMES[n] for n in names}


def _listed(kinds: Mapping[str, int]) -> str:
    return str({k: kinds[k] for k in KINDS if k in kinds}) if kinds else "nothing"
