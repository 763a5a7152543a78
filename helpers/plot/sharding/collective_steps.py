"""The frames of a collective as drawings: small multiples for a notebook, and steps under a slider for a page.

SVG text without any library; its ink is the page's own colour, so that dark mode needs nothing else.
"""

from helpers.costs.sharding.collective_steps import CollectiveFilm, Frame
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame as inside, rect, word

BOX, GAP, ROW, HEAD, FOOT = 66, 30, 24, 42, 6


def size(film: CollectiveFilm) -> tuple[int, int]:
    """Width and height of one frame."""
    n = film.axis.n
    return n * BOX + (n + 1) * GAP, HEAD + n * ROW + FOOT


def drawing(film: CollectiveFilm, frame: Frame) -> str:
    """What is inside of one frame's <svg>: a box for each device, a row for each block, arrows for what is sent."""
    n, out = film.axis.n, []
    for d in range(n):
        out += [
            word(_left(d) + BOX / 2, HEAD - 6, f"device {d}", "middle"),
            rect(_left(d), HEAD, BOX, n * ROW, edge=0.4),
        ]
        out += _grid(film, frame, d) if film.kind == "AllToAll" else _column(film, frame, d)
    out += _counted(film, frame) if film.kind == "AllToAll" else _arrows(film, frame)
    return inside(frame.label, out)


def strip(film: CollectiveFilm) -> str:
    """All frames in one SVG, two side by side where they are small."""
    w, h = size(film)
    columns = 2 if film.axis.n <= 4 else 1
    down = -(-len(film.frames) // columns)
    parts = [
        f'<svg x="{k % columns * w}" y="{k // columns * h}" width="{w}" height="{h}">{drawing(film, frame)}</svg>'
        for k, frame in enumerate(film.frames)
    ]
    box = f'width="{columns * w}" height="{down * h}" viewBox="0 0 {columns * w} {down * h}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(parts)}</svg>'


def _left(d: int) -> int:
    return GAP + d * (BOX + GAP)


def _column(film: CollectiveFilm, frame: Frame, d: int) -> list[str]:
    """The rows of one device: a block held is filled, one that is sent or multiplied in this step has a thick edge."""
    out, n, works = [], film.axis.n, frame.works[d]
    sent = {s.block for s in frame.sends if s.src == d}
    for b in range(n):
        text, share = _cell(film, frame, d, b)
        x, y = _left(d) + 2, HEAD + b * ROW + 2
        look = {"fill_opacity": round(share, 2), "stroke_dasharray": "4 2" if b in works else None}
        if text:
            out.append(rect(x, y, BOX - 4, ROW - 4, COLOURS[b % 6], 2 if b in sent or b in works else 0.6, **look))
            out.append(word(x + BOX / 2 - 2, y + 15, text, "middle"))
    return out


def _cell(film: CollectiveFilm, frame: Frame, d: int, b: int) -> tuple[str, float]:
    """What is written in a cell, and how dark it is: the share of the partial sums that are in it."""
    n, held = film.axis.n, frame.held[d]
    if film.kind == "AllGather-matmul":
        if b in frame.works[d]:
            return f"In{b}·W_in", 0.2
        return (f"Tmp{b}", 0.55) if b in frame.done[d] else (f"In{b}", 0.2) if b in held else ("", 0)
    if film.kind == "AllGather":
        return (f"A{b}", 0.4) if b in held else ("", 0)
    parts = held.get(b, frozenset())
    making = b in frame.works[d]
    if not parts and not making:
        return "", 0
    text = summed(parts, n) + ("+" if parts and making else "") + (f"{d}?" if making else "")
    return text, 0.1 + 0.5 * len(parts) / n


def summed(parts: frozenset[int], n: int) -> str:
    """The devices whose partial sums are in a block, all of them as Σ, a long run round the ring by its ends.

    >>> summed(frozenset({2}), 4), summed(frozenset({0, 3}), 4), summed(frozenset({0, 1, 2, 3}), 4)
    ('2', '0+3', 'Σ')
    >>> summed(frozenset({0, 1, 6, 7}), 8)
    '6…1'
    """
    if len(parts) == n:
        return "Σ"
    if len(parts) <= 3:
        return "+".join(map(str, sorted(parts)))
    first = next(d for d in sorted(parts) if (d - 1) % n not in parts)
    return f"{first}…{(first + len(parts) - 1) % n}"


def _arrows(film: CollectiveFilm, frame: Frame) -> list[str]:
    """An arrow in the block's row for every send."""
    return [
        _arrow(*span, HEAD + s.block * ROW + ROW / 2, s.way)
        for s in frame.sends
        for span in _spans(s.src, s.dst, s.way, 0.6)
    ]


def _spans(src: int, dst: int, way: int, reach: float) -> list[tuple[float, float]]:
    """From where to where an arrow reaches; one round the back leaves on one side and comes in on the other."""
    start, end = _left(src) + (BOX + 2 if way > 0 else -2), _left(dst) + (-3 if way > 0 else BOX + 3)
    edge = GAP * reach * way
    return [(start, end)] if (end - start) * way > 0 else [(start, start + edge), (end - edge, end)]


def _arrow(x: float, to: float, y: float, way: int) -> str:
    line = element("path", d=f"M{x:g} {y:g}H{to - 4 * way:g}", stroke="currentColor", stroke_width=1.6)
    return line + element("path", d=f"M{to:g} {y:g}l{-7 * way} -4v8z")


def _grid(film: CollectiveFilm, frame: Frame, d: int) -> list[str]:
    """All blocks of an AllToAll as a square, row = from, column = for; what the device holds is filled, a half by half."""
    out, n = [], film.axis.n
    w = BOX / n
    sent = {s.block for s in frame.sends if s.src == d}
    for (a, b), parts in sorted(frame.held[d].items()):
        x, y = _left(d) + b * w, HEAD + a * ROW
        half = 0.5 if len(parts) == 1 else 1
        down = (ROW / 2 - 1) * (half < 1 and parts == {-1})
        edge = 1.8 if (a, b) in sent else 0.4
        out.append(rect(x + 1, y + 1 + down, w - 2, (ROW - 2) * half, COLOURS[b % 6], edge, fill_opacity=0.4))
        if n <= 4 and half == 1:
            out.append(word(x + w / 2, y + 16, f"{a}{b}", "middle", 9))
    return out


def _counted(film: CollectiveFilm, frame: Frame) -> list[str]:
    """One arrow for each link and direction, with the number of blocks that cross it."""
    links: dict[tuple[int, int, int], float] = {}
    for s in frame.sends:
        links[s.src, s.dst, s.way] = links.get((s.src, s.dst, s.way), 0) + s.share
    out = []
    for (src, dst, way), blocks in links.items():
        y = HEAD + film.axis.n * ROW / 2 - 12 * way
        label = f"{int(blocks)}{'½' if blocks % 1 else ''}".removeprefix("0" if blocks < 1 else "x")
        for a, b in _spans(src, dst, way, 0.7):
            out += [_arrow(a, b, y, way), word((a + b) / 2, y - 6, label, "middle")]
    return out
