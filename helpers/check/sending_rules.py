"""What must hold of what a sharded program sends and multiplies, and of how it leaves arrays cut: the statements of `Program` on that."""

from collections.abc import Callable, Mapping

from helpers import show, trace
from helpers.costs.sharding import sharded_array
from helpers.costs.sharding.collectives import KINDS

from .judged_program import ENDLESS
from .likely_mistakes import either
from .raised import Unclear
from .traced_program import Reading, Setting

NAMES = {
    "all_gather": "AllGather",
    "psum_scatter": "ReduceScatter",
    "psum": "AllReduce",
    "pmean": "AllReduce",
    "all_to_all": "AllToAll",
    "ppermute": "Permute",
} | {k: k for k in KINDS}


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
        self._kinds(kinds)
        self.todo.append(lambda: self._off(kinds) if self.logical.kinds != kinds else None)

    def sends_bytes(self, at_most: float) -> None:
        """Each device sends no more than this many bytes, by the ring algorithms."""

        def run():
            if self.logical.wire <= at_most * (1 + 1e-9):
                return None
            widest = max(self.setting.types, key=sharded_array.bytes_each)
            wide = [
                c.dtype for c in self.logical if sharded_array.bytes_each(c.dtype) > sharded_array.bytes_each(widest)
            ]
            return (
                self._named()
                or f"your program sends {show.bytes(self.logical.wire)} from each device, the limit is {show.bytes(at_most)}."
                + (f" Some of it travels as {wide[0]}, and the arguments are {widest}." if wide else "")
            )

        self.todo.append(run)

    def sends_numbers(self, at_most: float) -> None:
        """Each device sends no more than this many numbers, of whatever type, by the ring algorithms: sums may travel in more bits."""

        def run():
            sent = sum(
                trace.Sent([c], self.logical.sizes).wire / sharded_array.bytes_each(c.dtype) for c in self.logical
            )
            if sent <= at_most * (1 + 1e-9):
                return None
            return self._named() or (
                f"your program sends {sent:,.0f} numbers from each device, the limit is {at_most:,.0f}."
            )

        self.todo.append(run)

    def copies_as_given(self) -> None:
        """What is gathered has no more bits on the way than the arguments have; partial sums may."""

        def run():
            widest = max(self.setting.types, key=sharded_array.bytes_each)
            for c in self.logical:
                if c.kind == "AllGather" and sharded_array.bytes_each(c.dtype) > sharded_array.bytes_each(widest):
                    return (
                        f"sums may travel in more bits, and copies need not: an {c.kind} of your program "
                        f"carries {c.dtype}, and the arguments are {widest}."
                    )

        self.todo.append(run)

    def gathers_no_sum(self, *axes: str) -> None:
        """What a ReduceScatter along these axes, or any, leaves on a device is not gathered again along them, unless for another sum."""

        def run():
            sent = self.logical
            for i, (c, feed) in enumerate(zip(sent, sent.feeds)):
                back = feed is not None and sent[feed].kind == "ReduceScatter" and set(sent[feed].axes) & set(c.axes)
                last = all(later.kind != "ReduceScatter" for later in sent[i:])
                if c.kind == "AllGather" and back and last and set(axes or c.axes) & set(c.axes):
                    return "a sum that is scattered and then gathered is an AllReduce in two halves: keep the part that the scatter leaves."

        self.todo.append(run)

    def multiplies(self, at_most: float) -> None:
        """The products of a device take no more FLOPs than these, loops run out."""

        def run():
            flops = self.reading.flops
            if flops is None:
                raise Unclear(ENDLESS)
            if flops > at_most:
                return (
                    f"the products on each device take {flops / at_most:.3g} times the FLOPs that are asked for: "
                    "is more multiplied than is kept, or the same twice?"
                )

        self.todo.append(run)

    def refuses(self, message: str, bad: Callable[[trace.Sent], bool]) -> None:
        """The program does not send so: a function of its logical collectives, in the program's order."""
        self.todo.append(lambda: message if bad(self.logical) else None)

    def only(self, *names: str) -> None:
        """The program sends by these alone, as jax.lax calls them: "ppermute"."""
        kinds = self._kinds(names)

        def run():
            other = {k: n for k, n in self.logical.kinds.items() if k not in kinds}
            return (
                self._named() or f"use {' and '.join(names)} alone: your program sends {_kinds(other)}."
                if other
                else None
            )

        self.todo.append(run)

    def to_neighbours(self) -> None:
        """Whatever the program permutes goes to the next device of a ring, up or down, as links do."""

        def run():
            far = self.reading.far
            return f"a link leads to a neighbour, and one of your permutes goes {far} places on." if far > 1 else None

        self.todo.append(run)

    def multiplies_what_comes(self) -> None:
        """Some product waits for no permute, some for one, some for two, and so on to the last: each block meets its own at once."""

        def run():
            if (waits := set(self.reading.waits())) == set(range(len(waits))):
                return None
            return "multiply each block as soon as it is there: a product of your program waits for blocks that come later."

        self.todo.append(run)

    def keeps_cut(self, *dims: str) -> None:
        """No collective makes all of these dimensions whole at once: `keeps_cut("D", "F")` for W[D_X, F_Y], which no device has whole."""

        def run():
            specs = [a for a in map(sharded_array.parse, self.setting.ins) if set(dims) <= set(a.dims)]
            axes = {axis for a in specs for d in dims for axis in a.at(d)}
            sizes = [self.setting.sizes[d] for d in dims]
            for c in self.logical:
                if axes <= set(c.axes) and all(c.out.count(n) >= sizes.count(n) for n in sizes):
                    names, along, over = (" and ".join(x) for x in ([a.name for a in specs], dims, c.axes))
                    return f"no device is to have {names} whole along {along}, and an {c.kind} over {over} makes {c.dtype}{list(c.out)}."
            return None

        self.todo.append(run)

    @property
    def logical(self) -> trace.Sent:
        """What is sent, as logical collectives; ValueError if the program does not say exactly."""
        if self.reading.sent.doubts:
            raise Unclear(f"what your program sends cannot be counted exactly. {self.reading.sent.doubts[0]}")
        return trace.merged(self.reading.sent)

    def _off(self, kinds) -> str:
        return self._named() or f"expected {_kinds(kinds)}, your program sends {_kinds(self.logical.kinds)}."

    def _named(self) -> str | None:
        sent = self.logical.kinds
        if not (m := either([m for m, kinds in self.mistakes if kinds == sent])):
            return None
        return f"{m}{'' if m.endswith(('.', '?', '!')) else '.'} (Your program sends {_kinds(sent)}.)"

    def _kinds(self, names) -> set[str]:
        if unknown := [n for n in names if n not in NAMES]:
            raise ValueError(f"{unknown[0]!r} is no collective: there are {', '.join(NAMES)}")
        return {NAMES[n] for n in names}


def _kinds(kinds: Mapping[str, int]) -> str:
    return str({k: kinds[k] for k in KINDS if k in kinds}) if kinds else "nothing"
