"""Numbers as people read them, the only place where prefixes appear, and tables."""

from collections.abc import Sequence
from html import escape

_DECIMAL = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def _prefixed(x: float, unit: str, digits: int) -> str:
    if x == float("inf"):
        return "infinite"
    # 3 digits of 999.9 are 1000, which belongs to the next prefix: compare what will be printed.
    scale, prefix = next(((s, p) for s, p in _DECIMAL if float(f"{abs(x):.{digits}g}") >= s), _DECIMAL[-1])
    return f"{_digits(x / scale, digits)} {prefix}{unit}".rstrip()


def _digits(x: float, digits: int) -> str:
    rounded = float(f"{x:.{digits}g}")
    whole = len(str(int(abs(rounded)))) if abs(rounded) >= 1 else 1 if rounded else digits
    return f"{rounded:.{max(0, digits - whole)}f}" if abs(rounded) >= 0.1 or rounded == 0 else f"{rounded:.{digits}g}"


def seconds(x: float, digits: int = 3) -> str:
    """Seconds in the unit that reads best.

    >>> seconds(1.9241e-4), seconds(0.179), seconds(2e-9), seconds(86400)
    ('192 µs', '179 ms', '2.00 ns', '86400 s')
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if float(f"{abs(x):.{digits}g}") >= scale:
            return f"{_digits(x / scale, digits)} {unit}" if x != float("inf") else "for ever"
    return "0 s" if x == 0 else f"{_digits(x * 1e9, digits)} ns"


def bytes(x: float, digits: int = 3) -> str:
    """Decimal bytes: GB is 1e9.

    >>> bytes(2**34), bytes(300e6), bytes(12)
    ('17.2 GB', '300 MB', '12 B')
    """
    return str(int(x)) + " B" if x == int(x) and x < 1000 else _prefixed(x, "B", digits)


def ibytes(x: float, digits: int = 3) -> str:
    """Binary bytes: GiB is 2**30.

    >>> ibytes(2**34), ibytes(300e6)
    ('16.0 GiB', '286 MiB')
    """
    for power, prefix in ((50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"), (0, "")):
        if x >= 2**power or power == 0:
            return f"{_digits(x / 2**power, digits)} {prefix}B"


def flops(x: float, digits: int = 3) -> str:
    """FLOPs.

    >>> flops(68719476736)
    '68.7 GFLOPs'
    """
    return _prefixed(x, "FLOPs", digits)


def flops_rate(x: float, digits: int = 3) -> str:
    """FLOPs per second.

    >>> flops_rate(1.97e14)
    '197 TFLOPs/s'
    """
    return _prefixed(x, "FLOPs/s", digits)


def rate(x: float, digits: int = 3) -> str:
    """Bytes per second, decimal.

    >>> rate(8.1e11), rate(9.999e11)
    ('810 GB/s', '1.00 TB/s')
    """
    return _prefixed(x, "B/s", digits)


def sci(x: float, digits: int = 3) -> str:
    """Scientific notation, as the constants of the field are written.

    >>> sci(1.97e14), sci(8.1e11)
    ('1.97e14', '8.1e11')
    """
    mantissa, _, exponent = f"{x:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def guessed(yours, right) -> str:
    """What is said of a reader's guess, a number or a word, once the answer is there.

    >>> guessed(6, 3.0), guessed("math", "hbm"), guessed("hbm", "hbm"), guessed(None, 3.0)
    ('your guess is 2 times that', 'not "math"', 'as you guessed', 'no guess yet')
    """
    if yours is None:
        return "no guess yet"
    if yours == right:
        return "as you guessed"
    return f'not "{yours}"' if isinstance(right, str) else f"your guess is {yours / right:.3g} times that"


def tick(claim: str, holds) -> str:
    """A claim with a tick if it holds; where it does not, as in arithmetic of fewer bits, with a cross.

    >>> tick("as on one device", True), tick("as on one device", False)
    ('✓ as on one device', '✗ not here: as on one device')
    """
    return f"✓ {claim}" if holds else f"✗ not here: {claim}"


def columns(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """The lines of a table, its columns below each other.

    right  all but the first column end together, as numbers do

    >>> columns([("", "FLOPs"), ("add", "8")], right=True)
    ['     FLOPs', 'add      8']
    """
    wide = [max(map(len, column)) for column in zip(*rows)]
    aligned = ([c.rjust(w) if right and i else c.ljust(w) for i, (c, w) in enumerate(zip(row, wide))] for row in rows)
    return ["  ".join(cells).rstrip() for cells in aligned]


class Table:
    """A record that prints as a table: aligned text in a terminal, HTML in a notebook.

    head     the headings of `rows()`
    title    a line above it, or ""
    below    lines that follow it
    reasons  sentences in a list at its end
    right    as in `columns`
    """

    head: Sequence[str]
    title = ""
    below = reasons = ()
    right = False

    def rows(self) -> list[tuple[str, ...]]:
        """The table, line by line."""
        raise NotImplementedError

    def __str__(self) -> str:
        rows = self.rows()
        table = columns([self.head, *rows], self.right) if rows else []
        return "\n".join([*filter(None, [self.title]), *table, *self.below, *(f"* {r}" for r in self.reasons)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f'<th scope="col">{escape(h)}</th>' if h else "<td></td>" for h in self.head)
        body = "".join(
            f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(c)}</td>" for c in cells)}</tr>'
            for first, *cells in rows
        )
        table = f'<table class="table"><tr>{head}</tr>{body}</table>' if rows else ""
        above, *below = (f"<p>{escape(line)}</p>" if line else "" for line in (self.title, *self.below))
        reasons = "".join(f"<li>{escape(r)}</li>" for r in self.reasons)
        return above + table + "".join(below) + (f"<ul>{reasons}</ul>" if reasons else "")
