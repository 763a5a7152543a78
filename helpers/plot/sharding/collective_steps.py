"""The frames of a collective as drawings: small multiples for a notebook, and steps under a slider for a page.

SVG text without any library; its ink is the page's own colour, so that dark mode needs nothing else.
"""

from helpers.costs.sharding.collective_steps import Film, Frame

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
BOX, GAP, ROW, HEAD, FOOT = 66, 30, 24, 42, 6


def size(film: Film) -> tuple[int, int]:
    """Width and height of one frame."""
    n = film.axis.n
    return n * BOX + (n + 1) * GAP, HEAD + n * ROW + FOOT


def drawing(film: Film, frame: Frame) -> str:
    """What is inside of one frame's <svg>: a box for each device, a row for each block, arrows for what is sent."""
    n = film.axis.n
    out = [
        f'<g font-family="sans-serif" font-size="13" fill="currentColor"><text x="{GAP}" y="13">{frame.label}</text>'
    ]
    for d in range(n):
        left = _left(d)
        out.append(f'<text x="{left + BOX / 2}" y="{HEAD - 6}" text-anchor="middle">device {d}</text>')
        out.append(_outline(left, HEAD, BOX, n * ROW, 0.4))
        out += _grid(film, frame, d) if film.kind == "AllToAll" else _column(film, frame, d)
    out += _counted(film, frame) if film.kind == "AllToAll" else _arrows(film, frame)
    return "".join(out) + "</g>"


def strip(film: Film) -> str:
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


def _outline(x: float, y: float, w: float, h: float, weight: float) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="none" stroke="currentColor" stroke-width="{weight}"/>'


def _column(film: Film, frame: Frame, d: int) -> list[str]:
    """The rows of one device: a block held is filled, one that is sent or multiplied in this step has a thick edge."""
    out, n = [], film.axis.n
    sent = {s.block for s in frame.sends if s.src == d}
    for b in range(n):
        text, share = _cell(film, frame, d, b)
        if not text:
            continue
        x, y, colour = _left(d) + 2, HEAD + b * ROW + 2, PALETTE[b % 6]
        bold = b in sent or b in frame.works[d]
        out.append(
            f'<rect x="{x}" y="{y}" width="{BOX - 4}" height="{ROW - 4}" fill="{colour}" fill-opacity="{share:.2g}" '
            f'stroke="currentColor" stroke-width="{2 if bold else 0.6}"{_dashed(b in frame.works[d])}/>'
            f'<text x="{x + BOX / 2 - 2}" y="{y + 15}" text-anchor="middle">{text}</text>'
        )
    return out


def _dashed(yes: bool) -> str:
    return ' stroke-dasharray="4 2"' if yes else ""


def _cell(film: Film, frame: Frame, d: int, b: int) -> tuple[str, float]:
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


def _arrows(film: Film, frame: Frame) -> list[str]:
    """An arrow in the block's row for every send; those round the back leave on one side and come in on the other."""
    out = []
    for s in frame.sends:
        y = HEAD + s.block * ROW + ROW / 2
        start = _left(s.src) + (BOX + 2 if s.way > 0 else -2)
        end = _left(s.dst) + (-3 if s.way > 0 else BOX + 3)
        if (end - start) * s.way > 0:
            out.append(_arrow(start, end, y, s.way))
        else:
            edge = GAP * 0.6 * s.way
            out += [_arrow(start, start + edge, y, s.way), _arrow(end - edge, end, y, s.way)]
    return out


def _arrow(x: float, to: float, y: float, way: int, weight: float = 1.6) -> str:
    return (
        f'<path d="M{x:g} {y:g}H{to - 4 * way:g}" stroke="currentColor" stroke-width="{weight}"/>'
        f'<path d="M{to:g} {y:g}l{-7 * way} -4v8z"/>'
    )


def _grid(film: Film, frame: Frame, d: int) -> list[str]:
    """All blocks of an AllToAll as a square, row = from, column = for; what the device holds is filled, a half by half."""
    out, n = [], film.axis.n
    w = BOX / n
    sent = {s.block for s in frame.sends if s.src == d}
    for (a, b), parts in sorted(frame.held[d].items()):
        x, y = _left(d) + b * w, HEAD + a * ROW
        half = 0.5 if len(parts) == 1 else 1
        out.append(
            f'<rect x="{x + 1:g}" y="{y + 1 + (ROW / 2 - 1) * (half < 1 and parts == {-1}):g}" width="{w - 2:g}" '
            f'height="{(ROW - 2) * half:g}" fill="{PALETTE[b % 6]}" fill-opacity=".4" '
            f'stroke="currentColor" stroke-width="{1.8 if (a, b) in sent else 0.4}"/>'
        )
        if n <= 4 and half == 1:
            out.append(f'<text x="{x + w / 2:g}" y="{y + 16}" font-size="9" text-anchor="middle">{a}{b}</text>')
    return out


def _counted(film: Film, frame: Frame) -> list[str]:
    """One arrow for each link and direction, with the number of blocks that cross it."""
    links: dict[tuple[int, int, int], float] = {}
    for s in frame.sends:
        links[s.src, s.dst, s.way] = links.get((s.src, s.dst, s.way), 0) + s.share
    out = []
    for (src, dst, way), blocks in links.items():
        y = HEAD + film.axis.n * ROW / 2 - 12 * way
        start = _left(src) + (BOX + 2 if way > 0 else -2)
        end = _left(dst) + (-3 if way > 0 else BOX + 3)
        label = f"{int(blocks)}{'½' if blocks % 1 else ''}".removeprefix("0" if blocks < 1 else "x")
        if (end - start) * way > 0:
            spans = [(start, end)]
        else:
            edge = GAP * 0.7 * way
            spans = [(start, start + edge), (end - edge, end)]
        for a, b in spans:
            out.append(_arrow(a, b, y, way))
            out.append(f'<text x="{(a + b) / 2:g}" y="{y - 6:g}" text-anchor="middle">{label}</text>')
    return out
